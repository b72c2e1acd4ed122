//! `c14-024-port-info-ext-speeds`: a port stores LinkSpeedExtEnabled.
//!
//! If the port has extended speeds, the test sets the bit of the AttributeModifier that declares support for them. A
//! Set enables another selection of the supported speeds, which includes the active speed; a Get must return it. A
//! second Set restores the original value. The port refuses Sets of unsupported speeds without a change. The value 30,
//! no extended speed, is legal. Reading: the test does not apply if there is no other selection, or if extended speeds
//! are disabled. After a Set of 30, a Get may return 30 or 0. False alarm: another SM that writes PortInfo during the
//! test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::LinkSpeedExt;
use verbatim_wire::{PortInfo, Status};

use crate::management::keys;

const PORT: Label<PortInfo> = Label::new("PortInfo");
const FOUND: Label<PortInfo> = Label::new("PortInfo as found, to whoever knows extended speeds");
const SET: Label<PortInfo> = Label::new("set other extended speeds");
const AFTER: Label<PortInfo> = Label::new("after setting other extended speeds");
const BACK: Label<PortInfo> = Label::new("set the extended speeds found");
const LAST: Label<PortInfo> = Label::new("after setting the extended speeds found");

const NONE: Label<PortInfo> = Label::new("switch extended speeds off");
const AFTER_NONE: Label<PortInfo> = Label::new("after switching extended speeds off");
const ON: Label<PortInfo> = Label::new("switch extended speeds on again");
const WRONG: Label<PortInfo> = Label::new("set extended speeds that are not supported");
const AFTER_WRONG: Label<PortInfo> = Label::new("after setting extended speeds that are not supported");

/// LinkSpeedExtEnabled: no extended speed.
const DISABLED: LinkSpeedExt = LinkSpeedExt(30);
/// The value that some ports return for [`DISABLED`].
const NONE_SHOWN: LinkSpeedExt = LinkSpeedExt(0);
/// CapabilityMask: the port has extended speeds.
const EXTENDED_SPEEDS: u32 = 1 << 14;
/// AttributeModifier: the requester supports extended speeds.
const KNOWS: u32 = 1 << 31;

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-ext-speeds",
    aliases: &[],
    revision: 3,
    about: "PortInfo keeps another legal LinkSpeedExtEnabled, and refuses unsupported ones.",
    reading: "The active speed stays enabled, except in the last Set: code 30 (no extended speed) reads back as 30 or \
        0. An unsupported speed is refused with 0x001C. The AttributeModifier tells the port that the requester knows \
        extended speeds.",
    statements: &["C14-24", "C14-26", "C13-24"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

/// Returns another selection of the supported speeds that includes the active speed, or `None` if there is no other.
fn other(info: &PortInfo) -> Option<LinkSpeedExt> {
    let (enabled, supported) = (info.link_speed_ext_enabled().0, info.link_speed_ext_supported().0);
    let active = info.link_speed_ext_active().0;
    let sets = (1..=supported).filter(|set| set & !supported == 0 && set & active == active && *set != enabled);
    sets.filter(|_| (1..30).contains(&enabled)).max().map(LinkSpeedExt)
}

/// Returns values with an unsupported speed: the supported speeds plus each unsupported speed, and 29, the largest
/// value without a special meaning.
fn unsupported(info: &PortInfo) -> Vec<LinkSpeedExt> {
    let supported = info.link_speed_ext_supported().0;
    let with_one = (0..5).map(|bit| supported | 1 << bit);
    let mut sets: Vec<u8> = with_one.chain([29]).collect();
    sets.retain(|set| set & !supported != 0 && (1..DISABLED.0).contains(set));
    sets.dedup();
    sets.into_iter().map(LinkSpeedExt).collect()
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    if !t.get(PORT, key)?.capability_mask().has(EXTENDED_SPEEDS) {
        return Ok(());
    }
    let port = t.guard_parts(FOUND, key, &[KNOWS])?;
    let found = *port.found();
    let Some(speeds) = other(&found) else { return Ok(()) };
    // A port may treat both fields as one, so the other field keeps its original value.
    let with = |speeds| {
        port.quiet().change(|info| {
            info.with_link_speed_ext_enabled(speeds)
                .with_link_speed_ext_enabled_2(found.link_speed_ext_enabled_2())
        })
    };
    let (set, back) = (with(speeds), with(found.link_speed_ext_enabled()));
    t.set_at(SET, &port, KNOWS, set)?;
    t.get_at(AFTER, key, KNOWS)?;
    t.set_at(BACK, &port, KNOWS, back)?;
    t.get_at(LAST, key, KNOWS)?;
    for speeds in unsupported(&found) {
        t.set_at(WRONG, &port, KNOWS, with(speeds))?;
        t.get_at(AFTER_WRONG, key, KNOWS)?;
    }
    let (none, on) = (with(DISABLED), with(found.link_speed_ext_enabled()));
    t.set_at(NONE, &port, KNOWS, none)?;
    t.get_at(AFTER_NONE, key, KNOWS)?;
    t.set_at(ON, &port, KNOWS, on)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    if !port.capability_mask().has(EXTENDED_SPEEDS) {
        f.not_applicable = Some("the port reports no extended speeds".into());
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    if other(&found).is_none() {
        f.not_applicable = Some(format!(
            "the port supports no other set of extended speeds that could be tried: enabled {}, supported {}",
            found.link_speed_ext_enabled(),
            found.link_speed_ext_supported()
        ));
        return Ok(());
    }
    t.not_judged(ON);
    let done = |label| t.each(label).filter(|of| !of.is_busy() && of.answer().is_some());
    for (set, after) in done(WRONG).zip(done(AFTER_WRONG)) {
        f.status("C13-24", set, &[Status::INVALID_FIELD]);
        f.same_fields("C13-24", after, &["LinkSpeedExtEnabled"], &found)?;
    }
    if unsupported(&found).is_empty() {
        f.goes_without(&["C13-24"], "the port supports all extended speeds");
    }
    for (set, get) in [(SET, AFTER), (BACK, LAST), (NONE, AFTER_NONE)] {
        let (_, mut wanted) = t.asked(set)?;
        let shown = t.answer(get).unwrap_or(wanted);
        if (wanted.link_speed_ext_enabled(), shown.link_speed_ext_enabled()) == (DISABLED, NONE_SHOWN) {
            let text = "LinkSpeedExtEnabled 30, no extended speed, reads back as 0";
            f.observe_ambiguous(text, &[t.exchange(get)?]);
            wanted = wanted.with_link_speed_ext_enabled(NONE_SHOWN);
        }
        // A returned 0 shows that the value 30 is in effect, so `obeyed` need not compare the field.
        let looked_at: &[_] = if wanted.link_speed_ext_enabled() == NONE_SHOWN {
            &[]
        } else {
            &["LinkSpeedExtEnabled"]
        };
        keys::obeyed(t, f, "C14-26", (&found, set), (get, looked_at))?;
        f.same_fields("C14-24", t.exchange(get)?, &["LinkSpeedExtEnabled"], &wanted)?;
    }
    Ok(())
}

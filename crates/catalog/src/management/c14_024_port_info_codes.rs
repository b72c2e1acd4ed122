//! `c14-024-port-info-codes`: a port replaces the code for all supported values by those values, and stores the
//! optional components that it has.
//!
//! One Set has the codes for all widths and all speeds, and new values of InitType and McastPkeyTrapSuppressionEnabled
//! if CapabilityMask has them. A Get must return LinkWidthSupported and LinkSpeedSupported as the enabled values, and
//! the other two as set. In simulated time the test then sets undefined codes of PortState: the port refuses them with
//! 0x001C and does not change. On hardware the test leaves out this step, because a defective port might take the link
//! down. Reading: the active width and speed are supported, so the link does not change. False alarm: another SM that
//! writes PortInfo during the test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{LinkSpeeds, LinkWidths, PortInfo, PortState, Status};

use crate::management::adapter::{self, NODE};
use crate::management::keys;

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set the codes of all, and optional components");
const AFTER: Label<PortInfo> = Label::new("after setting the codes of all");
const SET_STATE: Label<PortInfo> = Label::new("set a PortState that is none");
const AFTER_STATE: Label<PortInfo> = Label::new("after setting a PortState that is none");

/// CapabilityMask: the port has InitType (REINIT), or suppression of multicast P_Key traps.
const REINIT: u32 = 1 << 18;
const TRAP_SUPPRESSION: u32 = 1 << 29;
/// LinkWidthEnabled and LinkSpeedEnabled: the codes for all supported values.
const ALL_WIDTHS: LinkWidths = LinkWidths(0xFF);
const ALL_SPEEDS: LinkSpeeds = LinkSpeeds(0xF);
/// The undefined codes of PortState.
const RESERVED_STATES: core::ops::RangeInclusive<u8> = 5..=15;

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-codes",
    aliases: &[],
    revision: 2,
    about: "The codes of all widths and all speeds enable the supported ones; InitType and \
        McastPkeyTrapSuppressionEnabled keep the Set value if the port has them.",
    reading: "Optional components are not Set if CapabilityMask lacks them. Reserved values of PortState are tried \
        only in simulated time.",
    statements: &["C14-24", "C14-26", "C13-24"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn optional(found: &PortInfo) -> Vec<&'static str> {
    let has = |bit| found.capability_mask().has(bit);
    let all = [
        ("InitType", REINIT),
        ("McastPkeyTrapSuppressionEnabled", TRAP_SUPPRESSION),
    ];
    all.into_iter()
        .filter(|(_, bit)| has(*bit))
        .map(|(name, _)| name)
        .collect()
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let port = t.guard(FOUND, key)?;
    let found = *port.found();
    let has = optional(&found);
    let set = port.quiet().change(|info| {
        let info = info
            .with_link_width_enabled(ALL_WIDTHS)
            .with_link_speed_enabled(ALL_SPEEDS);
        let info = if has.contains(&"InitType") {
            info.with_init_type(info.init_type() ^ 0xF)
        } else {
            info
        };
        if has.contains(&"McastPkeyTrapSuppressionEnabled") {
            info.with_mcast_pkey_trap_suppression(info.mcast_pkey_trap_suppression() ^ 1)
        } else {
            info
        }
    });
    t.set(SET, &port, set)?;
    t.get(AFTER, key)?;
    if t.is_simulated() {
        for state in RESERVED_STATES {
            let set = port.quiet().change(|info| info.with_port_state(PortState(state)));
            t.set(SET_STATE, &port, set)?;
        }
        t.get(AFTER_STATE, key)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    let (_, asked) = t.asked(SET)?;
    let wanted = asked
        .with_link_width_enabled(found.link_width_supported())
        .with_link_speed_enabled(found.link_speed_supported());
    let mut names = vec!["LinkWidthEnabled", "LinkSpeedEnabled"];
    names.extend(optional(&found));
    keys::obeyed(t, f, "C14-26", (&found, SET), (AFTER, &names))?;
    f.same_fields("C14-24", t.exchange(AFTER)?, &names, &wanted)?;
    if t.has(SET_STATE) {
        for set in t.each(SET_STATE).filter(|set| !set.is_busy()) {
            f.status("C13-24", set, &[Status::INVALID_FIELD]);
        }
        f.same_fields("C13-24", t.exchange(AFTER_STATE)?, &["PortState"], &found)?;
    }
    Ok(())
}

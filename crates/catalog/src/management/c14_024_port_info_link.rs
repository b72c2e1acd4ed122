//! `c14-024-port-info-link` (C14_024_06_CA_02): a port stores the components of PortInfo for its link and its
//! addresses.
//!
//! One Set has other legal values of NeighborMTU, OperationalVLs, LinkWidthEnabled, LinkSpeedEnabled,
//! LinkDownDefaultState, LMC, LID and MasterSMLID. All other fields have their original values. A Get must return the
//! values of the Set. A second Set restores the original values, which a Get must return.
//!
//! Reading: a component without another legal value at this port stays unchanged. The addresses stay unchanged if the
//! rig reaches the device by its LID. They also stay if the port has no LID, because LID 0 cannot be restored. The
//! active width and speed stay enabled, so that the link does not change if it retrains. LinkDownDefaultState is Sleep
//! only until the next Get, because a link that goes down in that time stays down.
//!
//! Some ports apply NeighborMTU, OperationalVLs and LinkDownDefaultState only when their link goes down, which the
//! architecture does not forbid. If one of these fields keeps its original value and `link_down` allows it, the test
//! takes the link down. The field must then have changed. Without `link_down` the test does not apply. False alarm:
//! another SM that writes PortInfo during the test.

use core::time::Duration;

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Guarded, Need, Parameter, Step, Test, Tester};
use verbatim_wire::{Layout, Lid, LinkDownDefault, LinkSpeeds, LinkWidths, Mtu, PortInfo, PortState, Status, VlCap};

use crate::management::adapter::{self, NODE};
use crate::management::keys;

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set other values");
const AFTER: Label<PortInfo> = Label::new("after setting other values");
const BACK: Label<PortInfo> = Label::new("set the values found");
const LAST: Label<PortInfo> = Label::new("after setting the values found");
const DOWN: Label<PortInfo> = Label::new("set other values and take the link down");
const AFTER_DOWN: Label<PortInfo> = Label::new("after the link went down with other values");
const DOWN_BACK: Label<PortInfo> = Label::new("set the values found and take the link down");
const LAST_DOWN: Label<PortInfo> = Label::new("after the link went down with the values found");

/// The fields that a port may apply only when its link goes down.
const OF_THE_LINK: [&str; 3] = ["NeighborMTU", "OperationalVLs", "LinkDownDefaultState"];
/// The largest number of requests until the link is up again, and the pause between them.
const UP: (u32, Duration) = (20, Duration::from_millis(500));

/// The fields that the port must store.
const KEPT: [&str; 8] = [
    "NeighborMTU",
    "OperationalVLs",
    "LinkWidthEnabled",
    "LinkSpeedEnabled",
    "LinkDownDefaultState",
    "LMC",
    "LID",
    "MasterSMLID",
];

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-link",
    aliases: &["C14_024_06_CA_02"],
    revision: 4,
    about: "PortInfo keeps other legal values of NeighborMTU, OperationalVLs, LinkWidthEnabled, LinkSpeedEnabled, \
        LinkDownDefaultState, LMC, LID and MasterSMLID.",
    reading: "The active width and speed stay enabled. Addresses are not Set on a LID-routed rig or at a port without \
        a LID. LinkDownDefaultState is Sleep only until it is read back. The port may apply NeighborMTU, \
        OperationalVLs and LinkDownDefaultState only when the link goes down.",
    statements: &["C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[Parameter {
        name: "link_down",
        about: "1: the test may take the link down, to see which values the port applies only then; a subnet manager \
            must bring the link up again",
        range: (0, 1),
        simulated: 1,
        default: 0,
    }],
    procedure,
    judge,
};

/// Returns the set without one of its inactive members, or with one more supported member.
fn another(enabled: u8, supported: u8, active: u8) -> u8 {
    let bits = (0..8)
        .map(|bit| 1 << bit)
        .filter(|bit| supported & bit != 0 && active & bit == 0);
    let other = bits
        .map(|bit| enabled ^ bit)
        .find(|set| *set != 0 && *set & active != 0);
    other.unwrap_or(enabled)
}

/// Returns other speeds that include the slowest speed, which every port has, and the active speed.
fn other_speeds(info: &PortInfo) -> LinkSpeeds {
    let (enabled, supported) = (info.link_speed_enabled().0, info.link_speed_supported().0);
    let needed = info.link_speed_active().0 | 1;
    // Some 4-bit codes are reserved. The codes 1, 3, 5 and 7 are legal, and include the slowest speed.
    let legal = [1, 3, 5, 7].into_iter();
    let mut fits = legal.filter(|set| set & !supported == 0 && set & needed == needed && *set != enabled);
    LinkSpeeds(fits.next().unwrap_or(0))
}

/// Returns PortInfo with other explicit values in all tested components.
fn other(info: PortInfo, addresses: bool) -> PortInfo {
    let step = |code: u8, cap: u8| if code > 1 { code - 1 } else { (code + 1).min(cap) };
    let widths = another(
        info.link_width_enabled().0,
        info.link_width_supported().0,
        info.link_width_active().0,
    );
    let changed = info
        .with_neighbor_mtu(Mtu(step(info.neighbor_mtu().0, info.mtu_cap().0)))
        .with_operational_vls(VlCap(step(info.operational_vls().0, info.vl_cap().0)))
        .with_link_width_enabled(LinkWidths(widths))
        .with_link_speed_enabled(other_speeds(&info))
        .with_link_down_default_state(match info.link_down_default_state() {
            LinkDownDefault::POLLING => LinkDownDefault::SLEEP,
            _ => LinkDownDefault::POLLING,
        });
    if !addresses {
        return changed;
    }
    // All three bits of the LMC change.
    let lmc = 7 - info.lmc().min(7);
    // The low LMC bits of a base LID are 0, for the old and for the new LMC.
    let unicast = |lid: u16| {
        if lid < 0x4000 {
            Lid(lid + 0x4000)
        } else {
            Lid(lid - 0x3F00)
        }
    };
    changed
        .with_lmc(lmc)
        .with_lid(unicast(info.lid().0 & !0x7F | 0x80))
        .with_master_sm_lid(unicast(info.master_sm_lid().0))
}

/// Returns whether the addresses can be changed and restored.
fn has_addresses(info: &PortInfo) -> bool {
    info.lid().is_unicast() && info.master_sm_lid().is_unicast()
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let by_lid = t.is_lid_routed();
    let port = t.guard(FOUND, key)?;
    let found = *port.found();
    let changed = other(found, !by_lid && has_addresses(&found));
    let names = &KEPT;
    let with = |values: PortInfo| port.quiet().change(|info| info.with_fields_of(&values, names));
    let (set, back) = (with(changed), with(found));
    t.set(SET, &port, set)?;
    let after = t.get(AFTER, key)?;
    t.set(BACK, &port, back)?;
    t.get(LAST, key)?;
    if t.parameter("link_down") == 1 && !waiting(&found, &changed, &after).is_empty() {
        take_down(t, &port, (DOWN, AFTER_DOWN), changed)?;
        take_down(t, &port, (DOWN_BACK, LAST_DOWN), found)?;
    }
    Ok(())
}

/// Sets the link's fields in the Set that takes the link down, then reads the port until the link is up.
fn take_down(
    t: &mut Tester<'_>,
    port: &Guarded<PortInfo>,
    (set, get): (Label<PortInfo>, Label<PortInfo>),
    values: PortInfo,
) -> Step {
    let image = port.quiet().change(|info| {
        info.with_fields_of(&values, &OF_THE_LINK)
            .with_port_state(PortState::DOWN)
    });
    // The response may be lost when the link goes down.
    t.set_once(set, port, (t.key(), 0), image)?;
    for _ in 0..UP.0 {
        let shown = t.ask_at(get, t.key(), 0)?;
        if shown.is_some_and(|answer| answer.value.port_state() != PortState::DOWN) {
            break;
        }
        t.pause(UP.1)?;
    }
    Ok(())
}

/// Returns the link's fields that kept their original value although another value was set.
fn waiting(found: &PortInfo, wanted: &PortInfo, shown: &PortInfo) -> Vec<&'static str> {
    let (asked, moved) = (found.differences(wanted), found.differences(shown));
    let stayed = |name: &&str| {
        let is_it = |of: &verbatim_wire::Difference| of.field.name == *name;
        asked.iter().any(is_it) && !moved.iter().any(is_it)
    };
    OF_THE_LINK.into_iter().filter(stayed).collect()
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    for (set, get) in [(SET, AFTER), (BACK, LAST)] {
        let (_, asked) = t.asked(set)?;
        // 0 in LinkSpeedEnabled changes nothing; it means that no other legal set of speeds exists.
        let wanted = if asked.link_speed_enabled() == LinkSpeeds(0) {
            asked.with_link_speed_enabled(found.link_speed_enabled())
        } else {
            asked
        };
        let waits = t
            .answer(get)
            .map_or(Vec::new(), |shown| waiting(&found, &wanted, &shown));
        let kept: Vec<_> = KEPT.into_iter().filter(|name| !waits.contains(name)).collect();
        let settled: Vec<_> = kept
            .iter()
            .copied()
            .filter(|name| *name != "LinkSpeedEnabled")
            .collect();
        keys::obeyed(t, f, "C14-26", (&found, set), (get, &settled))?;
        f.same_fields("C14-24", t.exchange(get)?, &kept, &wanted)?;
        if !waits.is_empty() {
            when_down(t, f, (&found, set), &waits)?;
        }
    }
    let mut left = Vec::new();
    let (_, asked) = t.asked(SET)?;
    for (name, same) in [
        ("LID", asked.lid() == found.lid()),
        (
            "LinkWidthEnabled",
            asked.link_width_enabled() == found.link_width_enabled(),
        ),
        ("OperationalVLs", asked.operational_vls() == found.operational_vls()),
    ] {
        left.extend(same.then_some(name));
    }
    if !left.is_empty() {
        f.observe(format!("not tried with another value: {}", left.join(", ")), &[]);
    }
    Ok(())
}

/// Checks the fields that did not change while the link was up, by their values after the link went down.
fn when_down(
    t: &Trace,
    f: &mut Findings<'_>,
    (found, set): (&PortInfo, Label<PortInfo>),
    waits: &[&'static str],
) -> Result<(), Gap> {
    let set = t.exchange(set)?;
    let status = set.answer().map(|answer| answer.mad.status());
    if !has_addresses(found) && status == Some(Status::INVALID_FIELD) {
        return Err(Gap::NoLid(set.number));
    }
    let waits_words = waits.join(", ");
    if !t.has(DOWN) {
        f.not_applicable = Some(format!(
            "the port did not apply the Set of {waits_words} while the link was up, and may apply it when the link \
             goes down; --set link_down=1 lets the test take the link down"
        ));
        return Ok(());
    }
    for (set, get) in [(DOWN, AFTER_DOWN), (DOWN_BACK, LAST_DOWN)] {
        let (Some(set), Some(last)) = (t.each(set).last(), t.each(get).last()) else {
            continue;
        };
        f.same_fields("C14-24", last, waits, &set.request.attribute::<PortInfo>())?;
    }
    let text = format!("the port applies these values only when the link goes down: {waits_words}");
    f.observe_ambiguous(text, &[]);
    Ok(())
}

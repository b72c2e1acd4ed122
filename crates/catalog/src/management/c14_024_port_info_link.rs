//! `c14-024-port-info-link` (C14_024_06_CA_02): the components of PortInfo that are about the link and the port's addresses
//! keep what is set.
//!
//! One Set carries other legal values in NeighborMTU, OperationalVLs, LinkWidthEnabled, LinkSpeedEnabled,
//! LinkDownDefaultState, LMC, LID and MasterSMLID, and what was found in all else; a Get shows them; a second Set carries what was found, and a Get shows
//! that. Reading: a component that has no other legal value at this port is left as it is, and so are the addresses where
//! the device is reached by its LID or has none, since LID 0 cannot be given back. The width and speed that are active stay enabled, so that the link
//! stays as it is if it trains meanwhile. LinkDownDefaultState is Sleep no longer than it takes
//! to read it: a link that goes down meanwhile stays down.
//! False alarm: an SM of somebody else that writes PortInfo meanwhile.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{Lid, LinkDownDefault, LinkSpeeds, LinkWidths, Mtu, PortInfo, VlCap};

use crate::management::adapter::{self, NODE};
use crate::management::keys;

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set other values");
const AFTER: Label<PortInfo> = Label::new("after setting other values");
const BACK: Label<PortInfo> = Label::new("set the values found");
const LAST: Label<PortInfo> = Label::new("after setting the values found");

/// What is set, and must be kept.
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
    revision: 3,
    about: "PortInfo keeps other legal values of NeighborMTU, OperationalVLs, LinkWidthEnabled, LinkSpeedEnabled, LinkDownDefaultState, LMC, LID and MasterSMLID.",
    reading: "The width and speed that are active stay enabled. Addresses are left alone on a LID-routed rig and at a port \
        without a LID. LinkDownDefaultState is Sleep no longer than it takes to read it.",
    statements: &["C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

/// The set without one of its members that is not active, or with one more of those supported.
fn another(enabled: u8, supported: u8, active: u8) -> u8 {
    let bits = (0..8)
        .map(|bit| 1 << bit)
        .filter(|bit| supported & bit != 0 && active & bit == 0);
    let other = bits
        .map(|bit| enabled ^ bit)
        .find(|set| *set != 0 && *set & active != 0);
    other.unwrap_or(enabled)
}

/// Speeds that include the slowest, which every port has, and the active one.
fn other_speeds(info: &PortInfo) -> LinkSpeeds {
    let (enabled, supported) = (info.link_speed_enabled().0, info.link_speed_supported().0);
    let needed = info.link_speed_active().0 | 1;
    // Of the codes with 4 bits some are reserved; these name the slowest and others.
    let legal = [1, 3, 5, 7].into_iter();
    let mut fits = legal.filter(|set| set & !supported == 0 && set & needed == needed && *set != enabled);
    LinkSpeeds(fits.next().unwrap_or(0))
}

/// Other values, explicit ones in every component.
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
    // Each of its three bits is the other way round.
    let lmc = 7 - info.lmc().min(7);
    // A base LID has 0 in as many low bits as LMC says, before and after.
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

/// Whether the addresses can be changed and given back.
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
    let with = |values: PortInfo| {
        use verbatim_wire::Layout;
        port.quiet().change(|info| info.with_fields_of(&values, names))
    };
    let (set, back) = (with(changed), with(found));
    t.set(SET, &port, set)?;
    t.get(AFTER, key)?;
    t.set(BACK, &port, back)?;
    t.get(LAST, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    for (set, get) in [(SET, AFTER), (BACK, LAST)] {
        let (_, asked) = t.asked(set)?;
        // 0 in LinkSpeedEnabled changes nothing: there was no other legal set of speeds.
        let wanted = if asked.link_speed_enabled() == LinkSpeeds(0) {
            asked.with_link_speed_enabled(found.link_speed_enabled())
        } else {
            asked
        };
        let settled: Vec<_> = KEPT.into_iter().filter(|name| *name != "LinkSpeedEnabled").collect();
        keys::obeyed(t, f, "C14-26", (&found, set), (get, &settled))?;
        f.same_fields("C14-24", t.exchange(get)?, &KEPT, &wanted)?;
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

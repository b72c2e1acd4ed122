//! `c14-024-port-info-values`: a port stores each legal value of the components of PortInfo with few values.
//!
//! The test sends 32 Sets. Each has the next legal value of NeighborMTU, OperationalVLs, LocalPhyErrors and
//! OverrunErrors. It also has the next of the 32 values of SubnetTimeOut, and the next bit of VLHighLimit and
//! M_KeyLeasePeriod. A Get after each Set must return these values. A last Set restores the original values. Reading:
//! as in `c14-024-port-info-rw`, VLHighLimit has no meaning with one data VL, and the test leaves out thresholds of 0.
//! A port without a LID or a subnet manager may refuse a Set for that reason; the test then does not judge its values.
//! The M_Key does not change, nor does the lease period of a port with an M_Key. A port may apply NeighborMTU and
//! OperationalVLs only when its link goes down: if they never change, `c14-024-port-info-link` judges them. False
//! alarm: another SM that writes PortInfo during the test.

use verbatim_record::{Exchange, Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::LeasePeriod;
use verbatim_wire::{Layout, MKey, Mtu, PortInfo, Status, SubnetTimeout, VlCap};

use crate::management::adapter::{self, NODE};

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set the next values");
const AFTER: Label<PortInfo> = Label::new("after setting the next values");
const BACK: Label<PortInfo> = Label::new("set the values found");
const LAST: Label<PortInfo> = Label::new("after setting the values found");

/// The number of values of SubnetTimeOut, the component with the most values.
const ROUNDS: u8 = 32;

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-values",
    aliases: &[],
    revision: 2,
    about: "PortInfo keeps each legal value of NeighborMTU, OperationalVLs, SubnetTimeOut and the thresholds, and \
        each bit of VLHighLimit and M_KeyLeasePeriod.",
    reading: "One Set carries the next value of each, and a Get shows it. VLHighLimit with one data VL, a threshold \
        of 0 and the lease period of a port with an M_Key are left out. A port without LID or SM may refuse with \
        0x001C.",
    statements: &["C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn values(found: &PortInfo, round: u8) -> PortInfo {
    // Cycles through 1 to `count`.
    let nth = |count: u8| 1 + round % count.max(1);
    let info = found
        .with_neighbor_mtu(Mtu(nth(found.mtu_cap().0)))
        .with_operational_vls(VlCap(nth(found.vl_cap().0)))
        .with_subnet_timeout(SubnetTimeout(round))
        .with_local_phy_errors(nth(15))
        .with_overrun_errors(15 - round % 15)
        .with_vl_high_limit(1 << (round % 8));
    if found.m_key() == MKey(0) {
        info.with_m_key_lease_period(LeasePeriod(1 << (round % 16)))
    } else {
        info
    }
}

/// Returns the fields that the port must store.
fn names(found: &PortInfo) -> Vec<&'static str> {
    let mut names = vec![
        "NeighborMTU",
        "OperationalVLs",
        "SubnetTimeOut",
        "LocalPhyErrors",
        "OverrunErrors",
        "M_KeyLeasePeriod",
    ];
    if found.vl_cap() != VlCap::VL0 {
        names.push("VLHighLimit");
    }
    names
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let port = t.guard(FOUND, key)?;
    let found = *port.found();
    let names = names(&found);
    let with = |values: PortInfo| port.quiet().change(|info| info.with_fields_of(&values, &names));
    for round in 0..ROUNDS {
        let set = with(values(&found, round));
        t.set(SET, &port, set)?;
        t.get(AFTER, key)?;
    }
    let back = with(found);
    t.set(BACK, &port, back)?;
    t.get(LAST, key)?;
    Ok(())
}

/// Returns the last try of each exchange; a port may be busy, or a packet may be lost.
fn finally<'t>(exchanges: impl Iterator<Item = &'t Exchange>) -> Vec<&'t Exchange> {
    let mut last = Vec::new();
    for exchange in exchanges {
        if exchange.attempt > 0 {
            last.pop();
        }
        last.push(exchange);
    }
    last
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    let mut names = names(&found);
    let has_lid = found.lid().is_unicast() && found.master_sm_lid().is_unicast();
    let sets = finally(t.each(SET).chain(t.each(BACK)));
    let gets = finally(t.each(AFTER).chain(t.each(LAST)));
    let Some(last) = sets.last().filter(|_| sets.len() == gets.len()) else {
        return Err(Gap::Missing(LAST.name));
    };
    for name in ["NeighborMTU", "OperationalVLs"] {
        let is_as_found = |get: &&Exchange| {
            let shown = t.answered::<PortInfo>(get);
            shown.is_ok_and(|shown| found.differences(&shown).iter().all(|of| of.field.name != name))
        };
        let is_other = |set: &&Exchange| {
            let asked: PortInfo = set.request.attribute();
            found.differences(&asked).iter().any(|of| of.field.name == name)
        };
        if sets.iter().any(is_other) && gets.iter().all(is_as_found) {
            names.retain(|other| *other != name);
            let text = format!("{name} did not change while the link was up; c14-024-port-info-link judges it");
            f.observe(text, &[]);
        }
    }
    for (set, get) in sets.iter().zip(gets) {
        let wanted: PortInfo = set.request.attribute();
        let differs = |shown: &PortInfo| {
            wanted
                .differences(shown)
                .iter()
                .any(|of| names.contains(&of.field.name))
        };
        match set.answer().map(|answer| answer.mad.status()) {
            Some(Status::INVALID_FIELD) if !has_lid && differs(&t.answered(get)?) => {
                return Err(Gap::NoLid(last.number));
            }
            Some(Status::INVALID_FIELD) if !has_lid => {}
            Some(Status::OK) => {}
            _ => {
                f.status("C14-26", set, &[Status::OK]);
            }
        }
        f.same_fields("C14-24", get, &names, &wanted)?;
    }
    Ok(())
}

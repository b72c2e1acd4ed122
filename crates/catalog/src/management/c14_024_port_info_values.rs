//! `c14-024-port-info-values`: each legal value of the components of PortInfo that have a few is kept, not one of them alone.
//!
//! 32 Sets: of NeighborMTU, OperationalVLs, LocalPhyErrors and OverrunErrors each carries the next legal value, of SubnetTimeOut
//! one of all 32, of VLHighLimit and M_KeyLeasePeriod the next bits; a Get after each shows them. A last Set gives back what was
//! found. Reading: as in `c14-024-port-info-rw`, VLHighLimit means nothing with one data VL, and thresholds of 0 are left out. A
//! port without a LID or a subnet manager may refuse a Set for that: then what it shows is not judged. The M_Key is left as it is, and
//! where there is one its lease period too. False alarm: an SM of somebody else that writes PortInfo meanwhile.

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

/// Values of SubnetTimeOut, which has the most.
const ROUNDS: u8 = 32;

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-values",
    aliases: &[],
    revision: 1,
    about: "PortInfo keeps each legal value of NeighborMTU, OperationalVLs, SubnetTimeOut and the thresholds, and each bit of VLHighLimit and M_KeyLeasePeriod.",
    reading: "One Set carries the next value of each, and a Get shows it. VLHighLimit with one data VL, a threshold of 0 and the lease \
        period of a port with an M_Key are left out. A port without LID or SM may refuse with 0x001C.",
    statements: &["C14-24", "C14-26"],
    needs: &[Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

/// The values of a round.
fn values(found: &PortInfo, round: u8) -> PortInfo {
    // From 1 on, so many of them.
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

/// What must be kept.
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

/// The last try of each: a port may be busy, a packet be lost.
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
    let names = names(&found);
    let has_lid = found.lid().is_unicast() && found.master_sm_lid().is_unicast();
    let sets = finally(t.each(SET).chain(t.each(BACK)));
    let gets = finally(t.each(AFTER).chain(t.each(LAST)));
    let Some(last) = sets.last().filter(|_| sets.len() == gets.len()) else {
        return Err(Gap::Missing(LAST.name));
    };
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
            // What a busy port made of it the next Get shows; an answer that was lost says nothing.
            Some(Status::OK) => {}
            _ => {
                f.status("C14-26", set, &[Status::OK]);
            }
        }
        f.same_fields("C14-24", get, &names, &wanted)?;
    }
    Ok(())
}

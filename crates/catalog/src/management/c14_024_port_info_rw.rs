//! `c14-024-port-info-rw` (C14_024_06_CA_02): read-write components of PortInfo store the values of a Set, and then the
//! original values of a second Set.
//!
//! One Set changes GidPrefix, M_KeyLeasePeriod, MasterSMSL, VLHighLimit, SubnetTimeOut, LocalPhyErrors and
//! OverrunErrors, most of them in every bit; a Get must return them. A second Set restores the original values,
//! which a Get must return. Components with their no-change value or their current value must not change. Reading:
//! the test does not change components that could disconnect the device or disturb its link. VLStallCount,
//! HOQLife, PartitionEnforcement and FilterRaw have no meaning for adapters. If the port has no LID or no SM, the
//! Set repeats that invalid LID or MasterSMLID. The port may then respond with 0x001C, and apply all other fields
//! or none; with none the test is NOT_APPLICABLE. Reference agents apply MasterSMSL only together with
//! MasterSMLID. If the port has no SM and responds to the Set with 0x001C, MasterSMSL is therefore only an
//! observation. VLHighLimit has no meaning with one data VL, and is then an observation too. False alarm: another
//! SM that writes PortInfo during the test, or a link that retrains.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Stream, Test, Tester};
use verbatim_wire::values::{Hex64, LeasePeriod};
use verbatim_wire::{PortInfo, Status, SubnetTimeout, VlCap};

use crate::management::adapter::{self, NODE};
use crate::management::keys;

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set other values");
const AFTER: Label<PortInfo> = Label::new("after setting other values");
const BACK: Label<PortInfo> = Label::new("set the values found");
const LAST: Label<PortInfo> = Label::new("after setting the values found");

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-rw",
    aliases: &["C14_024_06_CA_02"],
    revision: 2,
    about: "Read-write components of PortInfo keep what is set; no-change values change nothing.",
    reading: "Components that could disconnect the device or disturb the link are not Set. MasterSMSL is an \
        observation if the port has no SM and responds to the Set with 0x001C. VLHighLimit is an observation if the \
        port has one data VL.",
    statements: &["C14-24", "C14-26"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// Components that every port must store.
const KEPT: [&str; 5] = [
    "GidPrefix",
    "M_KeyLeasePeriod",
    "SubnetTimeOut",
    "LocalPhyErrors",
    "OverrunErrors",
];
/// Components that the Sets leave at their current or no-change value.
const STAY: [&str; 12] = [
    "M_Key",
    "LID",
    "MasterSMLID",
    "M_KeyProtectBits",
    "LMC",
    "NeighborMTU",
    "LinkWidthEnabled",
    "LinkSpeedEnabled",
    "LinkSpeedExtEnabled",
    "LinkSpeedExtEnabled2",
    "LinkDownDefaultState",
    "OperationalVLs",
];

/// Returns other values. The thresholds, the lease period and VLHighLimit have all bits inverted. The prefix is
/// site-local, and the time-out is 1 ms to 4.3 s.
fn other(found: PortInfo, random: &mut Stream) -> PortInfo {
    let threshold = |old: u8| match old ^ 0xF {
        0 => 5, // the meaning of a threshold of 0 is undefined
        new => new,
    };
    let prefix = Hex64(0xFEC0_0000_0000_0000 | random.between(1, 0xFFFF));
    let prefix = if prefix == found.gid_prefix() {
        Hex64(prefix.0 ^ 0x1_0000)
    } else {
        prefix
    };
    let time_out = match (found.subnet_timeout().0, random.byte() % 12) {
        (old @ 8..=20, step) => 8 + (old - 8 + 1 + step) % 13,
        (_, step) => 8 + step,
    };
    found
        .with_gid_prefix(prefix)
        .with_m_key_lease_period(LeasePeriod(!found.m_key_lease_period().0))
        .with_master_sm_sl(found.master_sm_sl() ^ 0xF)
        .with_vl_high_limit(!found.vl_high_limit())
        .with_subnet_timeout(SubnetTimeout(time_out))
        .with_local_phy_errors(threshold(found.local_phy_errors()))
        .with_overrun_errors(threshold(found.overrun_errors()))
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let mut random = t.random("values");
    let port = t.guard(FOUND, key)?;
    let changed = port.quiet().change(|info| other(info, &mut random));
    t.set(SET, &port, changed)?;
    t.get(AFTER, key)?;
    t.set(BACK, &port, port.quiet())?;
    t.get(LAST, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    for (set, get) in [(SET, AFTER), (BACK, LAST)] {
        let (_, wanted) = t.asked(set)?;
        let exchange = t.exchange(set)?;
        keys::obeyed(t, f, "C14-26", (&found, set), (get, &KEPT))?;
        let seen: PortInfo = t.answer(get)?;
        let read = t.exchange(get)?;
        f.same_fields("C14-24", read, &KEPT, &wanted)?;
        f.same_fields("C14-24", read, &STAY, &found)?;
        let refused = exchange
            .answer()
            .is_some_and(|answer| answer.mad.status() != Status::OK);
        if refused && !found.master_sm_lid().is_unicast() {
            let text = format!(
                "MasterSMSL of a port without an SM: the Set to {} got status 0x001C, and the port shows {}",
                wanted.master_sm_sl(),
                seen.master_sm_sl()
            );
            f.observe_ambiguous(text, &[exchange, read]);
        } else {
            f.same_fields("C14-24", read, &["MasterSMSL"], &wanted)?;
        }
        if found.vl_cap() == VlCap::VL0 {
            let text = format!(
                "VLHighLimit of a port with one data VL: after a Set to {} the port shows {}",
                wanted.vl_high_limit(),
                seen.vl_high_limit()
            );
            f.observe_ambiguous(text, &[exchange, read]);
        } else {
            f.same_fields("C14-24", read, &["VLHighLimit"], &wanted)?;
        }
    }
    let (_, wanted) = t.asked(SET)?;
    for (about, differs) in [
        ("another GidPrefix", wanted.gid_prefix() != found.gid_prefix()),
        (
            "another M_KeyLeasePeriod",
            wanted.m_key_lease_period() != found.m_key_lease_period(),
        ),
        (
            "another SubnetTimeOut",
            wanted.subnet_timeout() != found.subnet_timeout(),
        ),
        (
            "other LocalPhyErrors",
            wanted.local_phy_errors() != found.local_phy_errors(),
        ),
        ("other OverrunErrors", wanted.overrun_errors() != found.overrun_errors()),
    ] {
        t.require(SET, about, differs)?;
    }
    Ok(())
}

//! `c14-024-port-info-modifier` (C14_024_06_CA_01, _05): the port that PortInfo's AttributeModifier selects.
//!
//! 0 and the number of the receiving port select that port, for Get and Set. A Get of another port of the adapter
//! succeeds. A Set must not change that port; the response may have any status. The adapter refuses a nonexistent port
//! with 0x001C, for Get and Set, and stores nothing. Reading: the test tries numbers above NumPorts up to 255; the
//! higher bits have other meanings. The other port may have another M_Key, so the test sends no Set to a port that
//! returns no PortInfo or hides its key. False alarm: another SM that writes PortInfo during the test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{LeasePeriod, ProtectBits};
use verbatim_wire::{MKey, NodeInfo, PortInfo, Status};

use crate::management::adapter::{self, NODE, last};
use crate::management::keys;

const BY_NUMBER: Label<PortInfo> = Label::new("the receiving port, by its number");
const OTHER: Label<PortInfo> = Label::new("another port");
const FOUND: Label<PortInfo> = Label::new("ports as found");
const SET_BY_NUMBER: Label<PortInfo> = Label::new("set LocalPhyErrors of the receiving port, by its number");
const AFTER_BY_NUMBER: Label<PortInfo> = Label::new("after the Set by number");
const SET_OTHER: Label<PortInfo> = Label::new("set another port");
const AFTER_OTHER: Label<PortInfo> = Label::new("another port, after its Set");
const BEYOND: Label<PortInfo> = Label::new("ports that do not exist");
const SET_BEYOND: Label<PortInfo> = Label::new("set LocalPhyErrors of a port that does not exist");
const AFTER_BEYOND: Label<PortInfo> = Label::new("after the Set of a port that does not exist");

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-modifier",
    aliases: &["C14_024_06_CA_01", "C14_024_06_CA_05"],
    revision: 3,
    about: "PortInfo of the receiving port is the same under 0 and under its number; another port is read-only; a \
        port that does not exist is refused with 0x001C.",
    reading: "The Set of another port may get any status; the values read afterwards decide. Another port is not Set \
        if its PortInfo is not answered or its M_Key is hidden.",
    statements: &["C14-24", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// Returns port numbers that the adapter does not have.
fn beyond(node: &NodeInfo) -> Vec<u32> {
    let first = u32::from(node.num_ports()) + 1;
    if first < 255 { vec![first, 255] } else { vec![first] }
}

/// Returns the number of another port, if there is one.
fn other(node: &NodeInfo) -> Option<u32> {
    let (own, ports) = (node.local_port_num(), node.num_ports());
    (ports > 1).then(|| u32::from(own % ports) + 1)
}

/// Returns whether a Set with this key is legal at that port: the port has this key, or none. A hidden key reads as 0,
/// and a Set of 0 would erase it.
fn is_open_to(info: &PortInfo, key: MKey) -> bool {
    match info.m_key() {
        MKey(0) => info.protect_bits() == ProtectBits(0),
        shown => shown == key,
    }
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let own = u32::from(node.local_port_num());
    t.ask_at(BY_NUMBER, key, own)?;
    let mut ports = vec![0];
    if let Some(number) = other(&node) {
        let answer = t.ask_at(OTHER, key, number)?;
        if answer.is_some_and(|answer| answer.status == Status::OK && is_open_to(&answer.value, key)) {
            ports.push(number);
        }
    }
    let port = t.guard_parts(FOUND, key, &ports)?;

    let threshold = port.found().local_phy_errors();
    let changed = port.quiet().change(|info| info.with_local_phy_errors(threshold ^ 1));
    t.set_at(SET_BY_NUMBER, &port, own, changed)?;
    t.get(AFTER_BY_NUMBER, key)?;
    for number in &ports[1..] {
        let changed = port.quiet_at(*number).change(|info| {
            info.with_local_phy_errors(info.local_phy_errors() ^ 1)
                .with_overrun_errors(info.overrun_errors() ^ 1)
                .with_vl_high_limit(info.vl_high_limit() ^ 1)
        });
        t.set_with(SET_OTHER, &port, (key, *number), changed)?;
        t.get_at(AFTER_OTHER, key, *number)?;
    }

    for number in beyond(&node) {
        t.ask_at(BEYOND, key, number)?;
    }
    // A refused Set must not change the lease period either.
    let changed = port.quiet().change(|info| {
        let lease = info.m_key_lease_period();
        info.with_local_phy_errors(threshold ^ 2)
            .with_m_key_lease_period(LeasePeriod(lease.0 ^ 1))
    });
    t.set_at(SET_BEYOND, &port, beyond(&node)[0], changed)?;
    t.get(AFTER_BEYOND, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let Some(node) = adapter::adapter(t, f)? else {
        return Ok(());
    };
    let found: PortInfo = t.answered(last(t, FOUND, 0)?)?;
    let by_number = t.exchange(BY_NUMBER)?;
    if f.status("C14-24", by_number, &[Status::OK]) {
        f.same_fields("C14-24", by_number, &adapter::steady_fields(), &found)?;
    }
    let after = AFTER_BY_NUMBER;
    keys::obeyed(t, f, "C14-24", (&found, SET_BY_NUMBER), (after, &["LocalPhyErrors"]))?;
    let (_, wanted) = t.asked(SET_BY_NUMBER)?;
    let after: PortInfo = t.answer(AFTER_BY_NUMBER)?;
    f.claim("C14-24", "LocalPhyErrors, set by port number")
        .on(AFTER_BY_NUMBER)
        .saw(after.local_phy_errors())
        .is(wanted.local_phy_errors());
    if let Some(number) = other(&node) {
        another(t, f, number)?;
    }
    for number in beyond(&node) {
        f.status("C13-24", last(t, BEYOND, number)?, &[Status::INVALID_FIELD]);
    }
    f.status("C13-24", t.exchange(SET_BEYOND)?, &[Status::INVALID_FIELD]);
    let beyond: PortInfo = t.answer(AFTER_BEYOND)?;
    f.claim("C13-24", "LocalPhyErrors after the Set of a port that does not exist")
        .on(AFTER_BEYOND)
        .saw(beyond.local_phy_errors())
        .is(after.local_phy_errors());
    f.claim("C13-24", "M_KeyLeasePeriod after the Set of a port that does not exist")
        .on(AFTER_BEYOND)
        .saw(beyond.m_key_lease_period())
        .is(after.m_key_lease_period());
    Ok(())
}

/// Checks that another port is readable, and that a Set did not change it.
fn another(t: &Trace, f: &mut Findings<'_>, number: u32) -> Result<(), Gap> {
    let get = t.exchange(OTHER)?;
    if get.answer().is_none() {
        f.observe(
            format!("Get(PortInfo) of port {number} got no answer: that port may have another M_Key"),
            &[get],
        );
        return Ok(());
    }
    let status = get.answer().map(|answer| answer.mad.status());
    if !t.begin.simulated && status != Some(Status::OK) {
        f.observe(
            format!("Get(PortInfo) of port {number} was refused: that port may not be an InfiniBand port"),
            &[get],
        );
    } else if f.status("C14-24", get, &[Status::OK]) {
        let own: NodeInfo = t.answer(NODE)?;
        let shown: PortInfo = t.answered(get)?;
        f.claim(
            "C14-24",
            "LocalPortNum in PortInfo of another port: the port that received the Get",
        )
        .by(get)
        .saw(shown.local_port_num())
        .is(own.local_port_num());
    }
    if !t.has(SET_OTHER) {
        f.observe(
            format!("port {number} was not Set, since the device does not show its PortInfo or its M_Key"),
            &[get],
        );
        return Ok(());
    }
    let found: PortInfo = t.answered(last(t, FOUND, number)?)?;
    let set = t.exchange(SET_OTHER)?;
    let status = set.answer().map_or_else(
        || "no answer".to_string(),
        |answer| format!("status {}", answer.mad.status()),
    );
    f.observe_ambiguous(format!("Set of another port's PortInfo: {status}"), &[set]);
    f.same_fields("C14-24", t.exchange(AFTER_OTHER)?, &adapter::steady_fields(), &found)?;
    Ok(())
}

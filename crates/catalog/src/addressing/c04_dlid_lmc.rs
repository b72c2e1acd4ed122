//! `c04-dlid-lmc`: a port responds to LID-routed SMPs at each of its LIDs, and at no LID next to them.
//!
//! The test changes no LID. It repeats the request at the base LID with reserved bits set; the response must have 0 in
//! all reserved fields. Reading: a LID next to the range may belong to another port, which responds itself; PortGUID
//! identifies the responder. On a fabric, a missing response above the base LID may be due to a switch without a route,
//! so the test is then inconclusive. False alarm: none known.

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{Lid, NodeInfo, PortInfo};

use crate::management::c13_response_header;
use crate::management::keys::NODE;

const STATEMENT: &str = "7.11 DLID";
const PORT: Label<PortInfo> = Label::new("the port");
const AT: Label<NodeInfo> = Label::new("NodeInfo by LID");
const RESERVED: Label<NodeInfo> = Label::new("NodeInfo by LID, asked for with reserved bits set");
const LATER: Label<PortInfo> = Label::new("the port, afterwards");

pub(super) static TEST: Test = Test {
    id: "c04-dlid-lmc",
    aliases: &[],
    revision: 2,
    about: "A port answers LID-routed SMPs to each of its LIDs, and to no other LID.",
    reading: "PortGUID identifies the port that answers. On a fabric, a switch may cause silence above the base LID.",
    statements: &[STATEMENT, c13_response_header::STATEMENT],
    needs: &[Need::Mad, Need::AnyLid],
    parameters: &[],
    procedure,
    judge,
};

/// Returns the port's LIDs and the adjacent unicast LIDs. The flag of each LID is true if the LID is the port's own.
fn lids(port: &PortInfo) -> Vec<(Lid, bool)> {
    let base = u32::from(port.lid().0 & !((1 << port.lmc()) - 1));
    let own = base..base + (1 << port.lmc());
    let all = base.saturating_sub(1)..=own.end;
    let unicast = all.filter(|lid| (1..0xC000).contains(lid));
    unicast
        .filter_map(|lid| Some((Lid(u16::try_from(lid).ok()?), own.contains(&lid))))
        .collect()
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let port = t.get(PORT, key)?;
    t.get(NODE, key)?;
    if !port.lid().is_unicast() {
        return Ok(());
    }
    for (lid, _) in lids(&port) {
        t.ask_lid(lid, AT, key)?;
    }
    t.ask_with_reserved_set(Some(port.lid()), RESERVED, key)?;
    t.get(LATER, key)?; // proves that the DUT was still able to respond
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    let node: NodeInfo = t.answer(NODE)?;
    if !port.lid().is_unicast() {
        f.not_applicable = Some("the port has no LID".into());
        return Ok(());
    }
    t.answer(LATER)?;
    for (lid, is_own) in lids(&port) {
        let tries: Vec<&Exchange> = t.each(AT).filter(|exchange| exchange.dlid == Some(lid)).collect();
        let last = *tries.last().ok_or(Gap::Missing(AT.name))?;
        let answer = tries.iter().find_map(|exchange| t.answered::<NodeInfo>(exchange).ok());
        let is_dut = answer.map(|answer| answer.port_guid() == node.port_guid());
        let is_proven = tries.iter().all(|exchange| exchange.is_silent(&t.begin));
        let (result, seen) = match (is_own, is_dut) {
            (true, Some(true)) => (Passed::Pass, "this port"),
            (false, Some(true)) => (Passed::Fail, "this port"),
            (true, Some(false)) => (Passed::Inconclusive, "another port"),
            (false, Some(false)) => (Passed::Pass, "another port"),
            (false, None) if is_proven => (Passed::Pass, "no port"),
            (true, None) if is_proven && (t.begin.simulated || lid == port.lid()) => (f.silence_of(last), "no port"),
            (_, None) => (Passed::Inconclusive, "no port"),
        };
        let about = format!("responding port at LID {lid} (base {}, LMC {})", port.lid(), port.lmc());
        f.claim(STATEMENT, about)
            .by_all(tries)
            .saw(seen)
            .comes_to(if is_own { "this port" } else { "not this port" }, result);
    }
    let is_dut = |exchange: &&Exchange| {
        let answer = t.answered::<NodeInfo>(exchange);
        answer.is_ok_and(|answer| answer.port_guid() == node.port_guid())
    };
    for exchange in t.each(AT).chain(t.each(RESERVED)).filter(is_dut) {
        c13_response_header::header(f, exchange);
    }
    Ok(())
}

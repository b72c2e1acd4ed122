//! `c13-014-response-time` (C13_014_01): a port responds within its own RespTimeValue.
//!
//! Reading: the public page's formula multiplies seconds by 4.096 us; this test adds twice SubnetTimeOut as the travel
//! time, as the formula intends. A response after RespTimeValue, but within RespTimeValue plus the travel time, is
//! inconclusive. The test sends Gets of three attributes and a Set without changes, 20 times each, one at a time. False
//! alarm: a host that delays a tenth of the MADs, each by more than twice SubnetTimeOut. On hardware, fewer delays are
//! inconclusive.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{NodeDescription, NodeInfo, PortInfo};

use super::c13_013_resp_time_value::{slowest, within};

const FOUND: Label<PortInfo> = Label::new("port as found");
const PORT: Label<PortInfo> = Label::new("PortInfo");
const NODE: Label<NodeInfo> = Label::new("NodeInfo");
const DESCRIPTION: Label<NodeDescription> = Label::new("NodeDescription");
const SET: Label<PortInfo> = Label::new("Set that changes nothing");

pub(super) static TEST: Test = Test {
    id: "c13-014-response-time",
    aliases: &["C13_014_01"],
    revision: 1,
    about: "Every answer comes within the port's own RespTimeValue.",
    reading: "RespTimeValue bounds the time in the port. Twice SubnetTimeOut bounds the time on the route. A time \
        between RespTimeValue and their sum is inconclusive.",
    statements: &["C13-14"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let port = t.guard(FOUND, key)?;
    for _ in 0..20 {
        t.get_once(PORT, key)?;
        t.get_once(NODE, key)?;
        t.get_once(DESCRIPTION, key)?;
        let same = port.quiet();
        t.set_once(SET, &port, (key, 0), same)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: PortInfo = t.answer(FOUND)?;
    let limit = found.resp_time_value().duration();
    let way = 2 * t.way(&found);
    within(t, f, "C13-14", FOUND, limit)?;
    let exchanges = t
        .each(PORT)
        .chain(t.each(NODE))
        .chain(t.each(DESCRIPTION))
        .chain(t.each(SET));
    slowest(t, f, "C13-14", exchanges, limit, way + t.begin.host_bound);
    Ok(())
}

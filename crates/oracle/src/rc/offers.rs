//! Capabilities of the DUT, from the record: its host reports them when it is opened.
//!
//! `Tester::offers` and its like tell a procedure the same. A capability that is not reported is taken to be there.

use verbatim_record::verbs::pb::{Capabilities, Operation, QpAttributes, QpState, Service};
use verbatim_record::verbs::{Command, Reply};
use verbatim_record::verbs::{takes, takes_value};
use verbatim_record::{Gap, Side, Trace, VerbsDone};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use super::dialogue::is_taken;
use super::reply;
use super::steps;

/// READs and atomics.
const WITH_RESPONSE: [Operation; 3] = [Operation::Read, Operation::CompareSwap, Operation::FetchAdd];

/// The last report of the DUT's host, if there is one.
pub fn capabilities(t: &Trace) -> Option<&Capabilities> {
    let opened = t.timeline.commands.iter().rev().find_map(|done| match reply(done) {
        Some(Reply::Opened(facts)) if done.side == Side::Dut && matches!(done.command, Command::Open(_)) => Some(facts),
        _ => None,
    });
    opened?.capabilities.as_deref()
}

/// Whether the DUT takes such a send request.
pub fn posts(t: &Trace, operation: Operation) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.operations, operation))
}

/// Whether the DUT takes requests whose responses carry data.
pub fn posts_with_response(t: &Trace) -> bool {
    WITH_RESPONSE.into_iter().any(|operation| posts(t, operation))
}

/// Whether the DUT executes such a request of the peer.
pub fn executes(t: &Trace, operation: Operation) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.answers, operation))
}

/// Whether the DUT's RNR NAKs can ask for that interval.
pub fn rnr_timer(t: &Trace, timer: RnrTimer) -> bool {
    capabilities(t).is_none_or(|has| takes_value(&has.min_rnr_timers, timer.0))
}

/// Whether a queue pair of the DUT can have that ACK timeout.
pub fn timeout(t: &Trace, timeout: AckTimeout) -> bool {
    capabilities(t).is_none_or(|has| takes_value(&has.timeouts, timeout.0))
}

/// The last value of an attribute that a queue pair of a side was given, which may be the nearest to the one asked for.
pub fn given(t: &Trace, side: Side, value: fn(&QpAttributes) -> Option<u32>) -> Option<u8> {
    let mut steps = t.timeline.commands.iter().rev().filter(|done| done.side == side);
    steps.find_map(|done| match &done.command {
        Command::ModifyQp(modify) if is_taken(done) => u8::try_from(value(modify.attributes.as_ref()?)?).ok(),
        _ => None,
    })
}

/// Whether a queue pair of the DUT can be taken to a state.
pub fn goes_to(t: &Trace, state: QpState) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.qp_states, state))
}

/// Whether the DUT has queue pairs of a service.
pub fn serves(t: &Trace, service: Service) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.services, service))
}

/// A request of this operation was posted, where the DUT has it.
///
/// # Errors
/// When none was.
pub fn was_posted(t: &Trace, operation: Operation) -> Result<(), Gap> {
    let is_one = |done: &VerbsDone| matches!(&done.command, Command::PostSend(post) if post.operation() == operation);
    if !posts(t, operation) || t.commands(steps::POST).any(is_one) {
        return Ok(());
    }
    Err(Gap::Missing(steps::POST.name))
}

//! Capabilities of the DUT, which its host reports when the device is opened.
//!
//! `Tester::offers` and similar functions give the same facts to a procedure. A capability that the host does not
//! report counts as present.

use std::borrow::Cow;

use verbatim_record::verbs::pb::{Capabilities, Opened, Operation, QpAttributes, QpState, Service};
use verbatim_record::verbs::{self, Command, Reply, takes, takes_value};
use verbatim_record::{Gap, Side, Trace, VerbsDone};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use super::dialogue::is_taken;
use super::reply;
use super::steps;

const WITH_RESPONSE: [Operation; 3] = [Operation::Read, Operation::CompareSwap, Operation::FetchAdd];

/// Returns the last description of the DUT by its host.
pub fn opened(t: &Trace) -> Option<&Opened> {
    t.timeline.commands.iter().rev().find_map(|done| match reply(done) {
        Some(Reply::Opened(facts)) if done.side == Side::Dut && matches!(done.command, Command::Open(_)) => Some(facts),
        _ => None,
    })
}

/// Returns the last capabilities that the DUT's host reported.
pub fn capabilities(t: &Trace) -> Option<Cow<'_, Capabilities>> {
    verbs::capabilities(opened(t)?)
}

/// Returns whether the DUT accepts send requests of this operation.
pub fn posts(t: &Trace, operation: Operation) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.operations, operation))
}

/// Returns whether the DUT accepts requests whose responses carry data.
pub fn posts_with_response(t: &Trace) -> bool {
    WITH_RESPONSE.into_iter().any(|operation| posts(t, operation))
}

/// Returns whether the DUT executes the peer's requests of this operation.
pub fn executes(t: &Trace, operation: Operation) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.answers, operation))
}

/// Returns whether the DUT's RNR NAKs can carry the interval `timer`.
pub fn rnr_timer(t: &Trace, timer: RnrTimer) -> bool {
    capabilities(t).is_none_or(|has| takes_value(&has.min_rnr_timers, timer.0))
}

/// Returns whether a queue pair of the DUT can have the ACK timeout `timeout`.
pub fn timeout(t: &Trace, timeout: AckTimeout) -> bool {
    capabilities(t).is_none_or(|has| takes_value(&has.timeouts, timeout.0))
}

/// Returns the last value of an attribute that was set on a queue pair of a side.
pub fn given(t: &Trace, side: Side, value: fn(&QpAttributes) -> Option<u32>) -> Option<u8> {
    let mut steps = t.timeline.commands.iter().rev().filter(|done| done.side == side);
    steps.find_map(|done| match &done.command {
        Command::ModifyQp(modify) if is_taken(done) => u8::try_from(value(modify.attributes.as_ref()?)?).ok(),
        _ => None,
    })
}

/// Returns whether a queue pair of the DUT can enter a state.
pub fn goes_to(t: &Trace, state: QpState) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.qp_states, state))
}

/// Returns whether the DUT has queue pairs of a service.
pub fn serves(t: &Trace, service: Service) -> bool {
    capabilities(t).is_none_or(|has| takes(&has.services, service))
}

/// Checks that a request of this operation was posted, if the DUT supports the operation.
///
/// # Errors
/// Returns an error if no such request was posted.
pub fn was_posted(t: &Trace, operation: Operation) -> Result<(), Gap> {
    let is_one = |done: &VerbsDone| matches!(&done.command, Command::PostSend(post) if post.operation() == operation);
    if !posts(t, operation) || t.commands(steps::POST).any(is_one) {
        return Ok(());
    }
    Err(Gap::Missing(steps::POST.name))
}

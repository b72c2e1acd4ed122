//! Rules that use the reports of the device's host. They compare the reported completions, events and memory with
//! the posted work and the packets.
//!
//! A `QpTrace` is a connection with the packet peer, taken from the record. Its events have the order in which the
//! tester learned of them. A rule is a function of the trace. For each event, it notes one of three outcomes: the
//! rule holds, is broken, or cannot be decided from the record.
//!
//! In these modules, a *place* is the position of an event on the record's timeline. A *post* is a posted work
//! request, and a *step* is a transition of a queue pair's state. An *offset* is a PSN, counted from the
//! connection's first PSN.
//!
//! **Loss of packets.** The record holds everything that the peer sent and that the host was told to do, even if a
//! packet was lost later. A completion depends only on packets that the peer sent before the report. A request
//! depends only on work that was posted before the request arrived. An event without a cause in the record
//! therefore breaks a rule, whether or not packets were lost. A rule that requires an event
//! ([`requester_deadlines`]) needs more: a proof that the event's cause has reached the device.

mod answered;
pub(crate) mod asking;
mod causes;
mod compare;
mod completion;
mod congestion;
mod credits;
mod datagrams;
mod effect;
mod errors;
mod events;
mod fails;
mod given;
pub(crate) mod habit;
mod local;
mod memory;
mod network;
mod next;
mod once;
mod order;
pub(crate) mod pace;
mod pair;
mod pairing;
mod picture;
mod qp_history;
mod qp_trace;
mod ready;
mod received;
mod refused;
mod replay;
mod request;
mod requester_deadlines;
mod responder_deadlines;
mod retransmission;
mod retry;
mod states;
mod steps;
mod target;
mod wait;
mod wrong_receive;

use std::collections::BTreeSet;

use verbatim_record::Trace;

use super::rule::Rule;
use asking::{Asking, Ruling, VerbsRule};
use qp_trace::qp_traces;

pub use qp_history::OWN_VERBS;

/// All rules about connections, by module. `states` has the rules about queue pairs.
static RULES: &[&[(Rule, VerbsRule)]] = &[
    completion::RULES,
    errors::RULES,
    request::RULES,
    retry::RULES,
    requester_deadlines::RULES,
    retransmission::RULES,
    fails::RULES,
    local::RULES,
    memory::RULES,
    network::RULES,
    congestion::RULES,
    received::RULES,
    ready::RULES,
    refused::RULES,
    once::RULES,
    wrong_receive::RULES,
    effect::RULES,
    credits::RULES,
    answered::RULES,
    wait::RULES,
    events::RULES,
    order::RULES,
];

/// Returns the rules of queue pairs, connected or not.
fn of_queue_pairs() -> impl Iterator<Item = &'static (Rule, states::StatesRule)> {
    states::RULES.iter().chain(datagrams::RULES)
}

pub(crate) fn all() -> impl Iterator<Item = Rule> {
    let of_talks = RULES.iter().flat_map(|rules| rules.iter().map(|(rule, _)| *rule));
    // The packet rules already contain the ICRC.
    let of_queue_pairs = of_queue_pairs()
        .map(|(rule, _)| *rule)
        .filter(|rule| *rule != Rule::Icrc);
    of_talks.chain(of_queue_pairs).chain(pair::RULES.iter().copied())
}

/// Returns the numbers of the commands that a device must refuse, and that were refused.
pub(crate) fn refused_by_right(trace: &Trace) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for qp in &qp_history::qp_histories(trace) {
        qp.each_step(|_, verdict, done, _| {
            if matches!(verdict, steps::Verdict::Refused(_)) && qp_history::is_refused(done) {
                numbers.insert(done.number);
            }
        });
        qp.each(|is, done| {
            if states::refuses(is, done) && qp_history::is_refused(done) {
                numbers.insert(done.number);
            }
        });
    }
    numbers
}

/// Applies the rules about connections to each connection with the packet peer, and the rules about states to each
/// queue pair.
pub(crate) fn rule(trace: &Trace) -> Ruling<'_> {
    let mut ruling = Ruling::default();
    for qp in &qp_history::qp_histories(trace) {
        for (rule, asks) in of_queue_pairs() {
            asks(
                qp,
                &mut Asking {
                    rule: *rule,
                    ruling: &mut ruling,
                    habit: None,
                },
            );
        }
    }
    let mut qp_traces = qp_traces(trace);
    pace::look(&mut qp_traces);
    for qp in &qp_traces {
        let before = ruling.said.len();
        for (rule, asks) in RULES.iter().copied().flatten() {
            asks(
                qp,
                &mut Asking {
                    rule: *rule,
                    ruling: &mut ruling,
                    habit: None,
                },
            );
        }
        for said in &mut ruling.said[before..] {
            said.given = given::in_words(said.rule, &qp.dialogue.attributes);
        }
    }
    pair::rule(trace, &mut ruling);
    ruling
}

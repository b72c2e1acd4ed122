//! What the host of the device was told, judged by what it posted and by the packets: completions, retries, memory.
//!
//! A [`QpTrace`] is a connection with the packet peer as the record has it, events in the order in which the tester knew of
//! them. A rule is a function of it that states, event by event, what must be and what was: it holds, or it is broken, or
//! the record cannot decide it. Each counts how often it was asked.
//!
//! **Which order can be trusted.** A completion rests only on what the peer had sent before it was told; a request only on
//! what was posted before it came in. A packet that was lost takes reasons away and never adds any, so a rule that asks
//! "what allowed this?" holds on every link. A rule that asks "why did this not happen?" ([`owed`]) takes a proof that the
//! cause has arrived.

mod answered;
pub(crate) mod asking;
mod causes;
mod compare;
mod completion;
mod congestion;
mod credits;
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

/// All rules, by what they look at.
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

/// All rules.
pub(crate) fn all() -> impl Iterator<Item = Rule> {
    let of_talks = RULES.iter().flat_map(|rules| rules.iter().map(|(rule, _)| *rule));
    of_talks.chain(states::RULES.iter().map(|(rule, _)| *rule))
}

/// The numbers of the commands that a device must refuse, and that were refused.
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

/// RequestKind all rules of all connections with the packet peer, and of all queue pairs.
pub(crate) fn rule(trace: &Trace) -> Ruling<'_> {
    let mut ruling = Ruling::default();
    for qp in &qp_history::qp_histories(trace) {
        for (rule, asks) in states::RULES {
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
    ruling
}

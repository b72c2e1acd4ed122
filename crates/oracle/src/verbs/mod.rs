//! What the host of the device was told, judged by what it posted and by the packets: completions, retries, memory.
//!
//! A [`Talk`] is a connection with the packet peer as the record has it, events in the order in which the tester knew of
//! them. A rule is a function of it that states, event by event, what must be and what was: it holds, or it is broken, or
//! the record cannot decide it. Each counts how often it was asked.
//!
//! **Which order can be trusted.** A completion rests only on what the peer had sent before it was told; a request only on
//! what was posted before it came in. A packet that was lost takes reasons away and never adds any, so a rule that asks
//! "what allowed this?" holds on every link. A rule that asks "why did this not happen?" ([`owed`]) takes a proof that the
//! cause has arrived.

mod again;
mod answered;
pub(crate) mod asking;
mod causes;
mod compare;
mod completion;
mod congestion;
mod credits;
mod due;
mod effect;
mod errors;
mod events;
mod fails;
mod given;
pub(crate) mod habit;
mod life;
mod local;
mod memory;
mod network;
mod next;
mod once;
mod order;
mod owed;
pub(crate) mod pace;
mod pairing;
mod picture;
mod ready;
mod received;
mod refused;
mod replay;
mod request;
mod retry;
mod states;
mod steps;
mod talk;
mod target;
mod wait;
mod wrong_receive;

use std::collections::BTreeSet;

use verbatim_record::Trace;

use super::rule::Rule;
use asking::{Asking, Ruling, VerbsRule};
use talk::talks;

pub use life::OWN_VERBS;

/// All rules, by what they look at.
static RULES: &[&[(Rule, VerbsRule)]] = &[
    completion::RULES,
    errors::RULES,
    request::RULES,
    retry::RULES,
    owed::RULES,
    again::RULES,
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
    for life in &life::lives(trace) {
        life.each_step(|_, verdict, done, _| {
            if matches!(verdict, steps::Verdict::Refused(_)) && life::is_refused(done) {
                numbers.insert(done.number);
            }
        });
        life.each(|is, done| {
            if states::refuses(is, done) && life::is_refused(done) {
                numbers.insert(done.number);
            }
        });
    }
    numbers
}

/// Asks all rules of all connections with the packet peer, and of all queue pairs.
pub(crate) fn rule(trace: &Trace) -> Ruling<'_> {
    let mut ruling = Ruling::default();
    for life in &life::lives(trace) {
        for (rule, asks) in states::RULES {
            asks(
                life,
                &mut Asking {
                    rule: *rule,
                    ruling: &mut ruling,
                    habit: None,
                },
            );
        }
    }
    let mut talks = talks(trace);
    pace::look(&mut talks);
    for talk in &talks {
        let before = ruling.said.len();
        for (rule, asks) in RULES.iter().copied().flatten() {
            asks(
                talk,
                &mut Asking {
                    rule: *rule,
                    ruling: &mut ruling,
                    habit: None,
                },
            );
        }
        for said in &mut ruling.said[before..] {
            said.given = given::in_words(said.rule, &talk.dialogue.attributes);
        }
    }
    ruling
}

//! Receives of a connection: the messages that lack a receive, and the credits that an acknowledgement may grant.
//!
//! Source: architecture 9.7.7.2 (end-to-end flow control).

use std::collections::BTreeSet;

use verbatim_record::Evidence;
use verbatim_wire::packet::SyndromeKind;

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use super::ready::takers;
use super::received::{commands, posted};
use crate::rule::Rule;
use crate::words::counted;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::CreditsThere, credits_there)];

/// Receives of a connection, and the first PSNs of the messages that take a receive.
#[derive(Default)]
pub(super) struct Receives {
    takers: BTreeSet<u32>,
    /// From this PSN on, it is unknown which messages take a receive.
    until: u32,
    /// Places in the record where receives were posted, in order.
    posted: Vec<usize>,
}

impl Receives {
    pub(super) fn of(qp: &QpTrace<'_>) -> Self {
        let Some(commands) = commands(qp) else {
            return Self::default();
        };
        let (takers, until) = takers(qp, &qp.asked().collect::<Vec<_>>());
        let posted = posted(qp, &commands).iter().map(|(done, _)| done.place).collect();
        Self { takers, until, posted }
    }

    /// Returns whether the message with these PSNs takes a receive, and no receive was posted for the message before
    /// the place `sent`. `is_send`: whether the message is a SEND, which always takes a receive.
    pub(super) fn lack(&self, (first, last): (u32, u32), is_send: bool, sent: usize) -> bool {
        let takes = is_send || self.takers.contains(&first);
        let nth = || self.takers.range(..first).count();
        takes && last < self.until && self.posted.get(nth()).is_none_or(|posted| *posted > sent)
    }
}

/// Checks that an ACK grants no more credits than the receives posted by then, minus the receives that acknowledged
/// messages took.
fn credits_there<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(first) = qp.first() else { return };
    let receives = Receives::of(qp);
    for (parsed, frame) in qp.responses() {
        let Some(SyndromeKind::Ack(code)) = parsed.packet.aeth().map(|aeth| aeth.syndrome().kind()) else {
            continue;
        };
        let offset = parsed.psn.since(first);
        let Some(completion) = code.credits().filter(|_| offset < receives.until) else {
            continue;
        };
        let posted = receives.posted.iter().filter(|posted| **posted < frame.place).count();
        let taken = receives.takers.range(..=offset).count();
        let most = posted.saturating_sub(taken);
        asking.must(completion as usize <= most, [Evidence::from(frame)], || {
            (
                format!("ACK of PSN {}", parsed.psn),
                format!(
                    "at most {} ({} posted, {taken} of them used by messages)",
                    counted(most, "credit"),
                    counted(posted, "receive")
                ),
                counted(completion as usize, "credit"),
            )
        });
    }
}

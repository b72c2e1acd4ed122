//! Rules for every packet, for the requester and for the responder.
//!
//! A rule is a function of a packet and of the packets before it. The function returns whether the rule does not
//! apply, holds or is broken. For a broken rule it also returns the expected value, the seen value and a possible
//! excuse. Rules change no state.

mod data_response;
pub(super) mod msn;
pub(super) mod packet;
pub(super) mod requester;
pub(super) mod responder;

use super::rule::Rule;

/// Returns all rules: packet rules, in the order in which they are counted, then rules about the host's events.
pub fn every() -> impl Iterator<Item = Rule> {
    all().chain(super::verbs::all())
}

/// Returns the packet rules, in the order in which they are counted.
pub(crate) fn all() -> impl Iterator<Item = Rule> {
    let packet = packet::RULES.iter().map(|(rule, _)| *rule);
    let requester = requester::RULES.iter().map(|(rule, _)| *rule);
    let responder = responder::RULES.iter().map(|(rule, _)| *rule);
    packet.chain(requester).chain(responder)
}

/// Number of packet rules.
pub(super) const COUNT: usize = packet::RULES.len() + requester::RULES.len() + responder::RULES.len();

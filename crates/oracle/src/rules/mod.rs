//! The rules, by whom they bind: every packet, the requester, the responder.
//!
//! A rule is a function of a packet and of what went before it. It says whether it holds, or that it does not speak of
//! this packet, or what was expected, what was seen, and what would excuse it. It changes nothing.

mod data_response;
pub(super) mod msn;
pub(super) mod packet;
pub(super) mod requester;
pub(super) mod responder;

use super::rule::Rule;

/// All rules: those of packets, in the order in which they are counted, and those of what the host was told.
pub fn every() -> impl Iterator<Item = Rule> {
    all().chain(super::verbs::all())
}

/// The rules of packets, in the order in which they are counted.
pub(crate) fn all() -> impl Iterator<Item = Rule> {
    let packet = packet::RULES.iter().map(|(rule, _)| *rule);
    let requester = requester::RULES.iter().map(|(rule, _)| *rule);
    let responder = responder::RULES.iter().map(|(rule, _)| *rule);
    packet.chain(requester).chain(responder)
}

/// How many there are.
pub(super) const COUNT: usize = packet::RULES.len() + requester::RULES.len() + responder::RULES.len();

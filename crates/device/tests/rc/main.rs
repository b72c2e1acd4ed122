//! The adapter's reliable connections: two adapters back to back, and one adapter against packets made by hand.

// Tests know the sizes of their numbers, and share what they have among their modules.
#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, unreachable_pub)]

mod adapters;
mod choices;
mod defects;
mod errors;
mod network;
mod operations;
mod packets;
mod peer;
mod requester;
mod responder;
mod scenarios;
mod verbs;

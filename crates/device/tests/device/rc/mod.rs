//! The adapter's reliable connections: two adapters back to back, and one adapter against packets made by hand.

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
mod silicon;
mod verbs;

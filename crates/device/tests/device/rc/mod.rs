//! Tests of the adapter's reliable connections: two connected adapters, or one adapter and handmade packets.

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

//! Tests of the device model: its management agents, its link layer, and its adapter's reliable connections.

// Test code casts known numbers, and its modules share helpers.
#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, unreachable_pub)]

mod attributes;
mod bench;
mod defects;
mod link;
mod m_key;
mod packets;
mod rc;
mod sending;

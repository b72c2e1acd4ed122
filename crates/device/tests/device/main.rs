//! The device model as tests see it: its management, its link layer, and its adapter's reliable connections.

// Tests know the sizes of their numbers, and share what they have among their modules.
#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, unreachable_pub)]

mod attributes;
mod bench;
mod defects;
mod link;
mod m_key;
mod packets;
mod rc;

//! Reactions of a conforming port to valid and malformed packets.

mod bits;
mod damage;
mod each;
mod pairs;
mod random;
mod roce;
mod roles;
mod words;

use crate::packet_check as link;

//! What a port that conforms makes of packets, sound and broken.

mod bits;
mod damage;
mod each;
mod pairs;
mod random;
mod roce;
mod roles;
mod words;

use crate::packet_check as link;

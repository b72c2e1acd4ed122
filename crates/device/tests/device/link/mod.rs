//! Tests of the link layer: each rule, precedence, switches, defects, arbitrary bytes.

mod addresses;
mod any_bytes;
mod counting;
mod crcs;
mod defects;
mod headers;
mod lanes;
mod lengths;
mod packets;
mod scenarios;
mod switches;

//! The link layer: each rule alone, precedence, switches, defects, any bytes.

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

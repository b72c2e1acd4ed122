//! Tests of whole packets: construction, parsing, edits and repairs.

mod broken;
mod foreign;
mod headers;
mod icrc;
mod random;
mod sound;

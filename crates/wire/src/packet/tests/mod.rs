//! Whole packets: made, read, broken, mended.

mod broken;
mod foreign;
mod headers;
mod icrc;
mod random;
mod sound;

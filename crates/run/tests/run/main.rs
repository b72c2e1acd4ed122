//! Tests of runs on rigs: with an agent, with resets, with little memory, of an InfiniBand pair.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod choices;
mod judged_again;
mod memory;
mod pair;
mod peer;
mod resets;

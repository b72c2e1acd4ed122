//! Runs on rigs: with an agent, with resets, in little memory.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod choices;
mod judged_again;
mod memory;
mod peer;
mod resets;

//! Judges stored records: golden, altered, cut, and of other rigs.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod answers_on_links;
mod golden;
mod kernel;
mod lacks;
mod sound;

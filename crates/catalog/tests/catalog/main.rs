//! Judges stored records: golden, altered, cut, and of other rigs.
#![allow(clippy::unwrap_used)] // a test fails by a panic

mod answers_on_links;
mod golden;
mod kernel;
mod lacks;
mod sound;

//! Judges on kept records: their verdicts, and what an altered, cut or foreign record comes to.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod answers_on_links;
mod golden;
mod kernel;
mod lacks;
mod sound;

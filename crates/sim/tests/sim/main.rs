//! Runs on the virtual rig: its native link, a port that nobody brought up, and a device that is restored.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod native;
mod restore;
mod subnet;

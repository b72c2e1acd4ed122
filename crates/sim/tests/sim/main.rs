//! Runs on the virtual rig: its native link, the restore, and ports that are uninitialized, busy or down.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod native;
mod restore;
mod subnet;

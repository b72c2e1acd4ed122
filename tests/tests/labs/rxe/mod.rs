//! Tests of our programs with the kernel's own RoCEv2 stack in an emulated machine. The tests cover the reference
//! device on a real Ethernet link, management datagrams through the kernel's umad, and the cleanup after the death of a
//! process.
//!
//! A boot takes seconds, so a group of tests shares one machine.

mod deaths;
mod guest;
mod mended;
mod model;
mod pytest;
mod stalled;
mod umad;
mod verdicts;

#[test]
fn documented_rxe_commands_match() {
    if guest::image().is_some() {
        verbatim_tests::pages::check(Some("rxe"));
    }
}

//! The kernel's own RoCEv2 stack in an emulated machine, against our programs. The tests cover the reference device on
//! a real Ethernet link, management datagrams through the kernel's umad, and the objects that remain when a process of
//! a session dies.
//!
//! A group of tests shares one machine, since a boot takes seconds.

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

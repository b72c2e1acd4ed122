//! The kernel's own RoCEv2 stack, in a machine under emulation, against what of ours meets it: the reference device on a
//! real Ethernet link, management datagrams through the kernel's umad, and what is left of a session when one of those
//! who take part in it dies.
//!
//! One machine for a group of tests: a boot takes seconds.

mod deaths;
mod guest;
mod mended;
mod model;
mod pytest;
mod stalled;
mod umad;
mod verdicts;

#[test]
fn every_command_of_the_documentation_on_rxe_prints_what_its_page_shows() {
    if guest::image().is_some() {
        verbatim_tests::pages::check(Some("rxe"));
    }
}

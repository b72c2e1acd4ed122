//! A native InfiniBand adapter in the machine, under the kernel's own ib_mad and ib_umad, and the device model at the far
//! end of its cable: `verbatim` there, OpenSM and infiniband-diags as their authors wrote them, and the machine's plug.
//!
//! Two machines for all tests, one with OpenSM: a boot takes seconds.

mod lab;
mod runs;
mod tools;

#[test]
fn every_command_of_the_documentation_on_vib_prints_what_its_page_shows() {
    if lab::can_be_had() {
        verbatim_tests::pages::check(Some("vib"));
    }
}

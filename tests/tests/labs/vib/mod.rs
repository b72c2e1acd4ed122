//! A native InfiniBand adapter in a machine, under the kernel's own ib_mad and ib_umad, with the device model at the
//! far end of its cable. The tests run `verbatim`, unmodified OpenSM and infiniband-diags, and cut the machine's power.
//!
//! A boot takes seconds, so most tests share two machines, one of them with OpenSM.

mod lab;
mod runs;
mod tools;

#[test]
fn documented_vib_commands_match() {
    if lab::can_be_had() {
        verbatim_tests::pages::check(Some("vib"));
    }
}

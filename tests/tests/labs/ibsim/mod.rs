//! `verbatim` on ibsim: an independent subnet management agent behind the real libibumad. The tests check the state of
//! the device after the run, the program, the simulator or the cable ends suddenly.

mod ends;
mod lab;
mod lids;
mod rigs;
mod runs;

#[test]
fn documented_ibsim_commands_match() {
    if lab::Sim::start().is_some() {
        verbatim_tests::pages::check(Some("ibsim"));
    }
}

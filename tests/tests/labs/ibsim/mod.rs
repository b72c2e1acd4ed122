//! `verbatim` on ibsim: a subnet management agent that others wrote, behind the real libibumad. What becomes of the
//! device when somebody ends the run, the program, the simulator or the cable.

mod ends;
mod lab;
mod lids;
mod rigs;
mod runs;

#[test]
fn every_command_of_the_documentation_on_ibsim_prints_what_its_page_shows() {
    if lab::Sim::start().is_some() {
        verbatim_tests::pages::check(Some("ibsim"));
    }
}

//! `c09-link-tver`: a port accepts a packet with TVer 0, and discards packets with TVer 1 to 15.
//!
//! Reading: the architecture defines no counter for the discarded packets.
//!
//! False alarm: none known.

use verbatim_tester::{Need, Step, Test, Tester};

use crate::link::native::{self, Link, Rule};

const TVER: Rule = Rule::new("9.6.1 TVer");

pub(super) static TEST: Test = Test {
    id: "c09-link-tver",
    aliases: &[],
    revision: 1,
    about: "A packet with TVer 0 is taken, one with TVer 1 to 15 is not.",
    reading: "The specification defines no counter for these packets.",
    statements: &["9.6.1 TVer"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[TVER], native::NOTHING_SENT),
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    link.probe_each(&TVER, 0..=15, |link, version| {
        link.smp().bth(|bth| bth.with_tver(version)).mended()
    })
}

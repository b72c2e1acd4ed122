//! `c09-link-tver`: a packet with TVer 0 is taken, one with TVer 1 to 15 is not.
//!
//! Reading: no counter is laid down. False alarm: none known.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::{Need, Step, Test, Tester};

use crate::link::native::{self, Link, Rule};

const TVER: Rule = Rule::new("9.6.1 TVer");

/// TVer 0 to 15.
pub(super) static TEST: Test = Test {
    id: "c09-link-tver",
    aliases: &[],
    revision: 1,
    about: "A packet with TVer 0 is taken, one with TVer 1 to 15 is not.",
    reading: "No counter is laid down.",
    statements: &["9.6.1 TVer"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    for version in 0..=15 {
        let wire = link.smp().bth(|bth| bth.with_tver(version)).mended();
        link.probe(&TVER, &wire)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[TVER], native::NOTHING_SENT)
}

//! `c07-link-version`: a packet with LVer 0 is taken, one with LVer 1 to 15 is discarded and counted.
//!
//! Reading: nothing is unclear. False alarm: none known.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::{Need, Step, Test, Tester};

use crate::link::native::{self, Link, Rule};

const LVER: Rule = Rule::new("7.7 LVer");

/// LVer 0 to 15.
pub(super) static TEST: Test = Test {
    id: "c07-link-version",
    aliases: &[],
    revision: 1,
    about: "A packet with LVer 0 is taken, one with LVer 1 to 15 is discarded and counted.",
    reading: "Nothing is unclear.",
    statements: &["7.7 LVer"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    for version in 0..=15 {
        let wire = link.smp().lrh(|lrh| lrh.with_lver(version)).mended();
        link.probe(&LVER, &wire)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[LVER], native::NOTHING_SENT)
}

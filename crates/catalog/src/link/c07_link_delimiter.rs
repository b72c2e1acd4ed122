//! `c07-link-delimiter`: a packet that does not end with EGP is discarded; EBP counts as another port's error, anything
//! else as one of this link.
//!
//! Reading: nothing is unclear. False alarm: none known.

use verbatim_record::{Delimiter, Findings, Gap, Trace};
use verbatim_tester::{Need, Step, Test, Tester};

use crate::link::native::{self, Link, Rule};

const DELIMITER: Rule = Rule::new("7.3 delimiters");

/// EGP, EBP and neither.
pub(super) static TEST: Test = Test {
    id: "c07-link-delimiter",
    aliases: &[],
    revision: 1,
    about: "A packet that does not end with EGP is discarded and counted as what it is.",
    reading: "Nothing is unclear.",
    statements: &["7.3 delimiters"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    for delimiter in [Delimiter::Egp, Delimiter::Ebp, Delimiter::Other, Delimiter::Egp] {
        let wire = link.smp().ended(delimiter);
        link.probe(&DELIMITER, &wire)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[DELIMITER], native::NOTHING_SENT)
}

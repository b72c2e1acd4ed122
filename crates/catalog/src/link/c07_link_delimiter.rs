//! `c07-link-delimiter`: a port discards a packet that does not end with EGP. It counts EBP as an error of another
//! port, and any other delimiter as an error of this link.
//!
//! Reading: nothing is unclear. False alarm: none known.

use verbatim_record::Delimiter;
use verbatim_tester::{Need, Step, Test, Tester};

use crate::link::native::{self, Link, Rule};

const DELIMITER: Rule = Rule::new("7.3 delimiters");

pub(super) static TEST: Test = Test {
    id: "c07-link-delimiter",
    aliases: &[],
    revision: 1,
    about: "A packet that does not end with EGP is discarded, and counted by its delimiter.",
    reading: "Nothing is unclear.",
    statements: &["7.3 delimiters"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[DELIMITER], native::NOTHING_SENT),
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    let ends = [Delimiter::Egp, Delimiter::Ebp, Delimiter::Other, Delimiter::Egp];
    link.probe_each(&DELIMITER, ends, |link, end| link.smp().ended(end))
}

//! `c07-link-version`: a port accepts a packet with LVer 0, and discards and counts packets with LVer 1 to 15.
//!
//! The port ignores the reserved bits next to LNH. Reading: nothing is unclear. False alarm: none known.

use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::Reserved;

use crate::link::native::{self, Link, Rule};

const LVER: Rule = Rule::new("7.7 LVer");

pub(super) static TEST: Test = Test {
    id: "c07-link-version",
    aliases: &[],
    revision: 2,
    about: "A packet with LVer 0 is accepted; one with LVer 1 to 15 is discarded and counted.",
    reading: "Nothing is unclear.",
    statements: &["7.7 LVer"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[LVER], native::NOTHING_SENT),
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    link.probe_each(&LVER, 0..=15, |link, version| {
        link.smp().lrh(|lrh| lrh.with_lver(version)).mended()
    })?;
    link.probe_each(&LVER, 1..=3, |link, bits| {
        link.smp().lrh(|lrh| lrh.with_reserved_12(Reserved(bits))).mended()
    })
}

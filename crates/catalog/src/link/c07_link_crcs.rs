//! `c07-link-crcs`: a port discards and counts a packet with a wrong VCRC or ICRC, and accepts a valid packet.
//!
//! The test corrupts each byte of both CRCs once. Reading: while the port has no LID, SMPs go to the permissive LID.
//! The test sends packets on data VLs (packets with a GRH and raw packets) only if the port accepts data. False alarm:
//! none known.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::{Need, Step, Test, Tester};

use crate::link::native::{self, Link, Rule, Wire};

const VCRC: Rule = Rule::new("7.8.2 VCRC");
const ICRC: Rule = Rule::new("7.8.1 ICRC");
const SENT_ON: &str = "7.4 discard or corrupt";

pub(super) static TEST: Test = Test {
    id: "c07-link-crcs",
    aliases: &[],
    revision: 2,
    about: "A packet with a wrong VCRC or ICRC is discarded and counted, and not sent on.",
    reading: "SMPs go to the permissive LID while the port has no LID. Packets on data VLs are sent only if the port \
        accepts them.",
    statements: &["7.8.2 VCRC", "7.8.1 ICRC", "7.4 discard or corrupt"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// The length of the raw packets in bytes. A port that wrongly checks an ICRC in raw packets finds enough bytes
/// for one.
const RAW: usize = 64;

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    link.probe_each(&VCRC, 1..=2, |link, from_end| link.smp().flipped(from_end, 0x21))?;
    let sound = link.smp();
    link.probe(&VCRC, &sound)?;
    link.probe_each(&ICRC, 3..=6, |link, from_end| {
        link.smp().flipped(from_end, 0x48).resealed()
    })?;
    let sound = link.smp();
    link.probe(&ICRC, &sound)?;
    if link.takes_data() {
        let local = link.gmp();
        link.probe(&ICRC, &local)?;
        let global = link.global();
        link.probe(&ICRC, &global)?;
        link.probe(&ICRC, &global.bad_icrc())?;
        let raw = Wire::raw(link.port.lid(), RAW);
        link.probe(&ICRC, &raw)?;
        let ipv6 = Wire::raw_ipv6(link.port.lid(), RAW);
        link.probe(&ICRC, &ipv6)?;
        link.probe(&VCRC, &raw.flipped(1, 0x80))?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[VCRC, ICRC], native::NOTHING_SENT)?;
    native::strays(t, f, SENT_ON);
    Ok(())
}

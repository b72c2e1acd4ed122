//! `c07-link-precedence`: a port counts only the first fault of a packet with two faults.
//!
//! Reading: a wrong CRC precedes all later checks of the link layer. EBP precedes the VCRC: a switch that marks a
//! packet inverts its VCRC, so a marked packet would otherwise never count as marked. All other orders are undefined. A
//! port without PortRcvErrorDetails has fewer counters to check. False alarm: none known.

use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::PKey;

use crate::link::native::{self, Link, Rule, Wire};

const RANKS: Rule = Rule::new("7.4 precedence");

pub(super) static TEST: Test = Test {
    id: "c07-link-precedence",
    aliases: &[],
    revision: 1,
    about: "A packet with two faults is counted once, for the fault that ranks first.",
    reading: "A wrong CRC ranks before LVer, lengths, VL and P_Key, and EBP before the VCRC that it made wrong. The \
        specification leaves all other orders open.",
    statements: &["7.4 precedence"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[RANKS], native::NOTHING_SENT),
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    let marked = link.smp().marked();
    link.probe(&RANKS, &marked)?;
    let unused = link.port.operational_vls().data_vls().unwrap_or(15);
    let foreign = foreign(&link);
    let faults: [fn(Wire) -> Wire; 2] = [
        |wire| wire.lrh(|lrh| lrh.with_lver(3)).mended(),
        |wire| wire.lrh(|lrh| lrh.with_pkt_len(lrh.pkt_len() + 2)).mended(),
    ];
    for fault in faults {
        let wire = fault(link.smp());
        both(&mut link, wire)?;
    }
    if unused < 15 {
        let wire = link.gmp().lrh(|lrh| lrh.with_vl(unused)).mended();
        both(&mut link, wire)?;
    }
    if link.takes_data() {
        let wire = link.gmp().bth(|bth| bth.with_p_key(foreign)).mended();
        both(&mut link, wire)?;
    }
    Ok(())
}

/// Sends the packet with a wrong VCRC, then with a wrong ICRC.
fn both(link: &mut Link<'_, '_>, wire: Wire) -> Step {
    link.probe(&RANKS, &wire.clone().flipped(1, 0x55))?;
    link.probe(&RANKS, &wire.bad_icrc())
}

/// Returns a P_Key that is not in the port's table.
fn foreign(link: &Link<'_, '_>) -> PKey {
    let has = |base: u16| link.p_keys.iter().any(|key| key.0 & 0x7FFF == base);
    PKey(0x8000 | (1..0x7FFF).find(|base| !has(*base)).unwrap_or(0x7FFE))
}

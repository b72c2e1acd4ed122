//! `c07-link-length`: a port discards and counts a packet whose PktLen is wrong, that is too short, or that exceeds
//! MTUCap. It accepts the shortest and the longest packets, and ignores the reserved bits above PktLen.
//!
//! Reading: MTUCap limits the payload; headers and ICRC may take 124 more bytes. False alarm: none known.

use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::Reserved;

use crate::link::native::{self, Link, Rule, Wire};

const PKT_LEN: Rule = Rule::new("7.7 PktLen");
const SHORTEST: Rule = Rule::new("7.4 shortest packet");
const MTU: Rule = Rule::new("7.4 MTU");

pub(super) static TEST: Test = Test {
    id: "c07-link-length",
    aliases: &[],
    revision: 2,
    about: "A packet of a wrong, too small or too large length is discarded and counted.",
    reading: "MTUCap bounds the payload; 124 bytes of headers and ICRC come on top.",
    statements: &["7.7 PktLen", "7.4 shortest packet", "7.4 MTU"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[PKT_LEN, SHORTEST, MTU], native::NOTHING_SENT),
};

/// The bytes that a packet may have beyond MTUCap, minus the headers and the ICRC of this test's packets.
const ROOM: usize = 124 - 24;

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    let sound = link.smp();
    link.probe(&PKT_LEN, &sound)?;
    link.probe_each(&PKT_LEN, [1, -1, 256, -16, 1024], |link, change| {
        let told = |told: u16| told.wrapping_add_signed(change) & 0x7FF;
        link.smp().lrh(|lrh| lrh.with_pkt_len(told(lrh.pkt_len()))).mended()
    })?;
    // The reserved bits above PktLen are not part of the length.
    link.probe_each(&PKT_LEN, [0x01, 0x10, 0x1F], |link, bits| {
        link.smp().lrh(|lrh| lrh.with_reserved_32(Reserved(bits))).mended()
    })?;
    let longer = link.smp().longer(4);
    link.probe(&PKT_LEN, &longer)?;
    let runt = Wire::runt(link.smp_lid());
    link.probe(&SHORTEST, &runt)?;
    if !link.takes_data() {
        return Ok(());
    }
    // A longer SMP would also violate the length rule of QP0, and the architecture defines no counter for that fault.
    link.probe_each(&PKT_LEN, 1..=4, |link, more| link.gmp().longer(more))?;
    let (lid, p_key) = (link.port.lid(), link.p_key());
    for wire in [Wire::plain(lid, p_key, 0), Wire::raw(lid, 20), Wire::raw(lid, 16)] {
        link.probe(&SHORTEST, &wire)?;
    }
    if let Some(mtu) = link.port.mtu_cap().bytes() {
        let longest = mtu as usize + ROOM;
        for payload in [mtu as usize, longest, longest + 4, longest + 400] {
            link.probe(&MTU, &Wire::plain(lid, p_key, payload))?;
        }
    }
    Ok(())
}

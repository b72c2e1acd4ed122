//! `c07-link-vl`: packets are taken on the VLs that are in operation and on VL 15, on no other; VL 15 is for whole SMPs to
//! QP0, and QP0 hears nothing else.
//!
//! Reading: what counts a packet that breaks the rules of VL 15 is left open; that nothing answers it is judged. False alarm:
//! none known.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::Opcode;

use crate::link::native::{self, Link, Rule};

const VL: Rule = Rule::new("7.6 VL");
const VL15: Rule = Rule::new("14.2 QP0 and VL15");

/// VL 0 to 15.
pub(super) static TEST: Test = Test {
    id: "c07-link-vl",
    aliases: &[],
    revision: 1,
    about: "Packets are taken on the VLs in operation and on VL 15 alone; VL 15 and QP0 are for SMPs.",
    reading: "What counts a packet that breaks the rules of VL 15 is left open.",
    statements: &["7.6 VL", "14.2 QP0 and VL15"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    let smp = link.smp();
    link.probe(&VL, &smp)?;
    for opcode in [Opcode::UC_SEND_ONLY, Opcode(0x44)] {
        let wire = link.smp().bth(|bth| bth.with_opcode(opcode)).mended();
        link.probe(&VL15, &wire)?;
    }
    let longer = link
        .smp()
        .longer(4)
        .lrh(|lrh| lrh.with_pkt_len(lrh.pkt_len() + 1))
        .mended();
    link.probe(&VL15, &longer)?;
    if !link.takes_data() {
        return Ok(());
    }
    for vl in 0..15 {
        let wire = link.gmp().lrh(|lrh| lrh.with_vl(vl)).mended();
        link.probe(&VL, &wire)?;
    }
    let general = link.gmp().lrh(|lrh| lrh.with_vl(15)).mended();
    link.probe(&VL15, &general)?;
    let on_data_lane = link.smp().lrh(|lrh| lrh.with_vl(0)).mended();
    link.probe(&VL15, &on_data_lane)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(t, f, &[VL, VL15], native::NOTHING_SENT)
}

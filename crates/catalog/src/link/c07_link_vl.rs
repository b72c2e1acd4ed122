//! `c07-link-vl`: a port accepts packets on its operational VLs and on VL 15 only. VL 15 accepts only complete SMPs to
//! QP0, and QP0 accepts nothing else.
//!
//! Reading: the architecture does not define the counter of a packet that breaks the rules of VL 15. The test checks
//! that such a packet gets no response. False alarm: none known.

use verbatim_record::Label;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{Opcode, QKey, Qpn};

use crate::link::native::{self, Link, Rule};

const VL: Rule = Rule::new("7.6 VL");
const VL15: Rule = Rule::new("14.2 QP0 and VL15");
const Q_KEY: Rule = Rule {
    label: Label::new("9.6.1 Q_Key"),
    statement: "9.6.1 header validation",
};

pub(super) static TEST: Test = Test {
    id: "c07-link-vl",
    aliases: &[],
    revision: 2,
    about: "A port accepts packets only on its operational VLs and on VL 15; VL 15 and QP0 are for SMPs.",
    reading: "The specification names no counter for packets that break the rules of VL 15.",
    statements: &["7.6 VL", "14.2 QP0 and VL15", "9.6.1 header validation"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[VL, VL15, Q_KEY], native::NOTHING_SENT),
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    let smp = link.smp();
    link.probe(&VL, &smp)?;
    link.probe_each(&VL15, [Opcode::UC_SEND_ONLY, Opcode(0x44)], |link, opcode| {
        link.smp().bth(|bth| bth.with_opcode(opcode)).mended()
    })?;
    let longer = link
        .smp()
        .longer(4)
        .lrh(|lrh| lrh.with_pkt_len(lrh.pkt_len() + 1))
        .mended();
    link.probe(&VL15, &longer)?;
    if !link.takes_data() {
        return Ok(());
    }
    link.probe_each(&VL, 0..15, |link, vl| link.gmp().lrh(|lrh| lrh.with_vl(vl)).mended())?;
    // The agent responds to any source QP. QP1 has a single Q_Key.
    let from_elsewhere = link.gmp().deth(|deth| deth.with_src_qp(Qpn(0x12_3457))).mended();
    link.probe(&VL, &from_elsewhere)?;
    let own = QKey::GSI.0;
    link.probe_each(&Q_KEY, [own ^ 1, own ^ 1 << 31, 0], |link, q_key| {
        link.gmp().deth(|deth| deth.with_q_key(QKey(q_key))).mended()
    })?;
    let general = link.gmp().lrh(|lrh| lrh.with_vl(15)).mended();
    link.probe(&VL15, &general)?;
    let on_data_lane = link.smp().lrh(|lrh| lrh.with_vl(0)).mended();
    link.probe(&VL15, &on_data_lane)
}

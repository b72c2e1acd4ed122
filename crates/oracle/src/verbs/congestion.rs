//! Rules for congestion notification packets (CNPs). A device need not send CNPs, but each CNP must follow annex A17.9.
//!
//! Source: annex A17.9 (RoCEv2 congestion management). Adapters differ in MigReq, which these rules do not check.

use verbatim_wire::Opcode;
use verbatim_wire::packet::{Packet, Psn};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::QpTrace;
use crate::rc::Seen;
use crate::rule::Rule;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::Cnp, cnp), (Rule::CnpCause, cause)];

/// ECN value for congestion experienced.
const MARKED: u8 = 3;
/// Bytes after the BTH of a CNP.
const RESERVED: [u8; 16] = [0; 16];

fn cnps<'t>(qp: &QpTrace<'t>) -> impl Iterator<Item = Seen<'t>> {
    qp.dialogue.of_dut().filter(|seen| seen.packet.opcode() == Opcode::CNP)
}

fn ecn(packet: &Packet<'_>) -> Option<u8> {
    let of_v4 = packet.ipv4().map(|ip| ip.ecn());
    of_v4.or_else(|| packet.ipv6().map(|ip| ip.ecn()))
}

fn cnp<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let partition = |packet: &Packet<'_>| packet.bth().p_key().0 & 0x7FFF;
    // A test may also send packets of a foreign partition: accept each partition that the peer used.
    let of_peer = qp.dialogue.packets.iter().filter(|seen| !seen.frame.received);
    let partitions: Vec<u16> = of_peer.map(|seen| partition(&seen.packet)).collect();
    for seen in cnps(qp) {
        let (packet, bth) = (&seen.packet, seen.packet.bth());
        let of_partition = partitions.is_empty() || partitions.contains(&partition(packet));
        let has_bits = bth.becn() && !bth.solicited_event() && !bth.ack_request() && bth.tver() == 0;
        let is_empty = packet.padded_payload() == RESERVED && bth.pad_count() == 0;
        let is_so = has_bits && bth.psn() == Psn::default() && of_partition && is_empty && packet.icrc_is_right();
        asking.must(is_so, [seen.frame.into()], || {
            let flag = |name: &str, is_set: bool| format!("{name} {}", u8::from(is_set));
            let words = [
                flag("BECN", bth.becn()),
                flag("SE", bth.solicited_event()),
                flag("AckReq", bth.ack_request()),
                format!("TVer {}", bth.tver()),
                format!("PSN {}", bth.psn()),
                format!("P_Key {}", bth.p_key()),
                format!("{:02x?} with PadCnt {}", packet.padded_payload(), bth.pad_count()),
                format!("a {} ICRC", if packet.icrc_is_right() { "right" } else { "wrong" }),
            ];
            let expected = "BECN 1, SE 0, AckReq 0, TVer 0, PSN 0x000000, a P_Key of the peer's partition, 16 bytes of \
                            0 with PadCnt 0, a right ICRC";
            ("CNP".into(), expected.into(), words.join(", "))
        });
    }
}

fn cause<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    // A switch on the way can mark only packets whose ECN field is nonzero (RFC 3168, 5).
    let is_open = |packet: &Packet<'_>| ecn(packet).is_none_or(|ecn| ecn == MARKED || ecn != 0 && !qp.is_lossless());
    let is_cause = |seen: &&Seen<'t>| !seen.frame.received && is_open(&seen.packet);
    let first = qp.dialogue.packets.iter().find(is_cause).map(|seen| seen.frame.place);
    for seen in cnps(qp) {
        let is_so = first.is_some_and(|first| first < seen.frame.place);
        asking.must(is_so, [seen.frame.into()], || {
            let expected = "no CNP, since the network can have marked no earlier packet";
            ("CNP".into(), expected.into(), seen.packet.to_string())
        });
    }
}

//! Congestion notification: an adapter that receives a packet marked by the network sends a CNP to the sender of the
//! packet (annex A17.9).

use verbatim_wire::{Bth, Network, Opcode, PKey, Packet, Transport};

use super::defect::RcDefect;
use super::qp::{Context, Qp};

/// ECN code: the packet passed a congestion point.
const MARKED: u8 = 3;
/// DSCP of CNPs if the profile gives CNPs a DSCP of their own.
const OWN_DSCP: u8 = 48;
/// Reserved bytes after the BTH of a CNP, all 0.
const RESERVED: usize = 16;

fn is_marked(packet: &Packet<'_>) -> bool {
    match packet.network() {
        Network::RoceV2Ipv4 { ip, .. } => ip.ecn() == MARKED,
        Network::RoceV2Ipv6 { ip, .. } => ip.ecn() == MARKED,
        _ => false,
    }
}

impl Qp {
    /// Sends a CNP to the peer if the network marked the received packet and the profile enables CNPs.
    pub(crate) fn notify(&self, cx: &mut Context<'_>, packet: &Packet<'_>) {
        let is_defective = [
            RcDefect::CnpWithoutBecn,
            RcDefect::CnpWithData,
            RcDefect::CnpWithPsn,
            RcDefect::CnpWithoutPartition,
            RcDefect::CnpToOwnQpn,
        ]
        .into_iter()
        .any(|defect| cx.has(defect));
        let is_told = is_marked(packet) && (cx.profile.choices.notifies_congestion || is_defective);
        let is_caused = is_told || cx.has(RcDefect::CnpWithoutCause);
        let Some(mut path) = self.attributes.path.filter(|_| is_caused) else {
            return;
        };
        if cx.profile.choices.notices_apart {
            path.traffic_class = OWN_DSCP << 2;
        }
        let byte = u8::from(cx.has(RcDefect::CnpWithData));
        let mut bth = Bth::default()
            .with_opcode(Opcode::CNP)
            .with_p_key(packet.bth().p_key())
            .with_dest_qp(if cx.has(RcDefect::CnpToOwnQpn) {
                self.qpn
            } else {
                self.attributes.dest_qpn
            })
            .with_becn(!cx.has(RcDefect::CnpWithoutBecn));
        if cx.has(RcDefect::CnpWithPsn) {
            bth = bth.with_psn(packet.bth().psn());
        }
        if cx.has(RcDefect::CnpWithoutPartition) {
            bth = bth.with_p_key(PKey(0));
        }
        let notice = Transport {
            bth,
            payload: vec![byte; RESERVED],
            ..Transport::default()
        };
        cx.port.send(cx.now + cx.profile.latency, path, notice);
    }
}

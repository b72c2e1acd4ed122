//! Short descriptions of packets.

use core::fmt;

use verbatim_wire::{Ethernet, Layout, Lid, Lrh, Mad, Medium, Opcode, Packet, Qpn};

use super::Judged;
use crate::print::counted;

/// Displays source, destination and kind of a packet, such as
/// `10.0.0.2 > 10.0.0.1 RC SEND Only DestQP 0x000011 PSN 7, 1024 bytes`.
pub(super) struct What<'a>(pub(super) &'a Judged<'a>);

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.packet.bytes;
        let Some(received) = self.0.received else {
            return f.write_str(&in_bytes(bytes.len()));
        };
        if let Ok(packet) = Packet::parse(received.medium, received.bytes) {
            whole(f, &packet)?;
            return match self.0.packet.tunnel {
                Some(tunnel) => write!(f, ", in {tunnel}"),
                None => Ok(()),
            };
        }
        let lrh = received.bytes.first_chunk::<{ Lrh::SIZE }>();
        match (received.medium, lrh) {
            (Medium::Ethernet, _) if self.0.packet.is_bare => {
                let length = bytes.len().saturating_sub(Ethernet::SIZE);
                write!(f, "no Ethernet header, {}", in_bytes(length))
            }
            (Medium::Ethernet, _) => write!(f, "Ethernet frame, {}", in_bytes(bytes.len())),
            (_, Some(lrh)) => {
                let lrh = Lrh::from_bytes(lrh);
                route(f, lrh)?;
                write!(f, " {}, {}", lrh.lnh(), in_bytes(bytes.len()))
            }
            (_, None) => write!(f, "InfiniBand, {}", in_bytes(bytes.len())),
        }
    }
}

fn in_bytes(count: usize) -> String {
    counted(count as u64, "byte", "bytes")
}

fn route(f: &mut fmt::Formatter<'_>, lrh: Lrh) -> fmt::Result {
    let (Lid(from), Lid(to)) = (lrh.slid(), lrh.dlid());
    write!(f, "LID {from:#06x} > {to:#06x}")
}

fn whole(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    if let Some(ip) = packet.ipv4() {
        write!(f, "{} > {}", ip.src(), ip.dst())?;
    } else if let Some(ip) = packet.ipv6() {
        write!(f, "{} > {}", ip.src(), ip.dst())?;
    } else if let Some(lrh) = packet.lrh() {
        route(f, lrh)?;
    } else if let Some(grh) = packet.grh() {
        write!(f, "{} > {}", grh.src(), grh.dst())?;
    }
    let bth = packet.bth();
    let (opcode, Qpn(qp)) = (bth.opcode(), bth.dest_qp());
    if let Some(mad) = mad(packet, opcode, qp) {
        return write!(f, " QP{qp} {mad}");
    }
    write!(f, " {opcode} DestQP {qp:#08x} PSN {}", bth.psn().0)?;
    if let Some(aeth) = packet.aeth() {
        write!(f, " {}", aeth.syndrome())?;
    }
    if let Some(name) = packet.missing_header() {
        return write!(f, ", too short for its {name}");
    }
    let payload = packet.payload().len();
    if payload > 0 {
        write!(f, ", {}", in_bytes(payload))?;
    }
    Ok(())
}

/// Returns the MAD of a packet to QP0 or QP1.
fn mad(packet: &Packet<'_>, opcode: Opcode, qp: u32) -> Option<Mad> {
    let is_management = opcode == Opcode::UD_SEND_ONLY && qp <= 1;
    is_management.then(|| Mad::try_from(packet.payload()).ok()).flatten()
}

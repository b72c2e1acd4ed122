//! Packets of InfiniBand and RoCE: headers, construction and parsing of whole packets, and management datagrams in
//! packets.
//!
//! Source of the layouts: architecture 7.7 (LRH), 8.3 (GRH), 9.2 (BTH), 9.3.2 (DETH); `ib_pack.h` of Linux. Headers of
//! RoCE before the BTH: annex A16 (RoCEv1), annex A17 (RoCEv2).

mod build;
mod codes;
mod extended;
mod form;
mod mend;
mod opcode;
mod parse;
mod psn;
mod route;
mod show;
mod times;

pub use build::{Link, Network, Station, Transport, packet};
pub use codes::{Lnh, QKey, Qpn};
pub use extended::{Aeth, AtomicAckEth, AtomicEth, Feth, Ieth, ImmDt, RKey, Rdeth, Reth, Xrceth};
pub use form::{Delimiter, Form, Medium};
pub use mend::{Offsets, edit, mend_icrc, mend_ip_checksum, mend_lengths, mend_udp_checksum, mend_vcrc};
pub use opcode::{Headers, Opcode, Service};
pub use parse::Packet;
pub use psn::Psn;
pub use route::NotAPacket;
pub use times::{AckTimeout, CreditCode, NakCode, RnrTimer, Syndrome, SyndromeKind};

use core::net::Ipv6Addr;

use crate::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use crate::ether::address;
use crate::layout::{Layout, layout};
use crate::mad::{MAD_LENGTH, Mad};
use crate::value::Reserved;
use crate::values::{Hex8, Hex32, Lid, PKey};

layout! {
    /// Local route header, 8 bytes: the first header of every native InfiniBand packet.
    pub struct Lrh[8] "LRH" {
        /// VL: the virtual lane; 15 carries subnet management only. May change on each hop.
        vl, with_vl: u8 = "VL" @ 0, 4;
        /// LVer: 0.
        lver, with_lver: u8 = "LVer" @ 4, 4;
        /// SL: the service level.
        sl, with_sl: u8 = "SL" @ 8, 4;
        /// Reserved.
        reserved_12, with_reserved_12: Reserved = "Reserved12" @ 12, 2;
        /// LNH: the type of the next header.
        lnh, with_lnh: Lnh = "LNH" @ 14, 2;
        /// DLID.
        dlid, with_dlid: Lid = "DLID" @ 16, 16;
        /// Reserved.
        reserved_32, with_reserved_32: Reserved = "Reserved32" @ 32, 5;
        /// PktLen in units of 4 bytes, from the LRH to the ICRC, without the VCRC.
        pkt_len, with_pkt_len: u16 = "PktLen" @ 37, 11;
        /// SLID.
        slid, with_slid: Lid = "SLID" @ 48, 16;
    }
}

layout! {
    /// Global route header, 40 bytes: an IPv6 header.
    pub struct Grh[40] "GRH" {
        /// IPVer: 6.
        ip_ver, with_ip_ver: u8 = "IPVer" @ 0, 4;
        /// TClass. May change in transit.
        t_class, with_t_class: Hex8 = "TClass" @ 4, 8;
        /// FlowLabel. May change in transit.
        flow_label, with_flow_label: Hex32 = "FlowLabel" @ 12, 20;
        /// PayLen in bytes, from the byte after the GRH to the ICRC.
        pay_len, with_pay_len: u16 = "PayLen" @ 32, 16;
        /// NxtHdr: 0x1B if a BTH follows.
        nxt_hdr, with_nxt_hdr: Hex8 = "NxtHdr" @ 48, 8;
        /// HopLmt. May change in transit.
        hop_lmt, with_hop_lmt: u8 = "HopLmt" @ 56, 8;
        /// One byte of SGID.
        sgid, with_sgid: u8 octets = "SGID" @ 64, 8, [16; 8];
        /// One byte of DGID.
        dgid, with_dgid: u8 octets = "DGID" @ 192, 8, [16; 8];
    }
}

impl Grh {
    /// NxtHdr of a GRH before a BTH.
    pub const NEXT_IS_BTH: Hex8 = Hex8(0x1B);

    /// Returns SGID.
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        address(&self.0[8..])
    }

    /// Returns DGID.
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        address(&self.0[24..])
    }

    /// Returns this header with another SGID.
    #[must_use]
    pub fn with_src(mut self, gid: Ipv6Addr) -> Self {
        self.0[8..24].copy_from_slice(&gid.octets());
        self
    }

    /// Returns this header with another DGID.
    #[must_use]
    pub fn with_dst(mut self, gid: Ipv6Addr) -> Self {
        self.0[24..].copy_from_slice(&gid.octets());
        self
    }
}

layout! {
    /// Base transport header, 12 bytes.
    pub struct Bth[12] "BTH" {
        /// OpCode.
        opcode, with_opcode: Opcode = "OpCode" @ 0, 8;
        /// SE: asks the responder to raise a completion event.
        solicited_event, with_solicited_event: bool = "SE" @ 8, 1;
        /// M: the path migration state of the sender's QP.
        migrated, with_migrated: bool = "M" @ 9, 1;
        /// PadCnt: number of pad bytes after the payload.
        pad_count, with_pad_count: u8 = "PadCnt" @ 10, 2;
        /// TVer: 0.
        tver, with_tver: u8 = "TVer" @ 12, 4;
        /// P_Key.
        p_key, with_p_key: PKey = "P_Key" @ 16, 16;
        /// FECN: the packet passed a congestion point. May change in transit.
        fecn, with_fecn: bool = "FECN" @ 32, 1;
        /// BECN: packets in the other direction passed a congestion point. May change in transit.
        becn, with_becn: bool = "BECN" @ 33, 1;
        /// Reserved. The ICRC does not cover these bits.
        reserved_34, with_reserved_34: Reserved = "Reserved34" @ 34, 6;
        /// DestQP.
        dest_qp, with_dest_qp: Qpn = "DestQP" @ 40, 24;
        /// A: asks the responder for an acknowledgement.
        ack_request, with_ack_request: bool = "A" @ 64, 1;
        /// Reserved.
        reserved_65, with_reserved_65: Reserved = "Reserved65" @ 65, 7;
        /// PSN.
        psn, with_psn: Psn = "PSN" @ 72, 24;
    }
}

layout! {
    /// Datagram extended transport header, 8 bytes.
    pub struct Deth[8] "DETH" {
        /// Q_Key.
        q_key, with_q_key: QKey = "Q_Key" @ 0, 32;
        /// Reserved.
        reserved_32, with_reserved_32: Reserved = "Reserved32" @ 32, 8;
        /// SrcQP.
        src_qp, with_src_qp: Qpn = "SrcQP" @ 40, 24;
    }
}

/// The headers of a management datagram on native InfiniBand.
///
/// [`mad_packet`] computes PktLen, PayLen, LNH and the CRCs and copies the other fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MadHeaders {
    /// Local route header.
    pub lrh: Lrh,
    /// Global route header, if the packet has one.
    pub grh: Option<Grh>,
    /// Base transport header.
    pub bth: Bth,
    /// Datagram extended transport header.
    pub deth: Deth,
}

impl MadHeaders {
    /// Creates the headers of a subnet management packet: VL 15, QP0 to QP0, default P_Key.
    #[must_use]
    pub fn subnet_management(slid: Lid, dlid: Lid) -> Self {
        Self {
            lrh: Lrh::default().with_vl(15).with_slid(slid).with_dlid(dlid),
            grh: None,
            bth: Bth::default()
                .with_opcode(Opcode::UD_SEND_ONLY)
                .with_p_key(PKey(0xFFFF)),
            deth: Deth::default(),
        }
    }

    /// Creates the headers of a general management packet: VL and SL 0, QP1 to QP1, the Q_Key of QP1, default P_Key.
    #[must_use]
    pub fn general(slid: Lid, dlid: Lid) -> Self {
        let smp = Self::subnet_management(slid, dlid);
        Self {
            lrh: smp.lrh.with_vl(0),
            bth: smp.bth.with_dest_qp(Qpn::GSI),
            deth: Deth::default().with_q_key(QKey::GSI).with_src_qp(Qpn::GSI),
            ..smp
        }
    }

    /// Returns these headers with another BTH:PSN.
    #[must_use]
    pub fn with_psn(self, psn: Psn) -> Self {
        Self {
            bth: self.bth.with_psn(psn),
            ..self
        }
    }
}

/// Returns the packet of a management datagram: LRH, GRH if given, BTH, DETH, MAD, ICRC, VCRC.
#[must_use]
pub fn mad_packet(headers: &MadHeaders, mad: &Mad) -> Vec<u8> {
    let transport = Bth::SIZE + Deth::SIZE + MAD_LENGTH + ICRC_LENGTH;
    let before = Lrh::SIZE + headers.grh.map_or(0, |_| Grh::SIZE);
    let lnh = match headers.grh {
        Some(_) => Lnh::IBA_GLOBAL,
        None => Lnh::IBA_LOCAL,
    };
    let mut packet = Vec::with_capacity(before + transport + VCRC_LENGTH);
    #[allow(clippy::cast_possible_truncation)] // at most 324 bytes
    {
        let lrh = headers.lrh.with_pkt_len(((before + transport) / 4) as u16);
        packet.extend(lrh.with_lnh(lnh).bytes());
        if let Some(grh) = headers.grh {
            packet.extend(grh.with_pay_len(transport as u16).bytes());
        }
    }
    packet.extend(headers.bth.bytes());
    packet.extend(headers.deth.bytes());
    packet.extend(mad.bytes());
    // LNH is local or global, so `icrc` returns an ICRC.
    packet.extend(icrc(&packet).unwrap_or_default());
    packet.extend(vcrc(&packet));
    packet
}

#[cfg(test)]
mod tests;

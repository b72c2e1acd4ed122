//! Native InfiniBand packets: their headers, and a management datagram as a whole packet.
//!
//! Source of the layouts: architecture 7.7 (LRH), 8.3 (GRH), 9.2 (BTH), 9.3.2 (DETH); `ib_pack.h` of Linux.

mod codes;

pub use codes::{Lnh, Opcode, QKey, Qpn};

use crate::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use crate::layout::{Layout, layout};
use crate::mad::{MAD_LENGTH, Mad};
use crate::value::Reserved;
use crate::values::{Hex8, Hex32, Lid, PKey};

layout! {
    /// Local route header, 8 bytes: the first of every packet.
    pub struct Lrh[8] "LRH" {
        /// VL: the virtual lane; 15 carries subnet management only. May change on each hop.
        vl, with_vl: u8 = "VL" @ 0, 4;
        /// LVer: 0.
        lver, with_lver: u8 = "LVer" @ 4, 4;
        /// SL: the service level.
        sl, with_sl: u8 = "SL" @ 8, 4;
        /// Reserved.
        reserved_12, with_reserved_12: Reserved = "Reserved12" @ 12, 2;
        /// LNH: which header follows.
        lnh, with_lnh: Lnh = "LNH" @ 14, 2;
        /// DLID.
        dlid, with_dlid: Lid = "DLID" @ 16, 16;
        /// Reserved.
        reserved_32, with_reserved_32: Reserved = "Reserved32" @ 32, 5;
        /// PktLen in units of 4 bytes: from the LRH to the ICRC, without the VCRC.
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
        /// TClass. May change on the way.
        t_class, with_t_class: Hex8 = "TClass" @ 4, 8;
        /// FlowLabel. May change on the way.
        flow_label, with_flow_label: Hex32 = "FlowLabel" @ 12, 20;
        /// PayLen in bytes: from behind the GRH to the ICRC.
        pay_len, with_pay_len: u16 = "PayLen" @ 32, 16;
        /// NxtHdr: 0x1B when a BTH follows.
        nxt_hdr, with_nxt_hdr: Hex8 = "NxtHdr" @ 48, 8;
        /// HopLmt. May change on the way.
        hop_lmt, with_hop_lmt: u8 = "HopLmt" @ 56, 8;
        /// SGID, one byte.
        sgid, with_sgid: u8 octets = "SGID" @ 64, 8, [16; 8];
        /// DGID, one byte.
        dgid, with_dgid: u8 octets = "DGID" @ 192, 8, [16; 8];
    }
}

impl Grh {
    /// NxtHdr of a GRH that a BTH follows.
    pub const NEXT_IS_BTH: Hex8 = Hex8(0x1B);
}

layout! {
    /// Base transport header, 12 bytes.
    pub struct Bth[12] "BTH" {
        /// OpCode.
        opcode, with_opcode: Opcode = "OpCode" @ 0, 8;
        /// SE: the responder raises an event.
        solicited_event, with_solicited_event: bool = "SE" @ 8, 1;
        /// M: the migration state of the sender's QP.
        migrated, with_migrated: bool = "M" @ 9, 1;
        /// PadCnt: bytes of padding behind the payload.
        pad_count, with_pad_count: u8 = "PadCnt" @ 10, 2;
        /// TVer: 0.
        tver, with_tver: u8 = "TVer" @ 12, 4;
        /// P_Key.
        p_key, with_p_key: PKey = "P_Key" @ 16, 16;
        /// FECN: the packet met congestion. May change on the way.
        fecn, with_fecn: bool = "FECN" @ 32, 1;
        /// BECN: packets in the other direction met congestion. May change on the way.
        becn, with_becn: bool = "BECN" @ 33, 1;
        /// Reserved, and not covered by the ICRC.
        reserved_34, with_reserved_34: Reserved = "Reserved34" @ 34, 6;
        /// DestQP.
        dest_qp, with_dest_qp: Qpn = "DestQP" @ 40, 24;
        /// A: the responder is to acknowledge.
        ack_request, with_ack_request: bool = "A" @ 64, 1;
        /// Reserved.
        reserved_65, with_reserved_65: Reserved = "Reserved65" @ 65, 7;
        /// PSN.
        psn, with_psn: Hex32 = "PSN" @ 72, 24;
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
/// PktLen, PayLen, LNH and the CRCs are computed when the packet is made; all else is taken as it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MadHeaders {
    /// Local route.
    pub lrh: Lrh,
    /// Global route, if the packet has one.
    pub grh: Option<Grh>,
    /// Transport.
    pub bth: Bth,
    /// Datagram.
    pub deth: Deth,
}

impl MadHeaders {
    /// Those of a subnet management packet: VL 15, QP0 to QP0, default P_Key.
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

    /// Those of a general management packet: VL and SL 0, QP1 to QP1, the Q_Key of QP1, default P_Key.
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

    /// The same with another BTH:PSN.
    #[must_use]
    pub fn with_psn(self, psn: u32) -> Self {
        Self {
            bth: self.bth.with_psn(Hex32(psn)),
            ..self
        }
    }
}

/// A management datagram as a packet: LRH, GRH if there is one, BTH, DETH, MAD, ICRC, VCRC.
#[must_use]
pub fn mad_packet(headers: &MadHeaders, mad: &Mad) -> Vec<u8> {
    let transport = Bth::SIZE + Deth::SIZE + MAD_LENGTH + ICRC_LENGTH;
    let before = Lrh::SIZE + headers.grh.map_or(0, |_| Grh::SIZE);
    let lnh = match headers.grh {
        Some(_) => Lnh::IBA_GLOBAL,
        None => Lnh::IBA_LOCAL,
    };
    let mut packet = Vec::with_capacity(before + transport + VCRC_LENGTH);
    #[allow(clippy::cast_possible_truncation)] // 324 bytes at most
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
    // LNH says local or global, so there is an ICRC.
    packet.extend(icrc(&packet).unwrap_or_default());
    packet.extend(vcrc(&packet));
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{AttributeId, Method};
    use proptest::prelude::*;

    #[test]
    fn headers_have_their_fields_where_the_architecture_puts_them() {
        let lrh = Lrh::default()
            .with_vl(0xA)
            .with_sl(3)
            .with_lnh(Lnh::IBA_GLOBAL)
            .with_dlid(Lid(0x1234))
            .with_pkt_len(0x7FF)
            .with_slid(Lid(0x5678));
        assert_eq!(lrh.bytes(), [0xA0, 0x33, 0x12, 0x34, 0x07, 0xFF, 0x56, 0x78]);

        let bth = Bth::default()
            .with_opcode(Opcode::RC_ACKNOWLEDGE)
            .with_solicited_event(true)
            .with_pad_count(2)
            .with_p_key(PKey(0x8001))
            .with_becn(true)
            .with_dest_qp(Qpn(0x01_0203))
            .with_ack_request(true)
            .with_psn(Hex32(0x0A_0B0C));
        assert_eq!(
            bth.bytes(),
            [0x11, 0xA0, 0x80, 0x01, 0x40, 1, 2, 3, 0x80, 0x0A, 0x0B, 0x0C]
        );

        let deth = Deth::default().with_q_key(QKey::GSI).with_src_qp(Qpn(0x0A_0B0C));
        assert_eq!(deth.bytes(), [0x80, 0x01, 0, 0, 0, 0x0A, 0x0B, 0x0C]);

        let grh = Grh::default()
            .with_ip_ver(6)
            .with_t_class(Hex8(0xAB))
            .with_flow_label(Hex32(0xC_DEF0))
            .with_pay_len(0x0102)
            .with_nxt_hdr(Grh::NEXT_IS_BTH)
            .with_hop_lmt(64)
            .with_dgid(15, 0xEE);
        assert_eq!(grh.bytes()[..8], [0x6A, 0xBC, 0xDE, 0xF0, 1, 2, 0x1B, 64]);
        assert_eq!(grh.bytes()[39], 0xEE);
    }

    #[test]
    fn a_subnet_management_packet_is_290_bytes_on_vl_15_between_two_qp0() {
        let mad = Mad::lid_routed(Method::GET, AttributeId::NODE_INFO, 0);
        let packet = mad_packet(&MadHeaders::subnet_management(Lid(1), Lid(2)), &mad);
        assert_eq!(packet.len(), 8 + 12 + 8 + 256 + 4 + 2);
        assert_eq!(packet[..8], [0xF0, 0x02, 0, 2, 0, 72, 0, 1]);
        assert_eq!(packet[8..20], [0x64, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packet[20..28], [0; 8]);
        assert_eq!(packet[28..284], mad.bytes()[..]);
        assert_eq!(packet[284..288], icrc(&packet[..284]).unwrap());
        assert_eq!(packet[288..], vcrc(&packet[..288]));
    }

    #[test]
    fn a_general_management_packet_may_have_a_global_route() {
        let mad = Mad::performance(Method::GET, AttributeId::PORT_COUNTERS, 0);
        let headers = MadHeaders {
            grh: Some(Grh::default().with_ip_ver(6).with_nxt_hdr(Grh::NEXT_IS_BTH)),
            ..MadHeaders::general(Lid(1), Lid(2)).with_psn(7)
        };
        let packet = mad_packet(&headers, &mad);
        assert_eq!(packet[..6], [0x00, 0x03, 0, 2, 0, 82]);
        assert_eq!(packet[12..14], [1, 24], "PayLen: BTH to ICRC, 280 bytes");
        assert_eq!(Bth::from_bytes(&packet[48..]).dest_qp(), Qpn::GSI);
        assert_eq!(Deth::from_bytes(&packet[60..]).q_key(), QKey::GSI);
        assert_eq!(packet[324..328], icrc(&packet[..324]).unwrap());
    }

    proptest! {
        #[test]
        fn any_bytes_are_headers_that_print_and_keep_their_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..48)
        ) {
            fn check<L: Layout>(bytes: &[u8]) -> Result<(), TestCaseError> {
                let header = L::from_bytes(bytes);
                prop_assert!(!header.to_string().is_empty());
                let kept = bytes.len().min(L::SIZE);
                prop_assert_eq!(&header.bytes()[..kept], &bytes[..kept]);
                prop_assert_eq!(L::from_bytes(header.bytes()), header.clone());
                let _ = header.validate();
                Ok(())
            }
            check::<Lrh>(&bytes)?;
            check::<Grh>(&bytes)?;
            check::<Bth>(&bytes)?;
            check::<Deth>(&bytes)?;
        }
    }
}

//! Native packets for probes. A new packet is valid; methods change its fields and recompute its CRCs.

use core::net::Ipv6Addr;

use verbatim_record::Delimiter;
use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use verbatim_wire::values::Hex8;
use verbatim_wire::{
    Bth, Deth, Grh, Layout, Lid, Lnh, Lrh, MAD_LENGTH, Mad, MadHeaders, MgmtClass, Network, Opcode, PKey, QKey, Qpn,
    Transport, edit, mad_packet,
};

/// The SLID of the probes. No port has this LID: a port sends responses back on the link that received the request.
pub(crate) const OURS: Lid = Lid(0xBFF1);
/// A multicast LID.
pub(crate) const MULTICAST: Lid = Lid(0xC001);

/// A native packet and its end delimiter.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The packet from the LRH to the VCRC.
    pub(crate) bytes: Vec<u8>,
    pub(crate) delimiter: Delimiter,
}

impl Wire {
    fn good(bytes: Vec<u8>) -> Self {
        let delimiter = Delimiter::Egp;
        Self { bytes, delimiter }
    }

    /// Builds an SMP on VL 15.
    pub(crate) fn smp(dlid: Lid, mad: &Mad) -> Self {
        Self::good(mad_packet(&MadHeaders::subnet_management(OURS, dlid), mad))
    }

    /// Builds a general management packet on VL 0.
    pub(crate) fn gmp(dlid: Lid, p_key: PKey, mad: &Mad) -> Self {
        Self::good(mad_packet(&general(dlid, p_key), mad))
    }

    /// Builds a general management packet with a GRH to this GID.
    pub(crate) fn global((dlid, dgid): (Lid, Ipv6Addr), p_key: PKey, mad: &Mad) -> Self {
        let grh = Grh::default()
            .with_ip_ver(6)
            .with_nxt_hdr(Grh::NEXT_IS_BTH)
            .with_hop_lmt(64)
            .with_src(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1))
            .with_dst(dgid);
        let headers = MadHeaders {
            grh: Some(grh),
            ..general(dlid, p_key)
        };
        Self::good(mad_packet(&headers, mad))
    }

    /// Builds a packet with `payload` bytes for a queue pair that does not exist, so the port sends no response.
    pub(crate) fn plain(dlid: Lid, p_key: PKey, payload: usize) -> Self {
        let lrh = Lrh::default().with_slid(OURS).with_dlid(dlid);
        let transport = Transport {
            bth: Bth::default()
                .with_opcode(Opcode::UC_SEND_ONLY)
                .with_p_key(p_key)
                .with_dest_qp(Qpn(0xFF_FF00)),
            payload: vec![0xA5; payload],
            ..Transport::default()
        };
        Self::good(verbatim_wire::packet::packet(
            &Network::InfiniBand { lrh, grh: None },
            &transport,
        ))
    }

    /// Builds a raw packet with `length` bytes before the VCRC; `length` must be a multiple of 4 and at least 8.
    pub(crate) fn raw(dlid: Lid, length: usize) -> Self {
        let words = u16::try_from(length / 4).unwrap_or(u16::MAX);
        let lrh = Lrh::default().with_slid(OURS).with_dlid(dlid).with_lnh(Lnh::RAW);
        let mut bytes = lrh.with_pkt_len(words).bytes().to_vec();
        bytes.resize(length, 0x3C);
        bytes.extend(vcrc(&bytes));
        Self::good(bytes)
    }

    /// Builds a raw packet with an IPv6 header and no next header. `length` counts the bytes before the VCRC; it must
    /// be a multiple of 4 and at least 48.
    pub(crate) fn raw_ipv6(dlid: Lid, length: usize) -> Self {
        let payload = length.saturating_sub(Lrh::SIZE + Grh::SIZE);
        let ip = |header: Grh| {
            header
                .with_ip_ver(6)
                .with_pay_len(u16::try_from(payload).unwrap_or(u16::MAX))
                .with_nxt_hdr(Hex8(59))
                .with_hop_lmt(64)
        };
        let raw = Self::raw(dlid, length).lrh(|lrh| lrh.with_lnh(Lnh::IPV6));
        raw.grh(ip).resealed()
    }

    /// Builds an IBA packet with 20 bytes before the VCRC: its BTH is truncated, and all other fields are valid.
    pub(crate) fn runt(dlid: Lid) -> Self {
        let lrh = Lrh::default()
            .with_vl(15)
            .with_lnh(Lnh::IBA_LOCAL)
            .with_slid(OURS)
            .with_dlid(dlid)
            .with_pkt_len(5);
        let mut bytes = lrh.bytes().to_vec();
        bytes.extend([0x64, 0, 0xFF, 0xFF, 0, 0, 0, 0]);
        let mut masked = bytes.clone();
        masked[0] |= 0xF0;
        masked[Lrh::SIZE + 4] = 0xFF;
        bytes.extend(crc32(&masked).to_le_bytes());
        bytes.extend(vcrc(&bytes));
        Self::good(bytes)
    }

    /// Changes the LRH without updating the CRCs.
    pub(crate) fn lrh(mut self, change: impl FnOnce(Lrh) -> Lrh) -> Self {
        edit(&mut self.bytes, 0, change);
        self
    }

    /// Changes the GRH without updating the CRCs.
    pub(crate) fn grh(mut self, change: impl FnOnce(Grh) -> Grh) -> Self {
        edit(&mut self.bytes, Lrh::SIZE, change);
        self
    }

    /// Changes the BTH without updating the CRCs.
    pub(crate) fn bth(mut self, change: impl FnOnce(Bth) -> Bth) -> Self {
        let at = bth_at(&self.bytes);
        edit(&mut self.bytes, at, change);
        self
    }

    /// Changes the DETH without updating the CRCs.
    pub(crate) fn deth(mut self, change: impl FnOnce(Deth) -> Deth) -> Self {
        let at = bth_at(&self.bytes) + Bth::SIZE;
        edit(&mut self.bytes, at, change);
        self
    }

    /// Changes the end delimiter.
    pub(crate) fn ended(self, delimiter: Delimiter) -> Self {
        Self { delimiter, ..self }
    }

    /// Inverts `bits` in the byte at `from_end`; 1 is the last byte.
    pub(crate) fn flipped(mut self, from_end: usize, bits: u8) -> Self {
        if let Some(byte) = self
            .bytes
            .len()
            .checked_sub(from_end)
            .and_then(|at| self.bytes.get_mut(at))
        {
            *byte ^= bits;
        }
        self
    }

    /// Makes the ICRC wrong and updates the VCRC.
    pub(crate) fn bad_icrc(self) -> Self {
        self.flipped(VCRC_LENGTH + 1, 0x10).resealed()
    }

    /// Adds `by` bytes before the ICRC and updates both CRCs, but not the length fields.
    pub(crate) fn longer(mut self, by: usize) -> Self {
        let at = self.bytes.len() - VCRC_LENGTH - ICRC_LENGTH;
        self.bytes.splice(at..at, vec![0; by]);
        self.mended()
    }

    /// Updates the ICRC and the VCRC.
    pub(crate) fn mended(mut self) -> Self {
        let at = self.bytes.len() - VCRC_LENGTH - ICRC_LENGTH;
        if let Some(right) = icrc(&self.bytes[..at]) {
            self.bytes[at..at + ICRC_LENGTH].copy_from_slice(&right);
        }
        self.resealed()
    }

    /// Updates the VCRC.
    pub(crate) fn resealed(mut self) -> Self {
        let at = self.bytes.len() - VCRC_LENGTH;
        let right = vcrc(&self.bytes[..at]);
        self.bytes[at..].copy_from_slice(&right);
        self
    }

    /// Marks the packet as bad, as a port does: ends it with EBP and inverts the VCRC.
    pub(crate) fn marked(self) -> Self {
        self.flipped(1, 0xFF).flipped(2, 0xFF).ended(Delimiter::Ebp)
    }
}

fn general(dlid: Lid, p_key: PKey) -> MadHeaders {
    let headers = MadHeaders::general(OURS, dlid);
    MadHeaders {
        bth: headers.bth.with_p_key(p_key),
        ..headers
    }
}

/// Returns the offset of the BTH according to LNH.
fn bth_at(bytes: &[u8]) -> usize {
    let lnh = bytes.get(1).map_or(Lnh::IBA_LOCAL, |byte| Lnh(byte & 3));
    Lrh::SIZE + if lnh == Lnh::IBA_GLOBAL { Grh::SIZE } else { 0 }
}

/// Returns the MAD of a packet, or `None` if the packet is too short for a MAD. Checks no field except LNH.
pub(crate) fn mad_in(bytes: &[u8]) -> Option<Mad> {
    let at = bth_at(bytes) + Bth::SIZE + Deth::SIZE;
    Mad::try_from(bytes.get(at..at + MAD_LENGTH)?).ok()
}

pub(crate) fn headers(bytes: &[u8]) -> (Lrh, Bth, Deth) {
    let at = bth_at(bytes);
    let bth = Bth::from_bytes(&bytes[at..at + Bth::SIZE]);
    let deth = Deth::from_bytes(&bytes[at + Bth::SIZE..at + Bth::SIZE + Deth::SIZE]);
    (Lrh::from_bytes(bytes), bth, deth)
}

/// Returns whether a packet to QP1 has a wrong Q_Key.
pub(crate) fn has_foreign_q_key(bytes: &[u8]) -> bool {
    mad_in(bytes).is_some_and(|_| {
        let (_, bth, deth) = headers(bytes);
        bth.dest_qp() == Qpn::GSI && deth.q_key() != QKey::GSI
    })
}

/// Returns whether a port that accepts the packet must respond: the packet is a request to QP0 or QP1, and not
/// multicast.
pub(crate) fn asks(bytes: &[u8]) -> bool {
    let Some(mad) = mad_in(bytes) else { return false };
    let (lrh, bth, deth) = headers(bytes);
    let is_multicast = (MULTICAST.0..Lid::PERMISSIVE.0).contains(&lrh.dlid().0);
    let is_served = match bth.dest_qp() {
        Qpn::SMI => mad.class() == MgmtClass::SUBN_LID,
        Qpn::GSI => mad.class() == MgmtClass::PERF && deth.q_key() == QKey::GSI,
        _ => false,
    };
    bth.opcode() == Opcode::UD_SEND_ONLY && is_served && !is_multicast
}

/// Returns whether a packet is marked as bad: it ends with EBP and the inverted VCRC.
pub(crate) fn is_marked(bytes: &[u8], delimiter: Delimiter) -> bool {
    let Some((body, seen)) = bytes.split_last_chunk::<VCRC_LENGTH>() else {
        return false;
    };
    delimiter == Delimiter::Ebp && vcrc(body).map(|byte| !byte) == *seen
}

/// Computes a CRC over all bytes with the ICRC's polynomial, in wire order. `verbatim_wire` computes no ICRC for
/// truncated headers.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |register: u32| (register >> 1) ^ if register & 1 == 1 { 0xEDB8_8320 } else { 0 };
    let take = |register: u32, byte: &u8| (0..8).fold(register ^ u32::from(*byte), |register, _| step(register));
    !bytes.iter().fold(u32::MAX, take)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_wire::{AttributeId, Method};

    #[test]
    fn runt_crc_matches_whole_packets() {
        let wire = Wire::plain(Lid(5), PKey(0xFFFF), 8);
        let at = wire.bytes.len() - VCRC_LENGTH - ICRC_LENGTH;
        let mut masked = wire.bytes[..at].to_vec();
        masked[0] |= 0xF0;
        masked[Lrh::SIZE + 4] = 0xFF;
        assert_eq!(crc32(&masked).to_le_bytes(), wire.bytes[at..at + ICRC_LENGTH]);
    }

    #[test]
    fn mad_is_found_with_and_without_grh() {
        let mad = Mad::performance(Method::GET, AttributeId::CLASS_PORT_INFO, 0).with_transaction_id(7);
        for wire in [
            Wire::gmp(Lid(5), PKey(0xFFFF), &mad),
            Wire::global((Lid(5), Ipv6Addr::LOCALHOST), PKey(0xFFFF), &mad),
        ] {
            assert_eq!(mad_in(&wire.bytes), Some(mad));
            assert!(asks(&wire.bytes));
            assert!(!asks(&wire.bth(|bth| bth.with_dest_qp(Qpn::SMI)).bytes));
        }
        assert!(!asks(&Wire::gmp(MULTICAST, PKey(0xFFFF), &mad).bytes));
        assert!(!asks(&Wire::runt(Lid(5)).bytes));
    }

    #[test]
    fn marked_packet_needs_ebp_and_inverted_vcrc() {
        let sound = Wire::plain(Lid(5), PKey(0xFFFF), 8);
        let is = |wire: &Wire| is_marked(&wire.bytes, wire.delimiter);
        assert!(is(&sound.clone().marked()));
        assert!(!is(&sound.clone().ended(Delimiter::Ebp)));
        assert!(!is(&sound.marked().ended(Delimiter::Egp)));
    }
}

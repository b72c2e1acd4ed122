//! Native packets to probe a port with: sound until they are changed, mended when asked.

use core::net::Ipv6Addr;

use verbatim_record::Delimiter;
use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use verbatim_wire::values::Hex8;
use verbatim_wire::{
    Bth, Deth, Grh, Layout, Lid, Lnh, Lrh, MAD_LENGTH, Mad, MadHeaders, MgmtClass, Network, Opcode, PKey, QKey, Qpn,
    Transport, edit, mad_packet,
};

/// Where our packets come from. No port has it: answers come back on the link that the request came by.
pub(crate) const OURS: Lid = Lid(0xBFF1);
/// The first multicast LID.
pub(crate) const MULTICAST: Lid = Lid(0xC001);

/// A native packet and what ends it.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// From the LRH to the VCRC.
    pub(crate) bytes: Vec<u8>,
    /// What ends it.
    pub(crate) delimiter: Delimiter,
}

impl Wire {
    fn good(bytes: Vec<u8>) -> Self {
        let delimiter = Delimiter::Egp;
        Self { bytes, delimiter }
    }

    /// An SMP on VL 15.
    pub(crate) fn smp(dlid: Lid, mad: &Mad) -> Self {
        Self::good(mad_packet(&MadHeaders::subnet_management(OURS, dlid), mad))
    }

    /// A general management packet on VL 0.
    pub(crate) fn gmp(dlid: Lid, p_key: PKey, mad: &Mad) -> Self {
        Self::good(mad_packet(&general(dlid, p_key), mad))
    }

    /// The same with a GRH, to a GID too.
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

    /// A packet of so many payload bytes for a queue pair that nobody has: nothing answers it.
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

    /// A raw packet of so many bytes up to the VCRC: a multiple of 4, 8 at least.
    pub(crate) fn raw(dlid: Lid, length: usize) -> Self {
        let words = u16::try_from(length / 4).unwrap_or(u16::MAX);
        let lrh = Lrh::default().with_slid(OURS).with_dlid(dlid).with_lnh(Lnh::RAW);
        let mut bytes = lrh.with_pkt_len(words).bytes().to_vec();
        bytes.resize(length, 0x3C);
        bytes.extend(vcrc(&bytes));
        Self::good(bytes)
    }

    /// A raw packet with an IPv6 header and no next one, of so many bytes up to the VCRC: a multiple of 4, 48 at least.
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

    /// An IBA packet of 20 bytes up to the VCRC: its BTH is cut short, all else is as it must be.
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

    /// With another LRH; the CRCs as they were.
    pub(crate) fn lrh(mut self, change: impl FnOnce(Lrh) -> Lrh) -> Self {
        edit(&mut self.bytes, 0, change);
        self
    }

    /// With another GRH; the CRCs as they were.
    pub(crate) fn grh(mut self, change: impl FnOnce(Grh) -> Grh) -> Self {
        edit(&mut self.bytes, Lrh::SIZE, change);
        self
    }

    /// With another BTH; the CRCs as they were.
    pub(crate) fn bth(mut self, change: impl FnOnce(Bth) -> Bth) -> Self {
        let at = bth_at(&self.bytes);
        edit(&mut self.bytes, at, change);
        self
    }

    /// With another DETH; the CRCs as they were.
    pub(crate) fn deth(mut self, change: impl FnOnce(Deth) -> Deth) -> Self {
        let at = bth_at(&self.bytes) + Bth::SIZE;
        edit(&mut self.bytes, at, change);
        self
    }

    /// Ended by something else.
    pub(crate) fn ended(self, delimiter: Delimiter) -> Self {
        Self { delimiter, ..self }
    }

    /// With bits of the byte that is so many before the end turned over.
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

    /// With a wrong ICRC and a right VCRC.
    pub(crate) fn bad_icrc(self) -> Self {
        self.flipped(VCRC_LENGTH + 1, 0x10).resealed()
    }

    /// With so many bytes more before the ICRC; the lengths as they were.
    pub(crate) fn longer(mut self, by: usize) -> Self {
        let at = self.bytes.len() - VCRC_LENGTH - ICRC_LENGTH;
        self.bytes.splice(at..at, vec![0; by]);
        self.mended()
    }

    /// With the ICRC and the VCRC that its bytes ask for.
    pub(crate) fn mended(mut self) -> Self {
        let at = self.bytes.len() - VCRC_LENGTH - ICRC_LENGTH;
        if let Some(right) = icrc(&self.bytes[..at]) {
            self.bytes[at..at + ICRC_LENGTH].copy_from_slice(&right);
        }
        self.resealed()
    }

    /// With the VCRC that its bytes ask for.
    pub(crate) fn resealed(mut self) -> Self {
        let at = self.bytes.len() - VCRC_LENGTH;
        let right = vcrc(&self.bytes[..at]);
        self.bytes[at..].copy_from_slice(&right);
        self
    }

    /// As a port leaves it that marks it as bad: EBP, and the complement of the right VCRC.
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

/// Where LNH puts the BTH.
fn bth_at(bytes: &[u8]) -> usize {
    let lnh = bytes.get(1).map_or(Lnh::IBA_LOCAL, |byte| Lnh(byte & 3));
    Lrh::SIZE + if lnh == Lnh::IBA_GLOBAL { Grh::SIZE } else { 0 }
}

/// The MAD of a packet that has one, wherever LNH puts it; nothing else is looked at.
pub(crate) fn mad_in(bytes: &[u8]) -> Option<Mad> {
    let at = bth_at(bytes) + Bth::SIZE + Deth::SIZE;
    Mad::try_from(bytes.get(at..at + MAD_LENGTH)?).ok()
}

/// LRH, BTH and DETH of a packet that has a MAD.
pub(crate) fn headers(bytes: &[u8]) -> (Lrh, Bth, Deth) {
    let at = bth_at(bytes);
    let bth = Bth::from_bytes(&bytes[at..at + Bth::SIZE]);
    let deth = Deth::from_bytes(&bytes[at + Bth::SIZE..at + Bth::SIZE + Deth::SIZE]);
    (Lrh::from_bytes(bytes), bth, deth)
}

/// Whether a packet is for QP1, and has another Q_Key.
pub(crate) fn has_foreign_q_key(bytes: &[u8]) -> bool {
    mad_in(bytes).is_some_and(|_| {
        let (_, bth, deth) = headers(bytes);
        bth.dest_qp() == Qpn::GSI && deth.q_key() != QKey::GSI
    })
}

/// Whether a packet, if it is accepted, asks something that must be answered: of one port, at QP0 or QP1.
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

/// Whether a packet ends as a port leaves it that marks it: EBP, and the complement of the right VCRC.
pub(crate) fn is_marked(bytes: &[u8], delimiter: Delimiter) -> bool {
    let Some((body, seen)) = bytes.split_last_chunk::<VCRC_LENGTH>() else {
        return false;
    };
    delimiter == Delimiter::Ebp && vcrc(body).map(|byte| !byte) == *seen
}

/// The ICRC's polynomial over all bytes as they are, as it goes onto the wire. Headers that are cut short have no ICRC
/// that `verbatim_wire` would make.
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
    fn the_crc_of_a_runt_is_that_of_whole_packets() {
        let wire = Wire::plain(Lid(5), PKey(0xFFFF), 8);
        let at = wire.bytes.len() - VCRC_LENGTH - ICRC_LENGTH;
        let mut masked = wire.bytes[..at].to_vec();
        masked[0] |= 0xF0;
        masked[Lrh::SIZE + 4] = 0xFF;
        assert_eq!(crc32(&masked).to_le_bytes(), wire.bytes[at..at + ICRC_LENGTH]);
    }

    #[test]
    fn the_mad_is_found_with_and_without_a_grh_and_asks_only_at_its_own_queue_pair() {
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
    fn a_marked_packet_is_known_by_both_of_its_marks() {
        let sound = Wire::plain(Lid(5), PKey(0xFFFF), 8);
        let is = |wire: &Wire| is_marked(&wire.bytes, wire.delimiter);
        assert!(is(&sound.clone().marked()));
        assert!(!is(&sound.clone().ended(Delimiter::Ebp)));
        assert!(!is(&sound.marked().ended(Delimiter::Egp)));
    }
}

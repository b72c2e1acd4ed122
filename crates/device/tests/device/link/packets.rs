//! Builders of well-formed and broken packets, and the expected outcomes at a port.

use core::net::Ipv6Addr;

use verbatim_device::link::{Arrival, Counters, Delimiter, LinkDefect, LinkPort, LinkProfile, Outcome};
use verbatim_wire::crc::vcrc;
use verbatim_wire::packet::packet;
use verbatim_wire::{Bth, Deth, Grh, Layout, Lid, Lnh, Lrh, MAD_LENGTH, Network, Opcode, PKey, Qpn, Transport, edit};

/// The base LID of the port in most tests.
pub(crate) const LID: Lid = Lid(0x0120);
const SENDER: Lid = Lid(0x0007);
const BTH_LOCAL: usize = Lrh::SIZE;
const BTH_GLOBAL: usize = Lrh::SIZE + Grh::SIZE;

/// A packet under construction, well-formed at first. A change of a header makes the CRCs wrong until a method repairs
/// them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wire {
    pub(crate) bytes: Vec<u8>,
    pub(crate) delimiter: Delimiter,
}

fn transport(payload: usize) -> Transport {
    Transport {
        bth: Bth::default()
            .with_opcode(Opcode::UC_SEND_ONLY)
            .with_p_key(PKey(0xFFFF))
            .with_dest_qp(Qpn(0x21)),
        payload: (0..payload).map(|byte| (byte * 7 + 1) as u8).collect(),
        ..Transport::default()
    }
}

fn route() -> Lrh {
    Lrh::default().with_slid(SENDER).with_dlid(LID).with_vl(1).with_sl(3)
}

/// Creates an IBA local packet with `payload` bytes of payload, for QP 0x21 of [`LID`].
pub(crate) fn local(payload: usize) -> Wire {
    let network = Network::InfiniBand {
        lrh: route(),
        grh: None,
    };
    Wire::good(packet(&network, &transport(payload)))
}

/// Creates the packet of [`local`] with a GRH.
pub(crate) fn global(payload: usize) -> Wire {
    let grh = Grh::default()
        .with_src(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 7))
        .with_dst(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0x120))
        .with_hop_lmt(64);
    let network = Network::InfiniBand {
        lrh: route(),
        grh: Some(grh),
    };
    Wire::good(packet(&network, &transport(payload)))
}

/// Creates a raw packet of `length` bytes without the VCRC. `length` is a multiple of 4, at least 8.
pub(crate) fn raw(length: usize) -> Wire {
    let lrh = route().with_lnh(Lnh::RAW);
    let mut bytes = lrh.bytes().to_vec();
    bytes.extend((8..length).map(|byte| byte as u8));
    let mut wire = Wire::good(bytes);
    wire.bytes.extend([0, 0]);
    wire.fit();
    wire
}

/// Creates a raw IPv6 packet of `length` bytes without the VCRC.
pub(crate) fn raw_ipv6(length: usize) -> Wire {
    raw(length).lrh(|lrh| lrh.with_lnh(Lnh::IPV6)).mended()
}

pub(crate) fn smp(dlid: Lid) -> Wire {
    let lrh = Lrh::default().with_vl(15).with_slid(Lid::PERMISSIVE).with_dlid(dlid);
    let transport = Transport {
        bth: Bth::default()
            .with_opcode(Opcode::UD_SEND_ONLY)
            .with_p_key(PKey(0xFFFF)),
        deth: Some(Deth::default()),
        payload: vec![1; MAD_LENGTH],
        ..Transport::default()
    };
    Wire::good(packet(&Network::InfiniBand { lrh, grh: None }, &transport))
}

impl Wire {
    fn good(bytes: Vec<u8>) -> Self {
        let delimiter = Delimiter::Egp;
        Self { bytes, delimiter }
    }

    fn header(&self) -> Lrh {
        Lrh::from_bytes(&self.bytes[..Lrh::SIZE])
    }

    /// Changes the LRH and keeps the CRCs.
    pub(crate) fn lrh(mut self, change: impl FnOnce(Lrh) -> Lrh) -> Self {
        edit(&mut self.bytes, 0, change);
        self
    }

    /// Changes the GRH and keeps the CRCs.
    pub(crate) fn grh(mut self, change: impl FnOnce(Grh) -> Grh) -> Self {
        edit(&mut self.bytes, Lrh::SIZE, change);
        self
    }

    /// Changes the BTH and keeps the CRCs.
    pub(crate) fn bth(mut self, change: impl FnOnce(Bth) -> Bth) -> Self {
        let at = if self.header().lnh() == Lnh::IBA_GLOBAL {
            BTH_GLOBAL
        } else {
            BTH_LOCAL
        };
        edit(&mut self.bytes, at, change);
        self
    }

    pub(crate) fn to(self, dlid: u16) -> Self {
        self.lrh(|lrh| lrh.with_dlid(Lid(dlid))).mended()
    }

    pub(crate) fn on_vl(self, vl: u8) -> Self {
        self.lrh(|lrh| lrh.with_vl(vl)).mended()
    }

    pub(crate) fn with_p_key(self, p_key: u16) -> Self {
        self.bth(|bth| bth.with_p_key(PKey(p_key))).mended()
    }

    pub(crate) fn ended(mut self, delimiter: Delimiter) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Flips one bit and keeps the CRCs.
    pub(crate) fn flip(mut self, bit: usize) -> Self {
        self.bytes[bit / 8] ^= 0x80 >> (bit % 8);
        self
    }

    /// Flips the last bit of the ICRC of an IBA packet and repairs the VCRC.
    pub(crate) fn bad_icrc(self) -> Self {
        let bit = self.bytes.len() * 8 - 17;
        self.flip(bit).with_vcrc()
    }

    pub(crate) fn bad_vcrc(self) -> Self {
        let bit = self.bytes.len() * 8 - 1;
        self.flip(bit)
    }

    /// Inserts bytes before the CRCs, or removes bytes if `by` is negative. Keeps the length fields and repairs the
    /// CRCs.
    pub(crate) fn resized(mut self, by: isize) -> Self {
        let end = self.bytes.len() - 6;
        if by < 0 {
            self.bytes.drain(end - by.unsigned_abs()..end);
        } else {
            self.bytes.splice(end..end, vec![0x5A; by.unsigned_abs()]);
        }
        self.mended()
    }

    /// Sets PktLen to the length of the packet, then repairs the CRCs.
    pub(crate) fn fit(&mut self) {
        let units = ((self.bytes.len() - 2) / 4) as u16;
        *self = self.clone().lrh(|lrh| lrh.with_pkt_len(units)).mended();
    }

    /// Repairs both CRCs. The ICRC is in the 4 bytes before the VCRC, unless the packet is raw.
    pub(crate) fn mended(mut self) -> Self {
        let end = self.bytes.len() - 2;
        let lnh = self.header().lnh();
        if matches!(lnh, Lnh::IBA_LOCAL | Lnh::IBA_GLOBAL) && end >= Lrh::SIZE + 4 {
            let icrc = icrc_by_long_division(lnh, &self.bytes[..end - 4]);
            self.bytes[end - 4..end].copy_from_slice(&icrc);
        }
        self.with_vcrc()
    }

    pub(crate) fn with_vcrc(mut self) -> Self {
        let end = self.bytes.len() - 2;
        let right = vcrc(&self.bytes[..end]);
        self.bytes[end..].copy_from_slice(&right);
        self
    }

    /// Returns the outcome of the packet at a port, and the port's counters after the packet.
    pub(crate) fn at(&self, profile: &LinkProfile, defects: &[LinkDefect]) -> (Outcome, Counters) {
        let mut port = LinkPort::new(profile.clone(), defects);
        let outcome = port.receive(&Arrival {
            bytes: &self.bytes,
            delimiter: self.delimiter,
        });
        (outcome, *port.counters())
    }

    /// Returns the outcome at the port of `ca`.
    pub(crate) fn at_ca(&self) -> (Outcome, Counters) {
        self.at(&ca(), &[])
    }
}

/// Computes the ICRC bit by bit, with the generator in the architecture's notation and ones in the variant fields.
fn icrc_by_long_division(lnh: Lnh, covered: &[u8]) -> [u8; 4] {
    let mut masked = covered.to_vec();
    let mut ones = |at: usize, bits: u8| {
        if let Some(byte) = masked.get_mut(at) {
            *byte |= bits;
        }
    };
    if lnh == Lnh::IBA_GLOBAL {
        (0..8).for_each(|at| ones(at, 0xFF));
        ones(8, 0x0F);
        (9..12).for_each(|at| ones(at, 0xFF));
        ones(15, 0xFF);
        ones(52, 0xFF);
    } else {
        ones(0, 0xF0);
        ones(12, 0xFF);
    }
    let mut register: u32 = 0xFFFF_FFFF;
    for byte in masked {
        for bit in 0..8 {
            let feedback = (register >> 31) ^ u32::from((byte >> bit) & 1);
            register = (register << 1) ^ if feedback == 1 { 0x04C1_1DB7 } else { 0 };
        }
    }
    (!register).reverse_bits().to_le_bytes()
}

/// Returns the profile of the port in most tests.
pub(crate) fn ca() -> LinkProfile {
    LinkProfile::channel_adapter(LID)
}

/// Returns whether the port accepted the packet and counted no error.
pub(crate) fn is_taken(seen: &(Outcome, Counters)) -> bool {
    matches!(seen.0, Outcome::Accepted(_)) && seen.1 == Counters::default()
}

/// Returns the outcome of a discarded packet that counts in no counter.
pub(crate) fn silent() -> (Outcome, Counters) {
    (Outcome::Discarded, Counters::default())
}

/// Returns the outcome of a discarded packet that counts as a physical error.
pub(crate) fn physical() -> (Outcome, Counters) {
    let counters = Counters {
        port_rcv_errors: 1,
        port_local_physical_errors: 1,
        ..Counters::default()
    };
    (Outcome::Discarded, counters)
}

/// Returns the outcome of a discarded packet that counts as malformed.
pub(crate) fn malformed() -> (Outcome, Counters) {
    let counters = Counters {
        port_rcv_errors: 1,
        port_malformed_pkt_errors: 1,
        ..Counters::default()
    };
    (Outcome::Discarded, counters)
}

/// Returns the outcome of a discarded packet that counts in PortRcvRemotePhysicalErrors.
pub(crate) fn remote() -> (Outcome, Counters) {
    let counters = Counters {
        port_rcv_remote_physical_errors: 1,
        ..Counters::default()
    };
    (Outcome::Discarded, counters)
}

/// Returns the outcome of a discarded packet that counts in P_KeyViolations.
pub(crate) fn foreign() -> (Outcome, Counters) {
    let counters = Counters {
        p_key_violations: 1,
        ..Counters::default()
    };
    (Outcome::Discarded, counters)
}

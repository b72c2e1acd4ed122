//! Packets from bytes: nothing is copied, nothing is changed, any bytes are allowed.

use super::build::{Link, Network, Transport};
use super::form::{Form, Medium};
use super::mend::Offsets;
use super::opcode::Headers;
use super::route::{NotAPacket, Route};
use super::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Grh, Ieth, ImmDt, Lrh, Opcode, Rdeth, Reth, Xrceth};
use crate::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc_of, vcrc};
use crate::ether::{Ethernet, IpProtocol, Ipv4, Ipv6, Udp, Vlan, internet_checksum, pseudo_header_checksum};
use crate::layout::Layout;
use crate::values::Hex16;

/// A packet in bytes of somebody else's.
///
/// The headers before the BTH are there and say RoCE or InfiniBand; the BTH is there. All else may be wrong.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    route: Route,
    medium: Medium,
    /// The first byte behind the ICRC.
    end: usize,
}

impl<'a> Packet<'a> {
    /// Finds the packet in `bytes`. The network's length fields say where it ends; more bytes may follow.
    ///
    /// # Errors
    /// What else it is, or what is missing.
    pub fn parse(medium: Medium, bytes: &'a [u8]) -> Result<Self, NotAPacket> {
        let route = Route::find(medium, bytes)?;
        let end = route.end(bytes);
        let all = end + if medium == Medium::InfiniBand { VCRC_LENGTH } else { 0 };
        for (what, needed, seen) in [
            ("BTH", route.bth() + Bth::SIZE, end),
            ("packet, as its length field has it,", all, bytes.len()),
        ] {
            if seen < needed {
                return Err(NotAPacket::Truncated { what, needed, seen });
            }
        }
        Ok(Self {
            bytes,
            route,
            medium,
            end,
        })
    }

    /// The bytes of the packet, without what follows it.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.length()]
    }

    /// What follows the packet: the padding of a short frame, for one.
    #[must_use]
    pub fn trailer(&self) -> &'a [u8] {
        &self.bytes[self.length()..]
    }

    fn length(&self) -> usize {
        match self.medium {
            Medium::InfiniBand => self.end + VCRC_LENGTH,
            Medium::Ethernet | Medium::InfiniBandNoVcrc => self.end,
        }
    }

    /// Which headers stand before the BTH.
    #[must_use]
    pub fn form(&self) -> Form {
        self.route.form
    }

    /// What it was read as.
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.medium
    }

    fn header<L: Layout>(&self, at: Option<usize>) -> Option<L> {
        at.map(|at| L::from_bytes(&self.bytes[at..]))
    }

    /// The Ethernet header.
    #[must_use]
    pub fn ethernet(&self) -> Option<Ethernet> {
        self.header(self.route.ethernet())
    }

    /// The VLAN tag; of two, the inner one.
    #[must_use]
    pub fn vlan(&self) -> Option<Vlan> {
        self.header(self.route.vlan())
    }

    /// The IPv4 header.
    #[must_use]
    pub fn ipv4(&self) -> Option<Ipv4> {
        self.header(self.route.ipv4())
    }

    /// The IPv6 header of RoCEv2; [`Packet::grh`] is the one of RoCEv1.
    #[must_use]
    pub fn ipv6(&self) -> Option<Ipv6> {
        self.header(self.route.ipv6())
    }

    /// The UDP header.
    #[must_use]
    pub fn udp(&self) -> Option<Udp> {
        self.header(self.route.udp())
    }

    /// The local route header.
    #[must_use]
    pub fn lrh(&self) -> Option<Lrh> {
        self.header(self.route.lrh())
    }

    /// The global route header, of InfiniBand or RoCEv1.
    #[must_use]
    pub fn grh(&self) -> Option<Grh> {
        self.header(self.route.grh())
    }

    /// All headers before the BTH.
    #[must_use]
    pub fn network(&self) -> Network {
        // Each form has the headers that are asked for here, so no default is ever taken.
        let link = Link {
            ethernet: self.ethernet().unwrap_or_default(),
            vlan: self.vlan(),
        };
        match self.form() {
            Form::InfiniBandLocal | Form::InfiniBandGlobal => Network::InfiniBand {
                lrh: self.lrh().unwrap_or_default(),
                grh: self.grh(),
            },
            Form::RoceV1 => Network::RoceV1 {
                link,
                grh: self.grh().unwrap_or_default(),
            },
            Form::RoceV2Ipv4 => Network::RoceV2Ipv4 {
                link,
                ip: self.ipv4().unwrap_or_default(),
                udp: self.udp().unwrap_or_default(),
            },
            Form::RoceV2Ipv6 => Network::RoceV2Ipv6 {
                link,
                ip: self.ipv6().unwrap_or_default(),
                udp: self.udp().unwrap_or_default(),
            },
        }
    }

    /// The base transport header.
    #[must_use]
    #[inline]
    pub fn bth(&self) -> Bth {
        Bth::from_bytes(&self.bytes[self.route.bth()..])
    }

    /// BTH:OpCode.
    #[must_use]
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.bytes[self.route.bth()])
    }

    /// The first byte behind headers and padded payload: of the ICRC, if there is one.
    fn covered_end(&self) -> usize {
        match self.icrc_at() {
            Some(at) => at,
            None => self.end,
        }
    }

    fn icrc_at(&self) -> Option<usize> {
        let at = self.end - ICRC_LENGTH;
        (at >= self.route.bth() + Bth::SIZE).then_some(at)
    }

    /// Where an extended header begins: if the opcode has it and if all of it is there.
    #[inline]
    pub(super) fn extended(&self, wanted: Headers) -> Option<usize> {
        let (before, size) = self.opcode().headers().bytes_before(wanted)?;
        let at = self.route.bth() + Bth::SIZE + before;
        (at + size <= self.covered_end()).then_some(at)
    }

    /// The extended header that the opcode has and the packet is too short for, and so all behind it.
    #[must_use]
    pub fn missing_header(&self) -> Option<&'static str> {
        let end = self.covered_end();
        let mut at = self.route.bth() + Bth::SIZE;
        if at + self.opcode().header_bytes() <= end {
            return None;
        }
        for (_, size, name) in self.opcode().headers().each() {
            at += size;
            if at > end {
                return Some(name);
            }
        }
        None
    }

    #[inline]
    fn payload_at(&self) -> usize {
        let end = self.covered_end();
        let mut at = self.route.bth() + Bth::SIZE;
        let all = at + self.opcode().header_bytes();
        if all <= end {
            return all;
        }
        for (_, size, _) in self.opcode().headers().each() {
            if at + size > end {
                break;
            }
            at += size;
        }
        at
    }

    /// The reliable datagram header.
    #[must_use]
    pub fn rdeth(&self) -> Option<Rdeth> {
        self.header(self.extended(Headers::RDETH))
    }

    /// The datagram header.
    #[must_use]
    pub fn deth(&self) -> Option<Deth> {
        self.header(self.extended(Headers::DETH))
    }

    /// The extended reliable connection header.
    #[must_use]
    pub fn xrceth(&self) -> Option<Xrceth> {
        self.header(self.extended(Headers::XRCETH))
    }

    /// The flush header.
    #[must_use]
    pub fn feth(&self) -> Option<Feth> {
        self.header(self.extended(Headers::FETH))
    }

    /// The RDMA header.
    #[must_use]
    pub fn reth(&self) -> Option<Reth> {
        self.header(self.extended(Headers::RETH))
    }

    /// The atomic header.
    #[must_use]
    pub fn atomic(&self) -> Option<AtomicEth> {
        self.header(self.extended(Headers::ATOMIC))
    }

    /// The ACK header.
    #[must_use]
    pub fn aeth(&self) -> Option<Aeth> {
        self.header(self.extended(Headers::AETH))
    }

    /// The atomic ACK header.
    #[must_use]
    pub fn atomic_ack(&self) -> Option<AtomicAckEth> {
        self.header(self.extended(Headers::ATOMIC_ACK))
    }

    /// The immediate data.
    #[must_use]
    pub fn imm(&self) -> Option<ImmDt> {
        self.header(self.extended(Headers::IMM))
    }

    /// The invalidate header.
    #[must_use]
    pub fn ieth(&self) -> Option<Ieth> {
        self.header(self.extended(Headers::IETH))
    }

    /// The payload without its padding; empty when PadCnt says more than there is.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let padded = self.padded_payload();
        let padding = usize::from(self.bth().pad_count());
        &padded[..padded.len().saturating_sub(padding)]
    }

    /// All that stands between the headers that are there and the ICRC.
    #[must_use]
    pub fn padded_payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at()..self.covered_end()]
    }

    /// The ICRC as the packet has it; `None` when fewer than 4 bytes follow the BTH.
    #[must_use]
    pub fn icrc(&self) -> Option<[u8; ICRC_LENGTH]> {
        self.bytes[self.icrc_at()?..].first_chunk().copied()
    }

    /// The ICRC as it ought to be.
    #[must_use]
    pub fn computed_icrc(&self) -> Option<[u8; ICRC_LENGTH]> {
        icrc_of(self.form(), &self.bytes[self.route.start..self.icrc_at()?])
    }

    /// Whether there is an ICRC and it is right.
    #[must_use]
    pub fn icrc_is_right(&self) -> bool {
        self.icrc().is_some_and(|icrc| self.computed_icrc() == Some(icrc))
    }

    /// The VCRC as the packet has it.
    #[must_use]
    pub fn vcrc(&self) -> Option<[u8; VCRC_LENGTH]> {
        match self.medium {
            Medium::InfiniBand => self.bytes[self.end..].first_chunk().copied(),
            Medium::Ethernet | Medium::InfiniBandNoVcrc => None,
        }
    }

    /// Whether the VCRC is right; `None` when the medium has none.
    #[must_use]
    pub fn vcrc_is_right(&self) -> Option<bool> {
        self.vcrc().map(|carried| carried == vcrc(&self.bytes[..self.end]))
    }

    /// Whether IPv4's header checksum is right; `None` when there is no such header.
    #[must_use]
    pub fn ip_checksum_is_right(&self) -> Option<bool> {
        self.ipv4().map(|ip| internet_checksum(&[ip.bytes()]) == 0)
    }

    /// Whether the UDP checksum is right; `None` where the sender made none, or where there is no UDP.
    #[must_use]
    pub fn udp_checksum_is_right(&self) -> Option<bool> {
        self.udp().filter(|udp| udp.checksum() != Hex16(0))?;
        self.udp_checksum().map(|sum| sum == 0)
    }

    /// The checksum over UDP's message as it stands, and what stands for the addresses.
    pub(super) fn udp_checksum(&self) -> Option<u16> {
        let udp = self.udp()?;
        let message = &self.bytes[self.route.udp()?..self.end];
        if let Some(ip) = self.ipv6() {
            return Some(pseudo_header_checksum(ip.src(), ip.dst(), IpProtocol::UDP, message));
        }
        let ip = self.ipv4()?;
        let (src, dst) = (ip.src().octets(), ip.dst().octets());
        let protocol = [0, IpProtocol::UDP.0];
        Some(internet_checksum(&[
            &src,
            &dst,
            &protocol,
            &udp.length().to_be_bytes(),
            message,
        ]))
    }

    /// The BTH, what follows it, and a copy of the payload.
    #[must_use]
    pub fn transport(&self) -> Transport {
        Transport {
            bth: self.bth(),
            rdeth: self.rdeth(),
            deth: self.deth(),
            xrceth: self.xrceth(),
            feth: self.feth(),
            reth: self.reth(),
            atomic: self.atomic(),
            aeth: self.aeth(),
            atomic_ack: self.atomic_ack(),
            imm: self.imm(),
            ieth: self.ieth(),
            payload: self.payload().to_vec(),
        }
    }

    /// Where everything stands, in bytes from the first.
    #[must_use]
    pub fn offsets(&self) -> Offsets {
        let payload = self.payload_at();
        Offsets {
            form: self.form(),
            ethernet: self.route.ethernet(),
            vlan: self.route.vlan(),
            lrh: self.route.lrh(),
            grh: self.route.grh(),
            ipv4: self.route.ipv4(),
            ipv6: self.route.ipv6(),
            udp: self.route.udp(),
            bth: self.route.bth(),
            rdeth: self.extended(Headers::RDETH),
            deth: self.extended(Headers::DETH),
            xrceth: self.extended(Headers::XRCETH),
            feth: self.extended(Headers::FETH),
            reth: self.extended(Headers::RETH),
            atomic: self.extended(Headers::ATOMIC),
            aeth: self.extended(Headers::AETH),
            atomic_ack: self.extended(Headers::ATOMIC_ACK),
            imm: self.extended(Headers::IMM),
            ieth: self.extended(Headers::IETH),
            payload,
            padding: payload + self.payload().len(),
            icrc: self.icrc_at(),
            vcrc: (self.medium == Medium::InfiniBand).then_some(self.end),
            end: self.length(),
        }
    }
}

//! Parser of packets. Accepts any bytes, copies none and changes none.

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

/// A received packet, as a view of its bytes.
///
/// The headers before the BTH identify RoCE or InfiniBand, and the BTH is complete. All other contents may be
/// malformed.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    route: Route,
    medium: Medium,
    /// The first byte after the ICRC.
    end: usize,
}

impl<'a> Packet<'a> {
    /// Finds the packet in `bytes`. The length fields of the headers before the BTH determine its end; more bytes may
    /// follow.
    ///
    /// # Errors
    /// If the bytes are another kind of packet or are truncated.
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

    /// Returns the bytes of the packet without the trailer.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[..self.length()]
    }

    /// Returns the bytes after the packet, for example the padding of a short frame.
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

    /// Returns the form of the headers before the BTH.
    #[must_use]
    pub fn form(&self) -> Form {
        self.route.form
    }

    /// Returns the medium given to [`Packet::parse`].
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.medium
    }

    fn header<L: Layout>(&self, at: Option<usize>) -> Option<L> {
        at.map(|at| L::from_bytes(&self.bytes[at..]))
    }

    /// Returns the Ethernet header.
    #[must_use]
    pub fn ethernet(&self) -> Option<Ethernet> {
        self.header(self.route.ethernet())
    }

    /// Returns the VLAN tag; of two tags, the inner tag.
    #[must_use]
    pub fn vlan(&self) -> Option<Vlan> {
        self.header(self.route.vlan())
    }

    /// Returns the IPv4 header.
    #[must_use]
    pub fn ipv4(&self) -> Option<Ipv4> {
        self.header(self.route.ipv4())
    }

    /// Returns the IPv6 header of RoCEv2. For RoCEv1, use [`Packet::grh`].
    #[must_use]
    pub fn ipv6(&self) -> Option<Ipv6> {
        self.header(self.route.ipv6())
    }

    /// Returns the UDP header.
    #[must_use]
    pub fn udp(&self) -> Option<Udp> {
        self.header(self.route.udp())
    }

    /// Returns the local route header.
    #[must_use]
    pub fn lrh(&self) -> Option<Lrh> {
        self.header(self.route.lrh())
    }

    /// Returns the global route header of InfiniBand or RoCEv1.
    #[must_use]
    pub fn grh(&self) -> Option<Grh> {
        self.header(self.route.grh())
    }

    /// Returns all headers before the BTH.
    #[must_use]
    pub fn network(&self) -> Network {
        // Each form has the headers that its arm reads, so the defaults are never used.
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

    /// Returns the base transport header.
    #[must_use]
    #[inline]
    pub fn bth(&self) -> Bth {
        Bth::from_bytes(&self.bytes[self.route.bth()..])
    }

    /// Returns BTH:OpCode.
    #[must_use]
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.bytes[self.route.bth()])
    }

    /// Returns the offset of the first byte after the headers and the padded payload. If the packet has an ICRC,
    /// the ICRC begins there.
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

    /// Returns the offset of an extended header, if the opcode has the header and the packet contains all of it.
    #[inline]
    pub(super) fn extended(&self, wanted: Headers) -> Option<usize> {
        let (before, size) = self.opcode().headers().bytes_before(wanted)?;
        let at = self.route.bth() + Bth::SIZE + before;
        (at + size <= self.covered_end()).then_some(at)
    }

    /// Returns the name of the first extended header that the opcode requires and the packet lacks or truncates.
    /// All later headers are missing too.
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

    /// Returns the reliable datagram extended transport header.
    #[must_use]
    pub fn rdeth(&self) -> Option<Rdeth> {
        self.header(self.extended(Headers::RDETH))
    }

    /// Returns the datagram extended transport header.
    #[must_use]
    pub fn deth(&self) -> Option<Deth> {
        self.header(self.extended(Headers::DETH))
    }

    /// Returns the extended reliable connection header.
    #[must_use]
    pub fn xrceth(&self) -> Option<Xrceth> {
        self.header(self.extended(Headers::XRCETH))
    }

    /// Returns the flush extended transport header.
    #[must_use]
    pub fn feth(&self) -> Option<Feth> {
        self.header(self.extended(Headers::FETH))
    }

    /// Returns the RDMA extended transport header.
    #[must_use]
    pub fn reth(&self) -> Option<Reth> {
        self.header(self.extended(Headers::RETH))
    }

    /// Returns the atomic extended transport header.
    #[must_use]
    pub fn atomic(&self) -> Option<AtomicEth> {
        self.header(self.extended(Headers::ATOMIC))
    }

    /// Returns the ACK extended transport header.
    #[must_use]
    pub fn aeth(&self) -> Option<Aeth> {
        self.header(self.extended(Headers::AETH))
    }

    /// Returns the atomic ACK extended transport header.
    #[must_use]
    pub fn atomic_ack(&self) -> Option<AtomicAckEth> {
        self.header(self.extended(Headers::ATOMIC_ACK))
    }

    /// Returns the immediate data.
    #[must_use]
    pub fn imm(&self) -> Option<ImmDt> {
        self.header(self.extended(Headers::IMM))
    }

    /// Returns the invalidate extended transport header.
    #[must_use]
    pub fn ieth(&self) -> Option<Ieth> {
        self.header(self.extended(Headers::IETH))
    }

    /// Returns the payload without its padding. The payload is empty if PadCnt exceeds its length.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let padded = self.padded_payload();
        let padding = usize::from(self.bth().pad_count());
        &padded[..padded.len().saturating_sub(padding)]
    }

    /// Returns all bytes between the last complete header and the ICRC.
    #[must_use]
    pub fn padded_payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at()..self.covered_end()]
    }

    /// Returns the ICRC in the packet, or `None` if fewer than 4 bytes follow the BTH.
    #[must_use]
    pub fn icrc(&self) -> Option<[u8; ICRC_LENGTH]> {
        self.bytes[self.icrc_at()?..].first_chunk().copied()
    }

    /// Returns the computed, right ICRC, or `None` if fewer than 4 bytes follow the BTH.
    #[must_use]
    pub fn computed_icrc(&self) -> Option<[u8; ICRC_LENGTH]> {
        icrc_of(self.form(), &self.bytes[self.route.start..self.icrc_at()?])
    }

    /// Returns whether the packet has an ICRC and it is right.
    #[must_use]
    pub fn icrc_is_right(&self) -> bool {
        self.icrc().is_some_and(|icrc| self.computed_icrc() == Some(icrc))
    }

    /// Returns the VCRC in the packet, or `None` if the medium has no VCRC.
    #[must_use]
    pub fn vcrc(&self) -> Option<[u8; VCRC_LENGTH]> {
        match self.medium {
            Medium::InfiniBand => self.bytes[self.end..].first_chunk().copied(),
            Medium::Ethernet | Medium::InfiniBandNoVcrc => None,
        }
    }

    /// Returns whether the VCRC is right, or `None` if the medium has no VCRC.
    #[must_use]
    pub fn vcrc_is_right(&self) -> Option<bool> {
        self.vcrc().map(|carried| carried == vcrc(&self.bytes[..self.end]))
    }

    /// Returns whether the IPv4 header checksum is right, or `None` if there is no IPv4 header.
    #[must_use]
    pub fn ip_checksum_is_right(&self) -> Option<bool> {
        self.ipv4().map(|ip| internet_checksum(&[ip.bytes()]) == 0)
    }

    /// Returns whether the UDP checksum is right, or `None` if the checksum is 0 or there is no UDP header.
    #[must_use]
    pub fn udp_checksum_is_right(&self) -> Option<bool> {
        self.udp().filter(|udp| udp.checksum() != Hex16(0))?;
        self.udp_checksum().map(|sum| sum == 0)
    }

    /// Returns the checksum over the pseudo header and the UDP message, including the checksum field. The result is 0
    /// if the field is right.
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

    /// Returns the BTH, the extended headers, and a copy of the payload.
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

    /// Returns the offset of each part in bytes from the first byte.
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

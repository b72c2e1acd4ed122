//! The headers before the BTH, and the end of the packet.

use super::form::{Form, Medium};
use super::{Grh, Lnh, Lrh};
use crate::ether::{EtherType, Ethernet, IpProtocol, Ipv4, Ipv6, ROCE_V2_PORT, Udp, Vlan};
use crate::layout::Layout;

/// The reason why bytes are not a RoCE or InfiniBand transport packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAPacket {
    /// The packet is too short.
    #[error("expected {needed} bytes up to the end of the {what}, seen {seen}: the packet is cut short")]
    Truncated {
        /// The truncated part.
        what: &'static str,
        /// Number of bytes from the first byte to the end of this part.
        needed: usize,
        /// Number of bytes present.
        seen: usize,
    },
    /// The packet has more bytes than its length field can express.
    #[error("expected at most {room} bytes, the limit of the length field, seen {seen}")]
    TooLong {
        /// Maximum number of bytes.
        room: usize,
        /// Number of bytes present.
        seen: usize,
    },
    /// The frame carries another protocol.
    #[error("expected an Ethernet frame with IPv4, IPv6 or RoCEv1, seen EtherType {ty:#06x} ({0})", ty = .0.0)]
    NotRoce(EtherType),
    /// The version field does not match the preceding header.
    #[error("expected version {expected} in the {what}, seen {seen}")]
    Version {
        /// The header with the version field.
        what: &'static str,
        /// The expected version.
        expected: u8,
        /// The version in the header.
        seen: u8,
    },
    /// The IPv4 header has options, or its IHL is less than 5.
    #[error("expected an IPv4 header without options (IHL 5), as in RoCEv2, seen IHL {0}")]
    HeaderLength(u8),
    /// The packet is a fragment of an IP packet.
    #[error("expected a whole IP packet, as in RoCEv2, seen a fragment")]
    Fragment,
    /// The protocol after the IP header is not UDP, or the protocol after the GRH is not a BTH.
    #[error("expected protocol 17 (UDP) in an IP header or 27 (BTH) in a GRH, seen {0}")]
    OtherProtocol(u8),
    /// The UDP datagram goes to another port.
    #[error("expected UDP to port 4791 (RoCEv2), seen port {0}")]
    OtherUdpPort(u16),
    /// A raw InfiniBand packet, which has no BTH.
    #[error("expected an IBA packet (LRH:LNH 2 or 3), seen LNH {lnh} ({0}): the packet has no BTH", lnh = .0.0)]
    RawPacket(Lnh),
}

/// Maximum number of VLAN tags of a frame: a service tag and a customer tag (802.1Q, 802.1ad).
const MOST_TAGS: usize = 2;

/// The form of the headers before the BTH, and the offset of the first of them that the ICRC may cover.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) form: Form,
    /// Offset of the LRH, of the RoCEv1 GRH or of the IP header.
    pub(super) start: usize,
}

impl Route {
    /// Finds the headers from the next-header field of each preceding header. Does not check lengths.
    pub(super) fn find(medium: Medium, bytes: &[u8]) -> Result<Self, NotAPacket> {
        let route = match medium {
            Medium::Ethernet => {
                let ethernet: Ethernet = header("Ethernet header", bytes, 0)?;
                let mut ethertype = ethernet.ethertype();
                let mut start = Ethernet::SIZE;
                let is_tag = |ethertype| matches!(ethertype, EtherType::VLAN | EtherType::SERVICE_VLAN);
                while is_tag(ethertype) && start < Ethernet::SIZE + MOST_TAGS * Vlan::SIZE {
                    ethertype = header::<Vlan>("VLAN tag", bytes, start)?.ethertype();
                    start += Vlan::SIZE;
                }
                let form = match ethertype {
                    EtherType::IPV4 => Form::RoceV2Ipv4,
                    EtherType::IPV6 => Form::RoceV2Ipv6,
                    EtherType::ROCE_V1 => Form::RoceV1,
                    other => return Err(NotAPacket::NotRoce(other)),
                };
                Self { form, start }
            }
            Medium::InfiniBand | Medium::InfiniBandNoVcrc => {
                let form = match header::<Lrh>("LRH", bytes, 0)?.lnh() {
                    Lnh::IBA_LOCAL => Form::InfiniBandLocal,
                    Lnh::IBA_GLOBAL => Form::InfiniBandGlobal,
                    raw => return Err(NotAPacket::RawPacket(raw)),
                };
                Self { form, start: 0 }
            }
        };
        route.check(bytes)?;
        Ok(route)
    }

    fn check(&self, bytes: &[u8]) -> Result<(), NotAPacket> {
        if let Some(at) = self.grh() {
            let grh: Grh = header("GRH", bytes, at)?;
            version("GRH", 6, grh.ip_ver())?;
            protocol(grh.nxt_hdr().0, Grh::NEXT_IS_BTH.0)?;
        }
        if let Some(at) = self.ipv4() {
            let ip: Ipv4 = header("IPv4 header", bytes, at)?;
            version("IPv4 header", 4, ip.version())?;
            if ip.ihl() != 5 {
                return Err(NotAPacket::HeaderLength(ip.ihl()));
            }
            if ip.more_fragments() || ip.fragment_offset() != 0 {
                return Err(NotAPacket::Fragment);
            }
            protocol(ip.protocol().0, IpProtocol::UDP.0)?;
        }
        if let Some(at) = self.ipv6() {
            let ip: Ipv6 = header("IPv6 header", bytes, at)?;
            version("IPv6 header", 6, ip.version())?;
            if ip.next_header() == IpProtocol::IPV6_FRAGMENT {
                return Err(NotAPacket::Fragment);
            }
            protocol(ip.next_header().0, IpProtocol::UDP.0)?;
        }
        if let Some(at) = self.udp() {
            let udp: Udp = header("UDP header", bytes, at)?;
            if udp.dst_port() != ROCE_V2_PORT {
                return Err(NotAPacket::OtherUdpPort(udp.dst_port()));
            }
        }
        Ok(())
    }

    /// Returns the offset of the first byte after the ICRC, according to the outermost length field. The offset may
    /// lie beyond the end of `bytes` or before the BTH. `bytes` must contain the headers before the BTH.
    pub(super) fn end(&self, bytes: &[u8]) -> usize {
        let network = &bytes[self.start..];
        self.start
            + match self.form {
                Form::InfiniBandLocal | Form::InfiniBandGlobal => 4 * usize::from(Lrh::from_bytes(network).pkt_len()),
                Form::RoceV1 => Grh::SIZE + usize::from(Grh::from_bytes(network).pay_len()),
                Form::RoceV2Ipv4 => usize::from(Ipv4::from_bytes(network).total_length()),
                Form::RoceV2Ipv6 => Ipv6::SIZE + usize::from(Ipv6::from_bytes(network).payload_length()),
            }
    }

    pub(super) fn bth(&self) -> usize {
        self.start + self.form.route_length()
    }

    pub(super) fn ethernet(&self) -> Option<usize> {
        (!self.form.is_infiniband()).then_some(0)
    }

    pub(super) fn vlan(&self) -> Option<usize> {
        (!self.form.is_infiniband() && self.start > Ethernet::SIZE).then(|| self.start - Vlan::SIZE)
    }

    pub(super) fn lrh(&self) -> Option<usize> {
        self.form.is_infiniband().then_some(0)
    }

    pub(super) fn grh(&self) -> Option<usize> {
        match self.form {
            Form::InfiniBandGlobal => Some(self.start + Lrh::SIZE),
            Form::RoceV1 => Some(self.start),
            _ => None,
        }
    }

    pub(super) fn ipv4(&self) -> Option<usize> {
        (self.form == Form::RoceV2Ipv4).then_some(self.start)
    }

    pub(super) fn ipv6(&self) -> Option<usize> {
        (self.form == Form::RoceV2Ipv6).then_some(self.start)
    }

    pub(super) fn udp(&self) -> Option<usize> {
        match self.form {
            Form::RoceV2Ipv4 => Some(self.start + Ipv4::SIZE),
            Form::RoceV2Ipv6 => Some(self.start + Ipv6::SIZE),
            _ => None,
        }
    }
}

/// Returns the header at `at`, or an error if the header is truncated.
fn header<L: Layout>(what: &'static str, bytes: &[u8], at: usize) -> Result<L, NotAPacket> {
    match bytes.get(at..at + L::SIZE) {
        Some(bytes) => Ok(L::from_bytes(bytes)),
        None => Err(NotAPacket::Truncated {
            what,
            needed: at + L::SIZE,
            seen: bytes.len(),
        }),
    }
}

fn version(what: &'static str, expected: u8, seen: u8) -> Result<(), NotAPacket> {
    if seen == expected {
        Ok(())
    } else {
        Err(NotAPacket::Version { what, expected, seen })
    }
}

fn protocol(seen: u8, expected: u8) -> Result<(), NotAPacket> {
    if seen == expected {
        Ok(())
    } else {
        Err(NotAPacket::OtherProtocol(seen))
    }
}

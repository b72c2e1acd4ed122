//! Construction of well-formed packets from headers and a payload.

use core::net::{IpAddr, Ipv6Addr};

use super::form::{Form, Medium};
use super::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, Grh, Ieth, ImmDt, Lnh, Lrh, Rdeth, Reth, Xrceth};
use crate::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc_of, vcrc};
use crate::ether::{EtherType, Ethernet, IpProtocol, Ipv4, Ipv6, MacAddress, ROCE_V2_PORT, Udp, Vlan};
use crate::layout::Layout;
use crate::values::{Hex16, Lid};

/// The headers before the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// Native InfiniBand: an LRH and optionally a GRH.
    InfiniBand {
        /// Local route header.
        lrh: Lrh,
        /// Global route header, if the packet has one.
        grh: Option<Grh>,
    },
    /// RoCEv1: a GRH in an Ethernet frame.
    RoceV1 {
        /// Ethernet header and VLAN tag.
        link: Link,
        /// Global route header.
        grh: Grh,
    },
    /// RoCEv2 over IPv4.
    RoceV2Ipv4 {
        /// Ethernet header and VLAN tag.
        link: Link,
        /// IPv4 header.
        ip: Ipv4,
        /// UDP header.
        udp: Udp,
    },
    /// RoCEv2 over IPv6.
    RoceV2Ipv6 {
        /// Ethernet header and VLAN tag.
        link: Link,
        /// IPv6 header.
        ip: Ipv6,
        /// UDP header.
        udp: Udp,
    },
}

/// The headers of an Ethernet frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// The Ethernet header.
    pub ethernet: Ethernet,
    /// The VLAN tag, if the frame has one.
    pub vlan: Option<Vlan>,
}

/// The BTH, the extended headers, and the payload without its padding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transport {
    /// Base transport header.
    pub bth: Bth,
    /// Reliable datagram extended transport header.
    pub rdeth: Option<Rdeth>,
    /// Datagram extended transport header.
    pub deth: Option<Deth>,
    /// Extended reliable connection header.
    pub xrceth: Option<Xrceth>,
    /// Flush extended transport header.
    pub feth: Option<Feth>,
    /// RDMA extended transport header.
    pub reth: Option<Reth>,
    /// Atomic extended transport header.
    pub atomic: Option<AtomicEth>,
    /// ACK extended transport header.
    pub aeth: Option<Aeth>,
    /// Atomic ACK extended transport header.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm: Option<ImmDt>,
    /// Invalidate extended transport header.
    pub ieth: Option<Ieth>,
    /// The payload.
    pub payload: Vec<u8>,
}

/// An endpoint of a RoCE connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Station {
    /// The Ethernet address.
    pub mac: MacAddress,
    /// The IP address, which is also the GID.
    pub ip: IpAddr,
    /// The UDP source port. The endpoint receives on port 4791.
    pub udp_port: u16,
}

impl Station {
    /// Returns the GID: the IP address, with an IPv4 address mapped into IPv6.
    #[must_use]
    pub fn gid(&self) -> Ipv6Addr {
        match self.ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        }
    }
}

/// Hop limit of the constructed packets.
const HOPS: u8 = 64;

impl Network {
    /// Creates RoCEv2 headers: IPv4 if both addresses are IPv4, otherwise IPv6.
    #[must_use]
    pub fn roce_v2(from: &Station, to: &Station) -> Self {
        let link = Link::between(from, to);
        let udp = Udp::default().with_src_port(from.udp_port).with_dst_port(ROCE_V2_PORT);
        let network = match (from.ip, to.ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self::RoceV2Ipv4 {
                link,
                ip: Ipv4::default()
                    .with_dont_fragment(true)
                    .with_ttl(HOPS)
                    .with_src(src)
                    .with_dst(dst),
                udp,
            },
            _ => Self::RoceV2Ipv6 {
                link,
                ip: Ipv6::default()
                    .with_hop_limit(HOPS)
                    .with_src(from.gid())
                    .with_dst(to.gid()),
                udp,
            },
        };
        network.fitted(0)
    }

    /// Returns these headers with another traffic class (DSCP and ECN) and hop limit in the IP header of RoCEv2. RoCEv1
    /// and InfiniBand headers stay unchanged.
    #[must_use]
    pub fn with_class(self, traffic_class: u8, hop_limit: u8) -> Self {
        let (dscp, ecn) = (traffic_class >> 2, traffic_class & 3);
        match self {
            Self::RoceV2Ipv4 { link, ip, udp } => Self::RoceV2Ipv4 {
                link,
                ip: ip.with_dscp(dscp).with_ecn(ecn).with_ttl(hop_limit),
                udp,
            },
            Self::RoceV2Ipv6 { link, ip, udp } => Self::RoceV2Ipv6 {
                link,
                ip: ip.with_dscp(dscp).with_ecn(ecn).with_hop_limit(hop_limit),
                udp,
            },
            other => other,
        }
    }

    /// Creates RoCEv1 headers.
    #[must_use]
    pub fn roce_v1(from: &Station, to: &Station) -> Self {
        let grh = Grh::default()
            .with_hop_lmt(HOPS)
            .with_src(from.gid())
            .with_dst(to.gid());
        let link = Link::between(from, to);
        Self::RoceV1 { link, grh }.fitted(0)
    }

    /// Creates native InfiniBand headers within a subnet, on VL 0.
    #[must_use]
    pub fn infiniband(slid: Lid, dlid: Lid) -> Self {
        let lrh = Lrh::default().with_slid(slid).with_dlid(dlid);
        Self::InfiniBand { lrh, grh: None }.fitted(0)
    }

    /// Returns the form of these headers.
    #[must_use]
    pub fn form(&self) -> Form {
        match self {
            Self::InfiniBand { grh: None, .. } => Form::InfiniBandLocal,
            Self::InfiniBand { grh: Some(_), .. } => Form::InfiniBandGlobal,
            Self::RoceV1 { .. } => Form::RoceV1,
            Self::RoceV2Ipv4 { .. } => Form::RoceV2Ipv4,
            Self::RoceV2Ipv6 { .. } => Form::RoceV2Ipv6,
        }
    }

    /// Returns the medium of packets with these headers.
    #[must_use]
    pub fn medium(&self) -> Medium {
        match self {
            Self::InfiniBand { .. } => Medium::InfiniBand,
            _ => Medium::Ethernet,
        }
    }

    /// Returns these headers with the right versions, types, UDP destination port, IPv4 checksum and lengths.
    /// `transport` is the number of bytes from the BTH to the ICRC. The UDP checksum becomes 0. If a length exceeds
    /// its field, the field gets the low bits of the length.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // lengths keep their low bits
    pub fn fitted(self, transport: usize) -> Self {
        let udp_length = (Udp::SIZE + transport) as u16;
        let fitted_udp = |udp: Udp| {
            let udp = udp.with_dst_port(ROCE_V2_PORT).with_length(udp_length);
            udp.with_checksum(Hex16(0))
        };
        let fitted_grh = |grh: Grh| {
            let grh = grh.with_ip_ver(6).with_nxt_hdr(Grh::NEXT_IS_BTH);
            grh.with_pay_len(transport as u16)
        };
        match self {
            Self::InfiniBand { lrh, grh } => {
                let length = self.form().route_length() + transport;
                let lnh = if grh.is_some() { Lnh::IBA_GLOBAL } else { Lnh::IBA_LOCAL };
                Self::InfiniBand {
                    lrh: lrh.with_pkt_len((length / 4) as u16).with_lnh(lnh),
                    grh: grh.map(fitted_grh),
                }
            }
            Self::RoceV1 { link, grh } => Self::RoceV1 {
                link: link.carrying(EtherType::ROCE_V1),
                grh: fitted_grh(grh),
            },
            Self::RoceV2Ipv4 { link, ip, udp } => Self::RoceV2Ipv4 {
                link: link.carrying(EtherType::IPV4),
                ip: ip
                    .with_version(4)
                    .with_ihl(5)
                    .with_total_length((Ipv4::SIZE + Udp::SIZE + transport) as u16)
                    .with_more_fragments(false)
                    .with_fragment_offset(0)
                    .with_protocol(IpProtocol::UDP)
                    .with_right_checksum(),
                udp: fitted_udp(udp),
            },
            Self::RoceV2Ipv6 { link, ip, udp } => Self::RoceV2Ipv6 {
                link: link.carrying(EtherType::IPV6),
                ip: ip
                    .with_version(6)
                    .with_payload_length(udp_length)
                    .with_next_header(IpProtocol::UDP),
                udp: fitted_udp(udp),
            },
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::InfiniBand { lrh, grh } => {
                bytes.extend(lrh.bytes());
                write(bytes, grh.as_ref());
            }
            Self::RoceV1 { link, grh } => {
                link.write(bytes);
                bytes.extend(grh.bytes());
            }
            Self::RoceV2Ipv4 { link, ip, udp } => {
                link.write(bytes);
                bytes.extend(ip.bytes());
                bytes.extend(udp.bytes());
            }
            Self::RoceV2Ipv6 { link, ip, udp } => {
                link.write(bytes);
                bytes.extend(ip.bytes());
                bytes.extend(udp.bytes());
            }
        }
    }
}

impl Link {
    /// Creates the headers of a frame without a VLAN tag.
    #[must_use]
    pub fn between(from: &Station, to: &Station) -> Self {
        Self {
            ethernet: Ethernet::default().with_src(from.mac).with_dst(to.mac),
            vlan: None,
        }
    }

    /// Returns the size of the headers in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        Ethernet::SIZE + self.vlan.map_or(0, |_| Vlan::SIZE)
    }

    /// Returns these headers with the EtherType of the payload. Preserves the EtherType of a service tag.
    fn carrying(self, what: EtherType) -> Self {
        let outer = match self.vlan {
            None => what,
            Some(_) if self.ethernet.ethertype() == EtherType::SERVICE_VLAN => EtherType::SERVICE_VLAN,
            Some(_) => EtherType::VLAN,
        };
        Self {
            ethernet: self.ethernet.with_ethertype(outer),
            vlan: self.vlan.map(|vlan| vlan.with_ethertype(what)),
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.ethernet.bytes());
        write(bytes, self.vlan.as_ref());
    }
}

impl Transport {
    /// Returns the number of bytes from the BTH to the ICRC, with padding.
    #[must_use]
    pub fn length(&self) -> usize {
        let size = |there: bool, size: usize| if there { size } else { 0 };
        Bth::SIZE
            + size(self.rdeth.is_some(), Rdeth::SIZE)
            + size(self.deth.is_some(), Deth::SIZE)
            + size(self.xrceth.is_some(), Xrceth::SIZE)
            + size(self.feth.is_some(), Feth::SIZE)
            + size(self.reth.is_some(), Reth::SIZE)
            + size(self.atomic.is_some(), AtomicEth::SIZE)
            + size(self.aeth.is_some(), Aeth::SIZE)
            + size(self.atomic_ack.is_some(), AtomicAckEth::SIZE)
            + size(self.imm.is_some(), ImmDt::SIZE)
            + size(self.ieth.is_some(), Ieth::SIZE)
            + self.payload.len().next_multiple_of(4)
            + ICRC_LENGTH
    }

    /// Returns the BTH with the PadCnt of this payload.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // at most 3
    pub fn fitted_bth(&self) -> Bth {
        let length = self.payload.len();
        self.bth.with_pad_count((length.next_multiple_of(4) - length) as u8)
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.fitted_bth().bytes());
        write(bytes, self.rdeth.as_ref());
        write(bytes, self.deth.as_ref());
        write(bytes, self.xrceth.as_ref());
        write(bytes, self.feth.as_ref());
        write(bytes, self.reth.as_ref());
        write(bytes, self.atomic.as_ref());
        write(bytes, self.aeth.as_ref());
        write(bytes, self.atomic_ack.as_ref());
        write(bytes, self.imm.as_ref());
        write(bytes, self.ieth.as_ref());
        bytes.extend(&self.payload);
        bytes.resize(bytes.len() + usize::from(self.fitted_bth().pad_count()), 0);
    }
}

fn write<L: Layout>(bytes: &mut Vec<u8>, header: Option<&L>) {
    bytes.extend(header.map_or(&[][..], L::bytes));
}

/// Returns the bytes of a well-formed packet. The function computes the padding, PadCnt, all lengths, types and
/// versions, the IPv4 checksum, the ICRC, and the VCRC on InfiniBand. The UDP checksum is 0, as RoCE senders set it.
/// All other fields stay as given.
///
/// The function writes every given header, even if the opcode does not have this header. The function does not pad
/// Ethernet frames to 60 bytes. If a length exceeds its field, the field gets the low bits of the length, and the
/// packet is malformed.
#[must_use]
pub fn packet(network: &Network, transport: &Transport) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(Ethernet::SIZE + Vlan::SIZE + 48 + transport.length() + VCRC_LENGTH);
    let network = network.fitted(transport.length());
    network.write(&mut bytes);
    let form = network.form();
    let start = bytes.len() - form.route_length();
    transport.write(&mut bytes);
    // All headers are present, so `icrc_of` returns an ICRC.
    let icrc = icrc_of(form, &bytes[start..]).unwrap_or_default();
    bytes.extend(icrc);
    if network.medium() == Medium::InfiniBand {
        bytes.extend(vcrc(&bytes));
    }
    bytes
}

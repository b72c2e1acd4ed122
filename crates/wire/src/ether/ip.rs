//! IPv4, IPv6 and UDP headers.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::checksum::internet_checksum;
use crate::layout::{Layout, layout};
use crate::value::{Reserved, named};
use crate::values::{Hex16, Hex32};

named!(
    /// What an IP packet carries: IPv4's Protocol, IPv6's Next Header.
    IpProtocol(u8) {
        1 ICMP "ICMP", 6 TCP "TCP", 17 UDP "UDP", 27 BTH "IBA transport", 44 IPV6_FRAGMENT "IPv6 fragment",
        58 ICMP_V6 "ICMPv6",
    }
);

layout! {
    /// IPv4 header without options, 20 bytes.
    pub struct Ipv4[20] "IPv4" {
        /// Version: 4.
        version, with_version: u8 = "Version" @ 0, 4;
        /// IHL in units of 4 bytes: 5 without options.
        ihl, with_ihl: u8 = "IHL" @ 4, 4;
        /// DSCP. May change on the way.
        dscp, with_dscp: u8 = "DSCP" @ 8, 6;
        /// ECN: 3 says that the packet met congestion. May change on the way.
        ecn, with_ecn: u8 = "ECN" @ 14, 2;
        /// Total Length in bytes: from this header to the ICRC.
        total_length, with_total_length: u16 = "Total Length" @ 16, 16;
        /// Identification.
        identification, with_identification: Hex16 = "Identification" @ 32, 16;
        /// Reserved.
        reserved_48, with_reserved_48: Reserved = "Reserved48" @ 48, 1;
        /// DF: not to be cut to pieces.
        dont_fragment, with_dont_fragment: bool = "DF" @ 49, 1;
        /// MF: a piece that others follow.
        more_fragments, with_more_fragments: bool = "MF" @ 50, 1;
        /// Fragment Offset in units of 8 bytes.
        fragment_offset, with_fragment_offset: u16 = "Fragment Offset" @ 51, 13;
        /// Time to Live. Changes on the way.
        ttl, with_ttl: u8 = "Time to Live" @ 64, 8;
        /// Protocol: 17 when UDP follows.
        protocol, with_protocol: IpProtocol = "Protocol" @ 72, 8;
        /// Header Checksum. Changes on the way.
        checksum, with_checksum: Hex16 = "Header Checksum" @ 80, 16;
        /// Source Address.
        src, with_src: Ipv4Addr = "Source Address" @ 96, 32;
        /// Destination Address.
        dst, with_dst: Ipv4Addr = "Destination Address" @ 128, 32;
    }
}

impl Ipv4 {
    /// The same with the checksum of its other fields.
    #[must_use]
    pub fn with_right_checksum(self) -> Self {
        let zeroed = self.with_checksum(Hex16(0));
        zeroed.with_checksum(Hex16(internet_checksum(&[zeroed.bytes()])))
    }
}

layout! {
    /// IPv6 header, 40 bytes. A GRH has the same layout and other names.
    pub struct Ipv6[40] "IPv6" {
        /// Version: 6.
        version, with_version: u8 = "Version" @ 0, 4;
        /// DSCP. May change on the way.
        dscp, with_dscp: u8 = "DSCP" @ 4, 6;
        /// ECN: 3 says that the packet met congestion. May change on the way.
        ecn, with_ecn: u8 = "ECN" @ 10, 2;
        /// Flow Label. May change on the way.
        flow_label, with_flow_label: Hex32 = "Flow Label" @ 12, 20;
        /// Payload Length in bytes: from behind this header to the ICRC.
        payload_length, with_payload_length: u16 = "Payload Length" @ 32, 16;
        /// Next Header: 17 when UDP follows.
        next_header, with_next_header: IpProtocol = "Next Header" @ 48, 8;
        /// Hop Limit. Changes on the way.
        hop_limit, with_hop_limit: u8 = "Hop Limit" @ 56, 8;
        /// Source Address, one byte.
        src_octet, with_src_octet: u8 octets = "Source Address" @ 64, 8, [16; 8];
        /// Destination Address, one byte.
        dst_octet, with_dst_octet: u8 octets = "Destination Address" @ 192, 8, [16; 8];
    }
}

impl Ipv6 {
    /// Source Address.
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        address(&self.0[8..])
    }

    /// Destination Address.
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        address(&self.0[24..])
    }

    /// The same with another Source Address.
    #[must_use]
    pub fn with_src(mut self, address: Ipv6Addr) -> Self {
        self.0[8..24].copy_from_slice(&address.octets());
        self
    }

    /// The same with another Destination Address.
    #[must_use]
    pub fn with_dst(mut self, address: Ipv6Addr) -> Self {
        self.0[24..].copy_from_slice(&address.octets());
        self
    }
}

/// The first 16 bytes as an address.
pub(crate) fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    Ipv6Addr::from(octets)
}

layout! {
    /// UDP header, 8 bytes.
    pub struct Udp[8] "UDP" {
        /// Source Port: of RoCE any; one for each flow, so that paths are shared out.
        src_port, with_src_port: u16 = "Source Port" @ 0, 16;
        /// Destination Port: of RoCEv2 4791.
        dst_port, with_dst_port: u16 = "Destination Port" @ 16, 16;
        /// Length in bytes: from this header to the ICRC.
        length, with_length: u16 = "Length" @ 32, 16;
        /// Checksum: 0 when the sender made none.
        checksum, with_checksum: Hex16 = "Checksum" @ 48, 16;
    }
}

//! IPv4, IPv6 and UDP headers.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::checksum::internet_checksum;
use crate::layout::{Layout, layout};
use crate::value::{Reserved, named};
use crate::values::{Hex16, Hex32};

named!(
    /// The protocol in an IP packet: Protocol of IPv4, Next Header of IPv6.
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
        /// DSCP. May change in transit.
        dscp, with_dscp: u8 = "DSCP" @ 8, 6;
        /// ECN: 3 means that the packet passed a congestion point. May change in transit.
        ecn, with_ecn: u8 = "ECN" @ 14, 2;
        /// Total Length in bytes, from this header to the ICRC.
        total_length, with_total_length: u16 = "Total Length" @ 16, 16;
        /// Identification.
        identification, with_identification: Hex16 = "Identification" @ 32, 16;
        /// Reserved.
        reserved_48, with_reserved_48: Reserved = "Reserved48" @ 48, 1;
        /// DF: routers must not fragment the packet.
        dont_fragment, with_dont_fragment: bool = "DF" @ 49, 1;
        /// MF: more fragments follow.
        more_fragments, with_more_fragments: bool = "MF" @ 50, 1;
        /// Fragment Offset in units of 8 bytes.
        fragment_offset, with_fragment_offset: u16 = "Fragment Offset" @ 51, 13;
        /// Time to Live. Changes in transit.
        ttl, with_ttl: u8 = "Time to Live" @ 64, 8;
        /// Protocol: 17 if UDP follows.
        protocol, with_protocol: IpProtocol = "Protocol" @ 72, 8;
        /// Header Checksum. Changes in transit.
        checksum, with_checksum: Hex16 = "Header Checksum" @ 80, 16;
        /// Source Address.
        src, with_src: Ipv4Addr = "Source Address" @ 96, 32;
        /// Destination Address.
        dst, with_dst: Ipv4Addr = "Destination Address" @ 128, 32;
    }
}

impl Ipv4 {
    /// Returns this header with the right checksum.
    #[must_use]
    pub fn with_right_checksum(self) -> Self {
        let zeroed = self.with_checksum(Hex16(0));
        zeroed.with_checksum(Hex16(internet_checksum(&[zeroed.bytes()])))
    }
}

layout! {
    /// IPv6 header, 40 bytes. A GRH has the same layout and other field names.
    pub struct Ipv6[40] "IPv6" {
        /// Version: 6.
        version, with_version: u8 = "Version" @ 0, 4;
        /// DSCP. May change in transit.
        dscp, with_dscp: u8 = "DSCP" @ 4, 6;
        /// ECN: 3 means that the packet passed a congestion point. May change in transit.
        ecn, with_ecn: u8 = "ECN" @ 10, 2;
        /// Flow Label. May change in transit.
        flow_label, with_flow_label: Hex32 = "Flow Label" @ 12, 20;
        /// Payload Length in bytes, from the byte after this header to the ICRC.
        payload_length, with_payload_length: u16 = "Payload Length" @ 32, 16;
        /// Next Header: 17 if UDP follows.
        next_header, with_next_header: IpProtocol = "Next Header" @ 48, 8;
        /// Hop Limit. Changes in transit.
        hop_limit, with_hop_limit: u8 = "Hop Limit" @ 56, 8;
        /// One byte of Source Address.
        src_octet, with_src_octet: u8 octets = "Source Address" @ 64, 8, [16; 8];
        /// One byte of Destination Address.
        dst_octet, with_dst_octet: u8 octets = "Destination Address" @ 192, 8, [16; 8];
    }
}

impl Ipv6 {
    /// Returns Source Address.
    #[must_use]
    pub fn src(&self) -> Ipv6Addr {
        address(&self.0[8..])
    }

    /// Returns Destination Address.
    #[must_use]
    pub fn dst(&self) -> Ipv6Addr {
        address(&self.0[24..])
    }

    /// Returns this header with another Source Address.
    #[must_use]
    pub fn with_src(mut self, address: Ipv6Addr) -> Self {
        self.0[8..24].copy_from_slice(&address.octets());
        self
    }

    /// Returns this header with another Destination Address.
    #[must_use]
    pub fn with_dst(mut self, address: Ipv6Addr) -> Self {
        self.0[24..].copy_from_slice(&address.octets());
        self
    }
}

/// Returns the first 16 bytes as an address.
pub(crate) fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    Ipv6Addr::from(octets)
}

layout! {
    /// UDP header, 8 bytes.
    pub struct Udp[8] "UDP" {
        /// Source Port. RoCE allows any port; senders use one for each flow, so that the network spreads the flows over
        /// its paths.
        src_port, with_src_port: u16 = "Source Port" @ 0, 16;
        /// Destination Port: 4791 for RoCEv2.
        dst_port, with_dst_port: u16 = "Destination Port" @ 16, 16;
        /// Length in bytes, from this header to the ICRC.
        length, with_length: u16 = "Length" @ 32, 16;
        /// Checksum; 0 means that the sender computed none.
        checksum, with_checksum: Hex16 = "Checksum" @ 48, 16;
    }
}

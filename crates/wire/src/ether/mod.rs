//! The protocols below the BTH of RoCE: Ethernet, VLAN tags, ARP, IP and UDP.
//!
//! Source of the layouts: IEEE 802.3 and 802.1Q, RFC 826 (ARP), RFC 791 (IPv4), RFC 8200 (IPv6), RFC 768 (UDP),
//! RFC 4861 (neighbour discovery).

mod checksum;
mod ip;
mod mac;
mod neighbour;

pub use checksum::{internet_checksum, pseudo_header_checksum};
pub(crate) use ip::address;
pub use ip::{IpProtocol, Ipv4, Ipv6, Udp};
pub use mac::{MacAddress, NotAMacAddress};
pub use neighbour::{Arp, LinkLayerOption, NeighbourAdvertisement, NeighbourSolicitation};

use crate::layout::layout;
use crate::value::named;

/// The UDP destination port of RoCEv2 packets.
pub const ROCE_V2_PORT: u16 = 4791;

named!(
    /// The protocol in an Ethernet frame.
    EtherType(u16) {
        0x0800 IPV4 "IPv4", 0x0806 ARP "ARP", 0x8100 VLAN "VLAN tag", 0x86DD IPV6 "IPv6",
        0x88A8 SERVICE_VLAN "service VLAN tag", 0x8915 ROCE_V1 "RoCEv1",
    }
);

layout! {
    /// Ethernet header, 14 bytes.
    pub struct Ethernet[14] "Ethernet" {
        /// Destination.
        dst, with_dst: MacAddress = "Destination" @ 0, 48;
        /// Source.
        src, with_src: MacAddress = "Source" @ 48, 48;
        /// EtherType of the payload, or of the VLAN tag if the frame has one.
        ethertype, with_ethertype: EtherType = "EtherType" @ 96, 16;
    }
}

layout! {
    /// VLAN tag, 4 bytes, after an EtherType of 0x8100 or 0x88A8.
    pub struct Vlan[4] "VLAN" {
        /// PCP: priority.
        pcp, with_pcp: u8 = "PCP" @ 0, 3;
        /// DEI: drop eligible.
        dei, with_dei: bool = "DEI" @ 3, 1;
        /// VID: number of the VLAN; 0 means no VLAN.
        vid, with_vid: u16 = "VID" @ 4, 12;
        /// EtherType of the payload, or of the next tag.
        ethertype, with_ethertype: EtherType = "EtherType" @ 16, 16;
    }
}

#[cfg(test)]
mod tests;

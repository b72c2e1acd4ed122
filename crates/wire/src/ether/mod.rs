//! What carries RoCE: Ethernet, its tags, ARP, and above them IP and UDP.
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

/// The UDP port that RoCEv2 packets are sent to.
pub const ROCE_V2_PORT: u16 = 4791;

named!(
    /// What an Ethernet frame carries.
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
        /// EtherType: of the tag, if there is one.
        ethertype, with_ethertype: EtherType = "EtherType" @ 96, 16;
    }
}

layout! {
    /// VLAN tag, 4 bytes: what follows the EtherType that says so.
    pub struct Vlan[4] "VLAN" {
        /// PCP: priority.
        pcp, with_pcp: u8 = "PCP" @ 0, 3;
        /// DEI: drop eligible.
        dei, with_dei: bool = "DEI" @ 3, 1;
        /// VID: which VLAN; 0 is none.
        vid, with_vid: u16 = "VID" @ 4, 12;
        /// EtherType of what follows.
        ethertype, with_ethertype: EtherType = "EtherType" @ 16, 16;
    }
}

#[cfg(test)]
mod tests;

//! Resolution of IP addresses to Ethernet addresses: ARP for IPv4, neighbour discovery for IPv6.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::MacAddress;
use super::checksum::pseudo_header_checksum;
use super::ip::{IpProtocol, address};
use crate::layout::{Layout, layout};
use crate::value::Reserved;
use crate::values::Hex16;

layout! {
    /// ARP for IPv4 over Ethernet, 28 bytes.
    pub struct Arp[28] "ARP" {
        /// Hardware Type: 1 for Ethernet.
        hardware, with_hardware: u16 = "Hardware Type" @ 0, 16;
        /// Protocol Type: 0x0800 for IPv4.
        protocol, with_protocol: Hex16 = "Protocol Type" @ 16, 16;
        /// Hardware Length: 6.
        hardware_length, with_hardware_length: u8 = "Hardware Length" @ 32, 8;
        /// Protocol Length: 4.
        protocol_length, with_protocol_length: u8 = "Protocol Length" @ 40, 8;
        /// Operation: 1 for a request, 2 for a reply.
        operation, with_operation: u16 = "Operation" @ 48, 16;
        /// Sender Hardware Address.
        sender_mac, with_sender_mac: MacAddress = "Sender Hardware Address" @ 64, 48;
        /// Sender Protocol Address.
        sender_ip, with_sender_ip: Ipv4Addr = "Sender Protocol Address" @ 112, 32;
        /// Target Hardware Address; 0 in a request.
        target_mac, with_target_mac: MacAddress = "Target Hardware Address" @ 144, 48;
        /// Target Protocol Address.
        target_ip, with_target_ip: Ipv4Addr = "Target Protocol Address" @ 192, 32;
    }
}

impl Arp {
    /// Operation of a request.
    pub const REQUEST: u16 = 1;
    /// Operation of a reply.
    pub const REPLY: u16 = 2;

    fn ethernet() -> Self {
        Self::default()
            .with_hardware(1)
            .with_protocol(Hex16(0x0800))
            .with_hardware_length(6)
            .with_protocol_length(4)
    }

    /// Returns the request for the Ethernet address of `target`. The sender broadcasts a request.
    #[must_use]
    pub fn request(mac: MacAddress, ip: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self::ethernet()
            .with_operation(Self::REQUEST)
            .with_sender_mac(mac)
            .with_sender_ip(ip)
            .with_target_ip(target)
    }

    /// Returns the reply of the station with the requested address, directed to the sender of this request.
    #[must_use]
    pub fn reply(&self, mac: MacAddress) -> Self {
        Self::ethernet()
            .with_operation(Self::REPLY)
            .with_sender_mac(mac)
            .with_sender_ip(self.target_ip())
            .with_target_mac(self.sender_mac())
            .with_target_ip(self.sender_ip())
    }

    /// Returns whether the hardware type, the protocol type and the lengths are those of IPv4 over Ethernet. With
    /// other values, the address fields have another layout.
    #[must_use]
    pub fn is_ipv4_over_ethernet(&self) -> bool {
        self.0[..6] == Self::ethernet().0[..6]
    }
}

layout! {
    /// ICMPv6 neighbour solicitation, 24 bytes; options follow.
    pub struct NeighbourSolicitation[24] "Neighbour Solicitation" {
        /// Type: 135.
        kind, with_kind: u8 = "Type" @ 0, 8;
        /// Code: 0.
        code, with_code: u8 = "Code" @ 8, 8;
        /// Checksum.
        checksum, with_checksum: Hex16 = "Checksum" @ 16, 16;
        /// Reserved.
        reserved_32, with_reserved_32: Reserved = "Reserved32" @ 32, 32;
        /// One byte of Target Address.
        target_octet, with_target_octet: u8 octets = "Target Address" @ 64, 8, [16; 8];
    }
}

layout! {
    /// ICMPv6 neighbour advertisement, 24 bytes; options follow.
    pub struct NeighbourAdvertisement[24] "Neighbour Advertisement" {
        /// Type: 136.
        kind, with_kind: u8 = "Type" @ 0, 8;
        /// Code: 0.
        code, with_code: u8 = "Code" @ 8, 8;
        /// Checksum.
        checksum, with_checksum: Hex16 = "Checksum" @ 16, 16;
        /// R: the sender is a router.
        router, with_router: bool = "R" @ 32, 1;
        /// S: the message responds to a solicitation.
        solicited, with_solicited: bool = "S" @ 33, 1;
        /// O: the receiver overwrites its cached address.
        override_stored, with_override_stored: bool = "O" @ 34, 1;
        /// Reserved.
        reserved_35, with_reserved_35: Reserved = "Reserved35" @ 35, 29;
        /// One byte of Target Address.
        target_octet, with_target_octet: u8 octets = "Target Address" @ 64, 8, [16; 8];
    }
}

layout! {
    /// Option with an Ethernet address, 8 bytes.
    pub struct LinkLayerOption[8] "Link-Layer Address Option" {
        /// Type: 1 for the source's address, 2 for the target's.
        kind, with_kind: u8 = "Type" @ 0, 8;
        /// Length in units of 8 bytes: 1.
        length, with_length: u8 = "Length" @ 8, 8;
        /// Link-Layer Address.
        mac, with_mac: MacAddress = "Link-Layer Address" @ 16, 48;
    }
}

impl LinkLayerOption {
    /// Returns the option with the Ethernet address of a solicitation's sender.
    #[must_use]
    pub fn source(mac: MacAddress) -> Self {
        Self::default().with_kind(1).with_length(1).with_mac(mac)
    }

    /// Returns the option with the target's Ethernet address, for an advertisement.
    #[must_use]
    pub fn target(mac: MacAddress) -> Self {
        Self::source(mac).with_kind(2)
    }
}

/// Implements the functions that solicitations and advertisements share.
macro_rules! neighbour {
    ($name:ident, $kind:literal) => {
        impl $name {
            /// The ICMPv6 type of this message.
            pub const KIND: u8 = $kind;

            /// Returns Target Address.
            #[must_use]
            pub fn target(&self) -> Ipv6Addr {
                address(&self.0[8..])
            }

            /// Returns this message with another Target Address.
            #[must_use]
            pub fn with_target(mut self, target: Ipv6Addr) -> Self {
                self.0[8..].copy_from_slice(&target.octets());
                self
            }

            /// Returns the bytes of the message, with its type, one option and the right checksum.
            #[must_use]
            pub fn message(self, src: Ipv6Addr, dst: Ipv6Addr, option: LinkLayerOption) -> Vec<u8> {
                let bare = self.with_kind(Self::KIND).with_checksum(Hex16(0));
                let mut bytes = [bare.bytes(), option.bytes()].concat();
                let checksum = pseudo_header_checksum(src, dst, IpProtocol::ICMP_V6, &bytes);
                bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
                bytes
            }
        }
    };
}
neighbour!(NeighbourSolicitation, 135);
neighbour!(NeighbourAdvertisement, 136);

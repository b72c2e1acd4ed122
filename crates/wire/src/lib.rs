//! Wire formats of InfiniBand and RoCE: the bytes and values of management datagrams and transport packets.
//!
//! Each object has two forms. The *view* ([`PortInfo`], [`LidSmp`], ...) owns its bytes and accepts any bit pattern,
//! legal or not: reading a field never fails and never panics. The *valid value* ([`Valid`]) comes only from
//! [`Layout::validate`] and holds no illegal field. A test builds a malformed object through the view.
//!
//! The `layout!` macro declares each layout once, in wire order, most significant bit first. Reserved bits are named
//! fields. The declaration generates the code that reads, writes, prints, compares and names the fields. A compile-time
//! check proves that the fields cover each bit exactly once.
//!
//! This crate contains no conformance rule, performs no I/O and reads no clock.

mod bits;
mod codes;
mod layout;
mod mad;
mod value;

pub mod attr;
pub mod crc;
pub mod ether;
pub mod packet;
pub mod trap;
pub mod values;
pub mod verbs;

pub use attr::{
    AnyAttribute, Attribute, ClassPortInfo, GuidInfo, LedInfo, LinearForwardingTable, MulticastForwardingTable,
    NodeDescription, NodeInfo, Notice, PKeyTable, PortCounters, PortInfo, PortRcvErrorDetails, SlToVlMappingTable,
    SmInfo, SwitchInfo, VlArbitrationTable,
};
pub use bits::{get_bits, set_bits};
pub use codes::{AttributeId, Method, MgmtClass, Status};
pub use ether::{EtherType, Ethernet, Ipv4, Ipv6, MacAddress, ROCE_V2_PORT, Udp, Vlan};
pub use layout::{Difference, Field, Invalid, Layout, Style, Valid};
pub use mad::{DrSmp, Gmp, LidSmp, MAD_LENGTH, Mad, MadError, MadHeader, SMP_DATA_LENGTH};
pub use packet::{
    AckTimeout, Aeth, AtomicAckEth, AtomicEth, Bth, CreditCode, Delimiter, Deth, Feth, Form, Grh, Headers, Ieth, ImmDt,
    Link, Lnh, Lrh, MadHeaders, Medium, NakCode, Network, NotAPacket, Offsets, Opcode, Packet, Psn, QKey, Qpn, RKey,
    Rdeth, Reth, RnrTimer, Service, Station, Syndrome, SyndromeKind, Transport, Xrceth, edit, mad_packet, mend_icrc,
    mend_ip_checksum, mend_lengths, mend_udp_checksum, mend_vcrc,
};
pub use value::{Reserved, Value};
pub use values::{
    Guid, Lid, LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, MKey, Mtu, PKey, PhysState, PortState, RespTime,
    SubnetTimeout, VlCap,
};

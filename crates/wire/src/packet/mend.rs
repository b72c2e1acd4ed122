//! Edits a header of a packet, and repairs the packet's CRCs, lengths and checksums.
//!
//! [`edit`] changes one header in place and leaves all other bytes unchanged. The caller then decides which CRC, length
//! or checksum to repair.

use super::form::{Form, Medium};
use super::parse::Packet;
use super::route::{NotAPacket, Route};
use super::{Grh, Lrh};
use crate::crc::{VCRC_LENGTH, icrc_of, vcrc};
use crate::ether::{Ipv4, Ipv6, Udp};
use crate::layout::Layout;
use crate::values::Hex16;

/// Offsets of the parts of a packet in bytes from its first byte; `None` for an absent part.
///
/// Offsets of a well-formed packet remain valid for a copy of the packet with changed fields. The methods use only
/// these offsets and read no field of the packet. They do nothing if bytes are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offsets {
    /// Headers before the BTH.
    pub form: Form,
    /// Ethernet header.
    pub ethernet: Option<usize>,
    /// VLAN tag.
    pub vlan: Option<usize>,
    /// Local route header.
    pub lrh: Option<usize>,
    /// Global route header.
    pub grh: Option<usize>,
    /// IPv4 header.
    pub ipv4: Option<usize>,
    /// IPv6 header.
    pub ipv6: Option<usize>,
    /// UDP header.
    pub udp: Option<usize>,
    /// Base transport header.
    pub bth: usize,
    /// Reliable datagram extended transport header.
    pub rdeth: Option<usize>,
    /// Datagram extended transport header.
    pub deth: Option<usize>,
    /// Extended reliable connection header.
    pub xrceth: Option<usize>,
    /// Flush extended transport header.
    pub feth: Option<usize>,
    /// RDMA extended transport header.
    pub reth: Option<usize>,
    /// Atomic extended transport header.
    pub atomic: Option<usize>,
    /// ACK extended transport header.
    pub aeth: Option<usize>,
    /// Atomic ACK extended transport header.
    pub atomic_ack: Option<usize>,
    /// Immediate data.
    pub imm: Option<usize>,
    /// Invalidate extended transport header.
    pub ieth: Option<usize>,
    /// The first byte after the headers.
    pub payload: usize,
    /// The first byte after the payload.
    pub padding: usize,
    /// The ICRC.
    pub icrc: Option<usize>,
    /// The VCRC.
    pub vcrc: Option<usize>,
    /// The first byte after the packet.
    pub end: usize,
}

impl Offsets {
    /// Returns the offset of the first byte that the ICRC may cover.
    fn start(&self) -> usize {
        self.bth - self.form.route_length()
    }

    /// Writes the right ICRC. Does nothing if the packet has no ICRC.
    pub fn mend_icrc(&self, bytes: &mut [u8]) {
        let Some(at) = self.icrc else { return };
        let icrc = bytes
            .get(self.start()..at)
            .and_then(|covered| icrc_of(self.form, covered));
        put(bytes, at, &icrc.unwrap_or_default());
    }

    /// Writes the right VCRC. Call this function last, because the VCRC covers all other bytes. Does nothing if the
    /// packet has no VCRC.
    pub fn mend_vcrc(&self, bytes: &mut [u8]) {
        let Some(at) = self.vcrc else { return };
        let vcrc = bytes.get(..at).map(vcrc);
        put(bytes, at, &vcrc.unwrap_or_default());
    }

    /// Writes the right checksum into the IPv4 header. Does nothing if the packet has no IPv4 header.
    pub fn mend_ip_checksum(&self, bytes: &mut [u8]) {
        if let Some(at) = self.ipv4 {
            edit(bytes, at, Ipv4::with_right_checksum);
        }
    }
}

/// Changes the header at `offset`. Does nothing if the header is truncated.
pub fn edit<L: Layout>(bytes: &mut [u8], offset: usize, change: impl FnOnce(L) -> L) {
    let all = offset.checked_add(L::SIZE).and_then(|end| bytes.get_mut(offset..end));
    if let Some(header) = all {
        let changed = change(L::from_bytes(header));
        header.copy_from_slice(changed.bytes());
    }
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + what.len()) {
        place.copy_from_slice(what);
    }
}

/// Writes the right ICRC into a packet that still parses. For a packet that does not parse, use [`Offsets::mend_icrc`].
///
/// # Errors
/// If the packet does not parse; the bytes stay unchanged.
pub fn mend_icrc(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    Packet::parse(medium, bytes)?.offsets().mend_icrc(bytes);
    Ok(())
}

/// Writes the right VCRC into a packet that still parses. Does nothing if the medium has no VCRC.
///
/// # Errors
/// If the packet does not parse; the bytes stay unchanged.
pub fn mend_vcrc(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    Packet::parse(medium, bytes)?.offsets().mend_vcrc(bytes);
    Ok(())
}

/// Writes the right checksum into the IPv4 header. Does nothing if the packet has no IPv4 header.
///
/// # Errors
/// If the headers before the BTH do not parse; the bytes stay unchanged.
pub fn mend_ip_checksum(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    if let Some(at) = Route::find(medium, bytes)?.ipv4() {
        edit(bytes, at, Ipv4::with_right_checksum);
    }
    Ok(())
}

/// Writes the right checksum into the UDP header, as a sender may (RFC 768; RFC 8200, 8.1). Does nothing if the packet
/// has no UDP header.
///
/// # Errors
/// If the packet does not parse; the bytes stay unchanged.
pub fn mend_udp_checksum(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    let Some(at) = Packet::parse(medium, bytes)?.offsets().udp else {
        return Ok(());
    };
    edit::<Udp>(bytes, at, |udp| udp.with_checksum(Hex16(0)));
    let sum = Packet::parse(medium, bytes)?.udp_checksum().unwrap_or_default();
    // A sender transmits a computed 0 as all ones, because 0 means that there is no checksum.
    let told = if sum == 0 { u16::MAX } else { sum };
    edit::<Udp>(bytes, at, |udp| udp.with_checksum(Hex16(told)));
    Ok(())
}

/// Sets all length fields so that the packet ends with the last byte of `bytes`. `bytes` must include the ICRC, and on
/// InfiniBand the VCRC, but no frame padding. The IPv4 checksum covers a length, but this function does not update it.
///
/// # Errors
/// If the headers before the BTH do not parse, or if a length exceeds its field; the bytes stay unchanged.
pub fn mend_lengths(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    let route = Route::find(medium, bytes)?;
    let vcrc = if medium == Medium::InfiniBand { VCRC_LENGTH } else { 0 };
    let from = |at: usize| (bytes.len() - vcrc).saturating_sub(at);
    let (whole, transport) = (from(route.start), from(route.bth()));
    let room = match route.form {
        Form::InfiniBandLocal | Form::InfiniBandGlobal => 4 * 0x7FF,
        Form::RoceV1 | Form::RoceV2Ipv4 | Form::RoceV2Ipv6 => usize::from(u16::MAX),
    };
    if whole > room {
        return Err(NotAPacket::TooLong { room, seen: whole });
    }
    #[allow(clippy::cast_possible_truncation)] // checked above
    let (quads, after_grh, total, udp) = (
        (whole / 4) as u16,
        transport as u16,
        whole as u16,
        (Udp::SIZE + transport) as u16,
    );
    let some = |at: Option<usize>| at.unwrap_or(usize::MAX);
    edit::<Lrh>(bytes, some(route.lrh()), |lrh| lrh.with_pkt_len(quads));
    edit::<Grh>(bytes, some(route.grh()), |grh| grh.with_pay_len(after_grh));
    edit::<Ipv4>(bytes, some(route.ipv4()), |ip| ip.with_total_length(total));
    edit::<Ipv6>(bytes, some(route.ipv6()), |ip| ip.with_payload_length(udp));
    edit::<Udp>(bytes, some(route.udp()), |header| header.with_length(udp));
    Ok(())
}

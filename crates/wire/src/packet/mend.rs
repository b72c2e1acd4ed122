//! Breaking a sound packet in one place, and mending what would betray it.
//!
//! [`edit`] changes a header where it stands. The ICRC, the lengths and the checksum are then wrong or right as the
//! tester wants: nothing is mended unasked.

use super::form::{Form, Medium};
use super::parse::Packet;
use super::route::{NotAPacket, Route};
use super::{Grh, Lrh};
use crate::crc::{VCRC_LENGTH, icrc_of, vcrc};
use crate::ether::{Ipv4, Ipv6, Udp};
use crate::layout::Layout;
use crate::values::Hex16;

/// Where the parts of a packet stand, in bytes from the first; `None` for what is not there.
///
/// Taken from the sound packet, it holds for the broken one: its mending functions go by these places alone, whatever
/// the fields say by now. They do nothing where bytes are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offsets {
    /// Which headers stand before the BTH.
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
    /// Reliable datagram header.
    pub rdeth: Option<usize>,
    /// Datagram header.
    pub deth: Option<usize>,
    /// Extended reliable connection header.
    pub xrceth: Option<usize>,
    /// Flush header.
    pub feth: Option<usize>,
    /// RDMA header.
    pub reth: Option<usize>,
    /// Atomic header.
    pub atomic: Option<usize>,
    /// ACK header.
    pub aeth: Option<usize>,
    /// Atomic ACK header.
    pub atomic_ack: Option<usize>,
    /// Immediate data.
    pub imm: Option<usize>,
    /// Invalidate header.
    pub ieth: Option<usize>,
    /// The first byte behind the headers.
    pub payload: usize,
    /// The first byte behind the payload.
    pub padding: usize,
    /// The ICRC.
    pub icrc: Option<usize>,
    /// The VCRC.
    pub vcrc: Option<usize>,
    /// The first byte behind the packet.
    pub end: usize,
}

impl Offsets {
    /// The first byte that the ICRC may cover.
    fn start(&self) -> usize {
        self.bth - self.form.route_length()
    }

    /// Puts the right ICRC where there is one.
    pub fn mend_icrc(&self, bytes: &mut [u8]) {
        let Some(at) = self.icrc else { return };
        let icrc = bytes
            .get(self.start()..at)
            .and_then(|covered| icrc_of(self.form, covered));
        put(bytes, at, &icrc.unwrap_or_default());
    }

    /// Puts the right VCRC where there is one. To be called last: it covers all else.
    pub fn mend_vcrc(&self, bytes: &mut [u8]) {
        let Some(at) = self.vcrc else { return };
        let vcrc = bytes.get(..at).map(vcrc);
        put(bytes, at, &vcrc.unwrap_or_default());
    }

    /// Puts the right checksum into an IPv4 header.
    pub fn mend_ip_checksum(&self, bytes: &mut [u8]) {
        if let Some(at) = self.ipv4 {
            edit(bytes, at, Ipv4::with_right_checksum);
        }
    }
}

/// Changes the header at `offset`; does nothing when it is not all there.
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

/// Puts the right ICRC into a packet that still parses. For one that does not, see [`Offsets::mend_icrc`].
///
/// # Errors
/// Why it does not parse; the bytes are as they were.
pub fn mend_icrc(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    Packet::parse(medium, bytes)?.offsets().mend_icrc(bytes);
    Ok(())
}

/// Puts the right VCRC into a packet that still parses; does nothing where the medium has none.
///
/// # Errors
/// Why it does not parse; the bytes are as they were.
pub fn mend_vcrc(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    Packet::parse(medium, bytes)?.offsets().mend_vcrc(bytes);
    Ok(())
}

/// Puts the right checksum into the IPv4 header; does nothing where there is none.
///
/// # Errors
/// Why the headers before the BTH are not what they were; the bytes are as they were.
pub fn mend_ip_checksum(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    if let Some(at) = Route::find(medium, bytes)?.ipv4() {
        edit(bytes, at, Ipv4::with_right_checksum);
    }
    Ok(())
}

/// Puts the right checksum into the UDP header, as a sender may (RFC 768; RFC 8200, 8.1); does nothing where there is none.
///
/// # Errors
/// Why it does not parse; the bytes are as they were.
pub fn mend_udp_checksum(medium: Medium, bytes: &mut [u8]) -> Result<(), NotAPacket> {
    let Some(at) = Packet::parse(medium, bytes)?.offsets().udp else {
        return Ok(());
    };
    edit::<Udp>(bytes, at, |udp| udp.with_checksum(Hex16(0)));
    let sum = Packet::parse(medium, bytes)?.udp_checksum().unwrap_or_default();
    // 0 stands for none; ones say the same.
    let told = if sum == 0 { u16::MAX } else { sum };
    edit::<Udp>(bytes, at, |udp| udp.with_checksum(Hex16(told)));
    Ok(())
}

/// Makes all length fields say that the packet ends with the last of `bytes`. The ICRC, and on InfiniBand the VCRC, count
/// as there. Nothing may follow the packet: no padding of the frame. IPv4's checksum, which covers a length, is left.
///
/// # Errors
/// Why the headers before the BTH are not what they were, or that the length has no room in its field; the bytes are as
/// they were.
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
    #[allow(clippy::cast_possible_truncation)] // there is room
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

//! Finds the innermost packet behind cooked headers, VLAN tags, MPLS labels and tunnels.
//!
//! Sources: `LINKTYPE_LINUX_SLL` and `LINKTYPE_LINUX_SLL2` of tcpdump.org; IEEE 802.1Q; RFC 3032 and 4385 (MPLS), 2784
//! and 2890 (GRE), 7348 (VXLAN), 8926 (Geneve), 8200 (IPv6); draft-foschiano-erspan.

use core::fmt;
use core::ops::Range;

/// The most layers that the reader looks through. Real networks nest fewer.
const MOST_LAYERS: usize = 8;
/// The most VLAN tags, MPLS labels or IPv6 extension headers in a row.
const MOST_IN_A_ROW: usize = 16;
/// The most VLAN tags that the packet parser accepts: a service tag and a customer tag.
const KNOWN_TAGS: usize = 2;

const ETHERNET: usize = 14;
const IPV6_HEADER: usize = 40;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88A8;
const OLD_SERVICE_VLAN: u16 = 0x9100;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const ROCE_V1: u16 = 0x8915;
const BRIDGED_ETHERNET: u16 = 0x6558;
const ERSPAN_I_OR_II: u16 = 0x88BE;
const ERSPAN_III: u16 = 0x22EB;

const UDP: u8 = 17;
const ROCE_V2_PORT: u16 = 4791;

/// An encapsulation of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tunnel {
    /// ERSPAN: a switch's copy of a frame.
    Erspan,
    /// Geneve.
    Geneve,
    /// Generic routing encapsulation.
    Gre,
    /// IP in IP.
    Ip,
    /// MPLS labels.
    Mpls,
    /// VXLAN, or VXLAN-GPE.
    Vxlan,
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Erspan => "ERSPAN",
            Self::Geneve => "Geneve",
            Self::Gre => "GRE",
            Self::Ip => "IP in IP",
            Self::Mpls => "MPLS",
            Self::Vxlan => "VXLAN",
        })
    }
}

/// The kind and the offset of the header with which an inner packet begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layer {
    /// An Ethernet frame at this offset.
    Frame(usize),
    /// The payload of a frame of this EtherType, at offset `at`.
    Bare { at: usize, ethertype: u16 },
}

/// The innermost packet that the reader found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Inner {
    pub(super) layer: Layer,
    pub(super) tunnel: Option<Tunnel>,
    /// Whether the tunnel's payload is encrypted or neither Ethernet nor IP. `layer` is then the layer around the
    /// tunnel.
    pub(super) is_unread: bool,
    /// The byte range of the IPv6 extension headers before the UDP header of RoCEv2.
    pub(super) extensions: Range<usize>,
}

enum Step {
    /// The layer contains no further layer. The range covers its IPv6 extension headers.
    Ends(Range<usize>),
    /// The layer contains this inner layer, possibly in a tunnel. VLAN tags do not count as a tunnel.
    Into(Option<Tunnel>, Layer),
    /// The layer is a tunnel with an unsupported payload.
    Unread(Tunnel),
}

const ENDS: Step = Step::Ends(0..0);

/// Returns the layer of a raw IP packet.
pub(super) fn ip(bytes: &[u8], at: usize) -> Layer {
    let is_6 = bytes.get(at).is_some_and(|first| first >> 4 == 6);
    let ethertype = if is_6 { IPV6 } else { IPV4 };
    Layer::Bare { at, ethertype }
}

/// Returns the layer after a header of `size` bytes, whose EtherType is at offset `protocol`.
pub(super) fn cooked(bytes: &[u8], size: usize, protocol: usize) -> Layer {
    Layer::Bare {
        at: size,
        ethertype: u16_at(bytes, protocol).unwrap_or_default(),
    }
}

/// Returns whether a frame is RoCEv2 over IPv4 without VLAN tags or IP options. Such a frame contains no further
/// layers.
pub(super) fn is_plain(frame: &[u8]) -> bool {
    frame.first_chunk::<38>().is_some_and(|frame| {
        frame[12..15] == [0x08, 0x00, 0x45] && frame[23] == UDP && frame[36..38] == ROCE_V2_PORT.to_be_bytes()
    })
}

/// Finds the innermost packet. The search ends at an IP fragment and at an incomplete header.
pub(super) fn innermost(bytes: &[u8], first: Layer) -> Inner {
    let mut inner = Inner {
        layer: first,
        tunnel: None,
        is_unread: false,
        extensions: 0..0,
    };
    for _ in 0..MOST_LAYERS {
        match step(bytes, inner.layer).unwrap_or(ENDS) {
            Step::Ends(extensions) => {
                inner.extensions = extensions;
                break;
            }
            Step::Into(tunnel, layer) => {
                inner.layer = layer;
                inner.tunnel = tunnel.or(inner.tunnel);
            }
            Step::Unread(tunnel) => {
                inner.tunnel = Some(tunnel);
                inner.is_unread = true;
                break;
            }
        }
    }
    inner
}

fn byte_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, VLAN | SERVICE_VLAN | OLD_SERVICE_VLAN)
}

fn step(bytes: &[u8], layer: Layer) -> Option<Step> {
    let (mut at, mut ethertype) = match layer {
        Layer::Frame(at) => (at + ETHERNET, u16_at(bytes, at + ETHERNET - 2)?),
        Layer::Bare { at, ethertype } => (at, ethertype),
    };
    let (mut tags, mut is_known) = (0, true);
    while is_tag(ethertype) && tags < MOST_IN_A_ROW {
        is_known &= ethertype != OLD_SERVICE_VLAN;
        ethertype = u16_at(bytes, at + 2)?;
        at += 4;
        tags += 1;
    }
    let is_bare = matches!(layer, Layer::Bare { .. });
    if tags > KNOWN_TAGS || !is_known || is_bare && tags > 0 {
        return Some(Step::Into(None, Layer::Bare { at, ethertype }));
    }
    match ethertype {
        IPV4 => ipv4(bytes, at),
        IPV6 => ipv6(bytes, at),
        MPLS | MPLS_MULTICAST => mpls(bytes, at),
        _ => None,
    }
}

fn ipv4(bytes: &[u8], at: usize) -> Option<Step> {
    let first = byte_at(bytes, at)?;
    let header = usize::from(first & 0xF) * 4;
    let is_piece = u16_at(bytes, at + 6)? & 0x3FFF != 0;
    if first >> 4 != 4 || header < 20 || is_piece {
        return None;
    }
    transport(bytes, byte_at(bytes, at + 9)?, at + header, 0..0)
}

fn ipv6(bytes: &[u8], at: usize) -> Option<Step> {
    if byte_at(bytes, at)? >> 4 != 6 {
        return None;
    }
    let mut protocol = byte_at(bytes, at + 6)?;
    let first = at + IPV6_HEADER;
    let mut behind = first;
    for _ in 0..MOST_IN_A_ROW {
        let length = usize::from(byte_at(bytes, behind + 1)?);
        let size = match protocol {
            // Hop-by-hop options, routing, destination options, mobility.
            0 | 43 | 60 | 135 => 8 * (length + 1),
            // Authentication header.
            51 => 4 * (length + 2),
            // Fragment header of an unfragmented packet.
            44 if u16_at(bytes, behind + 2)? & 0xFFF9 == 0 => 8,
            44 => return None,
            _ => break,
        };
        protocol = byte_at(bytes, behind)?;
        behind += size;
    }
    transport(bytes, protocol, behind, first..behind)
}

/// Returns the layer after an IP header and its extensions.
fn transport(bytes: &[u8], protocol: u8, at: usize, extensions: Range<usize>) -> Option<Step> {
    match protocol {
        UDP => udp(bytes, at, extensions),
        47 => gre(bytes, at),
        4 => Some(carried(Tunnel::Ip, IPV4, at)),
        41 => Some(carried(Tunnel::Ip, IPV6, at)),
        137 => Some(carried(Tunnel::Mpls, MPLS, at)),
        _ => None,
    }
}

/// Returns the step into a tunnel's payload of this EtherType.
fn carried(tunnel: Tunnel, ethertype: u16, at: usize) -> Step {
    match ethertype {
        BRIDGED_ETHERNET => Step::Into(Some(tunnel), Layer::Frame(at)),
        IPV4 | IPV6 | MPLS | MPLS_MULTICAST | ROCE_V1 => Step::Into(Some(tunnel), Layer::Bare { at, ethertype }),
        _ => Step::Unread(tunnel),
    }
}

fn udp(bytes: &[u8], at: usize, extensions: Range<usize>) -> Option<Step> {
    let header = at + 8;
    Some(match u16_at(bytes, at + 2)? {
        ROCE_V2_PORT => Step::Ends(extensions),
        // VXLAN: the standard port 4789, and port 8472 of older implementations.
        4789 | 8472 if byte_at(bytes, header)? & 0x08 != 0 => carried(Tunnel::Vxlan, BRIDGED_ETHERNET, header + 8),
        4789 => Step::Unread(Tunnel::Vxlan),
        // VXLAN-GPE.
        4790 => {
            let ethertype = match byte_at(bytes, header + 3)? {
                1 => IPV4,
                2 => IPV6,
                3 => BRIDGED_ETHERNET,
                _ => 0,
            };
            carried(Tunnel::Vxlan, ethertype, header + 8)
        }
        6081 => {
            let options = usize::from(byte_at(bytes, header)? & 0x3F) * 4;
            carried(Tunnel::Geneve, u16_at(bytes, header + 2)?, header + 8 + options)
        }
        6635 => carried(Tunnel::Mpls, MPLS, header),
        _ => ENDS,
    })
}

fn gre(bytes: &[u8], at: usize) -> Option<Step> {
    let (flags, ethertype) = (u16_at(bytes, at)?, u16_at(bytes, at + 2)?);
    // The GRE version is not 0, or the header has the obsolete routing field.
    if flags & 0x4007 != 0 {
        return Some(Step::Unread(Tunnel::Gre));
    }
    let (has_checksum, has_key, has_sequence) = (flags & 0x8000 != 0, flags & 0x2000 != 0, flags & 0x1000 != 0);
    let fields = [has_checksum, has_key, has_sequence].into_iter().filter(|has| *has);
    let behind = at + 4 + 4 * fields.count();
    Some(match ethertype {
        // ERSPAN type I has no header. Type II has a header of 8 bytes, and its GRE header has a sequence number.
        ERSPAN_I_OR_II => carried(
            Tunnel::Erspan,
            BRIDGED_ETHERNET,
            behind + if has_sequence { 8 } else { 0 },
        ),
        ERSPAN_III => {
            let has_more = byte_at(bytes, behind + 11)? & 1 != 0;
            carried(
                Tunnel::Erspan,
                BRIDGED_ETHERNET,
                behind + if has_more { 20 } else { 12 },
            )
        }
        other => carried(Tunnel::Gre, other, behind),
    })
}

/// Returns the layer after MPLS labels. The labels do not name their payload, so the reader guesses: IP by its version
/// field, otherwise a frame with or without a control word.
fn mpls(bytes: &[u8], at: usize) -> Option<Step> {
    const BOTTOM: u8 = 1;
    let mut behind = at;
    let mut is_bottom = false;
    for _ in 0..MOST_IN_A_ROW {
        is_bottom = byte_at(bytes, behind + 2)? & BOTTOM != 0;
        behind += 4;
        if is_bottom {
            break;
        }
    }
    let is_frame = |at: usize| {
        let ethertype = u16_at(bytes, at + ETHERNET - 2).unwrap_or_default();
        is_tag(ethertype) || matches!(ethertype, IPV4 | IPV6 | ROCE_V1 | MPLS)
    };
    Some(match byte_at(bytes, behind)? >> 4 {
        _ if !is_bottom => Step::Unread(Tunnel::Mpls),
        4 if byte_at(bytes, behind)? == 0x45 => carried(Tunnel::Mpls, IPV4, behind),
        6 if !is_frame(behind) => carried(Tunnel::Mpls, IPV6, behind),
        0 if is_frame(behind + 4) => carried(Tunnel::Mpls, BRIDGED_ETHERNET, behind + 4),
        _ if is_frame(behind) => carried(Tunnel::Mpls, BRIDGED_ETHERNET, behind),
        _ => Step::Unread(Tunnel::Mpls),
    })
}

/// Writes the innermost packet to `whole` as a frame. Adds an Ethernet header without addresses if the packet has
/// none. Removes IPv6 extension headers.
pub(super) fn frame(bytes: &[u8], inner: &Inner, whole: &mut Vec<u8>) {
    whole.clear();
    let from = match inner.layer {
        Layer::Frame(at) => at,
        Layer::Bare { at, ethertype } => {
            whole.extend([0; ETHERNET - 2]);
            whole.extend(ethertype.to_be_bytes());
            at
        }
    };
    let out = &inner.extensions;
    if out.is_empty() {
        whole.extend(bytes.get(from..).unwrap_or_default());
        return;
    }
    whole.extend(bytes.get(from..out.start).unwrap_or_default());
    let header = whole.len().checked_sub(IPV6_HEADER);
    whole.extend(bytes.get(out.end..).unwrap_or_default());
    if let Some(header) = header.and_then(|at| whole.get_mut(at..at + IPV6_HEADER)) {
        let length = u16::from_be_bytes([header[4], header[5]]);
        let without = length.saturating_sub(u16::try_from(out.len()).unwrap_or(u16::MAX));
        header[4..6].copy_from_slice(&without.to_be_bytes());
        header[6] = UDP;
    }
}

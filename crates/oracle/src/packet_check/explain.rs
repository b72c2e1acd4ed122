//! Expected and seen values of a failed check, in words.

use core::fmt;

use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, icrc_of, vcrc};
use verbatim_wire::{Bth, Delimiter, Form, Grh, Layout, Lid, Lrh, Medium, PKey};

use super::check::Check;
use super::native::{Local, MOST_HEADERS, SMP_LENGTH, bth_at, without_vcrc};
use super::port::{Port, Received};
use super::roce::{Place, payload_length};

/// Expected and seen value of a check. Formatting does not allocate.
#[derive(Clone, Copy)]
pub struct Explanation<'a> {
    check: Check,
    port: &'a Port,
    packet: Received<'a>,
}

/// Explains why a packet fails a check at a port. If the packet passes, the text still states the expected and the
/// seen value.
#[must_use]
pub fn explain<'a>(check: Check, port: &'a Port, packet: &Received<'a>) -> Explanation<'a> {
    Explanation {
        check,
        port,
        packet: *packet,
    }
}

impl fmt::Debug for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = match self.packet.medium {
            Medium::Ethernet => self.roce(f)?,
            _ => self.native(f)?,
        };
        match known {
            Some(()) => Ok(()),
            None => f.write_str(self.check.sentence()),
        }
    }
}

struct Digits<'a>(&'a [u8]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Result of writing an explanation; `None` if nothing was written, because the packet lacks the bytes.
type Written = Result<Option<()>, fmt::Error>;

impl Explanation<'_> {
    fn native(&self, f: &mut fmt::Formatter<'_>) -> Written {
        let bytes = without_vcrc(&self.packet);
        let Some(local) = Local::read(bytes) else {
            return match self.check {
                Check::Length => {
                    write!(f, "expected an LRH of 8 bytes, seen {} bytes", self.packet.bytes.len()).map(Some)
                }
                _ => Ok(None),
            };
        };
        let at = bth_at(local);
        let bth = bytes.get(at..at + Bth::SIZE).map(Bth::from_bytes);
        match self.check {
            Check::Delimiter => {
                let seen = match self.packet.delimiter {
                    Some(Delimiter::Ebp) => "EBP",
                    Some(Delimiter::Egp) => "EGP",
                    Some(Delimiter::Other) => "another code",
                    None => "none: the capture has no delimiters",
                };
                write!(f, "expected EGP, seen {seen}")?;
            }
            Check::Vcrc => {
                let carried = &self.packet.bytes[bytes.len()..];
                if carried.len() != VCRC_LENGTH {
                    return Ok(None);
                }
                write!(f, "expected VCRC {}, seen {}", Digits(&vcrc(bytes)), Digits(carried))?;
            }
            Check::Icrc => {
                let Some((covered, carried)) = bytes.split_at_checked(bytes.len().saturating_sub(ICRC_LENGTH)) else {
                    return Ok(None);
                };
                let Some(right) = icrc(covered) else { return Ok(None) };
                write!(f, "expected ICRC {}, seen {}", Digits(&right), Digits(carried))?;
            }
            Check::LinkVersion => write!(f, "expected LVer 0, seen {}", local.lver)?,
            Check::Length => self.native_length(f, local, bytes.len())?,
            Check::Mtu => {
                let Some(mtu) = self.port.mtu_cap.bytes() else {
                    return Ok(None);
                };
                write!(
                    f,
                    "expected at most {} bytes (MTUCap {mtu} and headers), seen {}",
                    mtu + MOST_HEADERS,
                    4 * u32::from(local.pkt_len)
                )?;
            }
            Check::VirtualLane => write!(
                f,
                "expected VL 0..{} or 15, seen VL {}",
                self.port.vls.saturating_sub(1),
                local.vl
            )?,
            Check::PortState => write!(
                f,
                "the port is {}, and the packet arrived on VL {}",
                self.port.state, local.vl
            )?,
            Check::ManagementLane => {
                let what = if local.vl == 15 {
                    "expected on VL 15 one SMP to QP0 of one port"
                } else {
                    "expected packets to QP0 on VL 15"
                };
                write!(f, "{what}, seen on VL {} DLID {}", local.vl, Lid(local.dlid))?;
                match bth.filter(|_| local.lnh >= 2) {
                    None => write!(f, ", raw")?,
                    Some(bth) => {
                        write!(f, ", {} DestQP {}", bth.opcode(), bth.dest_qp())?;
                        if local.vl == 15 && bytes.len() - at != SMP_LENGTH {
                            write!(f, ", {} bytes from the BTH on, not {SMP_LENGTH}", bytes.len() - at)?;
                        }
                    }
                }
            }
            Check::Dlid => match (local.dlid, self.port.lids()) {
                (0 | 0xFFFF, _) | (_, None) => write!(f, "DLID {} on VL {}", Lid(local.dlid), local.vl)?,
                (dlid, Some((first, last))) if first == last => {
                    write!(f, "expected DLID {first}, seen {}", Lid(dlid))?;
                }
                (dlid, Some((first, last))) => {
                    write!(f, "expected DLID {:#06x}..{:#06x}, seen {}", first.0, last.0, Lid(dlid))?;
                }
            },
            Check::Grh if !local.is_global() => {
                write!(
                    f,
                    "expected a GRH in a packet to multicast {}, seen none",
                    Lid(local.dlid)
                )?;
            }
            Check::Grh => {
                let Some(grh) = bytes.get(Lrh::SIZE..Lrh::SIZE + Grh::SIZE).map(Grh::from_bytes) else {
                    return write!(f, "expected GRH and BTH, seen {} bytes", bytes.len()).map(Some);
                };
                write!(
                    f,
                    "expected IPVer 6, NxtHdr 0x1b, PayLen {}, seen {}, {}, {}",
                    bytes.len() - Lrh::SIZE - Grh::SIZE,
                    grh.ip_ver(),
                    grh.nxt_hdr(),
                    grh.pay_len()
                )?;
            }
            Check::TransportVersion | Check::PKey | Check::IpHeader => return self.transport(f, bth),
        }
        Ok(Some(()))
    }

    fn native_length(&self, f: &mut fmt::Formatter<'_>, local: Local, seen: usize) -> fmt::Result {
        let told = 4 * usize::from(local.pkt_len);
        if told == seen {
            return write!(f, "expected PktLen {} or more, seen {}", local.least(), local.pkt_len);
        }
        write!(
            f,
            "expected {told} bytes (PktLen {}) to the ICRC, seen {seen}",
            local.pkt_len
        )
    }

    fn roce(&self, f: &mut fmt::Formatter<'_>) -> Written {
        let frame = self.packet.bytes;
        let Ok(place) = Place::find(frame) else { return Ok(None) };
        let header = &frame[place.start..];
        let bth = frame.get(place.bth..place.bth + Bth::SIZE).map(Bth::from_bytes);
        let is_all_there = place.end <= frame.len() && place.end >= place.bth + Bth::SIZE + ICRC_LENGTH;
        match self.check {
            Check::Icrc if is_all_there => {
                let (covered, carried) = frame[place.start..place.end].split_at(place.end - place.start - ICRC_LENGTH);
                let Some(right) = icrc_of(place.form, covered) else {
                    return Ok(None);
                };
                write!(f, "expected ICRC {}, seen {}", Digits(&right), Digits(carried))?;
            }
            Check::Length if is_all_there => f.write_str("the IP length and the UDP length differ")?,
            Check::Length => write!(
                f,
                "expected {} bytes from the {} on, its own length, and at least {}, seen {}",
                place.end - place.start,
                if place.form == Form::RoceV1 { "GRH" } else { "IP header" },
                place.bth - place.start + Bth::SIZE + ICRC_LENGTH,
                header.len()
            )?,
            Check::Mtu if is_all_there => {
                let Some(mtu) = self.port.mtu_cap.bytes() else {
                    return Ok(None);
                };
                write!(
                    f,
                    "expected a payload of at most {mtu} bytes, seen {}",
                    payload_length(place, frame)
                )?;
            }
            Check::Grh => write!(
                f,
                "expected IPVer 6, NxtHdr 0x1b, seen {}, {:#04x}",
                header[0] >> 4,
                header[6]
            )?,
            Check::TransportVersion | Check::PKey => return self.transport(f, bth),
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    fn transport(&self, f: &mut fmt::Formatter<'_>, bth: Option<Bth>) -> Written {
        match (self.check, bth) {
            (Check::TransportVersion, Some(bth)) => write!(f, "expected TVer 0, seen {}", bth.tver())?,
            (Check::PKey, Some(bth)) => {
                f.write_str("expected a P_Key that matches")?;
                let mut glue = " ";
                for key in self.port.p_keys.iter().flatten().take(SHOWN_KEYS) {
                    write!(f, "{glue}{key}")?;
                    glue = " or ";
                }
                let more = self.port.p_keys.as_ref().is_some_and(|keys| keys.len() > SHOWN_KEYS);
                write!(f, "{}, seen {}", if more { " ..." } else { "" }, PKey(bth.p_key().0))?;
            }
            _ => return Ok(None),
        }
        Ok(Some(()))
    }
}

/// Maximum number of the port's P_Keys that an explanation lists.
const SHOWN_KEYS: usize = 4;

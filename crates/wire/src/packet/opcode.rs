//! BTH:OpCode, and the headers and payload that the opcode determines.
//!
//! Source: architecture 9.2.1 (the codes and the headers of each), annex A14 (XRC), annex A17 (CNP); FLUSH and
//! ATOMIC WRITE: `rxe_opcode.c` of Linux.

use core::fmt;

use crate::value::named;

named!(
    /// BTH:OpCode: transport service and operation.
    Opcode(u8, 4) {
        0x00 RC_SEND_FIRST "RC SEND First", 0x01 RC_SEND_MIDDLE "RC SEND Middle", 0x02 RC_SEND_LAST "RC SEND Last",
        0x03 RC_SEND_LAST_IMM "RC SEND Last with Immediate", 0x04 RC_SEND_ONLY "RC SEND Only",
        0x05 RC_SEND_ONLY_IMM "RC SEND Only with Immediate", 0x06 RC_WRITE_FIRST "RC RDMA WRITE First",
        0x07 RC_WRITE_MIDDLE "RC RDMA WRITE Middle", 0x08 RC_WRITE_LAST "RC RDMA WRITE Last",
        0x09 RC_WRITE_LAST_IMM "RC RDMA WRITE Last with Immediate", 0x0A RC_WRITE_ONLY "RC RDMA WRITE Only",
        0x0B RC_WRITE_ONLY_IMM "RC RDMA WRITE Only with Immediate", 0x0C RC_READ_REQUEST "RC RDMA READ Request",
        0x0D RC_READ_RESPONSE_FIRST "RC RDMA READ Response First",
        0x0E RC_READ_RESPONSE_MIDDLE "RC RDMA READ Response Middle",
        0x0F RC_READ_RESPONSE_LAST "RC RDMA READ Response Last",
        0x10 RC_READ_RESPONSE_ONLY "RC RDMA READ Response Only", 0x11 RC_ACKNOWLEDGE "RC Acknowledge",
        0x12 RC_ATOMIC_ACKNOWLEDGE "RC ATOMIC Acknowledge", 0x13 RC_COMPARE_SWAP "RC CmpSwap",
        0x14 RC_FETCH_ADD "RC FetchAdd", 0x16 RC_SEND_LAST_INVALIDATE "RC SEND Last with Invalidate",
        0x17 RC_SEND_ONLY_INVALIDATE "RC SEND Only with Invalidate", 0x1C RC_FLUSH "RC FLUSH",
        0x1D RC_ATOMIC_WRITE "RC ATOMIC WRITE", 0x20 UC_SEND_FIRST "UC SEND First",
        0x21 UC_SEND_MIDDLE "UC SEND Middle", 0x22 UC_SEND_LAST "UC SEND Last",
        0x23 UC_SEND_LAST_IMM "UC SEND Last with Immediate", 0x24 UC_SEND_ONLY "UC SEND Only",
        0x25 UC_SEND_ONLY_IMM "UC SEND Only with Immediate", 0x26 UC_WRITE_FIRST "UC RDMA WRITE First",
        0x27 UC_WRITE_MIDDLE "UC RDMA WRITE Middle", 0x28 UC_WRITE_LAST "UC RDMA WRITE Last",
        0x29 UC_WRITE_LAST_IMM "UC RDMA WRITE Last with Immediate", 0x2A UC_WRITE_ONLY "UC RDMA WRITE Only",
        0x2B UC_WRITE_ONLY_IMM "UC RDMA WRITE Only with Immediate", 0x40 RD_SEND_FIRST "RD SEND First",
        0x41 RD_SEND_MIDDLE "RD SEND Middle", 0x42 RD_SEND_LAST "RD SEND Last",
        0x43 RD_SEND_LAST_IMM "RD SEND Last with Immediate", 0x44 RD_SEND_ONLY "RD SEND Only",
        0x45 RD_SEND_ONLY_IMM "RD SEND Only with Immediate", 0x46 RD_WRITE_FIRST "RD RDMA WRITE First",
        0x47 RD_WRITE_MIDDLE "RD RDMA WRITE Middle", 0x48 RD_WRITE_LAST "RD RDMA WRITE Last",
        0x49 RD_WRITE_LAST_IMM "RD RDMA WRITE Last with Immediate", 0x4A RD_WRITE_ONLY "RD RDMA WRITE Only",
        0x4B RD_WRITE_ONLY_IMM "RD RDMA WRITE Only with Immediate", 0x4C RD_READ_REQUEST "RD RDMA READ Request",
        0x4D RD_READ_RESPONSE_FIRST "RD RDMA READ Response First",
        0x4E RD_READ_RESPONSE_MIDDLE "RD RDMA READ Response Middle",
        0x4F RD_READ_RESPONSE_LAST "RD RDMA READ Response Last",
        0x50 RD_READ_RESPONSE_ONLY "RD RDMA READ Response Only", 0x51 RD_ACKNOWLEDGE "RD Acknowledge",
        0x52 RD_ATOMIC_ACKNOWLEDGE "RD ATOMIC Acknowledge", 0x53 RD_COMPARE_SWAP "RD CmpSwap",
        0x54 RD_FETCH_ADD "RD FetchAdd", 0x55 RD_RESYNC "RD RESYNC", 0x64 UD_SEND_ONLY "UD SEND Only",
        0x65 UD_SEND_ONLY_IMM "UD SEND Only with Immediate", 0x81 CNP "CNP", 0xA0 XRC_SEND_FIRST "XRC SEND First",
        0xA1 XRC_SEND_MIDDLE "XRC SEND Middle", 0xA2 XRC_SEND_LAST "XRC SEND Last",
        0xA3 XRC_SEND_LAST_IMM "XRC SEND Last with Immediate", 0xA4 XRC_SEND_ONLY "XRC SEND Only",
        0xA5 XRC_SEND_ONLY_IMM "XRC SEND Only with Immediate", 0xA6 XRC_WRITE_FIRST "XRC RDMA WRITE First",
        0xA7 XRC_WRITE_MIDDLE "XRC RDMA WRITE Middle", 0xA8 XRC_WRITE_LAST "XRC RDMA WRITE Last",
        0xA9 XRC_WRITE_LAST_IMM "XRC RDMA WRITE Last with Immediate", 0xAA XRC_WRITE_ONLY "XRC RDMA WRITE Only",
        0xAB XRC_WRITE_ONLY_IMM "XRC RDMA WRITE Only with Immediate", 0xAC XRC_READ_REQUEST "XRC RDMA READ Request",
        0xAD XRC_READ_RESPONSE_FIRST "XRC RDMA READ Response First",
        0xAE XRC_READ_RESPONSE_MIDDLE "XRC RDMA READ Response Middle",
        0xAF XRC_READ_RESPONSE_LAST "XRC RDMA READ Response Last",
        0xB0 XRC_READ_RESPONSE_ONLY "XRC RDMA READ Response Only", 0xB1 XRC_ACKNOWLEDGE "XRC Acknowledge",
        0xB2 XRC_ATOMIC_ACKNOWLEDGE "XRC ATOMIC Acknowledge", 0xB3 XRC_COMPARE_SWAP "XRC CmpSwap",
        0xB4 XRC_FETCH_ADD "XRC FetchAdd", 0xB6 XRC_SEND_LAST_INVALIDATE "XRC SEND Last with Invalidate",
        0xB7 XRC_SEND_ONLY_INVALIDATE "XRC SEND Only with Invalidate",
    }
);

/// A transport service, from the upper 3 bits of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Unreliable datagram.
    Ud,
    /// A congestion notification packet.
    Cnp,
    /// Extended reliable connection.
    Xrc,
    /// Manufacturer-defined opcodes.
    Manufacturer,
    /// Reserved opcodes.
    Reserved,
}

/// The set of headers after the BTH, in this order: RDETH, DETH, XRCETH, FETH, RETH, AtomicETH, AETH, AtomicAckETH,
/// ImmDt, IETH. A further bit allows a payload.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers(u16);

macro_rules! headers {
    ($($(#[$doc:meta])* $get:ident $konst:ident $bit:literal $size:literal $words:literal;)*) => {
        impl Headers {
            $( pub(crate) const $konst: Self = Self(1 << $bit); )*
            /// Bit, size in bytes and name of each header, in wire order and bit order.
            const EACH: &'static [(Self, usize, &'static str)] = &[$( (Self::$konst, $size, $words) ),*];

            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $get(self) -> bool {
                    self.0 & Self::$konst.0 != 0
                }
            )*
        }
    };
}

headers! {
    /// Returns whether the RDETH (4 bytes) follows.
    rdeth RDETH 0 4 "RDETH";
    /// Returns whether the DETH (8 bytes) follows.
    deth DETH 1 8 "DETH";
    /// Returns whether the XRCETH (4 bytes) follows.
    xrceth XRCETH 2 4 "XRCETH";
    /// Returns whether the FETH (4 bytes) follows.
    feth FETH 3 4 "FETH";
    /// Returns whether the RETH (16 bytes) follows.
    reth RETH 4 16 "RETH";
    /// Returns whether the AtomicETH (28 bytes) follows.
    atomic ATOMIC 5 28 "AtomicETH";
    /// Returns whether the AETH (4 bytes) follows.
    aeth AETH 6 4 "AETH";
    /// Returns whether the AtomicAckETH (8 bytes) follows.
    atomic_ack ATOMIC_ACK 7 8 "AtomicAckETH";
    /// Returns whether the ImmDt (4 bytes) follows.
    imm IMM 8 4 "ImmDt";
    /// Returns whether the IETH (4 bytes) follows.
    ieth IETH 9 4 "IETH";
    /// Returns whether a payload, possibly empty, may follow. Opcodes without a name allow a payload.
    payload_allowed PAYLOAD 10 0 "payload";
}

impl Headers {
    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the size in bytes of the headers before `wanted`, and the size of `wanted`. Returns `None` if `wanted`
    /// is absent.
    pub(crate) fn bytes_before(self, wanted: Self) -> Option<(usize, usize)> {
        let is_there = self.0 & wanted.0 != 0;
        let mut before = 0;
        for (header, size, _) in self.each().filter(|_| is_there) {
            if header == wanted {
                return Some((before, size));
            }
            before += size;
        }
        None
    }

    /// Returns the size of all headers in bytes, without the payload.
    #[must_use]
    pub const fn length(self) -> usize {
        let (mut at, mut bytes) = (0, 0);
        while at < Self::EACH.len() {
            let (header, size, _) = Self::EACH[at];
            if self.0 & header.0 != 0 {
                bytes += size;
            }
            at += 1;
        }
        bytes
    }

    /// Iterates over the headers present, with size in bytes and name, in wire order.
    pub(crate) fn each(self) -> impl Iterator<Item = (Self, usize, &'static str)> {
        Self::EACH
            .iter()
            .copied()
            .filter(move |(header, ..)| self.0 & header.0 != 0 && *header != Self::PAYLOAD)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.each().map(|(_, _, name)| name)).finish()
    }
}

/// Mask of the operation, the low 5 bits of an opcode. Each value means the same operation in all services that support
/// the operation.
const OPERATION: u8 = 0x1F;

/// Headers of each opcode, and their size in bytes. Precomputed, because the parser needs both several times for each
/// packet.
static OF_EACH: [(Headers, usize); 256] = {
    let mut of_each = [(Headers(0), 0); 256];
    let mut code = 0;
    while code < 256 {
        let headers = Opcode(code as u8).its_headers();
        of_each[code] = (headers, headers.length());
        code += 1;
    }
    of_each
};

impl Opcode {
    /// Returns the transport service.
    #[must_use]
    pub const fn service(self) -> Service {
        match self.0 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            2 => Service::Rd,
            3 => Service::Ud,
            5 => Service::Xrc,
            6 | 7 => Service::Manufacturer,
            _ if self.0 == Self::CNP.0 => Service::Cnp,
            _ => Service::Reserved,
        }
    }

    /// Returns the headers after the BTH. An opcode without a name has no headers and allows a payload.
    #[must_use]
    pub fn headers(self) -> Headers {
        OF_EACH[usize::from(self.0)].0
    }

    /// Returns the size of the headers after the BTH in bytes.
    pub(crate) fn header_bytes(self) -> usize {
        OF_EACH[usize::from(self.0)].1
    }

    const fn its_headers(self) -> Headers {
        if self.name().is_none() {
            return Headers::PAYLOAD;
        }
        let of_service = match self.service() {
            Service::Rd if self.is_response() => Headers::RDETH,
            Service::Rd => Headers::RDETH.and(Headers::DETH),
            Service::Ud => Headers::DETH,
            Service::Xrc if !self.is_response() => Headers::XRCETH,
            Service::Cnp => return Headers::PAYLOAD,
            _ => Headers(0),
        };
        let of_operation = match self.0 & OPERATION {
            0x03 | 0x05 | 0x09 => Headers::IMM.and(Headers::PAYLOAD),
            0x06 | 0x0A | 0x1D => Headers::RETH.and(Headers::PAYLOAD),
            0x0B => Headers::RETH.and(Headers::IMM).and(Headers::PAYLOAD),
            0x0C => Headers::RETH,
            0x0D | 0x0F | 0x10 => Headers::AETH.and(Headers::PAYLOAD),
            0x11 => Headers::AETH,
            0x12 => Headers::AETH.and(Headers::ATOMIC_ACK),
            0x13 | 0x14 => Headers::ATOMIC,
            0x15 => Headers(0),
            0x16 | 0x17 => Headers::IETH.and(Headers::PAYLOAD),
            0x1C => Headers::FETH.and(Headers::RETH),
            _ => Headers::PAYLOAD,
        };
        of_service.and(of_operation)
    }

    /// Returns whether this is a response: a READ response, an Acknowledge or an ATOMIC Acknowledge.
    #[must_use]
    pub const fn is_response(self) -> bool {
        self.name().is_some() && matches!(self.0 & OPERATION, 0x0D..=0x12) && self.0 != Self::CNP.0
    }

    /// Returns whether this is a request. CNPs and opcodes without a name are not requests.
    #[must_use]
    pub fn is_request(self) -> bool {
        self.name().is_some() && !self.is_response() && self != Self::CNP
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn opcodes_print_their_names() {
        assert_eq!(Opcode(0x13).to_string(), "RC CmpSwap");
        assert_eq!(Opcode(0x64).to_string(), "UD SEND Only");
        assert_eq!(Opcode(0x2B).to_string(), "UC RDMA WRITE Only with Immediate");
        assert_eq!(Opcode(0xB7).to_string(), "XRC SEND Only with Invalidate");
        assert_eq!(Opcode(0x15).to_string(), "0x15 (unknown)");
        assert!(!Opcode(0x15).is_legal());
        assert_eq!(Opcode(0x55), Opcode::RD_RESYNC);
    }

    #[test]
    fn upper_bits_select_service() {
        use Service::{Cnp, Manufacturer, Rc, Rd, Reserved, Uc, Ud, Xrc};
        let first = [Rc, Uc, Rd, Ud, Reserved, Xrc, Manufacturer, Manufacturer];
        for (prefix, service) in (0..8).zip(first) {
            assert_eq!(Opcode(prefix << 5).service(), service);
        }
        assert_eq!(Opcode(0x81).service(), Cnp);
        assert_eq!(Opcode(0x82).service(), Reserved);
    }

    #[test]
    fn opcode_headers_match_architecture() {
        let named = |code: u8| format!("{:?}", Opcode(code).headers()).replace('"', "");
        for (code, expected) in [
            (0x00, "[]"),
            (0x03, "[ImmDt]"),
            (0x06, "[RETH]"),
            (0x07, "[]"),
            (0x0B, "[RETH, ImmDt]"),
            (0x0C, "[RETH]"),
            (0x0D, "[AETH]"),
            (0x0E, "[]"),
            (0x11, "[AETH]"),
            (0x12, "[AETH, AtomicAckETH]"),
            (0x13, "[AtomicETH]"),
            (0x17, "[IETH]"),
            (0x1C, "[FETH, RETH]"),
            (0x2B, "[RETH, ImmDt]"),
            (0x2C, "[]"), // UC has no READ
            (0x4A, "[RDETH, DETH, RETH]"),
            (0x51, "[RDETH, AETH]"),
            (0x55, "[RDETH, DETH]"),
            (0x65, "[DETH, ImmDt]"),
            (0x81, "[]"),
            (0xA6, "[XRCETH, RETH]"),
            (0xB1, "[AETH]"),
        ] {
            assert_eq!(named(code), expected, "{code:#x}");
        }
        assert_eq!(Opcode::RD_COMPARE_SWAP.headers().length(), 4 + 8 + 28);
    }

    #[test]
    fn only_data_opcodes_allow_payload() {
        let without: Vec<u8> = (0..0x20)
            .filter(|&code| !Opcode(code).headers().payload_allowed())
            .collect();
        assert_eq!(without, [0x0C, 0x11, 0x12, 0x13, 0x14, 0x1C]);
    }

    #[test]
    fn response_opcodes_match_each_service() {
        let answers: Vec<u8> = (0..=255).filter(|&code| Opcode(code).is_response()).collect();
        let expected: Vec<u8> = [0x0D..=0x12, 0x4D..=0x52, 0xAD..=0xB2].into_iter().flatten().collect();
        assert_eq!(answers, expected);
        for code in 0..=255 {
            let opcode = Opcode(code);
            assert!(!(opcode.is_request() && opcode.is_response()), "{opcode}");
            let asks_or_answers = opcode.is_request() || opcode.is_response();
            assert_eq!(asks_or_answers, opcode.is_legal() && opcode != Opcode::CNP, "{opcode}");
        }
    }
}

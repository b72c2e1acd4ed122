//! Builds capture files byte by byte.

/// A builder with a fixed byte order.
#[derive(Clone, Copy)]
pub(super) struct Hand {
    pub(super) is_big: bool,
}

pub(super) const LITTLE: Hand = Hand { is_big: false };
pub(super) const BIG: Hand = Hand { is_big: true };

impl Hand {
    pub(super) fn u16(self, value: u16) -> Vec<u8> {
        if self.is_big {
            value.to_be_bytes().to_vec()
        } else {
            value.to_le_bytes().to_vec()
        }
    }

    pub(super) fn u32(self, value: u32) -> Vec<u8> {
        if self.is_big {
            value.to_be_bytes().to_vec()
        } else {
            value.to_le_bytes().to_vec()
        }
    }

    pub(super) fn u64(self, value: u64) -> Vec<u8> {
        if self.is_big {
            value.to_be_bytes().to_vec()
        } else {
            value.to_le_bytes().to_vec()
        }
    }

    /// Builds the header of a pcap file.
    pub(super) fn pcap(self, magic: u32, link_type: u32) -> Vec<u8> {
        [
            self.u32(magic),
            self.u16(2),
            self.u16(4),
            self.u32(0),
            self.u32(0),
            self.u32(262_144),
            self.u32(link_type),
        ]
        .concat()
    }

    /// Builds a packet record of a pcap file.
    pub(super) fn packet(self, time: (u32, u32), bytes: &[u8], original: u32) -> Vec<u8> {
        let captured = u32::try_from(bytes.len()).unwrap();
        let head = [
            self.u32(time.0),
            self.u32(time.1),
            self.u32(captured),
            self.u32(original),
        ];
        [head.concat(), bytes.to_vec()].concat()
    }

    /// Builds a pcapng block and pads its body.
    pub(super) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.u32(u32::try_from(body.len() + 12).unwrap());
        [self.u32(kind), length.clone(), body, length].concat()
    }

    pub(super) fn section(self) -> Vec<u8> {
        let body = [self.u32(0x1A2B_3C4D), self.u16(1), self.u16(0), self.u64(u64::MAX)];
        self.block(0x0A0D_0D0A, &body.concat())
    }

    pub(super) fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [
            self.u16(code),
            self.u16(u16::try_from(value.len()).unwrap()),
            value.to_vec(),
        ]
        .concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    pub(super) fn interface(self, link_type: u16, snap_length: u32, options: &[u8]) -> Vec<u8> {
        let body = [
            self.u16(link_type),
            self.u16(0),
            self.u32(snap_length),
            options.to_vec(),
        ];
        self.block(1, &body.concat())
    }

    pub(super) fn enhanced(self, interface: u32, time: u64, bytes: &[u8], original: u32) -> Vec<u8> {
        let captured = u32::try_from(bytes.len()).unwrap();
        let time = time.to_be_bytes();
        let half = |at: usize| self.u32(u32::from_be_bytes(*time[at..].first_chunk().unwrap()));
        let body = [
            self.u32(interface),
            half(0),
            half(4),
            self.u32(captured),
            self.u32(original),
            bytes.to_vec(),
        ];
        self.block(6, &body.concat())
    }
}

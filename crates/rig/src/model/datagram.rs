//! One message per datagram. The [parent module](super) describes the format.

use verbatim_wire::{MAD_LENGTH, Mad};

/// Size of the receive buffer, in bytes. A longer datagram is truncated, and is then rejected because its length field
/// does not match.
pub const LONGEST: usize = 8192;

const NOTHING: u8 = 0x00;
const MAD: u8 = 0x01;
const PACKET: u8 = 0x02;
const IN_USE: u8 = 0x03;
/// Length of the header: the length field and the kind.
const HEAD: usize = 3;

/// The content of a datagram.
#[allow(clippy::large_enum_variant)] // one message at a time, on the stack; a box would allocate for each MAD
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// No content: a probe whether the peer exists.
    Nothing,
    /// A MAD.
    Mad(Mad),
    /// A native packet, from its LRH to its VCRC.
    Packet(Vec<u8>),
    /// Another tester uses the device.
    InUse,
}

/// The reason why a datagram is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Junk {
    /// The datagram is shorter than its header.
    #[error("a datagram that ends within its first 3 bytes (length, kind); expected length, kind and body")]
    NoHead,
    /// The length field differs from the datagram's length.
    #[error(
        "a datagram whose first 2 bytes are not the number of bytes that follow, in big-endian order; was it written \
         for another program?"
    )]
    Length,
    /// The kind is unknown.
    #[error(
        "a datagram of kind {0:#04x}; this program knows 0x00 (nothing), 0x01 (a MAD), 0x02 (a native packet) \
             and 0x03 (the device is in use)"
    )]
    Kind(u8),
    /// The body has the wrong size for the kind.
    #[error("a datagram of kind {0:#04x} whose body does not have {1} bytes")]
    Body(u8, usize),
}

/// Encodes a message as a datagram.
#[must_use]
pub fn encode(message: &Message) -> Vec<u8> {
    let (kind, body): (u8, &[u8]) = match message {
        Message::Nothing => (NOTHING, &[]),
        Message::Mad(mad) => (MAD, mad.bytes()),
        Message::Packet(bytes) => (PACKET, bytes),
        Message::InUse => (IN_USE, &[]),
    };
    #[allow(clippy::cast_possible_truncation)] // the body is a MAD or one packet
    let length = (1 + body.len()) as u16;
    let mut datagram = Vec::with_capacity(HEAD + body.len());
    datagram.extend_from_slice(&length.to_be_bytes());
    datagram.push(kind);
    datagram.extend_from_slice(body);
    datagram
}

/// Decodes the message of a datagram.
///
/// # Errors
/// [`Junk`] when the datagram is malformed.
pub fn decode(datagram: &[u8]) -> Result<Message, Junk> {
    let [high, low, kind, body @ ..] = datagram else {
        return Err(Junk::NoHead);
    };
    if usize::from(u16::from_be_bytes([*high, *low])) != 1 + body.len() {
        return Err(Junk::Length);
    }
    match *kind {
        NOTHING if body.is_empty() => Ok(Message::Nothing),
        IN_USE if body.is_empty() => Ok(Message::InUse),
        NOTHING | IN_USE => Err(Junk::Body(*kind, 0)),
        MAD => Mad::try_from(body)
            .map(Message::Mad)
            .map_err(|_| Junk::Body(MAD, MAD_LENGTH)),
        PACKET => Ok(Message::Packet(body.to_vec())),
        kind => Err(Junk::Kind(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodes_length_kind_and_body() {
        let datagram = encode(&Message::Mad(Mad::from([7; MAD_LENGTH])));
        assert_eq!(datagram[..3], [1, 1, 1], "257, kind 1");
        assert_eq!(datagram[3..], [7; MAD_LENGTH]);
        assert_eq!(encode(&Message::Nothing), [0, 1, 0]);
        assert_eq!(encode(&Message::InUse), [0, 1, 3]);
        assert_eq!(encode(&Message::Packet(vec![9, 8])), [0, 3, 2, 9, 8]);
    }

    #[test]
    fn names_each_fault() {
        for (datagram, junk) in [
            (vec![], Junk::NoHead),
            (vec![0, 1], Junk::NoHead),
            (vec![0, 0, 0], Junk::Length),
            (vec![0, 2, 0], Junk::Length),
            (vec![0, 1, 9], Junk::Kind(9)),
            (vec![0, 1, 1], Junk::Body(1, 256)),
            (vec![0, 2, 0, 0], Junk::Body(0, 0)),
            (vec![0, 2, 3, 0], Junk::Body(3, 0)),
        ] {
            assert_eq!(decode(&datagram), Err(junk), "{datagram:?}");
            assert!(!junk.to_string().is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(message) = decode(&bytes) {
                prop_assert_eq!(encode(&message), bytes);
            }
        }

        #[test]
        fn any_body_decodes_or_fails(
            kind in 0_u8..3, body in proptest::collection::vec(any::<u8>(), 254..258),
        ) {
            let mut datagram = u16::try_from(body.len() + 1).unwrap().to_be_bytes().to_vec();
            datagram.push(kind);
            datagram.extend(&body);
            prop_assert_eq!(decode(&datagram).is_ok(), kind == 2 || kind == 1 && body.len() == 256);
        }
    }
}

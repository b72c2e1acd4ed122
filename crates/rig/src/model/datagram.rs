//! One message in one datagram; the form is described in the [parent module](super).

use verbatim_wire::{MAD_LENGTH, Mad};

/// No datagram is longer; what is, was cut, and its length does not fit any more.
pub const LONGEST: usize = 8192;

const NOTHING: u8 = 0x00;
const MAD: u8 = 0x01;
const PACKET: u8 = 0x02;
/// Length and kind.
const HEAD: usize = 3;

/// What a datagram carries.
#[allow(clippy::large_enum_variant)] // one at a time, on the stack; a box would be an allocation for each MAD
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Nothing: sent to learn whether somebody is there.
    Nothing,
    /// A MAD.
    Mad(Mad),
    /// A native packet, from its LRH to its VCRC.
    Packet(Vec<u8>),
}

/// Why a datagram is no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Junk {
    /// It ends before its kind.
    #[error("a datagram that ends within its first 3 bytes (length, kind); expected length, kind and body")]
    NoHead,
    /// Its length is not what it says.
    #[error(
        "a datagram whose first two bytes are not, big-endian, the number of bytes that follow; was it written for \
         another program?"
    )]
    Length,
    /// This program does not know its kind.
    #[error("a datagram of kind {0:#04x}; this program knows 0x00 (nothing), 0x01 (a MAD) and 0x02 (a native packet)")]
    Kind(u8),
    /// Its body does not have the size of its kind.
    #[error("a datagram of kind {0:#04x} whose body has another size than {1} bytes")]
    Body(u8, usize),
}

/// The datagram of a message.
#[must_use]
pub fn encode(message: &Message) -> Vec<u8> {
    let (kind, body): (u8, &[u8]) = match message {
        Message::Nothing => (NOTHING, &[]),
        Message::Mad(mad) => (MAD, mad.bytes()),
        Message::Packet(bytes) => (PACKET, bytes),
    };
    #[allow(clippy::cast_possible_truncation)] // a MAD or its packet
    let length = (1 + body.len()) as u16;
    let mut datagram = Vec::with_capacity(HEAD + body.len());
    datagram.extend_from_slice(&length.to_be_bytes());
    datagram.push(kind);
    datagram.extend_from_slice(body);
    datagram
}

/// The message of a datagram.
///
/// # Errors
/// [`Junk`] when it has none.
pub fn decode(datagram: &[u8]) -> Result<Message, Junk> {
    let [high, low, kind, body @ ..] = datagram else {
        return Err(Junk::NoHead);
    };
    if usize::from(u16::from_be_bytes([*high, *low])) != 1 + body.len() {
        return Err(Junk::Length);
    }
    match *kind {
        NOTHING if body.is_empty() => Ok(Message::Nothing),
        NOTHING => Err(Junk::Body(NOTHING, 0)),
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
    fn a_mad_is_length_kind_and_256_bytes() {
        let datagram = encode(&Message::Mad(Mad::from([7; MAD_LENGTH])));
        assert_eq!(datagram[..3], [1, 1, 1], "257, kind 1");
        assert_eq!(datagram[3..], [7; MAD_LENGTH]);
        assert_eq!(encode(&Message::Nothing), [0, 1, 0]);
        assert_eq!(encode(&Message::Packet(vec![9, 8])), [0, 3, 2, 9, 8]);
    }

    #[test]
    fn each_fault_is_called_by_its_name() {
        for (datagram, junk) in [
            (vec![], Junk::NoHead),
            (vec![0, 1], Junk::NoHead),
            (vec![0, 0, 0], Junk::Length),
            (vec![0, 2, 0], Junk::Length),
            (vec![0, 1, 9], Junk::Kind(9)),
            (vec![0, 1, 1], Junk::Body(1, 256)),
            (vec![0, 2, 0, 0], Junk::Body(0, 0)),
        ] {
            assert_eq!(decode(&datagram), Err(junk), "{datagram:?}");
            assert!(!junk.to_string().is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_junk(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(message) = decode(&bytes) {
                prop_assert_eq!(encode(&message), bytes);
            }
        }

        #[test]
        fn any_body_behind_a_true_length_is_a_message_or_junk(
            kind in 0_u8..3, body in proptest::collection::vec(any::<u8>(), 254..258),
        ) {
            let mut datagram = u16::try_from(body.len() + 1).unwrap().to_be_bytes().to_vec();
            datagram.push(kind);
            datagram.extend(&body);
            prop_assert_eq!(decode(&datagram).is_ok(), kind == 2 || kind == 1 && body.len() == 256);
        }
    }
}

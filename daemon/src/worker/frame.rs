//! Messages on the stream: each behind its length as a varint.

use prost::Message;
use prost::bytes::{Buf, BytesMut};

/// The longest message to a worker: room for the ids of ten thousand tests.
pub(super) const TO_WORKER: usize = 1 << 20;
/// The longest message from a worker: the report of a run of every test.
pub(super) const FROM_WORKER: usize = 64 << 20;

/// What came is no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Junk {
    /// The length does not end.
    #[error("a length of more than 32 bits")]
    Length,
    /// More than anybody sends.
    #[error("a message of {length} bytes, and none is longer than {most}")]
    TooLong {
        /// As announced.
        length: usize,
        /// The limit.
        most: usize,
    },
    /// The bytes are not those of a message.
    #[error("{0}")]
    Content(#[from] prost::DecodeError),
}

/// A message as it goes onto the stream.
pub(super) fn encode(message: &impl Message) -> Vec<u8> {
    message.encode_length_delimited_to_vec()
}

/// What came from the stream and is not yet taken.
#[derive(Debug)]
pub(super) struct Frames {
    bytes: BytesMut,
    most: usize,
}

impl Frames {
    /// Nothing yet; no message may be longer than that.
    pub(super) fn new(most: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            most,
        }
    }

    /// Where to append what is read.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Takes the next whole message, if it is there.
    pub(super) fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Junk> {
        let Some((length, prefix)) = length(&self.bytes)? else {
            return Ok(None);
        };
        if length > self.most {
            return Err(Junk::TooLong {
                length,
                most: self.most,
            });
        }
        if self.bytes.len() < prefix + length {
            return Ok(None);
        }
        self.bytes.advance(prefix);
        Ok(Some(M::decode(self.bytes.split_to(length))?))
    }
}

/// The length in front, and how many bytes it takes; nothing when it is not whole yet.
fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>, Junk> {
    let mut length = 0_u64;
    for (place, byte) in bytes.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            let length = u32::try_from(length).map_err(|_| Junk::Length)?;
            return Ok(Some((length as usize, place + 1)));
        }
    }
    if bytes.len() < 5 { Ok(None) } else { Err(Junk::Length) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbatim_proto::worker::{FromWorker, Ping, Step, ToWorker, from_worker, to_worker};

    fn ping(number: u64) -> ToWorker {
        ToWorker {
            message: Some(to_worker::Message::Ping(Ping { number })),
        }
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_cuts_them() {
        let step = |label: String| FromWorker {
            message: Some(from_worker::Message::Step(Step { label })),
        };
        let sent = [step("a".into()), step("b".repeat(300)), step(String::new())];
        let stream: Vec<u8> = sent.iter().flat_map(encode).collect();
        for cut in 1..stream.len() {
            let mut frames = Frames::new(1000);
            let mut came: Vec<FromWorker> = Vec::new();
            for piece in stream.chunks(cut) {
                frames.buffer().extend_from_slice(piece);
                while let Some(message) = frames.next().unwrap() {
                    came.push(message);
                }
            }
            assert_eq!(came, sent, "in pieces of {cut}");
        }
    }

    #[test]
    fn a_message_at_the_limit_is_taken_and_one_beyond_is_refused_before_it_is_there() {
        let whole = encode(&ping(u64::MAX));
        let mut frames = Frames::new(whole.len() - 1);
        frames.buffer().extend_from_slice(&whole);
        assert_eq!(frames.next(), Ok(Some(ping(u64::MAX))));
        let mut frames = Frames::new(9);
        frames.buffer().extend_from_slice(&[10]);
        assert_eq!(frames.next::<ToWorker>(), Err(Junk::TooLong { length: 10, most: 9 }));
        let mut frames = Frames::new(9);
        frames.buffer().extend_from_slice(&[0xFF; 5]);
        assert_eq!(frames.next::<ToWorker>(), Err(Junk::Length));
    }

    proptest! {
        #[test]
        fn any_bytes_are_messages_or_junk(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::new(100);
            frames.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_)) = frames.next::<ToWorker>() {}
        }
    }
}

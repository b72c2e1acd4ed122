//! Protobuf messages one behind the other, each behind its length as a varint: the stream between daemon and worker.

use prost::Message;
use prost::bytes::{Buf, BytesMut};

/// No message is longer, but where a stream says less: the report of a run of every test.
pub(crate) const LONGEST: usize = 64 << 20;
/// Bytes that a length of 32 bits takes at the most.
const LENGTH: usize = 5;

/// What came is no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Junk {
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

/// Bytes that came and are not yet taken.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: BytesMut,
    most: usize,
}

impl Frames {
    /// Nothing yet; no message may be longer than that.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            most,
        }
    }

    /// Where to append what is read.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Takes the next whole message, if it is there. Junk stays.
    pub(crate) fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Junk> {
        let mut rest = &self.bytes[..];
        let length = match prost::decode_length_delimiter(&mut rest) {
            Ok(length) => length,
            Err(_) if self.bytes.len() < LENGTH => return Ok(None),
            Err(_) => return Err(Junk::Length),
        };
        if length > self.most {
            let most = self.most;
            return Err(Junk::TooLong { length, most });
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = M::decode(body)?;
        let taken = self.bytes.len() - rest.len() + length;
        self.bytes.advance(taken);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbatim_proto::worker::{Finished, FromWorker, Ping, ToWorker, from_worker, to_worker};

    fn ping(number: u64) -> ToWorker {
        ToWorker {
            message: Some(to_worker::Message::Ping(Ping { number })),
        }
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_cuts_them() {
        let end = |error: String| FromWorker {
            message: Some(from_worker::Message::Finished(Finished {
                error,
                ..Finished::default()
            })),
        };
        let sent = [end("a".into()), end("b".repeat(300)), end(String::new())];
        let stream: Vec<u8> = sent.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
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
        let whole = ping(u64::MAX).encode_length_delimited_to_vec();
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

//! The framing of the stream between daemon and worker: protobuf messages, each after its length as a varint.

use prost::Message;
use prost::bytes::{Buf, BytesMut};

/// The usual limit of a message in bytes. The report of a run of all tests is smaller.
pub(crate) const LONGEST: usize = 64 << 20;
/// The largest size in bytes of a varint of 32 bits.
const LENGTH: usize = 5;

/// The reason why received bytes are not a valid message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Junk {
    /// The length has more than 32 bits.
    #[error("its length has more than 32 bits")]
    Length,
    /// The length exceeds the limit.
    #[error("it has {length} bytes, expected at most {most}")]
    TooLong {
        /// The announced length in bytes.
        length: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The body is not a valid message.
    #[error("{0}")]
    Content(#[from] prost::DecodeError),
}

/// Received bytes that are not parsed yet.
#[derive(Debug)]
pub(crate) struct Frames {
    bytes: BytesMut,
    most: usize,
}

impl Frames {
    /// Creates an empty buffer for messages of at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            most,
        }
    }

    /// Returns the buffer to append received bytes to.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Removes and returns the next message; `None` while the message is incomplete. Invalid bytes stay in the
    /// buffer.
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
    fn decodes_messages_cut_anywhere() {
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
    fn rejects_announced_length_above_limit() {
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
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frames = Frames::new(100);
            frames.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_)) = frames.next::<ToWorker>() {}
        }
    }
}

//! Protobuf messages one behind the other, each behind its length as a varint: on the stream between daemon and worker,
//! and in the files of events that daemons once kept.
//!
//! A write that was cut leaves a torn last frame: who reads a file stops before it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::marker::PhantomData;

use prost::Message;
use prost::bytes::{Buf, BytesMut};

/// No message is longer, but where a stream says less: the report of a run of every test.
pub(crate) const LONGEST: usize = 64 << 20;
/// Bytes that a length of 32 bits takes at the most.
const LENGTH: usize = 5;
/// Bytes read at once.
const CHUNK: u64 = 64 << 10;

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

/// Why a file's frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It holds something else.
    #[error("at byte {at}: {what}")]
    Damaged {
        /// Where the frame begins.
        at: u64,
        /// What is wrong.
        what: Junk,
    },
}

/// Reads a file's messages one after the other.
#[derive(Debug)]
pub(crate) struct FramesOfFile<M> {
    file: File,
    frames: Frames,
    /// Where the next frame begins in the file.
    at: u64,
    message: PhantomData<fn() -> M>,
}

impl<M: Message + Default> FramesOfFile<M> {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            frames: Frames::new(LONGEST),
            at: 0,
            message: PhantomData,
        }
    }

    /// The next message; none when the file ends before, or within, its frame.
    pub(crate) fn next(&mut self) -> Result<Option<M>, FrameError> {
        loop {
            let before = self.frames.bytes.len();
            let next = self.frames.next();
            if let Some(message) = next.map_err(|what| FrameError::Damaged { at: self.at, what })? {
                self.at += (before - self.frames.bytes.len()) as u64;
                return Ok(Some(message));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self) -> io::Result<bool> {
        let start = self.at + self.frames.bytes.len() as u64;
        self.file.seek(SeekFrom::Start(start))?;
        let mut piece = Vec::new();
        (&mut self.file).take(CHUNK).read_to_end(&mut piece)?;
        self.frames.bytes.extend_from_slice(&piece);
        Ok(!piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbatim_proto::v1::LogLine;
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

    fn line(text: &str) -> LogLine {
        LogLine { text: text.into() }
    }

    fn all(path: &std::path::Path) -> Result<Vec<String>, FrameError> {
        let mut frames = FramesOfFile::<LogLine>::new(File::open(path).unwrap());
        std::iter::from_fn(|| frames.next().transpose())
            .map(|line| Ok(line?.text))
            .collect()
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_frames() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let lines = [line("one"), line(""), line(&"x".repeat(200_000))];
        let whole: Vec<u8> = lines.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(all(&path).unwrap().len(), 3);
        for cut in [0, 1, 4, 5, 6, 7, 8, 9, 100_000, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let expected = usize::from(cut >= 6) + usize::from(cut >= 7);
            assert_eq!(all(&path).unwrap().len(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error_that_says_where() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, [0xFF; 64]).unwrap();
        assert!(all(&path).unwrap_err().to_string().contains("at byte 0"));
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

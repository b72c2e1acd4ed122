//! Files of length-prefixed protobuf messages, which only grow.
//!
//! Each message stands behind its length as a varint. A write that was cut leaves a torn last frame: readers stop before
//! it, and the next writer removes it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;

use prost::Message;

/// No event or verdict is longer.
const LONGEST: usize = 64 << 20;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// Why a frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It holds something else.
    #[error("at byte {at}: {what}")]
    Damaged {
        /// Where the frame begins.
        at: u64,
        /// What is wrong.
        what: String,
    },
}

/// Appends messages, all or none of them: after an error the file ends where it did.
pub(super) fn append<'m, M: Message + 'm>(file: &mut File, messages: impl Iterator<Item = &'m M>) -> io::Result<()> {
    let mut bytes = Vec::new();
    for message in messages {
        message
            .encode_length_delimited(&mut bytes)
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    let end = file.seek(SeekFrom::End(0))?;
    file.write_all(&bytes).inspect_err(|_| {
        // What a full disk took of it must not stand before later frames. The torn frame is harmless if this fails.
        let _ = file.set_len(end);
    })
}

/// Reads frames one after the other, also while the file grows.
#[derive(Debug)]
pub(super) struct Frames<M> {
    file: File,
    buffer: Vec<u8>,
    /// Where the next frame begins in the buffer.
    start: usize,
    /// Where the next frame begins in the file.
    at: u64,
    message: PhantomData<fn() -> M>,
}

impl<M: Message + Default> Frames<M> {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            start: 0,
            at: 0,
            message: PhantomData,
        }
    }

    /// The next message; none when the file ends before, or within, its frame.
    pub(super) fn next(&mut self) -> Result<Option<M>, FrameError> {
        loop {
            let damaged = |what: String| FrameError::Damaged { at: self.at, what };
            let unread = &self.buffer[self.start..];
            match length(unread) {
                Length::Wrong => return Err(damaged("no length of a message".into())),
                Length::Of { prefix, message } if unread.len() >= prefix + message => {
                    let bytes = &unread[prefix..prefix + message];
                    let decoded = M::decode(bytes).map_err(|error| damaged(error.to_string()))?;
                    self.start += prefix + message;
                    self.at += (prefix + message) as u64;
                    return Ok(Some(decoded));
                }
                Length::Of { .. } | Length::Unfinished => {}
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Where the next frame begins: after the last whole one.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        self.file.seek(SeekFrom::Start(self.at + before as u64))?;
        (&mut self.file).take(CHUNK as u64).read_to_end(&mut self.buffer)?;
        Ok(self.buffer.len() > before)
    }
}

enum Length {
    Unfinished,
    Wrong,
    Of { prefix: usize, message: usize },
}

fn length(bytes: &[u8]) -> Length {
    let mut message = 0_usize;
    for (place, byte) in bytes.iter().take(5).enumerate() {
        message |= usize::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return if message <= LONGEST {
                Length::Of {
                    prefix: place + 1,
                    message,
                }
            } else {
                Length::Wrong
            };
        }
    }
    if bytes.len() >= 5 {
        Length::Wrong
    } else {
        Length::Unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_proto::v1::LogLine;

    fn line(text: &str) -> LogLine {
        LogLine { text: text.into() }
    }

    fn open(path: &std::path::Path) -> File {
        File::options().read(true).append(true).create(true).open(path).unwrap()
    }

    fn all(path: &std::path::Path) -> Result<Vec<String>, FrameError> {
        let mut frames = Frames::<LogLine>::new(open(path));
        std::iter::from_fn(|| frames.next().transpose())
            .map(|line| Ok(line?.text))
            .collect()
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_frames() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let lines = [line("one"), line(""), line(&"x".repeat(200_000))];
        append(&mut open(&path), lines.iter()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(all(&path).unwrap().len(), 3);
        for cut in [0, 1, 4, 5, 6, 7, 8, 9, 100_000, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let expected = usize::from(cut >= 6) + usize::from(cut >= 7);
            assert_eq!(all(&path).unwrap().len(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_reader_follows_a_file_that_grows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let mut file = open(&path);
        let mut frames = Frames::<LogLine>::new(open(&path));
        assert_eq!(frames.next().unwrap(), None);
        for text in ["a", "b"] {
            append(&mut file, [line(text)].iter()).unwrap();
            assert_eq!(frames.next().unwrap(), Some(line(text)));
            assert_eq!(frames.next().unwrap(), None);
        }
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error_that_says_where() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, [0xFF; 64]).unwrap();
        assert!(all(&path).unwrap_err().to_string().contains("at byte 0"));
    }
}

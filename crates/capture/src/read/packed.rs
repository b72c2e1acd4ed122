//! Decompression of captures: gzip and zstd, with any number of members or frames.

use core::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The compression of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// Detects the compression by the first bytes of the file.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        match *head {
            [0x1F, 0x8B, ..] => Some(Self::Gzip),
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The bytes read for the detection, followed by the rest of the input.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// An input: plain, or decompressed during the read.
pub(super) enum Input<R> {
    Plain(R),
    Gzip(Box<MultiGzDecoder<Whole<R>>>),
    Zstd(Box<Zstd<BufReader<Whole<R>>>>),
}

impl<R: Read> Input<R> {
    /// Adds decompression to a plain input. `head` is the part of the input that was read already.
    pub(super) fn unpacked(self, packing: Packing, head: Vec<u8>) -> Self {
        match (self, packing) {
            (Self::Plain(input), Packing::Gzip) => {
                Self::Gzip(Box::new(MultiGzDecoder::new(Cursor::new(head).chain(input))))
            }
            (Self::Plain(input), Packing::Zstd) => Self::Zstd(Box::new(Zstd {
                source: BufReader::new(Cursor::new(head).chain(input)),
                decoder: FrameDecoder::new(),
                is_within: false,
            })),
            (other, _) => other,
        }
    }
}

impl<R> Input<R> {
    pub(super) fn is_packed(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Gzip(input) => input.read(buffer),
            Self::Zstd(input) => input.read(buffer),
        }
    }
}

impl<R> fmt::Debug for Input<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

/// Decompresses a sequence of zstd frames.
pub(super) struct Zstd<S> {
    source: S,
    decoder: FrameDecoder,
    /// Whether the decoder is within a frame.
    is_within: bool,
}

impl<S: BufRead> Read for Zstd<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_within && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder
                    .decode_blocks(&mut self.source, strategy)
                    .map_err(io::Error::other)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.is_within = false;
        }
    }
}

impl<S: BufRead> Zstd<S> {
    /// Begins the next frame and skips frames without data. Returns false at the end of the input.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.is_within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let mut skipped = (&mut self.source).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

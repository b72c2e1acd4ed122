//! A buffered input that keeps the current record in memory.

use core::ops::Range;
use std::io::{self, Read};

use super::CaptureError;
use super::packed::{Input, Packing};

/// The size of the buffer, in bytes. The buffer grows only for a longer record.
const READ_AT_ONCE: usize = 256 << 10;

/// An input and the buffered part of it.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: Input<R>,
    buffer: Vec<u8>,
    /// `start..end` is the part of the buffer that is filled but not consumed.
    start: usize,
    end: usize,
    /// The offset of `start` in the decompressed input.
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: Input::Plain(input),
            buffer: vec![0; READ_AT_ONCE],
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Returns the input with decompression. The bytes read so far are part of the compressed data.
    pub(super) fn unpacked(self, packing: Packing) -> Self {
        let head = self.buffer[self.start..self.end].to_vec();
        Self {
            input: self.input.unpacked(packing, head),
            buffer: self.buffer,
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Returns the offset of the next byte in the decompressed input.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes of a range that [`Source::up_to`] or [`Source::next`] returned. The range is valid until the
    /// next read.
    pub(super) fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.buffer[range.clone()]
    }

    /// Returns the range of the next `count` bytes, or of all remaining bytes if there are fewer.
    pub(super) fn up_to(&mut self, count: usize) -> Result<Range<usize>, CaptureError> {
        if self.end - self.start < count {
            self.read(count)?;
        }
        Ok(self.start..self.end.min(self.start + count))
    }

    /// Returns the range of the next `count` bytes of the structure named `what`. Fails if the input has fewer bytes.
    pub(super) fn next(&mut self, count: usize, what: &'static str) -> Result<Range<usize>, CaptureError> {
        let range = self.up_to(count)?;
        if range.len() < count {
            return Err(CaptureError::CutOff {
                what,
                offset: self.offset,
                expected: count as u64,
                seen: range.len() as u64,
            });
        }
        Ok(range)
    }

    pub(super) fn is_at_end(&mut self) -> Result<bool, CaptureError> {
        Ok(self.up_to(1)?.is_empty())
    }

    /// Consumes `count` bytes of the buffer.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    /// Skips `count` bytes of the structure that begins at `offset`, buffered or not.
    pub(super) fn skip(&mut self, count: u64, (what, offset): (&'static str, u64)) -> Result<(), CaptureError> {
        let mut left = count;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(READ_AT_ONCE).min(READ_AT_ONCE);
            let got = self.up_to(most)?.len();
            if got == 0 {
                return Err(CaptureError::CutOff {
                    what,
                    offset,
                    expected: self.offset - offset + left,
                    seen: self.offset - offset,
                });
            }
            self.consume(got);
            left -= got as u64;
        }
        Ok(())
    }

    /// Reads until `wanted` bytes are buffered or the input ends.
    fn read(&mut self, wanted: usize) -> Result<(), CaptureError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted.next_multiple_of(READ_AT_ONCE), 0);
        }
        while self.end < wanted {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.offset + self.end as u64;
                    return Err(match self.input.is_packed() {
                        true => CaptureError::Packed { offset, source },
                        false => CaptureError::Io { offset, source },
                    });
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// Reads a u16 at `at`; panics if `bytes` is shorter.
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Reads a u32 at `at`; panics if `bytes` is shorter.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Reads a u64 at `at`; panics if `bytes` is shorter.
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        match self {
            Self::Little => second << 32 | first,
            Self::Big => first << 32 | second,
        }
    }
}

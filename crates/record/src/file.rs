//! The file of a record: a magic number, then entries, each after its length and CRC-32. The last entry is `End`.

mod writer;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use prost::bytes::Bytes;

use crate::entry::{Entry, EntryError, Sink};
use crate::time::{Span, Time};
use writer::Writer;

/// The first eight bytes of a record.
pub const MAGIC: &[u8; 8] = b"VBTMREC1";
/// The longest entry, in bytes. The longest command of an agent reads or writes 16 MiB of memory.
const LARGEST: usize = (16 << 20) + (1 << 12);
/// The most bytes of a record. A record is judged in memory.
pub(crate) const LARGEST_RECORD: u64 = 1 << 30;
/// The most entries of a record. The smallest entries take a multiple of their file size in memory.
const MOST_ENTRIES: usize = 8 << 20;

/// The least number of entries per message to the writing thread, unless the caller flushes.
const BATCH: usize = 256;

/// The reason why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("cannot read the record {path}: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file does not begin with the magic number.
    #[error("{path} is not a record: expected VBTMREC1 as its first 8 bytes; restore it from a copy or run again")]
    Magic {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file ends within an entry, or without its trailer.
    #[error("{path} is cut off at byte {offset}: {missing}; the run did not end, or its tail was lost: run it again")]
    Truncated {
        /// The path of the file.
        path: PathBuf,
        /// The offset of the incomplete part, in bytes.
        offset: usize,
        /// The name of the missing part.
        missing: &'static str,
    },
    /// An entry's bytes have changed, or break the format.
    #[error("{path} is damaged at byte {offset}: {what}; restore it from a copy or run again")]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The offset of the damaged part, in bytes.
        offset: usize,
        /// The defect.
        what: String,
    },
}

/// A sink that writes a record to a file.
///
/// A separate thread encodes and writes the entries. The tester can therefore respond to packets in time. If the disk
/// falls thousands of entries behind, `put` blocks.
#[derive(Debug)]
pub struct FileSink {
    writer: Writer,
    path: PathBuf,
    entries: u64,
    /// The entries that the thread has not received yet.
    pending: Vec<Entry>,
}

impl FileSink {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// Returns an error when the file cannot be created or written.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let mut file = File::options().write(true).create_new(true).open(path)?;
        file.write_all(MAGIC)?;
        Ok(Self {
            writer: Writer::new(file, LARGEST_RECORD, MOST_ENTRIES)?,
            path: path.into(),
            entries: 0,
            pending: Vec::with_capacity(BATCH),
        })
    }

    /// Writes the trailer and closes the file.
    ///
    /// # Errors
    /// Returns the first error of any write. The record is then incomplete and must not be judged.
    pub fn finish(mut self, at: Time) -> std::io::Result<()> {
        let entries = self.entries;
        self.put(Entry::End {
            entries,
            at: Span::exactly(at),
        });
        self.flush();
        self.writer.wait();
        self.error().map_or(Ok(()), |error| Err(std::io::Error::other(error)))
    }
}

impl Sink for FileSink {
    fn put(&mut self, entry: Entry) {
        self.pending.push(entry);
        self.entries += 1;
        if self.pending.len() >= BATCH {
            self.pending = self.writer.take(std::mem::take(&mut self.pending));
        }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.pending = self.writer.take(std::mem::take(&mut self.pending));
        }
    }

    fn error(&self) -> Option<String> {
        let error = self.writer.error()?;
        Some(format!("cannot write the record {}: {error}", self.path.display()))
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        // The entries before a panic are evidence too.
        if !self.pending.is_empty() {
            self.writer.take(std::mem::take(&mut self.pending));
        }
    }
}

/// Reads the entries of a record, without `End`.
///
/// # Errors
/// Returns an error when the record is cut off or damaged.
pub fn read_file(path: &Path) -> Result<Vec<Entry>, RecordError> {
    let io = |source| RecordError::Io {
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(LARGEST_RECORD + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > LARGEST_RECORD {
        let most = format!("more than {LARGEST_RECORD} bytes, the most of a record");
        return Err(io(std::io::Error::new(std::io::ErrorKind::FileTooLarge, most)));
    }
    read_shared(&bytes.into(), path)
}

/// Reads the entries of a record in memory, without `End`. Error messages name `path`.
///
/// # Errors
/// Returns an error when the record is cut off or damaged.
pub fn read(bytes: &[u8], path: &Path) -> Result<Vec<Entry>, RecordError> {
    read_shared(&Bytes::copy_from_slice(bytes), path)
}

/// Reads the entries of a record in memory. Frames share its bytes instead of copying them.
///
/// # Errors
/// Returns the errors of [`read`].
pub(crate) fn read_shared(bytes: &Bytes, path: &Path) -> Result<Vec<Entry>, RecordError> {
    let truncated = |offset, missing| RecordError::Truncated {
        path: path.into(),
        offset,
        missing,
    };
    let damaged = |offset, what: String| RecordError::Damaged {
        path: path.into(),
        offset,
        what,
    };
    let head = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(head) {
        return Err(RecordError::Magic { path: path.into() });
    }
    if head.len() < MAGIC.len() {
        return Err(truncated(bytes.len(), "the beginning"));
    }
    let mut entries = Vec::with_capacity((bytes.len() / 128).min(MOST_ENTRIES));
    let mut offset = MAGIC.len();
    loop {
        let Some((header, rest)) = bytes[offset..].split_at_checked(8) else {
            return Err(truncated(offset, "the trailer"));
        };
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (length, crc) = (number(0) as usize, number(4));
        if length > LARGEST {
            return Err(damaged(offset, format!("an entry of {length} bytes")));
        }
        let Some(body) = rest.get(..length) else {
            return Err(truncated(offset, "the rest of an entry"));
        };
        if crc32fast::hash(body) != crc {
            return Err(damaged(offset, "the CRC of an entry does not match".into()));
        }
        let entry = Entry::decode_shared(bytes.slice_ref(body))
            .map_err(|error: EntryError| damaged(offset, error.to_string()))?;
        let begins = matches!(entry, Entry::Begin(_));
        if begins != entries.is_empty() {
            return Err(damaged(offset, "a record has one Begin, in the first place".into()));
        }
        offset += 8 + length;
        if let Entry::End { entries: counted, .. } = entry {
            if counted != entries.len() as u64 {
                return Err(damaged(
                    offset,
                    format!("{} entries, but the trailer counts {counted}", entries.len()),
                ));
            }
            if offset != bytes.len() {
                return Err(damaged(offset, "bytes after the trailer".into()));
            }
            return Ok(entries);
        }
        if entries.len() == MOST_ENTRIES {
            return Err(damaged(
                offset,
                format!("more than {MOST_ENTRIES} entries, the most of a record"),
            ));
        }
        entries.push(entry);
    }
}

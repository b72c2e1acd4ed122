//! The file of a record: magic, then entries, each behind its length and CRC-32, the last one End.

mod writer;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use prost::bytes::Bytes;

use crate::entry::{Entry, EntryError, Sink};
use crate::time::{Span, Time};
use writer::Writer;

/// The first eight bytes of a record.
pub const MAGIC: &[u8; 8] = b"VBTMREC1";
/// No entry is larger: memory that an agent reads or writes in one command is the largest, with 16 MiB.
const LARGEST: usize = (16 << 20) + (1 << 12);

/// Entries that are handed to the thread that writes, at least, unless somebody waits for them.
const BATCH: usize = 256;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("cannot read the record {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It begins with something else.
    #[error("{path} is not a record: it does not begin with VBTMREC1")]
    Magic {
        /// The file.
        path: PathBuf,
    },
    /// It ends within an entry, or without its trailer.
    #[error("{path} is cut off at byte {offset}: {missing}; the run did not end, or its tail was lost: run it again")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: usize,
        /// What is missing.
        missing: &'static str,
    },
    /// Bytes are not those that were written.
    #[error("{path} is damaged at byte {offset}: {what}; restore it from a copy or run again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: usize,
        /// What is wrong.
        what: String,
    },
}

/// Writes a record to a file.
///
/// A thread of its own encodes and writes, so that neither holds up who must answer a packet in time, until the disk is
/// thousands of entries behind: then whoever puts waits for it.
#[derive(Debug)]
pub struct FileSink {
    writer: Writer,
    path: PathBuf,
    entries: u64,
    /// Entries that the thread was not given yet.
    pending: Vec<Entry>,
}

impl FileSink {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// When it cannot be created or written.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let mut file = File::options().write(true).create_new(true).open(path)?;
        file.write_all(MAGIC)?;
        Ok(Self {
            writer: Writer::new(file)?,
            path: path.into(),
            entries: 0,
            pending: Vec::with_capacity(BATCH),
        })
    }

    /// Writes the trailer and closes the file.
    ///
    /// # Errors
    /// The first error that any write met: then the record is not whole and nothing may be judged from it.
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
        // What was put before a panic is evidence too.
        if !self.pending.is_empty() {
            self.writer.take(std::mem::take(&mut self.pending));
        }
    }
}

/// The entries of a record, End excluded.
///
/// # Errors
/// When a byte is missing or is not what was written.
pub fn read_file(path: &Path) -> Result<Vec<Entry>, RecordError> {
    let bytes = std::fs::read(path).map_err(|source| RecordError::Io {
        path: path.into(),
        source,
    })?;
    read_shared(&bytes.into(), path)
}

/// The entries of a record that is in memory, End excluded; `path` is for messages.
///
/// # Errors
/// When a byte is missing or is not what was written.
pub fn read(bytes: &[u8], path: &Path) -> Result<Vec<Entry>, RecordError> {
    read_shared(&Bytes::copy_from_slice(bytes), path)
}

/// The same of bytes that its frames then share, rather than having them twice.
///
/// # Errors
/// As [`read`].
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
    let mut entries = Vec::with_capacity(bytes.len() / 128);
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
        entries.push(entry);
    }
}

//! The thread that writes a record to its file.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use super::{BATCH, LARGEST};
use crate::entry::Entry;

/// The most batches in the queue to the thread.
const WAITING: usize = 256;
/// The least number of bytes per write, unless the queue is empty.
const CHUNK: usize = 1 << 16;

/// A message to the thread.
enum Work {
    /// Write these entries.
    Entries(Vec<Entry>),
    /// Write all earlier entries, then send a reply.
    Say(SyncSender<()>),
}

/// The sending side of the queue to the thread. Dropping the writer waits until all entries are written.
#[derive(Debug)]
pub(super) struct Writer {
    work: Option<SyncSender<Work>>,
    /// Emptied batches, for reuse.
    empty: Receiver<Vec<Entry>>,
    error: Arc<OnceLock<io::Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// The writer fails at a record that the reader would refuse.
    ///
    /// # Errors
    /// Returns an error when the system cannot start a thread.
    pub(super) fn new(file: File, most_bytes: u64, most_entries: usize) -> io::Result<Self> {
        let (work, todo) = sync_channel(WAITING);
        let (done, empty) = sync_channel(4);
        let error = Arc::new(OnceLock::new());
        let first_error = Arc::clone(&error);
        let thread = std::thread::Builder::new()
            .name("record".into())
            .spawn(move || write_all((file, most_bytes, most_entries), &todo, &done, &first_error))?;
        Ok(Self {
            work: Some(work),
            empty,
            error,
            thread: Some(thread),
        })
    }

    /// Sends entries to the thread; returns an empty batch.
    pub(super) fn take(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        self.give(Work::Entries(entries));
        self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH))
    }

    /// Waits until the thread has written all entries or failed.
    pub(super) fn wait(&mut self) {
        let (say, said) = sync_channel(1);
        self.give(Work::Say(say));
        if said.recv().is_err() {
            self.is_gone();
        }
    }

    pub(super) fn error(&self) -> Option<&io::Error> {
        self.error.get()
    }

    fn give(&mut self, work: Work) {
        let given = self.work.as_ref().is_some_and(|to| to.send(work).is_ok());
        if !given {
            self.is_gone();
        }
    }

    fn is_gone(&self) {
        let gone = "the thread that writes it ended early; please report this";
        let _ = self.error.set(io::Error::other(gone));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(
    (mut file, most_bytes, most_entries): (File, u64, usize),
    todo: &Receiver<Work>,
    done: &SyncSender<Vec<Entry>>,
    first_error: &OnceLock<io::Error>,
) {
    let (mut written, mut count) = (0, 0);
    let too_large = || {
        let most = format!(
            "the record would exceed {most_bytes} bytes or {most_entries} entries, the most that can be read back"
        );
        io::Error::new(io::ErrorKind::FileTooLarge, most)
    };
    let mut bytes = Vec::with_capacity(CHUNK + (1 << 12));
    let fail = |error| {
        // Keep only the first error.
        let _ = first_error.set(error);
    };
    let mut write = |bytes: &mut Vec<u8>| {
        written += bytes.len() as u64;
        if written > most_bytes {
            fail(too_large());
        }
        // After an error the file stays incomplete, so later entries are dropped.
        if first_error.get().is_none()
            && let Err(error) = file.write_all(bytes)
        {
            fail(error);
        }
        bytes.clear();
    };
    while let Ok(work) = todo.try_recv().or_else(|_| {
        write(&mut bytes);
        todo.recv()
    }) {
        match work {
            Work::Entries(mut entries) => {
                count += entries.len();
                if count > most_entries {
                    fail(too_large());
                }
                for entry in entries.drain(..) {
                    append(&entry, &mut bytes).unwrap_or_else(fail);
                    if bytes.len() >= CHUNK {
                        write(&mut bytes);
                    }
                }
                let _ = done.try_send(entries);
            }
            Work::Say(say) => {
                write(&mut bytes);
                let _ = say.send(());
            }
        }
    }
}

/// Appends an entry after its length and CRC-32.
///
/// # Errors
/// Returns an error when the entry exceeds the reader's limit. `bytes` is then unchanged.
fn append(entry: &Entry, bytes: &mut Vec<u8>) -> io::Result<()> {
    const HEADER: usize = 8;
    let start = bytes.len();
    bytes.extend([0; HEADER]);
    entry.encode(bytes);
    let length = bytes.len() - start - HEADER;
    if length > LARGEST {
        bytes.truncate(start);
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("an entry has {length} bytes, at most {LARGEST} can be read back"),
        ));
    }
    let (header, body) = bytes[start..].split_at_mut(HEADER);
    #[allow(clippy::cast_possible_truncation)] // at most LARGEST
    header[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_that_cannot_be_read_back_fails_at_write() {
        let note = |bytes: usize| Entry::Journal {
            area: "a".into(),
            change: "x".repeat(bytes),
        };
        for (entries, fails) in [
            (vec![note(100)], false),
            (vec![note(2000)], true),
            (vec![note(1), note(1), note(1)], true),
        ] {
            let mut writer = Writer::new(tempfile::tempfile().unwrap(), 1000, 2).unwrap();
            writer.take(entries);
            writer.wait();
            let error = writer.error().map(ToString::to_string);
            assert_eq!(error.is_some(), fails, "{error:?}");
            assert!(error.is_none_or(|error| error.contains("exceed 1000 bytes or 2 entries")));
        }
    }
}

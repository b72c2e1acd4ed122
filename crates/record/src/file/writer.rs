//! The thread that writes a record's file.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use super::{BATCH, LARGEST};
use crate::entry::Entry;

/// Batches that may wait for the disk.
const WAITING: usize = 256;
/// What is written in one call, at least, unless nothing more is to be written now.
const CHUNK: usize = 1 << 16;

/// What the thread is given.
enum Work {
    /// Entries, in their order.
    Entries(Vec<Entry>),
    /// Say when all before is written.
    Say(SyncSender<()>),
}

/// Hands entries to the thread. Dropping it waits until all are written.
#[derive(Debug)]
pub(super) struct Writer {
    work: Option<SyncSender<Work>>,
    /// Emptied batches come back, to be filled again.
    empty: Receiver<Vec<Entry>>,
    error: Arc<OnceLock<io::Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let (work, todo) = sync_channel(WAITING);
        let (done, empty) = sync_channel(4);
        let error = Arc::new(OnceLock::new());
        let first_error = Arc::clone(&error);
        let thread = std::thread::Builder::new()
            .name("record".into())
            .spawn(move || write_all(file, &todo, &done, &first_error))?;
        Ok(Self {
            work: Some(work),
            empty,
            error,
            thread: Some(thread),
        })
    }

    /// Takes entries; gives an empty batch for the next.
    pub(super) fn take(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        self.give(Work::Entries(entries));
        self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH))
    }

    /// Waits until all that was taken is written, or cannot be.
    pub(super) fn wait(&mut self) {
        let (say, said) = sync_channel(1);
        self.give(Work::Say(say));
        if said.recv().is_err() {
            self.is_gone();
        }
    }

    /// The first error.
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
        let gone = "the thread that writes it is gone; please report this";
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

fn write_all(mut file: File, todo: &Receiver<Work>, done: &SyncSender<Vec<Entry>>, first_error: &OnceLock<io::Error>) {
    let mut bytes = Vec::with_capacity(CHUNK + (1 << 12));
    let fail = |error| {
        // Only the first counts.
        let _ = first_error.set(error);
    };
    let mut write = |bytes: &mut Vec<u8>| {
        // After an error the file is not whole, whatever follows.
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

/// An entry behind its length and CRC-32.
///
/// # Errors
/// When it is larger than a reader takes; then `bytes` are as they were.
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

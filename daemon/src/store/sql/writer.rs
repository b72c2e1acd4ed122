//! The thread that writes to the database. The thread commits all waiting writes in one transaction, and then responds
//! to each write.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use super::connection::{Connection, Outlives};
use super::spool::Spool;
use crate::store::StoreError;

/// The maximum number of writes in one transaction.
const BATCH: usize = 256;

/// A write. If a transaction of several writes fails, each write is repeated in its own transaction.
trait Work: Send {
    fn outlives(&self) -> Outlives;
    fn work(&mut self, db: &mut dyn Connection) -> Result<(), StoreError>;
    fn answer(self: Box<Self>, result: Result<(), StoreError>);
}

/// A write whose value has the type `T`.
struct TypedWrite<T, F> {
    outlives: Outlives,
    work: F,
    value: Option<T>,
    answer: mpsc::SyncSender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&mut dyn Connection) -> Result<T, StoreError> + Send> Work for TypedWrite<T, F> {
    fn outlives(&self) -> Outlives {
        self.outlives
    }

    fn work(&mut self, db: &mut dyn Connection) -> Result<(), StoreError> {
        self.value = Some((self.work)(db)?);
        Ok(())
    }

    fn answer(self: Box<Self>, result: Result<(), StoreError>) {
        let Self { value, answer, .. } = *self;
        let result = result.and_then(|()| value.ok_or_else(gone));
        // Ignore an error: the caller may no longer wait.
        let _ = answer.send(result);
    }
}

/// The channel to the writer thread. Drop waits until the thread has done all writes.
pub(super) struct Writer {
    works: Option<mpsc::Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    /// Starts the thread, which writes through this connection. Before each transaction, the thread writes the
    /// entries of the spool.
    pub(super) fn start(mut connection: Box<dyn Connection>, spool: Option<Arc<Spool>>) -> std::io::Result<Self> {
        let (works, waiting) = mpsc::channel::<Box<dyn Work>>();
        let thread = thread::Builder::new().name("store".into()).spawn(move || {
            while let Ok(first) = waiting.recv() {
                let rest = std::iter::from_fn(|| waiting.try_recv().ok());
                let works = std::iter::once(first).chain(rest).take(BATCH).collect();
                let db = connection.as_mut();
                match spool.as_ref().map_or(Ok(()), |spool| spool.write_to(db)) {
                    Ok(()) => commit_all(db, works),
                    // The entries of the spool must be written first. If the end of a lease is still in the spool,
                    // the database shows its rig as taken.
                    Err(error) => refuse(works, &error),
                }
            }
        })?;
        Ok(Self {
            works: Some(works),
            thread: Some(thread),
        })
    }

    /// Runs `work` in a transaction, and returns its value after the commit. If `work` runs several times, returns
    /// the last value.
    pub(super) fn write<T: Send + 'static>(
        &self,
        outlives: Outlives,
        work: impl FnMut(&mut dyn Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = mpsc::sync_channel(1);
        let typed = TypedWrite {
            outlives,
            work,
            value: None,
            answer,
        };
        let works = self.works.as_ref().ok_or_else(gone)?;
        works.send(Box::new(typed)).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.works = None;
        if let Some(thread) = self.thread.take() {
            // Ignore an error: the thread has already reported its own panic.
            let _ = thread.join();
        }
    }
}

fn gone() -> StoreError {
    let what = "the writer thread has ended: a defect of Verbatim, please report it";
    StoreError::Io {
        path: "the store".into(),
        source: std::io::Error::other(what),
    }
}

fn commit_all(db: &mut dyn Connection, mut works: Vec<Box<dyn Work>>) {
    match commit_in_one(db, &mut works) {
        Ok(()) => works.into_iter().for_each(|work| work.answer(Ok(()))),
        // Two daemons deadlocked, and the database aborted the transaction of this one. Try again.
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::Deadlock => commit_all(db, works),
        Err(error) if works.len() == 1 => {
            if let Some(work) = works.pop() {
                work.answer(Err(error));
            }
        }
        Err(_) => works.into_iter().for_each(|work| commit_all(db, vec![work])),
    }
}

/// Fails all writes with [`StoreError::Away`] in place of the spool's error. Callers then put what has already
/// happened, such as the end of a lease, into the spool.
fn refuse(works: Vec<Box<dyn Work>>, error: &StoreError) {
    tracing::debug!(%error, "the entries of the spool could not be written; they stay in the spool");
    for work in works {
        let (place, what) = match error {
            StoreError::Away { place, what } => (place.clone(), what.clone()),
            other => ("database".into(), other.to_string()),
        };
        work.answer(Err(StoreError::Away { place, what }));
    }
}

fn commit_in_one(db: &mut dyn Connection, works: &mut [Box<dyn Work>]) -> Result<(), StoreError> {
    let outlives = works.iter().map(|work| work.outlives()).max();
    db.begin(outlives.unwrap_or(Outlives::Crash))?;
    let done = works.iter_mut().try_for_each(|work| work.work(db));
    let done = done.and_then(|()| db.commit());
    if done.is_err() {
        db.rollback();
    }
    done
}

//! The store of a daemon: a database, and the files of runs beside it.
//!
//! The statements are the same for SQLite, which one daemon has in its state directory, and for PostgreSQL, which the daemons
//! of several hosts share; what differs is behind [`Database`].

mod connection;
mod history;
mod leases;
mod postgres;
mod postgres_schema;
mod seal;
mod shared;
mod spool;
mod sqlite;
mod sqlite_schema;
mod version;
mod wal;
mod writer;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verbatim_run::RunId;

use super::{StoreError, StoredRun};
use connection::{Connection, Database, Outlives, Row, Value};
pub use postgres::Address;
use spool::{Op, Spool};
pub use sqlite::Clock;
use writer::Writer;

/// Connections kept for the next reader.
const READERS: usize = 4;

/// Runs and leases in a database.
#[derive(Debug)]
pub struct SqlStore {
    database: Box<dyn Database>,
    runs: PathBuf,
    writer: Writer,
    readers: Mutex<Vec<Box<dyn Connection>>>,
    /// Runs whose last state could not be written.
    unwritten: Mutex<HashMap<RunId, StoredRun>>,
    /// What this host is called among those that share the database; empty when nobody shares it.
    host: String,
    /// Of the numbers within a millisecond, those that are this host's to give.
    serials: RangeInclusive<u16>,
    /// What is still to be written once the database is back.
    spool: Option<Arc<Spool>>,
}

impl SqlStore {
    fn unwritten(&self) -> MutexGuard<'_, HashMap<RunId, StoredRun>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.written(Outlives::Crash, work)
    }

    fn written<T: Send + 'static>(
        &self,
        outlives: Outlives,
        work: impl FnMut(&mut dyn Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(outlives, work)
    }

    /// Writes what happened and cannot be taken back: while the database is away, beside it.
    fn note(&self, op: Op) -> Result<(), StoreError> {
        let op = Arc::new(op);
        let written = self.written(op.outlives(), {
            let op = Arc::clone(&op);
            move |db| op.apply(db)
        });
        match (&self.spool, written) {
            (Some(spool), Err(StoreError::Away { .. })) => spool.push(&op),
            (_, written) => written,
        }
    }

    fn read<T>(&self, read: impl Fn(&mut dyn Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let readers = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = readers().pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.database.reader()?,
        };
        let mut value = read(connection.as_mut());
        if matches!(value, Err(StoreError::Away { .. })) {
            // It may be the connection alone that is gone: the database was started again since it was used.
            readers().clear();
            connection = self.database.reader()?;
            value = read(connection.as_mut());
        }
        let mut readers = readers();
        if readers.len() < READERS {
            readers.push(connection);
        }
        value
    }

    /// Removes the directories of captures that a daemon was making when it was killed.
    fn remove_places_of_captures(&self) {
        let entries = std::fs::read_dir(super::captures(&self.runs))
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            // Nothing depends on it: what cannot be removed stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

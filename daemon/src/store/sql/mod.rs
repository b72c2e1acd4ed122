//! The store of a daemon: a database, and the files of runs beside it.
//!
//! The database is SQLite in the state directory of one daemon, or PostgreSQL for the daemons of several hosts. Both
//! run the same statements. [`Database`] hides the differences.

mod connection;
mod generation;
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

/// How many idle connections are kept for readers.
const READERS: usize = 4;

/// The store of runs and leases in a database.
#[derive(Debug)]
pub struct SqlStore {
    database: Box<dyn Database>,
    runs: PathBuf,
    writer: Writer,
    readers: Mutex<Vec<Box<dyn Connection>>>,
    /// Runs whose last state could not be written, by id.
    unwritten: Mutex<HashMap<RunId, StoredRun>>,
    /// The name of this host in the shared database; empty when the database is not shared.
    host: String,
    /// An id consists of a millisecond and a serial number. This host may assign these serial numbers; with a shared
    /// database, each host has its own range.
    serials: RangeInclusive<u16>,
    /// Stores operations until the database is back; `None` if the database is a local file.
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

    /// Writes `op`, which records a fact that can no longer be undone. While the database is away, writes `op` to
    /// the spool instead.
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
            // The database may have been restarted, which breaks only old connections. Try a new connection.
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

    /// Removes the directories of captures that a killed daemon left unfinished.
    fn remove_places_of_captures(&self) {
        let entries = std::fs::read_dir(super::captures(&self.runs))
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            // A failed removal only wastes space.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

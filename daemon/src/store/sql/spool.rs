//! The spool: a file beside the daemon's journals with the events that happened while the database was away.
//!
//! Only facts that can no longer be undone enter the spool: events of running runs, and the ends of runs and
//! leases. After a broken connection, it is unknown whether the last transaction was committed. The daemon then
//! writes its entries again, which changes nothing if they were committed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use prost::Message as _;
use rusqlite::params;
use serde::{Deserialize, Serialize};
use verbatim_proto::v1::RunEvent;
use verbatim_run::RunId;

use super::connection::Outlives;
use super::sqlite::of_sqlite;
use super::{Connection, history, leases};
use crate::store::{StoreError, StoredLease, StoredRun};

/// The maximum number of entries written in one transaction.
const BATCH: usize = 256;

/// An entry of the spool.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Op {
    /// The end of a run, and the size of its files in bytes.
    Ended(Box<StoredRun>, u64),
    /// Encoded events of a run.
    Events(RunId, Vec<Vec<u8>>),
    /// The end of a lease.
    Lease(Box<StoredLease>),
}

impl Op {
    pub(super) fn events(id: &RunId, events: &[RunEvent]) -> Self {
        Self::Events(id.clone(), events.iter().map(RunEvent::encode_to_vec).collect())
    }

    /// Returns the durability of the entry. The end of a run is synced before the daemon reports it.
    pub(super) fn outlives(&self) -> Outlives {
        match self {
            Self::Ended(..) => Outlives::PowerLoss,
            Self::Events(..) | Self::Lease(_) => Outlives::Crash,
        }
    }

    pub(super) fn apply(&self, db: &mut dyn Connection) -> Result<(), StoreError> {
        match self {
            Self::Ended(run, bytes) => history::end(db, run, *bytes),
            Self::Events(id, events) => {
                let events: Result<Vec<_>, _> = events.iter().map(|event| RunEvent::decode(&event[..])).collect();
                let events = events.map_err(|error| StoreError::Damaged {
                    path: "spool.db".into(),
                    what: format!("an event of run {id}: {error}"),
                })?;
                history::append(db, id, &events)
            }
            Self::Lease(lease) => leases::put(db, lease).map(drop),
        }
    }
}

/// The spool file.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    db: Mutex<rusqlite::Connection>,
    /// The number of waiting entries.
    left: AtomicU64,
}

impl Spool {
    /// Opens the spool of this state directory, with the entries that an earlier daemon left.
    pub(super) fn open(state: &Path) -> Result<Self, StoreError> {
        let path = state.join("spool.db");
        let open = || {
            let db = rusqlite::Connection::open(&path)?;
            // The entries exist nowhere else, so they must survive a power loss.
            db.pragma_update(None, "synchronous", "FULL")?;
            db.execute_batch(
                "CREATE TABLE IF NOT EXISTS op (number INTEGER PRIMARY KEY, body TEXT NOT NULL);
                 -- What the database did not take, and why: for a person.
                 CREATE TABLE IF NOT EXISTS refused (number INTEGER PRIMARY KEY, body TEXT NOT NULL, why TEXT NOT NULL);",
            )?;
            let left: i64 = db.query_row("SELECT COUNT(*) FROM op", [], |row| row.get(0))?;
            Ok((db, left))
        };
        let (db, left) = open().map_err(|error| of_sqlite(&path, error))?;
        Ok(Self {
            path,
            db: Mutex::new(db),
            left: AtomicU64::new(u64::try_from(left).unwrap_or(0)),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        work(&db).map_err(|error| of_sqlite(&self.path, error))
    }

    /// Adds an entry, which waits until the database is back.
    pub(super) fn push(&self, op: &Op) -> Result<(), StoreError> {
        let body = serde_json::to_string(op).expect("plain data");
        self.with(|db| db.execute("INSERT INTO op (body) VALUES (?1)", [body]))?;
        if self.left.fetch_add(1, Ordering::SeqCst) == 0 {
            tracing::error!(
                spool = %self.path.display(),
                "the database is away: the daemon grants no rigs, running tests continue, and the spool stores their \
                 events until it is back"
            );
        }
        Ok(())
    }

    /// Writes the waiting entries to the database, oldest first. Tries twice, because the connection may already be
    /// broken.
    pub(super) fn write_to(&self, to: &mut dyn Connection) -> Result<(), StoreError> {
        match self.give_all(to) {
            Err(StoreError::Away { .. }) => self.give_all(to),
            given => given,
        }
    }

    fn give_all(&self, to: &mut dyn Connection) -> Result<(), StoreError> {
        let mut given = 0;
        while self.left.load(Ordering::SeqCst) > 0 {
            let sql = "SELECT number, body FROM op ORDER BY number LIMIT ?1";
            let ops: Vec<(i64, String)> = self.with(|db| {
                let mut statement = db.prepare(sql)?;
                let rows = statement.query_map([BATCH as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            })?;
            if ops.is_empty() {
                break;
            }
            match give(&ops, to) {
                Ok(()) => {}
                Err(error) if is_for_now(&error) => return Err(error),
                // One entry may cause the error. Write the entries one by one, so that this entry doesn't block
                // the others forever.
                Err(_) => ops.iter().try_for_each(|op| self.give_one(op, to))?,
            }
            let last = ops.last().map(|(number, _)| *number);
            let gone = self.with(|db| db.execute("DELETE FROM op WHERE number <= ?1", params![last]))?;
            self.left.fetch_sub(gone as u64, Ordering::SeqCst);
            given += gone;
        }
        if given > 0 {
            tracing::warn!(
                entries = given,
                "the database is back and has stored the entries of the spool"
            );
        }
        Ok(())
    }

    /// Writes one entry. An entry that the database refuses for good moves to the table `refused`.
    fn give_one(&self, op: &(i64, String), to: &mut dyn Connection) -> Result<(), StoreError> {
        match give(std::slice::from_ref(op), to) {
            Err(error) if !is_for_now(&error) => {
                tracing::error!(
                    spool = %self.path.display(), entry = op.0, %error,
                    "the database refuses an entry: the spool keeps it in the table `refused`; please report this"
                );
                let sql = "INSERT OR REPLACE INTO refused (number, body, why) VALUES (?1, ?2, ?3)";
                self.with(|db| db.execute(sql, params![op.0, op.1, error.to_string()]))
                    .map(drop)
            }
            given => given,
        }
    }
}

/// Returns whether the error is temporary: a retry may succeed soon, or once there is space.
fn is_for_now(error: &StoreError) -> bool {
    match error {
        StoreError::Away { .. } => true,
        StoreError::Io { source, .. } => {
            matches!(
                source.kind(),
                std::io::ErrorKind::Deadlock | std::io::ErrorKind::StorageFull
            )
        }
        _ => false,
    }
}

/// Writes these entries, all or none.
fn give(ops: &[(i64, String)], to: &mut dyn Connection) -> Result<(), StoreError> {
    to.begin(Outlives::PowerLoss)?;
    let apply = |(_, body): &(i64, String)| match serde_json::from_str::<Op>(body) {
        Ok(op) => op.apply(to),
        Err(error) => Err(StoreError::Damaged {
            path: "spool.db".into(),
            what: error.to_string(),
        }),
    };
    let done = ops.iter().try_for_each(apply).and_then(|()| to.commit());
    if done.is_err() {
        to.rollback();
    }
    done
}

//! SQLite: a database in the state directory of one daemon.
//!
//! WAL with `synchronous = NORMAL`: after a crash of the daemon all that was answered is there; after a loss of power the
//! database is whole, and the last events may be gone. That a run was taken and how it ended is synced before anybody is
//! told, and the restore journal is a file of its own that is always synced (`verbatim_tester::FileJournal`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, Value as Held, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql, params_from_iter};
use verbatim_run::state::StateDirectory;

use super::connection::{Connection, Database, Outlives, Row, Value};
use super::writer::Writer;
use super::{SqlStore, sqlite_schema as schema, takeover};
use crate::store::StoreError;

/// How long a reader waits for a lock, which a writer in WAL mode takes only for moments.
const PATIENCE: Duration = Duration::from_secs(10);

impl SqlStore {
    /// Opens the store of a state directory, which is made if absent. At the first start the runs that an earlier daemon
    /// kept in files are taken over.
    ///
    /// # Errors
    /// When it cannot be made or read, is damaged, or is of a later program.
    pub fn sqlite(state: &StateDirectory) -> Result<Self, StoreError> {
        let (path, runs) = (state.path().join("verbatim.db"), state.runs());
        std::fs::create_dir_all(&runs).map_err(|source| StoreError::Io {
            path: runs.clone(),
            source,
        })?;
        let failed = |error| of_sqlite(&path, error);
        let mut connection = rusqlite::Connection::open(&path).map_err(failed)?;
        configure(&connection).map_err(failed)?;
        let later = |version| StoreError::Damaged {
            path: path.clone(),
            what: format!(
                "it is of version {version}, this program knows {}; use the later program that made it",
                schema::VERSION
            ),
        };
        let is_new = schema::migrate(&mut connection).map_err(failed)?.map_err(later)?;
        let mut connection = Sqlite {
            connection,
            path: path.clone(),
            outlives: Outlives::Crash,
        };
        if is_new {
            takeover::take_over(&mut connection, &runs)?;
        }
        let writer = Writer::start(Box::new(connection), None).map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
        let store = Self {
            database: Box::new(File { path }),
            runs,
            writer,
            readers: Default::default(),
            unwritten: Default::default(),
            host: String::new(),
            serials: 0..=u16::MAX,
            spool: None,
        };
        store.remove_doomed();
        store.remove_places_of_captures();
        Ok(store)
    }
}

#[derive(Debug)]
struct File {
    path: PathBuf,
}

impl Database for File {
    fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        let path = self.path.clone();
        let connection = reader(&path).map_err(|error| of_sqlite(&path, error))?;
        Ok(Box::new(Sqlite {
            connection,
            path,
            outlives: Outlives::Crash,
        }))
    }

    fn damaged(&self, what: String) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            what,
        }
    }
}

/// A connection to a file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: rusqlite::Connection,
    path: PathBuf,
    /// What commits outlive at present.
    outlives: Outlives,
}

impl Sqlite {
    /// Writes all that was committed to the disk, for good.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        let sync = |db: &rusqlite::Connection| {
            db.pragma_update(None, "synchronous", "FULL")?;
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            db.pragma_update(None, "synchronous", "NORMAL")
        };
        sync(&self.connection).map_err(|error| of_sqlite(&self.path, error))
    }

    fn prepared<T>(
        &mut self,
        sql: &str,
        run: impl FnOnce(&mut rusqlite::CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // The parameters of SQLite that have a number.
        let statement = self.connection.prepare_cached(&sql.replace('$', "?"));
        let done = statement.and_then(|mut statement| run(&mut statement));
        done.map_err(|error| of_sqlite(&self.path, error))
    }
}

impl Connection for Sqlite {
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
        let changed = self.prepared(sql, |statement| statement.execute(params_from_iter(values)))?;
        Ok(changed as u64)
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.prepared(sql, |statement| {
            let columns = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                let values: rusqlite::Result<Vec<Value>> =
                    (0..columns).map(|at| row.get::<_, Held>(at).map(value)).collect();
                Ok(Row(values?.into_iter()))
            };
            statement.query_map(params_from_iter(values), row)?.collect()
        })
    }

    fn begin(&mut self, outlives: Outlives) -> Result<(), StoreError> {
        if outlives != self.outlives {
            let set = self
                .connection
                .pragma_update(None, "synchronous", synchronous(outlives));
            set.map_err(|error| of_sqlite(&self.path, error))?;
            self.outlives = outlives;
        }
        self.execute("BEGIN IMMEDIATE", &[]).map(drop)
    }
}

fn value(held: Held) -> Value {
    match held {
        Held::Integer(number) => Value::Int(number),
        Held::Text(text) => Value::Text(text),
        Held::Blob(bytes) => Value::Bytes(bytes),
        Held::Null | Held::Real(_) => Value::Null,
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// As `PRAGMA synchronous` has it in WAL mode.
const fn synchronous(outlives: Outlives) -> &'static str {
    match outlives {
        Outlives::Crash => "NORMAL",
        Outlives::PowerLoss => "FULL",
    }
}

fn configure(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous(Outlives::Crash))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn reader(path: &Path) -> rusqlite::Result<rusqlite::Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Read-write all the same: the first reader after a crash may have to mend the WAL's index.
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// What SQLite says, as an error of the store.
pub(super) fn of_sqlite(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return StoreError::Damaged {
                path,
                what: format!(
                    "{error}; stop the daemon and put a backup of it in its place, or move it away: then the daemon begins \
                     with an empty list of runs"
                ),
            };
        }
        Some(ErrorCode::DiskFull) => std::io::ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            std::io::ErrorKind::PermissionDenied
        }
        _ => std::io::ErrorKind::Other,
    };
    let source = std::io::Error::new(kind, error.to_string());
    StoreError::Io { path, source }
}

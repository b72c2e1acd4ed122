//! SQLite: a database in the state directory of one daemon.
//!
//! The database uses WAL with `synchronous = NORMAL`. After a crash of the daemon, all acknowledged writes are there.
//! After a power loss the database is consistent, but the last events may be missing. The creation and the end of a run
//! are synced before the daemon reports them. The restore journal is a separate file that is always synced
//! (`verbatim_tester::FileJournal`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use rusqlite::types::{ToSqlOutput, Value as Held, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql, params_from_iter};
use verbatim_report::counted;
use verbatim_run::state::StateDirectory;

use super::connection::{Connection, Database, Outlives, Row, Value};
use super::writer::Writer;
use super::{SqlStore, sqlite_schema as schema, version, wal};
use crate::store::StoreError;

/// The instructions for a damaged database, for error messages.
const REMEDY: &str = "stop the daemon and put a backup of it in its place, or move it away with the files whose names \
                      begin with its name: then the daemon begins with an empty list of runs";
/// The instructions for starting with an empty database, for error messages.
const ANEW: &str = "stop the daemon, move the database away with the files whose names begin with its name, and start \
                    again";

/// How long a connection waits for a lock of another connection. A writer in WAL mode holds its locks only
/// briefly.
const PATIENCE: Duration = Duration::from_secs(10);

impl SqlStore {
    /// Opens the store of a state directory. Creates the store if it does not exist.
    ///
    /// # Errors
    /// When the database cannot be created or read, is damaged, or has another version.
    pub fn sqlite(state: &StateDirectory) -> Result<Self, StoreError> {
        Self::sqlite_by(state, Clock::default())
    }

    /// Opens the store like [`SqlStore::sqlite`], with the caller's clock.
    ///
    /// # Errors
    /// The errors of [`SqlStore::sqlite`].
    pub fn sqlite_by(state: &StateDirectory, clock: Clock) -> Result<Self, StoreError> {
        let (path, runs) = (state.path().join("verbatim.db"), state.runs());
        std::fs::create_dir_all(&runs).map_err(|source| StoreError::Io {
            path: runs.clone(),
            source,
        })?;
        let failed = |error| of_sqlite(&path, error);
        look_before(&path, &runs)?;
        let mut connection = rusqlite::Connection::open(&path).map_err(failed)?;
        configure(&connection).map_err(failed)?;
        let found = schema::make(&mut connection).map_err(failed)?;
        version::check(&path, found, ANEW)?;
        let connection = Sqlite {
            connection,
            path: path.clone(),
            outlives: Outlives::Crash,
        };
        let writer = Writer::start(Box::new(connection), None).map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
        let store = Self {
            database: Box::new(File { path, clock }),
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

/// A clock that returns nanoseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// Creates a clock that calls `now_ns`.
    pub fn new(now_ns: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ns))
    }
}

impl Default for Clock {
    /// Returns the host's clock.
    fn default() -> Self {
        Self::new(verbatim_run::now_ns)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    clock: Clock,
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
            what: format!("{what}; {REMEDY}"),
        }
    }

    fn now_ns(&self) -> u64 {
        (self.clock.0)()
    }

    fn check(&self) -> Result<(), StoreError> {
        let connection = reader(&self.path).map_err(|error| of_sqlite(&self.path, error))?;
        let said: rusqlite::Result<String> = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
        match said.map_err(|error| of_sqlite(&self.path, error))?.as_str() {
            "ok" => Ok(()),
            what => Err(self.damaged(what.trim().into())),
        }
    }
}

/// A connection to a database file.
#[derive(Debug)]
pub(super) struct Sqlite {
    connection: rusqlite::Connection,
    path: PathBuf,
    /// The durability of the connection's current setting.
    outlives: Outlives,
}

impl Sqlite {
    fn prepared<T>(
        &mut self,
        sql: &str,
        run: impl FnOnce(&mut rusqlite::CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // SQLite writes numbered parameters as `?1`.
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

/// Checks the files before SQLite opens them: SQLite takes an empty file for a new database, and silently ignores
/// an unusable log.
fn look_before(path: &Path, runs: &Path) -> Result<(), StoreError> {
    let io = |source| StoreError::Io {
        path: path.to_path_buf(),
        source,
    };
    let bytes = match std::fs::metadata(path) {
        Ok(metadata) => Some(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io(error)),
    };
    let log = std::fs::metadata(wal::beside(path, "-wal")).map_or(0, |metadata| metadata.len());
    let inside = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let left = || {
        let runs = inside(runs).into_iter().flat_map(|rig| inside(&rig));
        runs.filter(|run| run.join("record").is_dir()).count()
    };
    match bytes {
        Some(0) | None if log > 0 => {
            let what = format!("it is empty or missing, but its log (-wal) exists; {REMEDY}");
            return Err(StoreError::Damaged {
                path: path.to_path_buf(),
                what,
            });
        }
        // A daemon that was killed right after it had created the file leaves an empty file and no runs.
        Some(0) => {
            let runs = left();
            if runs > 0 {
                let what = format!(
                    "it is empty, but the files of {} exist; {REMEDY}",
                    counted(runs as u64, "run", "runs")
                );
                return Err(StoreError::Damaged {
                    path: path.to_path_buf(),
                    what,
                });
            }
        }
        None => {
            let runs = left();
            if runs > 0 {
                tracing::error!(
                    database = %path.display(), runs,
                    "the database is missing: the daemon begins with an empty list of runs; the files of earlier runs \
                     can be judged on their own"
                );
            }
        }
        Some(_) => {}
    }
    let looked = wal::look(path).map_err(io)?;
    if looked.lost > 0 {
        let kept = keep_aside(path).map_err(io)?;
        tracing::error!(
            database = %path.display(), kept = %kept.display(),
            "the log of the database is damaged, or its host lost power (pages lost at its end: {}, intact: {}); \
             the last runs may be missing, or may not have ended. A copy of the damaged files is kept",
            looked.lost, looked.whole
        );
    }
    Ok(())
}

/// Copies the database and its log before SQLite repairs them. Returns the path of the copy.
fn keep_aside(path: &Path) -> io::Result<PathBuf> {
    let kept = wal::beside(path, &format!("-damaged-{}", verbatim_run::now_ns() / 1_000_000_000));
    for what in ["", "-wal"] {
        match std::fs::copy(wal::beside(path, what), wal::beside(&kept, what)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(kept)
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

/// Returns the value of `PRAGMA synchronous` in WAL mode.
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
    // The file is opened read-write because the first reader after a crash may have to rebuild the WAL's index.
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Converts an error of SQLite to an error of the store.
pub(super) fn of_sqlite(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_path_buf();
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return StoreError::Damaged {
                path,
                what: format!("{error}; {REMEDY}"),
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

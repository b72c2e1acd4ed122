//! The tables in SQLite. PostgreSQL has these tables too, and some more.

use rusqlite::Connection;

use super::generation::TABLE;
use super::version::VERSION;

const TABLES: &str = "
    -- The order of the ids is the order in which the runs were created.
    CREATE TABLE run (
        id TEXT PRIMARY KEY,
        -- Host of the daemon that made the run, if several hosts share one database. Empty in SQLite.
        host TEXT NOT NULL,
        rig TEXT NOT NULL,
        state INTEGER NOT NULL,
        outcome INTEGER NOT NULL,
        owner TEXT NOT NULL,
        request_id TEXT NOT NULL,
        ended_ns INTEGER,
        -- Size of the run's files in bytes. 0 until the run ends, and after the files are purged.
        bytes INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0,
        -- Time at which the run's files were purged. NULL if they were not.
        purged_ns INTEGER,
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX run_request ON run (owner, request_id) WHERE request_id <> '';
    CREATE INDEX run_unfinished ON run (id) WHERE state <> 3;
    CREATE INDEX run_rig ON run (rig, id);
    CREATE INDEX run_outcome ON run (outcome, id);
    CREATE INDEX run_files ON run (ended_ns, bytes) WHERE state = 3 AND pinned = 0 AND purged_ns IS NULL;

    -- Events in the form that watchers get. The full verdicts are in table `verdict`.
    CREATE TABLE event (run TEXT NOT NULL, cursor INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, cursor))
        WITHOUT ROWID;
    CREATE TABLE verdict (
        run TEXT NOT NULL,
        cursor INTEGER NOT NULL,
        -- The verdict without checks and observations, for lists.
        head BLOB NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, cursor)
    ) WITHOUT ROWID;
    -- Runs that were deleted or purged, but whose files are still on disk.
    CREATE TABLE doomed (run TEXT PRIMARY KEY, host TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE lease (
        id TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        owner TEXT NOT NULL,
        state INTEGER NOT NULL,
        rig TEXT NOT NULL,
        token INTEGER NOT NULL,
        request_id TEXT NOT NULL,
        posted INTEGER NOT NULL,
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    -- At most one active lease for each rig, even if the program has a bug.
    CREATE UNIQUE INDEX lease_holder ON lease (rig) WHERE state = 2;
    CREATE INDEX lease_unended ON lease (id) WHERE state <> 3;
    CREATE UNIQUE INDEX lease_request ON lease (owner, request_id) WHERE request_id <> '';
    CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO counter VALUES ('token', 0);
";

/// Makes all tables in an empty database, in one transaction. Returns the version of the tables.
///
/// # Errors
/// When SQLite fails.
pub(super) fn make(connection: &mut Connection) -> rusqlite::Result<u64> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found != 0 {
        connection.execute(TABLE, [])?;
        return Ok(found.into());
    }
    let transaction = connection.transaction()?;
    transaction.execute(TABLE, [])?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", VERSION.cast_signed())?;
    transaction.commit()?;
    Ok(VERSION)
}

//! The tables in SQLite, and how those of earlier versions become them. Those of PostgreSQL are the same.

use rusqlite::Connection;

/// What brings a database from each version to the next. Never changed once released: a new version is a new entry.
const MIGRATIONS: &[&str] = &[
    "
    -- Ids sort by the time at which they were given.
    CREATE TABLE run (
        id TEXT PRIMARY KEY,
        rig TEXT NOT NULL,
        state INTEGER NOT NULL,
        outcome INTEGER NOT NULL,
        owner TEXT NOT NULL,
        request_id TEXT NOT NULL,
        ended_ns INTEGER,
        -- Bytes of its files, known when it ended.
        bytes INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0,
        -- When its files were removed.
        purged_ns INTEGER,
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX run_request ON run (owner, request_id) WHERE request_id <> '';
    CREATE INDEX run_unfinished ON run (id) WHERE state <> 3;
    CREATE INDEX run_rig ON run (rig, id);
    CREATE INDEX run_outcome ON run (outcome, id);
    CREATE INDEX run_files ON run (ended_ns, bytes) WHERE state = 3 AND pinned = 0 AND purged_ns IS NULL;

    -- Events as watchers get them; what a judge says in full is in `verdict`.
    CREATE TABLE event (run TEXT NOT NULL, cursor INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, cursor))
        WITHOUT ROWID;
    CREATE TABLE verdict (
        run TEXT NOT NULL,
        cursor INTEGER NOT NULL,
        -- Without checks and observations, for lists.
        head BLOB NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, cursor)
    ) WITHOUT ROWID;
    -- Runs that were deleted, or whose files were removed: their files are still to go.
    CREATE TABLE doomed (run TEXT PRIMARY KEY) WITHOUT ROWID;

    CREATE TABLE lease (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        state INTEGER NOT NULL,
        rig TEXT NOT NULL,
        token INTEGER NOT NULL,
        request_id TEXT NOT NULL,
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    -- A rig is never held twice, whatever the program believes.
    CREATE UNIQUE INDEX lease_holder ON lease (rig) WHERE state = 2;
    CREATE INDEX lease_unended ON lease (id) WHERE state <> 3;
    CREATE UNIQUE INDEX lease_request ON lease (owner, request_id) WHERE request_id <> '';
    CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO counter VALUES ('token', 0);
",
    "
    -- Of the daemon of which host, where several share one database; empty here.
    ALTER TABLE run ADD COLUMN host TEXT NOT NULL DEFAULT '';
    ALTER TABLE lease ADD COLUMN host TEXT NOT NULL DEFAULT '';
    ALTER TABLE lease ADD COLUMN posted INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE doomed ADD COLUMN host TEXT NOT NULL DEFAULT '';
",
    "
    -- Milliseconds since 1970: rows of ids from then on have a sum. Not known yet: later than all that there is.
    INSERT INTO counter VALUES ('sealed_ms', -1);
",
];

/// The version that this program works with.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings a database to [`VERSION`]; whether it was empty before. Each step is whole or was never made.
///
/// # Errors
/// The version found, when it is of a later program; otherwise what SQLite says.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<Result<bool, u32>> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, step) in (1..).zip(MIGRATIONS).skip(found as usize) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(if found > VERSION { Err(found) } else { Ok(found == 0) })
}

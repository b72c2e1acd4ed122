//! The tables in PostgreSQL.

use super::connection::{Connection as _, Outlives, values};
use super::generation::TABLE;
use super::postgres::Link;
use super::version::VERSION;
use crate::store::StoreError;

/// The tables of `sqlite_schema`, and the tables for the communication between daemons.
const TABLES: &str = r#"
    CREATE TABLE host (
        name TEXT COLLATE "C" PRIMARY KEY,
        -- The host's ids of one millisecond have the serial numbers from 256 * number to 256 * number + 255.
        number BIGINT NOT NULL UNIQUE,
        -- Id of the host's state directory. It distinguishes two hosts with one name.
        state TEXT NOT NULL,
        -- Time of the last heartbeat of the host's daemon, by the database's clock.
        seen_ns BIGINT NOT NULL,
        address TEXT NOT NULL
    );
    -- Rigs, with the state that the daemon of each rig publishes.
    CREATE TABLE rig (name TEXT COLLATE "C" PRIMARY KEY, host TEXT COLLATE "C" NOT NULL, body BYTEA NOT NULL);
    -- Requests to the daemon of `host`, from the daemons of other hosts.
    CREATE TABLE wish (number BIGSERIAL PRIMARY KEY, host TEXT COLLATE "C" NOT NULL, body TEXT NOT NULL);

    CREATE TABLE run (
        id TEXT COLLATE "C" PRIMARY KEY,
        host TEXT COLLATE "C" NOT NULL,
        rig TEXT COLLATE "C" NOT NULL,
        state BIGINT NOT NULL,
        outcome BIGINT NOT NULL,
        owner TEXT COLLATE "C" NOT NULL,
        request_id TEXT COLLATE "C" NOT NULL,
        ended_ns BIGINT,
        bytes BIGINT NOT NULL DEFAULT 0,
        pinned BIGINT NOT NULL DEFAULT 0,
        purged_ns BIGINT,
        body TEXT NOT NULL
    );
    CREATE UNIQUE INDEX run_request ON run (owner, request_id) WHERE request_id <> '';
    CREATE INDEX run_unfinished ON run (id) WHERE state <> 3;
    CREATE INDEX run_rig ON run (rig, id);
    CREATE INDEX run_outcome ON run (outcome, id);
    CREATE INDEX run_files ON run (host, ended_ns, bytes) WHERE state = 3 AND pinned = 0 AND purged_ns IS NULL;
    CREATE TABLE event (run TEXT COLLATE "C" NOT NULL, cursor BIGINT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (run, cursor));
    CREATE TABLE verdict (
        run TEXT COLLATE "C" NOT NULL,
        cursor BIGINT NOT NULL,
        head BYTEA NOT NULL,
        body BYTEA NOT NULL,
        PRIMARY KEY (run, cursor)
    );
    CREATE TABLE doomed (run TEXT COLLATE "C" PRIMARY KEY, host TEXT COLLATE "C" NOT NULL);

    CREATE TABLE lease (
        id TEXT COLLATE "C" PRIMARY KEY,
        -- Empty while the lease waits for the first host with a free rig.
        host TEXT COLLATE "C" NOT NULL,
        owner TEXT COLLATE "C" NOT NULL,
        state BIGINT NOT NULL,
        rig TEXT COLLATE "C" NOT NULL,
        token BIGINT NOT NULL,
        request_id TEXT COLLATE "C" NOT NULL,
        -- 1 if another host may or must take the lease, else 0.
        posted BIGINT NOT NULL,
        body TEXT NOT NULL
    );
    -- At most one active lease for each rig, and one lease for each token, even if a program has a bug.
    CREATE UNIQUE INDEX lease_holder ON lease (rig) WHERE state = 2;
    CREATE UNIQUE INDEX lease_token ON lease (token) WHERE token > 0;
    CREATE INDEX lease_unended ON lease (host, id) WHERE state <> 3;
    CREATE INDEX lease_posted ON lease (id) WHERE state <> 3 AND posted = 1;
    CREATE UNIQUE INDEX lease_request ON lease (owner, request_id) WHERE request_id <> '';
    CREATE TABLE counter (name TEXT COLLATE "C" PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO counter VALUES ('token', 0);
"#;

/// The statement that takes a lock until the end of the transaction, so that only one daemon at a time creates the
/// tables.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8449122837)";

/// Makes all tables in an empty database, in one transaction. Returns the version of the tables.
pub(super) fn make(db: &mut Link) -> Result<u64, StoreError> {
    db.begin(Outlives::PowerLoss)?;
    let made = tables(db);
    match made {
        Ok(VERSION) => db.commit()?,
        _ => db.rollback(),
    }
    made
}

fn tables(db: &mut Link) -> Result<u64, StoreError> {
    db.query(LOCK, &[])?;
    db.execute(
        "CREATE TABLE IF NOT EXISTS verbatim_schema (version BIGINT NOT NULL)",
        &[],
    )?;
    let row = db.first("SELECT MAX(version) FROM verbatim_schema", &[])?;
    db.execute(TABLE, &[])?;
    if let Some(found) = row.and_then(|mut row| row.number()) {
        return Ok(found);
    }
    db.batch(TABLES)?;
    db.execute("INSERT INTO verbatim_schema VALUES ($1)", values![VERSION])?;
    Ok(VERSION)
}

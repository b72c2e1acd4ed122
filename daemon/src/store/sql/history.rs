//! Storage of runs, their events and verdicts.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;

use prost::Message;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{RunEvent, RunState, Verdict};
use verbatim_run::RunId;

use super::connection::values;
use super::{Connection, Op, Outlives, Row, SqlStore, Value, generation, seal};
use crate::access::Identity;
use crate::sched::to_watch;
use crate::store::retention::Files;
use crate::store::{Detail, Filter, HistoryStore, RUNS, RunEntry, StoreError, StoredLease, StoredRun, head_of};

/// The maximum number of rows that one query reads.
const PAGE: usize = 1000;

impl HistoryStore for SqlStore {
    fn create(&self, run: &StoredRun) -> Result<(), StoreError> {
        let (new, host) = (self.of_host(run), self.host.clone());
        let created = self.written(Outlives::PowerLoss, move |db| {
            let there = "SELECT 1 FROM run WHERE id = $1 UNION SELECT 1 FROM doomed WHERE run = $1";
            if db.first(there, values![new.id.as_str()])?.is_some() {
                return Ok(false);
            }
            put(db, &new)?;
            generation::add(db, &host, RUNS).map(|()| true)
        })?;
        if created {
            Ok(())
        } else {
            Err(StoreError::Exists(run.id.clone()))
        }
    }

    fn update(&self, run: &StoredRun) -> Result<(), StoreError> {
        let new = self.of_host(run);
        let written = if run.state == RunState::Ended {
            let bytes = self.bytes_of(run);
            self.note(Op::Ended(Box::new(new), bytes))
        } else {
            self.written(Outlives::PowerLoss, move |db| put(db, &new))
        };
        match &written {
            Ok(()) => self.unwritten().remove(&run.id),
            Err(_) => self.unwritten().insert(run.id.clone(), run.clone()),
        };
        written
    }

    fn append(&self, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError> {
        self.note(Op::events(id, events))
    }

    fn get(&self, id: &RunId) -> Result<RunEntry, StoreError> {
        let sql = "SELECT body, pinned, purged_ns FROM run WHERE id = $1";
        let found = self.read(|db| db.first(sql, values![id.as_str()]))?;
        let found = found.ok_or_else(|| StoreError::Unknown(id.clone()))?;
        let mut kept = self.understood(id, found)?;
        if let Some(run) = self.unwritten().get(id) {
            kept.run = run.clone();
        }
        Ok(kept)
    }

    fn of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredRun>, StoreError> {
        let sql = "SELECT id FROM run WHERE owner = $1 AND request_id = $2 AND request_id <> ''";
        let found = self.read(|db| db.first(sql, values![owner.to_string(), request_id]))?;
        let id = found.and_then(|mut row| row.text().parse().ok());
        id.map(|id| self.get(&id).map(|kept| kept.run)).transpose()
    }

    fn list(&self, filter: &Filter, after: Option<&RunId>, at_most: usize) -> Result<Vec<RunEntry>, StoreError> {
        let mut found: Vec<RunEntry> = Vec::new();
        let mut after = after.map(|id| id.as_str().to_string());
        let limit = at_most.clamp(1, PAGE);
        loop {
            let (sql, values) = page(filter, &self.host, after.as_deref(), limit);
            let rows = self.read(|db| db.query(&sql, &values))?;
            let is_last = rows.len() < limit;
            for mut row in rows {
                let id = row.text();
                let understood = id.parse().and_then(|id: RunId| {
                    let of = self.understood(&id, row);
                    of.map_err(|error| error.to_string())
                });
                let understood = understood
                    .inspect_err(|error| tracing::error!(run = id, error, "the list omits the run"))
                    .ok();
                after = Some(id);
                let Some(mut kept) = understood else { continue };
                if let Some(run) = self.unwritten().get(&kept.run.id) {
                    kept.run = run.clone();
                }
                if filter.takes(&kept.run.spec.rig, kept.run.state, kept.run.outcome) {
                    found.push(kept);
                }
                if found.len() == at_most {
                    return Ok(found);
                }
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    fn verdicts(&self, id: &RunId, detail: Detail) -> Result<Vec<Verdict>, StoreError> {
        let sql = match detail {
            Detail::Heads => "SELECT cursor, head FROM verdict WHERE run = $1 ORDER BY cursor",
            Detail::Whole => "SELECT cursor, body FROM verdict WHERE run = $1 ORDER BY cursor",
        };
        self.messages(id, sql, values![id.as_str()])
    }

    fn events(&self, id: &RunId, after: u64, at_most: usize) -> Result<Vec<RunEvent>, StoreError> {
        let sql = "SELECT cursor, body FROM event WHERE run = $1 AND cursor > $2 ORDER BY cursor LIMIT $3";
        self.messages(id, sql, values![id.as_str(), after, at_most])
    }

    fn last_event(&self, id: &RunId) -> Result<Option<RunEvent>, StoreError> {
        let sql = "SELECT cursor, body FROM event WHERE run = $1 ORDER BY cursor DESC LIMIT 1";
        Ok(self.messages(id, sql, values![id.as_str()])?.pop())
    }

    fn last_cursors(&self) -> Result<HashMap<RunId, u64>, StoreError> {
        let sql = "SELECT run, MAX(cursor) FROM event WHERE run IN \
                   (SELECT id FROM run WHERE state <> 3 AND host = $1) GROUP BY run";
        let rows = self.read(|db| db.query(sql, values![self.host.as_str()]))?;
        let cursor = |mut row: Row| Some((row.text().parse().ok()?, row.number()?));
        Ok(rows.into_iter().filter_map(cursor).collect())
    }

    fn pin(&self, id: &RunId, pinned: bool) -> Result<(), StoreError> {
        let run = id.clone();
        let sql = "UPDATE run SET pinned = $2 WHERE id = $1";
        match self.write(move |db| db.execute(sql, values![run.as_str(), pinned]))? {
            0 => Err(StoreError::Unknown(id.clone())),
            _ => Ok(()),
        }
    }

    fn delete(&self, id: &RunId) -> Result<(), StoreError> {
        let run = id.clone();
        let deleted = self.write(move |db| {
            let id = values![run.as_str()];
            // The daemon whose host has the files removes them later. This transaction also checks the pin, so that
            // no client can pin the run between check and deletion.
            let sql = "INSERT INTO doomed (run, host) SELECT id, host FROM run \
                       WHERE id = $1 AND state = 3 AND pinned = 0 ON CONFLICT DO NOTHING";
            db.execute(sql, id)?;
            if db.execute("DELETE FROM run WHERE id = $1 AND state = 3 AND pinned = 0", id)? == 0 {
                return Ok(false);
            }
            db.execute("DELETE FROM event WHERE run = $1", id)?;
            db.execute("DELETE FROM verdict WHERE run = $1", id)?;
            Ok(true)
        })?;
        if deleted {
            self.remove_doomed();
            return Ok(());
        }
        let kept = self.get(id)?;
        Err(if kept.pinned {
            StoreError::Pinned(id.clone())
        } else {
            StoreError::Unfinished(id.clone())
        })
    }

    fn with_files(&self) -> Result<Vec<Files>, StoreError> {
        let sql = "SELECT id, ended_ns, bytes FROM run \
                   WHERE state = 3 AND pinned = 0 AND purged_ns IS NULL AND host = $1 ORDER BY ended_ns";
        let rows = self.read(|db| db.query(sql, values![self.host.as_str()]))?;
        let files = |mut row: Row| {
            Some(Files {
                run: row.text().parse().ok()?,
                ended_ns: row.number().unwrap_or(0),
                bytes: row.number().unwrap_or(0),
            })
        };
        Ok(rows.into_iter().filter_map(files).collect())
    }

    fn remove_files(&self, id: &RunId, now_ns: u64) -> Result<(), StoreError> {
        let run = id.clone();
        self.write(move |db| {
            let id = run.as_str();
            let sql = "UPDATE run SET purged_ns = $2, bytes = 0 \
                       WHERE id = $1 AND state = 3 AND pinned = 0 AND purged_ns IS NULL";
            if db.execute(sql, values![id, now_ns])? == 1 {
                let sql =
                    "INSERT INTO doomed (run, host) SELECT id, host FROM run WHERE id = $1 ON CONFLICT DO NOTHING";
                db.execute(sql, values![id])?;
            }
            Ok(())
        })?;
        self.remove_doomed();
        Ok(())
    }

    fn record(&self, run: &StoredRun) -> PathBuf {
        // Each rig has a directory of its own, because the systemd unit of its worker can access only this
        // directory.
        self.runs.join(&run.spec.rig).join(run.id.as_str()).join("record")
    }

    fn set_generation(&self, name: &str, generation: u64) -> Result<(), StoreError> {
        let (host, name) = (self.host.clone(), name.to_owned());
        self.write(move |db| generation::set(db, &host, &name, generation))
    }

    fn generations(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.all_generations()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.database.check()?;
        if !self.host.is_empty() {
            return Ok(());
        }
        // Check the sums of the rows page by page, so that other readers do not wait.
        self.each_row("SELECT id, 0, body FROM run", "id", |id, _, body| {
            let run: StoredRun = seal::open_document(id, &body.text())?;
            (run.id.as_str() == id)
                .then_some(())
                .ok_or_else(|| "it belongs to another run".into())
        })?;
        self.each_row("SELECT id, 0, body FROM lease", "id", |id, _, body| {
            seal::open_document::<StoredLease>(id, &body.text()).map(drop)
        })?;
        for sql in [
            "SELECT run, cursor, body FROM event",
            "SELECT run, cursor, body FROM verdict",
            "SELECT run, cursor, head FROM verdict",
        ] {
            self.each_row(sql, "run, cursor", |id, cursor, body| {
                // The sum covers the encoded bytes, so any message type will do.
                seal::open_message::<()>(id, cursor, &body.bytes())
            })?;
        }
        Ok(())
    }
}

impl SqlStore {
    /// Calls `look` for every row of a query whose first columns are an id and a cursor.
    fn each_row(
        &self,
        sql: &str,
        order: &str,
        look: impl Fn(&str, u64, &mut Row) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        let keys = match order {
            "id" => "id > $1 AND 0 = $2",
            _ => "(run, cursor) > ($1, $2)",
        };
        let (mut id, mut cursor) = (String::new(), 0);
        loop {
            let sql = format!("{sql} WHERE {keys} ORDER BY {order} LIMIT {PAGE}");
            let rows = self.read(|db| db.query(&sql, values![id.as_str(), cursor]))?;
            let is_last = rows.len() < PAGE;
            for mut row in rows {
                id = row.text();
                cursor = row.number().unwrap_or(0);
                let looked = look(&id, cursor, &mut row);
                looked.map_err(|what| {
                    self.database
                        .damaged(format!("stored data of {id} at {cursor}: {what}"))
                })?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Returns the run with its host set: this host, unless the run names another host.
    fn of_host(&self, run: &StoredRun) -> StoredRun {
        let mut run = run.clone();
        if run.host.is_empty() {
            run.host.clone_from(&self.host);
        }
        run
    }

    /// Removes all files that were marked for removal, including those marked before a restart. A failed removal
    /// is tried again at the next call or start.
    pub(super) fn remove_doomed(&self) {
        let sql = "SELECT run FROM doomed WHERE host = $1";
        let doomed = self.read(|db| db.query(sql, values![self.host.as_str()]));
        for mut row in doomed.unwrap_or_default() {
            let Ok(run) = row.text().parse::<RunId>() else { continue };
            match self.remove_directories(&run) {
                Err((path, error)) => {
                    tracing::warn!(%run, path = %path.display(), %error, "the run's files cannot be removed");
                }
                Ok(()) => {
                    let id = run.clone();
                    let sql = "DELETE FROM doomed WHERE run = $1";
                    if let Err(error) = self.write(move |db| db.execute(sql, values![id.as_str()])) {
                        tracing::warn!(%run, %error, "the removal of the run's files cannot be stored");
                    }
                }
            }
        }
    }

    /// Removes the files of a run from the directories of all rigs, because the run may already be deleted from the
    /// database.
    fn remove_directories(&self, run: &RunId) -> Result<(), (PathBuf, std::io::Error)> {
        let rigs = fs::read_dir(&self.runs).into_iter().flatten().flatten();
        let places = rigs.map(|rig| rig.path().join(run.as_str()));
        for path in places.filter(|path| path.is_dir()) {
            fs::remove_dir_all(&path).map_err(|error| (path, error))?;
        }
        Ok(())
    }

    fn bytes_of(&self, run: &StoredRun) -> u64 {
        let entries = fs::read_dir(self.record(run)).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .map(|metadata| metadata.len())
            .sum()
    }

    fn messages<M: Message + Default>(&self, id: &RunId, sql: &str, values: &[Value]) -> Result<Vec<M>, StoreError> {
        let rows = self.read(|db| db.query(sql, values))?;
        let message = |mut row: Row| {
            let cursor = row.number().unwrap_or(0);
            let message = seal::open_message(id.as_str(), cursor, &row.bytes());
            message.map_err(|error| {
                self.database
                    .damaged(format!("stored data of run {id} at {cursor}: {error}"))
            })
        };
        rows.into_iter().map(message).collect()
    }

    /// Parses a row with the columns body, pinned and purged_ns.
    fn understood(&self, id: &RunId, mut row: Row) -> Result<RunEntry, StoreError> {
        let run = seal::open_document(id.as_str(), &row.text());
        let run = run.map_err(|error| self.database.damaged(format!("run {id}: {error}")))?;
        Ok(RunEntry {
            run,
            pinned: row.flag(),
            purged_ns: row.number(),
        })
    }
}

/// Returns the statement for the next page of a list, newest first, and its parameters.
fn page(filter: &Filter, host: &str, after: Option<&str>, limit: usize) -> (String, Vec<Value>) {
    let mut sql = String::from("SELECT id, body, pinned, purged_ns FROM run WHERE 1 = 1");
    let mut values: Vec<Value> = Vec::new();
    let mut where_ = |column: &str, value: Value| {
        values.push(value);
        sql.push_str(&format!(" AND {column} ${}", values.len()));
    };
    if let Some(after) = after {
        where_("id <", after.into());
    }
    if let Some(rig) = &filter.rig {
        where_("rig =", rig.as_str().into());
    }
    if let Some(owner) = &filter.owner {
        where_("owner =", owner.to_string().into());
    }
    if filter.own {
        where_("host =", host.into());
    }
    let mut one_of = |column: &str, numbers: Vec<i32>| {
        if !numbers.is_empty() {
            let numbers: Vec<String> = numbers.iter().map(i32::to_string).collect();
            sql.push_str(&format!(" AND {column} IN ({})", numbers.join(", ")));
        }
    };
    one_of("state", filter.states.iter().map(|state| *state as i32).collect());
    one_of(
        "outcome",
        filter.outcomes.iter().map(|outcome| *outcome as i32).collect(),
    );
    if !filter.states.is_empty() && !filter.states.contains(&RunState::Ended) {
        // Lets the database use its index of unfinished runs.
        sql.push_str(" AND state <> 3");
    }
    sql.push_str(&format!(" ORDER BY id DESC LIMIT {limit}"));
    (sql, values)
}

pub(super) fn put(db: &mut dyn Connection, run: &StoredRun) -> Result<(), StoreError> {
    let sql = "INSERT INTO run (id, host, rig, state, outcome, owner, request_id, ended_ns, body) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE SET \
               state = excluded.state, outcome = excluded.outcome, ended_ns = excluded.ended_ns, body = excluded.body";
    let body = seal::document(run.id.as_str(), run);
    let values = values![
        run.id.as_str(),
        run.host.as_str(),
        run.spec.rig.as_str(),
        run.state as i32,
        run.outcome.unwrap_or_default() as i32,
        run.owner.to_string(),
        run.request_id.as_str(),
        run.ended_ns,
        body,
    ];
    db.execute(sql, values).map(drop)
}

/// Stores events and the verdicts in them. Events that are stored already stay unchanged.
pub(super) fn append(db: &mut dyn Connection, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError> {
    for event in events {
        let body = seal::message(id.as_str(), event.cursor, &to_watch(event.clone()));
        let sql = "INSERT INTO event (run, cursor, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        db.execute(sql, values![id.as_str(), event.cursor, body])?;
        if let Some(Event::TestEnded(ended)) = &event.event
            && let Some(verdict) = &ended.verdict
        {
            let sealed = |of: &Verdict| seal::message(id.as_str(), event.cursor, of);
            let (head, body) = (sealed(&head_of(verdict)), sealed(verdict));
            let sql = "INSERT INTO verdict (run, cursor, head, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
            db.execute(sql, values![id.as_str(), event.cursor, head, body])?;
        }
    }
    Ok(())
}

/// Stores the end of a run, and the size of its files in bytes.
pub(super) fn end(db: &mut dyn Connection, run: &StoredRun, bytes: u64) -> Result<(), StoreError> {
    put(db, run)?;
    let sql = "UPDATE run SET bytes = $2 WHERE id = $1";
    db.execute(sql, values![run.id.as_str(), bytes]).map(drop)
}

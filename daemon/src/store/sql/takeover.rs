//! Taking over what daemons before this store kept: `runs/ID/` with `run.json`, `events.log` and the record.

use std::fs::{self, File};
use std::path::Path;

use verbatim_proto::v1::RunEvent;
use verbatim_run::RunId;

use super::connection::{Connection as _, Outlives};
use super::sqlite::Sqlite;
use super::{StoreError, history};
use crate::framing::FramesOfFile;
use crate::store::StoredRun;

/// How the form was called that they kept runs in.
const SCHEMA: &str = "verbatim.run.v1";

/// Takes all runs over, then removes the files that are now in the database. Runs that cannot be read stay as they are,
/// each with a line in the log; records stay where they are in any case. Killed in between, it begins anew.
pub(super) fn take_over(db: &mut Sqlite, runs: &Path) -> Result<(), StoreError> {
    db.begin(Outlives::PowerLoss)?;
    let mut taken = Vec::new();
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let directory = entry.path();
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()) else {
            tracing::warn!(path = %directory.display(), "not a run's directory: left alone");
            continue;
        };
        match run_of(&directory, &id) {
            Ok(run) => {
                history::put(db, &run)?;
                let mut events = events_of(&directory, &id);
                loop {
                    let batch: Vec<RunEvent> = events.by_ref().take(256).collect();
                    if batch.is_empty() {
                        break;
                    }
                    history::append(db, &id, &batch)?;
                }
                taken.push(directory);
            }
            Err(what) => tracing::warn!(run = %id, "the run is left out: {what}"),
        }
    }
    db.commit()?;
    if taken.is_empty() {
        return Ok(());
    }
    // On disk for good, before the files go.
    db.sync()?;
    for directory in &taken {
        for name in ["run.json", "events.log"] {
            // What stays is in nobody's way.
            let _ = fs::remove_file(directory.join(name));
        }
    }
    tracing::info!(runs = taken.len(), "the runs of an earlier daemon were taken over");
    Ok(())
}

fn run_of(directory: &Path, id: &RunId) -> Result<StoredRun, String> {
    let path = directory.join("run.json");
    let wrong = |what: String| format!("{}: {what}", path.display());
    let text = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let document: serde_json::Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if document["schema"] != SCHEMA {
        return Err(wrong(format!(
            "its schema is {}, expected {SCHEMA:?}",
            document["schema"]
        )));
    }
    let run: StoredRun = serde_json::from_value(document).map_err(|error| wrong(error.to_string()))?;
    if run.id == *id {
        Ok(run)
    } else {
        Err(wrong(format!("it is of run {}, expected {id}", run.id)))
    }
}

/// The events of a run, up to what cannot be read.
fn events_of(directory: &Path, id: &RunId) -> impl Iterator<Item = RunEvent> + use<> {
    let path = directory.join("events.log");
    let mut frames = File::open(&path).ok().map(FramesOfFile::<RunEvent>::new);
    let (mut last, id) = (0, id.clone());
    std::iter::from_fn(move || match frames.as_mut()?.next() {
        Ok(Some(event)) if event.cursor > last => {
            last = event.cursor;
            Some(event)
        }
        Ok(None) => None,
        Ok(Some(event)) => {
            tracing::warn!(run = %id, "events from cursor {} on are lost: expected more than {last}", event.cursor);
            None
        }
        Err(error) => {
            tracing::warn!(run = %id, path = %path.display(), "events after cursor {last} are lost: {error}");
            None
        }
    })
}

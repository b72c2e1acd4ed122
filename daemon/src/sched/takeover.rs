//! Takes over the state that an earlier daemon left. Interrupted runs end. Waiting runs and leases keep waiting in
//! the same order. Drained rigs stay drained. If the rig file no longer has a rig, the daemon still restores the
//! rig's device.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use verbatim_catalog::select;
use verbatim_proto::v1::{LeaseState, Priority, RunEvent, RunState};
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::{RunId, journal_owner};
use verbatim_tester::{FileJournal, JournalOwner, Unrestored};

use super::plan::{self, NeverBegan};
use super::{Ending, Live, leases};
use crate::store::{Filter, LeaseId, Store, StoreError, StoredLease, StoredRun};

/// Runs and leases of an earlier daemon that go on.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) live: HashMap<RunId, Arc<Live>>,
    pub(super) leases: HashMap<LeaseId, StoredLease>,
    pub(super) planned: Vec<plan::Lease>,
    /// Ended leases whose end could not be written.
    pub(super) unwritten: Vec<StoredLease>,
}

/// Finds the runs and leases that go on, and ends all others. Blocks on the disk.
///
/// # Errors
/// When the store cannot be read.
pub(super) fn waiting(store: &dyn Store, rigs: &RigFile, journals: &Path) -> Result<Waiting, StoreError> {
    let mut left = Waiting::default();
    let mut planned: BTreeMap<LeaseId, plan::Lease> = BTreeMap::new();
    let (of_runs, reserved): (Vec<_>, Vec<_>) = store.unended()?.into_iter().partition(|lease| lease.run.is_some());
    let mut of_runs: HashMap<LeaseId, StoredLease> =
        of_runs.into_iter().map(|lease| (lease.id.clone(), lease)).collect();
    for lease in reserved {
        planned.insert(lease.id.clone(), leases::planned(&lease, store.now_ns()));
        left.leases.insert(lease.id.clone(), lease);
    }
    let unfinished = Filter {
        states: vec![RunState::Queued, RunState::Running],
        own: true,
        ..Filter::default()
    };
    let found = store.list(&unfinished, None, usize::MAX)?;
    let cursors = store.last_cursors()?;
    // Thousands of waiting runs may share a few lists of patterns, so cache the tests of each list.
    let mut asked = HashMap::new();
    // The store lists the newest run first; begin with the oldest run.
    for run in found.into_iter().rev().map(|kept| kept.run) {
        let own = LeaseId::like(&run.id);
        let under = run.lease.clone();
        let ending = match can_go_on(&run, rigs, &mut asked) {
            Err(ending) => ending,
            Ok(()) if under == own => {
                let lease = of_runs.remove(&own).unwrap_or_else(|| lost(&run));
                let waits = StoredLease {
                    state: LeaseState::Pending,
                    rig: String::new(),
                    granted_ns: None,
                    until_ns: None,
                    ..lease
                };
                planned.insert(own.clone(), leases::planned(&waits, store.now_ns()));
                left.leases.insert(own, waits);
                left.live.insert(run.id.clone(), live_from(store, run, &cursors));
                continue;
            }
            Ok(()) => match planned.get_mut(&under) {
                Some(lease) => {
                    lease.runs.push_back(run.id.clone());
                    left.live.insert(run.id.clone(), live_from(store, run, &cursors));
                    continue;
                }
                None => Ending::of_waiting(&NeverBegan::LeaseEnded("has ended".into()), false, ""),
            },
        };
        tracing::warn!(run = %run.id, rig = run.spec.rig, who = %run.owner, "run ended: {}", ending.reason);
        if run.state == RunState::Running {
            miss(&run.spec.rig, rigs, journals);
        }
        live_from(store, run, &cursors).end(store, store.now_ns(), ending, None);
    }
    for lease in of_runs.into_values() {
        let ended = StoredLease {
            state: LeaseState::Ended,
            ended_ns: Some(store.now_ns()),
            reason: "ended with its run, when the daemon ended".into(),
            ..lease
        };
        if let Err(error) = store.put(&ended) {
            tracing::error!(lease = %ended.id, %error, "the lease's end cannot be stored");
            left.unwritten.push(ended);
        }
    }
    if !left.live.is_empty() {
        tracing::info!(
            runs = left.live.len(),
            "this daemon took over the waiting runs of an earlier daemon"
        );
    }
    left.planned = planned.into_values().collect();
    Ok(left)
}

/// Checks whether the journal of a rig was removed while a run was running on the rig, and records such a removal.
fn miss(rig: &str, rigs: &RigFile, journals: &Path) {
    if !rigs.find(rig).is_ok_and(super::outlives_us) {
        return;
    }
    match FileJournal::miss(journals, rig) {
        Ok(false) => {}
        Ok(true) => tracing::error!(rig, "the rig's journal and its lock were removed during a run"),
        Err(error) => tracing::error!(rig, %error, "the removal of the rig's journal cannot be recorded"),
    }
}

/// Creates the lease of a run whose daemon died before the lease was stored.
fn lost(run: &StoredRun) -> StoredLease {
    let (id, rigs) = (LeaseId::like(&run.id), vec![run.spec.rig.clone()]);
    StoredLease {
        created_ns: run.created_ns,
        ..leases::fresh(id, &run.owner, rigs, Some(run.id.clone()), Priority::Normal)
    }
}

/// Checks whether a run can go on. If not, the error is the ending of the run.
fn can_go_on(run: &StoredRun, rigs: &RigFile, asked: &mut Asked) -> Result<(), Ending> {
    if run.state == RunState::Running {
        return Err(Ending::of_interrupted());
    }
    let rig = &run.spec.rig;
    let why = if run.started_ns.is_some() {
        // The rig may have another device by now, and one record must not contain two devices.
        format!("rig {rig} may have another device now")
    } else if rigs.find(rig).is_err() {
        format!("rig {rig} is no longer in the rig file")
    } else if !comes_to(&run.spec.patterns, asked).is_some_and(|tests| tests.iter().eq(&run.tests)) {
        "its catalogue selects other tests for the same patterns".into()
    } else {
        return Ok(());
    };
    let began = run.started_ns.is_some();
    Err(Ending::of_waiting(&NeverBegan::CannotGoOn(why), began, ""))
}

/// The ids of the selected tests. The key is the list of patterns; the value is `None` if a pattern is no longer valid.
type Asked = HashMap<Vec<String>, Option<Vec<&'static str>>>;

/// Returns the ids of the tests that the patterns select.
fn comes_to<'a>(patterns: &[String], asked: &'a mut Asked) -> Option<&'a Vec<&'static str>> {
    if !asked.contains_key(patterns) {
        let tests = select(patterns)
            .ok()
            .map(|tests| tests.iter().map(|test| test.id).collect());
        asked.insert(patterns.to_vec(), tests);
    }
    asked.get(patterns)?.as_ref()
}

/// Creates the live state of a stored run. `cursors` maps each run to the cursor of its last event; a missing cursor is
/// read from the store.
fn live_from(store: &dyn Store, run: StoredRun, cursors: &HashMap<RunId, u64>) -> Arc<Live> {
    match cursors.get(&run.id) {
        Some(last) => Arc::new(Live::new(run, *last)),
        None => live(store, run),
    }
}

/// Creates the live state of a stored run, whose next event follows the last stored event.
pub(super) fn live(store: &dyn Store, run: StoredRun) -> Arc<Live> {
    let last = store.last_event(&run.id);
    let cursor = |event: &Option<RunEvent>| event.as_ref().map_or(0, |event| event.cursor);
    let live = Live::new(run, last.as_ref().map_or(0, cursor));
    if let Err(error) = &last {
        live.cannot_keep(error);
    }
    Arc::new(live)
}

/// Reads the drained rigs: a map from each rig's name to the reason why it is drained. If the file is not readable,
/// all rigs count as drained, because a drained rig must not be used.
pub(super) fn drained(path: &Path, rigs: &RigFile) -> BTreeMap<String, String> {
    let read = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeMap::new(),
        opened => opened.and_then(|file| serde_json::from_reader(io::BufReader::new(file)).map_err(io::Error::from)),
    };
    read.unwrap_or_else(|error| {
        let why = format!(
            "drained, because the list of drained rigs cannot be read ({}: {error}); `verbatim rigs undrain RIG` \
             undrains it",
            path.display()
        );
        tracing::error!("all rigs are {why}");
        rigs.rigs.iter().map(|rig| (rig.name.clone(), why.clone())).collect()
    })
}

/// Writes the drained rigs. Replaces the file atomically: after an error, the old file is unchanged.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn keep_drained(path: &Path, drained: &BTreeMap<String, String>) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(serde_json::to_string_pretty(drained)?.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Returns the rigs that the rig file no longer has, and whose devices must still be restored. Leaves out a rig if the
/// rig file has its device under another name. The returned rigs stay visible until their devices are restored.
pub(super) fn left_over(rigs: &RigFile, journals: &Path) -> Vec<RigConfig> {
    let owners: Vec<JournalOwner> = rigs.rigs.iter().map(journal_owner).collect();
    let orphans = FileJournal::all(journals).into_iter().filter(|journal| {
        let is_its = |owner: &JournalOwner| owner.rig == journal.owner.rig || owner.is_same_device(&journal.owner);
        !owners.iter().any(is_its)
    });
    let config = |journal: Unrestored| {
        let parsed = RigFile::parse(journal.owner.config.as_bytes(), Path::new(&journal.owner.config_path));
        let rig = parsed.ok().and_then(|file| file.find(&journal.owner.rig).cloned().ok());
        let (rig_name, path) = (&journal.owner.rig, journal.path.display());
        match &rig {
            Some(_) => {
                tracing::warn!(rig = rig_name, journal = %path, "the rig file no longer has a rig whose device is still to be restored")
            }
            None => tracing::error!(
                rig = rig_name, journal = %path,
                "a device is still to be restored, but the daemon knows no rig with this device: add its rig to the \
                 rig file again"
            ),
        }
        rig
    };
    orphans.filter_map(config).collect()
}

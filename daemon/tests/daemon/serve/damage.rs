//! Damage anywhere in the files of the store. Either the daemon refuses to start, or its check finds the damage,
//! or all data reads back unchanged. No data is lost or altered silently.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proptest::prelude::*;
use verbatim_daemon::access::Identity;
use verbatim_daemon::store::{
    AskedLease, AskedRun, Detail, Filter, HistoryStore, LeaseId, LeaseStore, Patience, RunEntry, SqlStore, StoreError,
    StoredLease, StoredRun,
};
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{LeaseState, LogLine, Outcome, Priority, RunEvent, RunSpec, RunState, TestEnded, Verdict};
use verbatim_run::RunId;
use verbatim_run::state::StateDirectory;

use super::harness::{Bench, request};

/// The files of SQLite in a state directory.
const FILES: [&str; 3] = ["verbatim.db", "verbatim.db-wal", "verbatim.db-shm"];

/// A kind of damage to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit is flipped.
    Flipped { at: usize, bit: u8 },
    /// The file is truncated.
    Cut { at: usize },
    /// A range of bytes is zeroed, like a lost sector of the disk.
    Zeroed { at: usize, bytes: usize },
}

impl Damage {
    fn of(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Flipped { at, bit } => {
                let at = at % bytes.len();
                bytes[at] ^= 1 << bit;
            }
            Self::Cut { at } => bytes.truncate(at % bytes.len()),
            Self::Zeroed { at, bytes: count } => {
                let at = at % bytes.len();
                let end = bytes.len().min(at + count);
                bytes[at..end].fill(0);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>();
    prop_oneof![
        3 => (at, 0..8_u8).prop_map(|(at, bit)| Damage::Flipped { at, bit }),
        1 => at.prop_map(|at| Damage::Cut { at }),
        1 => (at, 1..5000_usize).prop_map(|(at, bytes)| Damage::Zeroed { at, bytes }),
    ]
}

pub(crate) fn run(number: u64, state: RunState) -> StoredRun {
    StoredRun {
        id: RunId::new(number * 1_000_000, 0),
        request_id: format!("r{number}"),
        owner: Identity::Certificate("alice".into()),
        spec: RunSpec {
            rig: format!("rig{}", number % 3),
            ..RunSpec::default()
        },
        lease: LeaseId::like(&RunId::new(number * 1_000_000, 0)),
        tests: vec!["c14-024-node-info".into()],
        state,
        outcome: (state == RunState::Ended).then_some(Outcome::Pass),
        cause: None,
        reason: "x".repeat(number as usize * 7),
        created_ns: number,
        started_ns: None,
        ended_ns: (state == RunState::Ended).then_some(number),
        info: None,
        host: String::new(),
        patience: Patience::default(),
        asked: AskedRun::default(),
    }
}

fn lease(number: u64) -> StoredLease {
    StoredLease {
        id: LeaseId::like(&RunId::new(number * 1_000_000, 1)),
        owner: Identity::User(7),
        request_id: String::new(),
        state: if number.is_multiple_of(2) {
            LeaseState::Active
        } else {
            LeaseState::Pending
        },
        priority: Priority::Normal,
        rigs: vec![format!("rig{number}")],
        rig: if number.is_multiple_of(2) {
            format!("rig{number}")
        } else {
            String::new()
        },
        token: 0,
        run: None,
        lasts_s: 60,
        created_ns: number,
        granted_ns: Some(number),
        until_ns: Some(number + 1),
        ended_ns: None,
        reason: String::new(),
        host: String::new(),
        posted: false,
        attended: false,
        boot: None,
        asked: AskedLease::default(),
    }
}

fn fill(store: &SqlStore, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let kept = run(
            number,
            if number.is_multiple_of(4) {
                RunState::Queued
            } else {
                RunState::Ended
            },
        );
        store.create(&kept).unwrap();
        let verdict = Verdict {
            test: format!("t{number}"),
            outcome: Outcome::Fail.into(),
            ..Verdict::default()
        };
        let events = [
            Event::LogLine(LogLine {
                text: format!("said {number} ").repeat(20),
            }),
            Event::TestEnded(TestEnded {
                verdict: Some(verdict),
                ..TestEnded::default()
            }),
        ];
        let event = |(cursor, event)| RunEvent {
            cursor,
            time: None,
            event: Some(event),
        };
        store
            .append(&kept.id, &(1..).zip(events).map(event).collect::<Vec<_>>())
            .unwrap();
        store.update(&kept).unwrap();
        if number.is_multiple_of(5) {
            store.pin(&kept.id, true).unwrap();
        }
        store.put(&lease(number)).unwrap();
    }
}

/// All data of a store.
#[derive(PartialEq, Debug)]
struct Told {
    runs: Vec<RunEntry>,
    queued: Vec<RunId>,
    of_run: Vec<(Vec<RunEvent>, Vec<Verdict>, Vec<Verdict>)>,
    leases: Vec<StoredLease>,
    unended: Vec<StoredLease>,
    token: u64,
}

fn told(store: &SqlStore) -> Result<Told, StoreError> {
    let runs = store.list(&Filter::default(), None, usize::MAX)?;
    let queued = Filter {
        states: vec![RunState::Queued],
        ..Filter::default()
    };
    let of_run = |kept: &RunEntry| {
        let id = &kept.run.id;
        let verdicts = |detail| store.verdicts(id, detail);
        Ok((
            store.events(id, 0, 100)?,
            verdicts(Detail::Heads)?,
            verdicts(Detail::Whole)?,
        ))
    };
    Ok(Told {
        of_run: runs.iter().map(of_run).collect::<Result<_, StoreError>>()?,
        queued: store
            .list(&queued, None, usize::MAX)?
            .into_iter()
            .map(|kept| kept.run.id)
            .collect(),
        leases: store.leases(true, usize::MAX)?,
        unended: store.unended()?,
        token: store.last_token()?,
        runs,
    })
}

/// The files that a killed daemon left, and the data in them.
type Left = (Vec<(PathBuf, Vec<u8>)>, Told);

fn left() -> &'static Left {
    static LEFT: OnceLock<Left> = OnceLock::new();
    LEFT.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        // Part of the data is in the database file, and the rest in the write-ahead log.
        fill(&SqlStore::sqlite(&state).unwrap(), 1..30);
        let store = SqlStore::sqlite(&state).unwrap();
        fill(&store, 30..40);
        let read = |name: &&str| (PathBuf::from(name), fs::read(directory.path().join(name)).unwrap());
        (FILES.iter().map(read).collect(), told(&store).unwrap())
    })
}

/// Returns whether the store has set aside a copy of the damaged database. Such a copy counts as a report of the
/// damage, because the store then also logs the damage.
fn is_kept_aside(directory: &Path) -> bool {
    let names = fs::read_dir(directory).unwrap().flatten();
    names
        .into_iter()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("verbatim.db-damaged-"))
}

/// Damages one of the files and opens the store. Returns the data of the store; `None` when the store reports damage.
fn survives(which: usize, damage: Damage) -> Option<Told> {
    let directory = tempfile::tempdir().unwrap();
    for (number, (name, bytes)) in left().0.iter().enumerate() {
        let mut bytes = bytes.clone();
        if number == which {
            damage.of(&mut bytes);
        }
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    // An empty database is reported as damaged only if files of a run exist, so create some.
    fs::create_dir_all(directory.path().join("runs/a/000000000001-0000/record")).unwrap();
    let store = match SqlStore::sqlite(&StateDirectory::at(directory.path())) {
        Ok(store) => store,
        Err(error) => {
            assert!(error.to_string().contains("verbatim.db"), "{error}");
            return None;
        }
    };
    if store.check().is_err() || is_kept_aside(directory.path()) {
        return None;
    }
    Some(told(&store).unwrap_or_else(|error| panic!("the check has missed it: {error}")))
}

#[test]
fn undamaged_store_returns_all_data() {
    assert_eq!(
        survives(0, Damage::Zeroed { at: 0, bytes: 0 }).as_ref(),
        Some(&left().1)
    );
}

proptest! {
    #[test]
    fn damage_is_reported_or_harmless(which in 0..FILES.len(), damage in damage()) {
        if let Some(told) = survives(which, damage) {
            prop_assert_eq!(&told, &left().1);
        }
    }
}

#[test]
fn reports_an_emptied_file() {
    // Leave out the third file, verbatim.db-shm. It is only an index, and SQLite rebuilds it without loss.
    for (which, name) in FILES.iter().enumerate().take(2) {
        assert_eq!(survives(which, Damage::Cut { at: 0 }), None, "{name}");
    }
}

#[tokio::test]
async fn running_daemon_reports_damage_and_ends() {
    let bench = Bench::new();
    {
        let mut daemon = bench.serve();
        let mut clients = bench.clients().await;
        for _ in 0..4 {
            let run = clients.create(request("virtual", &["c14-024-node-info"])).await;
            clients.ended(&run.name).await;
        }
        drop(clients);
        assert!(daemon.end(rustix::process::Signal::TERM).await.success());
    }
    let database = bench.path("state/verbatim.db");
    // The checkpoint moves all data from the write-ahead log into the database file.
    let opened = rusqlite::Connection::open(&database).unwrap();
    opened
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(opened);
    let mut bytes = fs::read(&database).unwrap();
    // Change a bit of the test's name in the stored data of a run.
    let wanted = b"node-info";
    let at = bytes
        .windows(wanted.len())
        .rposition(|found| found == wanted)
        .expect("a run is kept");
    bytes[at] ^= 1;
    fs::write(&database, bytes).unwrap();
    let mut daemon = bench.serve();
    daemon.says("verbatim.db is damaged");
    let said = daemon.says("put a backup of it in its place");
    assert!(said.contains("its sum does not match its content"), "{said}");
    let status = daemon.child.wait().unwrap();
    assert_eq!(status.code(), Some(3), "{:#?}", daemon.said);
}

#[test]
fn row_without_sum_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::at(directory.path());
    fill(&SqlStore::sqlite(&state).unwrap(), 1..5);
    let database = rusqlite::Connection::open(directory.path().join("verbatim.db")).unwrap();
    let sql = "UPDATE run SET body = substr(body, 1, length(body) - 26) || '}' WHERE id LIKE '%4-0000'";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    drop(database);
    let store = SqlStore::sqlite(&state).unwrap();
    let error = store.check().unwrap_err().to_string();
    assert!(error.contains("000000000004-0000"), "{error}");
}

#[test]
fn list_can_have_runs_of_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqlStore::sqlite(&StateDirectory::at(directory.path())).unwrap();
    fill(&store, 1..5);
    let bob = Identity::Certificate("bob".into());
    let own = StoredRun {
        owner: bob.clone(),
        ..run(5, RunState::Ended)
    };
    store.create(&own).unwrap();
    fill(&store, 6..8);
    let filter = Filter {
        owner: Some(bob),
        ..Filter::default()
    };
    let listed = store.list(&filter, None, usize::MAX).unwrap();
    assert_eq!(listed.iter().map(|kept| &kept.run.id).collect::<Vec<_>>(), [&own.id]);
}

//! One test suite for all stores of runs and leases: SQLite for one daemon, PostgreSQL for several.

use std::sync::{Arc, OnceLock};

use tempfile::TempDir;
use verbatim_daemon::access::Identity;
use verbatim_daemon::sched::{Scheduler, Workers, of_lab};
use verbatim_daemon::store::{
    Address, AskedLease, AskedRun, Detail, Filter, HistoryStore, LeaseId, LeaseStore, Patience, RemoteRequest,
    SqlStore, StoreError, StoredLease, StoredRun,
};
use verbatim_lab::Postgres;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{LeaseState, LogLine, Outcome, Priority, RunEvent, RunSpec, RunState, TestEnded, Verdict};
use verbatim_rig::RigFile;
use verbatim_run::RunId;
use verbatim_run::state::StateDirectory;
use verbatim_tests::oracle::skipped;

/// Returns the runtime of the database connections.
fn runtime() -> tokio::runtime::Handle {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    RUNTIME.get_or_init(runtime).handle().clone()
}

/// Starts a server for this test. Returns `None` with a message if PostgreSQL is not installed; fails if `CI` is set.
fn server() -> Option<Postgres> {
    let there = Postgres::is_installed() || skipped("PostgreSQL", "apt-get install postgresql");
    there.then(|| Postgres::start().unwrap())
}

fn shared(url: &str, host: &str, state: &TempDir) -> Result<SqlStore, StoreError> {
    let address = Address::new(url, false).unwrap();
    let state = StateDirectory::at(state.path());
    SqlStore::postgres(address, host, "https://bench:7443", &state, runtime())
}

/// A case that every store must pass. The arguments are an empty store, and a function that opens the store again.
type Case = fn(SqlStore, &dyn Fn() -> SqlStore);

const CASES: [Case; 5] = [
    run_is_stored_once_and_listed_newest_first,
    events_keep_order_without_repeats,
    deletion_spares_pinned_and_unfinished_runs,
    rig_is_held_once_and_tokens_grow,
    stored_data_survives_reopening,
];

#[test]
fn sqlite_store_passes_suite() {
    for case in CASES {
        let state = tempfile::tempdir().unwrap();
        let open = || SqlStore::sqlite(&StateDirectory::at(state.path())).unwrap();
        case(open(), &open);
    }
}

/// One server serves all cases, because the start of a server takes longer than all cases together.
#[test]
fn postgresql_store_passes_suite() {
    let Some(mut server) = server() else { return };
    for (number, case) in CASES.iter().enumerate() {
        let state = tempfile::tempdir().unwrap();
        let url = server.database(&format!("case{number}")).unwrap();
        let open = || shared(&url, "bench-a", &state).unwrap();
        case(open(), &open);
    }
    tables_of_another_version_are_refused(&server);
    let url = server.database("hosts").unwrap();
    hosts_see_each_others_runs_and_rigs_and_take_what_waits_once(&url);
    let url = server.database("reload").unwrap();
    new_rig_is_claimed_unless_another_host_has_it(&url);
    absent_database_grants_nothing_and_gets_events_later(&mut server);
}

fn tables_of_another_version_are_refused(server: &Postgres) {
    let state = tempfile::tempdir().unwrap();
    let url = server.database("versions").unwrap();
    drop(shared(&url, "bench-a", &state).unwrap());
    for (version, remedy) in [(1, "create another, empty database"), (99, "use that one")] {
        let sql = format!("UPDATE verbatim_schema SET version = {version}");
        server.execute("versions", &sql).unwrap();
        let refused = shared(&url, "bench-a", &state).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("tables of version {version}")) && refused.contains(remedy),
            "{refused}"
        );
    }
}

fn id(number: u64) -> RunId {
    RunId::new(number * 1_000_000, 0)
}

fn who() -> Identity {
    Identity::Certificate("alice".into())
}

fn run(number: u64, rig: &str) -> StoredRun {
    StoredRun {
        id: id(number),
        request_id: format!("r{number}"),
        owner: who(),
        spec: RunSpec {
            rig: rig.into(),
            ..RunSpec::default()
        },
        lease: LeaseId::like(&id(number)),
        tests: vec!["c14-024-node-info".into()],
        state: RunState::Queued,
        outcome: None,
        cause: None,
        reason: String::new(),
        created_ns: number,
        started_ns: None,
        ended_ns: None,
        info: None,
        host: String::new(),
        patience: Patience::default(),
        asked: AskedRun::default(),
    }
}

fn ended(number: u64, rig: &str, outcome: Outcome) -> StoredRun {
    StoredRun {
        state: RunState::Ended,
        outcome: Some(outcome),
        ended_ns: Some(number),
        ..run(number, rig)
    }
}

fn lease(number: u64, rig: &str, state: LeaseState) -> StoredLease {
    StoredLease {
        id: LeaseId::like(&id(number)),
        owner: who(),
        request_id: format!("l{number}"),
        state,
        priority: Priority::Normal,
        rigs: vec![rig.into()],
        rig: if state == LeaseState::Pending {
            String::new()
        } else {
            rig.into()
        },
        token: 0,
        run: None,
        lasts_s: 60,
        created_ns: 1,
        granted_ns: None,
        until_ns: None,
        ended_ns: None,
        reason: String::new(),
        host: String::new(),
        posted: false,
        attended: false,
        boot: None,
        asked: AskedLease::default(),
    }
}

fn line(cursor: u64) -> RunEvent {
    let text = format!("line {cursor}");
    RunEvent {
        cursor,
        time: None,
        event: Some(Event::LogLine(LogLine { text })),
    }
}

fn numbers(of: Vec<verbatim_daemon::store::RunEntry>) -> Vec<u64> {
    of.iter().map(|kept| kept.run.created_ns).collect()
}

fn run_is_stored_once_and_listed_newest_first(store: SqlStore, _open: &dyn Fn() -> SqlStore) {
    for number in 1..=5 {
        store.create(&run(number, if number == 2 { "b" } else { "a" })).unwrap();
    }
    assert!(matches!(store.create(&run(3, "a")), Err(StoreError::Exists(_))));
    assert_eq!(store.of_request(&who(), "r4").unwrap().unwrap().id, id(4));
    assert!(store.of_request(&Identity::User(1), "r4").unwrap().is_none());
    store.update(&ended(1, "a", Outcome::Fail)).unwrap();
    store.update(&ended(5, "a", Outcome::Pass)).unwrap();
    let list = |filter: Filter, after: Option<u64>, at_most| {
        numbers(store.list(&filter, after.map(id).as_ref(), at_most).unwrap())
    };
    assert_eq!(list(Filter::default(), None, 9), [5, 4, 3, 2, 1]);
    assert_eq!(list(Filter::default(), Some(4), 2), [3, 2]);
    let on = |rig: &str| Filter {
        rig: Some(rig.into()),
        ..Filter::default()
    };
    assert_eq!(list(on("b"), None, 9), [2]);
    let with = |outcome| Filter {
        outcomes: vec![outcome],
        ..Filter::default()
    };
    assert_eq!(list(with(Outcome::Fail), None, 9), [1]);
    let unfinished = Filter {
        states: vec![RunState::Queued, RunState::Running],
        own: true,
        ..Filter::default()
    };
    assert_eq!(list(unfinished, None, 9), [4, 3, 2]);
    assert!(matches!(store.get(&id(6)), Err(StoreError::Unknown(_))));
}

fn events_keep_order_without_repeats(store: SqlStore, _open: &dyn Fn() -> SqlStore) {
    store.create(&run(1, "a")).unwrap();
    let verdict = Verdict {
        test: "t".into(),
        reason: "why".into(),
        observations: vec![Default::default()],
        ..Verdict::default()
    };
    let end = RunEvent {
        cursor: 3,
        time: None,
        event: Some(Event::TestEnded(TestEnded {
            verdict: Some(verdict.clone()),
            ..TestEnded::default()
        })),
    };
    store.append(&id(1), &[line(1), line(2)]).unwrap();
    store.append(&id(1), &[line(2), end]).unwrap();
    let cursors = |after, at_most| -> Vec<u64> {
        store
            .events(&id(1), after, at_most)
            .unwrap()
            .iter()
            .map(|event| event.cursor)
            .collect()
    };
    assert_eq!((cursors(0, 9), cursors(1, 1)), (vec![1, 2, 3], vec![2]));
    assert_eq!(store.last_event(&id(1)).unwrap().unwrap().cursor, 3);
    assert_eq!(store.verdicts(&id(1), Detail::Whole).unwrap(), [verdict]);
    assert!(
        store.verdicts(&id(1), Detail::Heads).unwrap()[0]
            .observations
            .is_empty()
    );
}

fn deletion_spares_pinned_and_unfinished_runs(store: SqlStore, _open: &dyn Fn() -> SqlStore) {
    store.create(&run(1, "a")).unwrap();
    assert!(matches!(store.delete(&id(1)), Err(StoreError::Unfinished(_))));
    let record = store.record(&run(1, "a"));
    std::fs::create_dir_all(&record).unwrap();
    std::fs::write(record.join("manifest"), [0; 100]).unwrap();
    store.update(&ended(1, "a", Outcome::Pass)).unwrap();
    assert_eq!(store.with_files().unwrap()[0].bytes, 100);
    store.pin(&id(1), true).unwrap();
    assert!(matches!(store.delete(&id(1)), Err(StoreError::Pinned(_))));
    store.remove_files(&id(1), 7).unwrap();
    assert!(record.exists() && store.with_files().unwrap().is_empty());
    store.pin(&id(1), false).unwrap();
    store.delete(&id(1)).unwrap();
    assert!(!record.exists());
    assert!(matches!(store.get(&id(1)), Err(StoreError::Unknown(_))));
    assert!(matches!(
        store.create(&run(1, "a")),
        Ok(()) | Err(StoreError::Exists(_))
    ));
}

fn rig_is_held_once_and_tokens_grow(store: SqlStore, _open: &dyn Fn() -> SqlStore) {
    let first = store.put(&lease(1, "a", LeaseState::Active)).unwrap();
    assert!(first > 0);
    let renewed = StoredLease {
        token: first,
        ..lease(1, "a", LeaseState::Active)
    };
    assert_eq!(store.put(&renewed).unwrap(), first, "renewed, not granted anew");
    assert!(matches!(
        store.put(&lease(2, "a", LeaseState::Active)),
        Err(StoreError::Held(_))
    ));
    let second = store.put(&lease(2, "b", LeaseState::Active)).unwrap();
    store.put(&lease(1, "a", LeaseState::Ended)).unwrap();
    let third = store.put(&lease(3, "a", LeaseState::Active)).unwrap();
    assert!(first < second && second < third && store.last_token().unwrap() == third);
    let unended: Vec<LeaseId> = store
        .leases(false, 9)
        .unwrap()
        .into_iter()
        .map(|lease| lease.id)
        .collect();
    assert_eq!(
        unended,
        [lease(3, "", LeaseState::Active).id, lease(2, "", LeaseState::Active).id]
    );
    assert_eq!(store.leases(true, 9).unwrap().len(), 3);
    let of_request = store.lease_of_request(&who(), "l2").unwrap().unwrap();
    assert_eq!((of_request.rig.as_str(), of_request.token), ("b", second));
    assert!(matches!(
        store.lease(&LeaseId::like(&id(9))),
        Err(StoreError::NoLease(_))
    ));
}

fn stored_data_survives_reopening(store: SqlStore, open: &dyn Fn() -> SqlStore) {
    store.create(&run(1, "a")).unwrap();
    let token = store.put(&lease(1, "a", LeaseState::Active)).unwrap();
    drop(store);
    let store = open();
    assert_eq!(numbers(store.list(&Filter::default(), None, 9).unwrap()), [1]);
    assert_eq!(store.unended().unwrap()[0].token, token);
}

fn hosts_see_each_others_runs_and_rigs_and_take_what_waits_once(url: &str) {
    let (dir_a, dir_b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (shared(url, "a", &dir_a).unwrap(), shared(url, "b", &dir_b).unwrap());
    assert!(a.serials().end() < b.serials().start());
    let (lab_a, lab_b) = (a.lab().unwrap(), b.lab().unwrap());
    lab_a.claim(&["a1".into()], true).unwrap();
    let taken = lab_b.claim(&["b1".into(), "a1".into()], true).unwrap_err().to_string();
    assert!(taken.contains("a1") && taken.contains("host \"a\""), "{taken}");
    lab_b.claim(&["b1".into()], true).unwrap();
    lab_b.show(&[("b1".to_string(), vec![7])].into(), &[]).unwrap();
    let seen = &lab_a.elsewhere().unwrap()[0];
    assert_eq!(
        (seen.rig.as_str(), seen.host.as_str(), &seen.body[..], seen.silent_ns),
        ("b1", "b", &[7][..], None)
    );

    a.create(&run(1, "a1")).unwrap();
    let own = Filter {
        own: true,
        ..Filter::default()
    };
    assert_eq!(b.list(&own, None, 9).unwrap().len(), 0);
    assert_eq!(b.get(&id(1)).unwrap().run.host, "a");

    let posted = StoredLease {
        posted: true,
        rigs: vec!["a1".into(), "b1".into()],
        ..lease(2, "", LeaseState::Pending)
    };
    lab_a.post(None, &posted).unwrap();
    assert_eq!((lab_a.posted().unwrap().len(), lab_b.posted().unwrap().len()), (1, 1));
    let granted = |rig: &str| StoredLease {
        state: LeaseState::Active,
        rig: rig.into(),
        ..posted.clone()
    };
    std::thread::scope(|both| {
        let of_a = both.spawn(|| a.put(&granted("a1")));
        let of_b = both.spawn(|| b.put(&granted("b1")));
        let won = [of_a.join().unwrap(), of_b.join().unwrap()];
        assert_eq!(won.iter().filter(|won| won.is_ok()).count(), 1, "{won:?}");
        assert!(
            won.iter().any(|won| matches!(won, Err(StoreError::Taken(_)))),
            "{won:?}"
        );
    });
    assert_eq!((lab_a.posted().unwrap().len(), lab_b.posted().unwrap().len()), (0, 0));

    lab_a
        .remote_request("b", &RemoteRequest::Cancel(id(1), "cert:alice".into()))
        .unwrap();
    assert_eq!(lab_a.remote_requests().unwrap(), []);
    assert_eq!(
        lab_b.remote_requests().unwrap(),
        [RemoteRequest::Cancel(id(1), "cert:alice".into())]
    );
    assert_eq!(lab_b.remote_requests().unwrap(), []);
    let same = shared(url, "a", &dir_b).unwrap_err().to_string();
    assert!(same.contains("another daemon has the name \"a\""), "{same}");
}

fn new_rig_is_claimed_unless_another_host_has_it(url: &str) {
    let (dir_c, dir_d) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = shared(url, "d", &dir_d).unwrap();
    let lab_d = other.lab().unwrap();
    lab_d.claim(&["theirs".into()], true).unwrap();
    let path = dir_c.path().join("rigs.toml");
    let write = |names: &[&str]| {
        let rig = |name: &&str| format!("\n[[rig]]\nname = \"{name}\"\nkind = \"virtual\"\n");
        let rigs: String = names.iter().map(rig).collect();
        std::fs::write(&path, format!("config_version = 1\n{rigs}")).unwrap();
    };
    write(&["first"]);
    let mut rigs = RigFile::load(Some(&path)).unwrap();
    of_lab(&mut rigs);
    let store = Arc::new(shared(url, "c", &dir_c).unwrap());
    store.lab().unwrap().claim(&["first".into()], true).unwrap();
    let state = StateDirectory::at(dir_c.path());
    let scheduler = {
        let runtime = runtime();
        let _entered = runtime.enter();
        let execute = Arc::new(Workers { state: state.clone() });
        Scheduler::start(rigs, &state, store, execute).unwrap()
    };
    let of_c = || -> Vec<String> {
        let all = lab_d.elsewhere().unwrap().into_iter();
        all.filter(|rig| rig.host == "c").map(|rig| rig.rig).collect()
    };
    write(&["first", "second"]);
    let done = scheduler.reload().unwrap();
    assert_eq!((done.added, done.removed), (vec!["second".into()], vec![]));
    assert_eq!(of_c(), ["first", "second"]);
    let taken = lab_d.claim(&["second".into()], false).unwrap_err();
    assert!(matches!(taken, StoreError::RigOfAnother { .. }), "{taken}");

    write(&["first", "third", "theirs"]);
    let refused = scheduler.reload().unwrap_err().to_string();
    assert!(
        refused.contains("host \"d\" has a rig theirs too") && refused.contains("the rigs stay as they were"),
        "{refused}"
    );
    assert_eq!(of_c(), ["first", "second"]);
    assert!(scheduler.rigs().find("second").is_ok() && scheduler.rigs().find("third").is_err());

    // When the rig leaves this host, a pending lease for any host stays pending for the other hosts. An active lease
    // keeps its rig.
    let of_c_alone = StoredLease {
        posted: true,
        host: "c".into(),
        rigs: vec!["second".into()],
        ..lease(7, "", LeaseState::Pending)
    };
    lab_d.post(None, &of_c_alone).unwrap();
    let of_any = StoredLease {
        posted: true,
        rigs: vec!["second".into(), "theirs".into()],
        ..lease(8, "", LeaseState::Pending)
    };
    lab_d.post(None, &of_any).unwrap();
    scheduler.meet().unwrap();
    assert_eq!(other.lease(&of_c_alone.id).unwrap().state, LeaseState::Active);
    write(&["first"]);
    assert_eq!(scheduler.reload().unwrap().leaving, ["second"]);
    assert_eq!(other.lease(&of_c_alone.id).unwrap().state, LeaseState::Active);
    let waits = other.lease(&of_any.id).unwrap();
    assert_eq!((waits.state, &waits.rigs), (LeaseState::Pending, &of_any.rigs));
    assert_eq!(of_c(), ["first", "second"], "it is this host's until it is let go");
}

fn absent_database_grants_nothing_and_gets_events_later(server: &mut Postgres) {
    let url = server.url();
    let state = tempfile::tempdir().unwrap();
    let store = shared(&url, "a", &state).unwrap();
    store.create(&run(1, "a1")).unwrap();
    let token = store.put(&lease(1, "a1", LeaseState::Active)).unwrap();
    server.kill();
    let away = |error: StoreError| matches!(error, StoreError::Away { .. });
    assert!(away(store.create(&run(2, "a1")).unwrap_err()));
    assert!(away(store.put(&lease(2, "a2", LeaseState::Active)).unwrap_err()));
    assert!(away(store.get(&id(1)).unwrap_err()));
    // These events have happened, so the store accepts them while the database is unavailable.
    store.append(&id(1), &[line(1)]).unwrap();
    store.append(&id(1), &[line(2)]).unwrap();
    store.update(&ended(1, "a1", Outcome::Pass)).unwrap();
    store
        .put(&StoredLease {
            token,
            ..lease(1, "a1", LeaseState::Ended)
        })
        .unwrap();
    // A daemon that dies before the database is back does not lose these events.
    drop(store);
    server.go_on().unwrap();
    let store = shared(&url, "a", &state).unwrap();
    assert_eq!(store.get(&id(1)).unwrap().run.outcome, Some(Outcome::Pass));
    assert_eq!(store.events(&id(1), 0, 9).unwrap().len(), 2);
    let lease_now = store.lease(&LeaseId::like(&id(1))).unwrap();
    assert_eq!((lease_now.state, lease_now.token), (LeaseState::Ended, token));
    assert!(store.put(&lease(3, "a1", LeaseState::Active)).unwrap() > token);
    // A running daemon reconnects by itself.
    server.kill();
    assert!(away(store.put(&lease(4, "a2", LeaseState::Active)).unwrap_err()));
    store.append(&id(1), &[line(3)]).unwrap();
    server.go_on().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(240);
    while store.lab().unwrap().beat().is_err() {
        assert!(std::time::Instant::now() < until, "it is not found again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(store.events(&id(1), 0, 9).unwrap().len(), 3);
}

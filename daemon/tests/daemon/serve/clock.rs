//! Steps of the wall clock, forwards and backwards, while leases are held, runs are running, and the daemon is stopped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;
use verbatim_daemon::access::Identity;
use verbatim_daemon::sched::{Execute, Scheduler};
use verbatim_daemon::store::retention::Retention;
use verbatim_daemon::store::{
    AskedLease, BootTimes, Clock, Filter, HistoryStore, LeaseId, LeaseStore, SqlStore, Store, StoredLease,
};
use verbatim_proto::v1::{LeaseState, Priority, RunState};
use verbatim_rig::RigFile;
use verbatim_run::state::StateDirectory;
use verbatim_run::{RunId, boot_ns};

use super::scripted::{Steps, all, create, start, watch};

const S: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * S;
const YEAR: i64 = 365 * 24 * 3600;
/// A date far in the future, so that nothing depends on the real time.
const BEGAN: u64 = 4_000_000_000 * S;

/// A clock that only moves when a test sets it.
#[derive(Clone)]
struct Set(Arc<AtomicU64>);

impl Set {
    fn new() -> Self {
        Self(Arc::new(BEGAN.into()))
    }

    fn step(&self, seconds: i64) {
        self.0
            .store(self.now().saturating_add_signed(seconds * S as i64), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn store(&self, directory: &Path) -> Arc<SqlStore> {
        let clock = self.clone();
        let clock = Clock::new(move || clock.now());
        Arc::new(SqlStore::sqlite_by(&StateDirectory::at(directory), clock).unwrap())
    }
}

/// Runs `work` as a daemon would, in a runtime of its own. The runtime has ended when this function returns.
fn in_a_daemon<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_secs(60));
    done
}

fn scheduler(directory: &Path, store: &Arc<SqlStore>) -> Arc<Scheduler> {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let execute = Arc::<Steps>::default() as Arc<dyn Execute>;
    Scheduler::start(RigFile::built_in(), &StateDirectory::at(directory), store, execute).unwrap()
}

fn step() -> impl Strategy<Value = i64> {
    prop_oneof![-10 * YEAR..10 * YEAR, -7200..7200_i64, Just(0)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn runs_keep_order_over_clock_steps(
        steps in prop::collection::vec((step(), step()), 1..4)
    ) {
        let (directory, clock) = (tempfile::tempdir().unwrap(), Set::new());
        let mut asked = Vec::new();
        for (away, within) in steps {
            clock.step(away);
            in_a_daemon(async {
                let execute = Arc::new(Steps::default());
                let runs = start(directory.path(), clock.store(directory.path()), &execute);
                for _ in 0..2 {
                    let run = create(&runs).await;
                    all(watch(&runs, &run.name).await).await;
                    asked.push(run.name);
                    clock.step(within);
                }
            });
        }
        let kept = clock.store(directory.path()).list(&Filter::default(), None, usize::MAX).unwrap();
        let listed: Vec<String> = kept.iter().rev().map(|kept| format!("runs/{}", kept.run.id)).collect();
        prop_assert_eq!(listed, asked);
        for run in kept.iter().map(|kept| &kept.run) {
            prop_assert_eq!(run.state, RunState::Ended);
            prop_assert!(Some(run.created_ns) <= run.started_ns && run.started_ns <= run.ended_ns, "{:?}", run);
        }
    }

    #[test]
    fn waiting_runs_keep_order_over_clock_steps(away in step()) {
        let (directory, clock) = (tempfile::tempdir().unwrap(), Set::new());
        let mut asked = Vec::new();
        in_a_daemon(async {
            let execute = Arc::new(Steps { waits: AtomicBool::new(true), ..Steps::default() });
            let runs = start(directory.path(), clock.store(directory.path()), &execute);
            for _ in 0..4 {
                asked.push(create(&runs).await.name);
                clock.step(1);
            }
        });
        clock.step(away);
        let store = clock.store(directory.path());
        in_a_daemon(async {
            let execute = Arc::<Steps>::default();
            let runs = start(directory.path(), Arc::clone(&store) as Arc<dyn Store>, &execute);
            let late = create(&runs).await.name;
            all(watch(&runs, &late).await).await;
            asked.push(late);
            for name in &asked {
                all(watch(&runs, name).await).await;
            }
        });
        // Tokens grow with each grant, so they show the order. The first run is left out: it was already running,
        // and ended with the daemon.
        let mut leases = store.leases(true, usize::MAX).unwrap();
        leases.retain(|lease| lease.run.as_ref().is_some_and(|run| format!("runs/{run}") != asked[0]));
        leases.sort_by_key(|lease| lease.token);
        let order: Vec<String> = leases.iter().filter_map(|lease| Some(format!("runs/{}", lease.run.as_ref()?))).collect();
        prop_assert_eq!(&order[..], &asked[1..]);
    }
}

/// Stores a lease on the built-in rig that was granted an hour ago by the wall clock and expires in an hour.
fn held(store: &SqlStore, clock: &Set, boot: Option<BootTimes>) -> LeaseId {
    let id = LeaseId::like(&RunId::new(clock.now(), 0));
    let lease = StoredLease {
        id: id.clone(),
        owner: Identity::User(7),
        request_id: String::new(),
        state: LeaseState::Active,
        priority: Priority::Normal,
        rigs: vec!["virtual".into()],
        rig: "virtual".into(),
        token: 1,
        run: None,
        lasts_s: 7200,
        created_ns: clock.now() - HOUR,
        granted_ns: Some(clock.now() - HOUR),
        until_ns: Some(clock.now() + HOUR),
        ended_ns: None,
        reason: String::new(),
        host: String::new(),
        posted: false,
        attended: false,
        boot,
        asked: AskedLease::default(),
    };
    store.put(&lease).unwrap();
    id
}

/// Steps the wall clock by `away` seconds before the next daemon starts. Returns the seconds until the lease
/// expires there; `None` if the lease has ended.
fn left_after(away: i64, boot: Option<BootTimes>) -> Option<u64> {
    let (directory, clock): (TempDir, _) = (tempfile::tempdir().unwrap(), Set::new());
    let store = clock.store(directory.path());
    let id = held(&store, &clock, boot);
    clock.step(away);
    in_a_daemon(async {
        let scheduler = scheduler(directory.path(), &store);
        let view = scheduler.lease(&id).unwrap();
        let until = view.lease.until_ns.unwrap().saturating_sub(clock.now()) / S;
        (view.lease.state == LeaseState::Active).then_some(until)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lease_expires_by_boot_clock_within_a_boot(away in step()) {
        let of = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_string();
        let boot = BootTimes { of, granted_ns: boot_ns() - S, until_ns: boot_ns() + HOUR };
        let left = left_after(away, Some(boot.clone()));
        prop_assert!(left.is_some_and(|left| left <= 3600), "{left:?}");
        // If the host was rebooted, only the wall clock tells the age of the lease. The lease still lasts at most
        // `LONGEST_LEASE`.
        let left = left_after(away, Some(BootTimes { of: "another".into(), ..boot }));
        match away {
            3600.. => prop_assert_eq!(left.unwrap_or(0), 0),
            away if away > 3000 => {}
            _ => prop_assert!(left.is_some_and(|left| left <= 24 * 3600), "{left:?}"),
        }
    }
}

#[test]
fn forward_clock_step_deletes_nothing() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), Set::new());
    let store = clock.store(directory.path());
    let limits = Retention {
        age: Some(Duration::from_secs(24 * 3600)),
        bytes: None,
    };
    in_a_daemon(async {
        let execute = Arc::<Steps>::default();
        let runs = start(directory.path(), Arc::clone(&store) as Arc<dyn Store>, &execute);
        let run = create(&runs).await;
        all(watch(&runs, &run.name).await).await;
    });
    in_a_daemon(async {
        let scheduler = scheduler(directory.path(), &store);
        clock.step(YEAR);
        scheduler.tidy(limits);
        assert_eq!(store.with_files().unwrap().len(), 1, "the clock may be wrong");
        assert!(!store.leases(true, 10).unwrap().is_empty());
    });
    in_a_daemon(async {
        let scheduler = scheduler(directory.path(), &store);
        scheduler.tidy(limits);
        assert_eq!(
            store.with_files().unwrap().len(),
            0,
            "whoever starts it anew has looked"
        );
    });
}

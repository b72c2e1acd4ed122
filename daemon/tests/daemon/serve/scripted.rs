//! The scheduler and the services in one process, with executions that a test controls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::StreamExt;
use tonic::Request;
use verbatim_daemon::access::{Access, Audit, Caller, Identity, Table};
use verbatim_daemon::api::{Runs, Shared};
use verbatim_daemon::sched::{Execute, Scheduler};
use verbatim_daemon::store::retention::Files;
use verbatim_daemon::store::{
    Detail, Filter, HistoryStore, LeaseId, LeaseStore, RunEntry, SqlStore, Store, StoreError, StoredLease, StoredRun,
};
use verbatim_daemon::worker::{Job, WorkerEnd};
use verbatim_proto::v1::run_service_server::RunService;
use verbatim_proto::v1::{
    CancelRunRequest, Cause, GetRunRequest, Outcome, Run, RunEvent, RunState, StepStarted, Verdict, WatchRunRequest,
    WatchRunResponse,
};
use verbatim_proto::worker::RigText;
use verbatim_record::Restored;
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::state::StateDirectory;
use verbatim_run::{Event, RunId};

use super::harness::{request, within};

/// An executor whose runs send `count` steps and then fail. If `waits` is true, a run waits between the last step and
/// its failure, until `go_on` or a cancel.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) count: usize,
    pub(crate) go_on: Notify,
    pub(crate) waits: AtomicBool,
    pub(crate) panics: AtomicBool,
}

#[tonic::async_trait]
impl Execute for Steps {
    async fn run(&self, _: Job, events: mpsc::UnboundedSender<Event>, mut cancel: watch::Receiver<bool>) -> WorkerEnd {
        assert!(!self.panics.load(Ordering::Relaxed), "as a test asked");
        for step in 0..self.count {
            events
                .send(Event::StepStarted(StepStarted {
                    step: format!("step {step}, {}", "x".repeat(100)),
                }))
                .unwrap();
        }
        if self.waits.load(Ordering::Relaxed) {
            tokio::select! {
                () = self.go_on.notified() => {}
                stopped = cancel.wait_for(|stopped| *stopped) => { stopped.unwrap(); }
            }
        }
        WorkerEnd::Failed {
            cause: Cause::Rig,
            reason: "as the script has it".into(),
            not_restored: false,
        }
    }

    async fn restore(
        &self,
        _: RigConfig,
        _: RigText,
        _: mpsc::UnboundedSender<Event>,
        _: watch::Receiver<bool>,
    ) -> Result<Vec<Restored>, String> {
        Ok(Vec::new())
    }
}

pub(crate) fn start(directory: &Path, store: Arc<dyn Store>, execute: &Arc<Steps>) -> Runs {
    let state = StateDirectory::at(directory);
    let execute = Arc::clone(execute) as Arc<dyn Execute>;
    let scheduler = Scheduler::start(RigFile::built_in(), &state, store, execute).unwrap();
    let access = Arc::new(Access::new(Table::usual(OWNER)));
    Runs::new(Shared::new(scheduler, access, Audit::open(directory).unwrap()))
}

/// The user of the daemon's process.
const OWNER: u32 = 1000;

/// Returns a request of this user.
fn of_user<T>(uid: u32, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller::user(uid, uid));
    request
}

fn ask<T>(message: T) -> Request<T> {
    of_user(OWNER, message)
}

fn files(directory: &Path) -> Arc<SqlStore> {
    Arc::new(SqlStore::sqlite(&StateDirectory::at(directory)).unwrap())
}

pub(crate) async fn create(runs: &Runs) -> Run {
    let wanted = request("virtual", &["c14-024-node-info"]);
    within(runs.create_run(ask(wanted)))
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap()
}

pub(crate) async fn get(runs: &Runs, name: &str) -> Run {
    let name = name.to_string();
    within(runs.get_run(ask(GetRunRequest { name })))
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap()
}

pub(crate) async fn watch(runs: &Runs, name: &str) -> <Runs as RunService>::WatchRunStream {
    let request = WatchRunRequest {
        name: name.into(),
        cursor: 0,
    };
    within(runs.watch_run(ask(request))).await.unwrap().into_inner()
}

pub(crate) async fn all(mut watch: <Runs as RunService>::WatchRunStream) -> Vec<WatchRunResponse> {
    let mut events = Vec::new();
    while let Some(event) = within(watch.next()).await {
        events.push(event.unwrap());
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_watchers_delay_no_run() {
    const STEPS: usize = 50_000;
    let directory = tempfile::tempdir().unwrap();
    let steps = Arc::new(Steps {
        count: STEPS,
        waits: true.into(),
        ..Steps::default()
    });
    let runs = start(directory.path(), files(directory.path()), &steps);
    let run = create(&runs).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(watch(&runs, &run.name).await);
    }
    steps.go_on.notify_one();
    let seen = all(watch(&runs, &run.name).await).await;
    assert_eq!(get(&runs, &run.name).await.state(), RunState::Ended);
    assert_eq!(seen.len(), STEPS + 3);
    let late = all(silent.swap_remove(7)).await;
    assert_eq!(late, seen, "and what they did not take is there for them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_fails_only_its_run() {
    let directory = tempfile::tempdir().unwrap();
    let steps = Arc::new(Steps::default());
    let runs = start(directory.path(), files(directory.path()), &steps);
    steps.panics.store(true, Ordering::Relaxed);
    let run = create(&runs).await;
    all(watch(&runs, &run.name).await).await;
    let run = get(&runs, &run.name).await;
    assert_eq!((run.state(), run.outcome()), (RunState::Ended, Outcome::Error));
    assert!(
        run.reason.contains("the daemon failed within the run"),
        "{}",
        run.reason
    );
    steps.panics.store(false, Ordering::Relaxed);
    let next = create(&runs).await;
    all(watch(&runs, &next.name).await).await;
    assert_eq!(get(&runs, &next.name).await.reason, "as the script has it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_fails_only_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(FullDisk {
        store: files(directory.path()),
        full: AtomicBool::new(false),
    });
    let steps = Arc::new(Steps {
        count: 3,
        waits: true.into(),
        ..Steps::default()
    });
    let runs = start(directory.path(), Arc::clone(&store) as Arc<dyn Store>, &steps);
    let run = create(&runs).await;
    let mut watcher = watch(&runs, &run.name).await;
    for _ in 0..5 {
        within(watcher.next()).await.unwrap().unwrap();
    }
    store.full.store(true, Ordering::Relaxed);
    steps.go_on.notify_one();
    let end = all(watcher).await;
    assert!(format!("{:?}", end.last()).contains("could not be stored"), "{end:?}");
    let ended = get(&runs, &run.name).await;
    assert_eq!((ended.state(), ended.outcome()), (RunState::Ended, Outcome::Error));
    assert!(ended.reason.contains("free space"), "{}", ended.reason);
    let again = all(watch(&runs, &run.name).await).await;
    assert!(
        format!("{:?}", again.last()).contains("could not be stored"),
        "a later watcher is told too"
    );
    let wanted = request("virtual", &["c14-024-node-info"]);
    let refused = runs.create_run(ask(wanted)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    store.full.store(false, Ordering::Relaxed);
    steps.waits.store(false, Ordering::Relaxed);
    let next = create(&runs).await;
    assert_eq!(all(watch(&runs, &next.name).await).await.len(), 6);
    assert_eq!(get(&runs, &next.name).await.reason, "as the script has it");
    // Count only the lease of the first run: the lease of the second run may still be listed, because its end may
    // not be written yet.
    let held = store.store.unended().unwrap();
    let of_first = held.iter().filter(|lease| lease.token == 1).count();
    assert_eq!(of_first, 0, "what could not be written was written later: {held:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_needs_the_stored_leases() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(FullDisk {
        store: files(directory.path()),
        full: AtomicBool::new(true),
    });
    let state = StateDirectory::at(directory.path());
    let error = Scheduler::start(RigFile::built_in(), &state, store, Arc::<Steps>::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the daemon cannot read the leases of the rigs"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_exceed_fences_after_database_loss() {
    let directory = tempfile::tempdir().unwrap();
    let journals = StateDirectory::at(directory.path()).journals();
    std::fs::create_dir_all(journals.join("another")).unwrap();
    std::fs::write(journals.join("another/another.token"), "41\n").unwrap();
    let store = files(directory.path());
    let steps = Arc::new(Steps::default());
    let runs = start(directory.path(), Arc::clone(&store) as Arc<dyn Store>, &steps);
    let run = create(&runs).await;
    all(watch(&runs, &run.name).await).await;
    assert_eq!(store.last_token().unwrap(), 42);
}

/// A store on a disk that can be full.
#[derive(Debug)]
struct FullDisk {
    store: Arc<SqlStore>,
    full: AtomicBool,
}

impl FullDisk {
    fn write<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::Io {
                path: "/state".into(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        write()
    }
}

impl HistoryStore for FullDisk {
    fn create(&self, run: &StoredRun) -> Result<(), StoreError> {
        self.write(|| self.store.create(run))
    }
    fn update(&self, run: &StoredRun) -> Result<(), StoreError> {
        // A real store remembers the new state in memory if the write fails, so that `get` still returns it. To
        // imitate this, update the inner store in any case, then report the failure.
        let updated = self.store.update(run);
        self.write(|| updated)
    }
    fn append(&self, id: &RunId, events: &[RunEvent]) -> Result<(), StoreError> {
        self.write(|| self.store.append(id, events))
    }
    fn get(&self, id: &RunId) -> Result<RunEntry, StoreError> {
        self.store.get(id)
    }
    fn of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredRun>, StoreError> {
        self.store.of_request(owner, request_id)
    }
    fn list(&self, filter: &Filter, after: Option<&RunId>, at_most: usize) -> Result<Vec<RunEntry>, StoreError> {
        self.store.list(filter, after, at_most)
    }
    fn verdicts(&self, id: &RunId, detail: Detail) -> Result<Vec<Verdict>, StoreError> {
        self.store.verdicts(id, detail)
    }
    fn events(&self, id: &RunId, after: u64, at_most: usize) -> Result<Vec<RunEvent>, StoreError> {
        self.store.events(id, after, at_most)
    }
    fn last_event(&self, id: &RunId) -> Result<Option<RunEvent>, StoreError> {
        self.store.last_event(id)
    }
    fn pin(&self, id: &RunId, pinned: bool) -> Result<(), StoreError> {
        self.write(|| self.store.pin(id, pinned))
    }
    fn delete(&self, id: &RunId) -> Result<(), StoreError> {
        self.write(|| self.store.delete(id))
    }
    fn with_files(&self) -> Result<Vec<Files>, StoreError> {
        self.store.with_files()
    }
    fn remove_files(&self, id: &RunId, now_ns: u64) -> Result<(), StoreError> {
        self.write(|| self.store.remove_files(id, now_ns))
    }
    fn record(&self, run: &StoredRun) -> PathBuf {
        self.store.record(run)
    }
}

impl LeaseStore for FullDisk {
    fn put(&self, lease: &StoredLease) -> Result<u64, StoreError> {
        self.write(|| self.store.put(lease))
    }
    fn lease(&self, id: &LeaseId) -> Result<StoredLease, StoreError> {
        self.store.lease(id)
    }
    fn lease_of_request(&self, owner: &Identity, request_id: &str) -> Result<Option<StoredLease>, StoreError> {
        self.store.lease_of_request(owner, request_id)
    }
    fn leases(&self, ended: bool, at_most: usize) -> Result<Vec<StoredLease>, StoreError> {
        self.store.leases(ended, at_most)
    }
    fn unended(&self) -> Result<Vec<StoredLease>, StoreError> {
        self.write(|| self.store.unended())
    }
    fn take_back(&self, id: &LeaseId) -> Result<(), StoreError> {
        self.write(|| self.store.take_back(id))
    }
    fn forget_ended(&self, before_ns: u64) -> Result<u64, StoreError> {
        self.write(|| self.store.forget_ended(before_ns))
    }
    fn last_token(&self) -> Result<u64, StoreError> {
        self.store.last_token()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owner_or_admin_cancels_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let execute = Arc::new(Steps {
        waits: AtomicBool::new(true),
        ..Steps::default()
    });
    let runs = start(directory.path(), files(directory.path()), &execute);
    let cancel = |uid: u32, name: &str| {
        let request = CancelRunRequest { name: name.into() };
        within(runs.cancel_run(of_user(uid, request)))
    };
    for ends_it in [1001, OWNER] {
        let wanted = request("virtual", &["c14-024-node-info"]);
        let created = within(runs.create_run(of_user(1001, wanted))).await.unwrap();
        let run = created.into_inner().run.unwrap();
        assert_eq!(run.owner, "uid:1001");
        let refused = cancel(1002, &run.name).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(
            refused.message().contains("the owner, uid:1001"),
            "{}",
            refused.message()
        );
        assert!(get(&runs, &run.name).await.reason.is_empty());
        cancel(ends_it, &run.name).await.unwrap();
        all(watch(&runs, &run.name).await).await;
        let ended = get(&runs, &run.name).await;
        assert!(
            ended
                .reason
                .contains(&format!("cancelled by {}", Identity::User(ends_it).in_words())),
            "{}",
            ended.reason
        );
    }
    let log = std::fs::read_to_string(directory.path().join("audit.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["who"].as_str().unwrap(),
                line["what"].as_str().unwrap(),
                line["refused"] == "",
            )
        })
        .collect();
    let expected = |ends_it| {
        [
            ("uid:1001", "CreateRun", true),
            ("uid:1002", "CancelRun", false),
            (ends_it, "CancelRun", true),
        ]
    };
    assert_eq!(told, [expected("uid:1001"), expected("uid:1000")].concat());
    assert!(
        lines
            .iter()
            .all(|line| line["rig"] == "virtual" && line["device"].as_str().is_some_and(|device| !device.is_empty()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_unknown_caller() {
    let directory = tempfile::tempdir().unwrap();
    let runs = start(directory.path(), files(directory.path()), &Arc::default());
    let refused = within(runs.create_run(Request::new(request("virtual", &[]))))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
}

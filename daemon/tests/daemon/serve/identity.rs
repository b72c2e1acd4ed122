//! The identity of a client: a withdrawn role, a repeated request, and M_Keys that only operators see.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio_stream::StreamExt as _;
use tonic::{Code, Request};
use verbatim_daemon::access::{Access, Audit, Caller, Grant, Role, Table, Who};
use verbatim_daemon::api::{Leases, Rigs, Runs, Shared};
use verbatim_daemon::sched::Scheduler;
use verbatim_daemon::store::{HistoryStore as _, SqlStore};
use verbatim_proto::v1::lease_service_server::LeaseService as _;
use verbatim_proto::v1::rig_service_server::RigService as _;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::run_service_server::RunService as _;
use verbatim_proto::v1::{
    Check, CreateLeaseRequest, CreateRunRequest, EndLeaseRequest, GetLeaseRequest, GetRigRequest, GetRunRequest,
    ListArtifactsRequest, ListLeasesRequest, ListRunsRequest, Priority, ReadArtifactRequest, RunEvent, RunSpec,
    RunState, RunStateChanged, TestEnded, Verdict, WatchLeaseRequest, WatchRigsRequest, WatchRunRequest,
};
use verbatim_rig::RigFile;
use verbatim_run::state::StateDirectory;

use super::harness::{request, within};
use super::scripted::Steps;

/// The user of the daemon's process.
const OWNER: u32 = 1000;
const USER: u32 = 1001;

/// The services of a daemon in this process, whose runs wait.
struct Served {
    _directory: tempfile::TempDir,
    access: Arc<Access>,
    store: Arc<SqlStore>,
    runs: Runs,
    leases: Leases,
    rigs: Rigs,
}

impl Served {
    fn new() -> Self {
        Self::with(RigFile::built_in())
    }

    fn with(rigs: RigFile) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let store = Arc::new(SqlStore::sqlite(&state).unwrap());
        let execute = Arc::new(Steps {
            count: 1,
            waits: AtomicBool::new(true),
            ..Steps::default()
        });
        let kept = Arc::clone(&store);
        let scheduler = Scheduler::start(rigs, &state, kept, execute).unwrap();
        let access = Arc::new(Access::new(roles(Some(Role::Operator))));
        let shared = Shared::new(scheduler, Arc::clone(&access), Audit::open(directory.path()).unwrap());
        Self {
            _directory: directory,
            access,
            store,
            runs: Runs::new(Arc::clone(&shared)),
            leases: Leases::new(Arc::clone(&shared)),
            rigs: Rigs::new(shared),
        }
    }
}

/// Returns the roles of a daemon at which the user has this role.
fn roles(of_user: Option<Role>) -> Table {
    let grant = |role| Grant {
        role,
        who: vec![Who::User(USER)],
        rigs: Vec::new(),
    };
    Table::new(OWNER, of_user.map(grant).into_iter().collect())
}

fn ask<T>(message: T) -> Request<T> {
    by(USER, message)
}

fn by<T>(user: u32, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller::user(user, user));
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_role_ends_open_watches() {
    let served = Served::new();
    let wanted = request("virtual", &["c14-024-node-info"]);
    let run = within(served.runs.create_run(ask(wanted))).await.unwrap().into_inner();
    let run = run.run.unwrap();
    let (name, cursor) = (run.name.clone(), 0);
    let of_run = within(served.runs.watch_run(ask(WatchRunRequest { name, cursor }))).await;
    let of_lease = within(served.leases.watch_lease(ask(WatchLeaseRequest { name: run.lease }))).await;
    let of_rigs = within(served.rigs.watch_rigs(ask(WatchRigsRequest {}))).await;
    let (mut of_run, mut of_lease, mut of_rigs) = (
        of_run.unwrap().into_inner(),
        of_lease.unwrap().into_inner(),
        of_rigs.unwrap().into_inner(),
    );
    // A viewer may continue to watch, so this change ends no stream.
    served.access.replace(roles(Some(Role::Viewer)));
    within(of_run.next()).await.unwrap().unwrap();
    within(of_lease.next()).await.unwrap().unwrap();
    within(of_rigs.next()).await.unwrap().unwrap();
    served.access.replace(roles(None));
    macro_rules! ends {
        ($($watch:ident),*) => {$(
            let end = within($watch.next()).await.unwrap().unwrap_err();
            assert_eq!(end.code(), Code::PermissionDenied, "{end}");
            assert!(end.message().contains("uid:1001 has no role"), "{end}");
            assert!(within($watch.next()).await.is_none());
        )*};
    }
    ends!(of_run, of_lease, of_rigs);
    // The same request finds the run again, but its sender may no longer see the run.
    let wanted = CreateRunRequest {
        request_id: "again".into(),
        ..request("virtual", &["c14-024-node-info"])
    };
    served.access.replace(roles(Some(Role::Operator)));
    within(served.runs.create_run(ask(wanted.clone()))).await.unwrap();
    let elsewhere = Grant {
        role: Role::Operator,
        who: vec![Who::User(USER)],
        rigs: vec!["other".into()],
    };
    served.access.replace(Table::new(OWNER, vec![elsewhere]));
    let refused = within(served.runs.create_run(ask(wanted))).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_rig_looks_like_an_absent_one() {
    let rig = |name: &str| format!("[[rig]]\nname = \"{name}\"\nkind = \"virtual\"\nlabels = [\"25g\"]\n");
    let text = format!("config_version = 1\n{}{}", rig("open-1"), rig("secret-1"));
    let served = Served::with(RigFile::parse(text.as_bytes(), "/etc/hidden/rigs.toml".as_ref()).unwrap());
    // The owner of the daemon has a run and a lease on the secret rig, and a lease that waits for either rig.
    let by_owner = |message| by(OWNER, message);
    let lease = |rig: &str| CreateLeaseRequest {
        rig: rig.into(),
        ..CreateLeaseRequest::default()
    };
    let run = within(
        served
            .runs
            .create_run(by(OWNER, request("secret-1", &["c14-024-node-info"]))),
    );
    let run = run.await.unwrap().into_inner().run.unwrap();
    let of_secret = within(served.leases.create_lease(by_owner(lease("secret-1"))))
        .await
        .unwrap();
    let of_secret = of_secret.into_inner().lease.unwrap();
    within(served.leases.create_lease(by_owner(lease("open-1"))))
        .await
        .unwrap();
    let either = CreateLeaseRequest {
        labels: vec!["25g".into()],
        ..CreateLeaseRequest::default()
    };
    let either = within(served.leases.create_lease(by_owner(either))).await.unwrap();
    let either = either.into_inner().lease.unwrap();
    assert_eq!(either.candidates, ["open-1", "secret-1"]);

    let admin = Grant {
        role: Role::Admin,
        who: vec![Who::User(USER)],
        rigs: vec!["open-1".into()],
    };
    served.access.replace(Table::new(OWNER, vec![admin]));
    let absent_run = "runs/019a3c5e77d1-0000".to_string();
    let absent_lease = absent_run.replace("runs", "leases");
    let mut seen = Vec::new();
    // Each pair has the error for a hidden object, and that for an absent one.
    macro_rules! same {
        ($call:expr, $hidden:expr, $absent:expr) => {
            let call = $call;
            let names: [String; 2] = [$hidden.clone(), $absent.clone()];
            let hidden = within(call(names[0].clone())).await.err().unwrap();
            let absent = within(call(names[1].clone())).await.err().unwrap();
            assert_eq!(hidden.code(), absent.code(), "{hidden} / {absent}");
            let without = |error: &tonic::Status, name: &str| {
                let name = name.split('/').next_back().unwrap();
                error.message().replace(name, "NAME")
            };
            assert_eq!(without(&hidden, &names[0]), without(&absent, &names[1]));
            seen.push(format!("{absent:?}"));
        };
    }
    let (secret, absent) = ("rigs/secret-1".to_string(), "rigs/secret-2".to_string());
    same!(
        |name: String| served.rigs.get_rig(ask(GetRigRequest { name })),
        secret,
        absent
    );
    same!(
        |name: String| served.runs.create_run(ask(request(&name, &["c14-024-node-info"]))),
        secret,
        absent
    );
    same!(
        |name: String| served.leases.create_lease(ask(lease(&name))),
        secret,
        absent
    );
    same!(
        |name: String| served.runs.get_run(ask(GetRunRequest { name })),
        run.name,
        absent_run
    );
    same!(
        |name: String| served.leases.get_lease(ask(GetLeaseRequest { name })),
        of_secret.name,
        absent_lease
    );
    let under = |lease: String| CreateRunRequest {
        lease,
        ..request("", &["c14-024-node-info"])
    };
    same!(
        |name: String| served.runs.create_run(ask(under(name))),
        of_secret.name,
        absent_lease
    );
    // The caller sees the lease for either rig, but not the secret rig.
    let name = || either.name.clone();
    let listed = within(served.leases.list_leases(ask(ListLeasesRequest::default())))
        .await
        .unwrap();
    seen.push(format!("{:?}", listed.into_inner()));
    let one = within(served.leases.get_lease(ask(GetLeaseRequest { name: name() })))
        .await
        .unwrap();
    let one = one.into_inner().lease.unwrap();
    assert_eq!(one.candidates, ["open-1"]);
    seen.push(format!("{one:?}"));
    let refused = within(served.leases.end_lease(ask(EndLeaseRequest { name: name() })))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    seen.push(format!("{refused:?}"));
    for text in seen {
        assert!(!text.contains("secret-1") && !text.contains("/etc/hidden"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_id_is_bound_to_every_field() {
    let served = Served::new();
    served.access.replace(Table::new(USER, Vec::new()));
    let held = within(served.leases.create_lease(ask(CreateLeaseRequest {
        rig: "virtual".into(),
        ..CreateLeaseRequest::default()
    })));
    let held = held.await.unwrap().into_inner().lease.unwrap();
    let first = CreateRunRequest {
        request_id: "nightly".into(),
        lease: held.name.clone(),
        ..request("", &["c14-024-node-info"])
    };
    let run = within(served.runs.create_run(ask(first.clone()))).await.unwrap();
    let run = run.into_inner().run.unwrap();
    // The request may name the rig of the lease or not.
    let spec = first.spec.clone().unwrap();
    let with = |spec| CreateRunRequest {
        spec: Some(spec),
        ..first.clone()
    };
    let same = with(RunSpec {
        rig: "rigs/virtual".into(),
        ..spec.clone()
    });
    for same in [first.clone(), same] {
        let again = within(served.runs.create_run(ask(same))).await.unwrap().into_inner();
        assert_eq!(again.run.unwrap().name, run.name);
    }
    let of_spec = |change: fn(&mut RunSpec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        with(spec)
    };
    let of_run = |change: fn(&mut CreateRunRequest)| {
        let mut request = first.clone();
        change(&mut request);
        request
    };
    let others = [
        ("rig", of_spec(|spec| spec.rig = "broken".into())),
        ("patterns", of_spec(|spec| spec.patterns.clear())),
        (
            "parameters",
            of_spec(|spec| spec.parameters = [("wait_s".into(), 1)].into()),
        ),
        ("seed", of_spec(|spec| spec.seed = 1)),
        ("exit_first", of_spec(|spec| spec.exit_first = true)),
        ("lease", of_run(|run| run.lease.clear())),
        ("priority", of_run(|run| run.priority = Priority::High.into())),
        ("own_lease", of_run(|run| run.own_lease = true)),
        ("wait_at_most_s", of_run(|run| run.wait_at_most_s = Some(0))),
        ("attended", of_run(|run| run.attended = true)),
    ];
    for (field, other) in others {
        let other = match field {
            // Without a lease, a request without a rig would differ in the rig.
            "lease" => CreateRunRequest {
                spec: of_spec(|spec| spec.rig = "virtual".into()).spec,
                ..other
            },
            _ => other,
        };
        let refused = within(served.runs.create_run(ask(other))).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{field}: {refused}");
        assert!(refused.message().contains(&format!("differs in {field};")), "{refused}");
    }
    let first = CreateLeaseRequest {
        request_id: "night".into(),
        labels: vec!["kind=virtual".into()],
        ..CreateLeaseRequest::default()
    };
    let lease = within(served.leases.create_lease(ask(first.clone()))).await.unwrap();
    let lease = lease.into_inner().lease.unwrap();
    let of = |change: fn(&mut CreateLeaseRequest)| {
        let mut request = first.clone();
        change(&mut request);
        request
    };
    let same = of(|lease| (lease.lasts_s, lease.priority) = (3600, Priority::Normal.into()));
    for same in [first.clone(), same] {
        let again = within(served.leases.create_lease(ask(same)))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(again.lease.unwrap().name, lease.name);
    }
    for (field, other) in [
        ("rig", of(|lease| lease.rig = "virtual".into())),
        ("labels", of(|lease| lease.labels.push("25g".into()))),
        ("lasts_s", of(|lease| lease.lasts_s = 1)),
        ("priority", of(|lease| lease.priority = Priority::High.into())),
        ("attended", of(|lease| lease.attended = true)),
    ] {
        let refused = within(served.leases.create_lease(ask(other))).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists, "{field}: {refused}");
        assert!(refused.message().contains(&format!("differs in {field};")), "{refused}");
    }
}

const KEY: &str = "0x83eef1b574723f2b";

#[tokio::test(flavor = "multi_thread")]
async fn viewer_sees_no_m_keys_and_no_record() {
    let served = Served::new();
    let mut stored = super::damage::run(3, RunState::Ended);
    stored.spec.rig = "virtual".into();
    stored.reason = format!("no answer with any M_Key that may be in force ({KEY})");
    served.store.create(&stored).unwrap();
    let verdict = Verdict {
        test: "c14-016-get".into(),
        findings: vec![Check {
            about: "PortInfo M_Key".into(),
            seen: KEY.into(),
            ..Check::default()
        }],
        reason: format!("the device has another M_Key, {KEY}"),
        ..Verdict::default()
    };
    let ended = TestEnded {
        verdict: Some(verdict),
        ..TestEnded::default()
    };
    let event = |cursor, event| RunEvent {
        cursor,
        event: Some(event),
        ..RunEvent::default()
    };
    let state = RunStateChanged {
        state: RunState::Ended.into(),
        reason: stored.reason.clone(),
        ..RunStateChanged::default()
    };
    let events = [event(1, Event::TestEnded(ended)), event(2, Event::StateChanged(state))];
    served.store.append(&stored.id, &events).unwrap();
    let name = format!("runs/{}", stored.id);
    let record = served.store.record(&stored);
    std::fs::create_dir_all(&record).unwrap();
    std::fs::write(record.join("run.json"), KEY).unwrap();

    for (role, sees) in [(Role::Operator, true), (Role::Viewer, false)] {
        served.access.replace(roles(Some(role)));
        let run = within(served.runs.get_run(ask(GetRunRequest { name: name.clone() }))).await;
        let list = within(served.runs.list_runs(ask(ListRunsRequest::default()))).await;
        let watch = WatchRunRequest {
            name: name.clone(),
            cursor: 0,
        };
        let watch = within(served.runs.watch_run(ask(watch))).await.unwrap().into_inner();
        let watch: Vec<_> = within(watch.collect()).await;
        let views = [format!("{run:?}"), format!("{list:?}"), format!("{watch:?}")];
        for view in &views {
            assert_eq!((view.contains(KEY), view.contains("M_Key #1")), (sees, !sees), "{view}");
        }
        let artifacts = ListArtifactsRequest { name: name.clone() };
        let listed = within(served.runs.list_artifacts(ask(artifacts))).await;
        for artifact in ["run.json", "run.pcapng"] {
            let read = ReadArtifactRequest {
                name: name.clone(),
                artifact: artifact.into(),
            };
            let read = within(served.runs.read_artifact(ask(read))).await.err();
            let is_denied = read.is_some_and(|error| error.code() == Code::PermissionDenied);
            assert_eq!(is_denied, !sees, "{artifact}");
        }
        match listed {
            Ok(listed) => assert!(sees && listed.into_inner().artifacts.len() == 1),
            Err(error) => assert!(!sees && error.message().contains("role operator"), "{error}"),
        }
    }
    // The role may change while a file is read.
    served.access.replace(roles(Some(Role::Operator)));
    let artifact = "run.json".into();
    let read = within(served.runs.read_artifact(ask(ReadArtifactRequest { name, artifact }))).await;
    let mut read = read.unwrap().into_inner();
    served.access.replace(roles(Some(Role::Viewer)));
    let end = within(read.next()).await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::PermissionDenied);
}

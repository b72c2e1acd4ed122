//! Leases: grants, waits, renewals, ends and expiry, and the runs under leases.

use rustix::process::Signal;
use tonic::Code;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{
    Cause, CreateLeaseRequest, CreateRunRequest, DrainRigRequest, EndLeaseRequest, GetLeaseRequest, Lease, LeaseState,
    ListLeasesRequest, Outcome, Priority, RenewLeaseRequest, RigState, Run, RunSpec, RunState, WatchLeaseRequest,
    WatchRigsRequest,
};

use super::harness::{Bench, Clients, LONG_TEST, WAITS_AT, asked, request, spec, within};

const SHORT_TEST: &str = "c14-024-node-info";

async fn reserve(clients: &mut Clients, rig: &str, lasts_s: u64) -> Lease {
    let request = CreateLeaseRequest {
        rig: rig.into(),
        lasts_s,
        ..CreateLeaseRequest::default()
    };
    let created = within(clients.leases.create_lease(request)).await.unwrap();
    created.into_inner().lease.unwrap()
}

async fn lease(clients: &mut Clients, name: &str) -> Lease {
    let request = GetLeaseRequest { name: name.into() };
    let got = within(clients.leases.get_lease(request)).await.unwrap();
    got.into_inner().lease.unwrap()
}

async fn end(clients: &mut Clients, name: &str) -> Lease {
    let request = EndLeaseRequest { name: name.into() };
    let ended = within(clients.leases.end_lease(request)).await.unwrap();
    ended.into_inner().lease.unwrap()
}

async fn renew(clients: &mut Clients, name: &str, lasts_s: u64) -> Lease {
    let name = name.into();
    let renewed = within(clients.leases.renew_lease(RenewLeaseRequest { name, lasts_s }))
        .await
        .unwrap();
    renewed.into_inner().lease.unwrap()
}

fn under(lease: &Lease, tests: &[&str]) -> CreateRunRequest {
    CreateRunRequest {
        lease: lease.name.clone(),
        ..request("", tests)
    }
}

/// Returns a request for a run with a lease of its own, even if its owner holds the rig.
fn queued(rig: &str) -> CreateRunRequest {
    CreateRunRequest {
        own_lease: true,
        ..request(rig, &[SHORT_TEST])
    }
}

/// Watches a lease until it is in this state.
async fn becomes(clients: &mut Clients, name: &str, state: LeaseState) -> Lease {
    let request = WatchLeaseRequest { name: name.into() };
    let mut watch = within(clients.leases.watch_lease(request)).await.unwrap().into_inner();
    loop {
        let lease = within(watch.message()).await.unwrap().unwrap().lease.unwrap();
        if lease.state() == state {
            return lease;
        }
    }
}

#[tokio::test]
async fn second_lease_waits_with_reason() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let first = reserve(&mut clients, "virtual", 600).await;
    assert_eq!((first.state(), first.rig.as_str()), (LeaseState::Active, "virtual"));
    assert!(first.token > 0 && first.expire_time.is_some() && first.waiting.is_none());
    let second = reserve(&mut clients, "rigs/virtual", 60).await;
    assert_eq!((second.state(), second.token), (LeaseState::Pending, 0));
    let waiting = second.waiting.clone().unwrap();
    assert_eq!(waiting.place, 1);
    assert!(
        waiting.because[0].contains(&first.name) && waiting.because[0].contains(&first.owner_name),
        "{waiting:?}"
    );
    assert!(waiting.latest.unwrap().seconds >= first.expire_time.unwrap().seconds - 1);
    // A run without a reserved lease also waits in the queue, in the place after the second lease.
    let other = clients.create(queued("virtual")).await;
    assert_eq!((other.state(), other.queue_place), (RunState::Queued, 2));
    let run = clients.create(under(&first, &[SHORT_TEST])).await;
    assert_eq!(
        (run.lease.clone(), run.spec.clone().unwrap().rig),
        (first.name.clone(), "virtual".into())
    );
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
    assert_eq!(
        lease(&mut clients, &first.name).await.state(),
        LeaseState::Active,
        "it outlives its runs"
    );
    let rig = clients.rig("rigs/virtual").await;
    assert_eq!(
        (rig.state(), &rig.lease, &rig.holder),
        (RigState::Busy, &first.name, &first.owner)
    );
    let ended = end(&mut clients, &first.name).await;
    assert_eq!(ended.state(), LeaseState::Ended);
    assert!(ended.reason.contains("was ended by "), "{}", ended.reason);
    let second = becomes(&mut clients, &second.name, LeaseState::Active).await;
    assert!(second.token > first.token);
    end(&mut clients, &second.name).await;
    assert_eq!(clients.ended(&other.name).await.outcome(), Outcome::Pass);
    let refused = clients.runs.create_run(under(&first, &[SHORT_TEST])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let listed = within(clients.leases.list_leases(ListLeasesRequest::default()))
        .await
        .unwrap();
    assert_eq!(listed.into_inner().leases, []);
}

#[tokio::test]
async fn expired_lease_stops_its_run() {
    let mut bench = Bench::new();
    bench.start_model();
    let found = bench.key_of_device();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let held = reserve(&mut clients, "model", 600).await;
    clients.holds(&held.name).await;
    let run = clients.create(under(&held, &[LONG_TEST, SHORT_TEST])).await;
    clients.watch(&run.name, 0).await.reaches(WAITS_AT).await;
    assert!(bench.journal().exists(), "the test has changed the device");
    renew(&mut clients, &held.name, 1).await;
    let ended = clients.ended(&run.name).await;
    assert_eq!((ended.outcome(), ended.cause()), (Outcome::Error, Cause::Operator));
    assert!(
        ended.reason.contains("lease") && ended.reason.contains("expired"),
        "{}",
        ended.reason
    );
    let held = becomes(&mut clients, &held.name, LeaseState::Ended).await;
    assert_eq!(held.reason, "expired");
    // The daemon restores the device, and needs it for itself.
    while bench.journal().exists() {
        clients.rig("rigs/model").await;
    }
    assert_eq!(bench.key_of_device(), found);
    let next = clients.create(request("model", &[SHORT_TEST])).await;
    assert_eq!(clients.ended(&next.name).await.outcome(), Outcome::Pass);
}

#[tokio::test]
async fn renewal_reaches_the_worker() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let held = reserve(&mut clients, "model", 600).await;
    clients.holds(&held.name).await;
    let run = clients.create(under(&held, &[LONG_TEST])).await;
    clients.watch(&run.name, 0).await.reaches(WAITS_AT).await;
    let soon = renew(&mut clients, &held.name, 6).await;
    let clock = reserve(&mut clients, "virtual", 7).await;
    let renewed = renew(&mut clients, &held.name, 3600).await;
    assert!(renewed.expire_time.unwrap().seconds > soon.expire_time.unwrap().seconds + 3000);
    // The lease `clock` ends after the time at which `held` would have expired without its second renewal.
    becomes(&mut clients, &clock.name, LeaseState::Ended).await;
    let goes_on = clients.get(&run.name).await;
    assert_eq!(goes_on.state(), RunState::Running, "{}", goes_on.reason);
    let too_long = RenewLeaseRequest {
        name: held.name.clone(),
        lasts_s: 24 * 3600,
    };
    let refused = clients.leases.renew_lease(too_long).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    end(&mut clients, &held.name).await;
    let ended = clients.ended(&run.name).await;
    assert!(ended.reason.contains("was ended by "), "{}", ended.reason);
}

#[tokio::test]
async fn leases_survive_a_restart() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let held = reserve(&mut clients, "virtual", 600).await;
    let waits = reserve(&mut clients, "virtual", 600).await;
    let same = CreateLeaseRequest {
        request_id: "nightly".into(),
        rig: "model".into(),
        ..CreateLeaseRequest::default()
    };
    let asked = within(clients.leases.create_lease(same.clone()))
        .await
        .unwrap()
        .into_inner()
        .lease
        .unwrap();
    let asked = becomes(&mut clients, &asked.name, LeaseState::Active).await;
    drop(clients);
    daemon.end(Signal::KILL).await;
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let now = lease(&mut clients, &held.name).await;
    assert_eq!(
        (now.state(), now.token, &now.rig),
        (LeaseState::Active, held.token, &held.rig)
    );
    assert_eq!(now.expire_time.unwrap().seconds, held.expire_time.unwrap().seconds);
    assert_eq!(lease(&mut clients, &waits.name).await.waiting.unwrap().place, 1);
    let again = within(clients.leases.create_lease(same))
        .await
        .unwrap()
        .into_inner()
        .lease;
    assert_eq!(again.map(|lease| lease.name), Some(asked.name.clone()));
    end(&mut clients, &held.name).await;
    let now = becomes(&mut clients, &waits.name, LeaseState::Active).await;
    assert!(now.token > held.token && now.token > asked.token);
}

#[tokio::test]
async fn labels_select_a_rig() {
    let mut bench = Bench::new();
    bench.start_model();
    let rigs = std::fs::read_to_string(bench.path("rigs.toml")).unwrap();
    std::fs::write(
        bench.path("rigs.toml"),
        format!("{rigs}labels = [\"25g\", \"fw=1.2\"]\n"),
    )
    .unwrap();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let ask = |labels: &[&str]| CreateLeaseRequest {
        labels: labels.iter().map(ToString::to_string).collect(),
        ..CreateLeaseRequest::default()
    };
    let given = within(clients.leases.create_lease(ask(&["25g", "kind=model"])))
        .await
        .unwrap();
    let given = given.into_inner().lease.unwrap();
    assert_eq!(
        becomes(&mut clients, &given.name, LeaseState::Active).await.rig,
        "model"
    );
    // A pending lease has no rig yet, but the audit log names the only rig with its labels.
    let either = within(clients.leases.create_lease(ask(&["kind=model"]))).await.unwrap();
    assert_eq!(either.into_inner().lease.unwrap().state(), LeaseState::Pending);
    let audit = std::fs::read_to_string(bench.path("state/audit.jsonl")).unwrap();
    let told: Vec<serde_json::Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let leased = told.iter().filter(|act| act.to_string().contains("CreateLease"));
    assert_eq!(leased.filter(|act| act["rig"] == "model").count(), 2, "{audit}");
    let refused = clients
        .leases
        .create_lease(ask(&["25g", "kind=umad"]))
        .await
        .unwrap_err();
    assert!(
        refused.message().contains("expected labels that one rig has"),
        "{}",
        refused.message()
    );
    for wrong in [
        ask(&[]),
        CreateLeaseRequest {
            rig: "none".into(),
            ..ask(&[])
        },
        CreateLeaseRequest {
            lasts_s: 10_000_000,
            ..ask(&["25g"])
        },
    ] {
        let refused = clients.leases.create_lease(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
}

#[tokio::test]
async fn watch_sends_all_rigs_then_changes() {
    let mut bench = Bench::new();
    // Without its model, the rig would become unreachable, and the watch would report that change too.
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let mut watch = within(clients.rigs.watch_rigs(WatchRigsRequest {}))
        .await
        .unwrap()
        .into_inner();
    let all = within(watch.message()).await.unwrap().unwrap().rigs;
    assert_eq!(all.len(), 2);
    let drain = |reason: &str| DrainRigRequest {
        name: "rigs/virtual".into(),
        reason: reason.into(),
    };
    within(clients.rigs.drain_rig(drain("new cable"))).await.unwrap();
    let changed = within(watch.message()).await.unwrap().unwrap().rigs;
    let [rig] = &changed[..] else { panic!("{changed:?}") };
    assert_eq!((rig.name.as_str(), rig.state()), ("rigs/virtual", RigState::Draining));
    assert!(rig.state_reason.contains("new cable"), "{}", rig.state_reason);
    let run = clients.create(request("virtual", &[SHORT_TEST])).await;
    assert_eq!(clients.get(&run.name).await.state(), RunState::Queued);
    within(clients.rigs.drain_rig(drain(""))).await.unwrap();
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
}

/// Returns a request for a run of all management tests, which takes a while.
fn long_run(priority: Priority) -> CreateRunRequest {
    CreateRunRequest {
        priority: priority.into(),
        ..request("virtual", &["c14-*"])
    }
}

#[tokio::test]
async fn run_gives_way_to_high_priority() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let low = clients.create(long_run(Priority::Low)).await;
    let high = clients
        .create(CreateRunRequest {
            priority: Priority::High.into(),
            ..request("virtual", &[SHORT_TEST])
        })
        .await;
    let events = clients.watch(&low.name, 0).await.rest().await;
    let (low, high) = (clients.get(&low.name).await, clients.ended(&high.name).await);
    assert_eq!((low.outcome(), high.outcome()), (Outcome::Pass, Outcome::Pass));
    let ended = |run: &Run| run.end_time.map(|time| (time.seconds, time.nanos));
    assert!(ended(&high) < ended(&low), "it went first");
    let states = events.iter().filter_map(|event| match &event.event {
        Some(Event::StateChanged(changed)) => Some((changed.state(), changed.reason.as_str())),
        _ => None,
    });
    let states: Vec<_> = states.collect();
    let [
        (RunState::Queued, ""),
        (RunState::Running, ""),
        (RunState::Queued, why),
        (RunState::Running, ""),
        (RunState::Ended, ""),
    ] = states[..]
    else {
        panic!("{states:?}");
    };
    assert!(why.contains("gave way") && why.contains(&high.lease), "{why}");
    let begun = events.iter().filter_map(|event| match &event.event {
        Some(Event::TestStarted(begun)) => Some(&begun.test),
        _ => None,
    });
    assert!(begun.eq(&low.tests), "each test once, in order");
    assert_eq!(low.verdicts.len(), low.tests.len());
    assert!(
        bench
            .path("state/runs/virtual")
            .join(low.name.trim_start_matches("runs/"))
            .join("record/manifest.json")
            .exists()
    );
}

#[tokio::test]
async fn queue_and_drains_survive_a_restart() {
    for signal in [Signal::KILL, Signal::TERM] {
        let bench = Bench::new();
        let mut daemon = bench.serve();
        let mut clients = bench.clients().await;
        let held = reserve(&mut clients, "virtual", 600).await;
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(clients.create(queued("virtual")).await.name);
        }
        let drain = DrainRigRequest {
            name: "rigs/model".into(),
            reason: "new cable".into(),
        };
        within(clients.rigs.drain_rig(drain)).await.unwrap();
        drop(clients);
        daemon.end(signal).await;
        let _daemon = bench.serve();
        let mut clients = bench.clients().await;
        for (place, run) in (1..).zip(&runs) {
            let run = clients.get(run).await;
            assert_eq!((run.state(), run.queue_place), (RunState::Queued, place));
        }
        let drained = clients.rig("rigs/model").await;
        assert_eq!(drained.state(), RigState::Draining);
        assert!(drained.state_reason.contains("new cable"), "{}", drained.state_reason);
        end(&mut clients, &held.name).await;
        let mut last = None;
        for run in &runs {
            let events = clients.watch(run, 0).await.rest().await;
            assert!(
                (1..).zip(&events).all(|(cursor, event)| event.cursor == cursor),
                "{events:?}"
            );
            let run = clients.get(run).await;
            assert_eq!(run.outcome(), Outcome::Pass, "{}", run.reason);
            let ended = run.end_time.map(|time| (time.seconds, time.nanos));
            assert!(last < ended, "in the same order");
            last = ended;
        }
    }
}

#[tokio::test]
async fn run_of_removed_rig_ends() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    reserve(&mut clients, "model", 600).await;
    let run = clients.create(request("model", &[SHORT_TEST])).await;
    drop(clients);
    daemon.end(Signal::KILL).await;
    std::fs::write(bench.path("rigs.toml"), "config_version = 1\n").unwrap();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let ended = clients.ended(&run.name).await;
    assert_eq!((ended.outcome(), ended.cause()), (Outcome::Error, Cause::Operator));
    assert!(
        ended.reason.contains("rig model is no longer in the rig file"),
        "{}",
        ended.reason
    );
}

#[tokio::test]
async fn unreachable_rig_recovers_by_itself() {
    let mut bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let waits = reserve(&mut clients, "model", 600).await;
    assert_eq!(waits.state(), LeaseState::Pending);
    let request = WatchLeaseRequest {
        name: waits.name.clone(),
    };
    let mut watch = within(clients.leases.watch_lease(request)).await.unwrap().into_inner();
    loop {
        let lease = within(watch.message()).await.unwrap().unwrap().lease.unwrap();
        assert_eq!(lease.state(), LeaseState::Pending);
        if lease
            .waiting
            .unwrap()
            .because
            .iter()
            .any(|why| why.contains("cannot be reached"))
        {
            break;
        }
    }
    let rig = clients.rig("rigs/model").await;
    assert_eq!(rig.state(), RigState::Unreachable);
    assert!(
        rig.state_reason.contains("verbatimd model"),
        "what to do: {}",
        rig.state_reason
    );
    bench.start_model();
    let held = becomes(&mut clients, &waits.name, LeaseState::Active).await;
    assert_eq!(clients.rig("rigs/model").await.state(), RigState::Busy);
    end(&mut clients, &held.name).await;
    let run = clients.create(super::harness::request("model", &[SHORT_TEST])).await;
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
}

#[tokio::test]
async fn drained_rig_keeps_its_queue() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    // This test waits for three seconds, so the run is still running below.
    let under_way = clients
        .create(asked(RunSpec {
            parameters: [("wait_s".to_string(), 3)].into(),
            ..spec("model", &[LONG_TEST])
        }))
        .await;
    clients.watch(&under_way.name, 0).await.reaches(WAITS_AT).await;
    let drain = DrainRigRequest {
        name: "rigs/model".into(),
        reason: "restart".into(),
    };
    within(clients.rigs.drain_rig(drain)).await.unwrap();
    let waits = clients.create(request("model", &[SHORT_TEST])).await;
    // The running run continues to its end.
    let ended = clients.ended(&under_way.name).await;
    assert_eq!(ended.outcome(), Outcome::Pass, "{}", ended.reason);
    assert_eq!(clients.get(&waits.name).await.state(), RunState::Queued);
    assert_eq!(clients.rig("rigs/model").await.state(), RigState::Draining);
    drop(clients);
    assert!(daemon.end(Signal::TERM).await.success());
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    assert_eq!(clients.get(&waits.name).await.state(), RunState::Queued);
    let put_back = DrainRigRequest {
        name: "rigs/model".into(),
        reason: String::new(),
    };
    within(clients.rigs.drain_rig(put_back)).await.unwrap();
    assert_eq!(clients.ended(&waits.name).await.outcome(), Outcome::Pass);
}

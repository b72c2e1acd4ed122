//! The lease that a run uses, and how long the run waits for a lease of its own.

use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{Cause, CreateLeaseRequest, CreateRunRequest, Lease, Outcome, RigState, RunState};

use super::harness::{Bench, Clients, Daemon, request, within};

const SHORT_TEST: &str = "c14-024-node-info";

async fn reserve(clients: &mut Clients, rig: &str) -> Lease {
    let request = CreateLeaseRequest {
        rig: rig.into(),
        ..CreateLeaseRequest::default()
    };
    let created = within(clients.leases.create_lease(request)).await.unwrap();
    created.into_inner().lease.unwrap()
}

/// Returns a request for a run with a lease of its own.
fn queued(rig: &str) -> CreateRunRequest {
    CreateRunRequest {
        own_lease: true,
        ..request(rig, &[SHORT_TEST])
    }
}

/// Returns a request for a run that must begin at once.
fn at_once(rig: &str) -> CreateRunRequest {
    CreateRunRequest {
        wait_at_most_s: Some(0),
        ..queued(rig)
    }
}

#[tokio::test]
async fn run_uses_the_lease_of_its_owner() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let held = reserve(&mut clients, "virtual").await;
    let run = clients.create(request("virtual", &[SHORT_TEST])).await;
    assert_eq!(run.lease, held.name);
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
    let waits = clients.create(queued("virtual")).await;
    assert_ne!(waits.lease, held.name);
    assert_eq!(clients.get(&waits.name).await.state(), RunState::Queued);
}

#[tokio::test]
async fn impatient_run_names_the_holder() {
    let bench = Bench::new();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(at_once("virtual")).await;
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass, "a free rig");
    let held = reserve(&mut clients, "virtual").await;
    let run = clients.create(at_once("virtual")).await;
    let ended = clients.ended(&run.name).await;
    assert_eq!((ended.outcome(), ended.cause()), (Outcome::Error, Cause::Operator));
    for words in ["had to begin at once, and could not", &held.name, "did not begin"] {
        assert!(ended.reason.contains(words), "{words}: {}", ended.reason);
    }
    let waits = clients
        .create(CreateRunRequest {
            wait_at_most_s: Some(3600),
            ..queued("virtual")
        })
        .await;
    assert_eq!(clients.get(&waits.name).await.state(), RunState::Queued);
}

#[tokio::test]
async fn unreachable_device_has_cause_rig() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(at_once("model")).await;
    let ended = clients.ended(&run.name).await;
    assert_eq!(ended.outcome(), Outcome::Pass, "{}", ended.reason);
    bench.end_model();
    // The first run may still start, because the last check found the device reachable.
    let first = clients.create(at_once("model")).await;
    assert_eq!(clients.ended(&first.name).await.outcome(), Outcome::Error);
    let mut rig = clients.rig("rigs/model").await;
    while rig.state() == RigState::Busy {
        rig = clients.rig("rigs/model").await;
    }
    assert_eq!(rig.state(), RigState::Unreachable, "at once");
    while !clients
        .rig("rigs/model")
        .await
        .state_reason
        .contains("cannot be reached")
    {
        let run = clients.create(at_once("model")).await;
        clients.ended(&run.name).await;
    }
    let run = clients.create(at_once("model")).await;
    let ended = clients.ended(&run.name).await;
    assert_eq!((ended.outcome(), ended.cause()), (Outcome::Error, Cause::Rig));
    assert!(ended.reason.contains("cannot be reached"), "{}", ended.reason);

    // The next run is told of the run that got no answer. Then all is well again.
    bench.start_model();
    let next = clients.create(queued("model")).await;
    let mut watch = clients.watch(&next.name, 0).await;
    let told = loop {
        if let Some(Event::LogLine(line)) = watch.next().await.expect("the run begins").event {
            break line.text;
        }
    };
    assert!(told.contains("ended because of the rig: runs/"), "{told}");
    assert_eq!(clients.ended(&next.name).await.outcome(), Outcome::Pass);
    let rig = clients.rig("rigs/model").await;
    assert!(!rig.state_reason.contains("did not answer"), "{}", rig.state_reason);
}

// Use several threads, because the client's connection must end while this thread waits for the log.
#[tokio::test(flavor = "multi_thread")]
async fn run_leaves_queue_after_its_client() {
    let bench = Bench::new();
    let config = bench.path("verbatimd.toml");
    std::fs::write(&config, "config_version = 1\n[limits]\nclient_gone_s = 1\n").unwrap();
    let mut daemon = Daemon::start(bench.command().arg("--config").arg(&config));
    let mut clients = bench.clients().await;
    reserve(&mut clients, "virtual").await;
    let unattended = clients.create(queued("virtual")).await;
    let mut client = bench.clients().await;
    let attended = client
        .create(CreateRunRequest {
            attended: true,
            ..queued("virtual")
        })
        .await;
    let mut watch = client.watch(&attended.name, 0).await;
    watch.next().await;
    assert_eq!(clients.get(&attended.name).await.state(), RunState::Queued);
    drop((watch, client));
    daemon.says("left the queue");
    let ended = clients.ended(&attended.name).await;
    assert_eq!((ended.outcome(), ended.cause()), (Outcome::Error, Cause::Operator));
    assert!(ended.reason.contains("was gone for 1 s"), "{}", ended.reason);
    assert_eq!(clients.get(&unattended.name).await.state(), RunState::Queued);
}

//! Reloads of the rig file, by SIGHUP and by call: rigs are added, changed and removed, but not while they are used.

use std::fs;

use rustix::process::Signal;
use tonic::Code;
use verbatim_proto::v1::{
    CancelRunRequest, CreateLeaseRequest, EndLeaseRequest, Outcome, ReloadRigsRequest, ReloadRigsResponse,
    RestoreRigRequest, RigState,
};

use super::harness::{Bench, Clients, Daemon, LONG_TEST, WAITS_AT, request, within};

const MODEL: &str = "[[rig]]\nname = \"model\"\nkind = \"model\"\nsocket = \"model\"\nsubnet_timeout = 8\n";

fn write(bench: &Bench, rigs: &str) {
    fs::write(bench.path("rigs.toml"), format!("config_version = 1\n\n{rigs}")).unwrap();
}

async fn reload(clients: &mut Clients) -> Result<ReloadRigsResponse, tonic::Status> {
    let reloaded = within(clients.rigs.reload_rigs(ReloadRigsRequest {})).await;
    reloaded.map(tonic::Response::into_inner)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn held_rig_stays_until_its_lease_ends() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let model = CreateLeaseRequest {
        rig: "model".into(),
        ..CreateLeaseRequest::default()
    };
    let held = within(clients.leases.create_lease(model.clone())).await.unwrap();
    let held = held.into_inner().lease.unwrap();
    clients.holds(&held.name).await;
    write(&bench, "[[rig]]\nname = \"second\"\nkind = \"virtual\"\n");
    daemon.signal(Signal::HUP);
    let said = daemon.says("the rig file was read again");
    assert!(said.contains("added: second; leaving: model"), "{said}");
    assert_eq!(clients.rig("rigs/second").await.state(), RigState::Idle);
    assert_eq!(clients.rig("rigs/model").await.lease, held.name);
    let refused = clients.leases.create_lease(model).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("no longer in the rig file"),
        "{}",
        refused.message()
    );
    let run = clients.create(request("second", &["c14-024-node-info"])).await;
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
    within(clients.leases.end_lease(EndLeaseRequest { name: held.name }))
        .await
        .unwrap();
    assert_eq!(reload(&mut clients).await.unwrap().removed, names(&["model"]));
    let all = within(clients.rigs.list_rigs(verbatim_proto::v1::ListRigsRequest {}))
        .await
        .unwrap();
    assert_eq!(all.into_inner().rigs.len(), 2);
}

#[tokio::test]
async fn bad_file_leaves_rigs_unchanged() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    write(&bench, "[[rig]]\nname = \"a\"\nkind = \"umadd\"\n");
    let refused = reload(&mut clients).await.unwrap_err();
    assert!(
        refused.message().contains("rigs.toml:5:8") && refused.message().contains("stay as they were"),
        "{}",
        refused.message()
    );
    daemon.signal(Signal::HUP);
    daemon.says("rigs.toml:5:8");
    let twice = MODEL.replace("\"model\"\nkind", "\"other\"\nkind");
    write(&bench, &format!("{MODEL}{twice}"));
    let refused = reload(&mut clients).await.unwrap_err();
    assert!(
        refused.message().contains("have the same device"),
        "{}",
        refused.message()
    );
    assert_eq!(clients.rig("rigs/model").await.kind, "model");
}

#[tokio::test]
async fn used_device_is_not_exchanged() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("model", &[LONG_TEST])).await;
    clients.watch(&run.name, 0).await.reaches(WAITS_AT).await;
    for rigs in [
        MODEL.replace("socket = \"model\"", "socket = \"else\""),
        MODEL.replace("name = \"model\"", "name = \"b\""),
    ] {
        write(&bench, &rigs);
        let refused = reload(&mut clients).await.unwrap_err();
        assert!(
            refused.message().contains(run.name.trim_start_matches("runs/")) && refused.message().contains("device"),
            "{}",
            refused.message()
        );
    }
    // A new label does not change the device.
    write(&bench, &format!("{MODEL}labels = [\"new\"]\n"));
    assert_eq!(reload(&mut clients).await.unwrap().changed, names(&["model"]));
    assert!(clients.rig("rigs/model").await.labels.contains(&"new".into()));

    bench.end_model();
    let cancel = CancelRunRequest { name: run.name.clone() };
    within(clients.runs.cancel_run(cancel)).await.unwrap();
    clients.ended(&run.name).await;
    write(&bench, "");
    assert_eq!(reload(&mut clients).await.unwrap().leaving, names(&["model"]));
    let rig = clients.rig("rigs/model").await;
    assert!(
        matches!(rig.state(), RigState::Busy | RigState::Quarantined) && !rig.pending_restore.is_empty(),
        "{rig:?}"
    );
    assert_eq!(reload(&mut clients).await.unwrap().leaving, names(&["model"]), "again");
    // The device is back. The daemon restores it with the old description of the rig. After that, the rig can be
    // removed.
    bench.start_model();
    loop {
        let name = "rigs/model".to_string();
        match within(clients.rigs.restore_rig(RestoreRigRequest { name })).await {
            Ok(done)
                if done
                    .get_ref()
                    .rig
                    .as_ref()
                    .is_some_and(|rig| rig.state() == RigState::Idle) =>
            {
                break;
            }
            Ok(_) => {}
            // The daemon refuses the call while it restores the device by itself.
            Err(busy) => assert_eq!(busy.code(), Code::FailedPrecondition, "{busy:?}"),
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(reload(&mut clients).await.unwrap().removed, names(&["model"]));
}

#[tokio::test]
async fn reload_changes_the_log_filter() {
    let bench = Bench::new();
    let write = |level: &str| {
        let text = format!("log = \"{level}\"\nconfig_version = 1\n");
        fs::write(bench.path("c.toml"), text).unwrap();
    };
    write("info");
    let mut daemon = Daemon::start(bench.command().arg("--config").arg(bench.path("c.toml")));
    write("loud");
    daemon.signal(Signal::HUP);
    let said = daemon.says("stay as they were");
    assert!(
        said.contains("line 1: log=\"loud\": expected off, error, warn"),
        "{said}"
    );
    let mut clients = bench.clients().await;
    clients.rig("rigs/model").await;
    assert!(!daemon.said.iter().any(|line| line.contains("DEBUG")));
    write("debug");
    daemon.signal(Signal::HUP);
    daemon.says("were read again");
    clients.rig("rigs/model").await;
    daemon.says("DEBUG");
}

//! A device that a killed run left changed. The next daemon finds the journal even if the rig file has changed, and
//! notices if the journal was removed or altered.

use std::fs;

use tonic::Code;
use tonic_types::StatusExt;
use verbatim_proto::v1::{Outcome, RestoreRigRequest, RigState};

use super::hardware::{AS_FOUND, mid_run};
use super::harness::{Bench, Clients, request, within};

/// Returns a bench with a changed device, after its daemon and worker were killed.
async fn left_changed() -> Bench {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    mid_run(&mut clients).await;
    daemon.end_with_worker().await;
    assert!(bench.is_locked());
    bench
}

fn edit_rigs(bench: &Bench, from: &str, to: &str) {
    let path = bench.path("rigs.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

async fn restore(clients: &mut Clients, rig: &str) -> RigState {
    let name = rig.to_string();
    let restored = within(clients.rigs.restore_rig(RestoreRigRequest { name })).await;
    restored.unwrap().into_inner().rig.unwrap().state()
}

#[tokio::test]
async fn renamed_rig_is_restored_first() {
    let bench = left_changed().await;
    edit_rigs(&bench, "name = \"model\"", "name = \"other\"");
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("other", &["c14-024-node-info"])).await;
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
    edit_rigs(&bench, "name = \"other\"", "name = \"model\"");
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn removed_rig_stays_until_restored() {
    let bench = left_changed().await;
    let text = fs::read(bench.path("rigs.toml")).unwrap();
    fs::write(bench.path("rigs.toml"), "config_version = 1\n").unwrap();
    let mut daemon = bench.serve();
    daemon.says("no longer has a rig whose device is still to be restored");
    let mut clients = bench.clients().await;
    let refused = clients.runs.create_run(request("model", &[])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(
        refused.get_error_details().error_info().unwrap().reason,
        "RIG_LEFT_OVER"
    );
    daemon.says("the rig's device is as it was found");
    assert_eq!(clients.rig("rigs/model").await.state(), RigState::Idle);
    fs::write(bench.path("rigs.toml"), text).unwrap();
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn rig_with_other_device_is_quarantined() {
    let bench = left_changed().await;
    edit_rigs(&bench, "socket = \"model\"", "socket = \"another\"");
    let mut daemon = bench.serve();
    let said = daemon.says("the rig is quarantined");
    assert!(said.contains("could not be restored"), "{said}");
    let mut clients = bench.clients().await;
    assert_eq!(clients.rig("rigs/model").await.state(), RigState::Quarantined);
    drop(daemon);
    edit_rigs(&bench, "socket = \"another\"", "socket = \"model\"");
    let mut daemon = bench.serve();
    daemon.says("the rig's device is as it was found");
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn lost_or_altered_journal_quarantines_rig() {
    let bench = left_changed().await;
    let whole = fs::read_to_string(bench.journal()).unwrap();
    let altered = whole.replacen("\"keys\": [\n    \"0x", "\"keys\": [\n    \"0x1", 1);
    assert_ne!(altered, whole);
    fs::write(bench.journal(), altered).unwrap();
    {
        let mut daemon = bench.serve();
        let said = daemon.says("the rig is quarantined");
        assert!(said.contains("checksum"), "{said}");
    }
    fs::remove_file(bench.journal()).unwrap();
    let mut daemon = bench.serve();
    let said = daemon.says("the rig is quarantined");
    assert!(said.contains("the file is gone"), "{said}");
    let mut clients = bench.clients().await;
    assert_eq!(restore(&mut clients, "rigs/model").await, RigState::Quarantined);
    fs::write(bench.journal(), whole).unwrap();
    assert_eq!(restore(&mut clients, "rigs/model").await, RigState::Idle);
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn damaged_journal_quarantines_renamed_rig() {
    let bench = left_changed().await;
    let whole = fs::read_to_string(bench.journal()).unwrap();
    let rigs = fs::read(bench.path("rigs.toml")).unwrap();
    for damage in [Some("{"), None] {
        match damage {
            Some(text) => fs::write(bench.journal(), text).unwrap(),
            None => fs::remove_file(bench.journal()).unwrap(),
        }
        fs::write(bench.path("rigs.toml"), &rigs).unwrap();
        edit_rigs(&bench, "name = \"model\"", "name = \"other\"");
        {
            let mut daemon = bench.serve();
            daemon.says("the rig is quarantined");
            let mut clients = bench.clients().await;
            assert_eq!(clients.rig("rigs/other").await.state(), RigState::Quarantined);
        }
        fs::write(bench.path("rigs.toml"), "config_version = 1\n").unwrap();
        let mut daemon = bench.serve();
        daemon.says("the rig is quarantined");
        let mut clients = bench.clients().await;
        assert_eq!(clients.rig("rigs/model").await.state(), RigState::Quarantined);
        drop(daemon);
        fs::write(bench.journal(), &whole).unwrap();
    }
    fs::write(bench.path("rigs.toml"), &rigs).unwrap();
    let mut daemon = bench.serve();
    daemon.says("the rig's device is as it was found");
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn journal_lost_with_lock_quarantines_rig() {
    let bench = left_changed().await;
    let whole = fs::read_to_string(bench.journal()).unwrap();
    fs::remove_dir_all(bench.journal().parent().unwrap()).unwrap();
    let mut daemon = bench.serve();
    let said = daemon.says("the rig is quarantined");
    assert!(said.contains("the file is gone"), "{said}");
    let mut clients = bench.clients().await;
    assert_eq!(clients.rig("rigs/model").await.state(), RigState::Quarantined);
    fs::write(bench.journal(), whole).unwrap();
    assert_eq!(restore(&mut clients, "rigs/model").await, RigState::Idle);
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn returning_device_is_restored() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    mid_run(&mut clients).await;
    daemon.end_with_worker().await;
    // Renaming the socket acts like unplugging the device's cable.
    fs::rename(bench.path("model"), bench.path("unplugged")).unwrap();
    let mut daemon = bench.serve();
    daemon.says("the restore failed: the daemon tries again");
    fs::rename(bench.path("unplugged"), bench.path("model")).unwrap();
    daemon.says("the rig's device is as it was found");
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

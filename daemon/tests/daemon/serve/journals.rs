//! A device that a killed run left changed: its journal is found, whatever became of the rig file, or missed, whatever
//! became of the journal.

use std::fs;

use tonic::Code;
use tonic_types::StatusExt;
use verbatim_proto::v1::{Outcome, RestoreRigRequest, RigState};

use super::hardware::{AS_FOUND, mid_run};
use super::harness::{Bench, Clients, request, within};

/// A bench whose device is changed, and of which nothing else lives.
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
async fn a_renamed_rig_is_restored_before_anything_runs_on_it() {
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
async fn a_rig_that_was_removed_stays_in_sight_takes_no_runs_and_is_restored() {
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
async fn a_rig_that_names_another_device_is_quarantined_until_the_one_it_left_changed_is_restored() {
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
async fn a_journal_that_was_removed_or_altered_quarantines_the_rig_until_a_person_says_otherwise() {
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
async fn a_damaged_journal_keeps_its_device_in_sight_and_out_of_use_whatever_its_rig_is_called_now() {
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
async fn a_journal_that_was_removed_with_its_lock_after_an_interrupted_run_quarantines_the_rig() {
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
async fn a_device_that_comes_back_is_restored_without_anybody() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    mid_run(&mut clients).await;
    daemon.end_with_worker().await;
    // A cable that is out, and is put in again.
    fs::rename(bench.path("model"), bench.path("unplugged")).unwrap();
    let mut daemon = bench.serve();
    daemon.says("the restore failed: it is tried again");
    fs::rename(bench.path("unplugged"), bench.path("model")).unwrap();
    daemon.says("the rig's device is as it was found");
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

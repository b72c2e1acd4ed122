//! A device that a killed run left changed. The next daemon finds the journal even if the rig file has changed, and
//! notices if the journal was removed or altered.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use tonic::Code;
use tonic_types::StatusExt;
use verbatim_proto::v1::{DrainRigRequest, Outcome, RestoreRigRequest, RigState};

use super::hardware::{AS_FOUND, mid_run};
use super::harness::{Bench, Clients, Daemon, request, within};

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

/// Replaces the directory `to` by a copy of the directory `from`.
fn put_back(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => put_back(&from, &to),
            false => drop(fs::copy(from, to).unwrap()),
        }
    }
}

/// Runs a test that changes and restores the device of the rig `model`.
async fn changes_and_restores(clients: &mut Clients) {
    let run = clients.create(request("model", &["c14-015-set"])).await;
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Pass);
}

#[tokio::test]
async fn older_copy_of_the_state_is_found_at_the_start() {
    let mut bench = Bench::new();
    bench.start_model();
    let (state, copy, newest) = (bench.path("state"), bench.path("copy"), bench.path("newest"));
    // As in the service, the records of the locks are outside of the state.
    let serve = || Daemon::start(bench.command().env("VERBATIM_LOCKS", bench.path("locks")));
    let mut daemon = serve();
    let mut clients = bench.clients().await;
    changes_and_restores(&mut clients).await;
    drop(clients);
    daemon.end(Signal::TERM).await;
    put_back(&state, &copy);
    let mut daemon = serve();
    let mut clients = bench.clients().await;
    for _ in 0..2 {
        changes_and_restores(&mut clients).await;
    }
    drop(clients);
    daemon.end(Signal::TERM).await;
    put_back(&state, &newest);

    // Put back only the journals, then the whole state. The store or the device's lock has a greater generation.
    for older in ["journals", ""] {
        put_back(&newest, &state);
        if older.is_empty() {
            // The last round cleared the device's lock, so a daemon with the newest state writes it again.
            let mut daemon = serve();
            let mut clients = bench.clients().await;
            changes_and_restores(&mut clients).await;
            drop(clients);
            daemon.end(Signal::TERM).await;
        }
        put_back(&copy.join(older), &state.join(older));
        let mut daemon = serve();
        let said = daemon.says("the rig is quarantined");
        assert!(
            said.contains("an older copy of the journals was put back"),
            "{older}: {said}"
        );
        if !older.is_empty() {
            assert!(said.contains("2 runs or leases came later"), "{said}");
        }
        let mut clients = bench.clients().await;
        let reason = clients.rig("rigs/model").await.state_reason;
        let resolve = format!("rm {} ", bench.journal().display());
        assert!(
            reason.contains(&resolve) && reason.contains("verbatim rigs restore model"),
            "{reason}"
        );
        fs::remove_file(bench.path("state/journals/model/model.lock")).unwrap();
        assert_eq!(restore(&mut clients, "rigs/model").await, RigState::Idle);
        drop(clients);
        daemon.end(Signal::TERM).await;
        // After another restart, the rig is still idle.
        let _daemon = serve();
        assert_eq!(bench.clients().await.rig("rigs/model").await.state(), RigState::Idle);
    }

    // Put back only the database, like a backup or a database without its log file.
    put_back(&newest, &state);
    for file in ["verbatim.db", "verbatim.db-wal", "verbatim.db-shm"] {
        let _ = fs::remove_file(state.join(file));
        let _ = fs::copy(copy.join(file), state.join(file));
    }
    {
        let mut daemon = serve();
        daemon.says("2 runs are missing");
        let mut clients = bench.clients().await;
        let rig = clients.rig("rigs/model").await;
        assert_eq!(rig.state(), RigState::Draining, "{rig:?}");
        assert!(rig.state_reason.contains("verbatim rigs undrain model"), "{rig:?}");
        let undrained = DrainRigRequest {
            name: "rigs/model".into(),
            reason: String::new(),
        };
        within(clients.rigs.drain_rig(undrained)).await.unwrap();
        changes_and_restores(&mut clients).await;
        drop(clients);
        daemon.end(Signal::TERM).await;
        assert_eq!(
            daemon.said.iter().filter(|line| line.contains("are missing")).count(),
            2
        );
    }
    let _daemon = serve();
    assert_eq!(bench.clients().await.rig("rigs/model").await.state(), RigState::Idle);
}

#[tokio::test]
async fn database_without_its_log_is_found_at_the_start() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    changes_and_restores(&mut clients).await;
    // The daemon dies, and the log with the run is lost.
    daemon.end(Signal::KILL).await;
    for file in ["verbatim.db-wal", "verbatim.db-shm"] {
        fs::remove_file(bench.path("state").join(file)).unwrap();
    }
    let mut daemon = bench.serve();
    daemon.says("1 run is missing");
    let rig = bench.clients().await.rig("rigs/model").await;
    assert!(rig.state_reason.contains("lost its log file"), "{rig:?}");
}

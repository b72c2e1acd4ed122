//! Runs on a device that outlives the daemon and its workers: the device is restored, or its rig is quarantined.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use tonic::Code;
use tonic_types::StatusExt;
use verbatim_proto::v1::{CancelRunRequest, Cause, Outcome, RestoreRigRequest, RigState, Run, RunSpec, RunState};
use verbatim_tester::FileJournal;
use verbatim_wire::MKey;

use super::harness::{Bench, Clients, Daemon, LONG_TEST, WAITS_AT, asked, is_idle, request, spec, within};

pub(crate) const AS_FOUND: Option<(MKey, u8)> = Some((MKey(0), 0));

/// Starts a run that waits for ten minutes with the device changed.
pub(crate) async fn mid_run(clients: &mut Clients) -> Run {
    mid_run_of(clients, &[LONG_TEST]).await
}

async fn mid_run_of(clients: &mut Clients, tests: &[&str]) -> Run {
    let run = clients
        .create(asked(RunSpec {
            parameters: [("wait_s".to_string(), 600)].into(),
            ..spec("model", tests)
        }))
        .await;
    clients.watch(&run.name, 0).await.reaches(WAITS_AT).await;
    run
}

#[tokio::test]
async fn cancelled_run_restores_device() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = mid_run(&mut clients).await;
    let waits = clients.create(request("model", &["c14-024-node-info"])).await;
    let gone = clients.create(request("model", &["c14-024-node-info"])).await;
    assert_eq!(
        (waits.state(), waits.queue_place, gone.queue_place),
        (RunState::Queued, 1, 2)
    );
    let rig = clients.rig("rigs/model").await;
    assert_eq!((rig.state(), &rig.current_run), (RigState::Busy, &run.name));
    assert_eq!(rig.queue, [waits.name.clone(), gone.name.clone()]);
    let name = "rigs/model".to_string();
    let busy = within(clients.rigs.restore_rig(RestoreRigRequest { name }))
        .await
        .unwrap_err();
    assert_eq!(busy.code(), Code::FailedPrecondition);
    assert!(busy.message().contains("is under way"), "{}", busy.message());

    let cancel = |run: &Run| CancelRunRequest { name: run.name.clone() };
    let cancelled = within(clients.runs.cancel_run(cancel(&gone)))
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!(
        (cancelled.state(), cancelled.cause()),
        (RunState::Ended, Cause::Operator),
        "at once"
    );
    within(clients.runs.cancel_run(cancel(&run))).await.unwrap();
    let run = clients.ended(&run.name).await;
    assert_eq!(
        (run.outcome(), run.cause()),
        (Outcome::Error, Cause::Operator),
        "{}",
        run.reason
    );
    assert!(run.reason.contains("cancelled by "), "{}", run.reason);
    let waited = clients.ended(&waits.name).await;
    assert_eq!(waited.outcome(), Outcome::Pass, "{}", waited.reason);
    assert!(!bench.journal().exists());
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn run_survives_killed_worker() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = mid_run_of(&mut clients, &[LONG_TEST, "c14-024-node-info"]).await;
    daemon.kill_worker();
    let run = clients.ended(&run.name).await;
    let outcomes: Vec<_> = run.verdicts.iter().map(|verdict| verdict.outcome()).collect();
    assert_eq!(outcomes, [Outcome::Error, Outcome::Pass], "{:?}", run.verdicts);
    assert_eq!((run.outcome(), run.cause()), (Outcome::Error, Cause::Tester));
    assert!(
        run.reason.contains(LONG_TEST) && run.reason.contains("SIGKILL"),
        "{}",
        run.reason
    );
    assert_eq!(run.info.map(|info| info.outcome()), Some(Outcome::Error));
    daemon.says("a new worker continues the run");
    assert!(!bench.journal().exists());
    assert_eq!(bench.key_of_device(), AS_FOUND);
}

#[tokio::test]
async fn sigterm_stops_run_and_restores_device() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = mid_run(&mut clients).await;
    let waits = clients.create(request("model", &["c14-024-node-info"])).await;
    let mut watch = clients.watch(&run.name, 0).await;
    assert!(daemon.end(Signal::TERM).await.success(), "{:#?}", daemon.said);
    watch.rest().await;
    let said = daemon.said.join("\n");
    assert!(
        said.contains("stopping") && said.contains("stopped: every device is as it was found"),
        "{said}"
    );
    assert!(!bench.journal().exists());
    assert_eq!(bench.key_of_device(), AS_FOUND);
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.get(&run.name).await;
    assert_eq!(
        (run.outcome(), run.cause()),
        (Outcome::Error, Cause::Operator),
        "{}",
        run.reason
    );
    let waited = clients.ended(&waits.name).await;
    assert_eq!(waited.outcome(), Outcome::Pass, "{}", waited.reason);
}

#[tokio::test]
async fn device_is_restored_after_daemon_kill() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = mid_run(&mut clients).await;
    assert!(bench.journal().exists());
    daemon.end(Signal::KILL).await;
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let interrupted = clients.get(&run.name).await;
    assert_eq!(
        (interrupted.outcome(), interrupted.cause()),
        (Outcome::Error, Cause::Tester)
    );
    // The run waits for the restore by the old worker or by the new daemon.
    let next = clients.create(request("model", &["c14-024-node-info"])).await;
    let next = clients.ended(&next.name).await;
    assert_eq!(next.outcome(), Outcome::Pass, "{}", next.reason);
    assert!(!bench.journal().exists());
    assert_eq!(bench.key_of_device(), AS_FOUND);
    let record = bench
        .path("state/runs/model")
        .join(run.name.trim_start_matches("runs/"))
        .join(format!("record/001-{LONG_TEST}.rec"));
    assert!(fs::metadata(record).unwrap().len() > 0, "what was recorded is kept");
}

#[tokio::test]
async fn daemon_waits_for_holder_of_rig() {
    let mut bench = Bench::new();
    bench.start_model();
    // Hold the rig's lock, as a worker does that has outlived its daemon.
    let held = FileJournal::open(&bench.path("state/journals"), "model").unwrap();
    let mut daemon = bench.serve();
    daemon.says("another process holds the rig");
    let mut clients = bench.clients().await;
    assert_eq!(clients.rig("rigs/model").await.state(), RigState::Busy);
    let waits = clients.create(request("model", &["c14-024-node-info"])).await;
    assert_eq!((waits.state(), waits.queue_place), (RunState::Queued, 1));
    drop(held);
    let run = clients.ended(&waits.name).await;
    assert_eq!(run.outcome(), Outcome::Pass, "{}", run.reason);
}

#[tokio::test]
async fn unrestorable_device_quarantines_rig() {
    let mut bench = Bench::new();
    bench.start_model();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = mid_run(&mut clients).await;
    bench.end_model();
    let run = clients.ended(&run.name).await;
    assert_eq!(run.outcome(), Outcome::Error);
    daemon.says("the rig is quarantined");
    let rig = clients.rig("rigs/model").await;
    assert_eq!(rig.state(), RigState::Quarantined);
    for words in [
        "M_Keys that may be in force, and the commands for a restore by hand: ",
        "model.journal.by-hand.txt",
        "verbatim rigs restore model",
        "model.journal.json",
        "PortInfo",
    ] {
        assert!(rig.state_reason.contains(words), "{words} in {}", rig.state_reason);
    }
    assert!(!rig.pending_restore.is_empty());
    let refused = clients.runs.create_run(request("model", &[])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(
        refused.get_error_details().error_info().unwrap().reason,
        "RIG_QUARANTINED"
    );
    assert!(
        refused.message().contains("verbatim rigs restore model"),
        "{}",
        refused.message()
    );

    let restore = RestoreRigRequest {
        name: "rigs/model".into(),
    };
    let still = within(clients.rigs.restore_rig(restore.clone()))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(still.rig.unwrap().state(), RigState::Quarantined);
    assert!(
        still
            .areas
            .iter()
            .any(|area| !area.is_complete() && !area.failure.is_empty()),
        "{:?}",
        still.areas
    );

    bench.start_model();
    let restored = within(clients.rigs.restore_rig(restore)).await.unwrap().into_inner();
    let rig = restored.rig.unwrap();
    assert!(is_idle(&rig), "{}", rig.state_reason);
    assert!(rig.pending_restore.is_empty() && rig.state_reason.is_empty());
    assert!(!restored.areas.is_empty() && restored.areas.iter().all(verbatim_record::Restored::is_complete));
    let next = clients.create(request("model", &["c14-024-node-info"])).await;
    assert_eq!(clients.ended(&next.name).await.outcome(), Outcome::Pass);
}

#[tokio::test]
async fn files_are_private_under_any_umask() {
    let mut bench = Bench::new();
    bench.start_model();
    let left = bench.path("state/captures/of-a-killed-one");
    fs::create_dir_all(&left).unwrap();
    let serve = bench.command();
    // Set the umask in a shell: the umask of this process would apply to all its tests.
    let mut without = Command::new("sh");
    without.args(["-c", "umask 0; exec \"$0\" \"$@\""]);
    let _daemon = Daemon::start(without.arg(serve.get_program()).args(serve.get_args()));
    assert!(!left.exists(), "what was left of a capture is gone");
    let mut clients = bench.clients().await;
    let _run = mid_run(&mut clients).await;
    assert!(bench.journal().exists());
    let mut directories = vec![bench.path("state")];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                directories.push(entry.path());
                continue;
            }
            seen += 1;
            assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", entry.path().display());
        }
    }
    assert!(seen > 3, "lock, audit log, journal and run");
    let of_state = fs::metadata(bench.path("state")).unwrap().permissions().mode() & 0o777;
    assert_eq!(of_state, 0o700);
    let lock = bench.path("socket.lock");
    assert_eq!(fs::metadata(lock).unwrap().permissions().mode() & 0o777, 0o600);
    let of_socket = fs::metadata(bench.path("socket")).unwrap().permissions().mode() & 0o777;
    assert_eq!(of_socket, 0o660);
}

#[tokio::test]
async fn second_daemon_cannot_drive_same_device() {
    let mut bench = Bench::new();
    bench.start_model();
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    let _run = mid_run(&mut clients).await;
    let renamed = fs::read_to_string(bench.path("rigs.toml")).unwrap();
    fs::write(
        bench.path("rigs-2.toml"),
        renamed.replace("name = \"model\"", "name = \"other\""),
    )
    .unwrap();
    let mut second = super::harness::verbatimd();
    second.arg("serve").arg("--rig-file").arg(bench.path("rigs-2.toml"));
    second
        .arg("--socket")
        .arg(bench.path("socket-2"))
        .arg("--state")
        .arg(bench.path("state-2"));
    let _second = Daemon::start(&mut second);
    let mut of_second = Clients::connect(&bench.path("socket-2")).await;
    let run = of_second.create(request("other", &["c14-024-node-info"])).await;
    let run = of_second.ended(&run.name).await;
    assert_eq!((run.outcome(), run.cause()), (Outcome::Error, Cause::Rig));
    assert!(
        run.reason.contains("another process drives its device"),
        "{}",
        run.reason
    );
}

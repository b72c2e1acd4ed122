//! How a daemon begins: what it keeps, what it refuses, what it survives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use rustix::process::Signal;
use verbatim_proto::v1::{Cause, ListRunsRequest, Outcome, RunState};

use crate::harness::{Bench, Daemon, is_ended, request, verbatimd};

#[tokio::test]
async fn runs_outlive_the_daemon_with_their_events_verdicts_and_files() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["C14-16"])).await;
    let events = clients.watch(&run.name, 0).await.rest().await;
    let before = clients.get(&run.name).await;
    drop(clients);
    assert!(daemon.end(Signal::TERM).await.success());
    assert!(!bench.path("socket").exists());
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    assert_eq!(clients.get(&run.name).await, before);
    assert_eq!(clients.watch(&run.name, 0).await.rest().await, events);
}

#[tokio::test]
async fn what_a_dead_daemon_left_unfinished_ends_and_what_is_damaged_is_left_out() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let mut names = Vec::new();
    for _ in 0..3 {
        let run = clients.create(request("virtual", &["c14-024-node-info"])).await;
        clients.ended(&run.name).await;
        names.push(run.name);
    }
    daemon.end(Signal::KILL).await;
    let file = |name: &str, file: &str| bench.path("state").join(name).join(file);
    // As a daemon leaves it that dies within a run, and within the writing of an event.
    let text = fs::read_to_string(file(&names[0], "run.json")).unwrap();
    fs::write(file(&names[0], "run.json"), text.replace("ENDED", "RUNNING")).unwrap();
    let events = fs::read(file(&names[0], "events.log")).unwrap();
    fs::write(file(&names[0], "events.log"), &events[..events.len() - 3]).unwrap();
    fs::write(file(&names[1], "run.json"), "{\"schema\": ").unwrap();
    fs::create_dir(bench.path("state/runs/lost+found")).unwrap();

    let daemon = bench.serve();
    let said = daemon.said.join("\n");
    assert!(
        said.contains("the run is left out") && said.contains("run.json is damaged"),
        "{said}"
    );
    let mut clients = bench.clients().await;
    let listed = clients
        .runs
        .list_runs(ListRunsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .runs;
    let listed: Vec<_> = listed.into_iter().map(|run| run.name).collect();
    assert_eq!(listed, [names[2].clone(), names[0].clone()]);
    let run = clients.get(&names[0]).await;
    assert_eq!(
        (run.state(), run.outcome(), run.cause()),
        (RunState::Ended, Outcome::Error, Cause::Tester)
    );
    assert!(
        run.reason.contains("the daemon ended while the run was under way"),
        "{}",
        run.reason
    );
    let events = clients.watch(&names[0], 0).await.rest().await;
    let cursors: Vec<u64> = events.iter().map(|event| event.cursor).collect();
    assert_eq!(cursors, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(!is_ended(&run) || format!("{:?}", events.last()).contains("the daemon ended"));
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_says_why() {
    let bench = Bench::new();
    let daemon = bench.serve();
    let pid = daemon.child.id().to_string();
    for (socket, state, expected) in [
        ("socket", "other", "the socket "),
        ("other", "state", "the state directory "),
    ] {
        let mut command = verbatimd();
        command
            .args(["serve", "--socket"])
            .arg(bench.path(socket))
            .arg("--state")
            .arg(bench.path(state));
        let second = command.output().unwrap();
        let said = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(3), "{said}");
        for words in [expected, "in use by another daemon", &pid] {
            assert!(said.contains(words), "{words} in {said}");
        }
    }
    bench.clients().await;
}

#[tokio::test]
async fn the_socket_of_a_killed_daemon_is_replaced_and_is_for_owner_and_group() {
    let bench = Bench::new();
    let mut daemon = bench.serve();
    daemon.end(Signal::KILL).await;
    assert!(bench.path("socket").exists());
    let _daemon = bench.serve();
    let mode = fs::metadata(bench.path("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    bench.clients().await;
}

#[test]
fn a_socket_of_somebody_else_a_file_and_a_directory_that_cannot_be_made_are_refused() {
    let bench = Bench::new();
    let _foreign = UnixListener::bind(bench.path("foreign")).unwrap();
    fs::write(bench.path("file"), "mine").unwrap();
    for (socket, expected) in [
        ("foreign", "in use"),
        ("file", "is no socket"),
        ("file/below", "cannot be used"),
    ] {
        let mut command = verbatimd();
        command
            .args(["serve", "--socket"])
            .arg(bench.path(socket))
            .arg("--state")
            .arg(bench.path("state"));
        let refused = command.output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(
            said.contains(expected) && said.contains("--socket"),
            "{expected} in {said}"
        );
    }
    assert_eq!(fs::read_to_string(bench.path("file")).unwrap(), "mine");
}

#[tokio::test]
async fn the_service_manager_names_the_directories_and_is_told_when_the_daemon_serves() {
    let bench = Bench::new();
    let manager = std::os::unix::net::UnixDatagram::bind(bench.path("notify")).unwrap();
    let mut command = verbatimd();
    command
        .arg("serve")
        .env("RUNTIME_DIRECTORY", bench.path("run"))
        .env("STATE_DIRECTORY", bench.path("state"))
        .env("NOTIFY_SOCKET", bench.path("notify"))
        .env("JOURNAL_STREAM", "8:1");
    let mut daemon = Daemon::start(&mut command);
    assert!(
        daemon.said[0].trim_start().starts_with("INFO serving"),
        "no time of its own: {:?}",
        daemon.said
    );
    crate::harness::Clients::connect(&bench.path("run/verbatim.sock")).await;
    let mut heard = [0; 32];
    let length = manager.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"READY=1");
    assert!(daemon.end(Signal::INT).await.success());
    let length = manager.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"STOPPING=1");
}

#[test]
fn a_rig_file_is_checked_with_line_and_column() {
    let bench = Bench::new();
    let check = |path: &std::path::Path| {
        verbatimd()
            .arg("check-config")
            .arg("--rig-file")
            .arg(path)
            .output()
            .unwrap()
    };
    let good = check(&bench.path("rigs.toml"));
    let said = String::from_utf8_lossy(&good.stdout);
    assert!(
        good.status.success() && said.contains("model") && said.contains("virtual"),
        "{said}"
    );
    let wrong = bench.path("wrong.toml");
    fs::write(&wrong, "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"umadd\"\n").unwrap();
    let bad = check(&wrong);
    let said = String::from_utf8_lossy(&bad.stderr);
    assert!(
        bad.status.code() == Some(2) && said.contains("wrong.toml:4:8"),
        "{said}"
    );
    let refused = verbatimd().arg("serve").arg("--rig-file").arg(&wrong).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

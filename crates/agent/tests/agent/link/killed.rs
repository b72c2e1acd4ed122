//! Tests that kill the agent's process or the tester's process.
//!
//! The killed process is a second run of this test program, with only the ignored test `agent_process` or
//! `tester_process`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command as Process, Stdio};

use super::*;

const SOCKET: &str = "VERBATIM_TEST_AGENT_SOCKET";

pub(crate) fn again(test: &str, socket: &Path) -> (Child, impl BufRead + use<>) {
    let name = format!("link::killed::{test}");
    let mut child = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .env(SOCKET, socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

pub(crate) fn until_ready(output: &mut impl BufRead) {
    let ready = output.lines().map_while(Result::ok).any(|line| line.contains("ready"));
    assert!(ready, "the other process did not begin");
}

fn socket() -> std::path::PathBuf {
    std::env::var_os(SOCKET).expect("run by another test").into()
}

/// Waits until the other end closes the pipe.
fn until_told() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

#[test]
#[ignore = "another process, started by other tests"]
fn agent_process() {
    let agent = Agent::start(Listen::Unix(socket()), None, 1);
    println!("ready");
    until_told();
    drop(agent);
}

#[test]
#[ignore = "another process, started by other tests"]
fn tester_process() {
    let address = AgentAddress {
        place: Place::Unix(socket()),
        tls: None,
    };
    let mut client = AgentClient::connect(&address, LONG).unwrap();
    made_qp(&mut client);
    ask(&mut client, 1, register(1000));
    println!("ready");
    until_told();
    drop(client);
}

#[test]
fn killed_tester_leaves_no_objects() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let Place::Unix(path) = agent.address().place else {
        unreachable!()
    };
    let (mut tester, mut output) = again("tester_process", &path);
    until_ready(&mut output);
    assert_eq!(agent.strings.existing().len(), 3);
    tester.kill().unwrap();
    tester.wait().unwrap();
    until_destroyed(&agent.strings);
    made_qp(&mut agent.connect());
}

#[test]
fn killed_agent_ends_session_with_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let (mut agent, mut output) = again("agent_process", &path);
    until_ready(&mut output);
    let address = AgentAddress {
        place: Place::Unix(path),
        tls: None,
    };
    let mut client = AgentClient::connect(&address, LONG).unwrap();
    made_qp(&mut client);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let end = end_of(&mut client);
    assert!(end.starts_with("agent at unix:"), "{end}");
    assert!(end.contains("killed"), "{end}");
    assert_eq!(client.send(2, create_qp()).unwrap_err().0, end);
}

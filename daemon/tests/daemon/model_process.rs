//! `verbatimd model` as a process: its options, its reaction to signals, and its death.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use verbatim_rig::{RigFile, Session};
use verbatim_tester::{Arrival, Rig, Stimulus, Stop};
use verbatim_wire::{AttributeId, MKey, Mad, Method, PortInfo};

fn verbatimd(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verbatimd"));
    command.args(arguments);
    command
}

/// Starts a model and waits until it listens. Returns its process and a reader of the rest of its stderr.
fn model(socket: &Path, more: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut child = verbatimd(&["model", "--listen", &socket.to_string_lossy()])
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, format!("listening on {}\n", socket.display()));
    (child, stderr)
}

fn open(socket: &Path) -> Box<dyn Rig + Send> {
    let text = format!(
        "config_version = 1\n[[rig]]\nname = \"m\"\nkind = \"model\"\nsocket = \"{}\"\n",
        socket.display()
    );
    let file = RigFile::parse(text.as_bytes(), Path::new("/f")).unwrap();
    match verbatim_rig::open(file.find("m").unwrap(), Arc::default())
        .unwrap()
        .session
    {
        Session::Real(rig) => rig,
        Session::Virtual(_) | Session::Closed => panic!("not a real rig"),
    }
}

fn get() -> Mad {
    Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1])
}

fn port_info(rig: &mut dyn Rig) -> PortInfo {
    let sent = rig.send(Stimulus::Mad(0, &get())).unwrap();
    let Arrival::Mad(_, _, mad) = rig.wait(sent.latest.after(Duration::from_secs(5))) else {
        panic!("no answer");
    };
    mad.attribute()
}

#[test]
fn serves_given_profile_until_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("model");
    let more = [
        "--profile",
        "minimal",
        "--found-m-key",
        "0x77",
        "--defect",
        "resp-time-value-illegal",
    ];
    let (mut child, _stderr) = model(&socket, &more);
    let info = port_info(&mut *open(&socket));
    assert_eq!(info.m_key(), MKey(0x77));
    assert!(info.resp_time_value().0 > 20, "the defect is there");
    let told = Command::new("sh")
        .args(["-c", &format!("kill -TERM {}", child.id())])
        .status()
        .unwrap();
    assert!(told.success() && child.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn killed_model_can_be_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("model");
    let (mut child, _stderr) = model(&socket, &[]);
    let mut rig = open(&socket);
    port_info(&mut *rig);
    child.kill().unwrap();
    child.wait().unwrap();
    let until = rig.now().after(Duration::from_secs(60));
    assert!(matches!(rig.wait(until), Arrival::Stop(Stop::RigGone(_))));
    assert!(socket.exists(), "nobody could remove it");
    let (mut child, _stderr) = model(&socket, &["--seed", "3"]);
    port_info(&mut *open(&socket));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn rejects_used_socket_and_unknown_defect() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("model");
    let (mut child, _stderr) = model(&socket, &[]);
    let path = socket.to_string_lossy();
    let second = verbatimd(&["model", "--listen", &path]).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(3) && said.contains("is in use"), "{said}");
    port_info(&mut *open(&socket));
    child.kill().unwrap();
    child.wait().unwrap();

    let wrong = verbatimd(&["model", "--listen", &path, "--defect", "m-key-not-kep"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        wrong.status.code() == Some(2) && said.contains("did you mean \"m-key-not-kept\"?"),
        "{said}"
    );
}

#[test]
fn prints_its_version() {
    let said = verbatimd(&["--version"]).output().unwrap();
    let expected = format!("verbatimd {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&said.stdout), expected);
}

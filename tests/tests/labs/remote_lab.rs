//! A daemon on one machine and its client on another machine: `cargo xtask lab remote`.

use std::ffi::OsString;
use std::fs;
use std::process::Output;

use verbatim_lab::RemoteLab;
use verbatim_tests::oracle::skipped;
use verbatim_tests::product::programs;

/// Starts the lab. Returns `None` with a message if this host cannot run it; fails if `CI` is set.
fn lab() -> Option<RemoteLab> {
    match RemoteLab::start(programs()) {
        Ok(lab) => Some(lab),
        Err(error) => {
            skipped("the remote lab", &format!("{error:#}"));
            None
        }
    }
}

/// Runs a command on the client's machine.
fn client(lab: &RemoteLab, line: &str) -> Output {
    let command: Vec<OsString> = line.split(' ').map(Into::into).collect();
    lab.command(&command).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn remote_client_is_served_and_audited() {
    let Some(lab) = lab() else { return };
    let rigs = client(&lab, "verbatim rigs");
    assert_eq!(rigs.status.code(), Some(0), "{rigs:?}");
    assert!(text(&rigs.stdout).contains("model"), "{rigs:?}");
    let run = client(&lab, "verbatim run --rig model c14-024-node-info");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stdout).contains("PASS"), "{run:?}");
    let audit = fs::read_to_string(lab.directory().join("state/audit.jsonl")).unwrap();
    assert!(
        audit.contains("\"who\":\"cert:admin\",\"from\":\"192.0.2.2:"),
        "{audit}"
    );
}

#[test]
fn daemon_requires_cable_and_certificate() {
    let Some(lab) = lab() else { return };
    let own = client(&lab, "verbatim --server https://127.0.0.1:7443 rigs");
    assert_eq!(own.status.code(), Some(3), "{own:?}");
    assert!(text(&own.stderr).contains("no program listens there"), "{own:?}");
    let mut without = lab.command(&["verbatim".into(), "rigs".into()]);
    without.env_remove("VERBATIM_CERT");
    let without = without.output().unwrap();
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    assert!(text(&without.stderr).contains("--cert is missing"), "{without:?}");
}

#[test]
fn lab_returns_commands_exit_code() {
    let Some(lab) = lab() else { return };
    let seven = lab
        .command(&["sh".into(), "-c".into(), "exit 7".into()])
        .status()
        .unwrap();
    assert_eq!(seven.code(), Some(7));
    assert_eq!(client(&lab, "false").status.code(), Some(1));
}

#[test]
fn documented_remote_commands_match() {
    if lab().is_some() {
        verbatim_tests::pages::check(Some("remote"));
    }
}

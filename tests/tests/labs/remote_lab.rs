//! A daemon on one machine, its client on another: `cargo xtask lab remote`.

use std::ffi::OsString;
use std::fs;
use std::process::Output;

use verbatim_lab::RemoteLab;
use verbatim_tests::oracle::skipped;
use verbatim_tests::product::programs;

/// The lab; none where it cannot be, which was said, and failed under CI.
fn lab() -> Option<RemoteLab> {
    match RemoteLab::start(programs()) {
        Ok(lab) => Some(lab),
        Err(error) => {
            skipped("the remote lab", &format!("{error:#}"));
            None
        }
    }
}

/// A command of the client's.
fn client(lab: &RemoteLab, line: &str) -> Output {
    let command: Vec<OsString> = line.split(' ').map(Into::into).collect();
    lab.command(&command).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_client_on_another_machine_runs_a_test_and_both_ends_know_who_it_was() {
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
fn the_daemon_is_reached_over_the_cable_alone_and_with_a_certificate_alone() {
    let Some(lab) = lab() else { return };
    let own = client(&lab, "verbatim --server https://127.0.0.1:7443 rigs");
    assert_eq!(own.status.code(), Some(3), "{own:?}");
    assert!(text(&own.stderr).contains("nobody listens there"), "{own:?}");
    let mut without = lab.command(&["verbatim".into(), "rigs".into()]);
    without.env_remove("VERBATIM_CERT");
    let without = without.output().unwrap();
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    assert!(text(&without.stderr).contains("--cert is missing"), "{without:?}");
}

#[test]
fn the_commands_exit_code_is_the_labs() {
    let Some(lab) = lab() else { return };
    let seven = lab
        .command(&["sh".into(), "-c".into(), "exit 7".into()])
        .status()
        .unwrap();
    assert_eq!(seven.code(), Some(7));
    assert_eq!(client(&lab, "false").status.code(), Some(1));
}

#[test]
fn every_command_of_the_documentation_on_two_machines_prints_what_its_page_shows() {
    if lab().is_some() {
        verbatim_tests::pages::check(Some("remote"));
    }
}

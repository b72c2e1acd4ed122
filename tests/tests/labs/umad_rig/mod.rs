//! The umad rig on ibsim: an independent subnet management agent behind the real libibumad.
//!
//! The simulator's preload can end its process suddenly, so each case runs in a separate process. The process is this
//! program again, with the name of a role in [`ROLE`].

mod roles;

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use verbatim_lab::{IbsimLab, LabError};
use verbatim_tests::oracle::skipped;

/// The environment variable with the role of a process of this program.
const ROLE: &str = "VERBATIM_TEST_ROLE";
/// Longest time of a run. Even a busy host needs less. The limit is far below the pause of ten minutes that a test
/// cancels.
const RUN_LIMIT: Duration = Duration::from_secs(480);

fn lab() -> Option<IbsimLab> {
    match IbsimLab::start() {
        Ok(lab) => Some(lab),
        Err(error @ LabError::NotInstalled { .. }) => {
            skipped("ibsim", &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A process with a role in the lab, and its output line by line.
struct Actor {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Actor {
    /// Starts the process in an empty working directory, which must be empty at the end.
    fn start(lab: &IbsimLab, role: &str, place: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["umad_rig::a_process_with_a_role", "--exact", "--ignored", "--nocapture"])
            .envs(lab.environment())
            .env(ROLE, role)
            .current_dir(place)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the rest of the next line that begins with `key: `.
    fn says(&mut self, key: &str) -> String {
        let prefix = format!("{key}: ");
        let mut heard = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix(&prefix) {
                return rest.to_owned();
            }
            heard.push(line);
        }
        panic!("it never said {key}, but:\n{}", heard.join("\n"));
    }

    /// Waits until the process has ended with success; returns its stderr.
    fn ends_well(mut self) -> String {
        let rest: Vec<_> = self.lines.by_ref().map_while(Result::ok).collect();
        let output = self.child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{}:\n{}\n{errors}",
            output.status,
            rest.join("\n")
        );
        errors
    }
}

fn is_empty(place: &Path) -> bool {
    std::fs::read_dir(place).unwrap().next().is_none()
}

#[test]
#[ignore = "a role of the other tests, not a test"]
fn a_process_with_a_role() {
    roles::play(&env::var(ROLE).unwrap());
}

#[test]
fn test_runs_and_leaves_no_files() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, "catalogue", place.path());
    let fingerprint = actor.says("fingerprint");
    assert!(fingerprint.contains("ibsim0"), "{fingerprint}");
    let device = actor.says("device");
    assert!(device.contains("NodeGUID"), "{device}");
    assert_eq!(actor.says("stopped"), "None");
    assert_eq!(actor.ends_well(), "", "nothing complains");
    assert!(is_empty(place.path()), "the working directory is as it was");
    let mut left = std::fs::read_dir(lab.directory()).unwrap();
    assert!(
        !left.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("sys-")),
        "the preload's files are still there"
    );
}

#[test]
fn simulator_death_ends_busy_run() {
    killed("busy");
}

#[test]
fn simulator_death_ends_awaiting_run() {
    killed("awaiting");
}

#[test]
fn simulator_death_ends_pausing_run() {
    killed("pausing");
}

fn killed(role: &str) {
    let Some(mut lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, role, place.path());
    actor.says("running");
    lab.kill();
    let start = Instant::now();
    let stopped = actor.says("stopped");
    let took = start.elapsed();
    assert!(
        stopped.contains("RigGone") && stopped.contains("went away"),
        "{stopped}"
    );
    assert!(took < RUN_LIMIT, "it took {took:?}");
    actor.ends_well();
    assert!(is_empty(place.path()));
}

#[test]
fn cancel_ends_pause_and_restores_device() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, "cancel", place.path());
    assert_eq!(actor.says("restored"), "complete");
    let stopped = actor.says("stopped");
    assert!(stopped.contains("Cancelled"), "{stopped}");
    actor.ends_well();
}

#[test]
fn unplugged_device_is_rig_error() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    lab.console("Unlink \"A\"[1]").unwrap();
    let mut actor = Actor::start(&lab, "catalogue", place.path());
    let stopped = actor.says("stopped");
    assert!(stopped.contains("NotSane"), "{stopped}");
    actor.ends_well();
}

#[test]
fn full_window_is_answered() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, "window", place.path());
    assert_eq!(actor.says("answered"), "6400");
    eprintln!("round trips a second: {}", actor.says("round trips a second, window 1"));
    eprintln!(
        "round trips a second: {}",
        actor.says("round trips a second, window 64")
    );
    actor.ends_well();
}

#[test]
fn process_reopens_rig() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, "twice", place.path());
    assert_eq!(actor.says("first"), "None");
    assert_eq!(actor.says("second"), "None");
    assert_eq!(actor.ends_well(), "");
    assert!(is_empty(place.path()));
}

#[test]
fn ineffective_rig_environment_is_error() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["umad_rig::a_process_with_a_role", "--exact", "--ignored", "--nocapture"])
        .envs(lab.environment())
        .env(ROLE, "catalogue")
        .env("VERBATIM_RIG_ENV", "ibsim")
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&status.stderr);
    assert!(
        !status.status.success() && said.contains("was started again for it"),
        "{said}"
    );
}

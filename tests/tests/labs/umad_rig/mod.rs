//! The umad rig on ibsim: a subnet management agent that others wrote, behind the real libibumad.
//!
//! A process under the simulator's preload can come to a sudden end, so each case is a process of its own: this
//! program again, with the name of a role in [`ROLE`].

mod roles;

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use verbatim_lab::{IbsimLab, LabError};
use verbatim_tests::oracle::skipped;

/// The environment variable that says what a process of this program is to do.
const ROLE: &str = "VERBATIM_TEST_ROLE";
/// Well below the pause of ten minutes that is cut short, with room for a busy host.
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

/// A process with a role, in the lab, and what it says line by line.
struct Actor {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Actor {
    /// Its working directory is empty at the start, and must be at the end.
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

    /// The rest of the next line that begins with `key: `.
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

    /// Its end, and what it wrote to stderr.
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
fn a_test_of_the_catalogue_runs_and_nothing_is_left_behind() {
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
fn a_simulator_that_is_killed_while_mads_go_to_and_fro_ends_the_run() {
    killed("busy");
}

#[test]
fn a_simulator_that_is_killed_while_an_answer_is_awaited_ends_the_run() {
    killed("awaiting");
}

#[test]
fn a_simulator_that_is_killed_in_a_long_pause_ends_the_run() {
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
fn a_cancel_ends_a_long_pause_and_the_device_is_restored() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, "cancel", place.path());
    assert_eq!(actor.says("restored"), "complete");
    let stopped = actor.says("stopped");
    assert!(stopped.contains("Cancelled"), "{stopped}");
    actor.ends_well();
}

#[test]
fn an_unplugged_device_is_an_error_of_the_rig_and_the_mad_given_back_is_in_the_record() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    lab.console("Unlink \"A\"[1]").unwrap();
    let mut actor = Actor::start(&lab, "catalogue", place.path());
    let stopped = actor.says("stopped");
    assert!(stopped.contains("NotSane"), "{stopped}");
    actor.ends_well();
}

#[test]
fn a_full_window_is_answered_and_the_spans_are_short() {
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
fn a_rig_is_opened_again_by_the_same_process() {
    let Some(lab) = lab() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut actor = Actor::start(&lab, "twice", place.path());
    assert_eq!(actor.says("first"), "None");
    assert_eq!(actor.says("second"), "None");
    assert_eq!(actor.ends_well(), "");
    assert!(is_empty(place.path()));
}

#[test]
fn a_rig_whose_environment_does_not_take_is_an_error_and_no_loop() {
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

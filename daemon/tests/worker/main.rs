//! Workers as processes: what they report, how they end, and what becomes of the device.
#![allow(clippy::unwrap_used)]

mod place;
mod protocol;
mod trouble;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use place::{LONG_TEST, Place, Running, WAITS_AT, restore, supervision};
use rustix::process::Signal;
use verbatim_daemon::worker::{Job, WorkerEnd, WorkerEvent};
use verbatim_record::{Cause, Outcome};
use verbatim_rig::RigFile;
use verbatim_run::{self as run, Report, Request};

/// The place of a test that this program is started for again, as its daemon.
const DAEMON_OF: &str = "VERBATIM_TEST_DAEMON_OF";

fn in_this_process(place: &Place, job: &Job, record: &str) -> Report {
    let request = Request {
        rig: job.rig.clone(),
        tests: job.tests.clone(),
        parameters: job.parameters.clone(),
        seed: job.seed,
        id: None,
        record: Some(place.path(record)),
        cancel: Arc::default(),
    };
    run::execute_in(&request, Some(&place.state), &mut |_| ()).unwrap()
}

/// Test, outcome, cause, statements that failed or are open, and how many checks passed.
type Gist = (String, Outcome, Option<Cause>, Vec<String>, usize);

/// What does not depend on the time that anything took.
fn gist(report: &Report) -> Vec<Gist> {
    let gist = |verdict: &verbatim_record::Verdict| {
        let findings = verdict.findings.iter().map(|check| check.statement.clone()).collect();
        (
            verdict.test.clone(),
            verdict.outcome,
            verdict.cause,
            findings,
            verdict.passed.len(),
        )
    };
    report.verdicts.iter().map(gist).collect()
}

#[tokio::test]
async fn a_run_in_a_worker_comes_to_the_verdicts_of_a_run_in_this_process() {
    let place = Place::new();
    let tests = [
        "c14-024-node-info",
        "c14-015-get",
        "c14-024-port-info-rw",
        "c14-024-vl-arbitration-ca",
    ];
    let job = place.job(&tests);
    let (end, events) = Running::start(&place, supervision(), job.clone()).end().await;
    assert!(!end.left_changed());
    let WorkerEnd::Finished(report) = end else {
        panic!("{end:?}");
    };
    let here = in_this_process(&place, &job, "record-here");
    assert_eq!(gist(&report), gist(&here));
    assert!(
        report.verdicts.iter().all(|verdict| verdict.outcome == Outcome::Pass),
        "{report:?}"
    );

    let begun: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            WorkerEvent::Begun(test, place, 4) => Some((test.as_str(), *place)),
            _ => None,
        })
        .collect();
    assert_eq!(
        begun,
        (0..).zip(tests).map(|(place, test)| (test, place)).collect::<Vec<_>>()
    );
    let ended = events.iter().filter_map(|event| match event {
        WorkerEvent::Ended(verdict) => Some(verdict.as_ref()),
        _ => None,
    });
    assert!(ended.eq(&report.verdicts));
    assert!(events.iter().any(|event| matches!(event, WorkerEvent::Step(_))));

    let (judged, drift) = run::judge_bundle(&job.record).unwrap();
    assert_eq!((judged.verdicts, drift), (report.verdicts, Vec::new()));
}

#[tokio::test]
async fn a_virtual_rig_runs_in_this_process_to_the_same_report() {
    let place = Place::of("kind = \"virtual\"\ndefects = [\"m-key-not-kept\"]\n");
    let all: Vec<&str> = verbatim_catalog::TESTS.iter().map(|test| test.id).collect();
    let job = place.job(&all);
    let (end, events) = Running::start(&place, supervision(), job.clone()).end().await;
    let WorkerEnd::Finished(report) = end else {
        panic!("{end:?}");
    };
    assert_eq!(report.verdicts, in_this_process(&place, &job, "record-here").verdicts);
    assert_eq!(report.run.outcome, Outcome::Fail);
    assert_eq!(
        events
            .iter()
            .filter(|event| matches!(event, WorkerEvent::Ended(_)))
            .count(),
        all.len()
    );
    assert_eq!(restore(&place).await, Ok(Vec::new()));
}

#[test]
fn a_cancel_between_two_tests_is_no_success() {
    let place = Place::of("kind = \"virtual\"\n");
    let job = place.job(&["c14-015-get", "c14-024-node-info", "c14-024-port-info-rw"]);
    let request = Request {
        rig: job.rig.clone(),
        tests: job.tests.clone(),
        parameters: Vec::new(),
        seed: job.seed,
        id: None,
        record: Some(job.record.clone()),
        cancel: Arc::default(),
    };
    let mut cancel_after_the_first = |event: run::Event<'_>| {
        if matches!(event, run::Event::Ended(_)) {
            request.cancel.store(true, Ordering::Relaxed);
        }
    };
    let report = run::execute_in(&request, Some(&place.state), &mut cancel_after_the_first).unwrap();
    let ends: Vec<_> = report
        .verdicts
        .iter()
        .map(|verdict| (verdict.outcome, verdict.cause))
        .collect();
    let expected = [
        (Outcome::Pass, None),
        (Outcome::Error, Some(Cause::Operator)),
        (Outcome::Skipped, Some(Cause::Rig)),
    ];
    assert_eq!(ends, expected);
    assert_eq!(report.run.outcome, Outcome::Error);
    let (judged, drift) = run::judge_bundle(&job.record).unwrap();
    assert_eq!((judged.verdicts, drift), (report.verdicts, Vec::new()));
}

#[tokio::test]
async fn a_cancel_stops_the_test_restores_the_device_and_leaves_a_whole_record() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST, "c14-015-get"]));
    running.reaches(WAITS_AT).await;
    assert!(place.journal().exists() && !place.is_as_found());
    running.cancel.send(true).unwrap();
    let (end, _) = running.end().await;
    assert!(!end.left_changed());
    let WorkerEnd::Finished(report) = end else {
        panic!("{end:?}");
    };
    let causes: Vec<_> = report
        .verdicts
        .iter()
        .map(|verdict| (verdict.outcome, verdict.cause))
        .collect();
    assert_eq!(causes[0].1, Some(Cause::Operator), "{causes:?}");
    assert_eq!(causes[1].0, Outcome::Skipped, "{causes:?}");
    assert!(!place.journal().exists() && place.is_as_found());
    assert_eq!(run::judge_bundle(&place.path("record")).unwrap().1, [""; 0]);
}

#[tokio::test]
async fn sigterm_to_a_worker_is_a_cancel() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    place.worker().signal(Signal::TERM);
    let (end, _) = running.end().await;
    assert!(matches!(end, WorkerEnd::Finished(_)), "{end:?}");
    assert!(place.is_as_found());
}

#[tokio::test]
async fn a_worker_whose_daemon_dies_restores_the_device_keeps_its_record_and_ends() {
    let place = Place::new();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args([
            "a_daemon_that_runs_the_long_test",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(DAEMON_OF, place.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(daemon.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("under way")));
    assert!(!place.is_as_found());
    let end = place.worker().end();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    tokio::task::spawn_blocking(end).await.unwrap();
    assert!(!place.journal().exists() && place.is_as_found());
    let (report, drift) = run::judge_bundle(&place.path("record")).unwrap();
    assert_eq!((report.verdicts.len(), drift.len()), (1, 0));
}

/// Not a test: the daemon of the test above.
#[tokio::test]
#[ignore = "started by another test"]
async fn a_daemon_that_runs_the_long_test() {
    let Some(directory) = std::env::var_os(DAEMON_OF) else {
        return;
    };
    let directory = Path::new(&directory);
    let rig_file = directory.join("rigs.toml");
    let place = Place::there(directory, RigFile::read(&rig_file).unwrap().find("r").unwrap().clone());
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    println!("under way");
    running.end().await;
}

#[tokio::test]
async fn a_worker_whose_job_is_dropped_restores_the_device_and_ends() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    let end = place.worker().end();
    running.job.abort();
    tokio::task::spawn_blocking(end).await.unwrap();
    assert!(place.is_as_found());
}

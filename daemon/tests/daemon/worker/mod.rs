//! Workers as processes: their reports, their ends, and the state of the device afterwards.

mod deaths;
mod place;
mod protocol;
mod trouble;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use place::{LONG_TEST, Place, Running, WAITS_AT, restore, supervision};
use rustix::process::Signal;
use verbatim_daemon::worker::{Job, WorkerEnd};
use verbatim_proto::v1::{Cause, Outcome, Verdict};
use verbatim_rig::RigFile;
use verbatim_run::{self as run, Event, Report, Request};

/// The environment variable with the directory of the test that starts this program again as its daemon.
const DAEMON_OF: &str = "VERBATIM_TEST_DAEMON_OF";

fn request_of(job: &Job) -> Request {
    Request {
        id: job.run.clone(),
        rig: job.rig.clone(),
        spec: job.spec.clone(),
        record: Some(job.record.clone()),
        cancel: Arc::default(),
        lease: Arc::default(),
        shrinks: true,
        rig_options: String::new(),
    }
}

fn in_this_process(place: &Place, job: &Job, record: &str) -> Report {
    let request = Request {
        record: Some(place.path(record)),
        ..request_of(job)
    };
    run::execute_in(&request, Some(&place.state), &mut |_| ()).unwrap()
}

/// Returns the reported verdicts.
pub(crate) fn verdicts(events: &[Event]) -> Vec<Verdict> {
    let verdict = |event: &Event| match event {
        Event::TestEnded(ended) => ended.verdict.clone(),
        _ => None,
    };
    events.iter().filter_map(verdict).collect()
}

/// Returns the outcome and the cause of each verdict.
pub(crate) fn ends(verdicts: &[Verdict]) -> Vec<(Outcome, Cause)> {
    let end = |verdict: &Verdict| (verdict.outcome(), verdict.cause());
    verdicts.iter().map(end).collect()
}

/// The test, outcome, cause, statements of the findings, and number of passed checks of a verdict.
type Gist = (String, Outcome, Cause, Vec<String>, usize);

/// Returns the parts of verdicts that do not depend on the time.
fn gist(verdicts: &[Verdict]) -> Vec<Gist> {
    let gist = |verdict: &Verdict| {
        let findings = verdict.findings.iter().map(|check| check.statement.clone()).collect();
        (
            verdict.test.clone(),
            verdict.outcome(),
            verdict.cause(),
            findings,
            verdict.passed.len(),
        )
    };
    verdicts.iter().map(gist).collect()
}

#[tokio::test]
async fn worker_reports_same_verdicts_as_in_process() {
    let place = Place::new();
    let tests = [
        "c14-015-get",
        "c14-024-node-info",
        "c14-024-port-info-rw",
        "c14-024-vl-arbitration-ca",
    ];
    let job = place.job(&tests);
    let (end, events) = Running::start(&place, supervision(), job.clone()).end().await;
    let WorkerEnd::Finished(info) = end else {
        panic!("{end:?}");
    };
    let told = verdicts(&events);
    let here = in_this_process(&place, &job, "record-here");
    assert_eq!(gist(&told), gist(&here.verdicts));
    assert!(
        told.iter().all(|verdict| verdict.outcome() == Outcome::Pass),
        "{told:?}"
    );
    assert_eq!(
        (info.id, info.outcome, info.record),
        (here.run.id, here.run.outcome, Some(job.record.display().to_string()))
    );

    let begun: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::TestStarted(begun) if begun.total == 4 => Some((begun.test.as_str(), begun.place)),
            _ => None,
        })
        .collect();
    assert_eq!(
        begun,
        (0..).zip(tests).map(|(place, test)| (test, place)).collect::<Vec<_>>()
    );
    assert!(events.iter().any(|event| matches!(event, Event::StepStarted(_))));

    let (judged, drift) = run::judge_bundle(&job.record).unwrap();
    assert_eq!((judged.verdicts, drift), (told, Vec::new()));
}

#[tokio::test]
async fn virtual_rig_runs_in_this_process() {
    let place = Place::of("kind = \"virtual\"\ndefects = [\"m-key-not-kept\"]\n");
    // The tests with hundreds of rows take most of the time.
    let has_rows = |id: &&str| id.starts_with("c09-matrix-") || id.starts_with("c09-pair-");
    let all = verbatim_catalog::TESTS.iter().map(|test| test.id);
    let all: Vec<&str> = all.filter(|id| !has_rows(id)).collect();
    let job = place.job(&all);
    let (end, events) = Running::start(&place, supervision(), job.clone()).end().await;
    let WorkerEnd::Finished(info) = end else {
        panic!("{end:?}");
    };
    let told = verdicts(&events);
    assert_eq!(told, in_this_process(&place, &job, "record-here").verdicts);
    assert_eq!((info.outcome(), told.len()), (Outcome::Fail, all.len()));
    assert_eq!(restore(&place).await, Ok(Vec::new()));
}

#[test]
fn cancel_between_tests_is_an_error() {
    let place = Place::of("kind = \"virtual\"\n");
    let job = place.job(&["c14-015-get", "c14-024-node-info", "c14-024-port-info-rw"]);
    let mut request = request_of(&job);
    request.spec.parameters.clear();
    let mut cancel_after_the_first = |event: Event| {
        if matches!(event, Event::TestEnded(_)) {
            request.cancel.store(true, Ordering::Relaxed);
        }
    };
    let report = run::execute_in(&request, Some(&place.state), &mut cancel_after_the_first).unwrap();
    let expected = [
        (Outcome::Pass, Cause::Unspecified),
        (Outcome::Error, Cause::Operator),
        (Outcome::Skipped, Cause::Rig),
    ];
    assert_eq!(ends(&report.verdicts), expected);
    assert_eq!(report.run.outcome(), Outcome::Error);
    let (judged, drift) = run::judge_bundle(&job.record).unwrap();
    assert_eq!((judged.verdicts, drift), (report.verdicts, Vec::new()));
}

#[tokio::test]
async fn cancel_restores_device_and_keeps_record() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST, "c14-024-node-info"]));
    running.reaches(WAITS_AT).await;
    assert!(place.journal().exists() && !place.is_as_found());
    running.cancel.send(true).unwrap();
    let (end, events) = running.end().await;
    assert!(matches!(end, WorkerEnd::Finished(_)), "{end:?}");
    let ends = ends(&verdicts(&events));
    assert_eq!(ends[0].1, Cause::Operator, "{ends:?}");
    assert_eq!(ends[1].0, Outcome::Skipped, "{ends:?}");
    assert!(!place.journal().exists() && place.is_as_found());
    assert_eq!(run::judge_bundle(&place.path("record")).unwrap().1, [""; 0]);
}

#[tokio::test]
async fn sigterm_cancels_the_run() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    place.worker().signal(Signal::TERM);
    let (end, _) = running.end().await;
    assert!(matches!(end, WorkerEnd::Finished(_)), "{end:?}");
    assert!(place.is_as_found());
}

#[tokio::test]
async fn worker_restores_when_daemon_dies() {
    let place = Place::new();
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args([
            "worker::a_daemon_that_runs_the_long_test",
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

/// Not a test: the process that `worker_restores_when_daemon_dies` starts and kills.
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
async fn worker_restores_when_job_is_dropped() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    let end = place.worker().end();
    running.job.abort();
    tokio::task::spawn_blocking(end).await.unwrap();
    assert!(place.is_as_found());
}

//! Workers that die in mid-run: it costs the test that they were at, and a new worker goes on with the rest. And those that
//! give way: they end between two tests, and the next one goes on.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use verbatim_daemon::worker::{Resumes, Supervision, WorkerEnd};
use verbatim_proto::v1::{Cause, Outcome, Verdict};
use verbatim_proto::worker::Lease;
use verbatim_run::{self as run, Event};

use super::place::{LONG_TEST, Place, Running, WAITS_AT, supervision};
use super::{ends, verdicts};

const PASSED: (Outcome, Cause) = (Outcome::Pass, Cause::Unspecified);
const LOST: (Outcome, Cause) = (Outcome::Error, Cause::Tester);

/// Waits for the end of a run that lost workers: each test began once and has a verdict, the bundle judges anew to the
/// same, and the device is as it was found.
async fn goes_on(place: &Place, running: Running) -> Vec<Verdict> {
    let (end, events) = running.end().await;
    let WorkerEnd::Finished(info) = end else {
        panic!("{end:?}");
    };
    let told = verdicts(&events);
    let begun = events.iter().filter_map(|event| match event {
        Event::TestStarted(begun) => Some(&begun.test),
        _ => None,
    });
    assert!(begun.eq(told.iter().map(|verdict| &verdict.test)), "{events:?}");
    let lost: Vec<&Verdict> = told
        .iter()
        .filter(|verdict| ends(&[(*verdict).clone()]) == [LOST])
        .collect();
    let replaced: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::LogLine(line) => line.text.strip_prefix("a new worker goes on with the run: "),
            _ => None,
        })
        .collect();
    assert_eq!(lost.len(), replaced.len(), "{replaced:?}");
    for (verdict, why) in lost.iter().zip(replaced) {
        assert!(verdict.reason.contains(why), "{why} is not in: {}", verdict.reason);
        assert!(why.contains(&format!("in test {}", verdict.test)), "{why}");
    }
    assert_eq!(info.outcome(), Outcome::Error);
    let (judged, drift) = run::judge_bundle(&place.path("record")).unwrap();
    assert_eq!((judged.run, judged.verdicts, drift), (*info, told.clone(), Vec::new()));
    assert!(!place.journal().exists() && place.is_as_found());
    told
}

/// The worker gets that signal in the second of three tests, with the device changed. What is said of its end.
async fn dies(supervision: Supervision, signal: Signal) -> String {
    let place = Place::new();
    let tests = ["c14-015-get", LONG_TEST, "c14-024-node-info"];
    let mut running = Running::start(&place, supervision, place.job(&tests));
    running.reaches(WAITS_AT).await;
    assert!(place.journal().exists() && !place.is_as_found());
    place.worker().signal(signal);
    let told = goes_on(&place, running).await;
    assert_eq!(ends(&told), [PASSED, LOST, PASSED], "{told:?}");
    let reason = told[1].reason.clone();
    assert!(reason.contains(WAITS_AT) && reason.contains("rig r"), "{reason}");
    reason
}

#[tokio::test]
async fn a_worker_that_is_killed_in_mid_run_costs_its_test_alone() {
    let reason = dies(supervision(), Signal::KILL).await;
    assert!(reason.contains("it was ended by SIGKILL"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_aborts_in_mid_run_costs_its_test_alone() {
    let reason = dies(supervision(), Signal::ABORT).await;
    assert!(reason.contains("it was ended by SIGABRT"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_is_stopped_past_its_grace_is_killed_and_costs_its_test_alone() {
    let supervision = Supervision {
        ping_every: Duration::from_millis(100),
        grace: Duration::from_secs(10),
        ..supervision()
    };
    let reason = dies(supervision, Signal::STOP).await;
    assert!(reason.contains("10s") && reason.contains("it was killed"), "{reason}");
}

#[tokio::test]
async fn each_worker_of_a_run_may_die_when_it_came_further_than_the_one_before() {
    let place = Place::new();
    // It tries 65,532 values.
    let second = "c14-024-vl-arbitration-ca";
    let mut running = Running::start(
        &place,
        supervision(),
        place.job(&[LONG_TEST, second, "c14-029-trap-repress"]),
    );
    running.reaches(WAITS_AT).await;
    place.worker().signal(Signal::KILL);
    running.begins(second).await;
    place.worker().signal(Signal::KILL);
    let told = goes_on(&place, running).await;
    assert_eq!(ends(&told), [LOST, LOST, PASSED], "{told:?}");
}

#[tokio::test]
async fn a_worker_that_dies_in_the_last_test_is_replaced_for_its_verdict_and_the_bundle() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    place.worker().signal(Signal::KILL);
    assert_eq!(ends(&goes_on(&place, running).await), [LOST]);
}

#[tokio::test]
async fn a_run_that_gives_way_ends_between_two_tests_and_goes_on_with_the_rest_in_one_bundle() {
    let place = Place::new();
    let tests = ["c14-015-get", LONG_TEST, "c14-024-node-info"];
    let lease = Lease {
        token: 1,
        until_boot_ns: u64::MAX,
        gives_way: false,
    };
    let (tell, told) = watch::channel(lease);
    let first = verbatim_daemon::worker::Job {
        lease: Some(told),
        ..place.job(&tests)
    };
    let mut running = Running::start(&place, supervision(), first);
    running.reaches(WAITS_AT).await;
    tell.send_replace(Lease {
        gives_way: true,
        ..lease
    });
    // The death of a worker in between is no reason to go on.
    place.worker().signal(Signal::KILL);
    let (end, events) = running.end().await;
    assert!(matches!(end, WorkerEnd::GaveWay), "{end:?}");
    let before = verdicts(&events);
    assert_eq!(ends(&before), [PASSED, LOST]);
    assert!(!place.journal().exists() && place.is_as_found());
    assert!(!place.path("record/manifest.json").exists());

    let rest = verbatim_daemon::worker::Job {
        resume: Some(Resumes { done: 2, started_ns: 7 }),
        ..place.job(&tests)
    };
    let (end, events) = Running::start(&place, supervision(), rest).end().await;
    let WorkerEnd::Finished(info) = end else {
        panic!("{end:?}");
    };
    assert_eq!((info.started_ns, ends(&verdicts(&events))), (7, vec![PASSED]));
    let (judged, drift) = run::judge_bundle(&place.path("record")).unwrap();
    assert_eq!(
        (judged.verdicts, drift),
        ([before, verdicts(&events)].concat(), Vec::new())
    );
}

//! Workers that die during a run: the current test becomes an ERROR, and a new worker continues with the next
//! test. Also runs that give way: the run stops between two tests, and continues later.

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

/// Waits for the end of a run that lost workers, and checks the run. Each test must have begun once and have a
/// verdict. Judging the record again must give the same verdicts, and the device must be as it was found.
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
            Event::LogLine(line) => line.text.strip_prefix("a new worker continues the run: "),
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

/// Sends the signal to the worker in the second of three tests, with the device changed. Returns the reason of that
/// test's verdict.
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
async fn killed_worker_costs_one_test() {
    let reason = dies(supervision(), Signal::KILL).await;
    assert!(reason.contains("it was ended by SIGKILL"), "{reason}");
}

#[tokio::test]
async fn aborted_worker_costs_one_test() {
    let reason = dies(supervision(), Signal::ABORT).await;
    assert!(reason.contains("it was ended by SIGABRT"), "{reason}");
}

#[tokio::test]
async fn stopped_worker_costs_one_test() {
    let supervision = Supervision {
        ping_every: Duration::from_millis(100),
        grace: Duration::from_secs(10),
        ..supervision()
    };
    let reason = dies(supervision, Signal::STOP).await;
    assert!(reason.contains("10s") && reason.contains("it was killed"), "{reason}");
}

#[tokio::test]
async fn several_workers_of_a_run_may_die() {
    let place = Place::new();
    // This test tries 65,532 values, so its worker can be killed before the test ends.
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
async fn worker_death_in_last_test_is_recovered() {
    let place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    place.worker().signal(Signal::KILL);
    assert_eq!(ends(&goes_on(&place, running).await), [LOST]);
}

#[tokio::test]
async fn run_that_gave_way_continues_in_one_bundle() {
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
    // The worker dies before it can give way. Its replacement must give way too, and must not run the last test.
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

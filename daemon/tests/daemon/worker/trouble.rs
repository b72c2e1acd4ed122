//! Workers that hang, are refused, or cannot restore the device.

use std::time::Duration;

use rustix::process::Signal;
use verbatim_daemon::worker::{Supervision, WorkerEnd};
use verbatim_proto::v1::{Cause, Outcome};
use verbatim_record::BundleError;
use verbatim_run::{self as run, Event, RunError};
use verbatim_tester::FileJournal;

use super::place::{LONG_TEST, Place, Running, WAITS_AT, never_read, restore, supervision};
use super::{ends, verdicts};

#[tokio::test]
async fn later_run_restores_after_device_loss() {
    let mut place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST, "c14-024-node-info"]));
    running.reaches(WAITS_AT).await;
    let worker = place.worker();
    worker.signal(Signal::STOP);
    place.end_model();
    worker.signal(Signal::KILL);
    let (cause, reason, not_restored) = running.failure().await;
    assert_eq!((cause, not_restored), (Cause::Tester, true), "{reason}");
    for words in ["SIGKILL", "the worker that replaced it", "no device model answers"] {
        assert!(reason.contains(words), "{words} is not in: {reason}");
    }
    let judged = run::judge_bundle(&place.path("record")).unwrap_err();
    assert!(
        matches!(&judged, RunError::Bundle(BundleError::NoRecord { .. })),
        "{judged}"
    );
    assert!(place.journal().exists());

    place.start_model();
    let mut job = place.job(&["c14-024-node-info"]);
    job.record = place.path("record-2");
    let (end, events) = Running::start(&place, supervision(), job).end().await;
    assert!(matches!(end, WorkerEnd::Finished(_)), "{end:?}");
    let recovered = |event: &Event| matches!(event, Event::RestoreEnded(ended) if !ended.areas.is_empty());
    assert!(events.iter().any(recovered), "{events:?}");
    assert!(place.is_as_found());
}

#[tokio::test]
async fn lost_device_is_left_changed() {
    let mut place = Place::new();
    let mut running = Running::start(&place, supervision(), place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    place.end_model();
    let (end, events) = running.end().await;
    assert!(matches!(end, WorkerEnd::Finished(_)), "{end:?}");
    let told = verdicts(&events);
    let mut restored = told.iter().flat_map(|verdict| &verdict.restored);
    assert!(restored.any(|area| !area.is_complete()), "{told:?}");
    let error = restore(&place).await.unwrap_err();
    assert!(error.contains("no device model answers"), "{error}");
    let mut job = place.job(&[LONG_TEST]);
    job.record = place.path("record-2");
    let (cause, reason, not_restored) = Running::start(&place, supervision(), job).failure().await;
    assert_eq!((cause, not_restored), (Cause::Rig, true), "{reason}");
}

/// Starts a worker whose main thread hangs in a system call after its tests have ended. The call opens a pipe
/// without a reader, to which the worker would write the head of its report.
async fn will_hang(place: &Place, supervision: Supervision) -> Running {
    let mut running = Running::start(place, supervision, place.job(&[LONG_TEST]));
    running.reaches(WAITS_AT).await;
    never_read(&place.path("record/run.json"));
    running
}

#[tokio::test]
async fn hung_workers_are_killed() {
    let place = Place::new();
    let supervision = Supervision {
        ping_every: Duration::from_millis(100),
        grace: Duration::from_secs(3),
        hung_after: Duration::from_secs(2),
        ..supervision()
    };
    let running = will_hang(&place, supervision).await;
    place.worker().signal(Signal::TERM);
    let (cause, reason, not_restored) = running.failure().await;
    assert_eq!((cause, not_restored), (Cause::Tester, false), "{reason}");
    let (one, other) = reason.split_once("the worker that replaced it failed too").unwrap();
    for reason in [one, other] {
        assert!(reason.contains("hanging in a library or driver for 2s"), "{reason}");
    }
}

#[tokio::test]
async fn worker_that_ignores_cancel_is_killed() {
    let place = Place::new();
    let supervision = Supervision {
        stop_within: Duration::from_secs(1),
        ..supervision()
    };
    let running = will_hang(&place, supervision).await;
    running.cancel.send(true).unwrap();
    let (cause, reason, _) = running.failure().await;
    assert_eq!(cause, Cause::Tester, "{reason}");
    assert!(reason.contains("was cancelled and did not end within 1s"), "{reason}");
    assert!(!reason.contains("that replaced it"), "{reason}");
}

#[tokio::test]
async fn rig_in_use_is_refused() {
    let place = Place::new();
    let held = FileJournal::open(&place.state.journals(), "r").unwrap();
    let (cause, reason, not_restored) = Running::start(&place, supervision(), place.job(&[LONG_TEST]))
        .failure()
        .await;
    assert_eq!((cause, not_restored), (Cause::Rig, false), "{reason}");
    assert!(reason.contains("in use by another process"), "{reason}");
    let error = restore(&place).await.unwrap_err();
    assert!(error.contains("in use by another process"), "{error}");
    drop(held);
    assert_eq!(restore(&place).await, Ok(Vec::new()));
}

#[tokio::test]
async fn worker_ignores_changed_rig_file() {
    let place = Place::new();
    let job = place.job(&["c14-024-node-info"]);
    std::fs::write(&place.rig_file, "no rig file any more").unwrap();
    let (end, events) = Running::start(&place, supervision(), job).end().await;
    assert!(matches!(end, WorkerEnd::Finished(_)), "{end:?}");
    assert_eq!(ends(&verdicts(&events)), [(Outcome::Pass, Cause::Unspecified)]);
}

#[tokio::test]
async fn library_output_is_reported_by_line() {
    // `LD_DEBUG` makes the dynamic linker write to the worker's output, as any library may. The rig's device need
    // not exist.
    let place = Place::of(
        "kind = \"umad\"\ndevice = \"none\"\nport = 1\nroute = \"0,1\"\n[rig.env]\nLD_DEBUG = \"libs\"\nLD_PRELOAD = \"/absent.so\"\n",
    );
    let (end, events) = Running::start(&place, supervision(), place.job(&[LONG_TEST]))
        .end()
        .await;
    let WorkerEnd::Failed { cause, reason, .. } = end else {
        panic!("{end:?}");
    };
    assert_eq!(cause, Cause::Rig, "{reason}");
    assert!(reason.contains("rig \"r\" is unavailable"), "{reason}");
    let told = |word: &str| {
        let has = |event: &Event| matches!(event, Event::LogLine(line) if line.text.contains(word));
        events.iter().any(has)
    };
    assert!(told("calling init") && told("/absent.so"), "{events:?}");
}

#[tokio::test]
async fn absent_or_failing_program_fails_job() {
    for (program, word) in [
        ("/absent/verbatimd", "was not started"),
        ("/bin/false", "it ended with code 1"),
    ] {
        let place = Place::new();
        let supervision = Supervision {
            program: program.into(),
            ..supervision()
        };
        let (cause, reason, not_restored) = Running::start(&place, supervision, place.job(&[LONG_TEST]))
            .failure()
            .await;
        assert_eq!((cause, not_restored), (Cause::Tester, false), "{reason}");
        assert!(reason.contains(word), "{reason}");
    }
}

//! Tests of following a run: by several clients, across a daemon's death, and with signals.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::support::{Output, Place, Running};

/// A test that ends at once, then a test that takes half a minute of real time.
const LONG: &str = "--rig bench C13_013 c14-016-get-protect-2";

/// Returns the cursors of all events, and the run's state in the last event.
fn events(watched: &Output) -> (Vec<u64>, Value) {
    let lines = watched.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = lines.collect();
    let cursors = events.iter().map(|event| event["cursor"].as_u64().unwrap()).collect();
    (cursors, events.last().unwrap()["state_changed"].clone())
}

/// Checks that the client received every event of the run once and in order. Returns the last state.
fn assert_whole(watched: &Output) -> Value {
    let (cursors, last) = events(watched);
    let expected: Vec<u64> = (1..=cursors.len() as u64).collect();
    assert_eq!(cursors, expected);
    assert_eq!(last["state"], "ENDED", "{watched:?}");
    last
}

/// Starts a run, and waits until it is in its long test.
fn detached(place: &Place) -> Running {
    assert_eq!(place.verbatim(&format!("run --detach {LONG}")).code, Some(0));
    in_the_long_test(place)
}

/// Watches the latest run until its long test waits for a timeout.
fn in_the_long_test(place: &Place) -> Running {
    let mut watcher = place.start("runs watch latest --json");
    watcher.prints("\"wrong key\"");
    watcher
}

#[test]
fn second_watcher_survives_a_killed_one() {
    let place = Place::new();
    let (_device, _daemon) = (place.device(), place.daemon());
    let one = detached(&place);
    let other = in_the_long_test(&place);
    one.kill();
    assert_eq!(place.verbatim("runs cancel latest").code, Some(0));
    let other = other.end();
    let last = assert_whole(&other);
    assert_eq!(
        (last["outcome"].as_str(), other.code),
        (Some("ERROR"), Some(3)),
        "{last}"
    );
    assert_eq!(last["cause"], "OPERATOR");
}

#[test]
fn watcher_survives_daemon_and_gets_each_event_once() {
    let place = Place::new();
    let (_device, daemon) = (place.device(), place.daemon());
    let mut watcher = detached(&place);
    daemon.kill();
    watcher.says("trying again");
    let _daemon = place.daemon();
    let watched = watcher.end();
    let last = assert_whole(&watched);
    assert_eq!(
        (last["outcome"].as_str(), watched.code),
        (Some("ERROR"), Some(3)),
        "{watched:?}"
    );

    // A watch with a cursor returns only later events.
    let (all, _) = events(&watched);
    let rest = place.verbatim("runs watch latest --json --cursor 3");
    assert_eq!(events(&rest).0, all[3..]);
}

#[test]
fn first_ctrl_c_cancels_and_waits() {
    let place = Place::new();
    let (_device, _daemon) = (place.device(), place.daemon());
    let mut run = place.start(&format!("run {LONG}"));
    run.prints("PASS");
    let _watcher = in_the_long_test(&place);
    run.signal(Signal::SIGINT);
    let run = run.end();
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(
        run.stderr.contains("cancelling: the device is restored first"),
        "{run:?}"
    );
    assert!(
        run.stdout.contains("1 passed") && run.stdout.contains("cancelled"),
        "{run:?}"
    );
    let shown = place.verbatim("runs show latest --json").json();
    assert_eq!(
        (&shown["state"], &shown["cause"]),
        (&"ENDED".into(), &"OPERATOR".into()),
        "{shown}"
    );
}

#[test]
fn second_ctrl_c_leaves_at_once() {
    let place = Place::new();
    let (_device, daemon) = (place.device(), place.daemon());
    let mut run = place.start(&format!("run {LONG}"));
    run.prints("PASS");
    // The daemon hangs, so the run cannot end before the second signal.
    daemon.signal(Signal::SIGSTOP);
    run.signal(Signal::SIGINT);
    run.says("cancelling");
    run.signal(Signal::SIGINT);
    let run = run.end();
    daemon.signal(Signal::SIGCONT);
    assert_eq!(run.code, Some(130), "{run:?}");
    assert!(
        run.stderr.contains("left; runs/") && run.stderr.contains("not yet confirmed"),
        "{run:?}"
    );
}

#[test]
fn leaving_a_watch_keeps_the_run() {
    let place = Place::new();
    let (_device, _daemon) = (place.device(), place.daemon());
    let watcher = detached(&place);
    watcher.signal(Signal::SIGINT);
    assert_eq!(watcher.end().code, None, "ended by the signal");
    assert_eq!(place.verbatim("runs show latest --json").json()["state"], "RUNNING");
    let waiting = place.verbatim(&format!("run --detach {LONG}"));
    assert_eq!(waiting.code, Some(0));
    let queued = place.verbatim("runs show latest --json").json();
    assert_eq!(
        (&queued["state"], &queued["queue_place"]),
        (&"QUEUED".into(), &1.into())
    );
    assert!(place.verbatim("rigs").stdout.contains("1 waiting"));
}

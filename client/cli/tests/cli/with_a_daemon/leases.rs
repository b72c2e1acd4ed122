//! Tests of leases: users who reserve a rig, and users who wait for a rig.

use super::support::Place;

#[test]
fn rig_is_reserved_used_renewed_and_released() {
    let place = Place::new();
    let _daemon = place.daemon();
    let reserved = place.verbatim("reserve --label kind=virtual --for 30m --json");
    assert_eq!(reserved.code, Some(0), "{reserved:?}");
    let lease = reserved.json();
    assert_eq!(
        (lease["state"].as_str(), lease["rig"].as_str()),
        (Some("ACTIVE"), Some("broken"))
    );
    let name = lease["name"].as_str().unwrap().to_string();
    let waits = place.verbatim("reserve broken --detach");
    assert!(
        waits.stderr.contains("PENDING") && waits.stderr.contains(&name),
        "{waits:?}"
    );
    assert!(
        waits
            .stderr
            .contains("waits, place 1 in the queue: rig broken is held by "),
        "{waits:?}"
    );
    let run = place.verbatim(&format!("run --lease {name} c14-024-node-info --json"));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.json()["run"]["rig"], "broken");
    let too_long = place.verbatim(&format!("leases renew {name} --for 25h"));
    assert_eq!(too_long.code, Some(2), "{too_long:?}");
    assert_eq!(place.verbatim(&format!("leases renew {name} --for 2h")).code, Some(0));
    let waiting = waits.stdout.trim_end().to_string();
    assert!(waiting.starts_with("leases/") && !waiting.contains(' '), "{waits:?}");
    let attached = place.start(&format!("reserve --attach {waiting}"));
    let ended = place.verbatim(&format!("leases end {name}"));
    assert!(ended.stdout.contains("was ended by "), "{ended:?}");
    let attached = attached.end();
    assert!(
        attached.code == Some(0) && attached.stderr.contains("ACTIVE"),
        "{attached:?}"
    );
    let over = place.verbatim(&format!("run --lease {name} c14-024-node-info"));
    assert!(over.code == Some(3) && over.stderr.contains("has ended"), "{over:?}");
    let listed = place.verbatim("leases --all --json").json();
    assert_eq!(listed["leases"].as_array().map(Vec::len), Some(2), "{listed}");
}

#[test]
fn labelled_run_waits_for_and_releases_a_rig() {
    let place = Place::new();
    let _daemon = place.daemon();
    // Two rigs are of kind `virtual`. The run gets the first of them, `broken`.
    let run = place.verbatim("run --label kind=virtual c14-024-node-info --json");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.json()["run"]["rig"], "broken");
    let held = place.verbatim("reserve --label kind=virtual --json").json();
    assert_eq!(held["rig"], "broken", "the lease of the run has ended: {held}");
    let other = place.verbatim("run --label kind=virtual --own-lease c14-024-node-info --json");
    assert_eq!(other.json()["run"]["rig"], "virtual", "{other:?}");
    let own = place.verbatim("run --label kind=virtual c14-024-node-info --json");
    assert_eq!(own.json()["run"]["rig"], "broken", "{own:?}");

    let also = place.verbatim("reserve virtual --json").json();
    let which = place.verbatim("run --label kind=virtual c14-024-node-info");
    assert_eq!(which.code, Some(2), "both are held by this user: {which:?}");
    assert!(which.stderr.contains("broken (leases/"), "{which:?}");
    let mut waits = place.start("run --label kind=virtual --own-lease c14-024-node-info");
    waits.says("place 1 in the queue");
    let name = also["name"].as_str().unwrap();
    assert_eq!(place.verbatim(&format!("leases end {name}")).code, Some(0));
    assert_eq!(waits.end().code, Some(0));

    let none = place.verbatim("run --label no-such-label c14-024-node-info");
    assert!(
        none.code != Some(0) && none.stderr.contains("no-such-label"),
        "{none:?}"
    );
    let both = place.verbatim("run --label kind=virtual --rig broken c14-024-node-info");
    assert_eq!(both.code, Some(2), "{both:?}");
    let left = place.verbatim("leases --json").json();
    assert_eq!(left["leases"].as_array().map(Vec::len), Some(1), "{left}");
}

#[test]
fn run_uses_the_users_own_lease() {
    let place = Place::new();
    let _daemon = place.daemon();
    let lease = place.verbatim("reserve broken").stdout;
    let run = place.verbatim("run --rig broken c14-024-node-info");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stderr.contains(&format!("runs under your {}", lease.trim_end())),
        "{run:?}"
    );
}

#[test]
fn no_wait_ends_at_once() {
    let place = Place::new();
    let _daemon = place.daemon();
    assert_eq!(place.verbatim("reserve broken").code, Some(0));
    for run in [
        "run --own-lease --rig broken --no-wait c14-024-node-info",
        "run --own-lease --rig broken --wait-at-most 1s c14-024-node-info",
        "reserve broken --no-wait",
        "reserve broken --wait-at-most 1s",
    ] {
        let ended = place.verbatim(run);
        assert_eq!(ended.code, Some(3), "{run}: {ended:?}");
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(all.contains("rig broken is held by"), "{run}: {ended:?}");
    }
    let left = place.verbatim("leases --mine --json").json();
    assert_eq!(left["leases"].as_array().map(Vec::len), Some(1), "{left}");
}

#[test]
fn queued_lease_ends_with_its_client() {
    let place = Place::new();
    std::fs::write(
        place.path("verbatimd.toml"),
        "config_version = 1\n[limits]\nclient_gone_s = 1\n",
    )
    .unwrap();
    let (mut daemon, _) = place.daemon_with("--config verbatimd.toml");
    assert_eq!(place.verbatim("reserve broken").code, Some(0));
    assert_eq!(place.verbatim("reserve virtual").code, Some(0));
    for waits in [
        "run --own-lease --rig broken",
        "run --own-lease --label kind=virtual",
        "reserve broken",
    ] {
        let mut client = place.start(waits);
        client.says("place 1 in the queue");
        client.kill();
        daemon.says("left the queue");
    }
}

#[test]
fn watcher_sees_drained_rig_and_waiting_run() {
    let place = Place::new();
    let _daemon = place.daemon();
    let mut rigs = place.start("rigs --watch");
    rigs.prints("virtual");
    assert_eq!(place.verbatim("rigs drain broken --why cable").code, Some(0));
    rigs.prints("DRAINING");
    let mut run = place.start("run --wait --rig broken c14-024-node-info");
    run.says("place 1 in the queue");
    assert_eq!(place.verbatim("rigs undrain broken").code, Some(0));
    assert_eq!(run.end().code, Some(0));
    rigs.kill();
}

#[test]
fn runs_are_compared_pinned_and_deleted() {
    let place = Place::new();
    let _daemon = place.daemon();
    assert_eq!(place.verbatim("run --rig broken c14-016-get-protect-2").code, Some(1));
    let first = place.verbatim("runs list --json").json()["runs"][0]["name"]
        .as_str()
        .unwrap()
        .to_string();
    assert_eq!(place.verbatim("run c14-016-get-protect-2").code, Some(0));
    let differs = place.verbatim(&format!("runs diff {first} latest"));
    assert_eq!(differs.code, Some(1), "{differs:?}");
    assert!(
        differs.stdout.contains("- FAIL: ") && differs.stdout.contains("+ PASS"),
        "{differs:?}"
    );
    let there = format!("unix:{}/runs/latest", place.path("verbatim.sock").display());
    let elsewhere = place.verbatim(&format!("runs diff --server none {there} {there}"));
    assert_eq!(elsewhere.code, Some(0), "{elsewhere:?}");
    let same = place.verbatim("runs diff latest latest");
    assert!(
        same.code == Some(0) && same.stdout.contains("no verdict and no measured value differs"),
        "{same:?}"
    );
    assert_eq!(place.verbatim(&format!("runs pin {first}")).code, Some(0));
    let pinned = place.verbatim(&format!("runs delete {first}"));
    assert!(
        pinned.code != Some(0) && pinned.stderr.contains("is pinned"),
        "{pinned:?}"
    );
    assert_eq!(place.verbatim(&format!("runs unpin {first}")).code, Some(0));
    assert_eq!(place.verbatim(&format!("runs delete {first}")).code, Some(0));
    assert_ne!(place.verbatim(&format!("runs show {first}")).code, Some(0));
}

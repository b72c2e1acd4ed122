//! Tests of which process executes a command: the command's own process or a daemon.

use std::os::unix::net::UnixListener;

use super::support::Place;

#[test]
fn without_socket_runs_in_process() {
    let place = Place::new();
    let run = place.verbatim("run C13_013");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("1 test on virtual, seed 0: 1 passed\n"), "{run:?}");
    assert!(!place.path("state").exists());
}

#[test]
fn refusing_socket_never_runs_in_process() {
    let place = Place::new();
    drop(UnixListener::bind(place.path("verbatim.sock")).unwrap());
    for command in ["run C13_013", "tests", "rigs", "rigs restore virtual", "runs list"] {
        let refused = place.verbatim(command);
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(3), ""),
            "{command}: {refused:?}"
        );
        assert!(refused.stderr.contains("refuses connections"), "{command}: {refused:?}");
        assert!(refused.stderr.contains("verbatim.sock") && refused.stderr.contains("systemctl start"));
    }
    let asked = place.verbatim("run --server none C13_013");
    assert_eq!(asked.code, Some(0), "{asked:?}");
}

#[test]
fn absent_named_server_is_an_error() {
    let place = Place::new();
    let absent = place.verbatim("run C13_013 --server /nowhere/verbatim.sock");
    assert_eq!(absent.code, Some(3), "{absent:?}");
    assert!(
        absent.stderr.contains("no daemon at /nowhere/verbatim.sock"),
        "{absent:?}"
    );
    let network = place.verbatim("rigs --server tcp:bench.example:7");
    assert_eq!(network.code, Some(2), "{network:?}");
    assert!(network.stderr.contains("plain TCP is not offered"), "{network:?}");
}

#[test]
fn daemon_commands_say_that_they_need_one() {
    let place = Place::new();
    for command in ["runs list", "run --detach"] {
        let refused = place.verbatim(command);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.stderr.contains("needs a daemon") && refused.stderr.contains("verbatimd serve"));
    }
    let restored = place.verbatim("rigs restore virtual");
    assert_eq!(
        (restored.code, restored.stdout.as_str()),
        (
            Some(0),
            "virtual: nothing to restore: the restore journal lists no change\n"
        )
    );
}

#[test]
fn refuses_rig_file_with_a_daemon() {
    let place = Place::new();
    let _daemon = place.daemon();
    for command in ["run", "rigs", "rigs restore broken"] {
        let refused = place.verbatim(&format!("{command} --rig-file rigs.toml"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("it has its own rig file"), "{refused:?}");
    }
}

#[test]
fn rigs_and_tests_come_from_the_daemon() {
    let place = Place::new();
    let (_device, _daemon) = (place.device(), place.daemon());
    let rigs = place.verbatim("rigs --json").json();
    let names: Vec<_> = rigs["rigs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rig| &rig["name"])
        .collect();
    assert!(
        names.contains(&&"rigs/broken".into()) && names.contains(&&"rigs/bench".into()),
        "{rigs}"
    );
    assert!(
        rigs["rigs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|rig| rig["state"] == "IDLE"),
        "{rigs}"
    );

    let at_daemon = place.verbatim("tests --json");
    let inside = place.verbatim("tests --json --server none");
    assert_eq!(at_daemon.json(), inside.json());
    assert_eq!(
        place.verbatim("tests --long").stdout,
        place.verbatim("tests --long --server none").stdout
    );
}

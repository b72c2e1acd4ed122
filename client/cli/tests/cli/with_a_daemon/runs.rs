//! Tests that runs at a daemon give the same results as runs inside the process.

use serde_json::Value;

use super::support::Place;

/// This run fails on the rig `broken`.
const FAILING: &str = "run --rig broken C14_016_Get C13_013 --seed 7";

fn keys(of: &Value) -> Vec<&String> {
    of.as_object().unwrap().keys().collect()
}

#[test]
fn remote_run_prints_the_same_as_a_local_run() {
    let place = Place::new();
    let _daemon = place.daemon();
    let inside = place.verbatim(&format!("{FAILING} --rig-file rigs.toml --server none"));
    let remote = place.verbatim(FAILING);
    assert_eq!((remote.code, inside.code), (Some(1), Some(1)), "{remote:?}");
    let (last_inside, last_remote) = (inside.stdout.lines().last(), remote.stdout.lines().last());
    let (last_inside, last_remote) = (last_inside.unwrap(), last_remote.unwrap());
    let (same, run) = last_remote.split_once("; runs/").unwrap();
    assert_eq!(same, last_inside);
    assert!(!run.is_empty() && inside.stdout.contains("expected") && inside.stdout.contains("evidence"));
    // The repeat command of a local run has the options of its rig.
    let options = format!("--server none --rig-file {} ", place.path("rigs.toml").display());
    let inside = inside.stdout.replace(&options, "");
    assert!(
        inside.contains("\n  again: verbatim run --rig broken c14-016-get-protect-1 --seed 7\n"),
        "{inside}"
    );
    assert_eq!(remote.stdout.replace(last_remote, last_inside), inside);
}

#[test]
fn remote_json_equals_local_json() {
    let place = Place::new();
    let _daemon = place.daemon();
    let mut inside = place
        .verbatim(&format!("{FAILING} --json --rig-file rigs.toml --server none"))
        .json();
    let mut remote = place.verbatim(&format!("{FAILING} --json")).json();
    // Only a local run has options of its rig; a daemon's rig needs only its name.
    let options = inside["run"].as_object_mut().unwrap().remove("rig_options").unwrap();
    assert!(
        options.as_str().unwrap().starts_with("--server none --rig-file "),
        "{options}"
    );
    assert_eq!(keys(&remote), keys(&inside));
    assert_eq!(keys(&remote["run"]), keys(&inside["run"]));
    for of_its_own in ["id", "started", "started_ns", "record"] {
        inside["run"][of_its_own] = Value::Null;
        remote["run"][of_its_own] = Value::Null;
    }
    assert_eq!(remote, inside);
}

#[test]
fn downloaded_record_is_complete_and_judged_alike() {
    let place = Place::new();
    let _daemon = place.daemon();
    let run = place.verbatim(&format!("{FAILING} --record kept --json"));
    assert_eq!(run.code, Some(1), "{run:?}");
    let report = run.json();
    assert_eq!(report["run"]["record"], place.path("kept").to_str().unwrap());
    let judged = place.verbatim("judge kept --json");
    assert_eq!((judged.code, judged.stderr.as_str()), (Some(1), ""), "{judged:?}");
    assert_eq!(judged.json()["verdicts"], report["verdicts"]);

    let again = place.verbatim(&format!("{FAILING} --record kept"));
    assert_eq!((again.code, again.stdout.as_str()), (Some(2), ""), "{again:?}");
    assert!(again.stderr.contains("never written over"), "{again:?}");
    let runs = place.verbatim("runs list --json").json();
    assert_eq!(
        runs["runs"].as_array().unwrap().len(),
        1,
        "nothing was run for nothing: {runs}"
    );
}

#[test]
fn lists_and_events_contain_no_report() {
    let place = Place::new();
    let _daemon = place.daemon();
    assert_eq!(place.verbatim(FAILING).code, Some(1));
    let shown = place.verbatim("runs show latest --json").json();
    assert!(
        !shown["verdicts"][1]["passed"].as_array().unwrap().is_empty(),
        "{shown}"
    );
    let listed = place.verbatim("runs list --json").json();
    let run = listed["runs"][0].as_object().unwrap();
    assert!(!run.contains_key("report"), "{listed}");
    let tests = run["tests"].as_array().unwrap().len();
    let watched = place.verbatim("runs watch latest --json");
    let events = watched
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_events: Vec<Value> = events
        .map(|mut event| event["test_ended"]["verdict"].take())
        .filter(|v| !v.is_null())
        .collect();
    for verdicts in [run["verdicts"].as_array().unwrap(), &of_events] {
        assert_eq!(verdicts.len(), tests, "{listed} {watched:?}");
        for verdict in verdicts {
            let fields = keys(verdict);
            assert!(fields.iter().any(|field| *field == "outcome"), "{verdict}");
            for of_report in ["passed", "observations", "restored"] {
                assert!(!fields.iter().any(|field| *field == of_report), "{verdict}");
            }
        }
    }
}

#[test]
fn files_of_a_detached_run_can_be_read_later() {
    let place = Place::new();
    let _daemon = place.daemon();
    let detached = place.verbatim("run --detach --rig broken C14_016_Get");
    assert_eq!(detached.code, Some(0), "{detached:?}");
    let name = detached.stdout.trim();
    assert!(name.starts_with("runs/"), "{detached:?}");

    let watched = place.verbatim(&format!("runs watch {name}"));
    assert_eq!(watched.code, Some(1), "the code is that of the run: {watched:?}");
    assert!(watched.stdout.contains("FAIL") && watched.stdout.contains("expected"));
    let id = name.strip_prefix("runs/").unwrap();
    for given in [name, id, "latest"] {
        let shown = place.verbatim(&format!("runs show {given} --json"));
        assert_eq!(
            (shown.code, &shown.json()["name"]),
            (Some(0), &Value::from(name)),
            "{shown:?}"
        );
    }
    assert!(place.verbatim("runs show latest").stdout.contains("evidence"));

    let listed = place.verbatim("runs artifacts latest");
    assert!(listed.stdout.contains("manifest.json"), "{listed:?}");
    let file = place.verbatim("runs artifacts latest run.json --output -");
    assert_eq!(file.json()["rig"], "broken");
    assert_eq!(place.verbatim("runs artifacts latest run.json").code, Some(0));
    assert_eq!(std::fs::read_to_string(place.path("run.json")).unwrap(), file.stdout);
    let over = place.verbatim("runs artifacts latest run.json");
    assert_eq!(over.code, Some(2), "{over:?}");
    assert_eq!(place.verbatim("runs export latest --pcapng run.pcapng").code, Some(0));
    let capture = std::fs::read(place.path("run.pcapng")).unwrap();
    assert_eq!(capture[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    let absent = place.verbatim("runs artifacts latest nothing.bin --output x");
    assert_eq!(absent.code, Some(2), "{absent:?}");
    assert!(!place.path("x").exists() && !place.path("x.part").exists());
}

#[test]
fn runs_are_listed_by_page_and_filter() {
    let place = Place::new();
    let _daemon = place.daemon();
    assert_eq!(place.verbatim("runs list").stderr, "no runs\n");
    let none = place.verbatim("runs show latest");
    assert_eq!(none.code, Some(2), "{none:?}");
    let codes =
        ["virtual", "broken", "virtual"].map(|rig| place.verbatim(&format!("run --rig {rig} C14_016_Get")).code);
    assert_eq!(codes, [Some(0), Some(1), Some(0)]);

    let count = |arguments: &str| {
        let listed = place.verbatim(&format!("runs list --json {arguments}")).json();
        (
            listed["runs"].as_array().unwrap().len(),
            listed["next_page_token"] != "",
        )
    };
    assert_eq!(count(""), (3, false));
    assert_eq!(count("--page-size 2"), (2, true));
    assert_eq!(count("--page-size 2 --all"), (3, false));
    assert_eq!(count("--filter rig=broken"), (1, false));
    assert_eq!(count("--filter outcome=PASS --page-size 1"), (1, true));
    let wrong = place.verbatim("runs list --filter color=red");
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("filter"), "{wrong:?}");
}

#[test]
fn wrong_request_is_a_usage_error() {
    let place = Place::new();
    let _daemon = place.daemon();
    for (command, words) in [
        ("run --rig nope", "nope"),
        ("run no-such-test", "no-such-test"),
        ("run C13_013 --set nothing=1", "nothing"),
        ("run C13_013 --set nothing", "NAME=VALUE"),
        ("run --set illegal_parts=-1", "a number from 0 to 65532 was"),
        ("runs show 0123456789ab-0000", "0123456789ab-0000"),
        ("runs watch rigs/7", "runs/ID"),
        ("rigs restore nope", "nope"),
    ] {
        let wrong = place.verbatim(command);
        assert_eq!(
            (wrong.code, wrong.stdout.as_str()),
            (Some(2), ""),
            "{command}: {wrong:?}"
        );
        assert!(wrong.stderr.contains(words), "{command}: {wrong:?}");
    }
}

#[test]
fn daemon_supports_expression_exitfirst_and_failed() {
    let place = Place::new();
    let _daemon = place.daemon();
    let first = place.verbatim("run --rig broken C14_016_Get -k get-protect -x");
    assert_eq!(first.code, Some(1), "{first:?}");
    assert!(
        first.stdout.contains("at the first failure, as asked: FAIL of "),
        "{first:?}"
    );
    let all = place.verbatim("run --rig broken C14_016_Get C13_013");
    let failed: Vec<&str> = all.stdout.lines().filter(|line| line.starts_with("FAIL  ")).collect();
    assert!(!failed.is_empty() && all.stdout.contains("PASS  "), "{all:?}");
    let again = place.verbatim("run --rig broken --failed -q");
    assert_eq!(again.code, Some(1), "{again:?}");
    let lines: Vec<&str> = again.stdout.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(lines, failed, "{again:?}");
    assert!(again.stderr.contains("--failed repeats tests of runs/"), "{again:?}");
    let own = place.verbatim("runs --filter owner=me");
    assert_eq!(
        own.stdout.lines().filter(|line| line.starts_with("runs/")).count(),
        3,
        "{own:?}"
    );
    let explained = place.verbatim("explain latest");
    assert_eq!(explained.code, Some(0), "{explained:?}");
    assert!(
        explained.stdout.contains(": expected no answer, seen "),
        "{explained:?}"
    );
    let never = place.verbatim("run --rig virtual --failed");
    assert_eq!(never.code, Some(2), "{never:?}");
}

#[test]
fn doctor_checks_the_daemon() {
    let place = Place::new();
    let none = place.verbatim("doctor --server /nowhere/verbatim.sock");
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(none.stdout.contains("missing daemon "), "{none:?}");
    let _daemon = place.daemon();
    let there = place.verbatim("doctor");
    assert!(there.stdout.contains("ok      daemon "), "{there:?}");
}

#[test]
fn trend_shows_outcomes_of_a_rig() {
    let place = Place::new();
    let _daemon = place.daemon();
    let none = place.verbatim("trend broken");
    assert_eq!(none.code, Some(2), "{none:?}");
    for _ in 0..2 {
        place.verbatim("run --rig broken c14-016-get-protect-2 c14-024-node-info");
    }
    let trend = place.verbatim("trend broken --values");
    assert_eq!(trend.code, Some(0), "{trend:?}");
    assert!(
        trend.stdout.contains("-: 2 FAIL\n") && trend.stdout.contains("-: 2 PASS\n"),
        "{trend:?}"
    );
    let json = place.verbatim("trend broken C14-16 --json").json();
    assert_eq!(json["tests"][0]["runs"][1]["outcome"], "FAIL", "{json}");
    assert_eq!(json["tests"].as_array().unwrap().len(), 1, "{json}");
}

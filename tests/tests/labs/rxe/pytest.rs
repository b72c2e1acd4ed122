//! The pytest plug-in on Linux rxe, through a daemon. The test checks the outcome of each item, its known deviations,
//! and the bundle that its report names, as docs/python.md describes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use verbatim_lab::workspace::root;
use verbatim_tests::product::{Output, Place, Running, program, run};
use verbatim_tests::python;

use crate::rxe::guest::rxe_lab;

/// Longest time of a session. On an idle host a session takes seconds.
const LIMIT: Duration = Duration::from_secs(1200);

const PASSES: &str = "c09-060-send-responder";
/// A test that fails on Linux rxe 6.1: a SEND completes wrongly, known as deviation `rxe-ghost-ack`.
const KNOWN: &str = "c09-060-ghost-ack";
/// A test that needs an adapter on the tester's side, which this rig lacks.
const NOT_APPLICABLE: &str = "c09-060-requester-verbs";

/// The result of a pytest session.
struct Session {
    output: Output,
    /// The session's JUnit report.
    report: String,
}

impl Session {
    /// Runs pytest with the three tests, and stores the bundles in `bundles`.
    fn run(place: &Place, socket: &Path, options: &[&str]) -> Self {
        let mut pytest = place.command(python::DEBIAN);
        pytest
            .args([
                "-m",
                "pytest",
                "-p",
                "no:cacheprovider",
                "-p",
                "verbatim_client.pytest_plugin",
            ])
            .args([
                "--verbatim-rig=rxe",
                "--verbatim-artifacts=bundles",
                "--junit-xml=report.xml",
                "-rA",
            ])
            .arg(format!("--verbatim-server=unix:{}", socket.display()))
            .args([PASSES, KNOWN, NOT_APPLICABLE].map(|test| format!("--verbatim-tests={test}")))
            .args(options)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            .env("PYTHONPATH", root().join("client/python"));
        let output = Running::start(&mut pytest).end(LIMIT);
        let report = fs::read_to_string(place.path("report.xml")).unwrap_or_else(|error| panic!("{error}: {output}"));
        Self { output, report }
    }

    /// Returns the report of an item.
    fn item(&self, test: &str) -> Item<'_> {
        let name = format!(" name=\"verbatim[rxe]::{test}\" ");
        let mut cases = self.report.split("<testcase ").skip(1);
        let case = cases.find(|case| case.split('>').next().is_some_and(|head| head.contains(&name)));
        Item(case.unwrap_or_else(|| panic!("{test} is no item: {}\n{}", self.report, self.output)))
    }

    fn items(&self) -> usize {
        self.report.matches("<testcase ").count()
    }

    /// Asserts an item's outcome for pytest, its verdict, and its known deviations.
    fn came_to(&self, test: &str, pytest: &str, outcome: &str, known: &[&str]) {
        let item = self.item(test);
        let seen = (item.came_to(), item.properties("outcome"), item.properties("known"));
        assert_eq!(
            seen,
            (pytest, vec![outcome], known.to_vec()),
            "{test}: {}\n{}",
            item.0,
            self.output
        );
    }

    /// Returns the path of the bundle, and asserts that all items name the same bundle.
    fn bundle(&self) -> PathBuf {
        let named = |test| {
            let item = self.item(test);
            let (runs, bundles) = (item.properties("run"), item.properties("bundle"));
            assert!(runs.len() == 1 && bundles.len() == 1, "{test}: {}", item.0);
            (runs[0], bundles[0])
        };
        let (run, bundle) = named(PASSES);
        for test in [KNOWN, NOT_APPLICABLE] {
            assert_eq!(named(test), (run, bundle), "{test} is of another run");
        }
        let bundle = PathBuf::from(bundle);
        let id = run.strip_prefix("runs/").unwrap();
        assert!(bundle.ends_with(Path::new("bundles").join(id)), "{}", bundle.display());
        bundle
    }
}

/// A `testcase` of JUnit.
#[derive(Clone, Copy)]
struct Item<'a>(&'a str);

impl<'a> Item<'a> {
    /// Returns pytest's word for the item's outcome.
    fn came_to(self) -> &'static str {
        let marks = [
            ("<error ", "error"),
            ("<failure ", "failed"),
            ("<skipped type=\"pytest.xfail\"", "xfailed"),
            ("<skipped type=\"pytest.skip\"", "skipped"),
        ];
        let found = marks.into_iter().find(|(mark, _)| self.0.contains(mark));
        found.map_or("passed", |(_, came_to)| came_to)
    }

    /// Returns the values of the item's properties `verbatim_NAME`.
    fn properties(self, name: &str) -> Vec<&'a str> {
        let start = format!("<property name=\"verbatim_{name}\" value=\"");
        let values = self.0.split(start.as_str()).skip(1);
        values.map(|rest| rest.split('"').next().unwrap()).collect()
    }
}

/// Checks that a bundle has all records, passes `verbatim verify`, and gives the outcomes of the items when it is
/// judged again.
fn is_whole(place: &Place, bundle: &Path) {
    let names: Vec<String> = fs::read_dir(bundle)
        .unwrap_or_else(|error| panic!("the bundle {}, which items name: {error}", bundle.display()))
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for test in [PASSES, KNOWN] {
        assert!(
            names.iter().any(|name| name.ends_with(&format!("-{test}.rec"))),
            "{test}: {names:?}"
        );
    }
    let verified = run(place.verbatim("verify").arg(bundle));
    assert_eq!(verified.code(), 0, "{verified}");
    let judged = run(place.verbatim("judge --json").arg(bundle));
    let report = judged.json();
    let mut verdicts: Vec<(&str, &str)> = report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| (verdict["test"].as_str().unwrap(), verdict["outcome"].as_str().unwrap()))
        .collect();
    verdicts.sort_unstable();
    let expected = [(KNOWN, "FAIL"), (NOT_APPLICABLE, "NOT_APPLICABLE"), (PASSES, "PASS")];
    assert_eq!(verdicts, expected, "{judged}");
}

#[test]
fn pytest_items_report_outcome_and_bundle() {
    if python::lacks(&python::GRPC_AND_PYTEST) {
        return;
    }
    let Some(lab) = rxe_lab() else { return };
    let place = Place::new();
    let socket = place.path("socket");
    let mut serve = place.command(program("verbatimd"));
    serve
        .args([
            "serve".as_ref(),
            "--rig-file".as_ref(),
            lab.rig_file().unwrap().as_os_str(),
        ])
        .args(["--socket".as_ref(), socket.as_os_str()])
        .envs(lab.environment());
    let daemon = Running::start(&mut serve);
    daemon.says(" ms=");

    let all = Session::run(&place, &socket, &[]);
    assert_eq!((all.output.code(), all.items()), (1, 3), "{}", all.output);
    all.came_to(PASSES, "passed", "PASS", &[]);
    all.came_to(KNOWN, "failed", "FAIL", &["rxe-ghost-ack SEEN"]);
    all.came_to(NOT_APPLICABLE, "skipped", "NOT_APPLICABLE", &[]);
    for told in [
        "FAIL c09-060-ghost-ack, cause DUT",
        "  C9-60: completed-by: ",
        "    expected  ",
        "    seen      ",
        "    evidence  ",
        "NOT_APPLICABLE: the rig does not offer an adapter of the tester's own",
    ] {
        assert!(all.output.stdout.contains(told), "{told:?} is missing: {}", all.output);
    }
    is_whole(&place, &all.bundle());

    let news = Session::run(&place, &socket, &["--verbatim-known"]);
    assert_eq!((news.output.code(), news.items()), (0, 3), "{}", news.output);
    news.came_to(PASSES, "passed", "PASS", &[]);
    news.came_to(KNOWN, "xfailed", "FAIL", &["rxe-ghost-ack SEEN"]);
    news.came_to(NOT_APPLICABLE, "skipped", "NOT_APPLICABLE", &[]);
    let told = "XFAIL verbatim[rxe]::c09-060-ghost-ack - reason: rxe-ghost-ack: ";
    assert!(news.output.stdout.contains(told), "{}", news.output);
    assert_ne!(news.bundle(), all.bundle());
    is_whole(&place, &news.bundle());

    daemon.signal(Signal::SIGTERM);
    let ended = daemon.end(LIMIT);
    assert_eq!(ended.code(), 0, "{ended}");
}

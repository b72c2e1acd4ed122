//! The findings of `verbatim doctor --agent` on agents that each break one rule of verbatim.agent.v1, and on sound
//! agents.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use verbatim_lab::workspace::root;
use verbatim_tests::product::{Place, run};
use verbatim_tests::python;

/// Longest time until a Python agent listens, on the busiest host.
const LISTENS_WITHIN: Duration = Duration::from_secs(480);
/// Number of agents checked at a time. Checks mostly wait, so several in parallel cost little.
const AT_A_TIME: usize = 6;

/// The faults of `tests/data/agents/broken.py`, each with the check that must find it. `none` has no fault.
const FAULTS: [(&str, &str); 30] = [
    ("headers-with-the-first-answer", "headers"),
    ("no-gid", "GIDs"),
    ("timeout-without-a-code", "capabilities"),
    ("atomics-in-one-place", "capabilities"),
    ("sign-of-life-is-a-status", "sign of life"),
    ("answers-with-own-numbers", "answers"),
    ("unknown-command-is-done", "unknown command"),
    ("refusals-without-a-text", "refusals"),
    ("microseconds", "clock"),
    ("instants-the-wrong-way-round", "instants"),
    ("events-behind-the-answer", "order of events"),
    ("handles-are-reused", "handles"),
    ("handles-of-the-process", "end of a session"),
    ("memory-of-old-bytes", "memory"),
    ("one-key-for-all", "memory"),
    ("no-bounds", "bounds of memory"),
    ("messages-of-4-mib", "large messages"),
    ("pings-end-the-connection", "pings"),
    ("psns-are-not-told", "INIT, RTR, RTS"),
    ("absent-is-zero", "unnamed attributes"),
    ("numbers-are-cut-off", "numbers of a field"),
    ("nobody-flushes", "flush"),
    ("flushed-backwards", "flush"),
    ("flushed-with-success", "flush"),
    ("wr-ids-of-32-bits", "flush"),
    ("posts-in-err-wait", "posts in ERR"),
    ("reset-flushes", "RESET forgets"),
    ("refusals-end-the-session", "sign of life"),
    ("sessions-are-not-counted", "a second session"),
    ("none", ""),
];

/// An agent in Python, which ends when dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that listens at `socket`, and returns when it listens.
fn listening(program: &Path, arguments: &[&str], socket: &Path) -> Agent {
    let log = socket.with_extension("log");
    let output = File::create(&log).unwrap();
    let child = Command::new(python::DEBIAN)
        .arg(program)
        .args(arguments)
        .env("PYTHONPATH", root().join("client/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn();
    let mut agent = Agent(child.unwrap());
    let until = Instant::now() + LISTENS_WITHIN;
    // The agent prints a line when it has bound its socket.
    while !std::fs::read_to_string(&log).unwrap().contains("listening") {
        let ended = agent.0.try_wait().unwrap();
        let said = || std::fs::read_to_string(&log).unwrap();
        assert!(ended.is_none() && Instant::now() < until, "{ended:?}: {}", said());
        thread::sleep(Duration::from_millis(20));
    }
    agent
}

/// Returns the exit code, and the name and explanation of each failed check.
fn failed(place: &Place, directory: &Path, options: &str) -> (i32, Vec<(String, String)>) {
    let address = format!("unix:{}", directory.join("agent.sock").display());
    let output = run(place
        .verbatim(&format!("doctor --json {options} --agent"))
        .arg(&address));
    let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let found = found["found"].as_array().unwrap();
    let text = |of: &serde_json::Value| of.as_str().unwrap().to_owned();
    let failed = found.iter().filter(|found| found["outcome"] == "FAIL");
    let failed = failed.map(|found| (text(&found["what"]), text(&found["words"])));
    (output.code(), failed.collect())
}

#[test]
fn doctor_finds_each_broken_rule() {
    if python::lacks(&python::GRPC) {
        return;
    }
    let place = Place::new();
    let program = root().join("tests/data/agents/broken.py");
    let faults = Mutex::new(VecDeque::from(FAULTS));
    let wrong = Mutex::new(Vec::new());
    let look = || {
        loop {
            let Some((fault, check)) = faults.lock().unwrap().pop_front() else {
                return;
            };
            let directory = place.path(fault);
            std::fs::create_dir(&directory).unwrap();
            let socket = directory.join("agent.sock");
            let _agent = listening(&program, &[fault, &directory.to_string_lossy()], &socket);
            // The check of pings takes half a minute, so run it only for its own fault.
            let options = if fault == "pings-end-the-connection" {
                ""
            } else {
                "--quick"
            };
            let (code, found) = failed(&place, &directory, options);
            let is_as_expected = if check.is_empty() {
                code == 0 && found.is_empty()
            } else {
                code == 3 && found.iter().any(|(what, _)| what == check)
            };
            if !is_as_expected {
                wrong.lock().unwrap().push(format!("{fault}: exit {code}: {found:?}"));
            }
        }
    };
    thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(look))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn fault_list_matches_broken_agent() {
    let program = std::fs::read_to_string(root().join("tests/data/agents/broken.py")).unwrap();
    let defined = program.match_indices("@fault\ndef ").map(|(at, head)| {
        let name = &program[at + head.len()..];
        name[..name.find('(').unwrap()].replace('_', "-")
    });
    let mut defined: Vec<String> = defined.collect();
    let mut expected: Vec<String> = FAULTS.map(|(fault, _)| fault.to_owned()).into();
    defined.sort();
    expected.sort();
    assert_eq!(defined, expected);
}

#[test]
fn minimal_agent_passes_doctor() {
    if python::lacks(&python::GRPC) {
        return;
    }
    let place = Place::new();
    let directory = place.path("least");
    std::fs::create_dir(&directory).unwrap();
    let socket = directory.join("agent.sock");
    let program = root().join("client/python/examples/minimal_agent.py");
    let _agent = listening(&program, &[&format!("unix:{}", socket.display())], &socket);
    assert_eq!(failed(&place, &directory, "--quick"), (0, Vec::new()));
}

#[test]
fn small_core_passes_doctor() {
    if python::lacks(&python::GRPC) {
        return;
    }
    let place = Place::new();
    let directory = place.path("small");
    std::fs::create_dir(&directory).unwrap();
    let socket = directory.join("agent.sock");
    let at = |name: &str| directory.join(name).display().to_string();
    let listen = format!("unix:{}", socket.display());
    let (device, tester) = (at("device.sock"), at("tester.sock"));
    let arguments = ["--listen", &listen, "--socket", &device, "--peer", &tester];
    let _agent = listening(
        &root().join("client/python/examples/small_core.py"),
        &arguments,
        &socket,
    );
    assert_eq!(failed(&place, &directory, "--quick"), (0, Vec::new()));
}

#[test]
fn report_on_missing_agent_names_address() {
    let place = Place::new();
    let directory = place.path("nobody");
    std::fs::create_dir(&directory).unwrap();
    let (code, found) = failed(&place, &directory, "--quick");
    assert_eq!(code, 3, "{found:?}");
    assert!(found.len() == 1 && found[0].1.contains("agent.sock"), "{found:?}");
    let nowhere = run(place.verbatim("doctor --agent").arg("nowhere"));
    assert!(nowhere.code() == 2 && nowhere.stderr.contains("unix:"), "{nowhere}");
}

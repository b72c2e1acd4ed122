//! Runs that end suddenly: the simulator is killed, the run is interrupted, the program is killed, or the cable is
//! pulled.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use verbatim_tests::product::run;

use crate::ibsim::lab::{AFTER, LONG, PLAIN, RUN_LIMIT, Sim, came_to};

/// Checks that the next run restores the changes of an interrupted run, reports the restore, and passes.
fn next_run_restores_first(sim: &Sim, area: &str) {
    assert!(sim.journal().exists(), "what was found is on disk");
    let output = run(&mut sim.verbatim(&format!("run --rig ibsim {PLAIN} --json")));
    assert_eq!(output.code(), 0, "{output}");
    assert!(
        output
            .stderr
            .contains("an earlier run left the device changed; restored first: "),
        "{output}"
    );
    assert!(output.stderr.contains(area), "{output}");
    assert!(!sim.journal().exists(), "nothing is left to restore");
    let output = run(&mut sim.verbatim(&format!("run --rig ibsim {PLAIN} --json")));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output}");
}

#[test]
fn killed_simulator_is_rig_error() {
    let Some(mut sim) = Sim::start() else { return };
    let before = sim.tables();
    let running = sim.long_run(AFTER);
    sim.lab.kill();
    let start = Instant::now();
    let output = running.end(RUN_LIMIT);
    eprintln!("ended {:?} after the simulator", start.elapsed());
    assert_eq!(
        (output.code(), came_to(&output)),
        (3, ("ERROR".into(), "RIG".into())),
        "{output}"
    );
    assert!(output.stdout.contains("went away"), "{output}");
    assert_eq!(output.json()["verdicts"][1]["outcome"], "SKIPPED", "{output}");
    let judged = run(&mut sim.place.verbatim("judge record --json"));
    assert_eq!(judged.code(), 3);
    assert_eq!(
        judged.json()["verdicts"],
        output.json()["verdicts"],
        "the partial record is whole as a file"
    );
    sim.lab.restart().unwrap();
    next_run_restores_first(&sim, "VLArbitrationTable");
    assert_eq!(sim.tables(), before);
}

#[test]
fn interrupt_restores_device() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let Some(sim) = Sim::start() else { return };
        let before = sim.tables();
        let running = sim.long_run(AFTER);
        running.signal(signal);
        let output = running.end(RUN_LIMIT);
        assert_eq!(
            (output.code(), came_to(&output)),
            (3, ("ERROR".into(), "OPERATOR".into())),
            "{output}"
        );
        assert_eq!(output.json()["verdicts"][1]["outcome"], "SKIPPED", "{output}");
        assert!(!sim.journal().exists(), "it was restored");
        assert_eq!(sim.tables(), before);
        let judged = run(&mut sim.place.verbatim("judge record --json"));
        assert_eq!(judged.json()["verdicts"], output.json()["verdicts"]);
    }
}

#[test]
fn next_run_restores_after_kill() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    sim.long_run("").kill();
    assert_ne!(sim.tables(), before, "the test had changed something");
    next_run_restores_first(&sim, "VLArbitrationTable");
    assert_eq!(sim.tables(), before);

    let judged = run(&mut sim.place.verbatim("judge record"));
    assert_eq!((judged.code(), judged.stdout.as_str()), (3, ""), "{judged}");
    assert!(judged.stderr.contains("the run did not end"), "{judged}");
}

#[test]
fn pulled_cable_is_rig_error() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    // Set a short subnet timeout, so that the run soon notices the silence.
    let rigs = fs::read_to_string(sim.lab.rig_file()).unwrap();
    fs::write(
        sim.lab.rig_file(),
        rigs.replace("subnet_timeout = 18", "subnet_timeout = 8"),
    )
    .unwrap();
    let running = sim.long_run("");
    sim.lab.console("Unlink \"A\"[1]").unwrap();
    let output = running.end(Duration::from_secs(720));
    assert_eq!(
        (output.code(), came_to(&output)),
        (3, ("ERROR".into(), "RIG".into())),
        "{output}"
    );
    assert!(sim.journal().exists(), "it could not be restored");

    let refused = run(&mut sim.verbatim(&format!("run --rig ibsim {PLAIN} --json")));
    assert_eq!(
        (refused.code(), refused.stdout.as_str()),
        (3, ""),
        "nothing is run: {refused}"
    );
    assert!(refused.stderr.contains("could not be restored"), "{refused}");
    assert!(sim.journal().exists());

    sim.lab.console("ReLink \"A\"[1]").unwrap();
    next_run_restores_first(&sim, "VLArbitrationTable");
    assert_eq!(sim.tables(), before);
}

#[test]
fn second_run_on_busy_rig_is_refused() {
    let Some(sim) = Sim::start() else { return };
    let first = sim.long_run("");
    for arguments in [
        format!("run --rig ibsim {PLAIN} --json"),
        format!("run --rig ibsim {LONG}"),
    ] {
        let second = run(&mut sim.verbatim(&arguments));
        assert_eq!((second.code(), second.stdout.as_str()), (3, ""), "{second}");
        assert!(
            second.stderr.contains("rig ibsim is in use by another process"),
            "{second}"
        );
        assert!(second.stderr.contains("wait for it to end, or stop it"), "{second}");
    }
    let output = first.end(Duration::from_secs(480));
    assert_eq!(
        (output.code(), came_to(&output)),
        (0, ("PASS".into(), String::new())),
        "{output}"
    );
    let output = run(&mut sim.verbatim(&format!("run --rig ibsim {PLAIN}")));
    assert_eq!(output.code(), 0, "the rig is free again: {output}");
}

#[test]
fn damaged_journal_stops_next_run() {
    let Some(sim) = Sim::start() else { return };
    sim.long_run("").kill();
    let whole = fs::read(sim.journal()).unwrap();
    for damaged in [&whole[..whole.len() / 2], b"", b"{}"] {
        fs::write(sim.journal(), damaged).unwrap();
        let tables = sim.tables();
        let output = run(&mut sim.verbatim(&format!("run --rig ibsim {PLAIN} --json")));
        assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
        assert!(output.stderr.contains("ibsim.journal.json is damaged"), "{output}");
        assert!(output.stderr.contains("restore the device by hand"), "{output}");
        assert_eq!(fs::read(sim.journal()).unwrap(), damaged, "it is left as it is");
        assert_eq!(sim.tables(), tables);
    }
    fs::write(sim.journal(), whole).unwrap();
    next_run_restores_first(&sim, "VLArbitrationTable");
}

/// A fabric with two routes from A to B, one over each cable between the switches.
const TWO_WAYS: &str = "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"T\"[1]\n[3] \"T\"[2]\n\n\
                        Switch 4 \"T\"\n[1] \"S\"[2]\n[2] \"S\"[3]\n[3] \"B\"[1]\n\n\
                        Hca 1 \"A\"\n[1] \"S\"[1]\n\nHca 1 \"B\"\n[1] \"T\"[3]\n";

#[test]
fn device_lock_spans_routes_and_state() {
    let Some(sim) = Sim::start_with(TWO_WAYS) else { return };
    let one_way = fs::read_to_string(sim.lab.rig_file()).unwrap();
    // Set a short subnet timeout, so that silence is soon proven.
    let one_way = one_way.replace("subnet_timeout = 18", "subnet_timeout = 8");
    let head = "config_version = 1\n";
    let rig = |name: &str, route: &str| {
        let rig = one_way
            .replace(head, "")
            .replace("name = \"ibsim\"", &format!("name = \"{name}\""));
        rig.replace("route = \"0,1\"", &format!("route = \"{route}\""))
    };
    fs::write(
        sim.lab.rig_file(),
        [head, &rig("ibsim", "0,1,2,3"), &rig("other", "0,1,3,3")].concat(),
    )
    .unwrap();
    let running = sim.long_run("");
    let other = format!("run --rig other {PLAIN} --json");
    let refused = run(&mut sim.verbatim(&other));
    assert_eq!(came_to(&refused), ("ERROR".into(), "RIG".into()), "{refused}");
    let why = "another process drives the device with PortGUID";
    assert!(refused.stdout.contains(why), "{refused}");

    running.kill();
    let refused = run(&mut sim.verbatim(&other));
    assert_eq!(came_to(&refused), ("ERROR".into(), "RIG".into()), "{refused}");
    assert!(refused.stdout.contains("`verbatim rigs restore ibsim`"), "{refused}");

    let elsewhere = |arguments: &str| {
        let mut command = sim.verbatim(arguments);
        command.env("STATE_DIRECTORY", sim.place.path("elsewhere"));
        run(&mut command)
    };
    let by_route = elsewhere(&other);
    assert_eq!(came_to(&by_route), ("ERROR".into(), "RIG".into()), "{by_route}");
    let by_name = elsewhere(&format!("run --rig ibsim {PLAIN} --json"));
    assert_eq!((by_name.code(), by_name.stdout.as_str()), (3, ""), "{by_name}");
    for refused in [by_route.stdout, by_name.stderr] {
        assert!(refused.contains("state/journals/ibsim/ibsim.journal.json"), "{refused}");
    }

    next_run_restores_first(&sim, "VLArbitrationTable");
    let free = elsewhere(&other);
    assert_eq!(free.code(), 0, "{free}");
}

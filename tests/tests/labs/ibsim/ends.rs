//! Sudden ends in mid-run: of the simulator, of the run, of the program, of the cable.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use verbatim_tests::product::run;

use crate::ibsim::lab::{AFTER, LONG, PLAIN, RUN_LIMIT, Sim, came_to};

/// A run after a bad end: restores what was left, says so, and passes.
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
fn a_simulator_that_is_killed_in_mid_run_is_an_error_of_the_rig_and_the_record_so_far_is_kept() {
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
fn an_interrupt_in_mid_run_restores_the_device_and_is_an_error_of_the_operator() {
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
fn a_program_that_is_killed_in_mid_run_leaves_a_journal_and_the_next_run_restores_first() {
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
fn a_cable_that_is_pulled_in_mid_run_is_an_error_of_the_rig_and_the_device_is_restored_when_it_is_back() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    // A short way, so that it is soon known that nothing answers any more.
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
fn a_second_run_on_the_same_rig_is_told_that_it_is_in_use_and_the_first_goes_on() {
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
fn a_journal_that_is_damaged_stops_the_next_run_before_it_sends_anything() {
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

/// Two ways from A to B: by either of the cables between the switches.
const TWO_WAYS: &str = "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"T\"[1]\n[3] \"T\"[2]\n\n\
                        Switch 4 \"T\"\n[1] \"S\"[2]\n[2] \"S\"[3]\n[3] \"B\"[1]\n\n\
                        Hca 1 \"A\"\n[1] \"S\"[1]\n\nHca 1 \"B\"\n[1] \"T\"[3]\n";

#[test]
fn a_device_is_one_by_whichever_route_it_is_reached_and_whatever_state_directory_a_run_has() {
    let Some(sim) = Sim::start_with(TWO_WAYS) else { return };
    let one_way = fs::read_to_string(sim.lab.rig_file()).unwrap();
    // A short way: silence is soon proven.
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

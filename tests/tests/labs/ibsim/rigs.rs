//! Rigs that are unavailable because of their rig file, the simulator or the state directory.

use std::fs;

use verbatim_lab::{build_examples, host::program};
use verbatim_tests::product::{Running, run};

use crate::ibsim::lab::{LONG, PLAIN, RUN_LIMIT, Sim};

/// Runs with a rig file that differs from the lab's by these changes; returns stderr.
fn unavailable(sim: &Sim, changes: &[(&str, &str)]) -> String {
    let mut text = fs::read_to_string(sim.lab.rig_file()).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{text}");
        text = text.replace(from, to);
    }
    sim.place.write("rigs.toml", text);
    let mut command = sim.verbatim(&format!("run --rig ibsim {PLAIN} --json --rig-file rigs.toml"));
    let output = Running::start(&mut command).end(RUN_LIMIT);
    assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
    assert!(output.stderr.contains("rig \"ibsim\" is unavailable: "), "{output}");
    assert!(!output.stderr.contains("panicked"), "{output}");
    assert!(!sim.place.path("state/journals/ibsim.journal.json").exists());
    output.stderr
}

#[test]
fn missing_device_or_port_is_unavailable() {
    let Some(sim) = Sim::start() else { return };
    let said = unavailable(&sim, &[("device = \"ibsim0\"", "device = \"ibsim7\"")]);
    assert!(said.contains("ibsim7") && said.contains("ibsim0"), "{said}");
    let said = unavailable(&sim, &[("port = 1", "port = 2"), ("\"0,1\"", "\"0,2\"")]);
    assert!(said.contains("port 2") && said.contains("ibsim0"), "{said}");
}

#[test]
fn umad_example_agrees_with_smpquery() {
    let Some(sim) = Sim::start() else { return };
    let examples = build_examples(&["node_info"]).unwrap();
    let attached = |program: &std::path::Path, arguments: &[&str]| {
        let mut command = sim.place.command(program);
        sim.lab.attach(&mut command, "A");
        let output = run(command.args(arguments));
        assert_eq!(output.code(), 0, "{output}");
        output.stdout
    };
    let ours = attached(&examples.join("node_info"), &["ibsim0", "1", "0,1"]);
    let smpquery = attached(&program("smpquery").unwrap(), &["-D", "nodeinfo", "0,1"]);
    for (theirs, field) in [("Guid:", "NodeGUID"), ("PortGuid:", "PortGUID")] {
        let line = smpquery.lines().find_map(|line| line.strip_prefix(theirs));
        let value = line.unwrap_or_else(|| panic!("{smpquery}")).trim_start_matches('.');
        assert!(ours.contains(&format!("{field} {value}")), "{ours}{smpquery}");
    }
}

#[test]
fn stopped_simulator_is_unavailable() {
    let Some(mut sim) = Sim::start() else { return };
    sim.lab.kill();
    let said = unavailable(&sim, &[]);
    assert!(!said.is_empty());
}

#[test]
fn dead_route_is_rig_error() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    sim.lab.console("Unlink \"A\"[1]").unwrap();
    let output = Running::start(&mut sim.verbatim(&format!("run --rig ibsim {LONG} {PLAIN}")))
        .end(std::time::Duration::from_secs(240));
    assert_eq!(output.code(), 3, "{output}");
    assert!(
        output.stdout.contains("[RIG]") && output.stdout.contains("SKIPPED"),
        "{output}"
    );
    sim.lab.console("ReLink \"A\"[1]").unwrap();
    assert_eq!(sim.tables(), before);
}

#[test]
fn unwritable_state_directory_stops_run() {
    let Some(sim) = Sim::start() else { return };
    let before = sim.tables();
    let mut command = sim.verbatim(&format!("run --rig ibsim {LONG} --json"));
    let output = run(command.env("STATE_DIRECTORY", "/proc/verbatim"));
    assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
    assert!(output.stderr.contains("restore journal /proc/verbatim"), "{output}");
    assert!(output.stderr.contains("STATE_DIRECTORY"), "{output}");
    assert_eq!(sim.tables(), before);
}

#[test]
fn doctor_opens_rig_and_names_device() {
    let Some(sim) = Sim::start() else { return };
    let output = run(&mut sim.verbatim("doctor --rig ibsim"));
    assert_eq!(output.code(), 0, "{output}");
    assert!(
        output.stdout.contains("ok      rig ibsim") && output.stdout.contains("ibsim0"),
        "{output}"
    );
    let nothing_left = fs::read_dir(sim.place.path(".")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name != "state"
    });
    assert_eq!(
        nothing_left.count(),
        0,
        "the simulator's preload leaves files behind, not here"
    );
}

//! The LIDs of a port, assigned by OpenSM, in a fabric with a neighbour on each side.

use std::collections::BTreeMap;
use std::fs;

use verbatim_lab::host::{apt_line, program};
use verbatim_tests::oracle::skipped;
use verbatim_tests::product::run;

use crate::ibsim::lab::{Sim, came_to};

const FABRIC: &str = "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n[3] \"C\"[1]\n\n\
                      Hca 1 \"A\"\n[1] \"S\"[1]\n\nHca 1 \"B\"\n[1] \"S\"[2]\n\nHca 1 \"C\"\n[1] \"S\"[3]\n";

/// Lets OpenSM sweep once from A, with LMC 2. Each port gets four LIDs. The LIDs of the device under test are between
/// its neighbours' LIDs. Returns false if OpenSM is not installed.
fn configure(sim: &Sim) -> bool {
    let Some(opensm) = program("opensm") else {
        skipped("opensm", &apt_line(&["opensm"]));
        return false;
    };
    let guid = |route: &str| -> String {
        let mut smpquery = sim.place.command(program("smpquery").unwrap());
        sim.lab.attach(&mut smpquery, "A");
        let output = run(smpquery.args(["-D", "nodeinfo", route]));
        let line = output.stdout.lines().find(|line| line.starts_with("PortGuid")).unwrap();
        line.rsplit('.').next().unwrap().to_owned()
    };
    let lids =
        [("0", 12), ("0,1,2", 8), ("0,1,3", 4)].map(|(route, lid)| format!("{} {lid} {}\n\n", guid(route), lid + 3));
    sim.place.write("guid2lid", lids.concat());
    let mut command = sim.place.command(opensm);
    sim.lab.attach(&mut command, "A");
    let here = sim.place.path(".");
    command
        .args(["--once", "--lmc", "2", "--honor_guid2lid", "--log_file", "osm.log"])
        .env("OSM_CACHE_DIR", &here)
        .env("OSM_TMP_DIR", &here);
    let output = run(&mut command);
    let log = fs::read_to_string(sim.place.path("osm.log")).unwrap_or_default();
    assert!(output.code() == 0 && log.contains("SUBNET UP"), "{output}\n{log}");
    true
}

#[test]
fn port_answers_at_every_assigned_lid() {
    let Some(sim) = Sim::start_with(FABRIC) else { return };
    if !configure(&sim) {
        return;
    }
    let rigs = fs::read_to_string(sim.lab.rig_file()).unwrap();
    assert!(rigs.contains("route = \"0,1\""), "{rigs}");
    sim.place
        .write("rigs.toml", rigs.replace("route = \"0,1\"", "route = \"0,1,2\""));
    // OpenSM has exited, but the port still has OpenSM's LID as the SM's LID. The subnet has no manager now, so the
    // tests may disturb it.
    let output = run(&mut sim.verbatim("doctor --rig ibsim --rig-file rigs.toml"));
    assert!(output.stdout.contains("LID 12, and no subnet manager"), "{output}");
    let output = run(&mut sim.verbatim("run --rig ibsim --rig-file rigs.toml c04-dlid-lmc --json"));
    // FAIL is expected: ibsim's responses to LID-routed requests have bytes of the request in reserved fields.
    assert_eq!(came_to(&output), ("FAIL".into(), "DUT".into()), "{output}");
    let json = output.json();
    let findings = json["verdicts"][0]["findings"].as_array().unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding["statement"] == "13.4.2 MAD header"),
        "{output}"
    );
    let seen: BTreeMap<u16, &str> = json["verdicts"][0]["passed"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["statement"] == "7.11 DLID")
        .map(|finding| {
            let about = finding["about"].as_str().unwrap();
            let lid = about.split(' ').nth(4).unwrap().parse().unwrap();
            (lid, finding["seen"].as_str().unwrap())
        })
        .collect();
    let beside = [(7, "another port"), (12, "another port")];
    let own = (8..12).map(|lid| (lid, "this port"));
    assert_eq!(seen, own.chain(beside).collect(), "{output}");
}

//! `verbatim` through the kernel's own umad interface, with and without a subnet manager.

use verbatim_lab::{ADAPTER_GUID, SubnetManager};

use crate::vib::lab::{SOUND, own, ran, read, start, start_switched, text, until};

#[test]
fn finds_defect_through_kernel() {
    own(|lab| {
        let said = text(
            lab,
            "verbatim run --rig vib 'c14-024-port-info-*' c14-016-get-protect-1",
        );
        assert!(said.contains("9 passed") && !said.contains(" failed"), "{said}");
        let [a, b, c, d] = SOUND;
        let broken = [a, b, c, d, "--defect", "guid-0-not-port-guid"];
        lab.exchange_model(1, &broken.map(Into::into)).unwrap();
        let (status, said) = ran(lab, "verbatim run --rig vib c14-024-guid-info");
        lab.exchange_model(1, &SOUND.map(Into::into)).unwrap();
        assert_eq!(status, 1, "{said}");
        assert!(said.contains("C14-24 entry 0 of block 0"), "{said}");
    });
}

#[test]
fn restores_device_after_power_loss() {
    own(|lab| {
        let is_kept = |line: &String| !line.contains("Violations") && !line.contains("PortState");
        let found: Vec<String> = read(lab).into_iter().filter(is_kept).collect();
        let run = text(lab, "verbatim run --detach --rig vib c14-016-set-protect-2");
        // At protection level 2 the device drops requests without the key: the device's state has changed.
        until(lab, "smpquery -t 300 -D portinfo 0,1", |status, _| status != 0);
        lab.pull_the_plug().unwrap();
        let show = format!("verbatim runs show {} --json", run.trim());
        until(lab, &show, |_, said| said.contains("\"ENDED\""));
        until(lab, "verbatim rigs --json", |_, said| said.contains("\"IDLE\""));
        let now: Vec<String> = read(lab).into_iter().filter(is_kept).collect();
        assert_eq!(found, now);
        let (_, ended) = ran(lab, &show);
        assert!(ended.contains("\"ERROR\""), "it was interrupted: {ended}");
    });
}

#[test]
fn run_keeps_opensm_off_its_port() {
    own(|lab| {
        let run = text(lab, "verbatim run --detach --rig vib c14-016-set-protect-2");
        until(lab, "smpquery -t 300 -D portinfo 0,1", |status, _| status != 0);
        let (_, said) = ran(
            lab,
            "cd /run; OSM_CACHE_DIR=/run OSM_TMP_DIR=/run opensm --once --log_file /run/osm.log",
        );
        // The kernel delivers the traps of a port to one program only, and the run has registered for them.
        assert!(said.contains("another instance of OpenSM"), "{said}");
        let show = format!("verbatim runs show {} --json", run.trim());
        until(lab, &show, |_, said| said.contains("\"ENDED\""));
        let ended = text(lab, &show);
        assert!(ended.contains("\"PASS\""), "{ended}");
    });
}

#[test]
fn traps_are_received_and_repressed() {
    let Some(mut lab) = start(1, SubnetManager::Never) else {
        return;
    };
    // This device sends traps.
    let device = ["--profile", "full", "--seed", "4"];
    lab.exchange_model(1, &device.map(Into::into)).unwrap();
    text(
        &lab,
        &format!(
            "cd /run; OSM_CACHE_DIR=. OSM_TMP_DIR=. opensm --guid {:#x} --once --log_file osm.log",
            ADAPTER_GUID + 1
        ),
    );
    let said = text(&lab, "verbatim run --rig vib c14-trap-bad-m-key");
    assert!(said.contains("PASS           c14-trap-bad-m-key"), "{said}");
}

#[test]
fn foreign_subnet_manager_ends_run() {
    let Some(lab) = start_switched() else {
        return;
    };
    // Run through the switch, without a subnet manager.
    let said = text(&lab, "verbatim run --rig vib c14-024-node-info");
    assert!(said.contains("PASS           c14-024-node-info"), "{said}");
    let run = text(
        &lab,
        "verbatim run --detach --rig vib c14-016-set-protect-2 c14-024-node-info",
    );
    until(&lab, "smpquery -t 300 -D portinfo 0,1,2", |status, _| status != 0);
    // Start OpenSM at the adapter's second port. The run does not use this port, so OpenSM can register for traps
    // there.
    text(
        &lab,
        &format!(
            "(OSM_CACHE_DIR=/run OSM_TMP_DIR=/run opensm --guid {:#x} --log_file /run/osm.log >/dev/null 2>&1 &)",
            ADAPTER_GUID + 2
        ),
    );
    until(&lab, "ibstat vib0 1", |_, said| said.contains("State: Active"));
    let show = format!("verbatim runs show {} --json", run.trim());
    until(&lab, &show, |_, said| said.contains("\"ENDED\""));
    let said = text(&lab, &format!("verbatim runs show {}", run.trim()));
    let verdicts: Vec<&str> = said.lines().filter(|line| line.contains(" [RIG] ")).collect();
    // On a busy host, OpenSM can take over after the second test began.
    let in_mid_run = |test: &str, outcomes: &[&str]| {
        let line = |line: &&&str| line.contains(test) && outcomes.iter().any(|outcome| line.starts_with(outcome));
        verdicts.iter().filter(line).count() == 1
    };
    assert!(
        verdicts.len() == 2
            && in_mid_run("c14-016-set-protect-2", &["INCONCLUSIVE"])
            && in_mid_run("c14-024-node-info", &["INCONCLUSIVE", "SKIPPED"]),
        "{said}"
    );
    assert!(
        said.contains("a subnet manager at LID 1 took over the subnet of vib0/1 in mid-run"),
        "{said}"
    );
    // The run restores the device. The next run is refused, and its error names the remedy.
    until(&lab, "smpquery -t 300 -D portinfo 0,1,2", |status, _| status == 0);
    let (status, said) = ran(&lab, "verbatim run --rig vib c14-024-node-info");
    assert!(status != 0 && said.contains("shared_subnet = true"), "{status} {said}");
}

#[test]
fn two_port_adapter_reaches_two_devices() {
    let Some(lab) = start(2, SubnetManager::Never) else {
        return;
    };
    for port in [1, 2] {
        let said = text(&lab, &format!("smpquery -P {port} -D nodeinfo 0,{port}"));
        assert!(
            said.contains("Guid:............................0x0002c98ca40db100"),
            "{said}"
        );
        assert!(said.contains("LocalPort:.......................1"), "{said}");
    }
    // Each SMP stays on its own cable: a path through port 2 does not work from port 1.
    let (status, said) = ran(&lab, "smpquery -t 300 -P 1 -D nodeinfo 0,2");
    assert_ne!(status, 0, "{said}");
}

#[test]
fn sixteen_port_adapter_reaches_each_device() {
    let Some(lab) = start(16, SubnetManager::Never) else {
        return;
    };
    for port in 1..=16 {
        let rig = if port == 1 {
            "vib".to_owned()
        } else {
            format!("vib{port}")
        };
        // infiniband-diags support only ten ports, so read with our own reader.
        let said = text(&lab, &format!("umad_read $VERBATIM_RIG_FILE {rig}"));
        assert!(said.contains("PortInfo[0].LocalPortNum = 0x1"), "port {port}: {said}");
    }
}

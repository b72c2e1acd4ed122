//! `verbatim` on the kernel's own road, without a subnet manager.

use verbatim_lab::{ADAPTER_GUID, SubnetManager};

use crate::vib::lab::{SOUND, own, ran, read, start, start_switched, text, until};

#[test]
fn a_sound_device_passes_through_the_kernel_and_a_defect_at_the_far_end_is_found() {
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
fn a_device_has_what_was_its_own_after_the_machine_s_plug_was_pulled_in_mid_run() {
    own(|lab| {
        let is_kept = |line: &String| !line.contains("Violations") && !line.contains("PortState");
        let found: Vec<String> = read(lab).into_iter().filter(is_kept).collect();
        let run = text(lab, "verbatim run --detach --rig vib c14-016-set-protect-2");
        // At level 2 who has no key gets no answer: then the device is another than the one that was found.
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
fn opensm_that_comes_in_mid_run_is_kept_off_and_the_run_comes_to_its_end() {
    own(|lab| {
        let run = text(lab, "verbatim run --detach --rig vib c14-016-set-protect-2");
        until(lab, "smpquery -t 300 -D portinfo 0,1", |status, _| status != 0);
        let (_, said) = ran(
            lab,
            "cd /run; OSM_CACHE_DIR=/run OSM_TMP_DIR=/run opensm --once --log_file /run/osm.log",
        );
        // The kernel gives the traps of a port to one program: we have them.
        assert!(said.contains("another instance of OpenSM"), "{said}");
        let show = format!("verbatim runs show {} --json", run.trim());
        until(lab, &show, |_, said| said.contains("\"ENDED\""));
        let ended = text(lab, &show);
        assert!(ended.contains("\"PASS\""), "{ended}");
    });
}

#[test]
fn traps_come_in_and_are_repressed_where_opensm_swept_once_and_left() {
    let Some(mut lab) = start(1, SubnetManager::Never) else {
        return;
    };
    // One that sends traps.
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
fn opensm_elsewhere_that_takes_the_subnet_over_in_mid_run_ends_the_run_and_one_that_is_there_is_refused() {
    let Some(lab) = start_switched() else {
        return;
    };
    // Through the switch, without a subnet manager.
    let said = text(&lab, "verbatim run --rig vib c14-024-node-info");
    assert!(said.contains("PASS           c14-024-node-info"), "{said}");
    let run = text(
        &lab,
        "verbatim run --detach --rig vib c14-016-set-protect-2 c14-024-node-info",
    );
    until(&lab, "smpquery -t 300 -D portinfo 0,1,2", |status, _| status != 0);
    // On the adapter's second port, which is none of ours: there the traps are its own.
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
    let starts = [
        "INCONCLUSIVE   c14-016-set-protect-2",
        "SKIPPED        c14-024-node-info",
    ];
    assert!(
        verdicts.len() == 2 && verdicts.iter().zip(starts).all(|(line, start)| line.starts_with(start)),
        "{said}"
    );
    assert!(
        said.contains("a subnet manager at LID 1 took over the subnet of vib0/1 in mid-run"),
        "{said}"
    );
    // The device has its own again, and the next run is refused with the remedy.
    until(&lab, "smpquery -t 300 -D portinfo 0,1,2", |status, _| status == 0);
    let (status, said) = ran(&lab, "verbatim run --rig vib c14-024-node-info");
    assert!(status != 0 && said.contains("shared_subnet = true"), "{status} {said}");
}

#[test]
fn an_adapter_of_two_ports_has_two_cables_and_a_device_at_the_end_of_each() {
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
    // Each SMP stays on its own cable: the other port's path is none of this one's.
    let (status, said) = ran(&lab, "smpquery -t 300 -P 1 -D nodeinfo 0,2");
    assert_ne!(status, 0, "{said}");
}

#[test]
fn an_adapter_of_sixteen_ports_has_a_way_out_and_in_by_each() {
    let Some(lab) = start(16, SubnetManager::Never) else {
        return;
    };
    for port in 1..=16 {
        let rig = if port == 1 {
            "vib".to_owned()
        } else {
            format!("vib{port}")
        };
        // infiniband-diags know of ten ports.
        let said = text(&lab, &format!("umad_read $VERBATIM_RIG_FILE {rig}"));
        assert!(said.contains("PortInfo[0].LocalPortNum = 0x1"), "port {port}: {said}");
    }
}

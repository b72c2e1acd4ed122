//! `verbatim` on the kernel's own road, without a subnet manager.

use verbatim_lab::SubnetManager;

use crate::lab::{SOUND, own, ran, read, start, text, until};

#[test]
fn a_sound_device_passes_through_the_kernel_and_a_defect_at_the_far_end_is_found() {
    own(|lab| {
        let said = text(
            lab,
            "verbatim run --rig vib 'c14-024-port-info-*' c14-016-get-protect-1",
        );
        assert!(said.contains("7 passed") && !said.contains(" failed"), "{said}");
        let broken = [SOUND.as_slice(), &["--defect", "guid-0-not-port-guid"]].concat();
        lab.exchange_model(broken.iter().map(Into::into).collect()).unwrap();
        let (status, said) = ran(lab, "verbatim run --rig vib c14-024-guid-info");
        lab.exchange_model(SOUND.iter().map(Into::into).collect()).unwrap();
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
        let ended = text(lab, &show);
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

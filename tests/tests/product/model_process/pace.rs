//! The expected duration of a run in real time.

use verbatim_tests::product::run;
use verbatim_wire::MKey;

use crate::model_process::device::{Device, PLAIN};

#[test]
fn run_estimates_from_earlier_durations() {
    let device = Device::start(MKey(0));
    let lasted = device.place.path(".cache/verbatim/lasted");
    std::fs::create_dir_all(&lasted).unwrap();
    std::fs::write(lasted.join("model"), format!("{PLAIN} 600.0\n")).unwrap();
    for expected in [true, false] {
        let output = run(&mut device.verbatim(&format!("run {PLAIN}")));
        assert_eq!(output.code(), 0, "{output}");
        let is_told = output.stderr.contains("1 test on model, about 10 min");
        assert_eq!(is_told, expected, "the first run teaches the second: {output}");
    }
    let listed = run(&mut device.place.verbatim("tests --long quick"));
    assert!(
        listed.stdout.contains("Lasts about ") && !listed.stdout.contains("c14-017-lease-periods"),
        "{listed}"
    );
}

#[test]
fn test_that_did_not_run_teaches_no_duration() {
    let device = Device::start(MKey(0));
    let output = run(&mut device.verbatim(&format!("run {PLAIN} c09-060-send")));
    assert!(output.stdout.contains("1 passed, 1 not applicable"), "{output}");
    let lasted = std::fs::read_to_string(device.place.path(".cache/verbatim/lasted/model")).unwrap();
    assert!(lasted.contains(PLAIN) && !lasted.contains("c09-060-send"), "{lasted}");
}

//! Records of sound devices in real time that were failed once, each for the reason in its name: they pass.

use std::fs;
use std::path::Path;

use verbatim_catalog::judge;
use verbatim_record::{Outcome, read_file};

#[test]
fn what_was_blamed_on_a_sound_device_is_blamed_no_more() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sound");
    let mut judged = 0;
    for file in fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let verdict = judge(read_file(&path).unwrap()).unwrap();
        assert_eq!(verdict.outcome(), Outcome::Pass, "{}: {verdict:#?}", path.display());
        judged += 1;
    }
    assert!(judged > 0);
}

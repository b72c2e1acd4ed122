//! Records of conforming devices that ran in real time. An earlier version judged them FAIL, for the reason that the
//! file's name states. The catalogue must judge them PASS.

use std::fs;
use std::path::Path;

use verbatim_catalog::judge;
use verbatim_record::{Outcome, read_file};

#[test]
fn former_false_alarms_pass() {
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

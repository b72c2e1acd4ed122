//! `verbatim` as users run it, on the virtual rig, without labs and hardware.

mod capture;
mod choose;
mod damage;
mod deviations;
mod machine;
mod pipes;
mod records;
mod repeat;
mod revision;
mod signature;
mod usage;
mod verdicts;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use verbatim_tests::product::{Output, Place, run};

/// Parameters that shorten the long sweeps, for records of some 100 kB.
const SHORT: &str = "--set illegal_parts=100 --set violations=300";

/// A few short tests of management and of connections.
const FEW: &str = "c09-060-* c14-016-*";

/// A run of all tests on the virtual rig.
struct Whole {
    /// Directory of the record.
    record: PathBuf,
    /// The program's output with `--json`.
    output: Output,
}

/// The whole run with seed 0. The tests of this program share it, because it takes seconds.
static WHOLE: LazyLock<Whole> = LazyLock::new(|| {
    let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole-run");
    if let Err(error) = fs::remove_dir_all(&record) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
    }
    let place = Place::new();
    let mut command = place.verbatim(&format!("run --json --seed 0 {SHORT} --record"));
    let output = run(command.arg(&record));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output}");
    Whole { record, output }
});

/// A rig whose device responds to requests to which it must not respond.
const BROKEN: &str = r#"config_version = 1

[[rig]]
name = "broken"
kind = "virtual"
defects = ["m-key-ignored-on-get"]
"#;

/// Makes a pair of keys with openssl: NAME.pem and NAME.pub.
fn keys(place: &Place, name: &str) {
    let openssl = |arguments: &str| {
        let output = run(place.command("openssl").args(arguments.split_whitespace()));
        assert_eq!(output.code(), 0, "{output}");
    };
    openssl(&format!("genpkey -algorithm ed25519 -out {name}.pem"));
    openssl(&format!("pkey -in {name}.pem -pubout -out {name}.pub"));
}

/// Returns name and content of each file of a directory, in order of name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// Returns the records of a directory.
fn records(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut records = files(directory);
    records.retain(|(name, _)| name.ends_with(".rec"));
    assert!(records.len() > 20, "{}", records.len());
    records
}

//! Runs `oracle.py` in a virtual environment with the scapy version that `requirements.txt` names.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use verbatim_lab::workspace::root;
use verbatim_tests::oracle::skipped;
use verbatim_tests::python::environment;

const INSTALL: &str = "apt-get install python3-venv; the first run then fetches scapy from pypi.org by pip";

/// Returns the oracle's responses, one per line. Returns `None` if the oracle cannot run here.
pub(crate) fn answers(arguments: &[&str], questions: &str) -> Option<String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let python = match PYTHON.get_or_init(|| environment(&here().join("requirements.txt"))) {
        Ok(python) => python,
        Err(why) => {
            skipped(&format!("scapy ({why})"), INSTALL);
            return None;
        }
    };
    let input = tempfile::NamedTempFile::new().unwrap();
    fs::write(input.path(), questions).unwrap();
    let output = Command::new(python)
        .arg(here().join("oracle.py"))
        .args(arguments)
        .stdin(Stdio::from(fs::File::open(input.path()).unwrap()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn here() -> PathBuf {
    root().join("tests/tests/product/scapy_agrees")
}

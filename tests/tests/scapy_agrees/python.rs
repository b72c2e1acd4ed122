//! Runs `oracle.py` in a virtual environment with the one version of scapy that `requirements.txt` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use verbatim_lab::workspace::{root, target_directory};
use verbatim_tests::oracle::skipped;

const INSTALL: &str = "apt-get install python3-venv; the first run then fetches scapy from pypi.org by pip";

/// What the oracle answers, one line for each; `None` when it cannot run here.
pub(crate) fn answers(arguments: &[&str], questions: &str) -> Option<String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let python = match PYTHON.get_or_init(environment) {
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
    root().join("tests/tests/scapy_agrees")
}

/// The environment's python, below cargo's target directory. It is made once: beside its place, and moved there when it
/// is complete, so that several may make it at once.
fn environment() -> Result<PathBuf, String> {
    let requirements = here().join("requirements.txt");
    let version = fs::read_to_string(&requirements).unwrap();
    let version = version.split_whitespace().next().unwrap().replace("==", "-");
    let oracles = target_directory().unwrap().join("oracles");
    let place = oracles.join(version);
    let python = |environment: &Path| environment.join("bin/python");
    if !python(&place).exists() {
        fs::create_dir_all(&oracles).unwrap();
        let unfinished = tempfile::tempdir_in(&oracles).unwrap();
        run(Command::new("python3").args(["-m", "venv"]).arg(unfinished.path()))?;
        run(Command::new(python(unfinished.path()))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args([
                "--timeout",
                "15",
                "--retries",
                "1",
                "--no-deps",
                "--require-hashes",
                "-r",
            ])
            .arg(&requirements))?;
        // When another was quicker, ours goes away again.
        if fs::rename(unfinished.path(), &place).is_err() {
            assert!(python(&place).exists(), "{} cannot be made", place.display());
        }
    }
    Ok(python(&place))
}

/// Runs it; if it fails: what it said last.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.unwrap_or("it failed without a word").to_string())
}

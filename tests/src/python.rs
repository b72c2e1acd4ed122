//! Python for tests: Debian's Python with Debian's packages, and virtual environments. The requirements files of the
//! environments name versions and hashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use verbatim_lab::workspace::target_directory;

use crate::oracle::skipped;

/// Debian's Python, which has Debian's packages. Another Python on the PATH would lack these packages.
pub const DEBIAN: &str = "/usr/bin/python3";

/// Returns whether Debian's Python lacks one of these packages, and if so prints that the test is skipped. A
/// package is given by the name of its module, and the name of its Debian package without the prefix `python3-`.
#[must_use]
pub fn lacks(packages: &[(&str, &str)]) -> bool {
    let modules: Vec<&str> = packages.iter().map(|(module, _)| *module).collect();
    let imports = Command::new(DEBIAN)
        .args(["-c", &format!("import {}", modules.join(", "))])
        .output();
    let lacks = !imports.is_ok_and(|output| output.status.success());
    if lacks {
        let names: Vec<String> = packages.iter().map(|(_, name)| format!("python3-{name}")).collect();
        skipped("Python's packages", &format!("apt-get install {}", names.join(" ")));
    }
    lacks
}

/// The packages that the Python client needs.
pub const GRPC: [(&str, &str); 2] = [("grpc", "grpcio"), ("google.protobuf", "protobuf")];
/// The packages that the client's tests and plug-in need.
pub const GRPC_AND_PYTEST: [(&str, &str); 3] = [GRPC[0], GRPC[1], ("pytest", "pytest")];

/// Returns the Python of a virtual environment with the packages of a requirements file. Makes the environment once,
/// below cargo's target directory. The environment gets its final name when it is complete, so several processes may
/// make it at once.
///
/// # Errors
/// Returns the last line of output of python or pip if the environment cannot be made.
///
/// # Panics
/// When the requirements file names no package.
pub fn environment(requirements: &Path) -> Result<PathBuf, String> {
    let version = fs::read_to_string(requirements).unwrap();
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
            .arg(requirements))?;
        // If another process was faster, remove our environment and use the other.
        if fs::rename(unfinished.path(), &place).is_err() {
            assert!(python(&place).exists(), "{} cannot be made", place.display());
        }
    }
    Ok(python(&place))
}

/// Runs a command; on failure, returns the last line of its output.
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

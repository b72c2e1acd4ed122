//! The Python client and its plug-in for pytest, against the real daemon: `client/python/tests`.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::process::Command;

use verbatim_lab::workspace::root;
use verbatim_tests::oracle::skipped;
use verbatim_tests::product::{Place, programs, run};

/// Debian's, whose packages these are; another one that comes first in PATH has them not.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn the_python_client_does_what_its_tests_and_its_page_say() {
    let imports = Command::new(PYTHON)
        .args(["-c", "import grpc, google.protobuf, pytest"])
        .output();
    if !imports.is_ok_and(|output| output.status.success()) {
        skipped(
            "Python with grpcio, protobuf and pytest",
            "apt-get install python3-grpcio python3-protobuf python3-pytest",
        );
        return;
    }
    let place = Place::new();
    let mut pytest = place.command(PYTHON);
    pytest
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
        .arg(format!("--basetemp={}", place.path("pytest").display()))
        .current_dir(root().join("client/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("VERBATIM_BIN", programs());
    let output = run(&mut pytest);
    assert_eq!(output.code(), 0, "{output}");
    assert!(output.stdout.contains(" passed"), "{output}");
}

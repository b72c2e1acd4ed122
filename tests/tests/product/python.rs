//! Runs the tests of the Python client and its pytest plug-in, `client/python/tests`, against the real daemon.

mod small_core;

use std::time::Duration;

use verbatim_lab::workspace::root;
use verbatim_tests::product::{Place, Running, programs};
use verbatim_tests::python;

/// Longest time of the tests, on the busiest host. The tests wait for Python devices in real time.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn python_client_tests_pass() {
    passes(&["tests", "-k", "not small_core_and_each"], LIMIT);
}

/// Runs pytest with these arguments, and asserts that all tests pass.
fn passes(arguments: &[&str], limit: Duration) {
    if python::lacks(&python::GRPC_AND_PYTEST) {
        return;
    }
    let place = Place::new();
    let mut pytest = place.command(python::DEBIAN);
    pytest
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(arguments)
        .arg(format!("--basetemp={}", place.path("pytest").display()))
        .current_dir(root().join("client/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("VERBATIM_BIN", programs());
    let output = Running::start(&mut pytest).end(limit);
    assert_eq!(output.code(), 0, "{output}");
    assert!(output.stdout.contains(" passed"), "{output}");
}

//! `cargo xtask check`: exactly what CI runs, in the same order. `cargo xtask test`: the lab's packages, then the tests.

use std::env;

use verbatim_lab::workspace::{cargo, run};

use crate::{deps, setup};

/// Formatting, lints, dependency directions, documentation and tests. Stops at the first that fails.
///
/// # Errors
///
/// Names the step that failed, with its command line.
pub(crate) fn check() -> anyhow::Result<()> {
    run(
        "formatting (`cargo fmt --all` repairs it)",
        cargo().args(["fmt", "--all", "--check"]),
    )?;
    eprintln!("xtask: dependency directions");
    deps::check_workspace()?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run("lints", cargo().args(clippy))?;
    let doc = ["doc", "--workspace", "--no-deps"];
    run("documentation", cargo().args(doc).env("RUSTDOCFLAGS", "-D warnings"))?;
    run("tests", cargo().args(["test", "--workspace"]))
}

/// Installs what the tests can use, then runs them all; `arguments` go to `cargo test`.
///
/// Where the packages cannot be installed, the tests that need them are skipped by themselves, each with its reason;
/// on CI (the variable `CI` is set) that is a failure.
///
/// # Errors
///
/// When a test fails, or a package is missing on CI.
pub(crate) fn test(arguments: &[String]) -> anyhow::Result<()> {
    if let Err(error) = setup::setup() {
        if env::var_os("CI").is_some_and(|value| !value.is_empty()) {
            return Err(error);
        }
        eprintln!("xtask: {error:#}");
        eprintln!("xtask: going on; tests that need what is missing are skipped");
    }
    run(
        "tests",
        cargo().args(["test", "--workspace", "--no-fail-fast"]).args(arguments),
    )
}

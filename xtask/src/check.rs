//! `cargo xtask check`: the checks that CI runs before its campaigns, in the same order. `cargo xtask test`: installs
//! the lab's packages, then runs the tests.

use std::env;

use verbatim_lab::LAB_PROFILE;
use verbatim_lab::host::apt_line;
use verbatim_lab::workspace::{cargo, run, target_directory};

use crate::testing::{self, of_workspace};
use crate::{deps, files, setup};

/// Checks formatting, dependency directions, lints and documentation, then runs the tests. Stops at the first failure.
///
/// # Errors
///
/// Returns an error that names the failed step, with its command line.
pub(crate) fn check() -> anyhow::Result<()> {
    run(
        "formatting (`cargo fmt --all` repairs it)",
        cargo().args(["fmt", "--all", "--check"]),
    )?;
    eprintln!("xtask: dependency directions, cycles of files");
    deps::check_workspace()?;
    files::check()?;
    let all = ["--all-targets", "--", "-D", "warnings"];
    run("lints", of_workspace("clippy").args(all))?;
    let mut doc = of_workspace("doc");
    run("documentation", doc.arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))?;
    testing::test(false)?;
    bindings()
}

/// Installs the packages that the tests use, then runs all tests. `arguments` go to `cargo test`.
///
/// If a package cannot be installed, the tests that need the package are skipped, each with a reason. On CI (the
/// variable `CI` is set) a missing package is an error.
///
/// # Errors
///
/// Returns an error when a test fails, or when a package is missing on CI.
pub(crate) fn test(times: bool, arguments: &[String]) -> anyhow::Result<()> {
    if let Err(error) = setup::setup() {
        if is_ci() {
            return Err(error);
        }
        eprintln!("xtask: {error:#}");
        eprintln!("xtask: going on; tests that need what is missing are skipped");
    }
    if arguments.is_empty() {
        testing::test(times)?;
    } else {
        run("tests", of_workspace("test").arg("--no-fail-fast").args(arguments))?;
    }
    bindings()
}

/// Compares the project's bindings with the installed headers.
///
/// Runs the unit tests of `crates/hw` with the declarations that rdma-sys generates from the headers. The step needs
/// libclang and the libraries' headers. Without these packages the step is skipped; on CI their lack is an error.
///
/// # Errors
///
/// Returns an error when a test fails, or when a size, an offset or a constant differs.
fn bindings() -> anyhow::Result<()> {
    let needs = [
        "libclang-dev",
        "libibverbs-dev",
        "librdmacm-dev",
        "libibumad-dev",
        "pkg-config",
        "gcc",
    ];
    let lacking = setup::lacking(&needs);
    if !lacking.is_empty() {
        let install = apt_line(&lacking);
        anyhow::ensure!(!is_ci(), "the bindings cannot be compared with the headers: {install}");
        eprintln!("xtask: SKIPPED: the bindings are not compared with the headers; for that: {install}");
        return Ok(());
    }
    // Use a separate directory: this package alone requests fewer features of shared crates, so cargo would rebuild
    // the crates.
    let target = target_directory()?.join("rdma-sys");
    run(
        "unit tests with rdma-sys, and our declarations against the installed headers",
        cargo()
            .args([
                "test",
                "--quiet",
                "--profile",
                LAB_PROFILE,
                "-p",
                "verbatim-hw",
                "--lib",
            ])
            .args(["--features", "rdma-sys", "--target-dir"])
            .arg(target),
    )
}

fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty())
}

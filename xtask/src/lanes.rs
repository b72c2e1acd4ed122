//! `cargo xtask test`: test programs that mostly wait run beside the others. One after the other, as cargo runs them, they
//! leave the processors idle for half of the time.

use std::collections::BTreeSet;
use std::io::{self, Seek};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;
use verbatim_lab::LAB_PROFILE;
use verbatim_lab::workspace::{cargo, metadata, root, run, shown};

/// They wait for silences on ibsim and in the kernel, and for emulated machines.
const BESIDE: [&str; 5] = ["ibsim", "kernel_places", "python", "service", "vib"];

/// A command of cargo on all packages, in the profile that labs and campaigns build in, too: there is one build, and tests
/// that reckon take a twentieth of their time.
pub(crate) fn of_workspace(command: &str) -> Command {
    let mut cargo = cargo();
    cargo.args([command, "--profile", LAB_PROFILE, "--workspace"]);
    cargo
}

/// Runs all tests, in two lanes. What those beside print is printed when the others are done.
///
/// # Errors
///
/// When a build or a test fails, with the command that failed; the other lane ends first.
pub(crate) fn test() -> anyhow::Result<()> {
    let (others, beside) = lanes(&metadata(&root().join("Cargo.toml"))?)?;
    run("building the tests", of_workspace("test").arg("--no-run"))?;
    let mut waiting = of_workspace("test");
    waiting.arg("--no-fail-fast").args(of_targets(&beside));
    let mut printed = tempfile::tempfile().context("making a file for what the tests print")?;
    waiting.stdout(printed.try_clone()?).stderr(printed.try_clone()?);
    eprintln!(
        "xtask: beside the others, shown when they are done: {}",
        shown(&waiting)
    );
    let mut child = waiting.spawn().context("starting cargo")?;
    let mut rest = of_workspace("test");
    rest.args(["--no-fail-fast", "--lib", "--bins"])
        .args(of_targets(&others));
    let rest = run("tests", &mut rest);
    let docs = run(
        "tests in the documentation",
        of_workspace("test").args(["--no-fail-fast", "--doc"]),
    );
    let status = child.wait().context("waiting for cargo")?;
    printed.rewind()?;
    io::copy(&mut printed, &mut io::stderr())?;
    if !status.success() {
        bail!("tests failed ({status}); the command was: {}", shown(&waiting));
    }
    rest.and(docs)
}

fn of_targets(names: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    names.iter().flat_map(|name| ["--test", name])
}

/// The names of the integration tests, by the output of `cargo metadata`: those that run one after the other, and those
/// beside them.
///
/// # Errors
///
/// When one that is to run beside the others is not there.
fn lanes(metadata: &Value) -> anyhow::Result<(BTreeSet<String>, BTreeSet<String>)> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    let targets = packages
        .iter()
        .filter_map(|package| package["targets"].as_array())
        .flatten();
    let is_test = |target: &&Value| target["kind"] == serde_json::json!(["test"]) && target["test"] == true;
    let names = targets.filter(is_test).filter_map(|target| target["name"].as_str());
    let (beside, others): (BTreeSet<String>, BTreeSet<String>) = names
        .map(str::to_owned)
        .partition(|name| BESIDE.contains(&name.as_str()));
    if let Some(missing) = BESIDE.iter().find(|name| !beside.contains(**name)) {
        bail!(
            "no test program is called {missing:?}; take it out of {}, or write its new name there",
            file!()
        );
    }
    Ok((others, beside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_program_of_the_workspace_is_in_one_lane() {
        let metadata = metadata(&root().join("Cargo.toml")).unwrap();
        let (others, beside) = lanes(&metadata).unwrap();
        assert_eq!(beside, BESIDE.map(str::to_owned).into());
        assert!(others.is_disjoint(&beside));
        for name in ["rxe", "command_line", "catalog"] {
            assert!(others.contains(name), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_gone_is_an_error() {
        let metadata =
            serde_json::json!({"packages": [{"targets": [{"kind": ["test"], "name": "vib", "test": true}]}]});
        let error = lanes(&metadata).unwrap_err().to_string();
        assert!(error.contains("ibsim"), "{error}");
    }
}

//! Checks the features of shared crates: two commands of this project must request the same features, so that cargo
//! compiles a crate once.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use verbatim_lab::workspace::cargo;

/// Packages that the commands of the README, the labs and the campaigns build, beside the whole workspace.
const SELECTIONS: [&[&str]; 3] = [
    &["-p", "verbatim"],
    &["-p", "verbatim", "-p", "verbatim-daemon", "-p", "verbatim-agent"],
    &["-p", "xtask"],
];

/// Returns each crate that a command compiles, with its version and features.
fn crates(selection: &[&str], edges: &str) -> anyhow::Result<BTreeSet<String>> {
    let output = cargo()
        .args([
            "tree", "--locked", "--prefix", "none", "--format", "{p} {f}", "--edges", edges,
        ])
        .args(selection)
        .output()
        .context("starting cargo tree")?;
    if !output.status.success() {
        bail!(
            "cargo tree {selection:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    // Drop the words in parentheses between version and features: marks of macro crates, and paths of local packages.
    let without_marks = |line: &str| -> String {
        let words = line
            .split(' ')
            .filter(|word| !word.starts_with('(') && !word.ends_with(')'));
        words.collect::<Vec<_>>().join(" ")
    };
    Ok(lines.filter(|line| !line.is_empty()).map(without_marks).collect())
}

/// Features that are off by default: the package that is rebuilt for the feature, and the feature's name.
const OFF_BY_DEFAULT: [(&str, &str); 2] = [("verbatim-daemon", "otlp"), ("verbatim-hw", "rdma-sys")];

#[test]
fn optional_feature_rebuilds_no_dependency() {
    let all = crates(&["--workspace"], "normal,build,dev").unwrap();
    for (package, feature) in OFF_BY_DEFAULT {
        let features = format!("{package}/{feature}");
        let with = crates(&["--workspace", "--features", &features], "normal,build,dev").unwrap();
        let is_other = |line: &&String| line.split(' ').next() != Some(package);
        let differ: Vec<_> = all.difference(&with).filter(is_other).collect();
        assert!(
            differ.is_empty(),
            "{features} has cargo build these again: {differ:?}. Write the features that it asks for into \
             crates/one-build/Cargo.toml"
        );
    }
}

#[test]
fn each_crate_has_one_feature_set() {
    let all = crates(&["--workspace"], "normal,build,dev").unwrap();
    assert!(all.len() > 200, "{all:?}");
    for selection in SELECTIONS {
        let asked = crates(selection, "normal,build").unwrap();
        let differ: Vec<_> = asked.difference(&all).collect();
        assert!(
            differ.is_empty(),
            "cargo builds these for {selection:?} alone: {differ:?}. Write the features that all packages together have \
             (`cargo tree --workspace --edges normal,build,dev`) into crates/one-build/Cargo.toml"
        );
    }
}

//! `cargo xtask quick`: the checks before a commit, limited to the changed files where possible.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;
use verbatim_lab::workspace::{cargo, metadata, root, run};
use verbatim_lab::{LAB_PROFILE, build_binaries};

use crate::added::{self, WIDTH};
use crate::testing::of_workspace;

/// Checks formatting, lints, unit tests of the changed crates, qualification of the changed tests, and the width of
/// added lines. Prints added comment sentences that are hard to read.
///
/// A file counts as changed if it differs from `since`, a revision of git.
///
/// # Errors
///
/// Returns an error that names the first failed step.
pub(crate) fn quick(since: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let step = |name: &str, begun: Instant| eprintln!("xtask: {name}: {} s", begun.elapsed().as_secs());
    let files = changed(since)?;
    let diff = git(&["diff", "--unified=0", since])?;
    let riddles = added::riddles(&diff);
    if !riddles.is_empty() {
        eprintln!(
            "xtask: {} added {} to read once more:\n  {}",
            riddles.len(),
            if riddles.len() == 1 { "sentence" } else { "sentences" },
            riddles.join("\n  ")
        );
    }
    let wide = added::wide(&diff);
    if !wide.is_empty() {
        bail!("lines over {WIDTH} columns:\n  {}", wide.join("\n  "));
    }
    run(
        "formatting (`cargo fmt --all` repairs it)",
        cargo().args(["fmt", "--all", "--check"]),
    )?;
    let begun = Instant::now();
    run(
        "lints",
        of_workspace("clippy").args(["--quiet", "--all-targets", "--", "-D", "warnings"]),
    )?;
    step("lints", begun);
    let packages = packages(&metadata(&root().join("Cargo.toml"))?, &files);
    if !packages.is_empty() {
        let begun = Instant::now();
        let mut test = cargo();
        test.args(["test", "--quiet", "--profile", LAB_PROFILE, "--lib", "--bins"]);
        test.args(packages.iter().flat_map(|package| ["-p", package]));
        run(&format!("unit tests of {}", words(&packages)), &mut test)?;
        step("unit tests", begun);
    }
    let tests = tests(&files);
    if !tests.is_empty() {
        let begun = Instant::now();
        let mut qualify = Command::new(build_binaries()?.join("verbatim"));
        run(
            &format!("qualification of {}", words(&tests)),
            qualify.arg("qualify").args(&tests),
        )?;
        step("qualification", begun);
    }
    println!("quick: ok in {} s", start.elapsed().as_secs());
    Ok(())
}

fn words(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

pub(crate) fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root())
        .output()
        .context("git could not be started; is it installed?")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the files that differ from a revision, and the files that git does not track yet.
fn changed(since: &str) -> anyhow::Result<BTreeSet<String>> {
    let differ = git(&["diff", "--name-only", since])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(differ.lines().chain(new.lines()).map(str::to_owned).collect())
}

/// Returns the packages of these files. A file belongs to the package in the deepest directory above the file.
fn packages(metadata: &Value, files: &BTreeSet<String>) -> BTreeSet<String> {
    let prefix = format!("{}/", metadata["workspace_root"].as_str().unwrap_or_default());
    let all = metadata["packages"].as_array().into_iter().flatten();
    let directories: Vec<(&str, &str)> = all
        .filter_map(|package| {
            let manifest = package["manifest_path"].as_str()?.strip_prefix(&prefix)?;
            Some((manifest.strip_suffix("Cargo.toml")?, package["name"].as_str()?))
        })
        .collect();
    let of = |file: &String| {
        let above = directories.iter().filter(|(directory, _)| file.starts_with(directory));
        above
            .max_by_key(|(directory, _)| directory.len())
            .map(|(_, name)| (*name).to_owned())
    };
    files.iter().filter_map(of).collect()
}

/// Returns the ids of the conformance tests in these files.
fn tests(files: &BTreeSet<String>) -> BTreeSet<String> {
    let of_catalog = files
        .iter()
        .filter(|file| file.starts_with("crates/catalog/src/") && file.ends_with(".rs"))
        .filter(|file| {
            file.rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with('c') && name.contains('_'))
        });
    let texts = of_catalog.filter_map(|file| fs::read_to_string(root().join(file)).ok());
    texts.flat_map(|text| ids(&text)).collect()
}

/// Returns the ids of tests in a file of the catalogue: strings such as `c14-024-node-info`.
fn ids(text: &str) -> Vec<String> {
    let is_id = |word: &&str| {
        let mut parts = word.split('-');
        let chapter = parts.next().and_then(|part| part.strip_prefix('c'));
        chapter.is_some_and(|number| number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit()))
            && parts.next().is_some()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.split('"').filter(is_id).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_belongs_to_the_nearest_package() {
        let package = |name: &str, path: &str| serde_json::json!({"name": name, "manifest_path": path});
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [package("verbs", "/w/verbs/Cargo.toml"), package("fake", "/w/verbs/fake/Cargo.toml")]
        });
        let files = ["verbs/fake/src/lib.rs", "README.md"].map(str::to_owned).into();
        assert_eq!(packages(&metadata, &files), ["fake".to_owned()].into());
    }

    #[test]
    fn finds_strings_in_the_form_of_ids() {
        let text = "id: \"c14-024-a\", about: \"c14-024 a\", get(\"c9-a\", \"c09\", \"c16-b\")";
        assert_eq!(ids(text), ["c14-024-a", "c16-b"]);
    }
}

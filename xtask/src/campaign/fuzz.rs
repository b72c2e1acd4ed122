//! Runs each fuzz target for some seconds.
//!
//! The targets run with cargo-fuzz if it is installed. Otherwise plain cargo builds the targets as ordinary programs,
//! with the coverage flags of cargo-fuzz. Both ways use stable Rust without a sanitizer. The targets find panics,
//! overflows (debug assertions are on) and hangs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

use super::Options;
use verbatim_lab::workspace::{cargo, metadata, root, run as run_command};

/// Flags that make the compiler count edges and comparisons for libFuzzer.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";
/// Longest input in bytes: longer than any MAD or frame.
const MAX_LENGTH: &str = "-max_len=8192";
/// Longest time of a single input in seconds. A slower input is a finding.
const INPUT_TIMEOUT: &str = "-timeout=10";

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    run_at(&root().join("tests/fuzz"), options)
}

fn run_at(directory: &Path, options: &Options) -> anyhow::Result<()> {
    let seconds = options.seconds_or(60);
    let manifest = directory.join("Cargo.toml");
    if !manifest.is_file() {
        bail!("there are no fuzz targets: {} does not exist", manifest.display());
    }
    let all = targets(&manifest)?;
    for wanted in &options.arguments {
        if !all.contains(wanted) {
            bail!("no fuzz target {wanted:?}; there are: {}", all.join(", "));
        }
    }
    let chosen: Vec<&String> = all
        .iter()
        .filter(|target| options.arguments.is_empty() || options.arguments.contains(target))
        .collect();
    let runner = if has_cargo_fuzz() {
        Runner::CargoFuzz
    } else {
        Runner::Plain(build(directory, &manifest)?)
    };
    let mut failed = Vec::new();
    for target in &chosen {
        let limit = format!("-max_total_time={seconds}");
        let mut command = runner.command(directory, target)?;
        command.args([limit.as_str(), MAX_LENGTH, INPUT_TIMEOUT]);
        if let Err(error) = run_command(&format!("fuzzing {target} for {seconds} s"), &mut command) {
            eprintln!("xtask: {error:#}");
            failed.push(target.as_str());
        }
    }
    if failed.is_empty() {
        eprintln!("xtask: {} fuzz targets found nothing", chosen.len());
        return Ok(());
    }
    bail!(
        "fuzz targets that found something: {}; the inputs are below {}. Give one to the target's program to see it \
         again, then keep it as a test",
        failed.join(", "),
        directory.join("artifacts").display()
    )
}

/// Returns the names of the targets: every program of the fuzz package.
fn targets(manifest: &Path) -> anyhow::Result<Vec<String>> {
    let metadata = metadata(manifest)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    let names: Vec<String> = packages
        .iter()
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
        .filter(|target| {
            target["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"))
        })
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect();
    if names.is_empty() {
        bail!("{} has no [[bin]] target to fuzz", manifest.display());
    }
    Ok(names)
}

fn has_cargo_fuzz() -> bool {
    let version = cargo()
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

enum Runner {
    CargoFuzz,
    /// Plain cargo, with the directory of the built programs.
    Plain(PathBuf),
}

impl Runner {
    /// Returns the command for one target. The caller may append libFuzzer's options.
    fn command(&self, directory: &Path, target: &str) -> anyhow::Result<Command> {
        let place = |kind: &str| directory.join(kind).join(target);
        let (corpus, artifacts, seeds) = (place("corpus"), place("artifacts"), place("seeds"));
        for place in [&corpus, &artifacts] {
            fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
        }
        let mut command = match self {
            Runner::CargoFuzz => {
                let mut command = cargo();
                command
                    .args(["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"])
                    .arg(directory)
                    .arg(target);
                command
            }
            Runner::Plain(programs) => Command::new(programs.join(target)),
        };
        command.arg(&corpus);
        // The repository's inputs are the start of the corpus.
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        match self {
            Runner::CargoFuzz => command.arg("--"),
            Runner::Plain(_) => command.arg(format!("-artifact_prefix={}/", artifacts.display())),
        };
        Ok(command)
    }
}

/// Builds the targets with plain cargo, and returns their directory.
///
/// The targets have their own build directory: in a shared directory, cargo would rebuild all other crates after each
/// change of the flags.
fn build(directory: &Path, manifest: &Path) -> anyhow::Result<PathBuf> {
    eprintln!(
        "xtask: cargo-fuzz is not installed (`cargo install cargo-fuzz --locked`); using plain cargo with coverage flags"
    );
    let target = directory.join("target");
    // With an explicit target, cargo does not apply the flags to build scripts.
    let host = host()?;
    let mut command = cargo();
    command
        .args(["build", "--release", "--bins", "--target", &host, "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", COVERAGE);
    run_command(
        "building the fuzz targets (libFuzzer itself needs a C++ compiler: `apt-get install g++`)",
        &mut command,
    )?;
    Ok(target.join(host).join("release"))
}

/// Returns the target triple of this machine.
fn host() -> anyhow::Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .context("rustc could not be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_targets_name_the_manifest() {
        let place = tempfile::tempdir().unwrap();
        let error = run_at(place.path(), &Options::default()).unwrap_err().to_string();
        assert!(
            error.contains("there are no fuzz targets") && error.contains("Cargo.toml"),
            "{error}"
        );
    }

    #[test]
    fn lists_programs_as_targets() {
        let place = tempfile::tempdir().unwrap();
        let manifest = place.path().join("Cargo.toml");
        fs::write(
            &manifest,
            "[package]\nname = \"f\"\nedition = \"2024\"\n[workspace]\n[[bin]]\nname = \"mad\"\npath = \"m.rs\"\n",
        )
        .unwrap();
        fs::write(place.path().join("m.rs"), "fn main() {}").unwrap();
        assert_eq!(targets(&manifest).unwrap(), ["mad"]);
        let wrong = Options {
            arguments: vec!["none".into()],
            ..Options::default()
        };
        assert!(
            run_at(place.path(), &wrong)
                .unwrap_err()
                .to_string()
                .contains("there are: mad")
        );
    }

    #[test]
    fn host_is_a_triple() {
        assert!(host().unwrap().contains('-'));
    }
}

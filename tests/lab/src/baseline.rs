//! `cargo xtask lab rxe --baseline stock`: runs one command on Debian's kernel and on the chosen kernel, and prints the
//! differences.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context, bail, ensure};

use super::{command, rxe::run_on_kernel};
use crate::machine::{ChosenKernel, store};

/// Runs a command `verbatim run ...` on Debian's kernel, then on the kernel `kernel`, and prints the verdicts that
/// differ. Prints the directory below [`store`] in which both records stay. Returns 0 if nothing differs, and 1
/// otherwise.
///
/// # Errors
///
/// When the command is not `verbatim run`, when it has `--record`, when the kernel is Debian's, or when a lab does not
/// start.
pub fn run_against_stock(command: &[OsString], kernel: &ChosenKernel) -> anyhow::Result<u8> {
    let is_run = matches!(command, [program, task, ..] if program == "verbatim" && task == "run");
    ensure!(
        is_run,
        "--baseline compares two runs; expected a command that begins with `verbatim run`"
    );
    ensure!(
        !command
            .iter()
            .any(|word| word.to_string_lossy().starts_with("--record")),
        "--baseline chooses the directories of the records; leave --record out"
    );
    ensure!(
        !kernel.is_stock(),
        "--baseline compares Debian's kernel with yours; give yours with --module, --deb or --bzimage"
    );
    let signal = command::catch_signals()?;
    let binaries = command::build_binaries()?;
    let place = store().join("baselines");
    fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
    let place = tempfile::Builder::new().prefix("run-").tempdir_in(&place);
    let place = place.context("making a directory of records")?.keep();
    let stock = ChosenKernel::default();
    let mut records = Vec::new();
    for (name, kernel) in [("stock", &stock), ("changed", kernel)] {
        let record = place.join(name);
        eprintln!("xtask: {name} kernel, record {}", record.display());
        let mut command = command.to_vec();
        command.extend(["--record".into(), record.clone().into()]);
        run_on_kernel(&command, Some(&binaries), (kernel, None), &signal)?;
        if !record.is_dir() {
            bail!("the run on the {name} kernel left no record in {}", record.display());
        }
        records.push(record);
    }
    differences(&binaries, &records)
}

/// Prints the differences between the two records.
fn differences(binaries: &Path, records: &[std::path::PathBuf]) -> anyhow::Result<u8> {
    let mut diff = Command::new(binaries.join("verbatim"));
    let status = diff.args(["runs", "diff"]).args(records).status();
    let status = status.context("starting verbatim runs diff")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_other_commands_and_the_stock_kernel() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let own = ChosenKernel {
            append: "slub_debug".to_owned(),
            ..ChosenKernel::default()
        };
        for (line, kernel, part) in [
            ("sh -c true", &own, "verbatim run"),
            ("verbatim run --record x", &own, "--record"),
            ("verbatim run", &ChosenKernel::default(), "--module"),
        ] {
            let error = run_against_stock(&words(line), kernel).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}

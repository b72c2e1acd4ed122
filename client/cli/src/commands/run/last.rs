//! The tests that did not pass in the last run on a rig, for `--failed` without a daemon.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use verbatim_client::v1::{Outcome, Verdict};

use crate::exit::Usage;
use crate::print::history;

/// Returns the ids of the tests with FAIL, ERROR or INCONCLUSIVE.
pub(super) fn not_passed(verdicts: &[Verdict]) -> Vec<String> {
    let not = |verdict: &&Verdict| {
        matches!(
            verdict.outcome(),
            Outcome::Fail | Outcome::Error | Outcome::Inconclusive
        )
    };
    verdicts
        .iter()
        .filter(not)
        .map(|verdict| verdict.test.clone())
        .collect()
}

/// Returns the file for a rig, with one test per line. It is in the user's cache, because its loss does no harm.
fn file(rig: &str) -> Option<PathBuf> {
    // The name of a rig contains no path separator.
    Some(history::cache("last")?.join(rig))
}

/// Stores the tests that did not pass. Ignores errors: a later `--failed` reports that the file is missing.
pub(super) fn keep(rig: &str, verdicts: &[Verdict]) {
    let Some(file) = file(rig) else { return };
    let tests = not_passed(verdicts);
    let kept = || -> std::io::Result<()> {
        let directory = file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        let mut part = tempfile::NamedTempFile::new_in(directory)?;
        for test in &tests {
            writeln!(part, "{test}")?;
        }
        part.persist(&file)?;
        Ok(())
    };
    // Remove an older file: a later `--failed` would read it as the result of this run.
    if tests.is_empty() || kept().is_err() {
        fs::remove_file(&file).unwrap_or_default();
    }
}

/// Returns the tests that did not pass in the last run on a rig.
pub(super) fn of(rig: &str) -> anyhow::Result<Vec<String>> {
    let file = file(rig).ok_or_else(|| {
        Usage(
            "--failed: the list of tests that did not pass is in $XDG_CACHE_HOME or $HOME/.cache, but neither \
             variable is an absolute path"
                .into(),
        )
    })?;
    let Ok(text) = fs::read_to_string(&file) else {
        let file = file.display();
        return Err(Usage(format!(
            "--failed: nothing to run again: no test of this user's last run on {rig} without a daemon ended FAIL, \
             ERROR or INCONCLUSIVE, or there was no such run ({file} does not exist)"
        ))
        .into());
    };
    Ok(text.lines().map(str::to_owned).collect())
}

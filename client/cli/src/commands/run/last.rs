//! The tests that did not pass in the last run on a rig, for `--failed` without a daemon.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use verbatim_client::v1::{Outcome, Verdict};

use crate::exit::Usage;
use crate::print::history;

/// Returns the ids of the tests that ended FAIL, ERROR or INCONCLUSIVE, or that a stopped run skipped.
pub(super) fn not_passed(verdicts: &[Verdict]) -> Vec<String> {
    let not = |verdict: &&Verdict| {
        matches!(
            verdict.outcome(),
            Outcome::Fail | Outcome::Error | Outcome::Inconclusive | Outcome::Skipped
        )
    };
    verdicts
        .iter()
        .filter(not)
        .map(|verdict| verdict.test.clone())
        .collect()
}

/// The last run on a rig.
pub(super) struct Last {
    /// The keys that `--rig-key` set.
    pub(super) rig_keys: Vec<String>,
    /// The tests that did not pass.
    pub(super) tests: Vec<String>,
}

/// Prefix of a line with a key of the rig. No id of a test begins so.
const RIG_KEY: &str = "--rig-key ";

/// Returns the file for a rig, with one rig key or test per line. It is in the user's cache, because its loss does no
/// harm.
fn file(rig: &str) -> Option<PathBuf> {
    // The name of a rig contains no path separator.
    Some(history::cache("last")?.join(rig))
}

/// Stores the tests that did not pass, and the keys of the rig. Ignores errors: a later `--failed` reports that the
/// file is missing.
pub(super) fn keep(rig: &str, rig_keys: &[String], verdicts: &[Verdict]) {
    let Some(file) = file(rig) else { return };
    let tests = not_passed(verdicts);
    let kept = || -> std::io::Result<()> {
        let directory = file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        let mut part = tempfile::NamedTempFile::new_in(directory)?;
        for key in rig_keys {
            writeln!(part, "{RIG_KEY}{key}")?;
        }
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

/// Returns the last run on a rig, if a test did not pass.
pub(super) fn of(rig: &str) -> anyhow::Result<Last> {
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
             ERROR, INCONCLUSIVE or SKIPPED, or there was no such run ({file} does not exist)"
        ))
        .into());
    };
    let keys = text.lines().filter_map(|line| line.strip_prefix(RIG_KEY));
    let tests = text.lines().filter(|line| !line.starts_with(RIG_KEY));
    Ok(Last {
        rig_keys: keys.map(str::to_owned).collect(),
        tests: tests.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_repeated() {
        let ended = |test: &str, outcome: Outcome| Verdict {
            test: test.into(),
            outcome: outcome.into(),
            ..Verdict::default()
        };
        let verdicts = [
            ended("a", Outcome::Pass),
            ended("b", Outcome::Skipped),
            ended("c", Outcome::NotApplicable),
        ];
        assert_eq!(not_passed(&verdicts), ["b"]);
    }
}

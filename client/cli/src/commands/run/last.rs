//! What did not pass in the last run on a rig, for `--failed` where no daemon keeps runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use verbatim_client::v1::{Outcome, Verdict};

use crate::exit::Usage;

/// The ids of the tests that neither passed nor were left out.
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

/// Where that is kept of a rig, a line per test: in the user's cache, since nothing is lost with it.
fn file(rig: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    // A rig's name holds no separator.
    Some(cache.join("verbatim/last").join(rig))
}

/// Keeps what did not pass. That it cannot be kept is told to who asks for it, and fails no run.
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
    // An older one would answer for this run; and a run that passed leaves nothing behind.
    if tests.is_empty() || kept().is_err() {
        fs::remove_file(&file).unwrap_or_default();
    }
}

/// What did not pass in the last run on this rig.
pub(super) fn of(rig: &str) -> anyhow::Result<Vec<String>> {
    let file = file(rig).ok_or_else(|| {
        Usage(
            "--failed: what did not pass is kept in $XDG_CACHE_HOME or $HOME/.cache; neither variable is set to a path"
                .into(),
        )
    })?;
    let Ok(text) = fs::read_to_string(&file) else {
        let file = file.display();
        return Err(Usage(format!(
            "--failed: nothing to run again: of this user's last run on {rig} no test is known that did not pass ({file} is not there)"
        ))
        .into());
    };
    Ok(text.lines().map(str::to_owned).collect())
}

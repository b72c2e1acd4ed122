//! The last known duration of each test on a rig, and on any rig of a kind. Each has one file in the user's cache,
//! because the loss of the file does no harm.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

/// Returns the directory `verbatim/NAME` in the user's cache, for files that describe earlier runs.
pub(crate) fn cache(name: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("verbatim").join(name))
}

/// The expected durations of tests on a rig.
#[derive(Debug, Default)]
pub(crate) struct Expected(BTreeMap<String, Duration>);

impl Expected {
    /// Reads the durations in earlier runs on this rig, and on other rigs of its kind.
    pub(crate) fn on(rig: &str, kind: &str) -> Self {
        cache("lasted").map_or_else(Self::default, |directory| Self::read(&directory, rig, kind))
    }

    fn read(directory: &Path, rig: &str, kind: &str) -> Self {
        let mut lasted = read(&directory.join(of_kind(kind)));
        lasted.extend(read(&directory.join(rig)));
        Self(lasted)
    }

    /// Returns the duration of a test in its last run on the rig, else on a rig of its kind, else the estimate of the
    /// catalogue.
    pub(crate) fn of(&self, id: &str) -> Duration {
        let lasted = self.0.get(id).copied();
        lasted.unwrap_or_else(|| verbatim_catalog::estimate(id))
    }
}

/// Returns the name of the file for a kind of rig. No rig has such a name.
fn of_kind(kind: &str) -> String {
    format!("kind={kind}")
}

/// Stores the durations of tests. Ignores errors: later runs then use the estimates of the catalogue.
pub(crate) fn add(rig: &str, kind: &str, took: &[(Duration, String)]) {
    if let Some(directory) = cache("lasted").filter(|_| !took.is_empty()) {
        for file in [rig, &of_kind(kind)] {
            let _ = write(&directory, file, took);
        }
    }
}

fn read(file: &Path) -> BTreeMap<String, Duration> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let entry = |line: &str| {
        let (test, seconds) = line.split_once(' ')?;
        Some((
            test.to_owned(),
            Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        ))
    };
    text.lines().filter_map(entry).collect()
}

fn write(directory: &Path, rig: &str, took: &[(Duration, String)]) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let file = directory.join(rig);
    let mut all = read(&file);
    all.extend(took.iter().map(|(took, test)| (test.clone(), *took)));
    let mut part = tempfile::NamedTempFile::new_in(directory)?;
    for (test, lasted) in &all {
        writeln!(part, "{test} {:.1}", lasted.as_secs_f64())?;
    }
    part.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_on_rig_counts_more_than_on_its_kind() {
        let directory = tempfile::tempdir().unwrap();
        let took = |test: &str, seconds| (Duration::from_secs(seconds), test.to_owned());
        write(directory.path(), "r", &[took("a", 3)]).unwrap();
        write(directory.path(), &of_kind("umad"), &[took("a", 9), took("b", 4)]).unwrap();
        let expected = Expected::read(directory.path(), "r", "umad");
        assert_eq!(["a", "b"].map(|test| expected.of(test).as_secs()), [3, 4]);
        assert_eq!(expected.of("c14-walk"), verbatim_catalog::estimate("c14-walk"));
        assert_eq!(Expected::read(directory.path(), "s", "verbs").of("a").as_secs(), 1);
    }

    #[test]
    fn last_duration_of_each_test_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let took = |test: &str, seconds| (Duration::from_secs(seconds), test.to_owned());
        write(directory.path(), "r", &[took("a", 3), took("b", 4)]).unwrap();
        write(directory.path(), "r", &[took("a", 9)]).unwrap();
        let file = directory.path().join("r");
        let lasted = read(&file);
        assert_eq!(lasted["a"], Duration::from_secs(9));
        assert_eq!(lasted["b"], Duration::from_secs(4));
        fs::write(&file, "a x\n\u{0}\na -1\nc inf\n").unwrap();
        assert!(read(&file).is_empty(), "other text is ignored");
    }
}

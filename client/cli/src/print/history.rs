//! The last known duration of each test on a rig. Each rig has one file in the user's cache, because the loss of the
//! file does no harm.

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

/// Returns the durations of the tests in earlier runs on a rig.
pub(crate) fn of(rig: &str) -> BTreeMap<String, Duration> {
    cache("lasted").map_or_else(BTreeMap::new, |directory| read(&directory.join(rig)))
}

/// Stores the durations of tests. Ignores errors: later runs then use the estimates of the catalogue.
pub(crate) fn add(rig: &str, took: &[(Duration, String)]) {
    if let Some(directory) = cache("lasted").filter(|_| !took.is_empty()) {
        let _ = write(&directory, rig, took);
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

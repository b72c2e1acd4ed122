//! Compares the known versions of fixes in Linux rxe with Debian's kernel changelog on this host.

use std::path::Path;
use std::process::Command;

use verbatim_catalog::deviations::deviations;
use verbatim_tests::oracle::skipped;

/// The changelog. Every Debian with a C compiler has this file.
const CHANGELOG: &str = "/usr/share/doc/linux-libc-dev/changelog.Debian.gz";

/// Returns the version of the newest entry that contains this title, such as `6.1.176`.
fn version_with<'a>(changelog: &'a str, title: &str) -> Option<&'a str> {
    let before = &changelog[..changelog.find(title)?];
    let head = before.lines().rfind(|line| line.starts_with("linux"))?;
    head.split(['(', '-']).nth(1)
}

#[test]
fn mended_versions_match_debian_changelog() {
    if !Path::new(CHANGELOG).exists() {
        skipped(CHANGELOG, "apt-get install linux-libc-dev");
        return;
    }
    let changelog = Command::new("zcat").arg(CHANGELOG).output().unwrap();
    let changelog = String::from_utf8_lossy(&changelog.stdout).into_owned();
    let newest = changelog.split(['(', '-']).nth(1).unwrap();
    let branch = |version: &str| version.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
    let mut looked = 0;
    for it in deviations() {
        let Some((_, title)) = it.source.split_once("mended by \"") else {
            continue;
        };
        let title = title.split('"').next().unwrap();
        for mended in it.mended.iter().filter(|mended| branch(mended) == branch(newest)) {
            looked += 1;
            if let Some(version) = version_with(&changelog, title) {
                assert_eq!(version, mended, "{}: {title}", it.id);
            } else {
                // The changelog is older than the fix.
                let number = |version: &str| version.rsplit('.').next().unwrap().parse::<u32>().unwrap();
                assert!(number(newest) < number(mended), "{}: {title} is not in it", it.id);
            }
        }
    }
    assert!(
        looked > 0 || !["6.1", "6.12"].contains(&branch(newest).join(".").as_str()),
        "{newest}"
    );
}

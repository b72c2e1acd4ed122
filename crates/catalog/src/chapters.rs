//! All tests by chapter, in the order of the specification.

use verbatim_tester::Test;

use crate::{addressing, link, management, network, services, transport};

const CHAPTERS: [&[&Test]; 6] = [
    addressing::TESTS,
    link::TESTS,
    network::TESTS,
    transport::TESTS,
    management::TESTS,
    services::TESTS,
];

const COUNT: usize = {
    let (mut count, mut chapter) = (0, 0);
    while chapter < CHAPTERS.len() {
        count += CHAPTERS[chapter].len();
        chapter += 1;
    }
    count
};

/// All tests in the order of a run.
pub static TESTS: &[&Test] = &{
    let mut all = [CHAPTERS[0][0]; COUNT];
    let (mut next, mut chapter) = (0, 0);
    while chapter < CHAPTERS.len() {
        let (_, rest) = all.split_at_mut(next);
        let (place, _) = rest.split_at_mut(CHAPTERS[chapter].len());
        place.copy_from_slice(CHAPTERS[chapter]);
        next += CHAPTERS[chapter].len();
        chapter += 1;
    }
    all
};

/// Returns the chapter of the specification for a test's id, as a heading: "9 Transport layer".
#[must_use]
pub fn chapter(id: &str) -> &'static str {
    match id.split('-').next() {
        Some("c04") => "4 Addressing",
        Some("c07") => "7 Link layer",
        Some("c08") => "8 Network layer",
        Some("c09") => "9 Transport layer",
        Some("c13") => "13 Management",
        Some("c14") => "14 Subnet management",
        Some("c16") => "16 General services",
        _ => "Others",
    }
}

#[cfg(test)]
mod listing {
    use super::*;

    #[test]
    fn every_file_is_a_listed_module_or_test() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut chapters = 0;
        for chapter in std::fs::read_dir(source).unwrap() {
            let chapter = chapter.unwrap().path();
            // git may leave an empty folder behind when it removes the last file.
            if !chapter.is_dir() || std::fs::read_dir(&chapter).unwrap().next().is_none() {
                continue;
            }
            let contents = std::fs::read_to_string(chapter.join("mod.rs")).unwrap();
            // A folder without tests, such as `deviations`, is not a chapter.
            chapters += usize::from(contents.contains("TESTS: &[&Test]"));
            for entry in std::fs::read_dir(&chapter).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                if name == "mod" {
                    continue;
                }
                let shown = path.display();
                assert!(
                    contents.contains(&format!("mod {name};\n")),
                    "{shown} is no module: list it in mod.rs"
                );
                let is_test = name.starts_with('c') && name[1..].starts_with(|c: char| c.is_ascii_digit());
                assert!(
                    !is_test || contents.contains(&format!("&{name}::")),
                    "{shown} has no test in the TESTS of its chapter"
                );
            }
        }
        assert_eq!(chapters, CHAPTERS.len(), "a chapter's tests are in CHAPTERS");
    }

    #[test]
    fn ids_are_unique_and_belong_to_a_chapter() {
        let mut ids: Vec<_> = TESTS.iter().map(|test| test.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TESTS.len());
        for test in TESTS {
            assert!(
                test.id.starts_with('c') && !test.about.is_empty() && !test.statements.is_empty(),
                "{}",
                test.id
            );
            assert_ne!(chapter(test.id), "Others", "{}", test.id);
        }
    }
}

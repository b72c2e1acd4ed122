//! A new conformance test, as a copy of an existing one.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{Begun, Change, Options, insert_behind, sources};
use crate::golden::{self, Golden};

const SOURCES: &str = "crates/catalog/src";
/// Each chapter with a short test, which is copied by default.
const SHORT: [(&str, &str); 7] = [
    ("c04", "c04-dlid-lmc"),
    ("c07", "c07-link-version"),
    ("c08", "c08-link-grh"),
    // In this test both sides send requests on one connection.
    ("c09", "c09-address-vector"),
    ("c13", "c14-024-node-type"),
    ("c14", "c14-024-node-type"),
    ("c16", "c16-port-counters"),
];

/// Prepares the test's file, and its entry in the chapter's mod.rs.
pub(super) fn begin(root: &Path, options: &Options) -> anyhow::Result<Begun> {
    let name = &options.name;
    let chapter = options.words()?[0];
    let short = SHORT.iter().find(|(of, _)| *of == chapter);
    let like = match (&options.like, short) {
        (Some(like), _) => like.clone(),
        (None, Some((_, like))) => (*like).to_owned(),
        (None, None) => {
            let chapters = SHORT.map(|(of, _)| of).join(", ");
            bail!("{name} begins with no chapter that has tests ({chapters}); choose its place with --like TEST");
        }
    };
    let id = |name: &str| format!("    id: \"{name}\",\n");
    let files = sources(root, SOURCES)?;
    if let Some(there) = files.iter().find(|file| file.text.contains(&id(name))) {
        bail!("test {name} already exists, in {}", there.path.display());
    }
    let is_it = |file: &&Change| file.text.contains(&id(&like));
    let file = files
        .iter()
        .find(is_it)
        .with_context(|| format!("no test has the id {like}"))?;
    let stem = file.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if file.text.matches(": Test = Test {").count() != 1 || root.join(file.path.with_extension("")).is_dir() {
        bail!(
            "{like} shares its file {}; name another test with --like",
            file.path.display()
        );
    }
    let new = name.replace('-', "_");
    let path = file.path.with_file_name(format!("{new}.rs"));
    if root.join(&path).exists() {
        bail!("{} already exists, with other tests", path.display());
    }
    let contents = file.path.with_file_name("mod.rs");
    let chapter = files.iter().find(|file| file.path == contents);
    let chapter = chapter.with_context(|| format!("{} does not exist", contents.display()))?;
    let entry = format!("&{stem}::TEST");
    if chapter.text.matches(&entry).count() != 1 {
        bail!("{} does not list {like} as {entry}", contents.display());
    }
    let listed = chapter.text.replace(&entry, &format!("{entry},\n    &{new}::TEST"));
    let listed = insert_behind(&listed, &format!("mod {stem};"), &format!("mod {new};"))
        .with_context(|| format!("{} has no module {stem}", contents.display()))?;
    let text = renamed(&file.text, &like, name, options.about()?)
        .with_context(|| format!("{} does not have the form of a test", file.path.display()))?;
    let changes = vec![
        Change { path, text },
        Change {
            path: contents,
            text: listed,
        },
    ];
    Ok(Begun { like, changes })
}

/// Returns the copy with a new head comment and new texts, without aliases, in revision 1.
fn renamed(text: &str, like: &str, name: &str, about: &str) -> anyhow::Result<String> {
    let head = text.lines().take_while(|line| line.starts_with("//!"));
    let length: usize = head.map(|line| line.len() + 1).sum();
    let body = text[length..].replace(like, name);
    let body = field(&body, "aliases", "&[]")?;
    let body = field(&body, "revision", "1")?;
    let body = field(&body, "about", &format!("{about:?}"))?;
    let body = field(&body, "reading", "\"To be written.\"")?;
    let mut claim = about.to_owned();
    claim[..1].make_ascii_lowercase();
    Ok(format!(
        "//! `{name}`: {claim}\n//!\n//! Reading: to be written. False alarm: to be written.\n{body}"
    ))
}

/// Gives a field of the test another value. The next field must begin on its own line.
fn field(text: &str, name: &str, value: &str) -> anyhow::Result<String> {
    let begins = format!("\n    {name}: ");
    let at = text.find(&begins).with_context(|| format!("it has no field {name}"))? + begins.len();
    let is_field = |line: &&str| {
        let word = line.strip_prefix("    ").and_then(|rest| rest.split(':').next());
        word.is_some_and(|word| !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_lowercase()))
    };
    let value_lines = text[at..].split_inclusive('\n').enumerate();
    let own = value_lines.take_while(|(number, line)| *number == 0 || !is_field(line));
    let length: usize = own.map(|(_, line)| line.len()).sum();
    Ok(format!("{}{value},\n{}", &text[..at], &text[at + length..]))
}

/// Returns the files that hold the test's records.
pub(super) fn records(name: &str) -> [PathBuf; 2] {
    [format!("{name}.tar.zst"), "verdicts.txt".into()].map(|file| Path::new(golden::DIRECTORY).join(file))
}

/// Records the test on a sound device, and on a device with a defect.
///
/// Takes the first defect in the copied test's records that the new test finds as well.
pub(super) fn record(name: &str, like: &str) -> anyhow::Result<()> {
    Golden::new(name, None).keep()?;
    let mut missed = Vec::new();
    for defect in golden::defects(like)? {
        match Golden::new(name, Some(&defect)).keep() {
            Ok(()) => return golden::write_verdicts(),
            Err(error) => missed.push(format!("{error:#}")),
        }
    }
    bail!("{name} finds no defect of the records of {like}: {}", missed.join("; "))
}

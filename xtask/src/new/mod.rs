//! `cargo xtask new test NAME`, `cargo xtask new defect NAME`: starts a new test or a new defect.
//!
//! The new test or defect starts as a copy of an existing one, so that no template needs maintenance. The copy
//! compiles. A new test passes on a sound device and finds a defect; an existing test finds a new defect.

mod defect;
mod test;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use verbatim_lab::workspace::{cargo, root, run};

#[derive(Debug, Subcommand)]
pub(crate) enum Kind {
    /// A test: its file, its place in the chapter's mod.rs, its golden records and their verdicts.
    Test(Options),
    /// A defect of the device model: its line, and the place where it acts.
    Defect(Options),
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The name of the test or defect, such as c09-write-in-rtr or rnr-nak-twice.
    name: String,
    /// The test or defect to copy. Default: a short test of the chapter that the new name begins with, or a short
    /// defect.
    #[arg(long, value_name = "NAME")]
    like: Option<String>,
    /// The claim of the test, or what the device does wrong: one sentence.
    #[arg(long, value_name = "SENTENCE", default_value = "To be written.")]
    about: String,
    /// Print the names of the files instead of writing them.
    #[arg(long)]
    list: bool,
}

/// A file with its new contents.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    /// Path below the workspace.
    path: PathBuf,
    text: String,
}

/// Writes the files. For a test, also makes its golden records. Then prints the names of the files.
///
/// # Errors
///
/// Returns an error when the name is taken or invalid, when the original cannot be copied, or when the new test does
/// not run.
pub(crate) fn begin(kind: &Kind) -> anyhow::Result<()> {
    let (package, options, begun) = match kind {
        Kind::Test(options) => ("verbatim-catalog", options, test::begin(root(), options)?),
        Kind::Defect(options) => ("verbatim-device", options, defect::begin(root(), options)?),
    };
    let mut files: Vec<PathBuf> = begun.changes.iter().map(|change| change.path.clone()).collect();
    if let Kind::Test(_) = kind {
        files.extend(test::records(&options.name));
    }
    if !options.list {
        for Change { path, text } in &begun.changes {
            fs::write(root().join(path), text).with_context(|| format!("{} cannot be written", path.display()))?;
        }
        run("formatting", cargo().args(["fmt", "-p", package]))?;
        if let Kind::Test(_) = kind {
            test::record(&options.name, &begun.like)?;
        }
    }
    println!("like {}:", begun.like);
    files.iter().for_each(|file| println!("  {}", file.display()));
    Ok(())
}

/// The changes to write, and the name of the copied test or defect.
#[derive(Debug)]
struct Begun {
    like: String,
    changes: Vec<Change>,
}

impl Options {
    /// Returns the text of `--about`, if the text is a sentence without quotes, backslashes and line breaks.
    fn about(&self) -> anyhow::Result<&str> {
        if !self.about.ends_with('.') || self.about.contains(['"', '\\', '\n']) {
            bail!(
                "--about {:?} is no sentence: expected a full stop at the end and no quotes",
                self.about
            );
        }
        Ok(&self.about)
    }

    /// Returns the words of the name, or an error if the name is invalid.
    fn words(&self) -> anyhow::Result<Vec<&str>> {
        let is_word = |word: &&str| {
            let mut letters = word.bytes();
            letters.len() > 0 && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
        };
        let words: Vec<&str> = self.name.split('-').collect();
        let begins = self.name.starts_with(|letter: char| letter.is_ascii_lowercase());
        if !begins || words.len() < 2 || !words.iter().all(is_word) {
            bail!(
                "{:?} is no name: expected two or more words of a-z and 0-9, joined by hyphens, with a letter first",
                self.name
            );
        }
        Ok(words)
    }
}

/// Returns the Rust files below a directory of the workspace.
fn sources(root: &Path, directory: &str) -> anyhow::Result<Vec<Change>> {
    let mut found = Vec::new();
    let mut left = vec![root.join(directory)];
    while let Some(directory) = left.pop() {
        let entries = fs::read_dir(&directory).with_context(|| format!("{} cannot be read", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
                let path = path.strip_prefix(root)?.to_owned();
                found.push(Change { path, text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Inserts a line after the only line of a text that equals `line`.
fn insert_behind(text: &str, line: &str, new: &str) -> anyhow::Result<String> {
    let places: Vec<usize> = text.match_indices(&format!("\n{line}\n")).map(|(at, _)| at).collect();
    let [at] = places[..] else {
        bail!("expected one line \"{line}\", seen {}", places.len());
    };
    let (before, behind) = text.split_at(at + 1 + line.len() + 1);
    Ok(format!("{before}{new}\n{behind}"))
}

#[cfg(test)]
mod tests;

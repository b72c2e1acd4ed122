//! Parses a file of deviations, with errors that name the line.

use core::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use verbatim_nearest::nearest;

use super::bounds::Within;
use super::{Awaited, Deviation, Family, device, numbers_as_n};
use crate::glob::glob;

/// The reason why a file of deviations cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviationsError {
    /// The file cannot be read.
    #[error("the deviations file {} cannot be read ({what}); correct the path, or create the file", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        what: String,
    },
    /// The file has an error.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The path of the file.
        path: PathBuf,
        /// The line of the error, counted from 1.
        line: usize,
        /// The problem and the expected value.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    family: String,
    #[serde(default)]
    vendor_ids: Vec<u32>,
    #[serde(default)]
    device_ids: Vec<u32>,
    #[serde(default)]
    drivers: Vec<String>,
    versions_of: Option<VersionsOf>,
    #[serde(default)]
    deviation: Vec<Spanned<RawEntry>>,
}

/// The component whose version decides whether an entry applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionsOf {
    /// The kernel on the device's host.
    #[default]
    Kernel,
    /// The device's firmware.
    Firmware,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    id: Spanned<String>,
    statement: Spanned<String>,
    tests: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    findings: Vec<Spanned<String>>,
    outcome: Option<Awaited>,
    within: Option<Spanned<Within>>,
    #[serde(default)]
    sometimes: bool,
    endangers: Option<Spanned<String>>,
    #[serde(default)]
    device_ids: Vec<u32>,
    from: Option<Spanned<String>>,
    before: Option<Spanned<String>>,
    #[serde(default)]
    mended: Vec<Spanned<String>>,
    reason: Spanned<String>,
    source: Spanned<String>,
    expires: Spanned<String>,
}

/// A problem and its byte range in the file.
type Wrong = (Range<usize>, String);

fn wrong<T>(span: Range<usize>, what: impl Into<String>) -> Result<T, Wrong> {
    Err((span, what.into()))
}

/// The names of tests and statements that entries may refer to.
#[derive(Debug)]
pub(crate) struct Names {
    /// The ids of tests.
    pub(crate) tests: Vec<&'static str>,
    /// The ids of statements.
    pub(crate) statements: Vec<&'static str>,
}

impl Names {
    /// Checks that the entry's statement and tests exist.
    fn hold(&self, entry: &RawEntry) -> Result<(), Wrong> {
        let statement = entry.statement.get_ref().as_str();
        if !self.statements.contains(&statement) {
            let hint = hint(statement, self.statements.iter().copied());
            return wrong(
                entry.statement.span(),
                format!("no statement is called {statement:?}{hint}; `verbatim statements` lists them"),
            );
        }
        for pattern in entry.tests.get_ref() {
            if !self.tests.iter().any(|test| glob(pattern.get_ref(), test)) {
                let hint = hint(pattern.get_ref(), self.tests.iter().copied());
                return wrong(
                    pattern.span(),
                    format!(
                        "no test is called {:?}{hint}; `verbatim tests` lists them",
                        pattern.get_ref()
                    ),
                );
            }
        }
        Ok(())
    }
}

/// Reads the entries of a user's file.
pub(crate) fn read(path: &Path, names: &Names) -> Result<Vec<Deviation>, DeviationsError> {
    let text = std::fs::read_to_string(path).map_err(|error| DeviationsError::Read {
        path: path.into(),
        what: error.to_string(),
    })?;
    parse(&text, path, Some(names))
}

/// Parses the entries of a file. `names` is `None` for a built-in file, whose names a unit test checks.
pub(super) fn parse(text: &str, path: &Path, names: Option<&Names>) -> Result<Vec<Deviation>, DeviationsError> {
    entries(text, names).map_err(|(span, what)| DeviationsError::Wrong {
        path: path.into(),
        line: text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1,
        what,
    })
}

fn entries(text: &str, names: Option<&Names>) -> Result<Vec<Deviation>, Wrong> {
    let file: RawFile = toml::from_str(text).map_err(|error| in_words(&error))?;
    let family = Arc::new(Family {
        name: file.family,
        vendor_ids: file.vendor_ids,
        device_ids: file.device_ids,
        drivers: file.drivers,
        versions_of: file.versions_of.unwrap_or_default(),
        is_added: names.is_some(),
    });
    if family.name.is_empty() {
        return wrong(
            0..0,
            "\"family\" is empty; expected the devices in words, such as \"Linux rxe\"",
        );
    }
    let mut entries: Vec<Deviation> = Vec::new();
    for raw in file.deviation {
        let (header, raw) = (raw.span(), raw.into_inner());
        let id = raw.id.clone();
        let entry = entry(raw, header, &family, names)?;
        if entries.iter().any(|known| known.id == entry.id) {
            return wrong(
                id.span(),
                format!("the file has two entries {:?}; rename one of them", entry.id),
            );
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(raw: RawEntry, header: Range<usize>, family: &Arc<Family>, names: Option<&Names>) -> Result<Deviation, Wrong> {
    for (key, text) in [("id", &raw.id), ("reason", &raw.reason), ("source", &raw.source)] {
        if text.get_ref().trim().is_empty() {
            return wrong(text.span(), format!("{key:?} is empty; expected a text"));
        }
    }
    if raw.tests.get_ref().is_empty() {
        return wrong(
            raw.tests.span(),
            "\"tests\" is empty; expected ids or patterns, such as \"c09-*\"",
        );
    }
    if let Some(names) = names {
        names.hold(&raw)?;
    }
    for finding in &raw.findings {
        let as_n = numbers_as_n(finding.get_ref());
        if as_n != *finding.get_ref() {
            return wrong(
                finding.span(),
                format!("{:?} has a number; write N for each: {as_n:?}", finding.get_ref()),
            );
        }
    }
    match &raw.endangers {
        Some(endangers) if family.is_added => {
            return wrong(
                endangers.span(),
                "only the built-in families may have \"endangers\"; leave the test out of the run: `-k 'not NAME'`",
            );
        }
        Some(_) if raw.findings.is_empty() => {}
        None if !raw.findings.is_empty() => {}
        _ => {
            return wrong(
                header,
                "an entry needs \"findings\": the subjects of the checks, with N for each number",
            );
        }
    }
    if let Some(within) = raw.within.as_ref().filter(|within| within.get_ref().is_wrong()) {
        return wrong(
            within.span(),
            "\"within\" has no bounds, or no value is within them; expected, for example, { early_ms = 8 } or \
             { least = 8, most = 17 }",
        );
    }
    for version in [&raw.from, &raw.before].into_iter().flatten().chain(&raw.mended) {
        if device::version(version.get_ref()).is_none() {
            return wrong(
                version.span(),
                format!(
                    "{:?} is not a version; expected, for example, \"6.1\" or \"20.43.4100\"",
                    version.get_ref()
                ),
            );
        }
    }
    if !is_day(raw.expires.get_ref()) {
        return wrong(
            raw.expires.span(),
            format!(
                "{:?} is not a date; expected YYYY-MM-DD, for example \"2027-12-31\"",
                raw.expires.get_ref()
            ),
        );
    }
    let strings = |of: Vec<Spanned<String>>| of.into_iter().map(Spanned::into_inner).collect();
    Ok(Deviation {
        id: raw.id.into_inner(),
        statement: raw.statement.into_inner(),
        tests: strings(raw.tests.into_inner()),
        findings: strings(raw.findings),
        outcome: raw.outcome.unwrap_or_default(),
        within: raw.within.map(Spanned::into_inner),
        sometimes: raw.sometimes,
        endangers: raw.endangers.map(Spanned::into_inner),
        device_ids: raw.device_ids,
        from: raw.from.map(Spanned::into_inner),
        before: raw.before.map(Spanned::into_inner),
        mended: strings(raw.mended),
        reason: raw.reason.into_inner(),
        source: raw.source.into_inner(),
        expires: raw.expires.into_inner(),
        family: Arc::clone(family),
    })
}

/// Returns whether a text is a calendar date in the form YYYY-MM-DD.
fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let lengths = [year.len(), month.len(), day.len()] == [4, 2, 2];
    let (year, month, day) = (year.parse(), month.parse::<u8>(), day.parse());
    let date = || time::Date::from_calendar_date(year.ok()?, time::Month::try_from(month.ok()?).ok()?, day.ok()?).ok();
    lengths && date().is_some()
}

fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"))
}

/// Rewords the TOML library's error and suggests the nearest known key.
fn in_words(error: &toml::de::Error) -> Wrong {
    let message = error.message().replace('\n', "; ");
    let unknown = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.rsplit_once("`, expected "));
    let what = match unknown {
        Some((key, expected)) => {
            let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            let hint = hint(key, known.iter().copied());
            let hint = if hint.is_empty() {
                format!("; expected one of {}", known.join(", "))
            } else {
                hint
            };
            format!("unknown key {key:?}{hint}")
        }
        None => message.replacen("missing field", "missing key", 1),
    };
    (error.span().unwrap_or(0..0), what)
}

//! Known deviations of devices, as data: `deviations/*.toml` and files of users.
//!
//! Judges do not use deviations: a known FAIL stays a FAIL. If a known deviation does not appear and the test passes,
//! the report says so. A deviation has only one effect on a run: the run skips a test that would crash the device's
//! host.

mod bounds;
mod device;
mod file;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use verbatim_record::{Check, DeviationShowed, KnownDeviation, Outcome, Passed, Verdict};

pub use bounds::Within;
pub use device::{Device, Version};
pub use file::{DeviationsError, VersionsOf};
pub(crate) use file::{Names, read};

use crate::glob::glob;

/// A group of similar devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Family {
    /// The name of the group, for people.
    pub name: String,
    /// The VendorIDs; empty for any.
    pub vendor_ids: Vec<u32>,
    /// The DeviceIDs or part numbers; empty for any.
    pub device_ids: Vec<u32>,
    /// The kernel modules of the drivers; empty for any.
    pub drivers: Vec<String>,
    /// The component whose version decides whether an entry applies.
    pub versions_of: VersionsOf,
    /// Whether a user's file defines the family.
    pub is_added: bool,
}

impl Family {
    /// Returns whether a device belongs to the family. An unreported property matches only an empty list.
    fn has(&self, device: &Device) -> bool {
        is_among(&self.vendor_ids, device.vendor_id.as_ref())
            && is_among(&self.device_ids, device.device_id.as_ref())
            && is_among(&self.drivers, device.driver.as_ref())
    }
}

fn is_among<T: PartialEq>(all: &[T], one: Option<&T>) -> bool {
    all.is_empty() || one.is_some_and(|one| all.contains(one))
}

/// A known deviation of a family's devices.
#[derive(Clone, PartialEq, Debug)]
pub struct Deviation {
    /// The id of the entry.
    pub id: String,
    /// The violated statement.
    pub statement: String,
    /// The tests that detect the deviation, by id or pattern: `c09-*`.
    pub tests: Vec<String>,
    /// Patterns for the text that says what a check is about. N stands for each number, and `*` matches any text.
    pub findings: Vec<String>,
    /// The expected outcome of the tests.
    pub outcome: Awaited,
    /// The bounds of the deviation. The entry does not explain a finding outside them.
    pub within: Option<Within>,
    /// Whether the deviation appears by chance, for example only on a slow host. A passed test does not prove that such
    /// a deviation is absent.
    pub sometimes: bool,
    /// The damage that the tests may do to the device's host, as a clause: "whose kernel panics over it". The tests run
    /// only on explicit request.
    pub endangers: Option<String>,
    /// The DeviceIDs of the affected devices of the family; empty for all.
    pub device_ids: Vec<u32>,
    /// The first affected version. If absent, all versions before `before` are affected.
    pub from: Option<String>,
    /// The first version with a fix.
    pub before: Option<String>,
    /// For each stable branch, the first version with a fix: "6.1.176" belongs to the branch 6.1.
    pub mended: Vec<String>,
    /// The device's behavior and the required behavior.
    pub reason: String,
    /// The place where the deviation was observed.
    pub source: String,
    /// The last date on which the entry applies without a new observation, as YYYY-MM-DD.
    pub expires: String,
    /// The affected devices.
    pub family: Arc<Family>,
}

/// The outcome of a test that detects a deviation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Awaited {
    /// FAIL.
    #[default]
    Fail,
    /// INCONCLUSIVE.
    Inconclusive,
    /// NOT_APPLICABLE, for example if a driver refuses a command that the test needs.
    NotApplicable,
}

impl Awaited {
    const fn result(self) -> Passed {
        match self {
            Self::Fail => Passed::Fail,
            Self::Inconclusive => Passed::Inconclusive,
            // A test that does not apply has a reason, but no checks.
            Self::NotApplicable => Passed::Unspecified,
        }
    }
}

const FILES: [(&str, &str); 6] = [
    ("linux-rxe.toml", include_str!("../../deviations/linux-rxe.toml")),
    (
        "linux-rxe-old.toml",
        include_str!("../../deviations/linux-rxe-old.toml"),
    ),
    ("connectx.toml", include_str!("../../deviations/connectx.toml")),
    ("qib.toml", include_str!("../../deviations/qib.toml")),
    ("irdma.toml", include_str!("../../deviations/irdma.toml")),
    ("bnxt.toml", include_str!("../../deviations/bnxt.toml")),
];

static BUILT_IN: LazyLock<Vec<Deviation>> = LazyLock::new(|| {
    let of_file = |(name, text): (&str, &str)| {
        file::parse(text, Path::new(name), None).unwrap_or_else(|error| panic!("a built-in file: {error}"))
    };
    FILES.into_iter().flat_map(of_file).collect()
});

/// Returns all built-in deviations.
#[must_use]
pub fn deviations() -> &'static [Deviation] {
    &BUILT_IN
}

/// Returns the known deviations of a run's device that the verdicts show or should have shown. `began_ns` is the start
/// of the run in nanoseconds since 1970. An entry that expired before the start explains nothing.
pub(crate) fn known<'a>(
    entries: impl Iterator<Item = &'a Deviation>,
    (fingerprint, began_ns): (&str, u64),
    verdicts: &[Verdict],
) -> Vec<Known> {
    let device = Device::of_fingerprint(fingerprint);
    let today = date(began_ns);
    let of_device: Vec<&Deviation> = entries
        .filter(|it| it.endangers.is_none() && it.is_of(&device, false))
        .collect();
    verdicts
        .iter()
        .flat_map(|verdict| of_verdict(&of_device, verdict, &today))
        .collect()
}

impl Deviation {
    /// Describes the affected versions.
    #[must_use]
    pub fn versions(&self) -> String {
        let versions = match (&self.from, &self.before) {
            (None, None) => "any version".into(),
            (Some(from), None) => format!("since {from}"),
            (None, Some(before)) => format!("before {before}"),
            (Some(from), Some(before)) => format!("{from} until before {before}"),
        };
        match self.mended.as_slice() {
            [] => versions,
            mended => format!("{versions}, mended in {}", mended.join(" and ")),
        }
    }

    const fn has_any_version(&self) -> bool {
        self.from.is_none() && self.before.is_none() && self.mended.is_empty()
    }

    fn is_of_test(&self, test: &str) -> bool {
        self.tests.iter().any(|pattern| glob(pattern, test))
    }

    /// Returns whether the device is affected. `unknown` states whether an unreported version counts as affected.
    fn is_of(&self, device: &Device, unknown: bool) -> bool {
        let version = match self.family.versions_of {
            VersionsOf::Kernel => device.kernel,
            VersionsOf::Firmware => device.firmware,
        };
        self.family.has(device)
            && is_among(&self.device_ids, device.device_id.as_ref())
            && self.has_version(version, unknown)
    }

    fn has_version(&self, version: Option<Version>, unknown: bool) -> bool {
        let bound = |text: &Option<String>| text.as_deref().and_then(device::version);
        let (from, before) = (bound(&self.from), bound(&self.before));
        let Some(version) = version else {
            return unknown || self.has_any_version();
        };
        let mut mended = self.mended.iter().filter_map(|text| device::version(text));
        from.is_none_or(|from| from <= version)
            && before.is_none_or(|before| version < before)
            && !mended.any(|mended| mended[..2] == version[..2] && mended <= version)
    }

    fn explains(&self, check: &Check) -> bool {
        let about = numbers_as_n(&check.about);
        check.result() == self.outcome.result()
            && (check.statement == self.statement || check.statement.is_empty())
            && self.findings.iter().any(|finding| glob(finding, &about))
            && self.within.is_none_or(|within| within.holds(check))
    }
}

/// Replaces each number in a text by N.
fn numbers_as_n(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_number = false;
    for c in text.chars() {
        match (c.is_ascii_digit(), in_number) {
            (true, true) => {}
            (true, false) => out.push('N'),
            (false, _) => out.push(c),
        }
        in_number = c.is_ascii_digit();
    }
    out
}

/// Returns the deviation that makes a test dangerous for the device's host. An unreported version counts as affected.
#[must_use]
pub fn endangering(test: &str, device: &Device) -> Option<&'static Deviation> {
    deviations().iter().find(|it| {
        it.endangers.is_some()
            && it.is_of_test(test)
            // An agent without Linux verbs may report VendorID 0; its device is not rxe.
            && (device.may_be_linux || device.vendor_id != Some(0))
            && it.is_of(device, true)
    })
}

/// Whether a known deviation appeared in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Showed {
    /// The test detected the deviation. The findings are known, and stay FAIL.
    Seen,
    /// The test passed although the deviation was expected.
    NotSeen,
    /// The test detected the deviation, but the entry has expired. The entry explains nothing until someone renews it.
    Expired,
}

/// A known deviation of a run's device, and whether it appeared in one test.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Known {
    /// The test's id.
    pub test: String,
    /// The deviation's id.
    pub id: String,
    /// Whether the deviation appeared.
    pub showed: Showed,
    /// The number of the test's findings that the deviation explains.
    pub findings: usize,
    /// Whether unexpired deviations explain all failures of the test.
    pub explains_all: bool,
    /// The family and the affected versions.
    pub device: String,
    /// The violated statement.
    pub statement: String,
    /// The device's behavior.
    pub reason: String,
    /// The place where the deviation was observed.
    pub source: String,
    /// The last date on which the entry applies.
    pub expires: String,
}

impl Known {
    /// Describes the deviation in one line, with advice if the entry needs a change.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { test, id, device, .. } = self;
        match self.showed {
            Showed::Seen => format!("{test}: {id}: {}", self.reason),
            Showed::NotSeen => format!(
                "{test} passed, though {device} is known to deviate ({id}): {} If the device was fixed, narrow the \
                 versions of the entry",
                self.reason
            ),
            Showed::Expired => format!(
                "{test}: the entry {id} of {device} expired on {}, but the deviation was seen after that; check \
                 whether it still applies, then renew the entry's date",
                self.expires
            ),
        }
    }
}

/// Converts a deviation that a daemon reported.
impl From<KnownDeviation> for Known {
    fn from(told: KnownDeviation) -> Self {
        let showed = match told.showed() {
            DeviationShowed::NotSeen => Showed::NotSeen,
            DeviationShowed::Expired => Showed::Expired,
            DeviationShowed::Seen | DeviationShowed::Unspecified => Showed::Seen,
        };
        Self {
            showed,
            findings: told.findings as usize,
            test: told.test,
            id: told.id,
            explains_all: told.explains_all,
            device: told.device,
            statement: told.statement,
            reason: told.reason,
            source: told.source,
            expires: told.expires,
        }
    }
}

/// Converts a deviation for the worker and the API.
impl From<Known> for KnownDeviation {
    fn from(known: Known) -> Self {
        let showed = match known.showed {
            Showed::Seen => DeviationShowed::Seen,
            Showed::NotSeen => DeviationShowed::NotSeen,
            Showed::Expired => DeviationShowed::Expired,
        };
        Self {
            words: known.words(),
            showed: showed.into(),
            findings: u32::try_from(known.findings).unwrap_or(u32::MAX),
            test: known.test,
            id: known.id,
            explains_all: known.explains_all,
            device: known.device,
            statement: known.statement,
            reason: known.reason,
            source: known.source,
            expires: known.expires,
        }
    }
}

fn of_verdict(of_device: &[&Deviation], verdict: &Verdict, today: &str) -> Vec<Known> {
    let here: Vec<&&Deviation> = of_device.iter().filter(|it| it.is_of_test(&verdict.test)).collect();
    let holds = |it: &Deviation| it.expires.as_str() >= today;
    let open = to_explain(verdict);
    let explains_all = verdict.restored.iter().all(verbatim_record::Restored::is_complete)
        && !open.is_empty()
        && open
            .iter()
            .all(|check| here.iter().any(|it| holds(it) && it.explains(check)));
    let by_certain = |check: &Check| here.iter().any(|it| !it.sometimes && it.explains(check));
    here.iter()
        .filter_map(|it| {
            let explained = open.iter().filter(|check| it.explains(check));
            let findings = explained.filter(|check| !it.sometimes || !by_certain(check)).count();
            let showed = match verdict.outcome() {
                Outcome::Pass if it.sometimes => return None,
                Outcome::Pass => Showed::NotSeen,
                _ if findings == 0 => return None,
                _ if holds(it) => Showed::Seen,
                _ => Showed::Expired,
            };
            let of_versions = match it.versions() {
                _ if it.family.is_added && it.has_any_version() => String::new(),
                versions => format!(" {versions}"),
            };
            Some(Known {
                test: verdict.test.clone(),
                id: it.id.clone(),
                showed,
                findings,
                explains_all,
                device: format!("{}{of_versions}", it.family.name),
                statement: it.statement.clone(),
                reason: it.reason.clone(),
                source: it.source.clone(),
                expires: it.expires.clone(),
            })
        })
        .collect()
}

/// Returns the parts of a verdict that need an explanation: failures, inconclusive checks, or the reason why the test
/// does not apply.
fn to_explain(verdict: &Verdict) -> Vec<Cow<'_, Check>> {
    let result = match verdict.outcome() {
        Outcome::Fail => Passed::Fail,
        Outcome::Inconclusive => Passed::Inconclusive,
        Outcome::NotApplicable => Passed::Unspecified,
        _ => return Vec::new(),
    };
    let of_it = verdict.findings.iter().filter(|check| check.result() == result);
    let mut checks: Vec<Cow<'_, Check>> = of_it.map(Cow::Borrowed).collect();
    // An error that ended the procedure has no check, so add its reason.
    let is_told = |check: &Cow<'_, Check>| verdict.reason.starts_with(&check.to_string());
    if result != Passed::Fail && !checks.iter().any(is_told) {
        checks.push(Cow::Owned(Check {
            about: verdict.reason.clone(),
            result: result.into(),
            ..Check::default()
        }));
    }
    checks
}

/// Formats a time in nanoseconds since 1970 as a date, YYYY-MM-DD.
fn date(ns: u64) -> String {
    let days = i64::try_from(ns / 86_400_000_000_000).unwrap_or(0);
    // The Julian day of 1970-01-01.
    time::Date::from_julian_day(i32::try_from(days).unwrap_or(0) + 2_440_588)
        .map_or_else(|_| String::new(), |day| day.to_string())
}

#[cfg(test)]
mod tests;

//! Known deviations: what devices of a family are known to do wrong, as data (`deviations/*.toml`).
//!
//! A judge knows nothing of this: a FAIL that is known stays FAIL, and what was known and did not show is a PASS that is said
//! aloud. The one thing that a deviation changes is whether a test is tried that would take the device's host down.

mod device;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use verbatim_record::{Check, DeviationShowed, KnownDeviation, Outcome, Passed, Verdict};

pub use device::{Device, Version};

use crate::glob::glob;

/// What devices of a family do wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Names it.
    pub id: String,
    /// The statement that is broken.
    pub statement: String,
    /// The tests that show it, by id or pattern: `c09-*`.
    pub tests: Vec<String>,
    /// What the checks that fail are about, with N for each number.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Whether chance decides if it shows (how late a host is): then a test that passes tells nothing about it.
    #[serde(default)]
    pub sometimes: bool,
    /// Why a test that shows it may take down the host: "whose kernel panics over it". Such a test is tried on demand alone.
    pub endangers: Option<String>,
    /// The first version that has it; without one all that are before `before`.
    pub from: Option<String>,
    /// The first version that has it no longer.
    pub before: Option<String>,
    /// What the device does, and what it was to do.
    pub reason: String,
    /// Where that was seen.
    pub source: String,
    /// Until when this is believed without being looked at again, as YYYY-MM-DD.
    pub expires: String,
    /// The family.
    #[serde(skip)]
    pub family: String,
    /// VendorIDs of the family.
    #[serde(skip)]
    pub vendor_ids: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    family: String,
    vendor_ids: Vec<u32>,
    deviation: Vec<Deviation>,
}

const FILES: [&str; 3] = [
    include_str!("../../deviations/linux-rxe.toml"),
    include_str!("../../deviations/linux-rxe-old.toml"),
    include_str!("../../deviations/qib.toml"),
];

static DEVIATIONS: LazyLock<Vec<Deviation>> = LazyLock::new(|| {
    let of_file = |text| {
        let file: File = toml::from_str(text).expect("deviations/*.toml are checked by a test");
        let (family, vendor_ids) = (file.family, file.vendor_ids);
        file.deviation.into_iter().map(move |deviation| Deviation {
            family: family.clone(),
            vendor_ids: vendor_ids.clone(),
            ..deviation
        })
    };
    FILES.into_iter().flat_map(of_file).collect()
});

/// All that are known.
#[must_use]
pub fn deviations() -> &'static [Deviation] {
    &DEVIATIONS
}

impl Deviation {
    /// The versions in words.
    #[must_use]
    pub fn versions(&self) -> String {
        match (&self.from, &self.before) {
            (None, None) => "any version".into(),
            (Some(from), None) => format!("since {from}"),
            (None, Some(before)) => format!("before {before}"),
            (Some(from), Some(before)) => format!("{from} until before {before}"),
        }
    }

    fn is_of_test(&self, test: &str) -> bool {
        self.tests.iter().any(|pattern| glob(pattern, test))
    }

    /// Whether a version is one that has it; of one that is not known, `unknown` tells.
    fn has_version(&self, version: Option<Version>, unknown: bool) -> bool {
        let bound = |text: &Option<String>| text.as_deref().and_then(device::version);
        let (from, before) = (bound(&self.from), bound(&self.before));
        match version {
            _ if from.is_none() && before.is_none() => true,
            None => unknown,
            Some(version) => from.is_none_or(|from| from <= version) && before.is_none_or(|before| version < before),
        }
    }

    fn explains(&self, check: &Check) -> bool {
        let about = numbers_as_n(&check.about);
        check.result() == Passed::Fail && check.statement == self.statement && self.findings.contains(&about)
    }
}

/// Text with N for each number in it.
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

/// What would take down the host of this very device, were that test tried. Of a version that is not known the worst is thought.
#[must_use]
pub fn endangering(test: &str, device: &Device) -> Option<&'static Deviation> {
    deviations().iter().find(|it| {
        it.endangers.is_some()
            && it.is_of_test(test)
            && it.vendor_ids.contains(&device.vendor_id)
            // No vendor's number tells of rxe only where nothing else tells that it is another.
            && (device.may_be_linux || device.vendor_id != 0)
            && it.has_version(device.kernel, true)
    })
}

/// What a deviation that is known came to in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Showed {
    /// As expected: these findings are known. They stay FAIL.
    Seen,
    /// It was expected, and the test passed.
    NotSeen,
    /// It was seen, but the entry has expired: nothing is known until somebody looks again.
    Expired,
}

/// A deviation that is known of the device of a run, and what it came to in one test.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Known {
    /// The test.
    pub test: String,
    /// The deviation.
    pub id: String,
    /// What it came to.
    pub showed: Showed,
    /// How many findings of the test it explains.
    pub findings: usize,
    /// Whether all that failed in the test is explained by this and other deviations that have not expired.
    pub explains_all: bool,
    /// The family, and the versions that have it.
    pub device: String,
    /// The statement that is broken.
    pub statement: String,
    /// What the device does.
    pub reason: String,
    /// Where that was seen.
    pub source: String,
    /// Until when that is believed.
    pub expires: String,
}

impl Known {
    /// In a line, with what to do where something is to be done.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { test, id, device, .. } = self;
        match self.showed {
            Showed::Seen => format!("{test}: {id}: {}", self.reason),
            Showed::NotSeen => format!(
                "{test} passed, though {device} is known to deviate ({id}): {} If it was mended, narrow the entry's versions",
                self.reason
            ),
            Showed::Expired => format!(
                "{test}: {id} of {device} is believed until {} only, and was seen after that: look whether it is still so, then \
                 set the entry's date anew",
                self.expires
            ),
        }
    }
}

/// As worker and API tell it.
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

/// What is known of the device of a run, by its fingerprint, and what of that its verdicts show. `began_ns` is the run's start in
/// nanoseconds since 1970: an entry that had expired by then explains nothing.
#[must_use]
pub fn known(fingerprint: &str, began_ns: u64, verdicts: &[Verdict]) -> Vec<Known> {
    let Some(device) = Device::of_fingerprint(fingerprint) else {
        return Vec::new();
    };
    let today = date(began_ns);
    let of_device: Vec<&Deviation> = deviations()
        .iter()
        .filter(|it| it.endangers.is_none() && it.vendor_ids.contains(&device.vendor_id))
        .filter(|it| it.has_version(device.kernel, false))
        .collect();
    verdicts
        .iter()
        .flat_map(|verdict| of_verdict(&of_device, verdict, &today))
        .collect()
}

fn of_verdict(of_device: &[&Deviation], verdict: &Verdict, today: &str) -> Vec<Known> {
    let here: Vec<&&Deviation> = of_device.iter().filter(|it| it.is_of_test(&verdict.test)).collect();
    let holds = |it: &Deviation| it.expires.as_str() >= today;
    let failed = || verdict.findings.iter().filter(|check| check.result() == Passed::Fail);
    let explains_all = verdict.outcome() == Outcome::Fail
        && verdict.restored.iter().all(verbatim_record::Restored::is_complete)
        && failed().next().is_some()
        && failed().all(|check| here.iter().any(|it| holds(it) && it.explains(check)));
    let by_certain = |check: &Check| here.iter().any(|it| !it.sometimes && it.explains(check));
    here.iter()
        .filter_map(|it| {
            let explained = failed().filter(|check| it.explains(check));
            let findings = explained.filter(|check| !it.sometimes || !by_certain(check)).count();
            let showed = match verdict.outcome() {
                Outcome::Pass if it.sometimes => return None,
                Outcome::Pass => Showed::NotSeen,
                _ if findings == 0 => return None,
                _ if holds(it) => Showed::Seen,
                _ => Showed::Expired,
            };
            Some(Known {
                test: verdict.test.clone(),
                id: it.id.clone(),
                showed,
                findings,
                explains_all,
                device: format!("{} {}", it.family, it.versions()),
                statement: it.statement.clone(),
                reason: it.reason.clone(),
                source: it.source.clone(),
                expires: it.expires.clone(),
            })
        })
        .collect()
}

/// The day, as YYYY-MM-DD.
fn date(ns: u64) -> String {
    let days = i64::try_from(ns / 86_400_000_000_000).unwrap_or(0);
    // 1970-01-01 as a Julian day.
    time::Date::from_julian_day(i32::try_from(days).unwrap_or(0) + 2_440_588)
        .map_or_else(|_| String::new(), |day| day.to_string())
}

#[cfg(test)]
mod tests;

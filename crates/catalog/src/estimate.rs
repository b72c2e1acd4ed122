//! The duration of each test on a rig in real time, and the selections `quick` and `standard` that follow from it.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use verbatim_tester::Test;

use crate::chapters::TESTS;

/// The duration in seconds of a test that `estimates.toml` does not list.
const SHORT_S: u32 = 1;

/// The longest duration of a test of `quick`, in seconds: of tests of management, and of other tests. The limit for
/// management is higher, because there are fewer of these tests.
const QUICK_S: (u32, u32) = (6, 4);

/// The longest duration of a test of `standard`, in seconds: of tests of management, and of other tests.
const STANDARD_S: (u32, u32) = (60, 130);

static LONGER_S: LazyLock<BTreeMap<String, u32>> =
    LazyLock::new(|| toml::from_str(include_str!("../estimates.toml")).expect("estimates.toml is checked by a test"));

/// Returns the estimated duration of a test on a rig in real time, of any kind that [can run](runs_on) the test. Nearly
/// all the time is spent in waits. The specification and the default timeouts of a device determine their lengths. A
/// virtual rig needs far less time, because its time is simulated.
#[must_use]
pub fn estimate(id: &str) -> Duration {
    Duration::from_secs(seconds(id).into())
}

/// Returns whether rigs of a kind can run a test.
#[must_use]
pub fn runs_on(id: &str, kind: &str) -> bool {
    let test = TESTS.iter().find(|test| test.id == id);
    test.is_some_and(|test| test.needs.iter().all(|need| need.kinds().contains(&kind)))
}

fn seconds(id: &str) -> u32 {
    LONGER_S.get(id).copied().unwrap_or(SHORT_S)
}

/// A selection by duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The short tests: under two minutes on a rig with hardware.
    Quick,
    /// All tests but the longest.
    Standard,
    /// All tests.
    Full,
}

impl Extent {
    /// The name of the selection of a run without patterns on a rig in real time.
    pub const BY_DEFAULT: &'static str = "standard";

    /// The names of the selections, the shortest first.
    pub const NAMES: [&'static str; 3] = ["quick", Self::BY_DEFAULT, "full"];

    /// Returns the selection with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "quick" => Some(Self::Quick),
            Self::BY_DEFAULT => Some(Self::Standard),
            "full" => Some(Self::Full),
            _ => None,
        }
    }

    /// Returns whether the selection contains a test.
    #[must_use]
    pub fn has(self, test: &Test) -> bool {
        match self {
            Self::Quick if test.is_of_management() => seconds(test.id) <= QUICK_S.0,
            Self::Quick => seconds(test.id) <= QUICK_S.1,
            Self::Standard if test.is_of_management() => seconds(test.id) <= STANDARD_S.0,
            Self::Standard => seconds(test.id) <= STANDARD_S.1,
            Self::Full => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the duration in seconds of those of these tests that a kind of rig can run.
    fn total_s<'a>(tests: impl Iterator<Item = &'a &'static Test>, kind: &str) -> u32 {
        tests
            .filter(|test| runs_on(test.id, kind))
            .map(|test| seconds(test.id))
            .sum()
    }

    #[test]
    fn selections_keep_to_their_time() {
        for kind in ["model", "umad", "packet", "verbs"] {
            let quick = total_s(TESTS.iter().filter(|test| Extent::Quick.has(test)), kind);
            assert!(quick < 120, "{kind}: {quick} s");
        }
        let of_management = TESTS.iter().filter(|test| test.is_of_management());
        let standard = total_s(of_management.filter(|test| Extent::Standard.has(test)), "umad");
        assert!(standard < 600, "{standard} s");
    }

    #[test]
    fn estimates_are_of_tests() {
        for (id, seconds) in LONGER_S.iter() {
            assert!(TESTS.iter().any(|test| test.id == id) && *seconds > SHORT_S, "{id}");
        }
    }
}

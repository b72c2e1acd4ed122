//! The duration of each test on a rig in real time, and the selections `quick` and `standard` that follow from it.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use verbatim_tester::Test;

/// The duration of a test that `estimates.toml` does not list.
const SHORT_S: u32 = 1;

/// The longest tests of `quick`: those of management, and others. There are fewer tests of management.
const QUICK_S: (u32, u32) = (6, 4);

/// The longest tests of `standard`.
const STANDARD_S: u32 = 130;

static LONGER_S: LazyLock<BTreeMap<String, u32>> =
    LazyLock::new(|| toml::from_str(include_str!("../estimates.toml")).expect("estimates.toml is checked by a test"));

/// Returns how long a test lasts on a rig in real time. The kind of the rig makes no difference: nearly all the time is
/// spent in waits whose lengths the specification and the default timeouts of a device determine. A virtual rig needs
/// far less, because its time is simulated.
#[must_use]
pub fn estimate(id: &str) -> Duration {
    Duration::from_secs(seconds(id).into())
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
            Self::Standard => seconds(test.id) <= STANDARD_S,
            Self::Full => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TESTS;

    /// Returns the duration of these tests on a kind of rig.
    fn total_s<'a>(tests: impl Iterator<Item = &'a &'static Test>, kind: &str) -> u32 {
        let can = |test: &&&Test| test.needs.iter().all(|need| need.kinds().contains(&kind));
        tests.filter(can).map(|test| seconds(test.id)).sum()
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

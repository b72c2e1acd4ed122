//! Ids of runs.

use core::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// The id of a run: its creation time and a serial number. Sorting ids as text sorts them by creation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// Returns the id of a run created at that time, in nanoseconds since 1970.
    #[must_use]
    pub fn new(created_ns: u64, serial: u16) -> Self {
        Self(format!("{:012x}-{serial:04x}", created_ns / 1_000_000))
    }

    /// Returns the id of a run created now, by a process that creates only this run.
    #[must_use]
    pub fn of_now() -> Self {
        Self::new(now_ns(), 0)
    }

    /// Returns the creation time in milliseconds since 1970, and the serial number.
    #[must_use]
    pub fn number(&self) -> (u64, u16) {
        // The constructor and the parser guarantee two hexadecimal numbers.
        let (ms, serial) = self.0.split_once('-').unwrap_or_default();
        let ms = u64::from_str_radix(ms, 16).unwrap_or_default();
        (ms, u16::from_str_radix(serial, 16).unwrap_or_default())
    }

    /// Returns the text, such as `019a3c5e77d1-0000`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = String;

    /// Parses the text that [`RunId::new`] makes. Refuses any other text, because file names contain the id.
    fn from_str(text: &str) -> Result<Self, String> {
        let hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        match text.split_once('-') {
            Some((time, serial)) if hex(time, 12) && hex(serial, 4) => Ok(Self(text.into())),
            _ => Err(format!(
                "{text:?} is not a run id: expected 12 hexadecimal digits, \"-\" and 4 more, such as 019a3c5e77d1-0000"
            )),
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

/// Returns the nanoseconds since 1970.
#[must_use]
pub fn now_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_parse_strictly() {
        let early = RunId::new(1_763_654_400_000_000_000, 3);
        let late = RunId::new(1_763_654_400_001_000_000, 0);
        assert!(early < late);
        assert_eq!(early.as_str().parse(), Ok(early.clone()));
        assert_eq!(early.number(), (1_763_654_400_000, 3));
        for wrong in [
            "",
            "..",
            "a",
            "019a3c5e77d1-000",
            "019a3c5e77d1/0000",
            "019A3c5e77d1-0000",
            "019a3c5e77d1-00000",
        ] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
    }
}

//! Timestamps of captured packets.

use core::fmt;

const NANOS: u32 = 1_000_000_000;

/// A timestamp: seconds and nanoseconds since the beginning of 1970, or since the start of the capture's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CaptureTime {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl CaptureTime {
    /// Makes a time from seconds and a fraction in units of `1 / per_second` s. The fraction may exceed one second.
    pub(super) fn of_parts(seconds: u32, fraction: u32, per_second: u32) -> Self {
        Self {
            seconds: i64::from(seconds) + i64::from(fraction / per_second),
            nanoseconds: fraction % per_second * (NANOS / per_second),
        }
    }

    /// Returns the nanoseconds from `earlier` to this time, negative if this time is before `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> i128 {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        seconds * i128::from(NANOS) + i128::from(self.nanoseconds) - i128::from(earlier.nanoseconds)
    }
}

impl fmt::Display for CaptureTime {
    /// Writes seconds with nine decimal places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.seconds >= 0 || self.nanoseconds == 0 {
            return write!(f, "{}.{:09}", self.seconds, self.nanoseconds);
        }
        write!(f, "-{}.{:09}", -(self.seconds + 1), NANOS - self.nanoseconds)
    }
}

/// The resolution and the offset of a pcapng interface's timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Clock {
    /// if_tsresol: bits 0-6 are a negative exponent. The base is 2 if bit 7 is set, otherwise 10.
    pub(super) resolution: u8,
    /// if_tsoffset, in seconds.
    pub(super) offset: i64,
}

impl Default for Clock {
    /// Microseconds since 1970.
    fn default() -> Self {
        Self {
            resolution: 6,
            offset: 0,
        }
    }
}

impl Clock {
    pub(super) fn time(self, units: u64) -> CaptureTime {
        let exponent = u32::from(self.resolution & 0x7F);
        let (seconds, nanoseconds) = if self.resolution & 0x80 != 0 {
            of_binary(units, exponent)
        } else {
            of_decimal(units, exponent)
        };
        CaptureTime {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX).saturating_add(self.offset),
            // Both conversions return less than 10^9 nanoseconds.
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        }
    }
}

/// Converts units of 10^-exponent s to seconds and nanoseconds.
fn of_decimal(units: u64, exponent: u32) -> (u64, u128) {
    let Some(per_second) = 10_u64.checked_pow(exponent) else {
        // A second has more of these units than a u64 can hold, so `units` is less than one second.
        let finer = exponent - 9;
        let nanoseconds = 10_u128.checked_pow(finer).map_or(0, |unit| u128::from(units) / unit);
        return (0, nanoseconds % u128::from(NANOS));
    };
    let rest = u128::from(units % per_second);
    (units / per_second, rest * u128::from(NANOS) / u128::from(per_second))
}

/// Converts units of 2^-exponent s to seconds and nanoseconds.
fn of_binary(units: u64, exponent: u32) -> (u64, u128) {
    let seconds = units.checked_shr(exponent).unwrap_or(0);
    let rest = if exponent < 64 {
        units & ((1 << exponent) - 1)
    } else {
        units
    };
    (seconds, (u128::from(rest) * u128::from(NANOS)) >> exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(resolution: u8, units: u64) -> String {
        Clock { resolution, offset: 0 }.time(units).to_string()
    }

    #[test]
    fn converts_every_resolution() {
        assert_eq!(at(0, 7), "7.000000000");
        assert_eq!(at(3, 1_234), "1.234000000");
        assert_eq!(at(6, 1_000_001), "1.000001000");
        assert_eq!(at(9, 1_000_000_001), "1.000000001");
        assert_eq!(at(12, 1_000_000_001_999), "1.000000001");
        assert_eq!(at(19, u64::MAX), "1.844674407");
        assert_eq!(at(20, u64::MAX), "0.184467440");
        assert_eq!(at(127, u64::MAX), "0.000000000");
        assert_eq!(at(0x80, 7), "7.000000000");
        assert_eq!(at(0x80 | 20, (1 << 20) * 3 / 2), "1.500000000");
        assert_eq!(at(0x80 | 63, u64::MAX), "1.999999999");
        assert_eq!(at(0x80 | 64, u64::MAX), "0.999999999");
        assert_eq!(at(0xFF, u64::MAX), "0.000000000");
        assert_eq!(at(0, u64::MAX), format!("{}.000000000", i64::MAX));
    }

    #[test]
    fn offset_shifts_the_epoch() {
        let clock = |offset| Clock { resolution: 9, offset };
        assert_eq!(clock(-2).time(500_000_000).to_string(), "-1.500000000");
        assert_eq!(clock(100).time(1).to_string(), "100.000000001");
        assert_eq!(clock(i64::MAX).time(u64::MAX).seconds, i64::MAX);
        assert_eq!(clock(i64::MIN).time(1).to_string(), "-9223372036854775807.999999999");
    }

    #[test]
    fn time_differences_are_signed() {
        let early = CaptureTime::of_parts(1, 999_999, 1_000_000);
        let late = CaptureTime::of_parts(2, 1, 1_000_000);
        assert_eq!(late.since(early), 2_000);
        assert_eq!(early.since(late), -2_000);
        assert_eq!(
            CaptureTime::of_parts(1, 2_500_000, 1_000_000).to_string(),
            "3.500000000"
        );
    }
}

//! When a packet was seen, as the capture has it.

use core::fmt;

const NANOS: u32 = 1_000_000_000;

/// An instant: seconds since the beginning of 1970 and nanoseconds, or since whenever the capture's clock began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CaptureTime {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// 0..1,000,000,000.
    pub nanoseconds: u32,
}

impl CaptureTime {
    /// Seconds and a part of a second in units of `1 / per_second`, which may be more than a second.
    pub(super) fn of_parts(seconds: u32, fraction: u32, per_second: u32) -> Self {
        Self {
            seconds: i64::from(seconds) + i64::from(fraction / per_second),
            nanoseconds: fraction % per_second * (NANOS / per_second),
        }
    }

    /// Nanoseconds from `earlier` to this; less than 0 when this is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> i128 {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        seconds * i128::from(NANOS) + i128::from(self.nanoseconds) - i128::from(earlier.nanoseconds)
    }
}

impl fmt::Display for CaptureTime {
    /// Seconds with nine digits behind the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.seconds >= 0 || self.nanoseconds == 0 {
            return write!(f, "{}.{:09}", self.seconds, self.nanoseconds);
        }
        write!(f, "-{}.{:09}", -(self.seconds + 1), NANOS - self.nanoseconds)
    }
}

/// What a unit of a pcapng interface's timestamps is, and what they begin at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Clock {
    /// if_tsresol: bit 7 says power of 2, else of 10; the rest is the negative exponent.
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
            // Less than a second by both reckonings.
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        }
    }
}

/// Seconds and nanoseconds of units of 10^-exponent s.
fn of_decimal(units: u64, exponent: u32) -> (u64, u128) {
    let Some(per_second) = 10_u64.checked_pow(exponent) else {
        // Finer than a u64 can count: all of it is less than a second.
        let finer = exponent - 9;
        let nanoseconds = 10_u128.checked_pow(finer).map_or(0, |unit| u128::from(units) / unit);
        return (0, nanoseconds % u128::from(NANOS));
    };
    let rest = u128::from(units % per_second);
    (units / per_second, rest * u128::from(NANOS) / u128::from(per_second))
}

/// Seconds and nanoseconds of units of 2^-exponent s.
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
    fn units_of_every_resolution_become_nanoseconds() {
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
    fn an_offset_moves_the_beginning_either_way() {
        let clock = |offset| Clock { resolution: 9, offset };
        assert_eq!(clock(-2).time(500_000_000).to_string(), "-1.500000000");
        assert_eq!(clock(100).time(1).to_string(), "100.000000001");
        assert_eq!(clock(i64::MAX).time(u64::MAX).seconds, i64::MAX);
        assert_eq!(clock(i64::MIN).time(1).to_string(), "-9223372036854775807.999999999");
    }

    #[test]
    fn times_apart_are_signed() {
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

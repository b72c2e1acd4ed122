//! Codes of an acknowledgement: RNR timer, ACK timeout, credits, and the syndrome.
//!
//! Source: architecture 9.7.5 (acknowledgements, AETH), 9.7.6 (the transport timer); `rxe_hdr.h` of Linux.

use core::fmt;
use core::time::Duration;

use crate::value::{named, newtype};
use crate::values::{doubled, time_words};

/// The bits of the code in a syndrome.
const CODE_MASK: u8 = 0x1F;

newtype!(
    /// The minimum time that a requester waits after an RNR NAK: 5 bits. Code 0 is the longest time. From code 1
    /// on, a higher code is a longer time.
    RnrTimer(u8) legal |bits| bits <= CODE_MASK
);
newtype!(
    /// A QP's local ACK timeout: 4.096 us * 2^code. 5 bits; 0 disables the timer.
    AckTimeout(u8) legal |bits| bits <= CODE_MASK
);
newtype!(
    /// The number of further requests that a responder can accept: 5 bits; 31 sets no limit.
    CreditCode(u8) legal |bits| bits <= CODE_MASK
);

/// The RNR times by code, in units of 10 us.
const RNR_TIMES: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// The shortest time: 0.01 ms.
    pub const SHORTEST: Self = Self(1);
    /// The longest time: 655.36 ms.
    pub const LONGEST: Self = Self(0);

    /// Returns the time of the code in the low 5 bits.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_micros(10 * RNR_TIMES[usize::from(self.0 & CODE_MASK)])
    }
}

impl fmt::Display for RnrTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.duration().as_secs_f64() * 1e3;
        write!(f, "code {} = {milliseconds:.2} ms", self.0)
    }
}

impl AckTimeout {
    /// The code that disables the timer.
    pub const OFF: Self = Self(0);

    /// Returns the timeout, or `None` if the timer is disabled. Codes above 31 count as 31.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        (self.0 != 0).then(|| doubled(self.0))
    }
}

impl fmt::Display for AckTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::OFF {
            return f.write_str("off");
        }
        f.write_str("code ")?;
        time_words(self.0, f)
    }
}

impl CreditCode {
    /// No limit: the responder does not count credits.
    pub const UNLIMITED: Self = Self(CODE_MASK);

    /// Returns the number of credits by the low 5 bits, or `None` if there is no limit.
    #[must_use]
    pub fn credits(self) -> Option<u32> {
        match self.0 & CODE_MASK {
            CODE_MASK => None,
            code @ 0..2 => Some(code.into()),
            even if even % 2 == 0 => Some(1 << (even / 2)),
            odd => Some(3 << (odd / 2 - 1)),
        }
    }
}

impl fmt::Display for CreditCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.credits() {
            None => f.write_str("no credit limit"),
            Some(1) => f.write_str("1 credit"),
            Some(credits) => write!(f, "{credits} credits"),
        }
    }
}

named!(
    /// The reason for which a responder rejects a request.
    NakCode(u8, 4) {
        0 PSN_SEQUENCE_ERROR "PSN sequence error", 1 INVALID_REQUEST "invalid request",
        2 REMOTE_ACCESS "remote access error", 3 REMOTE_OPERATIONAL "remote operational error",
        4 INVALID_RD_REQUEST "invalid RD request",
    }
);

newtype!(
    /// AETH:Syndrome: the upper 3 bits are the kind of response, the lower 5 bits are a code of this kind.
    Syndrome(u8) legal |bits| match Self(bits).kind() {
        SyndromeKind::Ack(_) | SyndromeKind::RnrNak(_) => true,
        SyndromeKind::Nak(code) => code.is_legal(),
        SyndromeKind::Reserved(_) => false,
    }
);

/// The kind and code of a syndrome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyndromeKind {
    /// The responder accepted the request.
    Ack(CreditCode),
    /// The responder is not ready. The requester retries after the time of the timer.
    RnrNak(RnrTimer),
    /// The responder rejected the request. The code may be a reserved one.
    Nak(NakCode),
    /// A reserved kind, with all 8 bits of the syndrome.
    Reserved(u8),
}

impl Syndrome {
    /// An ACK without a credit limit.
    pub const ACK: Self = Self::ack(CreditCode::UNLIMITED);

    /// Returns an ACK syndrome with the given credits.
    #[must_use]
    pub const fn ack(credits: CreditCode) -> Self {
        Self(credits.0 & CODE_MASK)
    }

    /// Returns a receiver-not-ready NAK syndrome with the given timer.
    #[must_use]
    pub const fn rnr_nak(timer: RnrTimer) -> Self {
        Self(0x20 | timer.0 & CODE_MASK)
    }

    /// Returns a NAK syndrome with the given code.
    #[must_use]
    pub const fn nak(code: NakCode) -> Self {
        Self(0x60 | code.0 & CODE_MASK)
    }

    /// Returns the kind and code.
    #[must_use]
    pub fn kind(self) -> SyndromeKind {
        let code = self.0 & CODE_MASK;
        match self.0 >> 5 {
            0 => SyndromeKind::Ack(CreditCode(code)),
            1 => SyndromeKind::RnrNak(RnrTimer(code)),
            3 => SyndromeKind::Nak(NakCode(code)),
            _ => SyndromeKind::Reserved(self.0),
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            SyndromeKind::Ack(credits) => write!(f, "ACK, {credits}"),
            SyndromeKind::RnrNak(timer) => write!(f, "RNR NAK {timer}"),
            SyndromeKind::Nak(code) => match code.name() {
                Some(name) => write!(f, "NAK {:#04x} {name}", self.0),
                None => write!(f, "NAK {:#04x} (reserved)", self.0),
            },
            SyndromeKind::Reserved(bits) => write!(f, "{bits:#04x} (reserved)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn rnr_timer_doubles_every_two_codes() {
        assert_eq!(RnrTimer(0).duration(), Duration::from_micros(655_360));
        assert_eq!(RnrTimer(1).duration(), Duration::from_micros(10));
        assert_eq!(RnrTimer(31).duration(), Duration::from_micros(491_520));
        for code in 1..32 {
            assert!(RnrTimer(code).duration() < RnrTimer::LONGEST.duration());
            assert!(RnrTimer(code).duration() >= RnrTimer::SHORTEST.duration());
        }
        for code in 2..30 {
            // From code 2 on, an increase of the code by 2 doubles the time.
            assert_eq!(
                RnrTimer(code + 2).duration(),
                2 * RnrTimer(code).duration(),
                "code {code}"
            );
        }
        assert_eq!(RnrTimer(33).duration(), RnrTimer(1).duration(), "5 bits count");
    }

    #[test]
    fn ack_timeout_doubles_and_0_is_off() {
        assert_eq!(AckTimeout(0).duration(), None);
        assert_eq!(AckTimeout(1).duration(), Some(Duration::from_nanos(8192)));
        assert_eq!(AckTimeout(31).duration().unwrap().as_secs(), 8796);
        assert_eq!(AckTimeout(0).to_string(), "off");
        assert_eq!(AckTimeout(14).to_string(), "code 14 = 67.1 ms");
    }

    #[test]
    fn credits_double_every_two_codes() {
        let credits: Vec<_> = (0..=8).map(|code| CreditCode(code).credits().unwrap()).collect();
        assert_eq!(credits, [0, 1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(CreditCode(29).credits(), Some(24_576));
        assert_eq!(CreditCode(30).credits(), Some(32_768));
        assert_eq!(CreditCode::UNLIMITED.credits(), None);
    }

    #[test]
    fn syndrome_prints_its_kind() {
        assert_eq!(Syndrome::ACK.to_string(), "ACK, no credit limit");
        assert_eq!(Syndrome::ack(CreditCode(1)).to_string(), "ACK, 1 credit");
        assert_eq!(Syndrome(0x3F).to_string(), "RNR NAK code 31 = 491.52 ms");
        assert_eq!(Syndrome(0x62).to_string(), "NAK 0x62 remote access error");
        assert_eq!(Syndrome(0x65).to_string(), "NAK 0x65 (reserved)");
        assert_eq!(Syndrome(0x40).to_string(), "0x40 (reserved)");
        assert!(!Syndrome(0x65).is_legal() && !Syndrome(0x5F).is_legal() && !Syndrome(0x80).is_legal());
    }

    #[test]
    fn syndrome_round_trips_through_kind() {
        for bits in 0..=255 {
            let again = match Syndrome(bits).kind() {
                SyndromeKind::Ack(credits) => Syndrome::ack(credits),
                SyndromeKind::RnrNak(timer) => Syndrome::rnr_nak(timer),
                SyndromeKind::Nak(code) => Syndrome::nak(code),
                SyndromeKind::Reserved(bits) => Syndrome(bits),
            };
            assert_eq!(again, Syndrome(bits));
        }
    }

    #[test]
    fn oversized_code_keeps_syndrome_kind() {
        assert_eq!(Syndrome::ack(CreditCode(0x7F)), Syndrome::ACK);
        assert_eq!(Syndrome::rnr_nak(RnrTimer(0xFF)), Syndrome(0x3F));
        assert_eq!(Syndrome::nak(NakCode(0xE2)), Syndrome(0x62));
    }
}

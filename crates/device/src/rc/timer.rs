//! Retry timers of real adapters, from published measurements.
//!
//! ConnectX-6: unionxic/rdma-fault-characterization, harness/ack_timeout, results of 2026-09-25 (firmware 20.43.4100,
//! 152 trials). By default, the adapter first retransmits on an early schedule, which consumes one retry in total. Then
//! the timer runs twice the nominal timeout, with a minimum code of 16. With ROCE_ACCL `min_ack_timeout_limit_disabled`
//! the timer runs the nominal timeout, after a first period without a retransmission.

use core::time::Duration;

use verbatim_wire::AckTimeout;

use super::qp::{Context, Qp};

/// The behaviour of an adapter's retry timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryTimer {
    /// The timer runs as `timeout_quarters` specifies.
    #[default]
    Plain,
    /// ConnectX-6 with default settings.
    ConnectX6,
    /// ConnectX-6 with `min_ack_timeout_limit_disabled`.
    ConnectX6Conforming,
}

/// Minimum code of the ACK timeout of a ConnectX-6.
const FLOOR: u8 = 16;
/// Times of the early retransmissions, in microseconds after the request. The first retransmission is at one of the
/// first four times.
const EARLY: [u64; 11] = [
    12_500, 20_900, 37_600, 71_400, 138_400, 239_000, 440_400, 977_300, 1_782_500, 3_930_300, 8_225_100,
];
/// Tolerance for the end of the early schedule. The schedule ends before an interval that exceeds the nominal
/// timeout by more than this value.
const SLACK: Duration = Duration::from_micros(500);
/// Number of retransmissions with retry_cnt 0.
const WITHOUT_RETRIES: u32 = 7;
/// Extra time of the first timeout of a ConnectX-6 without the minimum code, in percent of the timeout. The index is
/// the queue pair number modulo 4.
const SILENT_PERCENT: [u32; 4] = [51, 75, 96, 116];

/// The effect on a request when its timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fires {
    /// The requester resends the request without consuming a retry.
    Free,
    /// The requester consumes a retry and resends the request. With `fails_with_last`, consuming the last retry fails
    /// the request.
    Spends { fails_with_last: bool },
}

fn at(index: usize) -> Duration {
    Duration::from_micros(EARLY[index])
}

/// Returns the index of the last early retransmission.
fn last_early(first: usize, nominal: Duration) -> usize {
    let goes_on = |index: &usize| at(*index) - at(index - 1) <= nominal + SLACK;
    first + (first + 1..EARLY.len()).take_while(goes_on).count()
}

impl RetryTimer {
    /// Returns the duration of the timer after `fired` expiries since the last progress, or `None` for the plain timer.
    pub(crate) fn runs(self, code: AckTimeout, fired: u32, qpn: u32) -> Option<Duration> {
        let first = qpn as usize % 4;
        match self {
            Self::Plain => None,
            Self::ConnectX6 => {
                let nominal = AckTimeout(code.0.max(FLOOR)).duration()?;
                let last = last_early(first, nominal);
                let index = first + fired as usize;
                Some(match index {
                    _ if fired == 0 => at(first),
                    _ if index <= last => at(index) - at(index - 1),
                    _ if index == last + 1 && index < EARLY.len() => (at(index) - at(index - 1)).min(2 * nominal),
                    _ => 2 * nominal,
                })
            }
            Self::ConnectX6Conforming => {
                let nominal = code.duration()?;
                let silent = if fired == 0 {
                    nominal * SILENT_PERCENT[first] / 100
                } else {
                    Duration::ZERO
                };
                Some(nominal + silent)
            }
        }
    }

    /// Returns the effect of the next expiry after `fired` expiries since the last progress.
    pub(crate) fn fires(self, code: AckTimeout, (fired, retry_cnt): (u32, u8), qpn: u32) -> Fires {
        let plain = Fires::Spends { fails_with_last: false };
        let Some(nominal) = AckTimeout(code.0.max(FLOOR))
            .duration()
            .filter(|_| self == Self::ConnectX6)
        else {
            return plain;
        };
        let first = qpn as usize % 4;
        let is_early = fired as usize + first < last_early(first, nominal);
        match retry_cnt {
            0 if fired < WITHOUT_RETRIES => Fires::Free,
            0 => plain,
            _ if is_early => Fires::Free,
            _ => Fires::Spends { fails_with_last: true },
        }
    }
}

impl Qp {
    /// Returns the effect of the next expiry of the queue pair's retry timer.
    pub(crate) fn timer_fires(&self, cx: &Context<'_>) -> Fires {
        let given = (self.send.fired, self.attributes.retry_cnt);
        cx.profile.timer.fires(self.attributes.timeout, given, self.qpn.0)
    }
}

//! Retry timers of adapters as sold, by their published figures.
//!
//! ConnectX-6: unionxic/rdma-fault-characterization, harness/ack_timeout, results of 2026-09-25 (firmware 20.43.4100,
//! 152 trials). By default a schedule of early retransmissions comes first and spends one retry, however long it is;
//! then the timer runs twice the nominal timeout, of code 16 at least. With ROCE_ACCL `min_ack_timeout_limit_disabled`
//! it runs the nominal timeout, after a first one without any retransmission.

use core::time::Duration;

use verbatim_wire::AckTimeout;

use super::qp::{Context, Qp};

/// How the retry timer of an adapter runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryTimer {
    /// As `timeout_quarters` says.
    #[default]
    Plain,
    /// ConnectX-6 at its defaults.
    ConnectX6,
    /// ConnectX-6 with `min_ack_timeout_limit_disabled`.
    ConnectX6Conforming,
}

/// The shortest timeout that a ConnectX-6 uses.
const FLOOR: u8 = 16;
/// When early retransmissions leave, in microseconds after the request. The first is one of the first four.
const EARLY: [u64; 11] = [
    12_500, 20_900, 37_600, 71_400, 138_400, 239_000, 440_400, 977_300, 1_782_500, 3_930_300, 8_225_100,
];
/// How much longer than the nominal timeout a step of the early phase may be.
const SLACK: Duration = Duration::from_micros(500);
/// Retransmissions with retry_cnt 0.
const WITHOUT_RETRIES: u32 = 7;
/// The time before the first timeout that makes a ConnectX-6 retransmit with the floor off, in percent of the timeout.
const SILENT_PERCENT: [u32; 4] = [51, 75, 96, 116];

/// The fate of a request when its timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fires {
    /// It is sent again, and spends no retry.
    Free,
    /// It is sent again, or fails when this was the last retry.
    Spends { fails_with_last: bool },
}

fn at(index: usize) -> Duration {
    Duration::from_micros(EARLY[index])
}

/// Index of the last early retransmission.
fn last_early(first: usize, nominal: Duration) -> usize {
    let goes_on = |index: &usize| at(*index) - at(index - 1) <= nominal + SLACK;
    first + (first + 1..EARLY.len()).take_while(goes_on).count()
}

impl RetryTimer {
    /// How long the timer runs that has fired so often since the last progress; `None`: as a plain one.
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

    /// The effect of the timer's next expiry, after so many before it.
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
    /// The effect when its retry timer fires.
    pub(crate) fn timer_fires(&self, cx: &Context<'_>) -> Fires {
        let given = (self.send.fired, self.attributes.retry_cnt);
        cx.profile.timer.fires(self.attributes.timeout, given, self.qpn.0)
    }
}

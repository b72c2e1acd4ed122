//! The rule of silence: how long a tester must wait before a response counts as missing.
//!
//! The wait is the sum of three times. The first is the larger of the port's RespTimeValue and the default code 20. The
//! second is twice the SubnetTimeOut. The third is the longest time that the tester's host may delay a MAD.

use core::time::Duration;

use verbatim_wire::packet::AckTimeout;
use verbatim_wire::{RespTime, SubnetTimeout};

/// RespTimeValue and SubnetTimeOut that apply until the port has reported its own values, as exponents.
pub const DEFAULT: u8 = 20;

/// Returns the wait that proves silence, counted from the latest time at which the request may have left.
#[must_use]
pub fn lasts(resp_time: RespTime, subnet_timeout: SubnetTimeout, host_bound: Duration) -> Duration {
    let answer = resp_time.duration().max(RespTime(DEFAULT).duration());
    answer + 2 * subnet_timeout.duration() + host_bound
}

/// Returns how long the tester must wait to prove silence on a reliable connection, after an RNR NAK with this
/// interval. `timeout` and `retry_cnt` are the QP's ACK timeout and retry count.
#[must_use]
pub fn rc_lasts(rnr_interval: Duration, timeout: AckTimeout, retry_cnt: u8) -> Duration {
    let tries = u32::from(retry_cnt) + 1;
    let by_timeout = timeout.duration().map_or(Duration::ZERO, |once| 4 * once * tries);
    Duration::from_secs(2).max(2 * rnr_interval).max(by_timeout)
}

/// Returns the longest time in which a device with this Local CA ACK Delay may respond, plus an eighth for the path.
/// Returns 0 if the device reports no delay.
#[must_use]
pub fn answer_time(local_ca_ack_delay: u32) -> Duration {
    let code = u8::try_from(local_ca_ack_delay).unwrap_or(u8::MAX).min(31);
    AckTimeout(code)
        .duration()
        .map_or(Duration::ZERO, |once| once + once / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_time_follows_local_ca_ack_delay() {
        assert_eq!(answer_time(0), Duration::ZERO);
        assert_eq!(answer_time(18), Duration::from_nanos((4096 << 18) * 9 / 8));
        assert_eq!(answer_time(999), answer_time(31));
    }

    #[test]
    fn short_resp_time_keeps_default_wait() {
        let wait = |resp| lasts(RespTime(resp), SubnetTimeout(18), Duration::ZERO);
        assert_eq!(wait(8), wait(20));
        assert!(wait(21) > wait(20));
        assert_eq!(wait(8), Duration::from_nanos(4096 * (1 << 20) + 2 * 4096 * (1 << 18)));
    }
}

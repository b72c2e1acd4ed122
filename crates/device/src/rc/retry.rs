//! The requester's retries: the retry timer, RNR NAKs, and the two retry counters (architecture 9.7.5.2.8, 9.7.6.1.3).

use core::time::Duration;

use verbatim_wire::verbs::Operation;
use verbatim_wire::verbs::{QpState, Service, WcStatus};
use verbatim_wire::{Psn, RnrTimer};

use super::defect::RcDefect;
use super::qp::{Context, Qp};
use super::send_queue::Retry;
use super::timer::Fires;

/// Value of rnr_retry for retries without limit.
const ENDLESS: u32 = 7;

/// The way in which a request fails: the number of its completions, and whether the queue pair stays operational.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    tellings: u32,
    stays_up: bool,
}

impl Manner {
    const SOUND: Self = Self {
        tellings: 1,
        stays_up: false,
    };
}

impl Qp {
    /// Starts a stopped retry timer if a response is expected. Stops the timer if no response is expected, and
    /// during the wait after an RNR NAK.
    pub(crate) fn arm(&mut self, cx: &Context<'_>) {
        let waits_for_rnr = self.send.rnr_until.is_some() && !cx.has(RcDefect::RnrIntervalYieldsToTimeout);
        let wanted = self.state != QpState::Err
            && self.service == Service::Rc
            && !waits_for_rnr
            && (self.send.awaits_answer() || self.send.rnr_until.is_some());
        let is_rnr_retry = self.send.retry == Some(Retry::Rnr) && self.send.rnr_until.is_none();
        let wanted = wanted && !(is_rnr_retry && cx.has(RcDefect::NoTimeoutAfterRnrRetry));
        let front = self.send.queue.front();
        let has_part = front.is_some_and(|front| front.request.operation == Operation::Read && front.acked > 0);
        let wanted = wanted && !(has_part && cx.has(RcDefect::PartOfReadStopsTimer));
        if !wanted {
            self.send.timer = None;
        } else if self.send.timer.is_none() {
            // The timer starts when the packet leaves the port.
            let from = match cx.profile.choices.port_gap.is_zero() {
                true => cx.now,
                false => cx.now.max(cx.port.busy_until()),
            };
            self.send.timer = self.timeout(cx).map(|timeout| from + timeout);
        }
    }

    /// Restarts a running timer, as a defective adapter does after an ACK on another queue pair or a stale ACK.
    pub(crate) fn start_timer_anew(&mut self, cx: &mut Context<'_>) {
        if self.send.timer.take().is_some() {
            self.arm(cx);
        }
    }

    /// Returns the duration of the retry timer, or `None` if it is off.
    fn timeout(&self, cx: &Context<'_>) -> Option<Duration> {
        let mut code = self.attributes.timeout;
        if code.0 > 19 && cx.has(RcDefect::TimeoutCodesEndAt19) {
            code.0 = 19;
        }
        if (1..12).contains(&code.0) && cx.has(RcDefect::TimeoutCodesBeginAt12) {
            code.0 = 12;
        }
        let Some(timeout) = code.duration() else {
            return cx.has(RcDefect::Timeout0Fires).then(|| Duration::from_millis(67));
        };
        if cx.has(RcDefect::TimeoutNever) {
            None
        } else if cx.has(RcDefect::TimeoutEarly) {
            Some(timeout / 2)
        } else if cx.has(RcDefect::TimeoutLate) {
            Some(timeout * 6)
        } else if let Some(runs) = cx.profile.timer.runs(code, self.send.fired, self.qpn.0) {
            Some(runs)
        } else {
            // The architecture allows one to four times the ACK timeout.
            Some(timeout * u32::from(cx.profile.choices.timeout_quarters.clamp(4, 16)) / 4)
        }
    }

    /// Handles progress: resets the retry counters and restarts the timer.
    pub(crate) fn progress(&mut self, cx: &Context<'_>) {
        let (retries, rnr_retries) = (self.send.retries, self.send.rnr_retries);
        self.send.reload();
        // The request that got the RNR NAK is acknowledged, so the wait ends.
        self.send.rnr_until = None;
        if cx.has(RcDefect::RetryCntNotReloaded) {
            self.send.retries = retries;
        }
        if cx.has(RcDefect::RnrRetryNotReloaded) {
            self.send.rnr_retries = rnr_retries;
        }
        if !cx.has(RcDefect::TimeoutNotRestarted) {
            self.send.timer = None;
        }
        self.arm(cx);
    }

    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        self.send.timer = None;
        self.send.rnr_until = None;
        self.send.implied_nak = false;
        let goes_on = match self.timer_fires(cx) {
            Fires::Free => true,
            Fires::Spends { fails_with_last } => {
                self.spend_retry(cx)
                    && (!fails_with_last || self.send.retries < self.attributes.retry_cnt.into() || {
                        self.spend_retry(cx)
                    })
            }
        };
        if !goes_on {
            return;
        }
        self.send.fired += 1;
        self.go_back(cx, Retry::Timeout);
        if cx.has(RcDefect::TimeoutRetrySkipsOldest)
            && let Some(second) = self.send.queue.get(1)
            && second.first.is_some()
        {
            self.send.at = 1;
            self.send.packet = 0;
        }
        self.pump(cx);
    }

    /// Consumes a retry for a timeout or sequence error. Returns whether a retry was left. If none was left, fails the
    /// oldest request.
    pub(crate) fn spend_retry(&mut self, cx: &mut Context<'_>) -> bool {
        let count = u32::from(self.attributes.retry_cnt);
        let allowed = if cx.has(RcDefect::RetryOneTooMany) {
            count + 1
        } else if cx.has(RcDefect::RetryOneTooFew) {
            count.saturating_sub(1)
        } else {
            count
        };
        let endless = cx.has(RcDefect::RetryForever) || (count == ENDLESS && cx.has(RcDefect::Retry7Endless));
        if self.send.retries < allowed || endless {
            self.send.retries = self.send.retries.saturating_add(1);
            return true;
        }
        let status = if cx.has(RcDefect::RetryErrorAsRnrError) {
            WcStatus::RNR_RETRY_EXC_ERR
        } else {
            WcStatus::RETRY_EXC_ERR
        };
        let tellings = if cx.has(RcDefect::RetryErrorTwice) { 2 } else { 1 };
        let manner = Manner {
            tellings: if cx.has(RcDefect::RetryErrorWithoutCompletion) {
                0
            } else {
                tellings
            },
            stays_up: cx.has(RcDefect::RetryErrorKeepsQpUp),
        };
        self.fail_so(cx, status, manner);
        false
    }

    /// Handles an RNR NAK for the oldest request: waits, or fails the request.
    pub(crate) fn on_rnr_nak(&mut self, cx: &mut Context<'_>, timer: RnrTimer) {
        if cx.has(RcDefect::RnrSpendsRetryCnt) {
            if !self.spend_retry(cx) {
                return;
            }
        } else if !self.spend_rnr_retry(cx) {
            return;
        }
        if cx.has(RcDefect::RnrNakReloadsRetries) {
            self.send.retries = 0;
        }
        self.go_back(cx, Retry::Rnr);
        self.send.timer = None;
        self.send.rnr_until = Some(cx.now + self.rnr_interval(cx, timer));
        self.arm(cx);
    }

    fn rnr_interval(&self, cx: &Context<'_>, asked: RnrTimer) -> Duration {
        let code = asked.0 & 0x1F;
        let timer = if cx.has(RcDefect::RnrOwnTimerUsed) {
            self.attributes.min_rnr_timer
        } else if cx.has(RcDefect::RnrCodeLow4Bits) {
            RnrTimer(code & 0x0F)
        } else if cx.has(RcDefect::RnrCodeOffByOne) && code > 1 {
            RnrTimer(code - 1)
        } else {
            RnrTimer(code)
        };
        let ignored = cx.has(RcDefect::RnrIntervalIgnored)
            || (cx.has(RcDefect::RnrIntervalFirstOnly) && self.send.rnr_retries > 1)
            || (cx.has(RcDefect::RnrCodes1To24Ignored) && (1..=24).contains(&code))
            || (cx.has(RcDefect::RnrCode0AsZero) && code == 0);
        if ignored {
            Duration::ZERO
        } else if cx.has(RcDefect::RnrCode31As10Us) && code == 31 {
            Duration::from_micros(10)
        } else if cx.has(RcDefect::RnrIntervalHalved) {
            timer.duration() / 2
        } else {
            // The interval in the NAK is a minimum.
            let extra = u32::from(cx.profile.choices.rnr_extra_percent);
            timer.duration() + timer.duration() * extra / 100
        }
    }

    fn spend_rnr_retry(&mut self, cx: &mut Context<'_>) -> bool {
        let count = u32::from(self.attributes.rnr_retry);
        let allowed = match count {
            0 if cx.has(RcDefect::RnrRetry0RetriesOnce) => 1,
            _ if cx.has(RcDefect::RnrRetryOneTooMany) => count + 1,
            _ if cx.has(RcDefect::RnrRetryOneTooFew) => count.saturating_sub(1),
            _ => count,
        };
        let endless = (count == ENDLESS && !cx.has(RcDefect::RnrRetry7Ends)) || cx.has(RcDefect::RnrRetryForever);
        let endless = endless && !(cx.has(RcDefect::RnrRetry7EndsAt255) && self.send.rnr_retries >= 255);
        if self.send.rnr_retries < allowed || endless {
            self.send.rnr_retries = self.send.rnr_retries.saturating_add(1);
            return true;
        }
        let status = if cx.has(RcDefect::RnrErrorAsRetryError) {
            WcStatus::RETRY_EXC_ERR
        } else {
            WcStatus::RNR_RETRY_EXC_ERR
        };
        if cx.has(RcDefect::RnrRetryAfterError) {
            self.go_back(cx, Retry::Rnr);
            self.pump(cx);
        }
        let manner = Manner {
            tellings: u32::from(!cx.has(RcDefect::RnrErrorWithoutCompletion)),
            stays_up: cx.has(RcDefect::RnrErrorKeepsQpUp),
        };
        self.fail_so(cx, status, manner);
        false
    }

    /// Sets the cursor back to the oldest unacknowledged PSN, or after an RNR NAK possibly further.
    pub(crate) fn go_back(&mut self, cx: &Context<'_>, why: Retry) {
        self.send.rewind(cx.profile.choices.read_retry_resumes);
        if why == Retry::Rnr {
            self.go_further_back(cx);
        }
        self.send.retry = Some(why);
    }

    /// Moves the cursor back to the first packet of the message, if the profile chooses this. A requester may
    /// resend packets before the PSN of the NAK.
    fn go_further_back(&mut self, cx: &Context<'_>) {
        if cx.profile.choices.goes_back_to_message {
            self.send.packet = 0;
        }
    }

    /// Handles a sequence NAK, or an implied NAK: a response that skips the response to an earlier request. Resends
    /// from the oldest unacknowledged PSN.
    pub(crate) fn on_sequence_error(&mut self, cx: &mut Context<'_>, missing: Psn, implied: bool) {
        if implied {
            if self.send.implied_nak {
                return;
            }
            self.send.implied_nak = true;
        }
        let free = !implied && cx.has(RcDefect::SequenceNakSpendsNothing);
        if !free && !self.spend_retry(cx) {
            return;
        }
        self.send.rewind(cx.profile.choices.read_retry_resumes);
        if !implied {
            self.go_further_back(cx);
            self.send.slow = cx.profile.choices.one_packet_after_nak;
        }
        if !implied && cx.has(RcDefect::SequenceNakOutOfOrder) {
            self.skip_one(missing);
            self.send_next(cx);
            self.send.rewind(cx.profile.choices.read_retry_resumes);
        }
        if !implied && cx.has(RcDefect::SequenceNakRetriesNext) {
            self.skip_one(missing);
        }
        self.send.timer = None;
        // If an RNR interval is running, `pump` still waits for its end.
        self.pump(cx);
    }

    /// Moves the cursor past the oldest packet, for defects in the handling of sequence NAKs.
    fn skip_one(&mut self, missing: Psn) {
        let Some(front) = self.send.queue.front() else { return };
        if self.send.packet + 1 < front.packets() {
            self.send.packet += 1;
        } else if missing == self.send.oldest() {
            self.send.at = 1;
            self.send.packet = 0;
        }
    }

    /// Fails the oldest request, and with it the queue pair.
    pub(crate) fn fail(&mut self, cx: &mut Context<'_>, status: WcStatus) {
        self.fail_so(cx, status, Manner::SOUND);
    }

    /// Fails the oldest request after a fatal NAK.
    pub(crate) fn fail_by_nak(&mut self, cx: &mut Context<'_>, status: WcStatus) {
        let manner = Manner {
            tellings: 1,
            stays_up: cx.has(RcDefect::FatalNakKeepsQpUp),
        };
        self.fail_so(cx, status, manner);
    }

    fn fail_so(&mut self, cx: &mut Context<'_>, status: WcStatus, manner: Manner) {
        if let Some(wqe) = self.send.pop()
            && !wqe.told
        {
            for _ in 0..manner.tellings {
                self.complete(cx, &wqe.request, status, 0);
            }
        }
        if manner.stays_up {
            self.send.reload();
            self.send.timer = None;
            self.send.rnr_until = None;
            self.arm(cx);
        } else if self.service == Service::Ud {
            self.state = QpState::Sqe;
            let flushed = self.send.stop();
            for request in flushed {
                self.complete(cx, &request, WcStatus::WR_FLUSH_ERR, 0);
            }
        } else if cx.has(RcDefect::ReceivesStay) {
            self.state = QpState::Err;
            let flushed = self.send.stop();
            for request in flushed {
                self.complete(cx, &request, WcStatus::WR_FLUSH_ERR, 0);
            }
        } else {
            self.enter_error(cx);
        }
    }
}

//! The responder's responses: acknowledgements, NAKs, and responses with data (architecture 9.7.5).

use core::time::Duration;

use verbatim_wire::verbs::{EventKind, QpState};
use verbatim_wire::{Aeth, AtomicAckEth, CreditCode, NakCode, Opcode, Psn, Qpn, RnrTimer, Syndrome, Transport};

use super::defect::RcDefect;
use super::frame::hex64;
use super::qp::{Context, Qp};

/// Delay of some responses of a defective adapter, so that other responses overtake them.
const OVERTAKEN: Duration = Duration::from_micros(500);

/// The first PSN with its highest bit set.
const HALF: u32 = Psn::COUNT / 2;

/// The kind of a response, for the order of responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Ack,
    Read,
    Atomic,
}

impl Qp {
    /// Returns the syndrome of an ACK.
    fn ack_syndrome(&self, cx: &Context<'_>) -> Syndrome {
        if !cx.profile.choices.advertises_credits {
            return Syndrome::ACK;
        }
        let posted = self.receive.posted.len();
        let fits = |code: &u8| {
            let credits = CreditCode(*code).credits();
            credits.is_some_and(|credits| credits as usize <= posted)
        };
        // A higher code means more credits. The ACK carries the highest code with at most as many credits as there are
        // posted receives.
        Syndrome::ack(CreditCode((0..31).rev().find(fits).unwrap_or(0)))
    }

    fn aeth(&self, cx: &Context<'_>, syndrome: Syndrome) -> Aeth {
        let shown = if cx.has(RcDefect::MsnLow8Bits) {
            0xFF
        } else if cx.has(RcDefect::MsnLow16Bits) {
            0xFFFF
        } else {
            u32::MAX
        };
        Aeth::default()
            .with_syndrome(syndrome)
            .with_msn(self.receive.msn & shown)
    }

    /// Acknowledges a SEND or WRITE, at once or after `ack_delay`. `first` is the first PSN of the message.
    pub(crate) fn acknowledge(&mut self, cx: &mut Context<'_>, psn: Psn, first: Psn) {
        if cx.has(RcDefect::AckMissing) {
            return;
        }
        let odd = cx.has(RcDefect::AckWithWrongPsn) || cx.has(RcDefect::AckWithFirstPsn);
        if !odd && !cx.profile.choices.ack_delay.is_zero() {
            let due = cx.now + cx.profile.choices.ack_delay;
            self.receive.ack_due.get_or_insert(due);
            return;
        }
        let psn = if cx.has(RcDefect::AckWithWrongPsn) {
            psn.next()
        } else if cx.has(RcDefect::AckWithFirstPsn) {
            first
        } else {
            psn
        };
        self.send_ack(cx, psn);
    }

    pub(crate) fn send_pending_ack(&mut self, cx: &mut Context<'_>) {
        if self.receive.ack_due.take().is_some() {
            self.send_ack(cx, self.receive.expected.minus(1));
        }
    }

    /// Sends an ACK for all requests up to `psn`.
    pub(crate) fn send_ack(&mut self, cx: &mut Context<'_>, psn: Psn) {
        self.receive.ack_due = None;
        let syndrome = self.ack_syndrome(cx);
        for _ in 0..1 + u32::from(cx.profile.choices.acknowledges_twice) {
            self.send_acknowledge(cx, psn, syndrome);
        }
    }

    fn send_acknowledge(&mut self, cx: &mut Context<'_>, psn: Psn, syndrome: Syndrome) {
        let mut transport = Transport {
            aeth: Some(self.aeth(cx, syndrome)),
            ..Transport::default()
        };
        transport.bth = transport.bth.with_opcode(Opcode::RC_ACKNOWLEDGE).with_psn(psn);
        self.answer(cx, Answer::Ack, transport);
    }

    /// Sends a NAK. A NAK acknowledges all requests before `psn`, so the delayed ACK is cancelled.
    pub(crate) fn send_nak(&mut self, cx: &mut Context<'_>, psn: Psn, syndrome: Syndrome) {
        self.receive.ack_due = None;
        if cx.has(RcDefect::MsnAdvancedByNak) {
            self.receive.count_message(1);
        }
        self.send_acknowledge(cx, psn, syndrome);
    }

    /// Sends an RNR NAK for the request at the expected PSN.
    pub(crate) fn send_rnr_nak(&mut self, cx: &mut Context<'_>, psn: Psn) {
        self.receive.nak_sent = true;
        self.receive.rnr_open = true;
        if self.receive.rnr_psn == Some(psn) && cx.has(RcDefect::RnrNakOnce) {
            return;
        }
        self.receive.rnr_psn = Some(psn);
        let mut timer = self.attributes.min_rnr_timer;
        if cx.has(RcDefect::RnrNakMissing) {
            return;
        }
        if cx.has(RcDefect::RnrNakWithWrongCode) {
            // Selects the next shorter interval. Code 0 is the longest interval, and code 31 is the next shorter
            // one.
            if timer != RnrTimer::SHORTEST {
                timer.0 = (timer.0 + 31) % 32;
            }
        } else if cx.profile.choices.rnr_nak_asks_longer && timer.0 != 0 {
            timer.0 = (timer.0 + 1) % 32;
        }
        if cx.has(RcDefect::RnrNakShortCodesAs1) && timer.duration() < Duration::from_millis(1) {
            timer = RnrTimer::SHORTEST;
        }
        let psn = if cx.has(RcDefect::RnrNakWithWrongPsn) {
            psn.next()
        } else {
            psn
        };
        self.send_nak(cx, psn, Syndrome::rnr_nak(timer));
    }

    /// Refuses the request at the expected PSN: sends the NAK, reports the event and enters the error state.
    pub(crate) fn refuse(&mut self, cx: &mut Context<'_>, psn: Psn, code: NakCode) {
        if !cx.has(RcDefect::FatalNakMissing) {
            let psn = if cx.has(RcDefect::FatalNakWithWrongPsn) {
                psn.minus(1)
            } else {
                psn
            };
            self.send_nak(cx, psn, Syndrome::nak(code));
        }
        if cx.has(RcDefect::ResponderStaysUp) {
            self.receive.message = super::receive_queue::Message::None;
            return;
        }
        let kind = match code {
            NakCode::REMOTE_ACCESS if cx.has(RcDefect::AccessErrorAsRequestError) => EventKind::QP_REQ_ERR,
            NakCode::REMOTE_ACCESS => EventKind::QP_ACCESS_ERR,
            NakCode::REMOTE_OPERATIONAL => EventKind::QP_FATAL,
            _ => EventKind::QP_REQ_ERR,
        };
        if !(self.refused && cx.has(RcDefect::RefusalToldOnce)) {
            cx.report(self.handle, kind);
        }
        self.refused = true;
        if cx.has(RcDefect::RefusalKeepsSends) {
            self.state = QpState::Err;
            (self.send.timer, self.send.rnr_until) = (None, None);
            self.flush_receives(cx);
            return;
        }
        self.enter_error(cx);
    }

    /// Cancels the delayed ACK for a response of `count` PSNs, because a response acknowledges all earlier requests. A
    /// response to a duplicate leaves the ACK pending, because later requests still need the ACK.
    fn speaks_for(&mut self, psn: Psn, count: u32) {
        if [psn, psn.plus(count)].contains(&self.receive.expected) {
            self.receive.ack_due = None;
        }
    }

    /// Sends the responses to a READ. `psn` is the PSN of the first response.
    pub(crate) fn send_read_responses(&mut self, cx: &mut Context<'_>, psn: Psn, data: &[u8], msn_at_end: u32) {
        let mut size = self.pmtu() as usize;
        if cx.has(RcDefect::ReadResponseShort) {
            size /= 2;
        }
        let count = data.len().div_ceil(size).max(1);
        #[allow(clippy::cast_possible_truncation)] // fewer responses than PSNs
        self.speaks_for(psn, count as u32);
        let msn_before = self.receive.msn;
        let mut responses = Vec::with_capacity(count);
        for at in 0..count {
            let from = if cx.has(RcDefect::ReadResponseWrongData) && at == 1 {
                0
            } else {
                at * size
            };
            let payload = data[from..data.len().min(from + size)].to_vec();
            let (is_first, is_last) = (at == 0, at + 1 == count);
            let opcode = match (is_first, is_last) {
                (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
                (true, false) if cx.has(RcDefect::ReadResponseMiddleOnly) => Opcode::RC_READ_RESPONSE_MIDDLE,
                (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
                (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
                (false, true) => Opcode::RC_READ_RESPONSE_LAST,
            };
            if is_last {
                self.receive.msn = msn_at_end;
            }
            let aeth = self.aeth(cx, self.ack_syndrome(cx));
            #[allow(clippy::cast_possible_truncation)] // fewer responses than PSNs
            let offset = if cx.has(RcDefect::ReadResponsePsnConstant) {
                0
            } else if cx.has(RcDefect::ReadResponsePsn8Bits) {
                at as u32 & 0xFF
            } else if cx.has(RcDefect::ReadResponsePsnSkipsAtWrap) && psn.plus(at as u32) < psn {
                at as u32 + 1
            } else {
                at as u32
            };
            let mut transport = Transport {
                aeth: opcode.headers().aeth().then_some(aeth),
                payload,
                ..Transport::default()
            };
            let mut told = psn.plus(offset);
            if cx.has(RcDefect::ReadResponsePsnLosesBit23) && psn.0 < HALF && told.0 >= HALF {
                told.0 -= HALF;
            }
            transport.bth = transport.bth.with_opcode(opcode).with_psn(told);
            responses.push(transport);
        }
        debug_assert!(self.receive.msn == msn_at_end || self.receive.msn == msn_before);
        for transport in responses {
            self.answer(cx, Answer::Read, transport);
        }
    }

    pub(crate) fn send_atomic_ack(&mut self, cx: &mut Context<'_>, psn: Psn, original: u64) {
        self.speaks_for(psn, 1);
        let original = if cx.has(RcDefect::AtomicOriginalLittleEndian) {
            original.swap_bytes()
        } else if cx.has(RcDefect::AtomicOriginalZero) {
            0
        } else {
            original
        };
        let mut transport = Transport {
            aeth: Some(self.aeth(cx, self.ack_syndrome(cx))),
            atomic_ack: Some(AtomicAckEth::default().with_original(hex64(original))),
            ..Transport::default()
        };
        transport.bth = transport.bth.with_opcode(Opcode::RC_ATOMIC_ACKNOWLEDGE).with_psn(psn);
        self.answer(cx, Answer::Atomic, transport);
    }

    /// Sends a response after all earlier responses.
    fn answer(&mut self, cx: &mut Context<'_>, kind: Answer, mut transport: Transport) {
        let (opcode, psn) = (transport.bth.opcode(), transport.bth.psn());
        transport.bth = self.bth().with_opcode(opcode).with_psn(psn);
        if cx.has(RcDefect::ResponseToWrongQp) {
            transport.bth = transport.bth.with_dest_qp(Qpn(self.attributes.dest_qpn.0 ^ 1));
        }
        let Some(path) = self.attributes.path else {
            return;
        };
        let soon = cx.now + cx.profile.latency;
        let in_order = soon.max(self.receive.busy_until);
        let slow_reads = cx.has(RcDefect::AtomicOvertakesReads)
            || cx.has(RcDefect::AckOvertakesReads)
            || cx.has(RcDefect::ReadsAnsweredInReverse);
        let at = match kind {
            Answer::Read if cx.has(RcDefect::ReadsAnsweredInReverse) && self.is_overtaking(soon, psn) => soon,
            Answer::Read if slow_reads => soon + OVERTAKEN,
            Answer::Atomic if cx.has(RcDefect::AtomicOvertakesReads) => soon,
            Answer::Ack if cx.has(RcDefect::AckOvertakesReads) => soon,
            _ => in_order,
        };
        self.receive.busy_until = self.receive.busy_until.max(at);
        cx.port.send(at, path, transport);
    }

    /// Returns whether a READ response leaves before the responses to an earlier READ. Only a defective adapter uses
    /// this function.
    fn is_overtaking(&mut self, soon: Duration, psn: Psn) -> bool {
        let later = self
            .receive
            .kept
            .iter()
            .rev()
            .nth(1)
            .is_some_and(|earlier| psn.since(earlier.first) >= earlier.psns);
        later && self.receive.busy_until > soon
    }
}

//! The requester's handling of responses (architecture 9.7.6).

use verbatim_wire::values::Hex64;
use verbatim_wire::verbs::{Operation, QpState, WcStatus};
use verbatim_wire::{NakCode, Opcode, Packet, Psn, Syndrome, SyndromeKind};

use super::defect::RcDefect;
use super::qp::{Context, Qp};

use super::verbs::SendRequest;

/// The result of acknowledging requests up to a PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Settled {
    /// All requests before the PSN are acknowledged.
    All,
    /// A READ or atomic without its response precedes the PSN.
    Blocked,
}

impl Qp {
    pub(crate) fn handle_response(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>, opcode: Opcode) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return;
        }
        let psn = packet.bth().psn();
        let outstanding = self.send.outstanding();
        let is_smaller = opcode == Opcode::RC_ACKNOWLEDGE && psn.0 < self.send.oldest().0;
        if is_smaller && cx.has(RcDefect::AckOverWrapIgnored) {
            return;
        }
        if psn.since(self.send.oldest()) >= outstanding {
            self.handle_ghost(cx, packet, opcode);
            return;
        }
        if let Some(aeth) = packet.aeth()
            && let SyndromeKind::Ack(code) = aeth.syndrome().kind()
        {
            let limit = code.credits().map(|credits| (aeth.msn() + credits) % Psn::COUNT);
            self.send.credit_limit = limit;
        }
        match opcode {
            Opcode::RC_ACKNOWLEDGE => {
                if let Some(aeth) = packet.aeth() {
                    self.handle_ack(cx, psn, aeth.syndrome());
                }
            }
            Opcode::RC_ATOMIC_ACKNOWLEDGE => self.handle_atomic_ack(cx, packet, psn),
            _ => self.handle_read_response(cx, packet, opcode, psn),
        }
    }

    /// Handles a response to a PSN that was never sent or is already acknowledged. A conforming requester ignores the
    /// response.
    fn handle_ghost(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>, opcode: Opcode) {
        let is_ack = opcode == Opcode::RC_ACKNOWLEDGE
            && packet
                .aeth()
                .is_some_and(|aeth| matches!(aeth.syndrome().kind(), SyndromeKind::Ack(_)));
        if is_ack && cx.has(RcDefect::GhostAckCompletes) && self.send.outstanding() > 0 {
            self.acknowledged(cx, self.send.sent_until);
        }
        let is_old = packet.bth().psn().since(self.send.oldest()) >= Psn::COUNT / 2;
        if is_ack && is_old && cx.has(RcDefect::StaleAckReloadsRetries) {
            self.send.retries = 0;
        }
        if is_ack && is_old && cx.has(RcDefect::StaleAckRestartsTimer) {
            self.start_timer_anew(cx);
        }
        if let Some(aeth) = packet.aeth()
            && let SyndromeKind::RnrNak(timer) = aeth.syndrome().kind()
            && !is_old
            && self.send.outstanding() > 0
            && cx.has(RcDefect::GhostRnrNakObeyed)
        {
            self.on_rnr_nak(cx, timer);
        }
        if is_old && self.send.outstanding() > 0 {
            self.handle_stale(cx, packet);
        }
    }

    /// Handles a response to an acknowledged PSN as a defective adapter does.
    fn handle_stale(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>) {
        let is_read_response =
            (Opcode::RC_READ_RESPONSE_FIRST..=Opcode::RC_READ_RESPONSE_ONLY).contains(&packet.opcode());
        let front = self.send.queue.front().map(|front| front.request);
        let reads = front.filter(|request| request.operation == Operation::Read && is_read_response);
        if let (Some(read), true) = (reads, cx.has(RcDefect::StaleReadResponseStored)) {
            cx.memory.write(read.local, 0, packet.payload());
        }
        match packet.aeth().map(|aeth| aeth.syndrome().kind()) {
            Some(SyndromeKind::RnrNak(timer)) if cx.has(RcDefect::StaleRnrNakObeyed) => self.on_rnr_nak(cx, timer),
            Some(SyndromeKind::Nak(NakCode::PSN_SEQUENCE_ERROR)) if cx.has(RcDefect::StaleNakObeyed) => {
                self.on_sequence_error(cx, self.send.oldest(), false);
            }
            Some(SyndromeKind::Nak(code))
                if code != NakCode::PSN_SEQUENCE_ERROR && cx.has(RcDefect::StaleFatalNakObeyed) =>
            {
                self.fail_by_nak(cx, WcStatus::REM_INV_REQ_ERR);
            }
            _ => {}
        }
    }

    fn handle_ack(&mut self, cx: &mut Context<'_>, psn: Psn, syndrome: Syndrome) {
        match syndrome.kind() {
            SyndromeKind::Ack(_) => {
                cx.told.acknowledged = cx.has(RcDefect::RnrWaitEndedByOther);
                self.acknowledged(cx, psn.next());
            }
            SyndromeKind::RnrNak(_) if cx.has(RcDefect::RnrNakCompletes) => self.acknowledged(cx, psn.next()),
            SyndromeKind::RnrNak(_) if cx.has(RcDefect::RnrNakOfReadIgnored) && self.is_of_read(psn) => {}
            SyndromeKind::RnrNak(timer) => {
                if cx.has(RcDefect::RnrNakNotAnAck) || self.reaches(cx, psn) {
                    self.on_rnr_nak(cx, timer);
                }
            }
            SyndromeKind::Nak(code) => self.handle_nak(cx, psn, code),
            SyndromeKind::Reserved(_) => {
                if cx.has(RcDefect::ReservedSyndromeCompletes) {
                    self.acknowledged(cx, psn.next());
                } else {
                    self.handle_reserved(cx, psn);
                }
            }
        }
    }

    fn handle_nak(&mut self, cx: &mut Context<'_>, psn: Psn, code: NakCode) {
        if cx.has(RcDefect::NakCompletesWithSuccess) {
            self.acknowledged(cx, psn.next());
            return;
        }
        if code == NakCode::PSN_SEQUENCE_ERROR {
            if cx.has(RcDefect::SequenceNakIgnored) {
                return;
            }
            if cx.has(RcDefect::SequenceNakNotAnAck) || self.reaches(cx, psn) {
                self.on_sequence_error(cx, psn, false);
            }
            return;
        }
        let swapped = cx.has(RcDefect::FatalNakWrongStatus);
        let status = match code {
            NakCode::INVALID_REQUEST if swapped => WcStatus::REM_ACCESS_ERR,
            NakCode::REMOTE_ACCESS if swapped => WcStatus::REM_INV_REQ_ERR,
            NakCode::INVALID_REQUEST => WcStatus::REM_INV_REQ_ERR,
            NakCode::REMOTE_ACCESS => WcStatus::REM_ACCESS_ERR,
            NakCode::REMOTE_OPERATIONAL => WcStatus::REM_OP_ERR,
            // INVALID_RD_REQUEST and the other codes are not defined for a reliable connection.
            _ => return self.handle_reserved(cx, psn),
        };
        let settled = self.settle(cx, psn);
        let skips = settled == Settled::Blocked && psn != self.send.oldest();
        if skips && self.front_has(psn) && cx.profile.choices.retries_read_below_nak {
            self.on_sequence_error(cx, psn, true);
            return;
        }
        if !self.reaches(cx, psn) {
            return;
        }
        if cx.has(RcDefect::FatalNakRetried) {
            self.on_sequence_error(cx, psn, false);
        } else {
            self.fail_by_nak(cx, status);
        }
    }

    fn handle_reserved(&mut self, cx: &mut Context<'_>, psn: Psn) {
        if cx.profile.choices.reserved_syndrome_fails && self.reaches(cx, psn) {
            self.fail(cx, WcStatus::BAD_RESP_ERR);
        }
    }

    /// Acknowledges all requests before `psn`. Returns whether the oldest request is now the one at `psn`.
    fn reaches(&mut self, cx: &mut Context<'_>, psn: Psn) -> bool {
        match self.settle(cx, psn) {
            Settled::All => true,
            // The PSN of a NAK may be the PSN of a missing READ response. The READ is then the request at `psn`.
            Settled::Blocked if self.front_has(psn) => true,
            Settled::Blocked => {
                self.on_sequence_error(cx, psn, true);
                false
            }
        }
    }

    fn is_of_read(&self, psn: Psn) -> bool {
        self.send.queue.iter().any(|wqe| {
            let is_within = wqe.first.is_some_and(|first| psn.since(first) < wqe.psns);
            is_within && wqe.request.operation == Operation::Read
        })
    }

    fn front_has(&self, psn: Psn) -> bool {
        self.send.queue.front().is_some_and(|front| {
            front
                .first
                .is_some_and(|first| psn.since(first) < front.psns && psn.since(first) >= front.acked)
        })
    }

    /// Handles an acknowledgement of all PSNs before `end`.
    fn acknowledged(&mut self, cx: &mut Context<'_>, end: Psn) {
        let end = if cx.has(RcDefect::AckCompletesAll) {
            self.send.sent_until
        } else {
            end
        };
        match self.settle(cx, end) {
            Settled::All => self.pump(cx),
            Settled::Blocked => self.on_sequence_error(cx, end, true),
        }
    }

    /// Completes SENDs and WRITEs before `end`, in order, up to a READ or atomic.
    fn settle(&mut self, cx: &mut Context<'_>, end: Psn) -> Settled {
        let mut done: Vec<SendRequest> = Vec::new();
        let mut progress = false;
        let mut settled = Settled::All;
        while let Some(front) = self.send.queue.front_mut() {
            let Some(first) = front.first else {
                break;
            };
            let left = end.since(first.plus(front.acked));
            if left == 0 || left > Psn::COUNT / 2 {
                break;
            }
            let operation = front.request.operation;
            if operation.is_read_or_atomic() {
                let accepted = cx.has(RcDefect::ImpliedNakIgnored)
                    || (operation == Operation::Read && cx.has(RcDefect::ReadAcceptsAck))
                    || (operation.is_atomic() && cx.has(RcDefect::AtomicAcceptsAck));
                if !accepted {
                    settled = Settled::Blocked;
                    break;
                }
            }
            progress = true;
            front.acked += left.min(front.psns - front.acked);
            if front.acked < front.psns {
                let ends_early = cx.has(RcDefect::AckOfFirstCompletesMessage) && !front.told;
                if ends_early {
                    front.told = true;
                    done.push(front.request);
                }
                break;
            }
            if let Some(wqe) = self.send.pop()
                && !wqe.told
            {
                done.push(wqe.request);
            }
            if cx.has(RcDefect::CoalescedAckCompletesOne) {
                break;
            }
        }
        if self.send.at == 0
            && let Some(front) = self.send.queue.front()
        {
            self.send.packet = self.send.packet.max(front.first_packet());
        }
        if cx.has(RcDefect::CompletesInReverse) {
            done.reverse();
        }
        let tells_all = done.len() > 1 && cx.has(RcDefect::CoalescedAckTellsAll);
        for mut request in done {
            request.signaled |= tells_all;
            self.succeed(cx, request, 0);
        }
        if progress {
            self.progress(cx);
        }
        settled
    }

    /// Completes a request with success.
    fn succeed(&mut self, cx: &mut Context<'_>, request: SendRequest, byte_len: u32) {
        let request = if cx.has(RcDefect::AckCompletesLate) && !request.operation.is_read_or_atomic() {
            let Some(earlier) = self.send.held.replace(request) else {
                return;
            };
            earlier
        } else {
            request
        };
        self.complete(cx, &request, WcStatus::SUCCESS, byte_len);
        if cx.has(RcDefect::CompletesTwice) {
            self.complete(cx, &request, WcStatus::SUCCESS, byte_len);
        }
    }

    /// Completes the oldest request after its last response.
    fn finish(&mut self, cx: &mut Context<'_>, and_next: bool) {
        if let Some(wqe) = self.send.pop() {
            if !wqe.told {
                let length = wqe.request.local.length;
                let length = if wqe.request.operation.is_atomic() { 8 } else { length };
                self.succeed(cx, wqe.request, length);
            }
            if and_next
                && let Some(next) = self.send.queue.front_mut()
                && next.first.is_some()
                && next.request.operation.is_read_or_atomic()
                && !next.told
            {
                next.told = true;
                let request = next.request;
                self.succeed(cx, request, request.local.length);
            }
        }
        self.progress(cx);
        self.pump(cx);
    }

    fn handle_atomic_ack(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>, psn: Psn) {
        let (Some(aeth), Some(atomic)) = (packet.aeth(), packet.atomic_ack()) else {
            return;
        };
        if !matches!(aeth.syndrome().kind(), SyndromeKind::Ack(_)) {
            return;
        }
        if self.settle(cx, psn) == Settled::Blocked {
            self.on_sequence_error(cx, psn, true);
            return;
        }
        let Some(front) = self.send.queue.front() else {
            return;
        };
        if !front.request.operation.is_atomic() {
            self.fail(cx, WcStatus::BAD_RESP_ERR);
            return;
        }
        let request = front.request;
        self.store_original(cx, &request, atomic.original());
        let and_next = cx.has(RcDefect::AtomicAckCompletesNext);
        self.finish(cx, and_next);
    }

    /// Stores the original value of an atomic in local memory as a native number, little-endian here.
    fn store_original(&self, cx: &mut Context<'_>, request: &SendRequest, original: Hex64) {
        let mut local = request.local;
        let mut bytes = original.0.to_le_bytes().to_vec();
        if cx.has(RcDefect::AtomicResultNotWritten) {
            return;
        }
        if cx.has(RcDefect::AtomicResultLittleEndian) {
            bytes.reverse();
        }
        if cx.has(RcDefect::AtomicResultLow32Bits) {
            bytes.truncate(4);
        }
        if cx.has(RcDefect::AtomicResultMisplaced) {
            let mut behind = local;
            behind.offset = behind.offset.saturating_add(8);
            local.offset = if cx.memory.check(behind).is_ok() {
                behind.offset
            } else {
                local.offset.saturating_sub(8)
            };
        }
        cx.memory.write(local, 0, &bytes);
    }

    fn handle_read_response(&mut self, cx: &mut Context<'_>, packet: &Packet<'_>, opcode: Opcode, psn: Psn) {
        if let Some(aeth) = packet.aeth()
            && !matches!(aeth.syndrome().kind(), SyndromeKind::Ack(_))
        {
            return;
        }
        let skips = self.settle(cx, psn) == Settled::Blocked;
        if skips && !(cx.has(RcDefect::ReadGapIgnored) && self.front_has(psn)) {
            self.on_sequence_error(cx, psn, true);
            return;
        }
        let pmtu = self.pmtu();
        let Some(front) = self.send.queue.front_mut() else {
            return;
        };
        if skips {
            front.acked = psn.since(front.first.unwrap_or_default());
        }
        if front.request.operation != Operation::Read {
            self.fail(cx, WcStatus::BAD_RESP_ERR);
            return;
        }
        let (request, at) = (front.request, front.acked);
        let is_last = at + 1 >= front.psns;
        let begins = front.starts.contains(&at);
        // After a resumed retry, a response may belong to the first READ request or to the resumed one.
        let continues = front.starts.iter().any(|&start| start < at);
        let in_order = match opcode {
            Opcode::RC_READ_RESPONSE_FIRST => begins && !is_last,
            Opcode::RC_READ_RESPONSE_MIDDLE => continues && !is_last,
            Opcode::RC_READ_RESPONSE_LAST => continues && is_last,
            _ => begins && is_last,
        };
        if !in_order && !skips {
            self.fail(cx, WcStatus::BAD_RESP_ERR);
            return;
        }
        let had = (at * pmtu).min(request.local.length);
        let expected = (request.local.length - had).min(pmtu);
        let refuses_empty = request.local.length == 0 && cx.has(RcDefect::ZeroLengthReadFails);
        if refuses_empty || packet.payload().len() != expected as usize && !cx.has(RcDefect::ReadLengthIgnored) {
            let status = if cx.profile.choices.wrong_length_is_bad_response {
                WcStatus::BAD_RESP_ERR
            } else {
                WcStatus::LOC_LEN_ERR
            };
            self.fail(cx, status);
            return;
        }
        self.store_read(cx, &request, had, is_last, packet.payload());
        self.after_read_response(cx, is_last);
    }

    fn store_read(&self, cx: &mut Context<'_>, request: &SendRequest, at: u32, is_last: bool, payload: &[u8]) {
        if cx.has(RcDefect::ReadDataNotWritten) && is_last {
            return;
        }
        let at = if cx.has(RcDefect::ReadDataMisplaced) {
            at.saturating_sub(4)
        } else {
            at
        };
        let pmtu = self.pmtu();
        let at = if cx.has(RcDefect::ReadDataIndex8Bits) {
            at % (pmtu << 8)
        } else {
            at
        };
        cx.memory.write(request.local, at, payload);
    }

    fn after_read_response(&mut self, cx: &mut Context<'_>, is_last: bool) {
        if is_last {
            let and_next = cx.has(RcDefect::ReadCompletesNext);
            self.finish(cx, and_next);
            return;
        }
        let early = cx.has(RcDefect::ReadCompletesAtFirst);
        let Some(front) = self.send.queue.front_mut() else {
            return;
        };
        front.acked += 1;
        let told = front.told;
        front.told |= early;
        let request = front.request;
        if early && !told {
            self.succeed(cx, request, request.local.length);
        }
        self.progress(cx);
        self.pump(cx);
    }
}

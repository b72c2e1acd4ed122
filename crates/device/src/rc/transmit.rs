//! The requester's transmission: it divides requests into packets and sends them in order, within the window, fences
//! and limits (architecture 9.7.3, 9.7.7, 10.8.3.3).

use verbatim_wire::values::Hex32;
use verbatim_wire::verbs::{EventKind, Operation, QpState, Service, WcStatus};
use verbatim_wire::{Ieth, ImmDt, Opcode, Psn, Reth, Transport};

use super::defect::RcDefect;
use super::frame::hex64;
use super::qp::{Context, Qp};
use super::send_queue::{Retry, Wqe};
use super::verbs::SendRequest;

/// Maximum number of outstanding PSNs: far fewer than half of all PSNs, so that old and new PSNs stay distinct.
const MOST_PSNS: u32 = Psn::COUNT / 4;

impl Qp {
    /// Sends all packets that may leave now.
    pub(crate) fn pump(&mut self, cx: &mut Context<'_>) {
        while matches!(self.state, QpState::Rts | QpState::Sqd) && self.send.rnr_until.is_none() {
            let sent = match self.service {
                Service::Rc => self.send_next(cx),
                Service::Ud => self.send_datagram(cx),
            };
            if !sent {
                break;
            }
        }
        self.arm(cx);
        self.report_if_drained(cx);
    }

    /// Reports once that the send queue has drained, if the state is SQD and no request is outstanding.
    pub(crate) fn report_if_drained(&mut self, cx: &mut Context<'_>) {
        let mut begun = self.send.queue.iter().take_while(|wqe| wqe.first.is_some());
        let is_drained =
            cx.has(RcDefect::DrainedBeforeReads) && begun.all(|wqe| wqe.request.operation.is_read_or_atomic());
        if self.state != QpState::Sqd {
            self.send.drained &= cx.has(RcDefect::DrainedReportedOnce);
        } else if !self.send.drained && (is_drained || !self.send.is_busy()) {
            self.send.drained = true;
            cx.report(self.handle, EventKind::SQ_DRAINED);
        }
    }

    /// Sends the next packet, or fails the next request. Returns whether either was possible.
    pub(crate) fn send_next(&mut self, cx: &mut Context<'_>) -> bool {
        let index = self.send.at;
        let Some(wqe) = self.send.queue.get(index) else {
            return false;
        };
        let begun = wqe.first.is_some();
        let drains = self.state == QpState::Sqd && !cx.has(RcDefect::SqdSends);
        if !begun && (drains || self.must_wait(cx, index)) {
            return false;
        }
        let request = wqe.request;
        if let Some(status) = self.local_fault(cx, &request) {
            // Fails the request only after the responses to earlier requests, so that completions stay in order.
            if (index > 0 || self.send.awaits_answer()) && !cx.has(RcDefect::LocalFaultAtOnce) {
                return false;
            }
            if cx.has(RcDefect::LocalFaultSent)
                && !begun
                && let Some(path) = self.attributes.path
            {
                self.begin(cx, index);
                let packet = self.send.packet;
                let transport = self.request_packet(cx, index, packet, true);
                cx.port.send(cx.now + cx.profile.latency, path, transport);
            }
            let wrong = cx.has(RcDefect::LocalFaultWrongStatus);
            self.fail(cx, if wrong { WcStatus::LOC_QP_OP_ERR } else { status });
            return true;
        }
        if self.send.slow && self.send.awaits_answer() {
            return false;
        }
        let is_packets = !request.operation.is_read_or_atomic();
        let in_flight = self.in_flight();
        if self.send.packet == wqe.first_packet() {
            self.send.limited = true;
        }
        self.send.limited &= self.lacks_credit(cx, index);
        if self.is_stuck(cx, index) {
            return false;
        }
        let is_busy = index > 0 && cx.profile.choices.one_message_at_a_time;
        if !begun && is_busy {
            return false;
        }
        let window = if self.send.limited || self.send.slow {
            1
        } else {
            u32::from(cx.profile.choices.window.max(1))
        };
        if is_packets && in_flight >= window {
            return false;
        }
        if !begun {
            self.begin(cx, index);
        }
        let Some(path) = self.attributes.path else {
            return false;
        };
        let stops_here = is_packets && in_flight + 1 >= window;
        let packet = self.send.packet;
        let transport = self.request_packet(cx, index, packet, stops_here);
        cx.port.send(cx.now + cx.profile.latency, path, transport);
        self.after_sending(cx, index, packet);
        true
    }

    /// Moves the cursor past the packet that was sent.
    fn after_sending(&mut self, cx: &mut Context<'_>, index: usize, packet: u32) {
        let wqe = &mut self.send.queue[index];
        let first = wqe.first.unwrap_or_default();
        let is_read = wqe.request.operation.is_read_or_atomic();
        let end = first.plus(if is_read { wqe.psns } else { packet + 1 });
        if is_read && !wqe.starts.contains(&wqe.acked) {
            wqe.starts.push(wqe.acked);
        }
        if packet + 1 < wqe.packets() {
            self.send.packet = packet + 1;
        } else {
            self.send.at += 1;
            self.send.packet = 0;
            self.tell_early(cx, index);
        }
        if end.since(self.send.sent_until) < Psn::COUNT / 2 {
            self.send.sent_until = end;
        }
    }

    /// Completes a request right after its transmission, for the defects that do not wait for the response.
    fn tell_early(&mut self, cx: &mut Context<'_>, index: usize) {
        let wqe = &mut self.send.queue[index];
        let early = match wqe.request.operation {
            Operation::Send | Operation::SendImm | Operation::SendInvalidate => RcDefect::SendCompletesOnTransmit,
            Operation::Write | Operation::WriteImm => RcDefect::WriteCompletesOnTransmit,
            Operation::Read => RcDefect::ReadCompletesOnTransmit,
            Operation::CompareSwap | Operation::FetchAdd => RcDefect::AtomicCompletesOnTransmit,
        };
        if cx.has(early) && !wqe.told {
            wqe.told = true;
            let request = wqe.request;
            self.complete(cx, &request, WcStatus::SUCCESS, 0);
        }
    }

    /// Returns the number of outstanding SEND and WRITE packets before the cursor.
    fn in_flight(&self) -> u32 {
        let before = self.send.queue.iter().take(self.send.at);
        let whole: u32 = before
            .filter(|wqe| !wqe.request.operation.is_read_or_atomic())
            .map(|wqe| wqe.psns - wqe.acked.min(wqe.psns))
            .sum();
        let begun = match self.send.queue.get(self.send.at) {
            Some(wqe) => self.send.packet.saturating_sub(wqe.first_packet()),
            None => 0,
        };
        whole + begun
    }

    /// Returns whether a request that is not begun must wait: for a fence, for max_rd_atomic or for the maximum number
    /// of PSNs.
    fn must_wait(&self, cx: &Context<'_>, index: usize) -> bool {
        if self.send.next_psn.since(self.send.oldest()) > MOST_PSNS {
            return true;
        }
        let request = &self.send.queue[index].request;
        let before = self.send.queue.iter().take(index);
        let pending = before.filter(|wqe| wqe.request.operation.is_read_or_atomic()).count();
        let mut earlier = self.send.queue.iter().take(index);
        let is_behind_read = earlier.any(|wqe| wqe.request.operation == Operation::Read);
        let passes = cx.has(RcDefect::FenceIgnored) || !is_behind_read && cx.has(RcDefect::FencePassesAtomics);
        let passes = passes || request.local.length == 0 && cx.has(RcDefect::FenceForgetsEmpty);
        let mut earlier = self.send.queue.iter().take(index);
        let are_begun = earlier.all(|wqe| !wqe.request.operation.is_read_or_atomic() || wqe.acked > 0);
        let passes = passes || are_begun && cx.has(RcDefect::FenceEndsAtFirstResponse);
        let right_before = index.checked_sub(1).and_then(|before| self.send.queue.get(before));
        let is_right_behind = right_before.is_some_and(|wqe| wqe.request.operation.is_read_or_atomic());
        let passes = passes || !is_right_behind && cx.has(RcDefect::FenceLooksOneBack);
        if request.fence && pending > 0 && !passes {
            return true;
        }
        let mut limit = self.attributes.max_rd_atomic as usize;
        if self.send.retries > 0 && limit > 0 && cx.has(RcDefect::RetryLiftsMaxRdAtomic) {
            limit += 1;
        }
        request.operation.is_read_or_atomic() && limit > 0 && pending >= limit && !cx.has(RcDefect::MaxRdAtomicIgnored)
    }

    /// Returns whether the requester obeys credits and has no credit for a message. The requester then sends one
    /// packet at a time. Each packet has the AckReq bit, so that an ACK can report new credits.
    fn lacks_credit(&self, cx: &Context<'_>, index: usize) -> bool {
        let takes_receive = self.send.queue[index].request.operation.takes_receive();
        takes_receive && cx.profile.choices.obeys_credits && self.is_beyond_credits(index)
    }

    /// Returns whether a defective adapter waits for a credit that never arrives.
    fn is_stuck(&self, cx: &Context<'_>, index: usize) -> bool {
        let takes_receive = self.send.queue[index].request.operation.takes_receive();
        let is_begun = self.send.packet > 0;
        let holds = match (takes_receive, is_begun) {
            (true, false) => cx.has(RcDefect::CreditsHoldSends),
            (true, true) => cx.has(RcDefect::LimitedMessageStops),
            (false, false) => cx.has(RcDefect::CreditsHoldAll),
            (false, true) => false,
        };
        holds && self.is_beyond_credits(index)
    }

    /// Returns whether a message is beyond the credits in the last ACK.
    fn is_beyond_credits(&self, index: usize) -> bool {
        let wqe = &self.send.queue[index];
        let ssn = if wqe.first.is_some() {
            wqe.ssn
        } else {
            (self.send.messages + 1) % Psn::COUNT
        };
        let beyond = |limit: u32| limit.wrapping_sub(ssn) % Psn::COUNT >= Psn::COUNT / 2;
        self.send.credit_limit.is_some_and(beyond)
    }

    /// Returns the local error that prevents the transmission of a request.
    fn local_fault(&self, cx: &Context<'_>, request: &SendRequest) -> Option<WcStatus> {
        if request.operation.is_read_or_atomic() {
            if self.attributes.max_rd_atomic == 0 {
                return Some(WcStatus::LOC_QP_OP_ERR);
            }
            return (!cx.memory.is_writable(request.local)).then_some(WcStatus::LOC_PROT_ERR);
        }
        cx.memory
            .bytes(request.local)
            .is_none()
            .then_some(WcStatus::LOC_PROT_ERR)
    }

    /// Returns the payload length of a full request packet in bytes.
    fn segment(&self, cx: &Context<'_>) -> u32 {
        if cx.has(RcDefect::MiddleBelowPmtu) {
            self.pmtu() - 4
        } else {
            self.pmtu()
        }
    }

    /// Begins a request: assigns its PSNs and its message number.
    fn begin(&mut self, cx: &Context<'_>, index: usize) {
        let (segment, pmtu) = (self.segment(cx), self.pmtu());
        let first = self.send.next_psn;
        let wqe = &mut self.send.queue[index];
        let length = wqe.request.local.length;
        wqe.first = Some(first);
        wqe.psns = match wqe.request.operation {
            Operation::CompareSwap | Operation::FetchAdd => 1,
            Operation::Read => length.div_ceil(pmtu).max(1),
            _ => length.div_ceil(segment).max(1),
        };
        let mut taken = wqe.psns;
        if cx.has(RcDefect::ReadReservesOnePsn) && wqe.request.operation == Operation::Read {
            taken = 1;
        }
        if cx.has(RcDefect::PsnSkipsOne) {
            taken += 1;
        }
        self.send.messages = (self.send.messages + 1) % Psn::COUNT;
        wqe.ssn = self.send.messages;
        self.send.next_psn = first.plus(taken);
        self.send.packet = 0;
    }

    /// Creates packet number `packet` of a request.
    fn request_packet(&self, cx: &Context<'_>, index: usize, packet: u32, stops_here: bool) -> Transport {
        let wqe = &self.send.queue[index];
        let request = &wqe.request;
        let last = packet + 1 == wqe.packets();
        let first = wqe.first.unwrap_or_default();
        let psn = if request.operation == Operation::Read {
            first.plus(wqe.acked)
        } else {
            first.plus(packet)
        };
        let every = u32::from(cx.profile.choices.ack_request_every);
        let asks = if request.operation.is_read_or_atomic() {
            cx.profile.choices.ack_request_on_reads
        } else {
            last || stops_here || (every > 0 && packet % every == every - 1)
        };
        let mut transport = match request.operation {
            Operation::Read => self.read_packet(cx, wqe),
            Operation::CompareSwap | Operation::FetchAdd => atomic_packet(request),
            _ => self.data_packet(cx, request, packet, wqe.packets()),
        };
        let solicited = request.solicited && last && !cx.has(RcDefect::SolicitedEventIgnored);
        let is_rnr_retry = self.send.retry == Some(Retry::Rnr);
        let solicited = solicited && !(is_rnr_retry && cx.has(RcDefect::SolicitedLostInRnrRetry));
        // Only a packet that completes a receive raises a solicited event (architecture 9.2.3).
        let raises_event = !request.operation.is_read_or_atomic() && request.operation != Operation::Write;
        let opcode = transport.bth.opcode();
        transport.bth = self
            .bth()
            .with_opcode(opcode)
            .with_solicited_event(solicited && raises_event)
            .with_ack_request(asks && !cx.has(RcDefect::AckRequestMissing))
            .with_psn(self.wire_psn(cx, psn, first));
        self.spoil_retry(cx, &mut transport);
        transport
    }

    /// Creates a SEND or WRITE packet.
    fn data_packet(&self, cx: &Context<'_>, request: &SendRequest, packet: u32, packets: u32) -> Transport {
        let segment = self.segment(cx);
        let resumes = cx.has(RcDefect::ResumesAsFirst)
            && self.send.retry == Some(Retry::Timeout)
            && self.send.at == 0
            && self.send.queue.front().is_some_and(|front| front.acked == packet);
        let (is_first, is_last) = (packet == 0 || resumes, packet + 1 == packets);
        let from = packet * segment;
        let length = (request.local.length - from).min(segment);
        let bytes = cx.memory.bytes(request.local).unwrap_or_default();
        let begin = if cx.has(RcDefect::PayloadOffset16Bits) {
            from & 0xFFFF
        } else {
            from
        };
        let payload = match bytes.get(begin as usize..(begin + length) as usize) {
            Some(payload) => payload.to_vec(),
            // The memory is deregistered; only a defective adapter sends the packet.
            None => vec![0; length as usize],
        };
        let is_write = matches!(request.operation, Operation::Write | Operation::WriteImm);
        let ends_with_imm = is_last && matches!(request.operation, Operation::SendImm | Operation::WriteImm);
        let invalidates = is_last && request.operation == Operation::SendInvalidate;
        let opcode = match (is_write, is_first, is_last) {
            (false, true, true) if ends_with_imm => Opcode::RC_SEND_ONLY_IMM,
            (false, true, true) if invalidates => Opcode::RC_SEND_ONLY_INVALIDATE,
            (false, true, true) => Opcode::RC_SEND_ONLY,
            (false, true, false) => Opcode::RC_SEND_FIRST,
            (false, false, false) => Opcode::RC_SEND_MIDDLE,
            (false, false, true) if ends_with_imm => Opcode::RC_SEND_LAST_IMM,
            (false, false, true) if invalidates => Opcode::RC_SEND_LAST_INVALIDATE,
            (false, false, true) => Opcode::RC_SEND_LAST,
            (true, true, true) if ends_with_imm => Opcode::RC_WRITE_ONLY_IMM,
            (true, true, true) => Opcode::RC_WRITE_ONLY,
            (true, true, false) => Opcode::RC_WRITE_FIRST,
            (true, false, false) => Opcode::RC_WRITE_MIDDLE,
            (true, false, true) if ends_with_imm => Opcode::RC_WRITE_LAST_IMM,
            (true, false, true) => Opcode::RC_WRITE_LAST,
        };
        let dma_len = if cx.has(RcDefect::DmaLenOfPacket) {
            length
        } else {
            request.local.length
        };
        let reth = Reth::default()
            .with_va(hex64(
                request.remote_address
                    & if cx.has(RcDefect::WriteVaLow48Bits) {
                        0xFFFF_FFFF_FFFF
                    } else {
                        u64::MAX
                    },
            ))
            .with_r_key(request.r_key)
            .with_dma_len(dma_len);
        let mut transport = Transport {
            reth: (is_write && is_first).then_some(reth),
            imm: ends_with_imm.then(|| immediate(cx, request.imm)),
            ieth: invalidates.then(|| Ieth::default().with_r_key(request.r_key)),
            payload,
            ..Transport::default()
        };
        transport.bth = transport.bth.with_opcode(opcode);
        transport
    }

    /// Creates a READ request for all data, or for the missing data.
    fn read_packet(&self, cx: &Context<'_>, wqe: &Wqe) -> Transport {
        let request = &wqe.request;
        let had = wqe.acked * self.pmtu();
        let mut va = request.remote_address.wrapping_add(had.into());
        if cx.has(RcDefect::ReadRetryVaCarryLost) {
            va = request.remote_address >> 32 << 32 | va & 0xFFFF_FFFF;
        }
        let counted = match wqe.starts.last() {
            Some(&start) if cx.has(RcDefect::ReadResumedTwiceTooLong) && wqe.starts.len() > 1 => start * self.pmtu(),
            _ => had,
        };
        let mut transport = Transport {
            reth: Some(
                Reth::default()
                    .with_va(hex64(va))
                    .with_r_key(request.r_key)
                    .with_dma_len(request.local.length.saturating_sub(counted)),
            ),
            ..Transport::default()
        };
        transport.bth = transport.bth.with_opcode(Opcode::RC_READ_REQUEST);
        transport
    }

    /// Returns the PSN for the packet: `psn`, or the wrong PSN of a defect.
    fn wire_psn(&self, cx: &Context<'_>, psn: Psn, first: Psn) -> Psn {
        let odd_retry = match self.send.retry {
            Some(Retry::Rnr) => cx.has(RcDefect::RnrRetryWrongPsn),
            Some(Retry::Timeout) => cx.has(RcDefect::TimeoutRetryWrongPsn),
            None => false,
        };
        if odd_retry {
            psn.next()
        } else if cx.has(RcDefect::PsnRepeatsInMessage) {
            first
        } else if cx.has(RcDefect::PsnWrapsAt16Bits) {
            Psn(psn.0 & 0xFFFF)
        } else {
            psn
        }
    }

    /// Changes a retried request as a defective adapter does.
    fn spoil_retry(&self, cx: &Context<'_>, transport: &mut Transport) {
        if self.send.retry == Some(Retry::Timeout)
            && cx.has(RcDefect::TimeoutRetryWithoutCompare)
            && let Some(atomic) = transport.atomic
        {
            transport.atomic = Some(atomic.with_compare(hex64(0)));
        }
        if self.send.retry.is_some() && cx.has(RcDefect::MigrationLostOnRetry) {
            transport.bth = transport.bth.with_migrated(false);
        }
        if self.send.retry != Some(Retry::Rnr) {
            return;
        }
        if cx.has(RcDefect::RnrRetryWrongOpcode) && transport.bth.opcode() == Opcode::RC_SEND_ONLY {
            transport.bth = transport.bth.with_opcode(Opcode::RC_WRITE_ONLY);
            transport.reth = Some(Reth::default());
        }
        if cx.has(RcDefect::RnrRetryWrongPayload)
            && let Some(byte) = transport.payload.first_mut()
        {
            *byte ^= 0xFF;
        }
    }
}

/// Returns the immediate data of a request.
pub(crate) fn immediate(cx: &Context<'_>, imm: u32) -> ImmDt {
    let imm = if cx.has(RcDefect::ImmediateSwapped) {
        imm.swap_bytes()
    } else {
        imm
    };
    ImmDt::default().with_data(Hex32(imm))
}

fn atomic_packet(request: &SendRequest) -> Transport {
    let opcode = if request.operation == Operation::CompareSwap {
        Opcode::RC_COMPARE_SWAP
    } else {
        Opcode::RC_FETCH_ADD
    };
    let compare = if request.operation == Operation::CompareSwap {
        request.compare
    } else {
        0
    };
    let mut transport = Transport {
        atomic: Some(
            verbatim_wire::AtomicEth::default()
                .with_va(hex64(request.remote_address))
                .with_r_key(request.r_key)
                .with_swap_add(hex64(request.swap_add))
                .with_compare(hex64(compare)),
        ),
        ..Transport::default()
    };
    transport.bth = transport.bth.with_opcode(opcode);
    transport
}

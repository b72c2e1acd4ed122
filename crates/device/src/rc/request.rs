//! The responder's handling of requests: classification by PSN, format checks, and execution of SENDs (architecture
//! 9.7.4.1, 9.4.1).

use verbatim_wire::verbs::{EventKind, QpState, WcOpcode, WcStatus};
use verbatim_wire::{Bth, NakCode, Opcode, Packet, Psn, RKey};

use super::completion::Completion;
use super::defect::RcDefect;
use super::qp::{Context, Qp};
use super::receive_queue::Message;
use super::verbs::ReceiveRequest;

/// The reason why the responder does not execute a request at the expected PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// No receive is posted, or another resource is missing.
    NotReady,
    /// The request is invalid and gets this NAK.
    Nak(NakCode),
    /// A defective adapter drops the request silently.
    Silently,
}

pub(crate) const INVALID: Refused = Refused::Nak(NakCode::INVALID_REQUEST);
pub(crate) const ACCESS: Refused = Refused::Nak(NakCode::REMOTE_ACCESS);
pub(crate) const OPERATIONAL: Refused = Refused::Nak(NakCode::REMOTE_OPERATIONAL);

/// Half of the PSN space. A PSN that is 1 to `HALF` - 1 after the expected PSN shows a gap. A PSN that is `HALF` or
/// more after the expected PSN is a duplicate.
const HALF: u32 = Psn::COUNT / 2;

/// A parsed request packet.
pub(crate) struct Request<'a> {
    pub(crate) packet: &'a Packet<'a>,
    pub(crate) bth: Bth,
    pub(crate) opcode: Opcode,
    pub(crate) payload: &'a [u8],
}

impl Request<'_> {
    pub(crate) fn is_send(&self) -> bool {
        matches!(self.opcode.0, 0x00..=0x05 | 0x16 | 0x17)
    }

    pub(crate) fn is_write(&self) -> bool {
        matches!(self.opcode.0, 0x06..=0x0B)
    }

    fn begins(&self) -> bool {
        matches!(
            self.opcode,
            Opcode::RC_SEND_FIRST
                | Opcode::RC_SEND_ONLY
                | Opcode::RC_SEND_ONLY_IMM
                | Opcode::RC_SEND_ONLY_INVALIDATE
                | Opcode::RC_WRITE_FIRST
                | Opcode::RC_WRITE_ONLY
                | Opcode::RC_WRITE_ONLY_IMM
        )
    }

    pub(crate) fn ends(&self) -> bool {
        !matches!(
            self.opcode,
            Opcode::RC_SEND_FIRST | Opcode::RC_SEND_MIDDLE | Opcode::RC_WRITE_FIRST | Opcode::RC_WRITE_MIDDLE
        )
    }

    pub(crate) fn imm(&self) -> Option<u32> {
        self.packet.imm().map(|imm| imm.data().0)
    }
}

impl Qp {
    pub(crate) fn handle_request(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let is_up = matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        if !is_up && !self.hears_in_err(cx) {
            return;
        }
        if self.state == QpState::Sqd && cx.has(RcDefect::SqdDeaf) {
            return;
        }
        if self.state == QpState::Rtr && (!self.receive.heard || cx.has(RcDefect::CommEstAlways)) {
            cx.report(self.handle, EventKind::COMM_EST);
        }
        self.receive.heard = true;
        if let Some((place, bytes)) = self.receive.held_write.take() {
            cx.memory.put(place, &bytes);
        }
        let psn = request.bth.psn();
        let is_far = self.receive.expected.since(psn) > HALF / 2 && cx.has(RcDefect::DuplicateRegionHalved);
        match psn.since(self.receive.expected) {
            _ if is_far => self.handle_out_of_sequence(cx, request),
            0 => self.handle_expected(cx, request),
            1..HALF => self.handle_out_of_sequence(cx, request),
            _ => self.handle_duplicate(cx, request),
        }
    }

    fn handle_out_of_sequence(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let is_taken = match request.opcode {
            Opcode::RC_READ_REQUEST => cx.has(RcDefect::ReadBehindGapAnswered),
            Opcode::RC_FETCH_ADD => cx.has(RcDefect::FetchAddBehindGapExecuted),
            _ => false,
        };
        if is_taken || cx.has(RcDefect::OutOfSequenceExecuted) {
            self.receive.expected = request.bth.psn();
            self.handle_expected(cx, request);
            return;
        }
        if cx.profile.choices.places_ahead && request.is_write() {
            self.place_ahead(cx, request);
        }
        let was_rnr = self.receive.nak_sent && cx.has(RcDefect::GapAfterRnrNaked);
        if (self.receive.nak_sent && !cx.has(RcDefect::GapNakedTwice) && !was_rnr) || cx.has(RcDefect::GapNotNaked) {
            return;
        }
        self.receive.nak_sent = true;
        let psn = if cx.has(RcDefect::GapNakWithWrongPsn) {
            request.bth.psn()
        } else {
            self.receive.expected
        };
        let code = if cx.has(RcDefect::GapNakWithWrongCode) {
            NakCode::INVALID_REQUEST
        } else {
            NakCode::PSN_SEQUENCE_ERROR
        };
        self.send_nak(cx, psn, verbatim_wire::Syndrome::nak(code));
    }

    fn handle_expected(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let continues = (request.is_send() || request.is_write()) && !request.begins();
        let returns_data = !request.is_send() && !request.is_write();
        let stays = continues && cx.has(RcDefect::SecondGapOfMessageIgnored)
            || returns_data && cx.has(RcDefect::GapAfterReadIgnored);
        if !stays {
            self.receive.nak_sent = false;
        }
        self.receive.rnr_open = false;
        let psn = request.bth.psn();
        match self.execute(cx, request) {
            Ok(()) => {}
            Err(Refused::NotReady) if self.state == QpState::Rtr && cx.has(RcDefect::RnrNakMissingInRtr) => {}
            Err(Refused::NotReady) => {
                if cx.has(RcDefect::RnrNakAsInvalidRequest) {
                    self.refuse(cx, psn, NakCode::INVALID_REQUEST);
                } else if cx.has(RcDefect::AckWithoutReceive) && request.is_send() {
                    self.advance(cx, request);
                } else {
                    self.send_rnr_nak(cx, psn);
                }
            }
            Err(Refused::Nak(code)) => {
                // The receive in progress completes with an error. `refuse` flushes the others.
                if let Message::Send { request: receive, .. } = self.receive.message
                    && !cx.has(RcDefect::ResponderStaysUp)
                {
                    self.receive.message = Message::None;
                    self.complete_receive(cx, &receive, WcStatus::REM_INV_REQ_ERR);
                }
                self.refuse(cx, psn, code);
            }
            Err(Refused::Silently) => {}
        }
    }

    fn execute(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        if request.packet.missing_header().is_some() {
            return Err(INVALID);
        }
        self.check_order(cx, request)?;
        self.check_payload(cx, request)?;
        match request.opcode {
            _ if request.is_send() => self.execute_send(cx, request),
            _ if request.is_write() => self.execute_write(cx, request),
            Opcode::RC_READ_REQUEST => self.execute_read(cx, request),
            Opcode::RC_COMPARE_SWAP | Opcode::RC_FETCH_ADD => self.execute_atomic(cx, request),
            _ if cx.has(RcDefect::ReservedOpcodeIgnored) => {
                self.advance(cx, request);
                Ok(())
            }
            _ if cx.has(RcDefect::ReservedOpcodeWrongNak) => Err(OPERATIONAL),
            _ => Err(INVALID),
        }
    }

    /// Checks that First, Middle and Last arrive in this order, without another message in between.
    fn check_order(&self, cx: &Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        let fits = match self.receive.message {
            Message::None => request.begins() || !(request.is_send() || request.is_write()),
            Message::Send { .. } => request.is_send() && !request.begins(),
            Message::Write { .. } => request.is_write() && !request.begins(),
        };
        if fits {
            Ok(())
        } else if cx.has(RcDefect::OpcodeOrderIgnored) {
            Err(Refused::Silently)
        } else if cx.has(RcDefect::OpcodeOrderWrongNak) {
            Err(Refused::Nak(NakCode::PSN_SEQUENCE_ERROR))
        } else {
            Err(INVALID)
        }
    }

    /// Checks the payload length. First and Middle packets are full, and a Last packet is not empty. No packet exceeds
    /// the path MTU. READ requests and atomics have no payload.
    fn check_payload(&self, cx: &Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        let (length, pmtu) = (request.payload.len(), self.pmtu() as usize);
        let carries = request.is_send() || request.is_write();
        if carries && !request.ends() && length != pmtu {
            return if cx.has(RcDefect::ShortMiddleAccepted) && length < pmtu {
                Ok(())
            } else if cx.has(RcDefect::ShortMiddleWrongNak) {
                Err(OPERATIONAL)
            } else {
                Err(INVALID)
            };
        }
        let fits = match (carries, request.begins()) {
            (false, _) => length == 0 || request.opcode.name().is_none(),
            (true, true) => length <= pmtu,
            (true, false) => {
                let least = usize::from(!(request.is_write() && cx.has(RcDefect::EmptyLastTaken)));
                (least..=pmtu).contains(&length)
            }
        };
        if fits { Ok(()) } else { Err(INVALID) }
    }

    fn execute_send(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        let (receive, at) = match self.receive.message {
            Message::Send { request, at } => (request, at),
            _ => {
                if cx.has(RcDefect::ReceivesNewestFirst) && !self.receive.posted.is_empty() {
                    self.receive.posted.rotate_right(1);
                }
                if cx.has(RcDefect::InvalidatesBeforeRnrNak)
                    && self.receive.posted.is_empty()
                    && let Some(ieth) = request.packet.ieth()
                {
                    let _ = Self::invalidate(cx, ieth.r_key());
                }
                (*self.receive.posted.front().ok_or(Refused::NotReady)?, 0)
            }
        };
        let mut payload = request.payload;
        let room = (receive.local.length - at.min(receive.local.length)) as usize;
        if room == 0 && cx.has(RcDefect::EmptyReceiveTooShort) {
            self.take_receive();
            self.complete_receive(cx, &receive, WcStatus::LOC_LEN_ERR);
            return Err(INVALID);
        }
        if payload.len() > room {
            let is_within_word = payload.len() <= room.next_multiple_of(4);
            if cx.has(RcDefect::OverlongSendTruncated) || is_within_word && cx.has(RcDefect::OverlongSendWithinWord) {
                payload = &payload[..room];
            } else {
                self.take_receive();
                self.complete_receive(cx, &receive, WcStatus::LOC_LEN_ERR);
                let wrong = cx.has(RcDefect::OverlongSendWrongNak);
                return Err(if wrong { OPERATIONAL } else { INVALID });
            }
        }
        if !cx.memory.is_writable(receive.local) {
            self.take_receive();
            self.complete_receive(cx, &receive, WcStatus::LOC_PROT_ERR);
            if cx.has(RcDefect::RefusedReceiveWritten) {
                cx.memory.write(receive.local, at, payload);
            }
            let wrong = cx.has(RcDefect::ReceiveFaultAsInvalidRequest);
            return Err(if wrong { INVALID } else { OPERATIONAL });
        }
        if let Some(ieth) = request.packet.ieth()
            && let Err(refused) = Self::invalidate(cx, ieth.r_key())
        {
            return Err(refused);
        }
        let place = if cx.has(RcDefect::SendMisplaced) {
            at.saturating_sub(4)
        } else {
            at
        };
        cx.memory.write(receive.local, place, payload);
        if request.begins() {
            self.receive.posted.pop_front();
        }
        let at = at.saturating_add(payload.len() as u32);
        self.receive.message = if request.ends() {
            Message::None
        } else {
            Message::Send { request: receive, at }
        };
        if request.ends() {
            let length = if cx.has(RcDefect::ReceiveLengthOfLastPacket) {
                payload.len() as u32
            } else {
                at
            };
            let opcode = if cx.has(RcDefect::ReceiveOpcodeOfWrite) {
                WcOpcode::RECV_RDMA_WITH_IMM
            } else {
                WcOpcode::RECV
            };
            self.deliver(cx, &receive, opcode, length, request.imm());
        }
        self.advance(cx, request);
        Ok(())
    }

    /// Invalidates an R_Key, or returns the reason for a NAK.
    fn invalidate(cx: &mut Context<'_>, r_key: RKey) -> Result<(), Refused> {
        if !cx.profile.invalidate {
            return Err(INVALID);
        }
        if cx.has(RcDefect::InvalidateIgnored) {
            return Ok(());
        }
        if !cx.profile.choices.invalidates_regions || !cx.memory.invalidate(r_key) {
            return Err(ACCESS);
        }
        Ok(())
    }

    /// Removes the receive in progress, or the next one, from the queue.
    fn take_receive(&mut self) {
        let _ = self.receive.take();
    }

    /// Completes a receive with success.
    pub(crate) fn deliver(
        &self,
        cx: &mut Context<'_>,
        receive: &ReceiveRequest,
        opcode: WcOpcode,
        byte_len: u32,
        imm: Option<u32>,
    ) {
        cx.memory.settle();
        cx.told.completions.push_back(Completion {
            qp: self.handle,
            wr_id: receive.wr_id,
            status: WcStatus::SUCCESS,
            opcode,
            byte_len: if cx.has(RcDefect::ReceiveLength16Bits) {
                byte_len & 0xFFFF
            } else {
                byte_len
            },
            imm: imm.filter(|_| !cx.has(RcDefect::ImmediateLost)).map(|imm| {
                match byte_len > 1024 && cx.has(RcDefect::ImmediateBit15OfLongLost) {
                    true => imm & !0x8000,
                    false => imm,
                }
            }),
            at: cx.now,
        });
    }

    /// Advances the expected PSN after a SEND or WRITE packet, and the MSN after the last packet. Acknowledges the
    /// packet if requested.
    pub(crate) fn advance(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let psn = request.bth.psn();
        if request.begins() {
            self.receive.first = psn;
        }
        self.receive.expected = psn.next();
        self.count(cx, request.ends(), 1);
        let asked = request.bth.ack_request() && (request.ends() || !cx.has(RcDefect::AckOfLastOnly));
        if asked || cx.profile.choices.acknowledges_unasked && !cx.has(RcDefect::AckOfLastOnly) {
            self.acknowledge(cx, psn, self.receive.first);
        }
    }

    /// Adds a finished message to the MSN. Some defects add another number.
    pub(crate) fn count(&mut self, cx: &Context<'_>, ended: bool, packets: u32) {
        let by = if cx.has(RcDefect::MsnNotAdvanced) {
            0
        } else if cx.has(RcDefect::MsnCountsPackets) {
            packets
        } else if cx.has(RcDefect::MsnByTwo) {
            2 * u32::from(ended)
        } else {
            u32::from(ended)
        };
        self.receive.count_message(by);
    }
}

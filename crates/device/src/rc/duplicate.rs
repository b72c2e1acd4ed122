//! The responder's handling of duplicate requests (architecture 9.7.4.1.1, 9.7.5.1.4). The responder acknowledges a
//! SEND or WRITE without executing it again. It reads memory again for a READ, and repeats the stored result of an
//! atomic. It reports no error in a duplicate.

use verbatim_wire::verbs::WcOpcode;
use verbatim_wire::{NakCode, Opcode, Psn, Syndrome};

use super::atomic;
use super::defect::RcDefect;
use super::memory::{Denied, Right};
use super::qp::{Context, Qp};
use super::receive_queue::{Kept, KeptRequest, Message};
use super::request::Request;

impl Qp {
    pub(crate) fn handle_duplicate(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        if cx.has(RcDefect::DuplicateNaked) {
            self.send_nak(cx, self.receive.expected, Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR));
            return;
        }
        if cx.has(RcDefect::MsnAdvancedByDuplicate) {
            self.receive.count_message(1);
        }
        if cx.has(RcDefect::DuplicateFirstRestartsWrite)
            && request.opcode == Opcode::RC_WRITE_FIRST
            && let Message::Write { place, at, left } = self.receive.message
        {
            let had = self.pmtu();
            self.receive.message = Message::Write {
                place,
                at: had,
                left: (at + left).saturating_sub(had),
            };
        }
        match request.opcode {
            Opcode::RC_READ_REQUEST => self.duplicate_read(cx, request),
            Opcode::RC_COMPARE_SWAP | Opcode::RC_FETCH_ADD => self.duplicate_atomic(cx, request),
            _ if request.is_send() || request.is_write() => self.duplicate_message(cx, request),
            _ => {}
        }
    }

    fn duplicate_message(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let again = (request.is_send() && cx.has(RcDefect::DuplicateSendDelivered))
            || (request.is_write() && cx.has(RcDefect::DuplicateWriteExecuted));
        if again && self.receive.message == Message::None {
            self.execute_again(cx, request);
            return;
        }
        if request.is_write()
            && let Some(imm) = request.imm()
            && cx.has(RcDefect::DuplicateImmCompletes)
            && self.receive.message == Message::None
            && let Some(receive) = self.receive.posted.pop_front()
        {
            #[allow(clippy::cast_possible_truncation)] // a packet is shorter than 2^16 bytes
            let length = request.payload.len() as u32;
            self.deliver(cx, &receive, WcOpcode::RECV_RDMA_WITH_IMM, length, Some(imm));
        }
        let most = self.pmtu() as usize;
        if request.payload.len() > most && cx.has(RcDefect::DuplicateOverlongNaked) {
            self.refuse(cx, request.bth.psn(), NakCode::INVALID_REQUEST);
            return;
        }
        if let Some(reth) = request.packet.reth()
            && cx.has(RcDefect::DuplicateErrorNaked)
            && let Err(Denied::Key) = cx
                .memory
                .remote(reth.r_key(), reth.va().0, reth.dma_len().into(), Right::Write)
        {
            self.refuse(cx, request.bth.psn(), NakCode::REMOTE_ACCESS);
            return;
        }
        if self.receive.rnr_open && cx.has(RcDefect::DuplicateUnansweredAfterRnrNak) {
            return;
        }
        let is_unheard = cx.has(RcDefect::AckOfLastOnly) && !request.ends();
        if !request.bth.ack_request() || is_unheard || cx.has(RcDefect::DuplicateNotAcknowledged) {
            return;
        }
        let psn = if cx.has(RcDefect::DuplicateAckOldPsn) {
            request.bth.psn()
        } else {
            // A single ACK of the latest request acknowledges all received requests.
            self.receive.expected.minus(1)
        };
        let is_at_wrap = self.receive.expected == Psn(0) && cx.has(RcDefect::DuplicateAckAtWrap);
        self.send_ack(cx, if is_at_wrap { Psn(0) } else { psn });
    }

    /// Executes a duplicate again as a defective adapter does, and restores the expected PSN and the MSN.
    fn execute_again(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let (expected, msn) = (self.receive.expected, self.receive.msn);
        self.receive.expected = request.bth.psn();
        self.handle_request(cx, request);
        self.receive.expected = expected;
        self.receive.msn = msn;
    }

    fn kept(&self, psn: Psn) -> Option<&Kept> {
        let mut kept = self.receive.kept.iter().rev();
        kept.find(|kept| psn.since(kept.first) < kept.psns)
    }

    /// Handles a duplicate READ for all data, or for a tail that begins at the boundary of a response.
    fn duplicate_read(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let psn = request.bth.psn();
        let (Some(reth), Some(kept)) = (request.packet.reth(), self.kept(psn)) else {
            return;
        };
        let KeptRequest::Read { va, r_key, length } = kept.what else {
            return;
        };
        let had = psn.since(kept.first) * self.pmtu();
        let is_tail = reth.va().0 == va.wrapping_add(had.into())
            && (reth.r_key() == r_key || cx.profile.choices.repeats_read_without_r_key)
            && Some(reth.dma_len()) == length.checked_sub(had);
        if reth.r_key() != r_key && cx.has(RcDefect::DuplicateReadErrorNaked) {
            self.refuse(cx, psn, NakCode::REMOTE_ACCESS);
            return;
        }
        if !is_tail || cx.has(RcDefect::DuplicateReadDropped) {
            return;
        }
        let left = reth.dma_len();
        let data = if left == 0 {
            Vec::new()
        } else {
            let Ok(place) = cx.memory.remote(r_key, reth.va().0, left.into(), Right::Read) else {
                return;
            };
            cx.memory.get(place, left as usize).to_vec()
        };
        let msn = self.receive.msn;
        self.send_read_responses(cx, psn, &data, msn);
    }

    fn duplicate_atomic(&mut self, cx: &mut Context<'_>, request: &Request<'_>) {
        let psn = request.bth.psn();
        let (Some(header), Some(kept)) = (request.packet.atomic(), self.kept(psn)) else {
            return;
        };
        let KeptRequest::Atomic {
            opcode,
            va,
            r_key,
            original,
        } = kept.what
        else {
            return;
        };
        let is_same = opcode == request.opcode && va == header.va().0 && r_key == header.r_key();
        let newest = self.receive.kept.iter().map(|kept| kept.first).next_back();
        let is_forgotten = cx.has(RcDefect::AtomicReplayNewestOnly) && newest != Some(psn);
        if !is_same && cx.has(RcDefect::DuplicateAtomicOtherExecuted) {
            if let Ok(place) = cx.memory.remote(header.r_key(), header.va().0, 8, Right::Atomic) {
                let shown = atomic::perform(cx, place, request.opcode, &header);
                self.send_atomic_ack(cx, psn, shown);
            }
            return;
        }
        if !is_same || is_forgotten || cx.has(RcDefect::DuplicateAtomicDropped) {
            return;
        }
        let again = cx.has(RcDefect::DuplicateAtomicExecuted)
            || cx.has(RcDefect::CompareSwapExecutedAgain) && opcode == Opcode::RC_COMPARE_SWAP;
        let place = cx.memory.remote(r_key, va, 8, Right::Atomic);
        let of_any = cx.told.originals.iter().rev().find(|(one, _)| *one == psn);
        let original = match of_any {
            Some((_, other)) if cx.has(RcDefect::DuplicateAtomicOfAnyQp) => *other,
            _ => original,
        };
        let shown = match place {
            Ok(place) if again => atomic::perform(cx, place, opcode, &header),
            Ok(place) if cx.has(RcDefect::DuplicateAtomicShowsMemory) => atomic::load(cx, place),
            _ => original,
        };
        if cx.has(RcDefect::AtomicReplayedOnce) {
            self.receive.kept.retain(|kept| kept.first != psn);
        }
        self.send_atomic_ack(cx, psn, shown);
    }
}

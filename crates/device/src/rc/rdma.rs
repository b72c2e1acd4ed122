//! The responder's execution of WRITE, READ and atomics, with their access checks (architecture 9.4.3 to 9.4.5,
//! 9.7.4.1.5, 9.7.4.1.6).

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::verbs::WcOpcode;
use verbatim_wire::{Opcode, RKey};

use super::defect::RcDefect;
use super::memory::{Denied, Place, Right};
use super::qp::{Context, MAX_MESSAGE, Qp};
use super::receive_queue::{Kept, KeptRequest, Message};
use super::request::{ACCESS, INVALID, OPERATIONAL, Refused, Request};

/// Time after the first arrival of a READ or atomic during which the responder lacks a resource. This time is
/// shorter than the shortest RNR interval.
const PUT_OFF: Duration = Duration::from_micros(5);

impl Qp {
    /// Returns the place of a remote range, if the region grants the access.
    fn remote(&self, cx: &Context<'_>, r_key: RKey, va: u64, length: u32, right: Right) -> Result<Place, Refused> {
        let denied = match cx.memory.remote(r_key, va, length.into(), right) {
            Ok(place) => return Ok(place),
            Err(denied) => denied,
        };
        if right != Right::Write
            && cx.has(RcDefect::InvalidateSparesReads)
            && let Some(place) = cx.memory.without_key(va)
        {
            return Ok(place);
        }
        if cx.has(RcDefect::BoundsOffByOne)
            && let Ok(place) = cx.memory.remote(r_key, va, u64::from(length).saturating_sub(1), right)
        {
            return Ok(place);
        }
        if cx.has(RcDefect::AddressLow32Bits)
            && let Some(place) = cx.memory.by_low_address(r_key, va, length.into(), right)
        {
            return Ok(place);
        }
        if cx.has(RcDefect::RKeyLowByteIgnored) {
            let mut keys = (0..=0xFF).map(|low| RKey(r_key.0 & !0xFF | low));
            if let Some(place) = keys.find_map(|key| cx.memory.remote(key, va, length.into(), right).ok()) {
                return Ok(place);
            }
        }
        let (ignored, wrong_nak) = match denied {
            Denied::Key => (RcDefect::RKeyIgnored, RcDefect::RKeyWrongNak),
            Denied::Bounds => (RcDefect::BoundsIgnored, RcDefect::BoundsWrongNak),
            Denied::Right => (RcDefect::RegionRightIgnored, RcDefect::RegionRightWrongNak),
        };
        if cx.has(ignored)
            && let Some(place) = cx.memory.by_address(va)
        {
            return Ok(place);
        }
        Err(if cx.has(wrong_nak) { INVALID } else { ACCESS })
    }

    /// Checks that the queue pair grants a right to the peer.
    fn check_right(&self, cx: &Context<'_>, right: Right) -> Result<(), Refused> {
        let access = self.attributes.access;
        let allowed = match right {
            Right::Write => access.remote_write,
            Right::Read => access.remote_read,
            Right::Atomic => access.remote_atomic,
        };
        if allowed || cx.has(RcDefect::QpRightIgnored) {
            Ok(())
        } else if cx.has(RcDefect::QpRightWrongNak) {
            Err(ACCESS)
        } else {
            Err(INVALID)
        }
    }

    /// Stores the payload of a WRITE packet that follows a PSN gap. Does nothing if the address of the payload is
    /// unknown or the access is denied.
    pub(crate) fn place_ahead(&self, cx: &mut Context<'_>, request: &Request<'_>) {
        let ahead = request.bth.psn().since(self.receive.expected);
        let place = match (request.packet.reth(), self.receive.message) {
            (Some(reth), _) => {
                let place = self.remote(cx, reth.r_key(), reth.va().0, reth.dma_len(), Right::Write);
                place.ok().filter(|_| reth.dma_len() as usize >= request.payload.len())
            }
            (None, Message::Write { place, at, left }) => {
                let from = ahead.saturating_mul(self.pmtu());
                let fits = u64::from(from) + request.payload.len() as u64 <= u64::from(left);
                place.filter(|_| fits).map(|place| behind(place, at + from))
            }
            (None, _) => None,
        };
        if let Some(place) = place.filter(|_| self.check_right(cx, Right::Write).is_ok()) {
            cx.memory.put(place, request.payload);
        }
    }

    pub(crate) fn execute_write(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        let continues = matches!(self.receive.message, Message::Write { .. });
        let (place, at, left) = match self.receive.message {
            Message::Write { place, at, left } => (place, at, left),
            _ => self.begin_write(cx, request)?,
        };
        let offset = if cx.has(RcDefect::WriteOffset16Bits) {
            at & 0xFFFF
        } else {
            at
        };
        let own = place.map(|place| behind(place, offset));
        let target = if continues && own.is_some() && cx.has(RcDefect::WritePlaceShared) {
            cx.told.next_write
        } else {
            own
        };
        let payload = request.payload;
        let length = payload.len() as u32;
        let wrong = length > left || (request.ends() && length != left);
        let is_last = matches!(request.opcode, Opcode::RC_WRITE_LAST | Opcode::RC_WRITE_LAST_IMM);
        let is_near = is_last && length.next_multiple_of(4) == left.next_multiple_of(4);
        if wrong && !cx.has(RcDefect::DmaLenIgnored) && !(is_near && cx.has(RcDefect::DmaLenInWords)) {
            if cx.has(RcDefect::RefusedWriteExecuted)
                && let Some(place) = place
            {
                cx.memory.put(behind(place, at), payload);
            }
            return Err(if cx.has(RcDefect::DmaLenWrongNak) {
                ACCESS
            } else {
                INVALID
            });
        }
        let wants_receive = request.imm().is_some();
        let is_ready = !self.receive.posted.is_empty();
        if (wants_receive || cx.has(RcDefect::RnrNakOnWrite)) && !is_ready {
            if cx.profile.choices.writes_before_rnr_nak
                && let Some(place) = place
            {
                cx.memory.put(behind(place, at), payload);
            }
            return Err(Refused::NotReady);
        }
        if let Some(target) = target {
            if cx.has(RcDefect::AckBeforeExecution) {
                self.receive.held_write = Some((target, payload.to_vec()));
            } else {
                cx.memory
                    .put_late(target, payload, cx.now, cx.profile.choices.write_delay);
            }
            cx.told.next_write = Some(behind(target, length));
        }
        let (at, left) = (at.saturating_add(length), left.saturating_sub(length));
        self.receive.message = if request.ends() {
            Message::None
        } else {
            Message::Write { place, at, left }
        };
        let completes = (wants_receive && !cx.has(RcDefect::WriteImmTakesNoReceive))
            || (request.ends() && cx.has(RcDefect::WriteTakesReceive));
        if completes && let Some(receive) = self.receive.posted.pop_front() {
            let imm = request.imm();
            self.deliver(cx, &receive, WcOpcode::RECV_RDMA_WITH_IMM, at, imm);
        }
        self.advance(cx, request);
        Ok(())
    }

    fn begin_write(&self, cx: &Context<'_>, request: &Request<'_>) -> Result<(Option<Place>, u32, u32), Refused> {
        let reth = request.packet.reth().ok_or(INVALID)?;
        let is_odd = request.opcode == Opcode::RC_WRITE_ONLY_IMM;
        if !is_odd || !cx.has(RcDefect::WriteImmRightIgnored) {
            self.check_right(cx, Right::Write)?;
        }
        let length = reth.dma_len();
        if length > MAX_MESSAGE {
            return Err(INVALID);
        }
        if length == 0 && !cx.has(RcDefect::ZeroLengthRKeyChecked) {
            return Ok((None, 0, 0));
        }
        let place = self.remote(cx, reth.r_key(), reth.va().0, length, Right::Write)?;
        Ok((Some(place), 0, length))
    }

    pub(crate) fn execute_read(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        let reth = request.packet.reth().ok_or(INVALID)?;
        self.check_right(cx, Right::Read)?;
        let (va, r_key, length) = (reth.va().0, reth.r_key(), reth.dma_len());
        if length > MAX_MESSAGE || !self.answers_reads() && !cx.has(RcDefect::MaxDestRdAtomic0Answers) {
            return Err(INVALID);
        }
        self.take_resource(cx, request)?;
        let data = if length == 0 && !cx.has(RcDefect::ZeroLengthRKeyChecked) {
            Vec::new()
        } else {
            let place = self.remote(cx, r_key, va, length, Right::Read)?;
            cx.memory.get(place, length as usize).to_vec()
        };
        let psn = request.bth.psn();
        let psns = length.div_ceil(self.pmtu()).max(1);
        self.keep(
            cx,
            Kept {
                first: psn,
                psns,
                what: KeptRequest::Read { va, r_key, length },
            },
        );
        self.receive.expected = psn.plus(psns);
        let before = self.receive.msn;
        self.count(cx, true, psns);
        let after = self.receive.msn;
        if !request.bth.ack_request() && cx.has(RcDefect::ReadWithoutAckReqUnanswered) {
            return Ok(());
        }
        if !cx.profile.choices.read_counts_on_acceptance {
            self.receive.msn = before;
        }
        self.send_read_responses(cx, psn, &data, after);
        self.receive.answering.push_back(self.receive.busy_until);
        Ok(())
    }

    /// Reserves a resource for a READ or atomic. Resources of responses that have left are free again.
    fn take_resource(&mut self, cx: &Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        let psn = request.bth.psn();
        let since = match self.receive.put_off {
            Some((of, since)) if of == psn => since,
            _ => cx.now,
        };
        self.receive.put_off = Some((psn, since));
        if cx.profile.choices.puts_reads_off && cx.now < since + PUT_OFF {
            return Err(Refused::NotReady);
        }
        self.receive.answering.retain(|left| *left > cx.now);
        let most = usize::from(self.attributes.max_dest_rd_atomic);
        let is_beyond = self.receive.answering.len() >= most.max(1);
        if is_beyond && cx.profile.choices.refuses_beyond_resources {
            return Err(INVALID);
        }
        Ok(())
    }

    /// Returns whether the queue pair accepts READs and atomics.
    fn answers_reads(&self) -> bool {
        self.attributes.max_dest_rd_atomic > 0
    }

    /// Stores a READ or atomic for its duplicates. Discards the oldest ones if there is no space.
    fn keep(&mut self, cx: &Context<'_>, kept: Kept) {
        let mut room = self.attributes.max_dest_rd_atomic as usize;
        if cx.has(RcDefect::KeptByMaxRdAtomic) {
            room = room.min(self.attributes.max_rd_atomic as usize);
        }
        let places = |kept: &Kept| {
            let is_long = matches!(kept.what, KeptRequest::Read { .. }) && kept.psns > 1;
            1 + usize::from(is_long && cx.has(RcDefect::ReadKeptTwice))
        };
        let needed = places(&kept) - 1;
        let taken = |all: &VecDeque<Kept>| all.iter().map(places).sum::<usize>();
        while !self.receive.kept.is_empty() && taken(&self.receive.kept) + needed >= room.max(1) {
            self.receive.kept.pop_front();
        }
        self.receive.kept.push_back(kept);
    }

    pub(crate) fn execute_atomic(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Result<(), Refused> {
        if !cx.profile.atomics {
            return Err(INVALID);
        }
        let atomic = request.packet.atomic().ok_or(INVALID)?;
        self.check_right(cx, Right::Atomic)?;
        if !self.answers_reads() {
            return Err(INVALID);
        }
        let va = atomic.va().0;
        if va % 8 != 0 && !cx.has(RcDefect::UnalignedAtomicAccepted) {
            let wrong = cx.has(RcDefect::UnalignedAtomicWrongNak);
            return Err(if wrong { OPERATIONAL } else { INVALID });
        }
        let place = self.remote(cx, atomic.r_key(), va, 8, Right::Atomic)?;
        self.take_resource(cx, request)?;
        let original = super::atomic::perform(cx, place, request.opcode, &atomic);
        let psn = request.bth.psn();
        if cx.has(RcDefect::DuplicateAtomicOfAnyQp) {
            cx.told.originals.push((psn, original));
        }
        self.keep(
            cx,
            Kept {
                first: psn,
                psns: 1,
                what: KeptRequest::Atomic {
                    opcode: request.opcode,
                    va,
                    r_key: atomic.r_key(),
                    original,
                },
            },
        );
        self.receive.expected = psn.next();
        self.count(cx, true, 1);
        if !request.bth.ack_request() && cx.has(RcDefect::ReadWithoutAckReqUnanswered) {
            return Ok(());
        }
        self.send_atomic_ack(cx, psn, original);
        self.receive.answering.push_back(self.receive.busy_until);
        Ok(())
    }
}

/// Returns the place that is `bytes` bytes after `place`.
fn behind(place: Place, bytes: u32) -> Place {
    Place {
        offset: place.offset + bytes as usize,
        ..place
    }
}

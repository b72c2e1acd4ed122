//! Requests posted to the DUT, and the packets that the DUT must send for them.
//!
//! Packets are compared by PSN: every PSN of the dialogue belongs to one packet of one request. The comparison
//! therefore finds missing, misplaced and wrong packets. A retransmission must equal the packet that it repeats.

use core::fmt::Write as _;

use verbatim_record::VerbsDone;
use verbatim_record::verbs::pb;
use verbatim_wire::packet::{Opcode, Packet, Psn};

use super::psns;

/// Request that the DUT accepted.
#[derive(Clone, Debug)]
pub struct Posted<'t> {
    /// Command that posted the request.
    pub command: &'t VerbsDone,
    /// Parameters of the request.
    pub post: &'t pb::PostSend,
    /// First PSN of the request.
    pub first: Psn,
    /// Number of PSNs that the request takes.
    pub psns: u32,
    /// Bytes of the local memory at the time of posting, if known.
    data: Option<&'t [u8]>,
}

impl<'t> Posted<'t> {
    /// Returns the request of a command. Takes its first PSN, the bytes of its local memory if known, and the path MTU
    /// in bytes.
    pub fn new(
        (command, post): (&'t VerbsDone, &'t pb::PostSend),
        first: Psn,
        (data, mtu): (Option<&'t [u8]>, u32),
    ) -> Self {
        let local = post.local.unwrap_or_default();
        Self {
            command,
            post,
            first,
            psns: psns(post.operation(), local.length, mtu),
            data,
        }
    }

    /// Returns the last PSN of the request.
    pub fn last(&self) -> Psn {
        self.first.plus(self.psns - 1)
    }

    /// Returns whether the response carries data.
    pub fn has_response_data(&self) -> bool {
        matches!(
            self.post.operation(),
            pb::Operation::Read | pb::Operation::CompareSwap | pb::Operation::FetchAdd
        )
    }

    fn length(&self) -> u32 {
        self.post.local.map_or(0, |local| local.length)
    }

    /// Returns operation and length in words.
    pub fn in_words(&self) -> String {
        let operation = self.post.operation().as_str_name().replace("OPERATION_", "");
        format!("{operation} of {} bytes", self.length())
    }

    fn opcode(&self, at: u32) -> Opcode {
        use pb::Operation as O;
        let ends = at + 1 == self.psns;
        match (self.post.operation(), at == 0, ends) {
            (O::Read, ..) => Opcode::RC_READ_REQUEST,
            (O::CompareSwap, ..) => Opcode::RC_COMPARE_SWAP,
            (O::FetchAdd, ..) => Opcode::RC_FETCH_ADD,
            (O::Write | O::WriteImm, true, false) => Opcode::RC_WRITE_FIRST,
            (O::Write | O::WriteImm, false, false) => Opcode::RC_WRITE_MIDDLE,
            (O::Write, false, true) => Opcode::RC_WRITE_LAST,
            (O::Write, true, true) => Opcode::RC_WRITE_ONLY,
            (O::WriteImm, false, true) => Opcode::RC_WRITE_LAST_IMM,
            (O::WriteImm, true, true) => Opcode::RC_WRITE_ONLY_IMM,
            (O::SendImm, false, true) => Opcode::RC_SEND_LAST_IMM,
            (O::SendImm, true, true) => Opcode::RC_SEND_ONLY_IMM,
            (O::SendInvalidate, false, true) => Opcode::RC_SEND_LAST_INVALIDATE,
            (O::SendInvalidate, true, true) => Opcode::RC_SEND_ONLY_INVALIDATE,
            (_, true, false) => Opcode::RC_SEND_FIRST,
            (_, false, false) => Opcode::RC_SEND_MIDDLE,
            (_, false, true) => Opcode::RC_SEND_LAST,
            (_, true, true) => Opcode::RC_SEND_ONLY,
        }
    }

    /// Returns the packet at PSN offset `at`: its headers in words, the payload's length in bytes, and the payload if
    /// known. A READ that is repeated from this offset requests only the bytes from there on.
    pub fn packet(&self, at: u32, mtu: u32) -> (String, u32, Option<&[u8]>) {
        let (post, opcode) = (self.post, self.opcode(at));
        let (from, has) = (at * mtu, opcode.headers());
        let mut words = format!("{opcode} PSN {}", self.first.plus(at));
        let takes_event = !self.has_response_data() && post.operation() != pb::Operation::Write;
        if post.solicited && takes_event && at + 1 == self.psns {
            words.push_str(" SE");
        }
        let va = post.remote_address;
        if has.reth() {
            let resumed = if self.has_response_data() { from } else { 0 };
            let (va, length) = (va + u64::from(resumed), self.length() - resumed);
            let _ = write!(words, " VA {va:#x} R_Key {:#x} DMALen {length}", post.r_key);
        }
        if has.atomic() {
            let _ = write!(words, " VA {va:#x} R_Key {:#x} SwapDt {:#x}", post.r_key, post.swap_add);
        }
        if opcode == Opcode::RC_COMPARE_SWAP {
            let _ = write!(words, " CmpDt {:#x}", post.compare);
        }
        if has.imm() {
            let _ = write!(words, " ImmDt {:#x}", post.imm);
        }
        if has.ieth() {
            let _ = write!(words, " invalidates R_Key {:#x}", post.r_key);
        }
        let until = (from + mtu).min(self.length());
        let sent = if self.has_response_data() {
            from..from
        } else {
            from..until
        };
        let payload = self
            .data
            .and_then(|data| data.get(sent.start as usize..sent.end as usize));
        (words, sent.end - sent.start, payload)
    }
}

/// Returns the headers of a packet in the same format as [`Posted::packet`].
pub fn seen_in_words(packet: &Packet<'_>) -> String {
    let bth = packet.bth();
    let mut words = format!("{} PSN {}", bth.opcode(), bth.psn());
    if bth.solicited_event() {
        words.push_str(" SE");
    }
    if let Some(reth) = packet.reth() {
        let (va, r_key) = (reth.va().0, reth.r_key().0);
        let _ = write!(words, " VA {va:#x} R_Key {r_key:#x} DMALen {}", reth.dma_len());
    }
    if let Some(atomic) = packet.atomic() {
        let (va, r_key, swap) = (atomic.va().0, atomic.r_key().0, atomic.swap_add().0);
        let _ = write!(words, " VA {va:#x} R_Key {r_key:#x} SwapDt {swap:#x}");
        if bth.opcode() == Opcode::RC_COMPARE_SWAP {
            let _ = write!(words, " CmpDt {:#x}", atomic.compare().0);
        }
    }
    if let Some(imm) = packet.imm() {
        let _ = write!(words, " ImmDt {:#x}", imm.data().0);
    }
    if let Some(ieth) = packet.ieth() {
        let _ = write!(words, " invalidates R_Key {:#x}", ieth.r_key().0);
    }
    if let Some(name) = packet.missing_header() {
        let _ = write!(words, ", too short for its {name}");
    }
    words
}

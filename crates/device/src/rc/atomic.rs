//! CmpSwap and FetchAdd on the responder's memory (architecture 9.4.5). The host stores numbers in little-endian
//! order here. Numbers on the wire are big-endian.

use verbatim_wire::{AtomicEth, Opcode};

use super::defect::RcDefect;
use super::memory::Place;
use super::qp::Context;

/// Executes the operation. Returns the original value.
pub(crate) fn perform(cx: &mut Context<'_>, place: Place, opcode: Opcode, atomic: &AtomicEth) -> u64 {
    let original = load(cx, place);
    let (swap_add, compare) = (atomic.swap_add().0, atomic.compare().0);
    let new = if opcode == Opcode::RC_COMPARE_SWAP {
        let equal = if cx.has(RcDefect::CompareLow32Bits) {
            original & 0xFFFF_FFFF == compare & 0xFFFF_FFFF
        } else {
            original == compare
        };
        let swaps = (equal || cx.has(RcDefect::CompareIgnored)) && !cx.has(RcDefect::SwapNever);
        let is_lost = swap_add == 0 && cx.has(RcDefect::SwapOf0Lost);
        if swaps && !is_lost { swap_add } else { original }
    } else if cx.has(RcDefect::FetchAddStores) {
        swap_add
    } else if cx.has(RcDefect::FetchAddLow32Bits) {
        original & !0xFFFF_FFFF | original.wrapping_add(swap_add) & 0xFFFF_FFFF
    } else {
        original.wrapping_add(swap_add)
    };
    if !cx.has(RcDefect::AtomicNotExecuted) {
        cx.memory.put(place, &new.to_le_bytes());
    }
    if cx.has(RcDefect::AtomicOriginalIsNew) {
        new
    } else {
        original
    }
}

pub(crate) fn load(cx: &Context<'_>, place: Place) -> u64 {
    let mut bytes = [0; 8];
    let there = cx.memory.get(place, 8);
    bytes[..there.len()].copy_from_slice(there);
    u64::from_le_bytes(bytes)
}

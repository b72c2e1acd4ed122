//! Lists of capabilities that a host reports of its device. An empty list means that the host did not report.

use std::borrow::Cow;

use verbatim_wire::packet::Opcode;

use super::verbs::pb::{Capabilities, Opened, Operation};

/// Operations that occupy a resource for READs and atomics.
const READS: [Operation; 3] = [Operation::Read, Operation::CompareSwap, Operation::FetchAdd];

/// Returns the capabilities of an opened device. Without resources for READs and atomics (`max_qp_init_rd_atom` or
/// `max_qp_rd_atom` is 0), the device supports none of them as requester or responder.
#[must_use]
pub fn capabilities(opened: &Opened) -> Option<Cow<'_, Capabilities>> {
    let has = opened.capabilities.as_deref();
    if opened.max_qp_init_rd_atom > 0 && opened.max_qp_rd_atom > 0 {
        return has.map(Cow::Borrowed);
    }
    let mut has = has.cloned().unwrap_or_default();
    for (most, listed) in [
        (opened.max_qp_init_rd_atom, &mut has.operations),
        (opened.max_qp_rd_atom, &mut has.answers),
    ] {
        if most > 0 {
            continue;
        }
        let all = (1..).map_while(|number| Operation::try_from(number).ok());
        let without = all.filter(|of| !READS.contains(of) && takes(listed, *of));
        let without: Vec<i32> = without.map(Into::into).collect();
        // An empty list would mean all operations.
        if !without.is_empty() {
            *listed = without;
        }
    }
    Some(Cow::Owned(has))
}

/// Returns whether the list contains this value or is empty.
#[must_use]
pub fn takes_value(listed: &[u32], value: u8) -> bool {
    listed.is_empty() || listed.contains(&value.into())
}

/// Returns whether the list contains this capability or is empty.
#[must_use]
pub fn takes(listed: &[i32], one: impl Into<i32>) -> bool {
    listed.is_empty() || listed.contains(&one.into())
}

/// Returns the operation that a request packet's opcode implies on a reliable connection. For a first or middle
/// packet of a message, returns `Send` or `Write`. Only the last packet shows whether the message has immediate
/// data or invalidates an R_Key.
#[must_use]
pub fn asks_for(opcode: Opcode) -> Option<Operation> {
    if !opcode.is_request() {
        return None;
    }
    match opcode.0 & 0x1F {
        0x00..=0x02 | 0x04 => Some(Operation::Send),
        0x03 | 0x05 => Some(Operation::SendImm),
        0x16 | 0x17 => Some(Operation::SendInvalidate),
        0x06..=0x08 | 0x0A => Some(Operation::Write),
        0x09 | 0x0B => Some(Operation::WriteImm),
        0x0C => Some(Operation::Read),
        0x13 => Some(Operation::CompareSwap),
        0x14 => Some(Operation::FetchAdd),
        _ => None,
    }
}

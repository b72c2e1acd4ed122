//! Lists of capabilities that a host reports of its device. An empty list means that the host did not report.

use verbatim_wire::packet::Opcode;

use super::verbs::pb::Operation;

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

//! Lists of capabilities that a host reports of its device. An empty list reports nothing.

use verbatim_wire::packet::Opcode;

use super::verbs::pb::Operation;

/// Whether a list of values has this one; an empty list says nothing.
#[must_use]
pub fn takes_value(listed: &[u32], value: u8) -> bool {
    listed.is_empty() || listed.contains(&value.into())
}

/// Whether a list of capabilities has this one; an empty list says nothing.
#[must_use]
pub fn takes(listed: &[i32], one: impl Into<i32>) -> bool {
    listed.is_empty() || listed.contains(&one.into())
}

/// The operation of a request packet on a reliable connection, as far as its opcode tells.
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

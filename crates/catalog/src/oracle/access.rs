//! What the device's memory does not allow the peer, as the record knows its regions.
//!
//! Source: architecture 9.7.5.2.5 (remote access errors), 10.6.3 (regions and their rights).

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Side, Time, Trace};
use verbatim_tester::peer::asks_for;
use verbatim_wire::packet::{Opcode, Packet, RKey};

use super::heard::Asks;
use crate::transport::rc::offers;

/// A region that the device's host registered.
struct Region {
    handle: u32,
    r_key: RKey,
    /// The addresses in it.
    addresses: core::ops::Range<u64>,
    access: pb::Access,
    /// When it was gone for certain.
    gone: Option<Time>,
}

/// All regions of a record. What may allow a request does: which of two regions with one R_Key is meant is not known, nor
/// whether a SEND with Invalidate has come.
pub(super) struct Regions<'t> {
    trace: &'t Trace,
    all: Vec<Region>,
    /// Whether the device says that it has no atomics.
    is_without_atomics: bool,
}

impl<'t> Regions<'t> {
    pub(super) fn of(trace: &'t Trace) -> Self {
        let mut is_without_atomics = false;
        let mut regions: Vec<Region> = Vec::new();
        for done in trace.timeline.commands.iter().filter(|done| done.side == Side::Dut) {
            match (&done.command, &done.answer) {
                (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) => regions.push(Region {
                    handle: made.memory,
                    r_key: RKey(made.r_key),
                    addresses: made.address..made.address.saturating_add(asked.length.into()),
                    access: asked.access.unwrap_or_default(),
                    gone: None,
                }),
                (Command::DeregisterMemory(of), Some((told, _, reply, _))) if !matches!(reply, Reply::Refused(_)) => {
                    for region in regions.iter_mut().filter(|region| region.handle == of.memory) {
                        region.gone.get_or_insert(told.latest);
                    }
                }
                (_, Some((_, _, Reply::Opened(facts), _))) => is_without_atomics |= !facts.atomics,
                _ => {}
            }
        }
        Self {
            trace,
            all: regions,
            is_without_atomics,
        }
    }

    /// Whether the device does such requests at all; one that it does not is invalid, whatever memory it names.
    fn executes(&self, opcode: Opcode) -> bool {
        let is_atomic = Asks::of(opcode) == Asks::Atomic;
        let executes = |operation| offers::executes(self.trace, operation);
        asks_for(opcode).is_some_and(executes) && !(is_atomic && self.is_without_atomics)
    }

    /// Why no region allows a request that left at that time on a queue pair with these rights; `None` when one may, and
    /// where the device has no such operation or the queue pair itself lacks the right, which is another error.
    pub(super) fn denies(&self, packet: &Packet<'_>, at: Time, of_qp: pb::Access) -> Option<&'static str> {
        let why = self.of_memory(packet, at, of_qp);
        why.filter(|_| self.executes(packet.opcode()))
    }

    fn of_memory(&self, packet: &Packet<'_>, at: Time, of_qp: pb::Access) -> Option<&'static str> {
        type Right = fn(pb::Access) -> bool;
        let right: Right = match Asks::of(packet.opcode()) {
            Asks::Write(_) => |access| access.remote_write,
            Asks::Read => |access| access.remote_read,
            Asks::Atomic => |access| access.remote_atomic,
            Asks::Send(_) | Asks::Other => return None,
        };
        let (va, length, r_key) = match (packet.reth(), packet.atomic()) {
            (Some(reth), _) => (reth.va().0, u64::from(reth.dma_len()), reth.r_key()),
            (None, Some(atomic)) => (atomic.va().0, 8, atomic.r_key()),
            (None, None) => return None,
        };
        // The R_Key of a request of no bytes is not looked at.
        if length == 0 || !right(of_qp) {
            return None;
        }
        let is_there = |region: &&Region| region.gone.is_none_or(|gone| gone >= at);
        let mut of_key = self.all.iter().filter(|region| region.r_key == r_key).peekable();
        if of_key.peek().is_none() {
            return Some("whose R_Key is of no region");
        }
        let mut of_key = of_key.filter(is_there).peekable();
        if of_key.peek().is_none() {
            return Some("whose region was deregistered");
        }
        let is_within = |region: &&Region| {
            let end = va.checked_add(length);
            region.addresses.start <= va && end.is_some_and(|end| end <= region.addresses.end)
        };
        let mut within = of_key.filter(is_within).peekable();
        if within.peek().is_none() {
            return Some("which reaches beyond its region");
        }
        (!within.any(|region| right(region.access))).then_some("whose region has not that right")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use verbatim_record::{Entry, read_file};

    use super::*;
    use crate::oracle::record::connections;

    /// The rules that the packets of a golden record break when what the host was asked and told is altered.
    fn broken(record: &str, alter: impl Fn(&mut Command, &mut [Reply])) -> Vec<&'static str> {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let mut entries = read_file(&golden.join(format!("{record}.rec"))).unwrap();
        let mut replies: Vec<Reply> = Vec::new();
        for entry in &mut entries {
            match entry {
                Entry::VerbsAsked(asked) => alter(&mut asked.command, &mut replies),
                Entry::VerbsAnswered(answered) => {
                    let mut told = [answered.reply.clone()];
                    alter(&mut Command::Open(pb::Open {}), &mut told);
                    [answered.reply] = told;
                }
                _ => {}
            }
        }
        let trace = Trace::new(entries).unwrap();
        let all = connections(&trace);
        let mut names: Vec<&str> = all
            .iter()
            .flat_map(|connection| &connection.findings)
            .filter(|finding| finding.unless.is_none())
            .map(|finding| finding.rule.name)
            .collect();
        names.dedup();
        names
    }

    #[test]
    fn what_no_region_allows_is_never_acknowledged() {
        const WRITES: &str = "c09-060-write-responder";
        assert_eq!(broken(WRITES, |_, _| {}), [""; 0]);
        let without_right = broken(WRITES, |command, _| {
            if let Command::RegisterMemory(of) = command {
                of.access.get_or_insert_default().remote_write = false;
            }
        });
        assert_eq!(without_right, ["remote-access"]);
        let of_other_key = broken(WRITES, |_, replies| {
            if let [Reply::Memory(made)] = replies {
                made.r_key ^= 1;
            }
        });
        assert_eq!(of_other_key, ["remote-access"]);
        let too_short = broken("c09-060-read-responder", |command, _| {
            if let Command::RegisterMemory(of) = command {
                of.length = 1024;
            }
        });
        assert_eq!(too_short, ["remote-access"]);
        // What the queue pair does not allow is another error.
        let of_qp = broken(WRITES, |command, replies| {
            if let Command::ModifyQp(of) = command
                && let Some(access) = of.attributes.as_mut().and_then(|given| given.access.as_mut())
            {
                access.remote_write = false;
            }
            if let [Reply::Memory(made)] = replies {
                made.r_key ^= 1;
            }
        });
        assert_eq!(of_qp, [""; 0]);
    }
}

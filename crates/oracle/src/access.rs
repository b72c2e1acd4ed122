//! Checks whether the device's memory and queue pairs allow the peer's requests, as far as the record shows.
//!
//! Source: architecture 9.7.5.2.4 (invalid requests), 9.7.5.2.5 (remote access errors), 10.6.3 (regions and their
//! rights).

use std::collections::BTreeSet;

use verbatim_record::verbs::asks_for;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Side, Trace};
use verbatim_wire::packet::{Medium, Opcode, Packet, RKey};

use super::parsed::RequestKind;
use crate::rc::offers;

/// Memory region that the device's host registered.
struct Region {
    handle: u32,
    r_key: RKey,
    addresses: core::ops::Range<u64>,
    access: pb::Access,
    /// Position in the record after which the region is certainly deregistered. `None`: the region may still exist.
    gone: Option<usize>,
    /// Whether the host ever requested to deregister the region.
    goes: bool,
}

/// Remote access rights of a queue pair. Each element of `given` has the rights that a command set, and the
/// position in the record after which they certainly apply. With `answers_none`, the queue pair accepts no READs
/// and no atomics.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    pub(super) given: Vec<(pb::Access, usize)>,
    pub(super) answers_none: bool,
}

/// Result of the access checks of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Allows {
    /// Reason why the queue pair does not accept the request.
    pub(super) invalid: Option<&'static str>,
    /// Reason why no region allows the request.
    pub(super) denied: Option<&'static str>,
    /// Whether queue pair and region certainly allow the request.
    pub(super) is_allowed: bool,
}

type Right = fn(pb::Access) -> bool;

impl Rights {
    /// Returns the rights that may apply to a request at position `at` of the record. These are the last rights
    /// that certainly apply by then, and all rights set later.
    fn for_one_at(&self, at: usize) -> &[(pb::Access, usize)] {
        let last = self.given.iter().rposition(|(_, since)| *since < at);
        &self.given[last.unwrap_or(0)..]
    }
}

/// All memory regions of a record. A request counts as denied only if no region can allow it, because several
/// regions may share an R_Key. An R_Key that a SEND with Invalidate names may still be valid, because the SEND may
/// be lost.
pub(super) struct Regions<'t> {
    trace: &'t Trace,
    all: Vec<Region>,
    /// Whether the device reports that it has no atomics.
    is_without_atomics: bool,
    /// R_Keys in the SENDs with Invalidate that the peer sent.
    invalidated: BTreeSet<u32>,
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
                    goes: false,
                }),
                (Command::DeregisterMemory(of), answer) => {
                    for region in regions.iter_mut().filter(|region| region.handle == of.memory) {
                        region.goes = true;
                        if let Some((_, _, reply, place)) = answer
                            && !matches!(reply, Reply::Refused(_))
                        {
                            region.gone.get_or_insert(*place);
                        }
                    }
                }
                (_, Some((_, _, Reply::Opened(facts), _))) => is_without_atomics |= !facts.atomics,
                _ => {}
            }
        }
        let sent = trace.timeline.frames.iter().filter(|frame| !frame.received);
        let invalidated = sent.filter_map(|frame| {
            let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
            Some(packet.ieth()?.r_key().0)
        });
        Self {
            trace,
            all: regions,
            is_without_atomics,
            invalidated: invalidated.collect(),
        }
    }

    /// Returns whether the device supports the operation. An unsupported request is invalid, regardless of its memory.
    fn executes(&self, opcode: Opcode) -> bool {
        let is_atomic = RequestKind::of(opcode) == RequestKind::Atomic;
        let executes = |operation| offers::executes(self.trace, operation);
        asks_for(opcode).is_some_and(executes) && !(is_atomic && self.is_without_atomics)
    }

    /// Checks the access of a request at position `at` of the record, to a queue pair with the rights `of_qp`.
    /// Returns an empty result for an unsupported operation, because other errors apply to that operation.
    pub(super) fn allow(&self, packet: &Packet<'_>, at: usize, of_qp: &Rights) -> Allows {
        let asks = RequestKind::of(packet.opcode());
        let right: Right = match asks {
            RequestKind::Write(_) => |access| access.remote_write,
            RequestKind::Read => |access| access.remote_read,
            RequestKind::Atomic => |access| access.remote_atomic,
            RequestKind::Send(_) | RequestKind::Other => return Allows::default(),
        };
        if of_qp.given.is_empty() || !self.executes(packet.opcode()) {
            return Allows::default();
        }
        let (va, length, r_key) = match (packet.reth(), packet.atomic()) {
            (Some(reth), _) => (reth.va().0, u64::from(reth.dma_len()), reth.r_key()),
            (None, Some(atomic)) => (atomic.va().0, 8, atomic.r_key()),
            (None, None) => return Allows::default(),
        };
        let given = of_qp.for_one_at(at);
        let has = |right: Right| given.iter().filter(|(access, _)| right(*access)).count();
        let is_without = has(right) == 0;
        let is_none_answered = asks.returns_data() && of_qp.answers_none;
        // The responder does not check the R_Key of a zero-length request.
        let (denied, is_open) = match length {
            0 => (None, true),
            _ => self.of_memory(right, at, (va, length, r_key)),
        };
        Allows {
            invalid: match (is_none_answered, is_without && length > 0) {
                (true, _) => Some("whose queue pair accepts no READ or atomic"),
                (_, true) => Some("which the access rights of the queue pair do not allow"),
                _ => None,
            },
            denied,
            is_allowed: is_open && has(right) == given.len() && !is_none_answered,
        }
    }

    /// Returns the reason why no region allows the request (`None` if a region may allow it), and whether a region
    /// certainly allows it.
    fn of_memory(
        &self,
        right: Right,
        at: usize,
        (va, length, r_key): (u64, u64, RKey),
    ) -> (Option<&'static str>, bool) {
        let is_there = |region: &&Region| region.gone.is_none_or(|gone| gone >= at);
        let mut of_key = self.all.iter().filter(|region| region.r_key == r_key).peekable();
        if of_key.peek().is_none() {
            return (Some("whose R_Key belongs to no region"), false);
        }
        let of_key: Vec<&Region> = of_key.filter(is_there).collect();
        if of_key.is_empty() {
            return (Some("whose region was deregistered"), false);
        }
        let is_within = |region: &&&Region| {
            let end = va.checked_add(length);
            region.addresses.start <= va && end.is_some_and(|end| end <= region.addresses.end)
        };
        let within: Vec<&Region> = of_key.iter().filter(is_within).copied().collect();
        if within.is_empty() {
            return (Some("which reaches beyond its region"), false);
        }
        if !within.iter().any(|region| right(region.access)) {
            return (Some("whose region does not allow this access"), false);
        }
        // The result is uncertain if several regions have this R_Key, if a SEND may have invalidated it, or if the host
        // deregisters the region at any time.
        let is_certain =
            of_key.len() == 1 && !self.invalidated.contains(&r_key.0) && !within.iter().any(|region| region.goes);
        (None, is_certain)
    }
}

#[cfg(test)]
mod tests {
    use verbatim_archives::golden;
    use verbatim_record::Entry;

    use super::*;
    use crate::record::connections;

    /// Returns the rules that the packets of a golden record break after `alter` changed the host's commands and
    /// replies.
    fn broken(record: &str, alter: impl Fn(&mut Command, &mut [Reply])) -> Vec<&'static str> {
        let mut entries = golden::entries(record);
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
            .map(|finding| finding.rule.name())
            .collect();
        names.dedup();
        names
    }

    #[test]
    fn denied_request_is_never_acknowledged() {
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
        // A remote access NAK needs a reason. A request with the right R_Key, access and length gives none.
        let as_it_was = broken("c09-nak-remote-access", |_, _| {});
        assert!(!as_it_was.contains(&"access-reason"), "{as_it_was:?}");
        let opened = broken("c09-nak-remote-access", |command, _| {
            if let Command::RegisterMemory(of) = command {
                of.access = Some(pb::Access {
                    local_write: true,
                    remote_write: true,
                    remote_read: true,
                    remote_atomic: true,
                });
            }
        });
        assert!(opened.contains(&"access-reason"), "{opened:?}");
        // A queue pair that accepts no READs refuses every READ as invalid.
        let none = broken("c09-060-read-responder", |command, _| {
            if let Command::ModifyQp(of) = command
                && let Some(kept) = of
                    .attributes
                    .as_mut()
                    .and_then(|given| given.max_dest_rd_atomic.as_mut())
            {
                *kept = 0;
            }
        });
        assert_eq!(none, ["invalid-request"]);
        // A request for which the queue pair lacks the right is invalid, even with a wrong R_Key.
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
        assert!(of_qp.contains(&"invalid-request"), "{of_qp:?}");
    }
}

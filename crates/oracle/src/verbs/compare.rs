//! Compares what the device showed (READ responses, original values of atomics, bytes that the host read) with what its
//! memory can have held.

use std::ops::Range;

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Evidence, FrameSeen, Time, VerbsDone};
use verbatim_wire::packet::Opcode;

use super::replay::{Change, Effect, Reading, Replay, Thing};
use super::target::has_payload;
use crate::parsed::{Parsed, Part, RequestKind};
use crate::rules::responder::ResponseKind;

impl<'t> Replay<'t, '_> {
    /// Checks the payload of a READ response. `place` is the place in the record from which requests count as executed.
    pub(super) fn read_answered(&mut self, offset: u32, place: usize, parsed: &Parsed<'t>, frame: &'t FrameSeen) {
        let has = |read: &&Reading<'t>| (read.first..read.first + read.psns).contains(&offset);
        let mtu = self.qp.mtu as usize;
        let at = |read: &Reading<'t>| {
            let into = (offset - read.first) as usize * mtu;
            (read.begin + into, (read.length - into.min(read.length)).min(mtu))
        };
        let before = self
            .reads
            .iter()
            .filter(|read| read.frame.place < frame.place)
            .filter(has);
        let all: Vec<(u32, u32, (usize, usize), &'t FrameSeen)> = before
            .map(|read| (read.first, read.first + read.psns, at(read), read.frame))
            .collect();
        let Some((first, end, (begin, length), request)) = all.first().copied() else {
            return;
        };
        self.execute(first, place);
        let all_agree = all.iter().all(|(.., at, _)| *at == (begin, length));
        let payload = parsed.packet.payload();
        if all_agree && payload.len() == length {
            let wrong = self.wrong(begin, payload, (request.place, Some(first)), None);
            self.push_effect(Thing::Read, vec![request.into(), frame.into()], (begin, payload, wrong));
        }
        if matches!(ResponseKind::of(parsed), ResponseKind::Read(Part::Last | Part::Only)) {
            self.execute(end, place);
        }
    }

    /// Checks the original value in an ATOMIC ACK.
    pub(super) fn atomic_answered(&mut self, offset: u32, place: usize, parsed: &Parsed<'t>, frame: &'t FrameSeen) {
        let is_again = offset < self.executed;
        self.execute(offset, place);
        let Some(atomic) = parsed.packet.atomic_ack() else {
            return;
        };
        let original = atomic.original().0;
        let target = self.target(offset);
        let Some(request) = self
            .requests
            .get_mut(&offset)
            .filter(|request| request.parsed.atomic().is_some())
        else {
            return;
        };
        let (request_frame, is_unsure) = (request.frame, request.is_unsure && !request.others.is_empty());
        // The rule `atomic-again` checks the response to a duplicate.
        if is_again || request.original.is_some() || request_frame.place > frame.place {
            return;
        }
        request.original = Some(original);
        if let Some(range) = target.filter(|_| !is_unsure) {
            let bytes = original.to_le_bytes();
            let wrong = self.wrong(range.start, &bytes, (request_frame.place, None), None);
            self.push_effect(
                Thing::Atomic,
                vec![request_frame.into(), frame.into()],
                (range.start, &bytes, wrong),
            );
        }
        self.execute(offset + 1, place);
    }

    /// Checks the bytes that the host read.
    pub(super) fn read(&mut self, done: &'t VerbsDone) {
        let (Command::ReadMemory(read), Some((_, _, Reply::Bytes(found), _))) = (&done.command, &done.answer) else {
            return;
        };
        let begin = read.from.map_or(0, |from| from.offset as usize);
        let wrong = self.wrong(begin, &found.bytes, (done.place, Some(0)), Some(done.asked.earliest));
        let writer = wrong.and_then(|wrong| self.last_there(begin + wrong));
        let thing = |parsed: &Parsed<'_>| match RequestKind::of(parsed.opcode) {
            RequestKind::Send(_) => Thing::Sent,
            RequestKind::Atomic => Thing::Swapped,
            _ => Thing::Written,
        };
        let broken = match (writer, wrong) {
            (Some((parsed, _)), _) => thing(&parsed),
            (None, Some(wrong)) if self.refused.iter().any(|range| range.contains(&(begin + wrong))) => Thing::Refused,
            (None, _) => Thing::Memory,
        };
        let executed = self.requests.range(..self.executed).map(|(_, request)| &request.parsed);
        let mut things: Vec<Thing> = executed
            .filter(|parsed| has_payload(parsed) || parsed.atomic().is_some())
            .map(thing)
            .collect();
        things.extend([Thing::Memory, broken]);
        things.extend((!self.refused.is_empty()).then_some(Thing::Refused));
        things.sort_unstable();
        things.dedup();
        for thing in things {
            let last = writer.filter(|_| thing == broken).map(|(_, frame)| frame);
            let wrong = wrong.filter(|_| thing == broken);
            // The request that should have written last, then the packet whose bytes are there in its place.
            let seen = wrong.and_then(|wrong| self.carrier(&found.bytes[wrong..], done.place));
            let seen = seen.filter(|seen| last.is_none_or(|last| last.number != seen.number));
            let frames = last.into_iter().chain(seen).map(Evidence::from);
            let evidence = frames.chain([done.into()]).collect();
            self.push_effect(thing, evidence, (begin, &found.bytes, wrong));
        }
    }

    /// Returns the last packet before a place that the tester sent with the first 8 of these bytes.
    fn carrier(&self, bytes: &[u8], until: usize) -> Option<&'t FrameSeen> {
        let bytes = bytes.first_chunk::<8>()?;
        let has = |frame: &&FrameSeen| frame.bytes.windows(bytes.len()).any(|window| window == bytes);
        let before = |frame: &&FrameSeen| !frame.received && frame.place < until;
        let mut sent = self.qp.trace.timeline.frames.iter().rev().filter(before);
        // Bytes without content are in many packets.
        sent.find(has).filter(|_| bytes.iter().any(|byte| *byte != bytes[0]))
    }

    /// Returns the last executed request that wrote to the byte at `at`.
    fn last_there(&self, at: usize) -> Option<(Parsed<'t>, &'t FrameSeen)> {
        let done = self.requests.range(..self.executed).rev();
        let mut there = done.filter(|(offset, _)| self.target(**offset).is_some_and(|range| range.contains(&at)));
        there.next().map(|(_, request)| (request.parsed, request.frame))
    }

    /// Returns the index in `bytes` of the first value that the memory cannot have held since the place `since`.
    ///
    /// * `behind`: requests from this PSN offset on may also have changed the memory, even if their execution is
    ///   not proven. `None`: only proven requests and host writes may have changed it.
    /// * `looked`: time at which the host's read began. The host may have read content from before a recent change.
    fn wrong(
        &self,
        begin: usize,
        bytes: &[u8],
        (since, behind): (usize, Option<u32>),
        looked: Option<Time>,
    ) -> Option<usize> {
        let end = begin + bytes.len();
        if self.picture.known(begin..end).is_some_and(|known| known == bytes) {
            return None;
        }
        let counts = |change: &&Change| {
            let is_behind = match (change.offset, behind) {
                (None, _) => true,
                (Some(offset), Some(behind)) => offset >= behind,
                (Some(_), None) => false,
            };
            let is_late = looked.is_some_and(|looked| change.may_be_unseen(looked));
            change.place > since && is_behind || is_late
        };
        let changes: Vec<&Change> = self.changes.iter().filter(counts).collect();
        let open = self.requests.range(self.executed..).filter(|_| behind.is_some());
        let open: Vec<(Range<usize>, Option<&[u8]>)> = open
            .flat_map(|(offset, request)| {
                let bytes = has_payload(&request.parsed).then(|| request.parsed.packet.payload());
                let own = self.target(*offset).map(|range| (range, bytes));
                // The request may have been refused, and the buffer of a receive that completes in error may
                // hold anything (11.6.2).
                let receive = self.receive(*offset).map(|range| (range, None));
                own.into_iter()
                    .chain(receive)
                    .chain(request.others.iter().map(|other| (other.clone(), None)))
            })
            .collect();
        let may_hold = |at: usize, value: u8| {
            self.picture.may_hold(at, value)
                || self.foreign.iter().any(|range| range.contains(&at))
                || changes.iter().any(|change| change.was.may_hold(at, value))
                || self.writes.iter().any(|write| {
                    let into = at.checked_sub(write.offset as usize);
                    into.and_then(|into| write.bytes.get(into))
                        .is_some_and(|byte| *byte == value)
                })
                || open.iter().any(|(range, bytes)| {
                    let byte = bytes.map(|bytes| bytes.get(at.wrapping_sub(range.start)));
                    range.contains(&at) && byte.is_none_or(|byte| byte == Some(&value))
                })
        };
        (0..bytes.len()).find(|at| !may_hold(begin + at, bytes[*at]))
    }

    fn push_effect(
        &mut self,
        of: Thing,
        evidence: Vec<Evidence<'t>>,
        (begin, bytes, wrong): (usize, &[u8], Option<usize>),
    ) {
        let broken = wrong.map(|wrong| {
            let offset = begin + wrong;
            let end = (wrong + 8).min(bytes.len());
            let about = match of {
                Thing::Memory | Thing::Sent | Thing::Written | Thing::Swapped | Thing::Refused => "memory",
                Thing::Read => "READ response",
                Thing::Atomic => "original value",
            };
            let of_atomic = match of {
                Thing::Atomic => self.arithmetic_at(begin).or_else(|| self.original_at(begin)),
                _ => self.arithmetic_at(offset),
            };
            let number = of_atomic.and_then(|(range, expected)| {
                let into = range.start.checked_sub(begin)?..range.end.checked_sub(begin)?;
                Some((range.start, expected, number(bytes.get(into)?)?))
            });
            if let Some((offset, expected, seen)) = number {
                let (expected, seen) = (
                    format!("{expected} at byte {offset}"),
                    format!("{seen:#018x} at byte {offset}"),
                );
                return (about.into(), expected, seen);
            }
            let expected = format!("{} at byte {offset}", self.picture.in_words(offset..begin + end));
            let seen: Vec<String> = bytes[wrong..end].iter().map(|byte| format!("{byte:02x}")).collect();
            (about.into(), expected, format!("[{}] at byte {offset}", seen.join(" ")))
        });
        self.effects.push(Effect { of, evidence, broken });
    }

    /// Returns the 64-bit number at `begin` in words, with its range; `None` if a byte is not certain.
    fn original_at(&self, begin: usize) -> Option<(Range<usize>, String)> {
        let range = begin..begin + 8;
        let known = number(self.picture.known(range.clone())?)?;
        Some((range, format!("{known:#018x}")))
    }

    /// Returns the arithmetic of the last atomic that wrote to the byte at `at`, in words with its range. Returns
    /// `None` if another request wrote to the byte later, or if the result is not certain.
    fn arithmetic_at(&self, at: usize) -> Option<(Range<usize>, String)> {
        let (parsed, frame) = self.last_there(at)?;
        let header = parsed.atomic()?;
        let mut done = self.requests.iter();
        let (offset, request) = done.find(|(_, request)| request.frame.place == frame.place)?;
        let range = self.target(*offset)?;
        let result = number(self.picture.known(range.clone())?)?;
        let (original, operand, compare) = (request.original?, header.swap_add().0, header.compare().0);
        let words = match parsed.opcode {
            Opcode::RC_FETCH_ADD if original.wrapping_add(operand) == result => {
                format!("{original:#018x} + {operand:#x} = {result:#018x}")
            }
            Opcode::RC_COMPARE_SWAP if original == compare && operand == result => {
                format!("{result:#018x}, because the compare value equals the original {original:#018x},")
            }
            Opcode::RC_COMPARE_SWAP if original != compare && original == result => {
                format!("{result:#018x}, because the compare value {compare:#018x} is not the original,")
            }
            _ => return None,
        };
        Some((range, words))
    }
}

/// Returns the number that 8 bytes of memory hold.
fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

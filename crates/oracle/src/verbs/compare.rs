//! Comparison of the memory content that the device showed with the possible content: READ responses, original values
//! of atomics, and bytes that the host read.

use std::ops::Range;

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Evidence, FrameSeen, Time, VerbsDone};
use verbatim_wire::packet::Opcode;

use super::replay::{Change, Effect, Reading, Replay, Thing};
use super::target::has_payload;
use crate::parsed::{Parsed, Part, RequestKind};
use crate::rules::responder::ResponseKind;

impl<'t> Replay<'t, '_> {
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
        let Some((first, end, (begin, length), asked)) = all.first().copied() else {
            return;
        };
        self.execute(first, place);
        let is_one = all.iter().all(|(.., at, _)| *at == (begin, length));
        let payload = parsed.packet.payload();
        if is_one && payload.len() == length {
            let wrong = self.wrong(begin, payload, (asked.place, Some(first)), None);
            self.say(Thing::Read, vec![asked.into(), frame.into()], (begin, payload, wrong));
        }
        if matches!(ResponseKind::of(parsed), ResponseKind::Read(Part::Last | Part::Only)) {
            self.execute(end, place);
        }
    }

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
        let (asked, is_unsure) = (request.frame, request.is_unsure && !request.others.is_empty());
        // The rule `atomic-again` checks the response to a duplicate.
        if is_again || request.original.is_some() || asked.place > frame.place {
            return;
        }
        request.original = Some(original);
        if let Some(range) = target.filter(|_| !is_unsure) {
            let bytes = original.to_le_bytes();
            let wrong = self.wrong(range.start, &bytes, (asked.place, None), None);
            self.say(
                Thing::Atomic,
                vec![asked.into(), frame.into()],
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
        let of = wrong.and_then(|wrong| self.last_there(begin + wrong));
        let thing = |of: &Parsed<'_>| match RequestKind::of(of.opcode) {
            RequestKind::Send(_) => Thing::Sent,
            RequestKind::Atomic => Thing::Swapped,
            _ => Thing::Written,
        };
        let broken = match (of, wrong) {
            (Some((parsed, _)), _) => thing(&parsed),
            (None, Some(wrong)) if self.refused.iter().any(|range| range.contains(&(begin + wrong))) => Thing::Refused,
            (None, _) => Thing::Memory,
        };
        let executed = self.requests.range(..self.executed).map(|(_, request)| &request.parsed);
        let mut asked: Vec<Thing> = executed
            .filter(|parsed| has_payload(parsed) || parsed.atomic().is_some())
            .map(thing)
            .collect();
        asked.extend([Thing::Memory, broken]);
        asked.extend((!self.refused.is_empty()).then_some(Thing::Refused));
        asked.sort_unstable();
        asked.dedup();
        for thing in asked {
            let of = of.filter(|_| thing == broken).map(|(_, frame)| frame);
            let wrong = wrong.filter(|_| thing == broken);
            // The request that should have written last, then the packet whose bytes are there in its place.
            let seen = wrong.and_then(|wrong| self.carrier(&found.bytes[wrong..], done.place));
            let seen = seen.filter(|seen| of.is_none_or(|of| of.number != seen.number));
            let frames = of.into_iter().chain(seen).map(Evidence::from);
            let evidence = frames.chain([done.into()]).collect();
            self.say(thing, evidence, (begin, &found.bytes, wrong));
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
    ///   not proven.
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
                // The request may have been refused, and a receive that completes in error may hold anything
                // (11.6.2).
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

    fn say(&mut self, of: Thing, evidence: Vec<Evidence<'t>>, (begin, bytes, wrong): (usize, &[u8], Option<usize>)) {
        let broken = wrong.map(|wrong| {
            let place = begin + wrong;
            let end = (wrong + 8).min(bytes.len());
            let about = match of {
                Thing::Memory | Thing::Sent | Thing::Written | Thing::Swapped | Thing::Refused => "memory",
                Thing::Read => "READ response",
                Thing::Atomic => "original value",
            };
            let of_atomic = match of {
                Thing::Atomic => self.arithmetic_at(begin).or_else(|| self.original_at(begin)),
                _ => self.arithmetic_at(place),
            };
            let number = of_atomic.and_then(|(range, expected)| {
                let into = range.start.checked_sub(begin)?..range.end.checked_sub(begin)?;
                Some((range.start, expected, number(bytes.get(into)?)?))
            });
            if let Some((place, expected, seen)) = number {
                let (expected, seen) = (
                    format!("{expected} at byte {place}"),
                    format!("{seen:#018x} at byte {place}"),
                );
                return (about.into(), expected, seen);
            }
            let expected = format!("{} at byte {place}", self.picture.in_words(place..begin + end));
            let seen: Vec<String> = bytes[wrong..end].iter().map(|byte| format!("{byte:02x}")).collect();
            (about.into(), expected, format!("[{}] at byte {place}", seen.join(" ")))
        });
        self.effects.push(Effect { of, evidence, broken });
    }

    /// Returns the 64-bit number at `begin` in words, with its place; `None` if a byte is not certain.
    fn original_at(&self, begin: usize) -> Option<(Range<usize>, String)> {
        let range = begin..begin + 8;
        let known = number(self.picture.known(range.clone())?)?;
        Some((range, format!("{known:#018x}")))
    }

    /// Returns the arithmetic of the last atomic that wrote to the byte at `at`, in words with its place. Returns
    /// `None` if another request wrote to the byte later, or if the result is not certain.
    fn arithmetic_at(&self, at: usize) -> Option<(Range<usize>, String)> {
        let (parsed, frame) = self.last_there(at)?;
        let asked = parsed.atomic()?;
        let mut done = self.requests.iter();
        let (offset, request) = done.find(|(_, request)| request.frame.place == frame.place)?;
        let range = self.target(*offset)?;
        let result = number(self.picture.known(range.clone())?)?;
        let (original, operand, compare) = (request.original?, asked.swap_add().0, asked.compare().0);
        let words = match parsed.opcode {
            Opcode::RC_FETCH_ADD if original.wrapping_add(operand) == result => {
                format!("{original:#018x} + {operand:#x} = {result:#018x}")
            }
            Opcode::RC_COMPARE_SWAP if original == compare && operand == result => {
                format!("{result:#018x}, swapped for the equal {original:#018x},")
            }
            Opcode::RC_COMPARE_SWAP if original != compare && original == result => {
                format!("{result:#018x}, not swapped because {compare:#018x} differs,")
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

//! Replay of a connection: the content that the device's memory holds, or may hold, event by event.

use std::collections::BTreeMap;
use std::ops::Range;

use verbatim_record::OUT_OF_ORDER;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, HostEvent, Side, Time, VerbsDone, WcStatus};
use verbatim_wire::packet::{Opcode, Psn, RKey};

use super::picture::{Part as Was, Picture};
use super::qp_trace::QpTrace;
use super::target::{has_payload, has_place, takes_receive};
use crate::parsed::{Parsed, RequestKind};
use crate::rc::{HALF, ON_ITS_WAY};
use crate::rules::responder::ResponseKind;

/// Subject of a memory rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Thing {
    /// Memory that the host read, where nothing should change.
    Memory,
    /// Memory that the host read, in the target of a SEND.
    Sent,
    /// Memory that the host read, in the target of a WRITE.
    Written,
    /// Memory that the host read, in the target of an atomic.
    Swapped,
    /// Memory that the host read, in the target of a request whose NAK ended the connection.
    Refused,
    /// Data of a READ response.
    Read,
    /// Original value that an atomic returned.
    Atomic,
}

/// Result of one check.
#[derive(Clone, Debug)]
pub(super) struct Effect<'t> {
    pub(super) of: Thing,
    pub(super) evidence: Vec<Evidence<'t>>,
    /// Subject, expected content and seen content in words, if they differ.
    pub(super) broken: Option<(String, String, String)>,
}

/// Request packet of the peer.
pub(super) struct Request<'t> {
    pub(super) parsed: Parsed<'t>,
    pub(super) frame: &'t FrameSeen,
    /// Whether, before the execution was known, a different packet with the same PSN was sent, or the host wrote to the
    /// target. The content of the target is then uncertain.
    pub(super) is_unsure: bool,
    /// Targets of different packets with the same PSN.
    pub(super) others: Vec<Range<usize>>,
    /// Original value that an atomic returned.
    pub(super) original: Option<u64>,
    /// Largest number of PSNs that the request, or a different packet with the same PSN, takes. A READ takes one
    /// PSN for each response.
    psns: u32,
}

/// One transmission of a READ.
pub(super) struct Reading<'t> {
    pub(super) first: u32,
    pub(super) psns: u32,
    pub(super) begin: usize,
    pub(super) length: usize,
    pub(super) frame: &'t FrameSeen,
}

/// Change of memory by a request or by the host.
pub(super) struct Change {
    pub(super) place: usize,
    /// PSN of the request; `None`: a write by the host.
    pub(super) offset: Option<u32>,
    /// Time until which the host may see the old content.
    pub(super) shows: Time,
    pub(super) was: Was,
}

impl Change {
    /// Returns whether a read by the host that began at `since` may return the old content.
    pub(super) fn may_be_unseen(&self, since: Time) -> bool {
        self.offset.is_some() && since < self.shows
    }
}

/// Event of a replay.
enum Happens<'t> {
    /// The host starts to write.
    Writes(&'t pb::WriteMemory),
    /// The host has written.
    Wrote(&'t VerbsDone, &'t pb::WriteMemory),
    /// The host has read.
    Read(&'t VerbsDone),
    Sent(u32, Parsed<'t>, &'t FrameSeen),
    Answered(Parsed<'t>, &'t FrameSeen),
    Received(&'t HostEvent),
}

/// Replay of a connection up to some place.
pub(super) struct Replay<'t, 'k> {
    pub(super) qp: &'k QpTrace<'t>,
    /// Handle of the memory; `base` is its address, `r_key` its R_Key.
    pub(super) handle: u32,
    pub(super) base: u64,
    pub(super) r_key: RKey,
    pub(super) picture: Picture,
    /// Ranges that may hold anything, because others write to them: targets of the device's own READs and atomics,
    /// and receives of other queue pairs.
    pub(super) foreign: Vec<Range<usize>>,
    /// Local memory of each receive, in order.
    pub(super) receives: Vec<Option<pb::Slice>>,
    pub(super) requests: BTreeMap<u32, Request<'t>>,
    pub(super) reads: Vec<Reading<'t>>,
    /// PSN before which all requests were executed.
    pub(super) executed: u32,
    /// Whether a NAK has ended the connection, so that no later request is executed.
    pub(super) is_over: bool,
    /// Targets of the refused request, and of all later requests.
    pub(super) refused: Vec<Range<usize>>,
    pub(super) changes: Vec<Change>,
    /// Writes of the host that have begun and not ended.
    pub(super) writes: Vec<&'t pb::WriteMemory>,
    pub(super) received: usize,
    pub(super) effects: Vec<Effect<'t>>,
    /// Time of the last event that proves an execution.
    now: Time,
}

pub(super) fn range_of(slice: pb::Slice) -> Range<usize> {
    let begin = slice.offset as usize;
    begin..begin + slice.length as usize
}

impl<'t, 'k> Replay<'t, 'k> {
    /// Returns the findings on a connection's memory, and the first byte that is not checked because it may hold too
    /// many values. Returns no findings if the memory is unknown.
    pub(super) fn of(qp: &'k QpTrace<'t>) -> (Vec<Effect<'t>>, Option<usize>) {
        let Some((mut replay, registered)) = Self::new(qp) else {
            return (Vec::new(), None);
        };
        for (place, happens) in replay.events(registered) {
            replay.take(place, happens);
        }
        (replay.effects, replay.picture.excess())
    }

    /// Returns the connection's memory before all events, and the place from which on events are replayed.
    fn new(qp: &'k QpTrace<'t>) -> Option<(Self, usize)> {
        qp.dialogue.attributes.rq_psn?;
        let (base, r_key) = qp.dialogue.memory;
        let begins = qp.dialogue.places.0;
        let (made, handle, length) = qp.memory.iter().rev().find_map(|done| {
            let (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) = (&done.command, &done.answer)
            else {
                return None;
            };
            let is_it = done.place < begins && made.address == base && made.r_key == r_key.0;
            is_it.then_some((done.place, made.memory, asked.length as usize))
        })?;
        // An earlier connection may have changed the memory.
        let is_new = qp.trace.timeline.frames_between((made, begins)).is_empty();
        let posts = qp.posts.iter().filter(|post| post.posted.has_response_data());
        let of_it = |slice: &pb::Slice| slice.memory == handle;
        let replay = Self {
            qp,
            handle,
            base,
            r_key,
            picture: Picture::new(length, is_new),
            foreign: posts
                .filter_map(|post| post.posted.post.local.filter(of_it).map(range_of))
                .collect(),
            receives: Vec::new(),
            requests: BTreeMap::new(),
            reads: Vec::new(),
            executed: 0,
            is_over: false,
            refused: Vec::new(),
            changes: Vec::new(),
            writes: Vec::new(),
            received: 0,
            effects: Vec::new(),
            now: Time(0),
        };
        Some((replay, if is_new { made } else { begins.saturating_sub(1) }))
    }

    fn events(&mut self, registered: usize) -> Vec<(usize, Happens<'t>)> {
        let qp = self.qp;
        let mut events = Vec::new();
        let commands = qp.trace.timeline.commands_between((registered, qp.dialogue.places.1));
        for done in commands.iter().filter(|done| done.side == Side::Dut) {
            let answered = done.answer.as_ref().map(|(.., place)| *place);
            if matches!(done.answer, Some((_, _, Reply::Refused(_), _))) {
                continue;
            }
            match &done.command {
                Command::WriteMemory(write) if write.memory == self.handle => {
                    events.push((done.place, Happens::Writes(write)));
                    events.extend(answered.map(|place| (place, Happens::Wrote(done, write))));
                }
                Command::ReadMemory(read) if read.from.is_some_and(|from| from.memory == self.handle) => {
                    events.extend(answered.map(|place| (place, Happens::Read(done))));
                }
                Command::PostReceive(post) if post.qp == qp.dialogue.handle => self.receives.push(post.local),
                // The replay does not know which message fills a receive of another queue pair.
                Command::PostReceive(post) => {
                    let local = post.local.filter(|local| local.memory == self.handle);
                    self.foreign.extend(local.map(range_of));
                }
                _ => {}
            }
        }
        let places_ahead = self.places_ahead();
        let asked = qp.asked_anywhere();
        for (offset, parsed, frame) in asked.filter(|(offset, ..)| *offset < HALF || places_ahead) {
            events.push((frame.place, Happens::Sent(offset, parsed, frame)));
        }
        for (parsed, frame) in qp.responses() {
            events.push((frame.place, Happens::Answered(parsed, frame)));
        }
        let succeeded = qp.received.iter().take_while(|done| done.status() == WcStatus::SUCCESS);
        events.extend(succeeded.map(|done| (done.event.place, Happens::Received(done.event))));
        events.sort_by_key(|(place, _)| *place);
        events
    }

    fn take(&mut self, place: usize, happens: Happens<'t>) {
        match happens {
            Happens::Writes(write) => self.writes.push(write),
            Happens::Wrote(done, write) => self.wrote(place, done, write),
            Happens::Read(done) => self.read(done),
            Happens::Sent(offset, parsed, frame) => self.sent(offset, parsed, frame),
            Happens::Answered(parsed, frame) => {
                self.now = frame.at.latest;
                self.answered(place, &parsed, frame);
            }
            Happens::Received(happened) => {
                self.now = happened.at.latest;
                self.received += 1;
                let takes = self
                    .requests
                    .iter()
                    .filter(|(_, request)| takes_receive(&request.parsed));
                if let Some(offset) = takes.map(|(offset, _)| *offset).nth(self.received - 1) {
                    self.execute(offset + 1, place);
                    // After a completed receive, the host sees all earlier writes.
                    for change in &mut self.changes {
                        if change.offset.is_some_and(|of| of <= offset) {
                            change.shows = change.shows.min(happened.at.latest);
                        }
                    }
                }
            }
        }
    }

    /// Stores bytes that the host wrote. Requests that are unanswered, or were answered during the write, may be
    /// executed before or after the write.
    fn wrote(&mut self, place: usize, done: &VerbsDone, write: &'t pb::WriteMemory) {
        self.writes.retain(|other| !core::ptr::eq(*other, write));
        let begin = write.offset as usize;
        let range = begin..begin + write.bytes.len();
        let was = self.picture.part(range.clone());
        let meanwhile = |change: &Change| {
            change.place > done.place && change.offset.is_some()
                || change.may_be_unseen(done.asked.earliest) && change.was.overlaps(&range)
        };
        let is_quiet = !self.changes.iter().any(meanwhile);
        if is_quiet {
            self.picture.put(begin, &write.bytes);
        } else {
            self.picture.may_put(begin, &write.bytes);
        }
        self.changes.push(Change {
            place,
            offset: None,
            shows: Time(0),
            was,
        });
        let open: Vec<u32> = self
            .requests
            .range(self.executed..)
            .map(|(offset, _)| *offset)
            .collect();
        for offset in open {
            let lies_there = self
                .target(offset)
                .is_some_and(|at| at.start < range.end && range.start < at.end);
            if let Some(request) = self.requests.get_mut(&offset).filter(|_| lies_there) {
                request.is_unsure = true;
            }
        }
    }

    fn sent(&mut self, offset: u32, parsed: Parsed<'t>, frame: &'t FrameSeen) {
        if self.is_over {
            return;
        }
        // The replay covers only the first half of the PSN space, counted from the first PSN. In the other half,
        // the data of a WRITE is only marked as possibly written, because the device may place data out of order.
        if offset >= HALF {
            let reth = parsed.reth().filter(|_| offset - self.executed < HALF);
            let begin = reth.and_then(|reth| self.place_of(reth.va().0, reth.r_key()));
            if let Some(begin) = begin.filter(|_| matches!(RequestKind::of(parsed.opcode), RequestKind::Write(_))) {
                self.picture.may_put(begin, parsed.packet.payload());
            }
            return;
        }
        let reth = parsed
            .reth()
            .filter(|_| RequestKind::of(parsed.opcode) == RequestKind::Read);
        if let Some(begin) = reth.and_then(|reth| self.place_of(reth.va().0, reth.r_key())) {
            let length = reth.map_or(0, |reth| reth.dma_len() as usize);
            self.reads.push(Reading {
                first: offset,
                psns: self.qp.psns(&parsed),
                begin,
                length,
                frame,
            });
        }
        // A duplicate of an executed request has no effect.
        if offset < self.executed {
            return;
        }
        let request = Request {
            parsed,
            frame,
            is_unsure: false,
            others: Vec::new(),
            original: None,
            psns: self.qp.psns(&parsed),
        };
        let Some(first) = self.requests.get(&offset) else {
            self.requests.insert(offset, request);
            self.may_be_ahead(offset);
            return;
        };
        if first.parsed.opcode == parsed.opcode && first.parsed.digests() == parsed.digests() {
            return;
        }
        // `target` looks up a packet in `requests`. Insert this packet there to get its target, and put the first
        // packet back afterwards.
        let psns = request.psns;
        if let Some(mut first) = self.requests.insert(offset, request) {
            first.is_unsure = true;
            first.psns = first.psns.max(psns);
            first.others.extend(self.target(offset));
            self.requests.insert(offset, first);
        }
    }

    /// Returns whether the device may place data in memory out of order.
    fn places_ahead(&self) -> bool {
        self.qp.trace.parameter(OUT_OF_ORDER) == Some(1)
    }

    /// Marks the data of a WRITE as possibly written when it is sent, if the device may place data out of order.
    fn may_be_ahead(&mut self, offset: u32) {
        let request = self.requests.get(&offset).filter(|_| self.places_ahead());
        let payload = request.filter(|request| matches!(RequestKind::of(request.parsed.opcode), RequestKind::Write(_)));
        let payload = payload.map(|request| request.parsed.packet.payload());
        if let (Some(payload), Some(range)) = (payload, self.target(offset)) {
            self.picture.may_put(range.start, payload);
        }
    }

    fn answered(&mut self, place: usize, parsed: &Parsed<'t>, frame: &'t FrameSeen) {
        let first = self.qp.dialogue.attributes.rq_psn.map(Psn::new);
        let offset = parsed.psn.since(first.unwrap_or(Psn(0)));
        if offset >= HALF {
            return;
        }
        match ResponseKind::of(parsed) {
            ResponseKind::Ack => self.execute(offset + 1, place),
            ResponseKind::Rnr | ResponseKind::Sequence => self.execute(offset, place),
            ResponseKind::Fatal => self.refused(offset, place),
            ResponseKind::Read(_) => self.read_answered(offset, place, parsed, frame),
            ResponseKind::Atomic => self.atomic_answered(offset, place, parsed, frame),
            ResponseKind::Nothing => {}
        }
    }

    /// Notes a NAK that ends the connection. The effect of the refused message is unknown, and no later request is
    /// executed.
    fn refused(&mut self, offset: u32, place: usize) {
        if self.is_over || offset < self.executed {
            return;
        }
        self.execute(offset, place);
        let begun: Vec<u32> = self.requests.range(self.executed..=offset).map(|(of, _)| *of).collect();
        for of in begun {
            // A packet that carries its own address is refused before it writes.
            let is_whole = self.requests.get(&of).is_some_and(|request| {
                of == offset
                    && !matches!(RequestKind::of(request.parsed.opcode), RequestKind::Send(_))
                    && has_place(&request.parsed)
            });
            if let Some(range) = self.target(of).filter(|_| !is_whole) {
                self.picture.free(range);
            }
            // A receive that completes in error may hold anything, even beyond the data that was sent (11.6.2).
            if let Some(range) = self.receive(of) {
                self.picture.free(range);
            }
        }
        let behind: Vec<u32> = self.requests.range(offset..).map(|(of, _)| *of).collect();
        self.refused = behind.iter().filter_map(|of| self.target(*of)).collect();
        self.requests.retain(|of, _| *of < offset);
        self.is_over = true;
    }

    /// Notes that all requests before the PSN `end` were executed, up to the last complete message. If a response
    /// acknowledges a PSN that was never sent, the memory is unknown.
    pub(super) fn execute(&mut self, end: u32, place: usize) {
        if self.is_over || end <= self.executed {
            return;
        }
        let mut next = self.executed;
        let sent = self.requests.range(self.executed..end);
        let sent = sent.take_while(|(offset, request)| {
            let follows = **offset <= next;
            let came = request.frame.place < place;
            if came && follows {
                next = next.max(**offset + request.psns);
            }
            came && follows
        });
        let sent: Vec<(u32, u32, bool)> = sent
            .map(|(offset, request)| (*offset, request.psns, RequestKind::of(request.parsed.opcode).ends()))
            .collect();
        let until = sent.iter().rposition(|(.., ends)| *ends).map_or(0, |last| last + 1);
        let is_lie = next < end;
        for (offset, psns, _) in &sent[..until] {
            self.apply(*offset, place);
            // An executed READ uses up all its PSNs: a later packet with one of them is a duplicate.
            self.executed = offset + psns;
        }
        if is_lie {
            self.picture.free(0..usize::MAX);
        }
    }

    fn apply(&mut self, offset: u32, place: usize) {
        let Some(request) = self.requests.get(&offset) else {
            return;
        };
        let Some(range) = self.target(offset) else {
            // The request has no target, but a different packet with its PSN may have been executed.
            for other in request.others.clone() {
                self.picture.free(other);
            }
            return;
        };
        let was = self.picture.part(range.clone());
        self.changes.push(Change {
            place,
            offset: Some(offset),
            shows: self.now.after(ON_ITS_WAY),
            was,
        });
        let results: Vec<Vec<u8>> = match request.parsed.atomic() {
            None => has_payload(&request.parsed)
                .then(|| request.parsed.packet.payload().to_vec())
                .into_iter()
                .collect(),
            Some(asked) => {
                let known = self.picture.known(range.clone());
                let known = known.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
                // If the device returned a wrong original value, the memory may hold the matching wrong result.
                let happened = request.original.filter(|happened| Some(*happened) != known);
                let after = |original: u64| match request.parsed.opcode {
                    Opcode::RC_FETCH_ADD => original.wrapping_add(asked.swap_add().0),
                    _ if original == asked.compare().0 => asked.swap_add().0,
                    _ => original,
                };
                let originals = known.into_iter().chain(happened);
                originals
                    .map(|original| after(original).to_le_bytes().to_vec())
                    .collect()
            }
        };
        match results.as_slice() {
            [] => self.picture.free(range),
            [first, rest @ ..] => {
                if request.is_unsure {
                    self.picture.may_put(range.start, first);
                } else {
                    self.picture.put(range.start, first);
                }
                for other in rest {
                    self.picture.may_put(range.start, other);
                }
            }
        }
        for other in &request.others {
            self.picture.free(other.clone());
        }
    }
}

//! Connection of the device with the packet peer, as host and packets show it: work requests, packets, responses and
//! completions.
//!
//! PSNs are counted from the connection's first PSN, so that each request is a range of numbers.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, Side, TRIES, Time, Trace, VerbsDone, WcStatus};
use verbatim_wire::packet::{AckTimeout, Packet, Psn, Service, Syndrome};

use super::habit::Habits;
use super::pairing::{Of, Queue, assign};
use super::replay::Effect;
use crate::parsed::{Event, Parsed, RequestKind};
use crate::partition::reaches;
use crate::rc::HALF;
use crate::rc::{self, Dialogue, Done, Posted, Seen, whole_dialogues};
use crate::rules::responder::ResponseKind;

/// Longest time for an event that nothing delays.
pub(super) const EVENT_WAIT: Duration = Duration::from_secs(2);

/// Upper bound of a packet's transit time on a simulated path: about 4 KB at 10 Gbit/s, and a few switches.
pub(super) const SIMULATED_PATH: Duration = Duration::from_micros(20);

/// Posted work request.
#[derive(Clone, Debug)]
pub(super) struct WorkRequest<'t> {
    pub(super) posted: Posted<'t>,
    /// First PSN, counted from the connection's first PSN.
    pub(super) first: u32,
    /// PSN after the last PSN.
    pub(super) end: u32,
}

impl WorkRequest<'_> {
    pub(super) fn wr_id(&self) -> u64 {
        self.posted.post.wr_id
    }

    pub(super) fn place(&self) -> usize {
        self.posted.command.place
    }

    pub(super) fn has(&self, offset: u32) -> bool {
        (self.first..self.end).contains(&offset)
    }

    pub(super) fn in_words(&self) -> String {
        format!("wr_id {}, {}", self.wr_id(), self.posted.in_words())
    }
}

/// Request packet of the peer: its PSN, counted from the first PSN that the device expects, and its frame.
pub(super) type Asked<'t> = (u32, Parsed<'t>, &'t FrameSeen);

/// Undamaged response of the peer to the device's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerResponse<'t> {
    pub(super) frame: &'t FrameSeen,
    pub(super) packet: Packet<'t>,
    /// PSN, counted from the connection's first PSN; `None` if no request with this PSN was posted when the peer
    /// sent the response.
    pub(super) offset: Option<u32>,
    /// Whether a request with this PSN, or a later PSN, had arrived when the peer sent the response.
    pub(super) is_of_seen: bool,
    pub(super) says: ResponseKind,
    pub(super) syndrome: Option<Syndrome>,
}

impl PeerResponse<'_> {
    pub(super) fn place(&self) -> usize {
        self.frame.place
    }

    /// Returns the PSN before which the response acknowledges all SENDs and WRITEs.
    pub(super) fn end(&self) -> Option<u32> {
        let offset = self.offset?;
        Some(match self.says {
            ResponseKind::Ack => offset + 1,
            _ => offset,
        })
    }

    /// Returns whether the response has no defined meaning.
    pub(super) fn is_odd(&self) -> bool {
        self.says == ResponseKind::Nothing
    }

    fn is_same(&self, other: &Self) -> bool {
        self.frame.bytes == other.frame.bytes
    }
}

/// Request packet of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'t> {
    pub(super) seen: Seen<'t>,
    /// PSN, counted from the connection's first PSN; `None` if no request with this PSN was posted.
    pub(super) offset: Option<u32>,
}

/// Completion of the send queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion<'t> {
    pub(super) done: Done<'t>,
    /// Index of the request in [`QpTrace::posts`]; `None` if no request has the identifier.
    pub(super) post: Option<usize>,
}

impl Completion<'_> {
    pub(super) fn place(&self) -> usize {
        self.done.event.place
    }

    pub(super) fn is_success(&self) -> bool {
        self.done.status() == WcStatus::SUCCESS
    }
}

/// Outcome of a requirement with a deadline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Deadline<'t> {
    /// The requirement was met in time.
    Met,
    /// The record ends before the deadline, or the tester interferes before it.
    NotDue,
    /// The requirement was not met by the deadline. The command shows that the host was alive afterwards.
    Unmet(&'t VerbsDone),
}

#[derive(Clone, Debug)]
pub(super) struct QpTrace<'t> {
    pub(super) trace: &'t Trace,
    pub(super) dialogue: Dialogue<'t>,
    /// Registrations and deregistrations of memory by the DUT's host, for all connections, in order.
    pub(super) memory: Rc<[&'t VerbsDone]>,
    pub(super) mtu: u32,
    /// Longest time that the device may take to respond, as its host reports it.
    pub(super) answer_time: Duration,
    pub(super) posts: Vec<WorkRequest<'t>>,
    pub(super) answers: Vec<PeerResponse<'t>>,
    pub(super) requests: Vec<Request<'t>>,
    pub(super) completions: Vec<Completion<'t>>,
    /// Completions of receives.
    pub(super) received: Vec<Done<'t>>,
    /// Whether a receive completed with an error other than a flush.
    pub(super) receive_failed: bool,
    /// Place where the tester takes the queue pair out of RTS, or the dialogue ends.
    pub(super) until: usize,
    /// Command that moves the queue pair to the error state.
    pub(super) to_error: Option<&'t VerbsDone>,
    /// Place where the tester resets or destroys the queue pair; `usize::MAX` if it does not.
    pub(super) gone: usize,
    /// Place where the tester moves the queue pair to ERR or RESET or destroys it, or where the dialogue ends. From
    /// there on, the queue pair does not respond.
    pub(super) deaf: usize,
    /// Habits of the retry timer that the record shows.
    pub(super) habits: Rc<Habits>,
    /// Effects of the peer's requests on the device's memory, and the first byte with too many possible values to
    /// check.
    pub(super) effects: OnceCell<(Rc<[Effect<'t>]>, Option<usize>)>,
    /// Undamaged requests of the peer.
    asked: OnceCell<Vec<Asked<'t>>>,
    /// Undamaged responses of the device.
    responses: OnceCell<Vec<(Parsed<'t>, &'t FrameSeen)>>,
}

/// Returns whether the command registered or deregistered memory of the DUT's host.
fn is_of_memory(done: &VerbsDone) -> bool {
    let is_of_it = matches!(done.command, Command::RegisterMemory(_) | Command::DeregisterMemory(_));
    let is_done = !matches!(done.answer, None | Some((_, _, Reply::Refused(_), _)));
    done.side == Side::Dut && is_of_it && is_done
}

/// Returns the longest time that the device may take to respond, as its host reports it.
fn answer_time(trace: &Trace) -> Duration {
    let mut all = trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
    let completion = all.find_map(|done| match &done.answer {
        Some((_, _, Reply::Opened(facts), _)) => Some(facts.local_ca_ack_delay),
        _ => None,
    });
    completion.map_or(Duration::ZERO, verbatim_record::silence::answer_time)
}

/// Returns all connections of a record with the packet peer.
pub(super) fn qp_traces(trace: &Trace) -> Vec<QpTrace<'_>> {
    let made = trace.timeline.commands.iter().filter(|done| done.side == Side::Tester);
    let of_tester: BTreeSet<u32> = made
        .filter_map(|done| match &done.answer {
            Some((_, _, Reply::Qp(qp), _)) => Some(qp.qpn),
            _ => None,
        })
        .collect();
    let memory: Rc<[&VerbsDone]> = trace
        .timeline
        .commands
        .iter()
        .filter(|done| is_of_memory(done))
        .collect();
    whole_dialogues(trace)
        .into_iter()
        .filter(|dialogue| !of_tester.contains(&dialogue.own_qpn.0))
        .filter_map(|dialogue| QpTrace::new(trace, dialogue, Rc::clone(&memory)))
        .collect()
}

impl<'t> QpTrace<'t> {
    fn new(trace: &'t Trace, dialogue: Dialogue<'t>, memory: Rc<[&'t VerbsDone]>) -> Option<Self> {
        let code = dialogue.attributes.path_mtu.and_then(|code| u8::try_from(code).ok());
        let mtu = code.and_then(|code| verbatim_wire::Mtu(code).bytes())?;
        let mut qp = Self {
            trace,
            dialogue,
            memory,
            mtu,
            answer_time: answer_time(trace),
            posts: Vec::new(),
            answers: Vec::new(),
            requests: Vec::new(),
            completions: Vec::new(),
            received: Vec::new(),
            receive_failed: false,
            until: 0,
            to_error: None,
            gone: usize::MAX,
            deaf: usize::MAX,
            habits: Rc::default(),
            effects: OnceCell::new(),
            asked: OnceCell::new(),
            responses: OnceCell::new(),
        };
        (qp.until, qp.deaf) = (qp.dialogue.places.1, qp.dialogue.places.1);
        qp.commands();
        qp.packets();
        let (mut sends, mut receives) = (
            Queue::new(qp.posts.iter().map(|post| (post.wr_id(), post.place()))),
            Queue::new(qp.receives()),
        );
        let mut received: Vec<Done<'t>> = Vec::new();
        for done in &qp.dialogue.completions {
            match assign(&mut sends, &mut receives, done.completion, done.event.place) {
                Of::Receive => received.push(*done),
                Of::Send(post) => qp.completions.push(Completion { done: *done, post }),
            }
        }
        let is_error = |done: &Done<'_>| !matches!(done.status(), WcStatus::SUCCESS | WcStatus::WR_FLUSH_ERR);
        qp.receive_failed = received.iter().any(is_error);
        qp.received = received;
        Some(qp)
    }

    /// Returns identifier and place of each posted receive.
    fn receives(&self) -> impl Iterator<Item = (u64, usize)> + use<'t> {
        let commands = self.trace.timeline.commands_between(self.dialogue.places).iter();
        commands.filter_map(|done| match &done.command {
            Command::PostReceive(post) => Some((post.wr_id, done.place)),
            _ => None,
        })
    }

    pub(super) fn is_within(&self, place: usize) -> bool {
        let (after, before) = self.dialogue.places;
        place > after && place < before
    }

    /// Collects the posted requests, and the commands that take the queue pair out of RTS.
    fn commands(&mut self) {
        let trace = self.trace;
        let handle = Some(self.dialogue.handle);
        let of_it = trace.timeline.commands_between(self.dialogue.places).iter();
        let mut next = 0;
        for done in of_it.filter(|done| done.side == Side::Dut) {
            match &done.command {
                Command::PostSend(post) if Some(post.qp) == handle => {
                    if matches!(done.answer, Some((_, _, Reply::Refused(_), _))) {
                        continue;
                    }
                    let first = self.dialogue.dut_psn.plus(next);
                    let posted = Posted::new((done, post), first, (self.memory_of(done, post), self.mtu));
                    let (first, end) = (next, next + posted.psns);
                    next = end;
                    self.posts.push(WorkRequest { posted, first, end });
                }
                Command::ModifyQp(modify) if Some(modify.qp) == handle => {
                    let is_on_the_way =
                        matches!(modify.state(), pb::QpState::Init | pb::QpState::Rtr | pb::QpState::Rts);
                    if modify.state() == pb::QpState::Reset {
                        self.gone = self.gone.min(done.place);
                    }
                    if matches!(modify.state(), pb::QpState::Err | pb::QpState::Reset) {
                        self.deaf = self.deaf.min(done.place);
                    }
                    if !is_on_the_way && self.until == self.dialogue.places.1 {
                        self.until = done.place;
                        self.to_error = (modify.state() == pb::QpState::Err).then_some(done);
                    }
                }
                Command::DestroyQp(destroy) if Some(destroy.qp) == handle => {
                    self.until = self.until.min(done.place);
                    self.gone = self.gone.min(done.place);
                    self.deaf = self.deaf.min(done.place);
                }
                _ => {}
            }
        }
    }

    /// Returns the bytes that a request sends, if known: the bytes that the host last wrote to the request's
    /// memory.
    fn memory_of(&self, at: &VerbsDone, post: &pb::PostSend) -> Option<&'t [u8]> {
        let local = post.local?;
        let (from, until) = (local.offset, local.offset.checked_add(local.length)?);
        let (after, before) = self.dialogue.places;
        let within = self.trace.timeline.commands_between((after, before.min(at.place)));
        let overlaps =
            |offset: u32, length: usize| offset < until && u64::from(from) < u64::from(offset) + length as u64;
        let written = within
            .iter()
            .rev()
            .filter_map(|done| match &done.command {
                Command::WriteMemory(write) if write.memory == local.memory => Some(write),
                _ => None,
            })
            .find(|write| overlaps(write.offset, write.bytes.len()))?;
        let begin = usize::try_from(from.checked_sub(written.offset)?).ok()?;
        written.bytes.get(begin..begin + local.length as usize)
    }

    fn packets(&mut self) {
        let of_dut = self.dialogue.of_dut().next();
        let mut seen_until = 0;
        for seen in &self.dialogue.packets {
            let parsed = parsed(seen);
            let is_of_rc = parsed.opcode.service() == Service::Rc;
            let posted = self.posted_until(seen.frame.place);
            let offset = parsed.psn.since(self.dialogue.dut_psn);
            let offset = (offset < posted).then_some(offset);
            if seen.frame.received {
                if is_of_rc && !parsed.opcode.is_response() && !self.is_repeated(seen) {
                    self.requests.push(Request { seen: *seen, offset });
                    let post = offset.and_then(|offset| self.post_of(offset));
                    let end = match post.map(|at| &self.posts[at]) {
                        Some(post) if post.posted.has_response_data() => post.end,
                        _ => offset.map_or(0, |offset| offset + 1),
                    };
                    seen_until = seen_until.max(end);
                }
                continue;
            }
            let is_to_it = parsed.bth.dest_qp() == self.dialogue.dut_qpn;
            let arrives = of_dut.is_none_or(|of_dut| reaches(&seen.packet, &of_dut.packet));
            if is_of_rc && is_to_it && arrives && parsed.is_taken && parsed.opcode.is_response() {
                self.answers.push(PeerResponse {
                    frame: seen.frame,
                    packet: seen.packet,
                    offset,
                    is_of_seen: offset.is_some_and(|offset| offset < seen_until),
                    says: ResponseKind::of(&parsed),
                    syndrome: parsed.syndrome(),
                });
            }
        }
    }

    /// Returns the device's undamaged responses, each with its frame, in order.
    pub(super) fn responses(&self) -> impl Iterator<Item = (Parsed<'t>, &'t FrameSeen)> + '_ {
        let all = self.responses.get_or_init(|| {
            let parsed = self.dialogue.of_dut().map(|seen| (parsed(&seen), seen.frame));
            let is_one = |parsed: &Parsed<'_>| {
                parsed.is_taken && parsed.opcode.service() == Service::Rc && parsed.opcode.is_response()
            };
            parsed.filter(|(parsed, _)| is_one(parsed)).collect()
        });
        all.iter().copied()
    }

    /// Returns the peer's undamaged requests, from the first PSN that the device expects.
    pub(super) fn asked(&self) -> impl Iterator<Item = Asked<'t>> + '_ {
        self.asked_anywhere().filter(|(offset, ..)| *offset < HALF)
    }

    /// Returns the requests of [`Self::asked`] and the requests before the first PSN, whose offsets wrap around.
    pub(super) fn asked_anywhere(&self) -> impl Iterator<Item = Asked<'t>> + '_ {
        let all = self.asked.get_or_init(|| {
            let Some(first) = self.first() else {
                return Vec::new();
            };
            let of_dut = self.dialogue.of_dut().next();
            let sent = self.dialogue.packets.iter().filter(|seen| !seen.frame.received);
            let arrives = |seen: &&Seen<'t>| of_dut.is_none_or(|of_dut| reaches(&seen.packet, &of_dut.packet));
            let is_request = |parsed: &Parsed<'_>| {
                let is_to_it = parsed.bth.dest_qp() == self.dialogue.dut_qpn && parsed.opcode.service() == Service::Rc;
                is_to_it && parsed.is_taken && !parsed.opcode.is_response()
            };
            sent.filter(arrives)
                .map(|seen| (parsed(seen), seen.frame))
                .filter(|(parsed, _)| is_request(parsed))
                .map(|(parsed, frame)| (parsed.psn.since(first), parsed, frame))
                .collect()
        });
        all.iter().copied()
    }

    /// Returns the first PSN that the device expects, if known.
    pub(super) fn first(&self) -> Option<Psn> {
        self.dialogue.attributes.rq_psn.map(Psn::new)
    }

    /// Returns the number of PSNs that a request packet takes. A READ takes one PSN for each response.
    pub(super) fn psns(&self, parsed: &Parsed<'_>) -> u32 {
        let reth = parsed
            .reth()
            .filter(|_| RequestKind::of(parsed.opcode) == RequestKind::Read);
        reth.map_or(1, |reth| reth.dma_len().div_ceil(self.mtu).max(1))
    }

    /// Returns whether a network may have repeated a packet: the same bytes arrived twice in direct succession. A
    /// requester repeats a packet only after a wait or a response.
    fn is_repeated(&self, seen: &Seen<'t>) -> bool {
        const RIGHT_BEHIND: Duration = Duration::from_micros(100);
        let last = self.requests.last().filter(|_| !self.is_lossless());
        last.is_some_and(|last| {
            let is_same = last.seen.frame.bytes == seen.frame.bytes;
            let is_asked_for = self
                .answers
                .last()
                .is_some_and(|answer| answer.place() > last.seen.place);
            is_same && !is_asked_for && seen.frame.at.since(last.seen.frame.at).1 < RIGHT_BEHIND
        })
    }

    /// Returns the number of PSNs posted before a place.
    fn posted_until(&self, place: usize) -> u32 {
        let before = self.posts.iter().rev().find(|post| post.place() < place);
        before.map_or(0, |post| post.end)
    }

    /// Returns the index in [`Self::posts`] of the request that takes a PSN.
    pub(super) fn post_of(&self, offset: u32) -> Option<usize> {
        let at = self.posts.partition_point(|post| post.end <= offset);
        self.posts.get(at).filter(|post| post.has(offset)).map(|_| at)
    }

    /// Returns whether no packet can be lost.
    pub(super) fn is_lossless(&self) -> bool {
        self.trace.begin.simulated
    }

    /// Returns the longest transit time of a packet, if known.
    pub(super) fn path(&self) -> Option<Duration> {
        rc::path(self.trace).or_else(|| self.is_lossless().then_some(SIMULATED_PATH))
    }

    /// Returns the time from the connection's first post to the arrival of its packet. Nothing delays this packet.
    /// Later packets may also spend that long inside the device.
    pub(super) fn pipeline(&self) -> Duration {
        let first = self.requests.iter().find(|request| request.offset == Some(0));
        let post = self.posts.first().map(|post| post.posted.command.asked);
        let took = first
            .zip(post)
            .map(|(first, post)| first.seen.frame.at.latest.since(post.earliest));
        took.unwrap_or_default()
    }

    /// Returns the ACK timeout; `None` if it is off.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let code = u8::try_from(self.dialogue.attributes.timeout?).ok()?;
        AckTimeout(code).duration()
    }

    pub(super) fn retry_cnt(&self) -> u32 {
        self.dialogue.attributes.retry_cnt.unwrap_or(0)
    }

    pub(super) fn rnr_retry(&self) -> u32 {
        self.dialogue.attributes.rnr_retry.unwrap_or(0)
    }

    /// Returns the first completion with an error.
    pub(super) fn failed(&self) -> Option<&Completion<'t>> {
        self.completions.iter().find(|completion| !completion.is_success())
    }

    /// Returns the time by which a response has certainly reached the device, so that a missing reaction is the
    /// device's fault. On hardware the proof is a third copy of the response, or a completion or retransmission
    /// that only this response explains.
    pub(super) fn has_arrived(&self, answer: &PeerResponse<'t>) -> Option<Time> {
        if self.is_lossless() {
            return Some(answer.frame.at.latest);
        }
        let copies = self.answers.iter().filter(|other| other.is_same(answer));
        let third = copies.clone().nth(TRIES as usize - 1);
        let first = copies.clone().next()?;
        let shows = self.completions.iter().find(|completion| {
            let Some(post) = completion.post.map(|at| &self.posts[at]) else {
                return false;
            };
            let speaks = |answer: &PeerResponse<'t>| {
                let is_direct = answer.offset.is_some_and(|offset| post.has(offset));
                is_direct || answer.end().is_some_and(|end| end >= post.end)
            };
            let before = self.answers.iter().filter(|other| other.place() < completion.place());
            completion.place() > first.place()
                && speaks(first)
                && !before.clone().any(|other| !other.is_same(first) && speaks(other))
        });
        // If the ACK timeout is off, a retransmission proves that the NAK that caused it has arrived.
        let is_cause = |other: &&PeerResponse<'t>| matches!(other.says, ResponseKind::Sequence | ResponseKind::Rnr);
        let asked_for = |sent: &&Request<'t>| {
            let before = |place: usize| self.answers.iter().filter(move |other| other.place() < place);
            let came_before = !self.transmissions(sent.offset.unwrap_or(0), sent.seen.place).is_empty();
            let is_it = sent.offset == first.offset && sent.seen.place > first.place() && is_cause(&first);
            is_it
                && came_before
                && before(sent.seen.place)
                    .filter(is_cause)
                    .all(|other| other.is_same(first))
        };
        let again = self
            .requests
            .iter()
            .find(|sent| self.timeout().is_none() && asked_for(sent));
        let by_retry = again.map(|sent| sent.seen.frame.at.latest);
        let by_completion = shows.map(|completion| completion.done.event.at.latest);
        let by_copies = third.map(|third| third.frame.at.latest);
        by_completion.into_iter().chain(by_copies).chain(by_retry).min()
    }

    /// Returns the outcome of a requirement with the deadline `within` after `since`. `met`: the time when it was
    /// met.
    pub(super) fn owed(&self, since: Time, within: Duration, met: Option<Time>) -> Deadline<'t> {
        self.owed_before(self.until, (since, within), met)
    }

    /// Like [`Self::owed`], but with the limit `until`: only commands up to this place can show that the host is
    /// alive.
    pub(super) fn owed_before(
        &self,
        until: usize,
        (since, within): (Time, Duration),
        met: Option<Time>,
    ) -> Deadline<'t> {
        let due = since.after(within);
        if met.is_some_and(|met| met <= due) {
            return Deadline::Met;
        }
        let is_alive = |done: &&VerbsDone| {
            let said = matches!(&done.answer, Some((.., reply, _)) if !matches!(reply, Reply::Refused(_)));
            // The command at the place `until` also shows that the host is alive.
            done.side == Side::Dut && said && done.asked.earliest >= due && done.place <= until
        };
        let (begin, _) = self.dialogue.places;
        let mut later = self.trace.timeline.commands_between((begin, usize::MAX)).iter();
        let after = later.find(is_alive);
        after.map_or(Deadline::NotDue, Deadline::Unmet)
    }

    /// Returns the first command after `since` that shows that the host is alive.
    pub(super) fn after(&self, since: Time) -> Option<&'t VerbsDone> {
        let mut commands = self.trace.timeline.commands.iter();
        commands.find(|done| done.side == Side::Dut && done.asked.earliest >= since && done.answer.is_some())
    }

    /// Returns the time of the last command to the host within the connection.
    pub(super) fn ends_at(&self) -> Option<Time> {
        let places = (self.dialogue.places.0, self.until.saturating_add(1));
        let within = self.trace.timeline.commands_between(places);
        within.last().map(|done| done.asked.earliest)
    }

    /// Returns the device's request packets with the PSN `offset`, before the place `until`.
    pub(super) fn transmissions(&self, offset: u32, until: usize) -> Vec<&Request<'t>> {
        let sent = self.requests.iter();
        sent.filter(|sent| sent.offset == Some(offset) && sent.seen.place < until)
            .collect()
    }

    /// Returns the completions of the request at index `at`.
    pub(super) fn completions_of(&self, at: usize) -> impl Iterator<Item = &Completion<'t>> {
        self.completions
            .iter()
            .filter(move |completion| completion.post == Some(at))
    }
}

fn parsed<'t>(seen: &Seen<'t>) -> Parsed<'t> {
    Parsed::of(&Event {
        number: seen.frame.number.into(),
        at: None,
        packet: seen.packet,
        is_cut: false,
    })
}

/// Returns packets as evidence.
pub(super) fn shown<'t>(requests: &[&Request<'t>]) -> Vec<Evidence<'t>> {
    requests.iter().map(|sent| sent.seen.frame.into()).collect()
}

//! A connection of the device with the packet peer as its host and the wire show it: what was posted, what was sent, what
//! was answered, what was told.
//!
//! PSNs are counted from the connection's first one, so that requests are ranges of one line of numbers.

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

/// How long an event may take that nothing holds back.
pub(super) const EVENT_WAIT: Duration = Duration::from_secs(2);

/// No packet is longer on a simulated path: some 4 KB at 10 Gbit/s, and a few switches.
pub(super) const SIMULATED_PATH: Duration = Duration::from_micros(20);

/// A request that was posted.
#[derive(Clone, Debug)]
pub(super) struct WorkRequest<'t> {
    pub(super) posted: Posted<'t>,
    /// Its first PSN, counted from the connection's first.
    pub(super) first: u32,
    /// The one behind its last.
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

/// A request packet of the peer: its PSN, counted from the first that the device expects, and its frame.
pub(super) type Asked<'t> = (u32, Parsed<'t>, &'t FrameSeen);

/// A sound response of the peer to the device's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerResponse<'t> {
    pub(super) frame: &'t FrameSeen,
    pub(super) packet: Packet<'t>,
    /// Its PSN, counted from the connection's first; `None` when nothing with it was posted when it left.
    pub(super) offset: Option<u32>,
    /// Whether a request with this PSN, or a later one, had come in when it left.
    pub(super) is_of_seen: bool,
    pub(super) says: ResponseKind,
    pub(super) syndrome: Option<Syndrome>,
}

impl PeerResponse<'_> {
    pub(super) fn place(&self) -> usize {
        self.frame.place
    }

    /// The PSN up to which it says that SENDs and WRITEs were executed; that one excluded.
    pub(super) fn end(&self) -> Option<u32> {
        let offset = self.offset?;
        Some(match self.says {
            ResponseKind::Ack => offset + 1,
            _ => offset,
        })
    }

    /// Whether it is of no use to anyone: something without a meaning.
    pub(super) fn is_odd(&self) -> bool {
        self.says == ResponseKind::Nothing
    }

    fn is_same(&self, other: &Self) -> bool {
        self.frame.bytes == other.frame.bytes
    }
}

/// A request packet of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'t> {
    pub(super) seen: Seen<'t>,
    /// Its PSN, counted from the connection's first; `None` when nothing with it was posted.
    pub(super) offset: Option<u32>,
}

/// A completion of the send queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion<'t> {
    pub(super) done: Done<'t>,
    /// The request, by its place among those posted.
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

/// What came of something that must happen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Owed<'t> {
    /// It happened in time.
    Met,
    /// The record ends, or the tester interferes, before it had to.
    NotDue,
    /// It did not, and this shows the host alive afterwards.
    Unmet(&'t VerbsDone),
}

/// A connection with the packet peer.
#[derive(Clone, Debug)]
pub(super) struct QpTrace<'t> {
    pub(super) trace: &'t Trace,
    pub(super) dialogue: Dialogue<'t>,
    /// What the DUT's host registered and deregistered, of all connections, in order.
    pub(super) memory: Rc<[&'t VerbsDone]>,
    pub(super) mtu: u32,
    /// How long the device may take to answer, by its own word.
    pub(super) answer_time: Duration,
    pub(super) posts: Vec<WorkRequest<'t>>,
    pub(super) answers: Vec<PeerResponse<'t>>,
    pub(super) requests: Vec<Request<'t>>,
    pub(super) completions: Vec<Completion<'t>>,
    /// The completions of receives.
    pub(super) received: Vec<Done<'t>>,
    /// Whether a receive ended with an error of its own.
    pub(super) receive_failed: bool,
    /// Where the tester takes the queue pair out of RTS, or the dialogue is over.
    pub(super) until: usize,
    /// The command that takes it to the error state.
    pub(super) to_error: Option<&'t VerbsDone>,
    /// Where the tester resets or destroys the queue pair, or the dialogue is over.
    pub(super) gone: usize,
    /// Where the tester takes it to a state in which it answers nothing, or the dialogue is over.
    pub(super) deaf: usize,
    /// The retry timer's habits, as the record shows them.
    pub(super) habits: Rc<Habits>,
    /// What the peer's requests did to the device's memory.
    pub(super) effects: OnceCell<(Rc<[Effect<'t>]>, Option<usize>)>,
    /// The peer's sound requests.
    asked: OnceCell<Vec<Asked<'t>>>,
    /// The device's sound responses.
    responses: OnceCell<Vec<(Parsed<'t>, &'t FrameSeen)>>,
}

/// Whether the DUT's host registered or deregistered memory.
fn is_of_memory(done: &VerbsDone) -> bool {
    let is_of_it = matches!(done.command, Command::RegisterMemory(_) | Command::DeregisterMemory(_));
    let is_done = !matches!(done.answer, None | Some((_, _, Reply::Refused(_), _)));
    done.side == Side::Dut && is_of_it && is_done
}

/// How long the device may take to answer, as its host said.
fn answer_time(trace: &Trace) -> Duration {
    let mut all = trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
    let completion = all.find_map(|done| match &done.answer {
        Some((_, _, Reply::Opened(facts), _)) => Some(facts.local_ca_ack_delay),
        _ => None,
    });
    completion.map_or(Duration::ZERO, verbatim_record::silence::answer_time)
}

/// All connections of a record with the packet peer.
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

    /// The receives that were posted, each with its place.
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

    /// What the host was asked: posts, and what takes the queue pair out of RTS.
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

    /// The bytes that a request sends, when it is known what the memory holds: what was written there last.
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

    /// The sound responses of the device, each with its frame, in order.
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

    /// The peer's sound requests from the first PSN that the device expects on.
    pub(super) fn asked(&self) -> impl Iterator<Item = Asked<'t>> + '_ {
        self.asked_anywhere().filter(|(offset, ..)| *offset < HALF)
    }

    /// The same, with those that lie before that PSN: they count around.
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

    /// The first PSN that the device expects, if it is known.
    pub(super) fn first(&self) -> Option<Psn> {
        self.dialogue.attributes.rq_psn.map(Psn::new)
    }

    /// How many PSNs a request packet takes: a READ those of its responses.
    pub(super) fn psns(&self, parsed: &Parsed<'_>) -> u32 {
        let reth = parsed
            .reth()
            .filter(|_| RequestKind::of(parsed.opcode) == RequestKind::Read);
        reth.map_or(1, |reth| reth.dma_len().div_ceil(self.mtu).max(1))
    }

    /// Whether a network may have made two packets of one: the same bytes right behind each other. A requester leaves time
    /// between them, or has heard something.
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

    /// How many PSNs were posted before a place.
    fn posted_until(&self, place: usize) -> u32 {
        let before = self.posts.iter().rev().find(|post| post.place() < place);
        before.map_or(0, |post| post.end)
    }

    /// The request that takes a PSN, by its place among those posted.
    pub(super) fn post_of(&self, offset: u32) -> Option<usize> {
        let at = self.posts.partition_point(|post| post.end <= offset);
        self.posts.get(at).filter(|post| post.has(offset)).map(|_| at)
    }

    /// Whether nothing can be lost.
    pub(super) fn is_lossless(&self) -> bool {
        self.trace.begin.simulated
    }

    /// How long a packet may be on its way, if that is known.
    pub(super) fn path(&self) -> Option<Duration> {
        rc::path(self.trace).or_else(|| self.is_lossless().then_some(SIMULATED_PATH))
    }

    /// How long the device took from the first post of the connection, which nothing holds up, to its packet: what it sends
    /// may be inside it for so long.
    pub(super) fn pipeline(&self) -> Duration {
        let first = self.requests.iter().find(|request| request.offset == Some(0));
        let post = self.posts.first().map(|post| post.posted.command.asked);
        let took = first
            .zip(post)
            .map(|(first, post)| first.seen.frame.at.latest.since(post.earliest));
        took.unwrap_or_default()
    }

    /// Its ACK timeout; `None` when that is off.
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

    /// The first completion with an error.
    pub(super) fn failed(&self) -> Option<&Completion<'t>> {
        self.completions.iter().find(|completion| !completion.is_success())
    }

    /// Whether what an answer says must have reached the device, so that what it does not do then is its own. By the rules
    /// of hardware: it was sent three times, or a request completed that nothing else speaks for; from when on.
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
        // Where no timer runs, what comes again shows that what asked for it was heard.
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

    /// Whether something that must happen within that time did; `met`: where and when it did.
    pub(super) fn owed(&self, since: Time, within: Duration, met: Option<Time>) -> Owed<'t> {
        self.owed_before(self.until, (since, within), met)
    }

    /// The same of something that the device must do until a place.
    pub(super) fn owed_before(&self, until: usize, (since, within): (Time, Duration), met: Option<Time>) -> Owed<'t> {
        let due = since.after(within);
        if met.is_some_and(|met| met <= due) {
            return Owed::Met;
        }
        let is_alive = |done: &&VerbsDone| {
            let said = matches!(&done.answer, Some((.., reply, _)) if !matches!(reply, Reply::Refused(_)));
            // The command that ends the dialogue shows the host alive, too.
            done.side == Side::Dut && said && done.asked.earliest >= due && done.place <= until
        };
        let (begin, _) = self.dialogue.places;
        let mut later = self.trace.timeline.commands_between((begin, usize::MAX)).iter();
        let after = later.find(is_alive);
        after.map_or(Owed::NotDue, Owed::Unmet)
    }

    /// The first command that shows the host alive after an instant.
    pub(super) fn after(&self, since: Time) -> Option<&'t VerbsDone> {
        let mut commands = self.trace.timeline.commands.iter();
        commands.find(|done| done.side == Side::Dut && done.asked.earliest >= since && done.answer.is_some())
    }

    /// When the connection was left alone no longer: the last that its host was asked within it.
    pub(super) fn ends_at(&self) -> Option<Time> {
        let places = (self.dialogue.places.0, self.until.saturating_add(1));
        let within = self.trace.timeline.commands_between(places);
        within.last().map(|done| done.asked.earliest)
    }

    /// Frames of the device's requests with that PSN, up to a place.
    pub(super) fn transmissions(&self, offset: u32, until: usize) -> Vec<&Request<'t>> {
        let sent = self.requests.iter();
        sent.filter(|sent| sent.offset == Some(offset) && sent.seen.place < until)
            .collect()
    }

    /// The completions of a request.
    pub(super) fn completions_of(&self, at: usize) -> impl Iterator<Item = &Completion<'t>> {
        self.completions
            .iter()
            .filter(move |completion| completion.post == Some(at))
    }
}

/// A packet of the dialogue, taken apart.
fn parsed<'t>(seen: &Seen<'t>) -> Parsed<'t> {
    Parsed::of(&Event {
        number: seen.frame.number.into(),
        at: None,
        packet: seen.packet,
        is_cut: false,
    })
}

/// Packets as evidence.
pub(super) fn shown<'t>(requests: &[&Request<'t>]) -> Vec<Evidence<'t>> {
    requests.iter().map(|sent| sent.seen.frame.into()).collect()
}

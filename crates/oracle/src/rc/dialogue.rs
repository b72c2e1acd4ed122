//! Dialogue: one connection of the DUT with the packet peer, as recorded.

use std::collections::BTreeMap;

use verbatim_record::labels;
use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{FrameSeen, Gap, HostEvent, Side, Trace, VerbsDone, WcStatus};
use verbatim_wire::packet::{Medium, Packet, Psn, Qpn, RKey};

use super::HALF;

/// Packet of the dialogue.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'t> {
    /// Frame that carried the packet.
    pub frame: &'t FrameSeen,
    /// The parsed packet.
    pub packet: Packet<'t>,
    /// Position in the record's timeline. The tester's adapter may swap packets of the DUT. If a packet arrived after a
    /// packet with a later PSN, but may have been sent before it, both packets have the position of the packet with the
    /// later PSN.
    pub place: usize,
}

impl Seen<'_> {
    /// Returns the PSN of the BTH.
    pub fn psn(&self) -> Psn {
        self.packet.bth().psn()
    }
}

/// Completion of the dialogue.
#[derive(Clone, Copy, Debug)]
pub struct Done<'t> {
    /// Event that reported the completion.
    pub event: &'t HostEvent,
    /// The completion itself.
    pub completion: &'t pb::Completion,
}

impl Done<'_> {
    /// Returns the status.
    pub fn status(&self) -> WcStatus {
        WcStatus(self.completion.status)
    }

    /// Returns `wr_id` and status in words.
    pub fn in_words(&self) -> String {
        format!("wr_id {} with {}", self.completion.wr_id, self.status())
    }
}

/// One connection of the DUT with the packet peer.
#[derive(Clone, Debug)]
pub struct Dialogue<'t> {
    /// Handle of the DUT's queue pair.
    pub handle: u32,
    /// Queue pair number of the DUT.
    pub dut_qpn: Qpn,
    /// Queue pair number of the packet peer.
    pub own_qpn: Qpn,
    /// First PSN of the DUT's requests.
    pub dut_psn: Psn,
    /// Address and R_Key of the DUT's memory.
    pub memory: (u64, RKey),
    /// Attributes that the host set on the DUT's queue pair.
    pub attributes: pb::QpAttributes,
    /// RoCE packets of this connection in both directions, in order; see [`Seen::place`].
    pub packets: Vec<Seen<'t>>,
    /// Completions of the DUT on this queue pair, in order.
    pub completions: Vec<Done<'t>>,
    /// First and last position of the dialogue in the record's timeline.
    pub places: (usize, usize),
}

impl<'t> Dialogue<'t> {
    /// Returns the DUT's packets, in order.
    pub fn of_dut(&self) -> impl Iterator<Item = Seen<'t>> + '_ {
        self.packets.iter().copied().filter(|seen| seen.frame.received)
    }

    /// Returns the DUT's packets at positions between `after` and `before`, both excluded.
    pub fn of_dut_between(&self, after: usize, before: usize) -> Vec<Seen<'t>> {
        self.of_dut()
            .filter(|seen| seen.place > after && seen.place < before)
            .collect()
    }

    /// Returns the completions at positions between `after` and `before`, both excluded.
    pub fn completions_between(&self, after: usize, before: usize) -> Vec<Done<'t>> {
        self.completions
            .iter()
            .copied()
            .filter(|done| done.event.place > after && done.event.place < before)
            .collect()
    }
}

/// Returns all dialogues of a record, in order.
///
/// # Errors
/// Returns an error if the record has no connection, or if a connection was not set up completely.
pub fn dialogues(trace: &Trace) -> Result<Vec<Dialogue<'_>>, Gap> {
    let all = each(trace);
    if all.is_empty() {
        return Err(Gap::Missing(labels::CREATE.name));
    }
    all.into_iter().collect()
}

/// Returns the dialogues that were set up completely. A host may refuse a step of the last dialogue.
pub fn whole_dialogues(trace: &Trace) -> Vec<Dialogue<'_>> {
    each(trace).into_iter().filter_map(Result::ok).collect()
}

fn each(trace: &Trace) -> Vec<Result<Dialogue<'_>, Gap>> {
    let made: Vec<&VerbsDone> = of_dut(trace.commands(labels::CREATE).filter(|done| is_taken(done)));
    let memories: Vec<&VerbsDone> = of_dut(trace.commands(labels::MEMORY).filter(|done| is_taken(done)));
    for label in [labels::INIT, labels::RTR, labels::RTS] {
        let _ = trace.commands(label);
    }
    let last = trace.timeline.order.len();
    let queue_pairs = lives(trace, &made);
    let mut all = Vec::new();
    for (at, created) in made.iter().enumerate() {
        let next = made.get(at + 1).map_or(last, |next| next.place);
        for places in connections_of(trace, created, end_of(trace, created, next)) {
            let memory = memories.iter().rev().find(|memory| memory.place < created.place);
            all.push(one(trace, created, memory.copied(), (places, &queue_pairs)));
        }
    }
    all
}

/// Returns the position where the use of a queue pair ends. This is the position `next`, where the next queue pair
/// is created. If the peer or the host still uses the queue pair after that position, its use ends where it is
/// destroyed.
pub fn end_of(trace: &Trace, created: &VerbsDone, next: usize) -> usize {
    let Some((.., Reply::Qp(qp), _)) = &created.answer else {
        return next;
    };
    let gone = gone(trace, created, qp.qp);
    if gone <= next {
        return next;
    }
    let mut later = trace.timeline.frames_between((next, gone)).iter();
    let is_used = later.any(|frame| {
        !frame.received && Packet::parse(Medium::Ethernet, &frame.bytes).is_ok_and(|of| of.bth().dest_qp().0 == qp.qpn)
    });
    let mut posts = trace.timeline.commands_between((next, gone)).iter();
    let is_posted = posts.any(|done| {
        let of_it = matches!(&done.command, Command::PostSend(post) if post.qp == qp.qp);
        of_it && done.side == Side::Dut
    });
    if is_used || is_posted { gone } else { next }
}

/// Returns the position where a queue pair is destroyed, or the end of the record.
fn gone(trace: &Trace, created: &VerbsDone, handle: u32) -> usize {
    let end = trace.timeline.order.len();
    let mut later = trace.timeline.commands_between((created.place, end)).iter();
    let is_it = |done: &&VerbsDone| match &done.command {
        Command::DestroyQp(destroy) => done.side == Side::Dut && destroy.qp == handle,
        _ => false,
    };
    later.find(is_it).map_or(end, |done| done.place)
}

/// Number of a queue pair, and the positions where it is created and destroyed.
type Life = (Qpn, usize, usize);

/// Returns the lives of the DUT's queue pairs.
fn lives(trace: &Trace, made: &[&VerbsDone]) -> Vec<Life> {
    made.iter()
        .filter_map(|created| match &created.answer {
            Some((.., Reply::Qp(qp), _)) => Some((Qpn(qp.qpn), created.place, gone(trace, created, qp.qp))),
            _ => None,
        })
        .collect()
}

/// Returns the first and last position of each connection of a queue pair, in order. A connection begins where the
/// queue pair is created, or where it goes to INIT again after RESET.
pub fn connections_of(trace: &Trace, created: &VerbsDone, until: usize) -> Vec<(usize, usize)> {
    let Some((.., Reply::Qp(qp), _)) = &created.answer else {
        return vec![(created.place, until)];
    };
    let (mut begins, mut was_reset) = (vec![created.place], false);
    for done in trace.timeline.commands_between((created.place, until)) {
        match &done.command {
            Command::ModifyQp(modify) if done.side == Side::Dut && modify.qp == qp.qp && is_taken(done) => {
                if was_reset && modify.state() == pb::QpState::Init {
                    begins.push(done.place);
                }
                was_reset = modify.state() == pb::QpState::Reset;
            }
            _ => {}
        }
    }
    let ends = begins[1..].iter().copied().chain([until]);
    begins.iter().copied().zip(ends).collect()
}

/// Returns whether a command was not refused: the host executed it or gave no reply.
pub fn is_taken(done: &VerbsDone) -> bool {
    !matches!(done.answer, Some((_, _, Reply::Refused(_), _)))
}

fn of_dut<'t>(commands: impl Iterator<Item = &'t VerbsDone>) -> Vec<&'t VerbsDone> {
    commands.filter(|command| command.side == Side::Dut).collect()
}

fn one<'t>(
    trace: &'t Trace,
    created: &'t VerbsDone,
    memory: Option<&'t VerbsDone>,
    (places, queue_pairs): ((usize, usize), &[Life]),
) -> Result<Dialogue<'t>, Gap> {
    let Some((.., Reply::Qp(qp), _)) = &created.answer else {
        return Err(Gap::Missing(labels::CREATE.name));
    };
    let Some((.., Reply::Memory(memory), _)) = memory.and_then(|memory| memory.answer.as_ref()) else {
        return Err(Gap::Missing(labels::MEMORY.name));
    };
    let mut attributes = pb::QpAttributes::default();
    // The range excludes its ends, but the command at the first position belongs to the connection.
    for done in trace.timeline.commands_between((places.0.saturating_sub(1), places.1)) {
        match &done.command {
            Command::ModifyQp(modify) if done.side == Side::Dut && modify.qp == qp.qp && is_taken(done) => {
                merge(
                    &mut attributes,
                    modify.attributes.as_ref().unwrap_or(&pb::QpAttributes::default()),
                );
            }
            _ => {}
        }
    }
    let Some(own_qpn) = attributes.dest_qpn else {
        return Err(Gap::Missing(labels::RTR.name));
    };
    // If `sq_psn` was never set, the queue pair was never in RTS and has sent no request.
    let dut_psn = attributes.sq_psn.unwrap_or_default();
    let (dut_qpn, own_qpn) = (Qpn(qp.qpn), Qpn(own_qpn));
    let of_it = trace.timeline.frames_between(places);
    let last = of_it.iter().map(|frame| frame.at.latest).max();
    // The tester's adapter may deliver a frame late, after the end of the dialogue.
    let is_held = |frame: &&FrameSeen| frame.received && last.is_some_and(|last| frame.at.earliest <= last);
    let later = match places.1.checked_sub(1) {
        Some(until) if !trace.begin.simulated => trace.timeline.frames_between((until, usize::MAX)),
        _ => &[],
    };
    let mut packets: Vec<Seen<'_>> = of_it
        .iter()
        .chain(later.iter().filter(is_held))
        .filter_map(|frame| {
            let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
            let to = if frame.received { own_qpn } else { dut_qpn };
            let dest = packet.bth().dest_qp();
            let is_theirs =
                |(of, from, until): &Life| *of == dest && *of != dut_qpn && *from < frame.place && frame.place < *until;
            let is_ours = || !frame.received && !frame.label.is_empty() && !queue_pairs.iter().any(is_theirs);
            (dest == to || is_ours()).then_some(Seen {
                frame,
                packet,
                place: frame.place,
            })
        })
        .collect();
    if !trace.begin.simulated {
        untangle(&mut packets);
    }
    let completions = trace
        .timeline
        .told_between(places)
        .iter()
        .filter(|event| event.side == Side::Dut)
        .filter_map(|event| match &event.event {
            Event::Completion(completion) if completion.qp == qp.qp => Some(Done { event, completion }),
            _ => None,
        })
        .collect();
    Ok(Dialogue {
        handle: qp.qp,
        dut_qpn,
        own_qpn,
        dut_psn: Psn::new(dut_psn),
        memory: (memory.address, RKey(memory.r_key)),
        attributes,
        packets,
        completions,
        places,
    })
}

/// Reorders the DUT's packets. A packet moves before the packets with later PSNs that arrived before it, if the time
/// spans leave the order open. It stays if one of these packets has the same PSN, because it is a retransmission in
/// that case. The n-th transmission of a packet also stays after packets with later PSNs that were sent fewer than n
/// times.
fn untangle(packets: &mut [Seen<'_>]) {
    // Number of times that the DUT sent each kind and PSN, among the packets so far.
    let mut sent: BTreeMap<((bool, bool), u32), usize> = BTreeMap::new();
    for at in 0..packets.len() {
        let seen = packets[at];
        if at > 0 {
            put_in_order(packets, at, |of| {
                sent.get(&(kind(of), of.psn().0)).copied().unwrap_or(0)
            });
        }
        if seen.frame.received {
            *sent.entry((kind(&seen), seen.psn().0)).or_default() += 1;
        }
    }
}

/// Returns whether the packet is a request, and whether it is a response. A CNP is neither, and its PSN has no
/// meaning.
fn kind(of: &Seen<'_>) -> (bool, bool) {
    let opcode = of.packet.opcode();
    (opcode.is_request(), opcode.is_response())
}

/// Moves the packet at index `at` before later PSNs, as [`untangle`] describes. `sent` returns how often the DUT
/// sent an earlier packet.
fn put_in_order(packets: &mut [Seen<'_>], at: usize, sent: impl Fn(&Seen<'_>) -> usize) {
    let seen = packets[at];
    let of_kind = |other: &Seen<'_>| other.frame.received && kind(other) == kind(&seen);
    let before = packets[..at].iter().rev();
    let open = at
        - before
            .take_while(|other| !other.frame.at.is_before(seen.frame.at))
            .count();
    let is_there = packets[open..at]
        .iter()
        .any(|other| of_kind(other) && other.psn() == seen.psn());
    if !seen.frame.received || is_there {
        return;
    }
    let round = sent(&seen) + 1;
    let is_later = |place: &usize| {
        let other = &packets[*place];
        let same = |behind: &&Seen<'_>| of_kind(behind) && behind.psn() == other.psn();
        let times = || sent(other) - packets[place + 1..at].iter().filter(same).count();
        of_kind(other) && other.psn().since(seen.psn()) < HALF && times() >= round
    };
    if let Some(first) = (open..at).find(is_later) {
        packets[first..=at].rotate_right(1);
        packets[first].place = packets[first + 1].place;
    }
}

/// Sets the attributes that a step gave.
pub(crate) fn merge(into: &mut pb::QpAttributes, given: &pb::QpAttributes) {
    macro_rules! take {
        ($($name:ident),*) => { $( if given.$name.is_some() { into.$name = given.$name.clone(); } )* };
    }
    take!(
        pkey_index,
        port,
        access,
        path_mtu,
        dest_qpn,
        rq_psn,
        sq_psn,
        max_dest_rd_atomic,
        max_rd_atomic,
        min_rnr_timer,
        timeout,
        retry_cnt,
        rnr_retry,
        qkey,
        address
    );
}

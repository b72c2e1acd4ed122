//! `c09-connections`: what comes on one connection is nothing to another one.
//!
//! Two connections get messages of three packets each, packet by packet in turns: SENDs, WRITEs with Immediate and WRITEs, each
//! beside one of its own kind and beside one of another. All are delivered, each to its own memory. Then each gets a WRITE behind a gap, and
//! tells of it. Of two others one waits for an answer that does not come, or for what an RNR NAK asked for, while the other goes on.
//! Reading: nothing is unclear. False alarm: none known.

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn, RnrTimer};

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester, offers};

const IMMEDIATE: &str = "9.4.1 SEND and immediate";
const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";
const ORDER: &str = "9.5 transaction ordering";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const TURNS: Label<Frames> = Label::new("messages of two connections, in turns");
const AGAIN: Label<Frames> = Label::new("a message, until it is acknowledged");
const ATOMIC: [Label<Frames>; 2] = [
    Label::new("FetchAdd on each of two connections"),
    Label::new("FetchAdd on each of two connections, again"),
];
const GAP: Label<Frames> = Label::new("WRITE behind a gap, on each of two connections");
const MISSING: Label<Frames> = Label::new("WRITE that was missing, on each of two connections");
const BESIDE: Label<Frames> = Label::new("ACK beside a request that nobody answers");
const BESIDE_AGAIN: Label<Frames> = Label::new("ACK beside a request that nobody answers, again");
const RNR: Label<Frames> = Label::new("RNR NAK on one connection");
const ACK: Label<Frames> = Label::new("ACK on another connection");
const ACK_AGAIN: Label<Frames> = Label::new("ACK on another connection, again");
const READY: Label<Frames> = Label::new("ACK of what was put off");
const READY_AGAIN: Label<Frames> = Label::new("ACK of what was put off, again");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Bytes of a receive; the n-th lies so often behind the beginning.
const SLOT: u32 = 13 * 1024;
const RECEIVES: u32 = 2;
/// Where WRITEs go, and how far apart they are.
const TARGET: u32 = RECEIVES * SLOT;
/// Bytes beyond two packets.
const REST: u32 = 5;

#[derive(Clone, Copy)]
enum Kind {
    Send,
    Write,
    WriteImm,
}

/// What the two connections get at a time.
const PAIRS: [[Kind; 2]; 4] = [
    [Kind::Write, Kind::Write],
    [Kind::Send, Kind::Send],
    [Kind::Write, Kind::Send],
    [Kind::WriteImm, Kind::Write],
];

/// Exchanges by which the path is measured, before and after.
const ROUND_TRIPS: u32 = 110;
/// The ACK timeout of requests that nobody answers: 67.1 ms.
const TIMEOUT: AckTimeout = AckTimeout(14);
/// Requests of the other connection, a quarter of that apart: in all longer than what waits may take.
const BESIDES: u32 = 160;
/// What the RNR NAK asks for: 163.84 ms.
const TIMER: RnrTimer = RnrTimer(28);

/// Connections beside each other.
pub(super) static TEST: Test = Test {
    id: "c09-connections",
    aliases: &[],
    revision: 4,
    about: "Messages of two connections whose packets come in turns are delivered as if each were alone.",
    reading: "SENDs, WRITEs and WRITEs with Immediate of three packets, one packet of each connection after the other: \
        both are acknowledged, delivered, and nothing else is touched. Atomics of one PSN on two connections: each comes again with its own \
        result. A gap on each of two is told of on each. While one waits after an RNR NAK another is acknowledged, which does not end the wait.",
    statements: &[
        ORDER,
        IMMEDIATE,
        ACKNOWLEDGEMENT,
        DUPLICATES,
        "9.7.4.1.1 PSN sequence",
        "C9-130",
        "C9-142",
        "C9-60",
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn message(t: &Tester<'_>, channel: &Channel, psn: Psn, kind: Kind, name: &str) -> Message {
    let payload = ask::random_bytes(t, name, 2 * ask::mtu(channel) + REST);
    match kind {
        Kind::Send => Message::send(channel, psn, &payload),
        Kind::Write => Message::write(channel, psn, TARGET, &payload),
        Kind::WriteImm => Message::write(channel, psn, TARGET, &payload).with_imm(0x0C0D_0001),
    }
}

fn procedure(t: &mut Tester<'_>) -> Step {
    t.needs_queue_pairs(2)?;
    let mut channels = Vec::new();
    for end in 0..2 {
        let channel = t.open_channel(&ChannelOptions::default())?;
        let bytes = ask::random_bytes(t, &format!("memory {end}"), channel.memory.length);
        ask::fill(t, &channel, FILL, 0, bytes)?;
        for at in 0..RECEIVES {
            ask::post_receive(t, &channel, RECEIVE, u64::from(at) + 1, (at * SLOT, SLOT))?;
        }
        channels.push((channel, channel.own_psn));
    }
    for (round, kinds) in PAIRS.into_iter().enumerate() {
        let mut both = Vec::new();
        for (end, ((channel, psn), kind)) in channels.iter_mut().zip(kinds).enumerate() {
            let message = message(t, channel, *psn, kind, &format!("message {round} of {end}"));
            *psn = message.next();
            both.push((*channel, message));
        }
        let frames: Vec<_> = both.iter().map(|(channel, message)| message.frames(channel)).collect();
        for (one, other) in frames[0].iter().zip(&frames[1]) {
            t.send_frame(TURNS, one)?;
            t.send_frame(TURNS, other)?;
        }
        t.pause(ask::soon(t))?;
        // Some of it may have been lost; what was not is a duplicate then.
        for (channel, message) in &both {
            ask::ask(t, channel, AGAIN, message)?;
        }
    }
    for (channel, _) in &channels {
        ask::read_memory(t, channel, RESULT, channel.memory.length)?;
        ask::query(t, channel, STATE)?;
    }
    if t.executes(Operation::FetchAdd) {
        atomics(t)?;
    }
    gaps(t)?;
    unanswered(t)?;
    put_off(t)
}

/// A gap on each of two connections at a time: each is told of.
fn gaps(t: &mut Tester<'_>) -> Step {
    let channels = [
        t.open_channel(&ChannelOptions::default())?,
        t.open_channel(&ChannelOptions::default())?,
        t.open_channel(&ChannelOptions::default())?,
        t.open_channel(&ChannelOptions::default())?,
    ];
    // Of two packets each, so that an ACK of a first packet is none of the message.
    let write = |channel: &Channel, ahead: u32| {
        let payload = vec![0x5A; ask::mtu(channel) as usize + 8];
        Message::write(channel, channel.own_psn.plus(ahead), TARGET, &payload)
    };
    // Three times: on a link that loses packets one may be lost.
    for round in 0..verbatim_record::TRIES {
        let from = round * 4;
        for channel in &channels {
            t.skip_packets();
            ask::put(t, channel, GAP, &write(channel, from + 2))?;
            ask::listen(t, channel)?;
        }
        for channel in &channels {
            ask::ask(t, channel, MISSING, &write(channel, from))?;
            ask::ask(t, channel, MISSING, &write(channel, from + 2))?;
        }
    }
    for channel in &channels {
        ask::query(t, channel, STATE)?;
    }
    Ok(())
}

/// An atomic on each of two connections whose PSNs are the same, and both again.
fn atomics(t: &mut Tester<'_>) -> Step {
    let one = t.open_channel(&ChannelOptions::default())?;
    let options = ChannelOptions {
        own_psn: Some(one.own_psn),
        ..ChannelOptions::default()
    };
    let other = t.open_channel(&options)?;
    for (number, channel) in (1u64..).zip([&one, &other]) {
        ask::fill(t, channel, FILL, 0, (number << 40).to_le_bytes().to_vec())?;
    }
    for label in ATOMIC {
        for channel in [&one, &other] {
            ask::ask(t, channel, label, &Message::fetch_add(channel, channel.own_psn, 0, 1))?;
        }
    }
    for channel in [&one, &other] {
        ask::query(t, channel, STATE)?;
    }
    Ok(())
}

/// A SEND that nobody answers, while another connection goes on: its time is up all the same.
fn unanswered(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMEOUT,
        // Not 7, which some take for retries without end.
        retry_cnt: 6,
        ..ChannelOptions::default()
    };
    let mut waits = Requester::open(t, &options)?;
    let mut goes_on = Requester::open(t, &options)?;
    let sent = waits.post(t, Ask::send(64))?;
    if waits.see_all(t, &sent)? {
        for _ in 0..BESIDES {
            let other = goes_on.post(t, Ask::send(64))?;
            if !goes_on.see_all(t, &other)? {
                break;
            }
            let acks = goes_on.answers(t, &other);
            goes_on.answer(t, (BESIDE, BESIDE_AGAIN), &acks, 1)?;
            t.pause(TIMEOUT.duration().unwrap_or_default() / 4)?;
        }
    }
    waits.close(t)?;
    goes_on.close(t)
}

/// A SEND that waits after an RNR NAK, while another connection goes on.
fn put_off(t: &mut Tester<'_>) -> Step {
    let mut waits = Requester::open(t, &ChannelOptions::default())?;
    t.measure_path(ROUND_TRIPS)?;
    let mut goes_on = Requester::open(t, &ChannelOptions::default())?;
    let sent = waits.post(t, Ask::send(64))?;
    if waits.see_all(t, &sent)? {
        t.send_frame(RNR, &waits.rnr_nak(sent.first, TIMER, 0))?;
        // It has arrived by then; the interval lasts.
        t.pause(TIMER.duration() / 8)?;
        let other = goes_on.post(t, Ask::send(64))?;
        if goes_on.see_all(t, &other)? {
            let acks = goes_on.answers(t, &other);
            goes_on.answer(t, (ACK, ACK_AGAIN), &acks, 1)?;
        }
        let patience = t.rc_silence(TIMER.duration(), AckTimeout::OFF, 0);
        if waits.see(t, sent.first, patience)? {
            let acks = waits.answers(t, &sent);
            waits.answer(t, (READY, READY_AGAIN), &acks, 1)?;
        }
    }
    t.measure_path(ROUND_TRIPS)?;
    waits.close(t)?;
    goes_on.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::MemoryContent,
        Rule::ReceiveOrder,
        Rule::ReceiveFields,
        Rule::RnrWait,
        Rule::AnsweredCompletes,
        Rule::GapAnswered,
    ]);
    if offers::executes(t, Operation::FetchAdd) && has_atomics(t) {
        f.exercises(&[Rule::AtomicAgain]);
        rc::came(t, &ATOMIC)?;
    } else {
        f.goes_without(&[DUPLICATES], "the device has no FetchAdd");
    }
    rc::came(t, &[TURNS, AGAIN, GAP, MISSING, BESIDE, RNR])
}

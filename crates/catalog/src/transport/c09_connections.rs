//! `c09-connections`: packets on one connection do not affect another connection.
//!
//! The peer sends messages of three packets on two connections, packet by packet in turns. It sends SENDs, WRITEs and
//! WRITEs with Immediate, each beside a message of the same or of another kind. The DUT must deliver all of them, each
//! to its own memory. It must also keep apart atomics with the same PSN, and report a PSN gap on each of several
//! connections. Finally the DUT's request on one connection stays unanswered, or waits after an RNR NAK, while another
//! connection makes progress.
//!
//! Reading: the specification is clear.
//!
//! False alarm: none known.

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

/// Length of a receive in bytes, and distance between receives.
const SLOT: u32 = 13 * 1024;
const RECEIVES: u32 = 2;
/// Offset of the WRITEs, after the receives.
const TARGET: u32 = RECEIVES * SLOT;
/// Bytes of a message beyond two full packets.
const REST: u32 = 5;

#[derive(Clone, Copy)]
enum Kind {
    Send,
    Write,
    WriteImm,
}

/// Messages that the two connections get at the same time.
const PAIRS: [[Kind; 2]; 4] = [
    [Kind::Write, Kind::Write],
    [Kind::Send, Kind::Send],
    [Kind::Write, Kind::Send],
    [Kind::WriteImm, Kind::Write],
];

/// Number of round trips that the test measures before and after its steps.
const ROUND_TRIPS: u32 = 110;
/// ACK timeout of unanswered requests: 67.1 ms.
const TIMEOUT: AckTimeout = AckTimeout(14);
/// Number of requests on the other connection, a quarter of the timeout apart. Together they last longer than the
/// unanswered request takes to fail.
const BESIDES: u32 = 160;
/// Interval of the RNR NAK: 163.84 ms.
const TIMER: RnrTimer = RnrTimer(28);

pub(super) static TEST: Test = Test {
    id: "c09-connections",
    aliases: &[],
    revision: 4,
    about: "Two connections with interleaved packets deliver their messages as if each were alone.",
    reading: "SENDs, WRITEs and WRITEs with Immediate of three packets, interleaved on two connections: the DUT \
        acknowledges and delivers both messages, and changes nothing else. Repeated atomics with the same PSN on two \
        connections get the result of their own connection. A PSN gap on each of two connections is reported on each. \
        An ACK on one connection does not end the wait after an RNR NAK on another.",
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
        // Repeat both messages: some packets may have been lost, and the others are duplicates now.
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

/// Sends a WRITE behind a PSN gap on each of four connections. The DUT must report each gap.
fn gaps(t: &mut Tester<'_>) -> Step {
    let channels = [
        t.open_channel(&ChannelOptions::default())?,
        t.open_channel(&ChannelOptions::default())?,
        t.open_channel(&ChannelOptions::default())?,
        t.open_channel(&ChannelOptions::default())?,
    ];
    // Each message has two packets, so that an ACK of the first packet does not acknowledge the message.
    let write = |channel: &Channel, ahead: u32| {
        let payload = vec![0x5A; ask::mtu(channel) as usize + 8];
        Message::write(channel, channel.own_psn.plus(ahead), TARGET, &payload)
    };
    // Three rounds, because a link may lose a packet.
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

/// Sends an atomic with the same PSN on each of two connections, and repeats both.
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

/// Leaves a SEND unanswered while another connection makes progress. The SEND's timeout must expire nevertheless.
fn unanswered(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMEOUT,
        // Some devices treat 7 as retries without end.
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

/// Sends an RNR NAK for a SEND while another connection makes progress.
fn put_off(t: &mut Tester<'_>) -> Step {
    let mut waits = Requester::open(t, &ChannelOptions::default())?;
    t.measure_path(ROUND_TRIPS)?;
    let mut goes_on = Requester::open(t, &ChannelOptions::default())?;
    let sent = waits.post(t, Ask::send(64))?;
    if waits.see_all(t, &sent)? {
        t.send_frame(RNR, &waits.rnr_nak(sent.first, TIMER, 0))?;
        // After this pause the NAK has arrived, but the interval is not over.
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

//! `c09-060-OPERATION-responder` (C09_060_01_01 and its siblings): the DUT answers requests of the peer.
//!
//! The peer sends four messages, each when the one before was answered: two of three packets (the second of a length that
//! is padded), an empty one, and a third of three packets whose last is short. The DUT acknowledges a SEND or WRITE with the PSN of its last packet, and not
//! before that packet came; answers a READ with the data of its memory in packets as long as the path MTU; the MSN counts
//! the messages; receives complete in order, each once, with length and immediate data; its memory holds what it should
//! and nothing else.
//! Reading: where the public page says "each message has an AETH", an ACK may speak for several messages, so each message
//! asks for its own and is waited for. A READ may count in the MSN when it is accepted, or with its last response. An
//! acknowledged WRITE must be in memory two seconds later, without any further packet. Credits are not judged.
//! False alarm: none known; a request whose answer is lost is sent again, which is what a requester does.

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Opcode, Psn};

use crate::transport::rc::answer::{self, ACKNOWLEDGEMENT, MSN, Turn};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::effect::{self, Received};
use crate::transport::rc::{self, Dialogue};

const COMPLETION: &str = "C9-60";
const DELIVERY: &str = "9.4.1 SEND and immediate";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const PART: Label<Frames> = Label::new("all but the last packet of the first message");
const INCOMPLETE: Label<Wait> = Label::new("before the last packet of the first message");
const MESSAGES: [Label<Frames>; 4] = [
    Label::new("first message"),
    Label::new("second message, padded"),
    Label::new("third message, empty"),
    Label::new("fourth message, two packets and a bit"),
];
const AFTER: Label<Wait> = Label::new("after all messages");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Bytes of the memory that are filled before, and looked at after.
const LOOKED_AT: u32 = 56 * 1024;
/// Where message n lies in the DUT's memory; no message is longer than three packets of 4096 bytes.
const fn place(n: u32) -> u32 {
    n * 13 * 1024 + 20
}
/// Where receives lie that no message fills, and how long they are.
const SPARE: (u32, u32) = (53 * 1024, 64);
/// Bytes that a receive is longer than its message.
const SLACK: u32 = 24;
/// Of the second message and those behind it. Between the two long ones, each bit has been both.
const IMMEDIATE: [u32; 3] = [0x0102_03F4, 0xF5E6_0718, !0x0102_03F4];

const READING: &str = "Four messages, each sent when the one before was answered. The ACK has the PSN of the message's last \
    packet and the MSN of the message; READ responses are First, Middle, Last or Only, as long as the path MTU, with the \
    memory's data; a READ may count in the MSN at its acceptance or its end. Receives complete once and in order; the memory \
    is compared whole two seconds later.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
}

/// The DUT takes SENDs.
pub(super) static SEND: Test = Test {
    id: "c09-060-send-responder",
    aliases: &["C09_060_01_01"],
    revision: 2,
    about: "The DUT acknowledges SENDs with the right PSN and MSN, and completes a receive for each.",
    reading: READING,
    statements: &[COMPLETION, ACKNOWLEDGEMENT, MSN, DELIVERY, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: |t| procedure(t, Kind::Send),
    judge: |t, f| judge(t, f, Kind::Send),
};

/// The DUT takes WRITEs.
pub(super) static WRITE: Test = Test {
    id: "c09-060-write-responder",
    aliases: &[],
    about: "The DUT executes and acknowledges RDMA WRITEs, and completes a receive for immediate data alone.",
    procedure: |t| procedure(t, Kind::Write),
    judge: |t, f| judge(t, f, Kind::Write),
    ..SEND
};

/// The DUT answers READs.
pub(super) static READ: Test = Test {
    id: "c09-060-read-responder",
    aliases: &[],
    revision: 1,
    about: "The DUT answers RDMA READs with its memory's data, in the right packets.",
    statements: &[ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    procedure: |t| procedure(t, Kind::Read),
    judge: |t, f| judge(t, f, Kind::Read),
    ..SEND
};

/// Bytes of the messages.
fn lengths(mtu: u32) -> [u32; 4] {
    [3 * mtu, 3 * mtu - 3, 0, 2 * mtu + 5]
}

/// Immediate data of message n.
fn immediate(kind: Kind, n: usize) -> Option<u32> {
    match (kind, n) {
        (Kind::Send | Kind::Write, 1..) => IMMEDIATE.get(n - 1).copied(),
        _ => None,
    }
}

fn message(channel: &Channel, kind: Kind, psn: Psn, n: usize, payload: &[u8]) -> Message {
    let at = place(n as u32);
    let message = match kind {
        Kind::Send => Message::send(channel, psn, payload),
        Kind::Write => Message::write(channel, psn, at, payload),
        Kind::Read => return Message::read(channel, psn, at, payload.len() as u32),
    };
    match immediate(kind, n) {
        Some(data) => message.with_imm(data),
        None => message,
    }
}

fn procedure(t: &mut Tester<'_>, kind: Kind) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let lengths = lengths(ask::mtu(&channel));
    for (n, length) in (0u32..).zip(lengths) {
        let slice = match kind {
            Kind::Send => (place(n), length + SLACK),
            // One more than there are immediate data: a WRITE without them must leave it.
            Kind::Write => SPARE,
            Kind::Read => continue,
        };
        ask::post_receive(t, &channel, RECEIVE, u64::from(n) + 1, slice)?;
    }
    let mut psn = channel.own_psn;
    let silence = t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0);
    for (n, (label, length)) in MESSAGES.into_iter().zip(lengths).enumerate() {
        let payload = ask::random_bytes(t, label.name, length);
        let message = message(&channel, kind, psn, n, &payload);
        psn = message.next();
        let sent = message.packets.len() - 1;
        if n == 0 && kind != Kind::Read {
            for frame in &message.frames(&channel)[..sent] {
                t.send_frame(PART, frame)?;
            }
            t.wait_for(INCOMPLETE, silence)?;
            ask::ask_from(t, &channel, label, &message, sent)?;
        } else {
            ask::ask(t, &channel, label, &message)?;
        }
    }
    t.wait_for(AFTER, silence)?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, kind: Kind) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let dialogue = &all[0];
    let mut memory = effect::written(t.command(FILL)?).to_vec();
    rc::sound_packets(f, dialogue);
    answer::well_directed(t, f, dialogue);
    let part = answer::turn(t, dialogue, PART);
    if let Some(part) = &part {
        incomplete(t, f, dialogue, part)?;
    }
    let mut receives: Vec<u64> = t.commands(RECEIVE).filter_map(wr_id).collect();
    receives.reverse();
    let (mut expected, mut long) = (Vec::new(), Vec::new());
    for (n, label) in MESSAGES.into_iter().enumerate() {
        let Some(turn) = answer::turn(t, dialogue, label) else {
            return Err(Gap::Missing(label.name));
        };
        let msn = n as u32 + 1;
        let start = place(n as u32) as usize;
        if kind == Kind::Read {
            let length = turn.sent[0].packet.reth().map_or(0, |reth| reth.dma_len()) as usize;
            let data = memory.get(start..start + length).unwrap_or_default();
            let about = (ACKNOWLEDGEMENT, label.name);
            answer::read_answered(t, f, about, (dialogue, &turn), (data, msn));
            continue;
        }
        let about = (ACKNOWLEDGEMENT, label.name);
        answer::acknowledged(t, f, about, (dialogue, &turn), (turn.last_sent(), msn));
        if turn.sent.iter().any(|seen| seen.psn() != turn.last_sent()) || n == 0 {
            long.push(turn.clone());
        }
        let before = part.iter().filter(|_| n == 0).flat_map(|part| part.sent.iter());
        let payload = answer::payload_of(before.chain(turn.sent.iter()));
        effect::put(&mut memory, place(n as u32), &payload);
        let imm = immediate(kind, n);
        if (kind == Kind::Send || imm.is_some())
            && let Some(wr_id) = receives.pop()
        {
            expected.push(Received {
                wr_id,
                byte_len: payload.len() as u32,
                imm,
            });
        }
    }
    let after = t.waited(AFTER)?;
    if kind != Kind::Read {
        at_once(t, f, part.as_ref(), &long);
        let about = (DELIVERY, "receive completions");
        effect::received(t, f, about, (dialogue, dialogue.places.0, after.place), &expected);
    }
    // Of a SEND the place of its data is what is right or wrong, of a WRITE that they are there when it is acknowledged.
    let statement = if kind == Kind::Send { DELIVERY } else { ACKNOWLEDGEMENT };
    let words = ("what was sent in its place, the rest unchanged", memory.as_slice());
    effect::memory_is(f, (statement, "memory of the DUT"), t.command(RESULT)?, words);
    let _ = t.command(STATE)?;
    Ok(())
}

/// Not every message of several packets had to be sent again: losing the ACK of each is no chance, where a duplicate is
/// acknowledged at once. Of one that got a NAK it is not known whether that was by right.
fn at_once(t: &Trace, f: &mut Findings<'_>, part: Option<&Turn<'_>>, long: &[Turn<'_>]) {
    let has_nak = |turn: &Turn<'_>| turn.answers.iter().any(|seen| answer::nak_in(seen).is_some());
    let acknowledged_at_once = |turn: &Turn<'_>| {
        let mut answers = turn.answers.iter();
        turn.tries() == 1 && answers.any(|seen| answer::is_ack(seen) && seen.psn() == turn.last_sent())
    };
    let again = long.iter().filter(|turn| turn.tries() > 1).count();
    let result = if long.iter().any(acknowledged_at_once) {
        Passed::Pass
    } else if again < long.len() || part.into_iter().chain(long).any(has_nak) {
        Passed::Inconclusive
    } else {
        let last = long.last().map_or(0, |turn| turn.places.0);
        rc::alive(t, last, long.len() >= TRIES as usize)
    };
    let seen = format!("{again} of {} had to be sent again", long.len());
    let words = ("messages are acknowledged when they come first", seen);
    let evidence: Vec<Evidence<'_>> = long.iter().flat_map(|turn| turn.evidence(&turn.answers)).collect();
    f.prove(ACKNOWLEDGEMENT, &evidence, "messages of several packets", words, result);
}

fn wr_id(command: &verbatim_record::VerbsDone) -> Option<u64> {
    match &command.command {
        Command::PostReceive(pb::PostReceive { wr_id, .. }) => Some(*wr_id),
        _ => None,
    }
}

/// Before its last packet a message is neither acknowledged as a whole nor completed.
fn incomplete(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>, part: &Turn<'_>) -> Result<(), Gap> {
    let waited = t.waited(INCOMPLETE)?;
    let last = part.last_sent();
    // What lies before may be acknowledged once more, to tell of a new receive.
    let may_be_acknowledged = |psn: Psn| {
        part.sent
            .iter()
            .any(|seen| seen.psn() == psn || seen.psn().minus(1) == psn)
    };
    let too_far = part
        .answers
        .iter()
        .find(|seen| answer::is_ack(seen) && !may_be_acknowledged(seen.psn()));
    // After a gap the DUT waits for another packet than the last; after another NAK for nothing.
    let gap = part.answers.iter().any(|seen| answer::nak_in(seen).is_some());
    let result = match too_far {
        Some(_) => Passed::Fail,
        None if gap => Passed::Inconclusive,
        None => Passed::Pass,
    };
    let evidence: Vec<Evidence<'_>> = too_far.iter().map(|seen| seen.frame.into()).collect();
    let seen = too_far.map_or_else(|| "none".into(), |seen| seen.packet.to_string());
    let words = (format!("no ACK beyond PSN {last}"), seen);
    f.prove(COMPLETION, &evidence, "before the last packet", words, result);
    let other = part
        .answers
        .iter()
        .find(|seen| seen.packet.opcode() != Opcode::RC_ACKNOWLEDGE);
    if let Some(other) = other {
        let words = ("nothing but ACKs", other.packet.to_string());
        f.prove(
            ACKNOWLEDGEMENT,
            &[other.frame.into()],
            "before the last packet",
            words,
            Passed::Fail,
        );
    }
    rc::no_completion(
        f,
        COMPLETION,
        "before the last packet",
        dialogue,
        (part.places.0, waited.place),
    );
    Ok(())
}

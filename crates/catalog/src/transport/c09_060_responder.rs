//! `c09-060-OPERATION-responder` (C09_060_01_01 and its siblings): the DUT responds to the peer's requests.
//!
//! The peer sends four messages, each after the response to the previous message. They have three full packets, three
//! packets with padding, no data, and three packets with a short last packet. The DUT acknowledges a SEND or WRITE with
//! the PSN of its last packet, and not before that packet arrived. It answers a READ with the data of its memory, in
//! packets as long as the path MTU. The MSN counts the messages. Receives complete in order, each once, with length and
//! immediate data. The DUT's memory holds the expected bytes and nothing else.
//!
//! Reading: the public description says that each message has an AETH, but an ACK may acknowledge several
//! messages. Each message therefore requests its own ACK, and the peer waits for it. A READ may count in the MSN
//! when the DUT accepts it or with its last response. An acknowledged WRITE must be in memory two seconds later,
//! without any further packet. The test does not judge credits.
//!
//! If the DUT executes no operation with Immediate, the messages have no immediate data.
//!
//! False alarm: none known. The peer repeats a request whose response is lost, as a requester does.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn};

use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, offers};

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

/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 56 * 1024;
/// Returns the offset of message `n` in the DUT's memory. No message is longer than three packets of 4096 bytes.
const fn place(n: u32) -> u32 {
    n * 13 * 1024 + 20
}
/// Offset and length of the receives that no message fills.
const SPARE: (u32, u32) = (53 * 1024, 64);
/// Number of bytes by which a receive is longer than its message.
const SLACK: u32 = 24;
/// Immediate data of the second to fourth message. The first and last are complements: each bit takes both values.
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

pub(super) static SEND: Test = Test {
    id: "c09-060-send-responder",
    aliases: &["C09_060_01_01"],
    revision: 2,
    about: "The DUT acknowledges SENDs with the right PSN and MSN, and completes a receive for each.",
    reading: READING,
    statements: &[
        COMPLETION,
        ACKNOWLEDGEMENT,
        MSN,
        DELIVERY,
        "9.5 transaction ordering",
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: |t| procedure(t, Kind::Send),
    judge: |t, f| judge(t, f, Kind::Send),
};

pub(super) static WRITE: Test = Test {
    id: "c09-060-write-responder",
    aliases: &[],
    about: "The DUT executes and acknowledges RDMA WRITEs, and completes a receive only for immediate data.",
    procedure: |t| procedure(t, Kind::Write),
    judge: |t, f| judge(t, f, Kind::Write),
    ..SEND
};

pub(super) static READ: Test = Test {
    id: "c09-060-read-responder",
    aliases: &[],
    revision: 1,
    about: "The DUT answers RDMA READs with its memory's data, in the right packets.",
    statements: &[
        ACKNOWLEDGEMENT,
        MSN,
        "9.5 transaction ordering",
        rc::GENERATION,
        rc::ICRC,
    ],
    procedure: |t| procedure(t, Kind::Read),
    judge: |t, f| judge(t, f, Kind::Read),
    ..SEND
};

/// Returns the lengths of the messages in bytes.
fn lengths(mtu: u32) -> [u32; 4] {
    [3 * mtu, 3 * mtu - 3, 0, 2 * mtu + 5]
}

/// Returns the immediate data of message `n`, counted from 0.
fn immediate(kind: Kind, n: usize) -> Option<u32> {
    match (kind, n) {
        (Kind::Send | Kind::Write, 1..) => IMMEDIATE.get(n - 1).copied(),
        _ => None,
    }
}

fn message(t: &Tester<'_>, channel: &Channel, (kind, n): (Kind, usize), psn: Psn, payload: &[u8]) -> Message {
    let at = place(n as u32);
    let message = match kind {
        Kind::Send => Message::send(channel, psn, payload),
        Kind::Write => Message::write(channel, psn, at, payload),
        Kind::Read => return Message::read(channel, psn, at, payload.len() as u32),
    };
    match immediate(kind, n) {
        Some(data) => message.with_imm_if_executed(t, data),
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
            // There is one more receive than WRITEs with Immediate. The WRITE without immediate data must not consume
            // it.
            Kind::Write => SPARE,
            Kind::Read => continue,
        };
        ask::post_receive(t, &channel, RECEIVE, u64::from(n) + 1, slice)?;
    }
    let mut psn = channel.own_psn;
    let silence = t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0);
    for (n, (label, length)) in MESSAGES.into_iter().zip(lengths).enumerate() {
        let payload = ask::random_bytes(t, label.name, length);
        let message = message(t, &channel, (kind, n), psn, &payload);
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
    f.exercises(&[Rule::RequestAnswered, Rule::Msn, Rule::MemoryContent]);
    if kind == Kind::Read {
        f.exercises(&[Rule::ReadResponseOpcode, Rule::ReadResponseLength, Rule::ReadContent]);
    } else {
        f.exercises(&[Rule::AnsweredAtOnce, Rule::AcknowledgementOrder]);
        if kind == Kind::Send || offers::executes(t, Operation::WriteImm) {
            f.exercises(&[
                Rule::ReceiveLast,
                Rule::ReceiveCompletes,
                Rule::ReceiveFields,
                Rule::ReceiveOrder,
            ]);
        } else {
            let why = "the device executes no WRITE with Immediate";
            f.goes_without(&[COMPLETION, DELIVERY], why);
        }
        rc::came(t, &[PART])?;
        t.waited(INCOMPLETE)?;
    }
    for label in [FILL, RECEIVE, RESULT, STATE] {
        t.not_judged(label);
    }
    MESSAGES.into_iter().try_for_each(|label| rc::answered(t, label))?;
    t.waited(AFTER).map(drop)
}

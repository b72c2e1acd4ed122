//! `c09-long-messages`: messages of more than 65,535 bytes work like shorter messages, with the DUT as requester and as
//! responder.
//!
//! The peer sends a SEND, a WRITE with Immediate and a READ of 65,541 bytes. The DUT posts a READ, a WRITE and a SEND
//! of the same length. The path MTU is 256 bytes, so each message takes more than 256 packets. Each completion reports
//! the number of bytes. The test does not apply to a device with shorter memory regions.
//!
//! Reading: the specification is clear.
//!
//! False alarm: none known.

use verbatim_oracle::Rule;
use verbatim_record::verbs::Command;
use verbatim_record::verbs::pb::{self, Operation};
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::Mtu;

use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester, offers};

const IMMEDIATE: &str = "9.4.1 SEND and immediate";
const COMPLETION: &str = "C9-60";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SENT: Label<Frames> = Label::new("message of the peer");
const FILL: Label<Verbs> = Label::new("fill the memory that is sent");
const RESULT: Label<Verbs> = Label::new("read what the peer sent");
const PART: Label<Frames> = Label::new("ACK within a message");
const ANSWER: [Label<Frames>; 3] = [
    Label::new("answer to the READ"),
    Label::new("answer to the WRITE"),
    Label::new("answer to the SEND"),
];
const ANSWER_AGAIN: Label<Frames> = Label::new("answer, again");

/// Length of a message in bytes: more than a 16-bit number can express, and no multiple of a path MTU.
const LENGTH: u32 = (1 << 16) + 5;
/// Length of the DUT's memory in bytes, and offsets of the data. Sent, read and received data do not overlap.
const MEMORY: u32 = 5 << 16;
const READ: u32 = 68 * 1024;
const RECEIVED: u32 = 136 * 1024;
const WRITTEN: u32 = 204 * 1024 + 1;

pub(super) static TEST: Test = Test {
    id: "c09-long-messages",
    aliases: &[],
    revision: 5,
    about: "Messages of more than 65,535 bytes are delivered, and their completions report the full length.",
    reading: "A SEND, a WRITE with Immediate and a READ of the peer, a READ, a WRITE and a SEND of the DUT, of 65,541 bytes each.",
    statements: &[
        IMMEDIATE,
        COMPLETION,
        ACKNOWLEDGEMENT,
        "9.7.6.1.1 response data",
        "9.5 transaction ordering",
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        memory: MEMORY,
        mtu: Mtu(1),
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    // Random data, so that misplaced data shows.
    let bytes = ask::random_bytes(t, "what is sent", LENGTH);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    ask::fill(t, &channel, FILL, READ, vec![0; LENGTH as usize])?;
    for wr_id in [101, 102] {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (RECEIVED, WRITTEN - RECEIVED))?;
    }
    let payload = ask::random_bytes(t, "payload", LENGTH);
    let send = Message::send(&channel, channel.own_psn, &payload);
    ask::ask(t, &channel, SENT, &send)?;
    let write = Message::write(&channel, send.next(), WRITTEN, &payload).with_imm_if_executed(t, 0x0001_0005);
    ask::ask(t, &channel, SENT, &write)?;
    if t.executes(Operation::Read) {
        let read = Message::read(&channel, write.next(), 0, LENGTH);
        ask::ask(t, &channel, SENT, &read)?;
    }
    // Take the completions of the receives first: later completions belong to posted requests.
    for _ in 0..1 + u32::from(t.executes(Operation::WriteImm)) {
        t.next_completion(Side::Dut, channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
    }
    let operations = [Operation::Read, Operation::Write, Operation::Send];
    for (operation, answer) in operations.into_iter().zip(ANSWER) {
        if !t.offers(operation) {
            continue;
        }
        let place = if operation == Operation::Read { READ } else { 0 };
        let sent = dut.post(t, Ask::new(operation, LENGTH).at(place))?;
        // Few devices send this much without an ACK.
        dut.serve(t, PART, &sent)?;
        let answers = dut.answers(t, &sent);
        if !dut.answer(t, (answer, ANSWER_AGAIN), &answers, 1)? {
            break;
        }
    }
    dut.read_memory(t)?;
    for place in [RECEIVED, WRITTEN, READ] {
        let read = Command::ReadMemory(pb::ReadMemory {
            from: Some(channel.memory.slice(place, LENGTH)),
        });
        t.verbs(RESULT, Side::Dut, read)?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::ReceiveFields,
        Rule::CompletionFields,
        Rule::AnsweredCompletes,
        Rule::MemoryContent,
    ]);
    if offers::posts(t, Operation::Read) {
        rc::came(t, &[ANSWER[0]])?;
    }
    if offers::posts(t, Operation::Write) {
        rc::came(t, &[ANSWER[1]])?;
    }
    rc::came(t, &[SENT, ANSWER[2]])
}

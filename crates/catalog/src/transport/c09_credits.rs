//! `c09-credits`: the credits in an ACK delay only requests that consume a receive, and delay no request forever.
//!
//! The peer's ACKs and responses carry each of the 32 credit codes. With each code the DUT posts a SEND of two packets.
//! Then, with code 0, the DUT posts every operation alone, and three operations at a time. If the next packet of a
//! message does not arrive, the peer acknowledges the packets before it.
//!
//! Reading: a requester need not count credits. If it counts them and has no credit for a message, it sends one
//! packet of the message. It sends the other packets after the ACK of that packet. READs, atomics and WRITEs
//! without immediate data consume no receive, so they do not wait.
//!
//! False alarm: the ACK timeout is on, so the DUT retransmits a lost packet. If a packet never arrives, a loss is not
//! the reason.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, CreditCode, Syndrome};

use crate::transport::rc::{self, Ask, Requester, Sent, psns};

const COMPLETION: &str = "C9-60";

const ACK: Label<Frames> = Label::new("ACK with credits");
const ACK_AGAIN: Label<Frames> = Label::new("ACK with credits, again");
const PART: Label<Frames> = Label::new("ACK with credits of a part of a message");
const PART_AGAIN: Label<Frames> = Label::new("ACK with credits of a part of a message, again");
const MISSING: Label<Wait> = Label::new("for a packet that did not come");

/// ACK timeout that is long enough for a busy tester to respond, and short enough for all retries to take only a few
/// seconds.
const TIMEOUT: AckTimeout = AckTimeout(16);
const RETRY_CNT: u8 = 3;

/// Operations posted after an ACK without credits: first alone, then three at a time.
const POSTED: [&[Operation]; 9] = [
    &[Operation::Send],
    &[Operation::Write],
    &[Operation::Read],
    &[Operation::WriteImm],
    &[Operation::FetchAdd],
    &[Operation::SendImm],
    &[Operation::Send, Operation::Send, Operation::WriteImm],
    &[Operation::Send, Operation::Write, Operation::Read],
    &[Operation::Read, Operation::Send, Operation::CompareSwap],
];

pub(super) static TEST: Test = Test {
    id: "c09-credits",
    aliases: &[],
    revision: 1,
    about: "With any credit code in an ACK, the DUT sends and completes every posted request.",
    reading: "ACKs and responses carry each of the 32 credit codes. The DUT sends and completes every message after \
        them, its second packet at the latest after the ACK of the first. A requester need not count credits.",
    statements: &[rc::GENERATION, COMPLETION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        timeout: TIMEOUT,
        retry_cnt: RETRY_CNT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    if sequence(t, &mut dut)? {
        dut.read_memory(t)?;
    }
    dut.close(t)
}

/// Runs all exchanges, and stops at the first that fails. Returns whether all succeeded.
fn sequence(t: &mut Tester<'_>, dut: &mut Requester) -> Step<bool> {
    for code in 0..32 {
        dut.syndrome = Syndrome::ack(CreditCode(code));
        if !exchange(t, dut, &[Operation::Send])? {
            return Ok(false);
        }
    }
    dut.syndrome = Syndrome::ack(CreditCode(0));
    for posted in POSTED {
        if !exchange(t, dut, posted)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Has the DUT post these operations, and answers each operation when its packets arrived. Returns whether all
/// completed.
///
/// Each message has two packets, except atomics.
fn exchange(t: &mut Tester<'_>, dut: &mut Requester, operations: &[Operation]) -> Step<bool> {
    let mut posted = Vec::new();
    for operation in operations.iter().copied() {
        if !t.offers(operation) {
            continue;
        }
        let is_atomic = matches!(operation, Operation::FetchAdd | Operation::CompareSwap);
        let length = if is_atomic { 8 } else { dut.mtu + 40 };
        posted.extend(dut.try_post(t, Ask::new(operation, length))?);
    }
    for sent in &posted {
        if !comes(t, dut, sent)? {
            t.wait_for(MISSING, t.rc_silence(Duration::ZERO, TIMEOUT, RETRY_CNT))?;
            return Ok(false);
        }
        let answers = dut.answers(t, sent);
        if !dut.answer(t, (ACK, ACK_AGAIN), &answers, 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits for all packets of a request. Returns whether they arrived.
fn comes(t: &mut Tester<'_>, dut: &Requester, sent: &Sent) -> Step<bool> {
    let is_one = sent.ask.operation == Operation::Read;
    let packets = if is_one {
        1
    } else {
        psns(sent.ask.operation, sent.ask.length, dut.mtu)
    };
    for at in 0..packets {
        if !dut.comes(t, (PART, PART_AGAIN), sent, at)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::SentWhenPosted, Rule::AnsweredCompletes]);
    rc::came(t, &[ACK])
}

//! `c09-rnr-nak`: a request that lacks a receive gets an RNR NAK, and is executed when the peer repeats it with a
//! receive.
//!
//! On a queue pair without receives the DUT acknowledges a WRITE. A SEND of one packet, a SEND of three packets and a
//! WRITE with Immediate each get an RNR NAK. The NAK has the PSN of the packet that lacks the receive, the interval of
//! min_rnr_timer, and an MSN that did not advance. Then the host posts a receive, and the peer repeats the request
//! after the interval. The DUT acknowledges the request, completes the receive, and the data is in memory. The peer
//! sends the first SEND twice without a receive, and gets two RNR NAKs. Between them it repeats the WRITE, which the
//! DUT acknowledges again. The test does all of this with three values of min_rnr_timer.
//!
//! Reading:
//! - A SEND takes its receive with its first packet, so the NAK for a SEND of three packets has the PSN of the first
//!   packet. The DUT ignores the two packets after it.
//! - The payload of a WRITE with Immediate may be in memory before its receive is posted.
//! - min_rnr_timer is the least interval that an RNR NAK may request, as its name in the verbs says. A longer
//!   interval conforms, and an observation reports it.
//! - The peer does not retry before the interval of min_rnr_timer is over, so the test does not judge early retries.
//! - A device that lacks a resource for a moment may answer a WRITE with an RNR NAK. If it does so for every try on
//!   every connection, it wrongly requires a receive.

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn, RnrTimer};

use crate::transport::rc::answer::{self, ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, offers};

const RNR: &str = "9.7.5.2.8 RNR NAK";
const DELIVERY: &str = "9.4.1 SEND and immediate";

const FILL: Label<Verbs> = Label::new("fill the memory");
const WRITE: Label<Frames> = Label::new("WRITE, which needs no receive");
const REFUSED: [Label<Frames>; 3] = [
    Label::new("SEND of one packet without a receive"),
    Label::new("SEND of three packets without a receive"),
    Label::new("WRITE with Immediate without a receive"),
];
const DUPLICATE: Label<Frames> = Label::new("WRITE, again, while the SEND waits");
const REFUSED_AGAIN: Label<Frames> = Label::new("SEND of one packet, again without a receive");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const AGAIN: [Label<Frames>; 3] = [
    Label::new("SEND of one packet, again"),
    Label::new("SEND of three packets, again"),
    Label::new("WRITE with Immediate, again"),
];
const AFTER: Label<Wait> = Label::new("after all requests");
const RESULT: Label<Verbs> = Label::new("read the memory");
const TAKEN: Label<Verbs> = Label::new("state after the message was taken");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Values of min_rnr_timer: 1.28 ms, 491.52 ms, 655.36 ms.
const TIMERS: [RnrTimer; 3] = [RnrTimer(14), RnrTimer(31), RnrTimer(0)];
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 48 * 1024;
/// Returns the offset of request `n` in the DUT's memory. Number 3 is the WRITE without immediate data.
const fn place(n: usize) -> u32 {
    n as u32 * 13 * 1024 + 40
}
const SHORT: u32 = 61;
const IMMEDIATE: u32 = 0x00C0_FFEE;

pub(super) static TEST: Test = Test {
    id: "c09-rnr-nak",
    aliases: &[],
    revision: 3,
    about: "A request that lacks a receive gets an RNR NAK with its PSN and the responder's interval; a WRITE needs \
        none.",
    reading: "A SEND of one packet, a SEND of three (NAK of the First) and a WRITE with Immediate each get an RNR \
        NAK. It has the code of min_rnr_timer (14, 31 and 0) or of a longer interval, and an MSN that did not \
        advance. When a receive is posted and the interval is over, the DUT acknowledges and delivers the same \
        request.",
    statements: &[
        RNR,
        ACKNOWLEDGEMENT,
        "9.7.4.1.1 duplicate requests",
        MSN,
        DELIVERY,
        "9.5 transaction ordering",
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

/// Returns the number of requests without a receive. The last one is a WRITE with Immediate.
fn cases(has_write_imm: bool) -> usize {
    REFUSED.len() - usize::from(!has_write_imm)
}

fn message(channel: &Channel, psn: Psn, n: usize, payload: &[u8]) -> Message {
    if n == 2 {
        Message::write(channel, psn, place(2), payload).with_imm(IMMEDIATE)
    } else {
        Message::send(channel, psn, payload)
    }
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut last = None;
    for timer in TIMERS {
        let options = ChannelOptions {
            min_rnr_timer: timer,
            ..ChannelOptions::default()
        };
        let channel = t.open_channel(&options)?;
        let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
        ask::fill(t, &channel, FILL, 0, bytes)?;
        let mut psn = channel.own_psn;
        let payload = ask::random_bytes(t, WRITE.name, SHORT);
        let write = Message::write(&channel, psn, place(3), &payload);
        ask::ask(t, &channel, WRITE, &write)?;
        psn = write.next();
        let lengths = [SHORT, 3 * ask::mtu(&channel) - 5, SHORT];
        for (n, length) in lengths
            .into_iter()
            .enumerate()
            .take(cases(t.executes(Operation::WriteImm)))
        {
            let payload = ask::random_bytes(t, REFUSED[n].name, length);
            let message = message(&channel, psn, n, &payload);
            ask::ask_unready(t, &channel, REFUSED[n], &message)?;
            if n == 0 {
                // The DUT acknowledges the executed WRITE again, and refuses the SEND again while it lacks a receive.
                ask::ask(t, &channel, DUPLICATE, &write)?;
                t.pause(timer.duration())?;
                ask::ask_unready(t, &channel, REFUSED_AGAIN, &message)?;
            }
            ask::post_receive(t, &channel, RECEIVE, n as u64 + 1, (place(n), length))?;
            t.pause(timer.duration())?;
            ask::ask(t, &channel, AGAIN[n], &message)?;
            // A host may report a receive after the DUT acknowledged the message. Take the completion before the next
            // case.
            t.next_completion(Side::Dut, channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
            ask::query(t, &channel, TAKEN)?;
            psn = message.next();
        }
        ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
        last = Some(channel);
    }
    let silence = t.rc_silence(core::time::Duration::ZERO, AckTimeout::OFF, 0);
    t.wait_for(AFTER, silence)?;
    if let Some(channel) = last {
        ask::query(t, &channel, STATE)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::PutOff,
        Rule::RnrTimer,
        Rule::ReceiveThere,
        Rule::RequestAnswered,
        Rule::ReceiveCompletes,
    ]);
    f.exercises(&[Rule::ReceiveFields, Rule::MemoryContent, Rule::Msn]);
    for label in [DUPLICATE, REFUSED_AGAIN] {
        t.not_judged(label);
    }
    for label in [FILL, RECEIVE, TAKEN, RESULT, STATE] {
        t.not_judged(label);
    }
    let cases = cases(offers::executes(t, Operation::WriteImm));
    AGAIN[..cases]
        .iter()
        .chain([&WRITE])
        .try_for_each(|label| rc::answered(t, *label))?;
    let all = rc::dialogues(t)?;
    for label in REFUSED[..cases].iter().copied() {
        let mut turns = all.iter().filter_map(|dialogue| answer::turn(t, dialogue, label));
        if !turns.any(|turn| turn.answers.iter().any(answer::is_rnr_nak)) {
            return Err(Gap::Unmet(
                label.name,
                "the condition that the DUT responds with an RNR NAK".into(),
            ));
        }
    }
    t.waited(AFTER).map(drop)
}

//! `c09-rnr-nak`: a request that needs a receive gets an RNR NAK when none is posted, and is done when it comes again.
//!
//! On a queue pair without receives a WRITE is acknowledged; a SEND of one packet, a SEND of three and a WRITE with
//! Immediate each get an RNR NAK with the PSN of the packet that lacks the receive, the interval of the responder's own
//! min_rnr_timer, and an MSN that did not advance. Then a receive is posted, the interval is waited for, the request comes again, and is
//! acknowledged, delivered and in memory. The first SEND comes twice before its receive is there, and gets two RNR NAKs;
//! between them the WRITE comes again, and is acknowledged again. All of this with three values of min_rnr_timer.
//! Reading: a SEND takes its receive with its first packet, so the NAK of three packets has the PSN of the first; the
//! packets behind it are passed over in silence. The payload of a WRITE with Immediate may be in memory before its receive
//! is posted. min_rnr_timer is the least that an RNR NAK may ask for, as its name in the verbs says; one that asks for
//! a longer interval conforms, here as in `c09-rnr-nak-codes`, and an observation tells of it. The test does not retry before the interval of min_rnr_timer is over, so nothing is said of early retries. A device that lacks
//! a resource for a moment may say so with an RNR NAK of a WRITE; one that says it to every try on every connection lacks the
//! receive.

use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn, RnrTimer, Syndrome, SyndromeKind};

use crate::transport::rc::answer::{self, ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::effect::{self, Received};
use crate::transport::rc::{self, Dialogue};

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
/// Bytes of the memory that are filled before, and looked at after.
const LOOKED_AT: u32 = 48 * 1024;
/// Where request n lies in the DUT's memory; the plain WRITE comes last.
const fn place(n: usize) -> u32 {
    n as u32 * 13 * 1024 + 40
}
const SHORT: u32 = 61;
const IMMEDIATE: u32 = 0x00C0_FFEE;

/// RNR NAKs.
pub(super) static TEST: Test = Test {
    id: "c09-rnr-nak",
    aliases: &[],
    revision: 3,
    about: "A request that lacks a receive gets an RNR NAK with its PSN and the responder's interval, a WRITE does not.",
    reading: "SEND of one packet, SEND of three (NAK of the First), WRITE with Immediate: RNR NAK with min_rnr_timer 14, 31 \
        and 0, or with a longer interval, and an MSN that did not advance; with a receive posted and the interval over the same request is acknowledged \
        and delivered.",
    statements: &[
        RNR,
        ACKNOWLEDGEMENT,
        "9.7.4.1.1 duplicate requests",
        MSN,
        DELIVERY,
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

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
        for (n, length) in lengths.into_iter().enumerate() {
            let payload = ask::random_bytes(t, REFUSED[n].name, length);
            let message = message(&channel, psn, n, &payload);
            ask::ask_unready(t, &channel, REFUSED[n], &message)?;
            if n == 0 {
                // What was executed is acknowledged again all the same, and what still lacks a receive is refused again.
                ask::ask(t, &channel, DUPLICATE, &write)?;
                t.pause(timer.duration())?;
                ask::ask_unready(t, &channel, REFUSED_AGAIN, &message)?;
            }
            ask::post_receive(t, &channel, RECEIVE, n as u64 + 1, (place(n), length))?;
            t.pause(timer.duration())?;
            ask::ask(t, &channel, AGAIN[n], &message)?;
            // A host may tell of a receive after its message was acknowledged: it must not slip into the next case.
            t.next_completion(Side::Dut, channel.qp, t.now().after(ask::SOON))?;
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
    let all = rc::dialogues(t)?;
    // The rules say what must come of these.
    t.not_judged(DUPLICATE);
    t.not_judged(REFUSED_AGAIN);
    let _ = (
        t.waited(AFTER)?,
        t.command(STATE)?,
        t.commands(RECEIVE).count(),
        t.commands(TAKEN).count(),
    );
    if all.len() != TIMERS.len() {
        return Err(Gap::Missing(RESULT.name));
    }
    for (dialogue, timer) in all.iter().zip(TIMERS) {
        one_timer(t, f, dialogue, timer)?;
    }
    never_taken(t, f, &all)
}

/// Not every try of the WRITE on every connection gets an RNR NAK.
fn never_taken(t: &Trace, f: &mut Findings<'_>, all: &[Dialogue<'_>]) -> Result<(), Gap> {
    let mut naks = Vec::new();
    for dialogue in all {
        let write = answer::turn(t, dialogue, WRITE).ok_or(Gap::Missing(WRITE.name))?;
        let of_it: Vec<_> = write.answers.iter().filter(|seen| answer::is_rnr_nak(seen)).collect();
        if of_it.len() < write.tries() || of_it.len() < TRIES as usize {
            return Ok(());
        }
        naks.extend(of_it.into_iter().map(|seen| Evidence::from(seen.frame)));
    }
    let words = ("an ACK", format!("{} RNR NAKs, one for each try", naks.len()));
    f.prove(RNR, &naks, WRITE.name, words, Passed::Fail);
    Ok(())
}

fn one_timer(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>, timer: RnrTimer) -> Result<(), Gap> {
    rc::sound_packets(f, dialogue);
    let turn = |label: Label<Frames>| answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name));
    let filled = answer::commands_in(t, dialogue, FILL);
    let mut memory = effect::written(filled.first().ok_or(Gap::Missing(FILL.name))?).to_vec();
    let mut put = |n: usize, bytes: &[u8]| effect::put(&mut memory, place(n), bytes);
    let write = turn(WRITE)?;
    put(3, &write.payload());
    let mut right = answer::acknowledged(t, f, (RNR, WRITE.name), (dialogue, &write), (write.last_sent(), 1));
    let mut expected = Vec::new();
    for n in 0..REFUSED.len() {
        let (refused, again) = (turn(REFUSED[n])?, turn(AGAIN[n])?);
        // After a wrong answer nothing is known of what follows.
        right = right && lacks_a_receive(t, f, dialogue, (REFUSED[n].name, &refused), (timer, n as u32 + 1));
        let answered = (again.last_sent(), n as u32 + 2);
        right = right && answer::acknowledged(t, f, (RNR, AGAIN[n].name), (dialogue, &again), answered);
        put(n, &again.payload());
        expected.push(Received {
            wr_id: n as u64 + 1,
            byte_len: again.payload().len() as u32,
            imm: (n == 2).then_some(IMMEDIATE),
        });
    }
    let read = answer::commands_in(t, dialogue, RESULT);
    let read = *read.first().ok_or(Gap::Missing(RESULT.name))?;
    if right {
        let places = (dialogue, dialogue.places.0, dialogue.places.1);
        effect::received(t, f, (DELIVERY, "receive completions"), places, &expected);
        let words = ("what was sent in its place, the rest unchanged", memory.as_slice());
        effect::memory_is(f, (DELIVERY, "memory of the DUT"), read, words);
    }
    Ok(())
}

/// The request gets one RNR NAK, and nothing else.
fn lacks_a_receive(
    t: &Trace,
    f: &mut Findings<'_>,
    dialogue: &Dialogue<'_>,
    (about, turn): (&str, &answer::Turn<'_>),
    (timer, completed): (RnrTimer, u32),
) -> bool {
    let answers = turn.counted_unready(t);
    let psn = turn.sent[0].psn();
    // What is earlier than the request may be an ACK on its way.
    let of_request = |seen: &&rc::Seen<'_>| seen.psn().since(psn) < ask::HALF || !answer::is_ack(seen);
    let answers: Vec<rc::Seen<'_>> = answers.iter().filter(of_request).copied().collect();
    let asked = |seen: &rc::Seen<'_>| match answer::nak_in(seen)?.kind() {
        SyndromeKind::RnrNak(asked) if seen.psn() == psn => Some(asked),
        _ => None,
    };
    let is_right = |seen: &rc::Seen<'_>| asked(seen).is_some_and(|asked| asked.duration() >= timer.duration());
    let result = if answers.is_empty() {
        rc::alive(t, turn.places.0, turn.asked_again())
    } else if answers.len() <= turn.most(t) && answers.iter().all(is_right) {
        Passed::Pass
    } else {
        Passed::Fail
    };
    let words = (
        format!("one {} of PSN {psn}, or one that is longer", Syndrome::rnr_nak(timer)),
        rc::in_words(&answers),
    );
    let passed = f.prove(RNR, &turn.evidence(&answers), about, words, result);
    let is_longer = |asked: &RnrTimer| asked.duration() > timer.duration();
    if let Some(longer) = answers.iter().filter_map(asked).find(is_longer) {
        f.observe_ambiguous(format!("min_rnr_timer {timer}: an RNR NAK asks for {longer}"), &[]);
    }
    if let Some(ack) = answers.iter().find(|seen| answer::is_ack(seen)) {
        let words = ("no ACK of what lacks a receive", ack.packet.to_string());
        f.prove(ACKNOWLEDGEMENT, &turn.evidence(&[*ack]), about, words, Passed::Fail);
    }
    if let Some(nak) = answers.iter().find(|seen| answer::nak_in(seen).is_some()) {
        answer::counts(f, about, nak, &[completed]);
    }
    rc::no_completion(f, RNR, about, dialogue, turn.places);
    passed
}

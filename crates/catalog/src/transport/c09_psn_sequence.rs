//! `c09-psn-sequence`: the DUT executes requests in the order of their PSNs, and sends one NAK for a gap.
//!
//! Each case has its own connection:
//! - After an acknowledged WRITE the peer leaves out a request and sends two more WRITEs. The DUT sends one sequence
//!   NAK, with the missing PSN and the previous MSN, and executes neither WRITE. It still acknowledges a duplicate.
//!   When the peer sends the missing WRITE and repeats the other two, the DUT executes all three. A second gap gets
//!   another NAK.
//! - A message of six packets has two gaps.
//! - A READ closes a gap, and the DUT reports the next gap.
//! - A READ and a FetchAdd arrive behind a gap.
//! - The peer repeats a WRITE with Immediate while a receive is posted. The duplicate does not consume the
//!   receive.
//! - A WRITE follows a SEND that got an RNR NAK. The DUT ignores the WRITE until the peer repeats the SEND, even
//!   after a receive is posted.
//!
//! Reading: after the NAK the DUT ignores requests out of sequence until the missing request comes. The peer repeats an
//! ignored request with other data, so that the memory shows which request the DUT executed.
//!
//! False alarm: none known. A lost packet causes the same NAK, but the peer repeats the packet.

use core::time::Duration;

use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Passed, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode, Psn, Syndrome};

use crate::transport::rc::answer::{self, MSN, Turn};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::effect;
use crate::transport::rc::{self, Dialogue, Seen};

const SEQUENCE: &str = "9.7.4.1.1 PSN sequence";

const FIRST: Label<Frames> = Label::new("first WRITE");
const GAP: Label<Frames> = Label::new("two WRITEs behind a gap");
const DUPLICATE: Label<Frames> = Label::new("first WRITE again, while the gap is open");
const FAR: Label<Frames> = Label::new("WRITE far behind the gap");
const IGNORED: Label<Verbs> = Label::new("read the memory while the gap is open");
const MISSING: Label<Frames> = Label::new("missing WRITE");
const NEXT: [Label<Frames>; 2] = [Label::new("WRITE behind it"), Label::new("WRITE behind that")];
const PARTS: Label<Frames> = Label::new("packets of a message, two of them late");
const DATA: [Label<Frames>; 2] = [Label::new("READ behind a gap"), Label::new("FetchAdd behind a gap")];
const FILL: Label<Verbs> = Label::new("fill the memory before a READ and a FetchAdd behind gaps");
const PARTS_MEMORY: Label<Verbs> = Label::new("read the memory with a READ and a FetchAdd behind gaps");
const PARTS_STATE: Label<Verbs> = Label::new("is the host still there, after two gaps of a message");
const SECOND_GAP: Label<Frames> = Label::new("WRITE behind a second gap");
const LAST: Label<Frames> = Label::new("WRITE that closes the second gap");
const RESULT: Label<Verbs> = Label::new("read the memory");

const UNREADY: Label<Frames> = Label::new("SEND without a receive");
const BEHIND: Label<Frames> = Label::new("WRITE behind an RNR NAK");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const READY: Label<Frames> = Label::new("SEND again, with a receive");
const BEHIND_AGAIN: Label<Frames> = Label::new("WRITE behind the SEND, again");
const RESULT_RNR: Label<Verbs> = Label::new("read the memory after the RNR NAK");
const SILENT: Label<Wait> = Label::new("after all requests");
const STATE: Label<Verbs> = Label::new("is the host still there");

const LENGTH: u32 = 64;
/// Length of the memory that is compared, in bytes.
const LOOKED_AT: u32 = 4096;
/// Distance of the far PSNs, less than half of all PSNs, so that these PSNs lie ahead.
const DISTANCE: u32 = 1 << 22;
/// Time that a late response may need.
const LATE: Duration = Duration::from_secs(3);
/// A time longer than the interval of the RNR NAK, and longer than a round trip.
const MOMENT: Duration = Duration::from_millis(100);
/// Returns the offset of the WRITE with the connection's `n`-th PSN.
const fn place(n: u32) -> u32 {
    n * 128 + 8
}

pub(super) static TEST: Test = Test {
    id: "c09-psn-sequence",
    aliases: &[],
    revision: 5,
    about: "A gap in the PSNs gets one NAK of the missing PSN, and the DUT executes no request after the gap.",
    reading: "Two WRITEs follow a gap and get one NAK 0x60 of the missing PSN. Until that PSN comes, the DUT only \
        acknowledges duplicates. A new gap gets a new NAK. A request after an RNR NAK gets none. Without a NAK the \
        test tries three connections.",
    statements: &[SEQUENCE, MSN, "9.4.1 SEND and immediate", rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for _ in 0..TRIES {
        if gap(t)? {
            break;
        }
    }
    for _ in 0..TRIES {
        if gaps_of_one(t)? {
            break;
        }
    }
    for _ in 0..TRIES {
        if !t.executes(Operation::Read) || gap_of_read(t)? {
            break;
        }
    }
    data_behind_gaps(t)?;
    if t.executes(Operation::WriteImm) {
        imm_again(t)?;
    }
    let channel = behind_rnr(t)?;
    t.wait_for(SILENT, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn write(t: &Tester<'_>, channel: &Channel, label: Label<Frames>, n: u32, psn: Psn) -> Message {
    let payload = ask::random_bytes(t, &format!("{} {n}", label.name), LENGTH);
    Message::write(channel, psn, place(n), &payload)
}

/// Sends requests behind two gaps, and closes the gaps. Returns whether the DUT responded to both gaps.
fn gap(t: &mut Tester<'_>) -> Step<bool> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let psn = |n: u32| channel.own_psn.plus(n);
    let first = write(t, &channel, FIRST, 0, psn(0));
    ask::ask(t, &channel, FIRST, &first)?;
    // The DUT may repeat an earlier acknowledgement.
    ask::drain(t)?;
    for n in [2, 3] {
        let message = write(t, &channel, GAP, n, psn(n));
        ask::put(t, &channel, GAP, &message)?;
    }
    let answered = ask::listen(t, &channel)?;
    t.pause(MOMENT)?;
    ask::ask(t, &channel, DUPLICATE, &first)?;
    let far = write(t, &channel, FAR, 5, psn(3 + DISTANCE));
    ask::insist(t, FAR, &far.frames(&channel)[0])?;
    t.pause(MOMENT)?;
    ask::read_memory(t, &channel, IGNORED, LOOKED_AT)?;
    for (n, label) in [(1, MISSING), (2, NEXT[0]), (3, NEXT[1])] {
        let message = write(t, &channel, label, n, psn(n));
        ask::ask(t, &channel, label, &message)?;
    }
    // The DUT may repeat an earlier acknowledgement.
    ask::drain(t)?;
    let far = write(t, &channel, SECOND_GAP, 5, psn(4 + DISTANCE));
    ask::put(t, &channel, SECOND_GAP, &far)?;
    let again = ask::listen(t, &channel)?;
    t.pause(MOMENT)?;
    let message = write(t, &channel, LAST, 4, psn(4));
    ask::ask(t, &channel, LAST, &message)?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    Ok(answered && again)
}

/// Sends a message of six packets with two gaps. Returns whether the DUT responded to the second gap.
fn gaps_of_one(t: &mut Tester<'_>) -> Step<bool> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, PARTS.name, 6 * ask::mtu(&channel));
    let frames = Message::write(&channel, channel.own_psn, 0, &bytes).frames(&channel);
    let mut answered = false;
    // Packet 3 reveals the first gap, and packet 5 the second. Two different packets keep the NAKs apart on
    // hardware.
    for at in [0, 3, 1, 5] {
        // The DUT may repeat an earlier acknowledgement.
        ask::drain(t)?;
        ask::insist(t, PARTS, &frames[at])?;
        answered = ask::listen(t, &channel)?;
        t.pause(ask::soon(t))?;
    }
    if !answered {
        t.pause(LATE)?;
    }
    ask::query(t, &channel, PARTS_STATE)?;
    Ok(answered)
}

/// Closes a gap with a READ, and sends a SEND behind another gap. Returns whether the DUT responded to the second gap.
fn gap_of_read(t: &mut Tester<'_>) -> Step<bool> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let psn = |n: u32| channel.own_psn.plus(n);
    let read = Message::read(&channel, psn(0), 0, LENGTH);
    let first = write(t, &channel, PARTS, 1, psn(1));
    let second = Message::send(&channel, psn(3), &[0x5A; 8]);
    let shows = |t: &mut Tester<'_>, gap: &Message| -> Step<bool> {
        ask::drain(t)?;
        ask::insist(t, PARTS, &gap.frames(&channel)[0])?;
        let answered = ask::listen(t, &channel)?;
        t.pause(LATE)?;
        Ok(answered)
    };
    shows(t, &first)?;
    // The READ may get an RNR NAK, if the DUT lacks a resource.
    let answered = ask::ask(t, &channel, PARTS, &read)?;
    t.pause(LATE)?;
    let answered = answered && shows(t, &second)?;
    ask::query(t, &channel, PARTS_STATE)?;
    Ok(answered)
}

/// Sends a READ and a FetchAdd behind a gap. The DUT executes neither before the missing request comes.
fn data_behind_gaps(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, FILL.name, LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let mut psn = channel.own_psn;
    for (operation, label) in [Operation::Read, Operation::FetchAdd].into_iter().zip(DATA) {
        let is_atomic = operation == Operation::FetchAdd;
        if !t.executes(operation) || is_atomic && !channel.atomics {
            continue;
        }
        let asked = match is_atomic {
            true => Message::fetch_add(&channel, psn.next(), 2048, 0x0101_0101),
            false => Message::read(&channel, psn.next(), 1024, LENGTH),
        };
        ask::drain(t)?;
        // Send the request three times, because a wrong response could be lost.
        ask::insist(t, label, &asked.frames(&channel)[0])?;
        ask::listen(t, &channel)?;
        t.pause(MOMENT)?;
        ask::read_memory(t, &channel, PARTS_MEMORY, LOOKED_AT)?;
        let missing = write(t, &channel, PARTS, 1, psn);
        ask::ask(t, &channel, PARTS, &missing)?;
        ask::ask(t, &channel, PARTS, &asked)?;
        psn = asked.next();
    }
    ask::read_memory(t, &channel, PARTS_MEMORY, LOOKED_AT)?;
    ask::query(t, &channel, PARTS_STATE).map(drop)
}

/// Repeats a WRITE with Immediate while a receive is left.
fn imm_again(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    for wr_id in [1, 2] {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (place(8), LENGTH))?;
    }
    let message = Message::write(&channel, channel.own_psn, place(1), &[0x5A; 8]).with_imm(0x1234_5678);
    for _ in 0..2 {
        ask::drain(t)?;
        ask::insist(t, PARTS, &message.frames(&channel)[0])?;
        ask::listen(t, &channel)?;
        t.pause(ask::soon(t))?;
    }
    ask::query(t, &channel, PARTS_STATE)?;
    Ok(())
}

fn behind_rnr(t: &mut Tester<'_>) -> Step<Channel> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let payload = ask::random_bytes(t, UNREADY.name, LENGTH);
    let send = Message::send(&channel, channel.own_psn, &payload);
    ask::ask_unready(t, &channel, UNREADY, &send)?;
    let behind = write(t, &channel, BEHIND, 1, send.next());
    ask::insist(t, BEHIND, &behind.frames(&channel)[0])?;
    t.pause(MOMENT)?;
    // Send the WRITE twice, because a wrong response could be lost. The SEND consumes only the first receive.
    for wr_id in [1, 2] {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (place(0), LENGTH))?;
        ask::insist(t, PARTS, &behind.frames(&channel)[0])?;
        t.pause(MOMENT)?;
    }
    ask::ask(t, &channel, READY, &send)?;
    let behind = write(t, &channel, BEHIND_AGAIN, 1, send.next());
    ask::ask(t, &channel, BEHIND_AGAIN, &behind)?;
    ask::read_memory(t, &channel, RESULT_RNR, LOOKED_AT)?;
    Ok(channel)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    // The rules of the oracle judge these packets.
    t.not_judged(PARTS);
    for label in [PARTS_STATE, PARTS_MEMORY, FILL] {
        t.not_judged(label);
    }
    let all = rc::dialogues(t)?;
    let with = |label: Label<Frames>| -> Vec<&Dialogue<'_>> {
        all.iter()
            .filter(|dialogue| answer::turn(t, dialogue, label).is_some())
            .collect()
    };
    let tried = with(GAP);
    let counts = if t.begin.simulated { tried.first() } else { tried.last() };
    let dialogue = counts.ok_or(Gap::Missing(GAP.name))?;
    judge_gap(t, f, dialogue, tried.len() >= TRIES as usize)?;
    let behind = with(BEHIND);
    judge_behind(t, f, behind.first().ok_or(Gap::Missing(BEHIND.name))?)?;
    for label in DATA {
        for turn in all.iter().filter_map(|dialogue| answer::turn(t, dialogue, label)) {
            // The peer had not sent the missing request yet. A rule of the oracle cannot rely on this, because it
            // allows for lost packets.
            let is_response = |seen: &&Seen<'_>| seen.psn() == turn.last_sent() && answer::nak_in(seen).is_none();
            let responses: Vec<Seen<'_>> = turn.answers.iter().filter(is_response).copied().collect();
            let result = if responses.is_empty() {
                Passed::Pass
            } else {
                Passed::Fail
            };
            let words = ("no response", rc::in_words(&responses));
            f.prove(SEQUENCE, &turn.evidence(&responses), label.name, words, result);
        }
    }
    let (_, _) = (t.waited(SILENT)?, t.command(STATE)?);
    Ok(())
}

fn judge_gap(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>, tried_again: bool) -> Result<(), Gap> {
    rc::sound_packets(f, dialogue);
    let turn = |label: Label<Frames>| answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name));
    let acknowledged = |f: &mut Findings<'_>, label: Label<Frames>, turn: &Turn<'_>, msn| {
        answer::acknowledged(t, f, (SEQUENCE, label.name), (dialogue, turn), (turn.last_sent(), msn))
    };
    let (first, gap, duplicate, far) = (turn(FIRST)?, turn(GAP)?, turn(DUPLICATE)?, turn(FAR)?);
    let (missing, next) = (turn(MISSING)?, [turn(NEXT[0])?, turn(NEXT[1])?]);
    let (second, last) = (turn(SECOND_GAP)?, turn(LAST)?);
    let sound = acknowledged(f, FIRST, &first, 1)
        && one_nak(t, f, GAP.name, (dialogue, &gap), (missing.last_sent(), 1), tried_again)
        && acknowledged(f, DUPLICATE, &duplicate, 1)
        && nothing(f, FAR.name, &far);
    let mut memory = vec![0; LOOKED_AT as usize];
    let mut put = |n: u32, turn: &Turn<'_>| {
        effect::put(&mut memory, place(n), &turn.payload());
        memory.clone()
    };
    let ignored = put(0, &first);
    let read = |label: Label<Verbs>| answer::commands_in(t, dialogue, label).first().copied();
    let (open, closed) = (
        read(IGNORED).ok_or(Gap::Missing(IGNORED.name))?,
        read(RESULT).ok_or(Gap::Missing(RESULT.name))?,
    );
    let words = ("only the data of the first WRITE", ignored.as_slice());
    effect::memory_in_turn(t, f, (SEQUENCE, "memory while the gap is open"), open, words);
    if !sound {
        return Ok(());
    }
    acknowledged(f, MISSING, &missing, 2);
    acknowledged(f, NEXT[0], &next[0], 3);
    acknowledged(f, NEXT[1], &next[1], 4);
    let second = (dialogue, &second);
    one_nak(t, f, SECOND_GAP.name, second, (last.last_sent(), 4), tried_again);
    acknowledged(f, LAST, &last, 5);
    put(1, &missing);
    put(2, &next[0]);
    put(3, &next[1]);
    let all = put(4, &last);
    let words = ("the data of all WRITEs that arrived in sequence", all.as_slice());
    effect::memory_in_turn(t, f, (SEQUENCE, "memory of the DUT"), closed, words);
    Ok(())
}

/// Checks that the DUT sent one sequence NAK of the missing PSN, and no other response.
fn one_nak(
    t: &Trace,
    f: &mut Findings<'_>,
    about: &str,
    (dialogue, turn): (&Dialogue<'_>, &Turn<'_>),
    (psn, msn): (Psn, u32),
    tried_again: bool,
) -> bool {
    let syndrome = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
    let is_right = |seen: &Seen<'_>| answer::nak_in(seen) == Some(syndrome) && seen.psn() == psn;
    let result = match turn.answers.as_slice() {
        [] => answer::missing(t, dialogue, turn, tried_again, is_right),
        [only] if is_right(only) => Passed::Pass,
        _ => Passed::Fail,
    };
    let words = (format!("one {syndrome} of PSN {psn}"), rc::in_words(&turn.answers));
    let passed = f.prove(SEQUENCE, &turn.evidence(&turn.answers), about, words, result);
    if let Some(nak) = turn.answers.iter().find(|seen| answer::nak_in(seen).is_some()) {
        answer::counts(f, about, nak, &[msn]);
    }
    passed
}

/// Checks that the DUT sent no response.
fn nothing(f: &mut Findings<'_>, about: &str, turn: &Turn<'_>) -> bool {
    let result = if turn.answers.is_empty() {
        Passed::Pass
    } else {
        Passed::Fail
    };
    let words = ("no packet", rc::in_words(&turn.answers));
    f.prove(SEQUENCE, &turn.evidence(&turn.answers), about, words, result)
}

fn judge_behind(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>) -> Result<(), Gap> {
    rc::sound_packets(f, dialogue);
    let turn = |label: Label<Frames>| answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name));
    let (unready, mut behind, mut ready, again) = (turn(UNREADY)?, turn(BEHIND)?, turn(READY)?, turn(BEHIND_AGAIN)?);
    let receive = answer::commands_in(t, dialogue, RECEIVE)
        .first()
        .copied()
        .ok_or(Gap::Missing(RECEIVE.name))?;
    let read = t.command(RESULT_RNR)?;
    if !unready.answers.iter().any(answer::is_rnr_nak) {
        // The statement covers only requests after an RNR NAK, so the test judges nothing more.
        let words = ("an RNR NAK", rc::in_words(&unready.answers));
        let result = rc::alive(t, unready.places.0, false);
        f.prove(
            SEQUENCE,
            &unready.evidence(&unready.answers),
            UNREADY.name,
            words,
            result,
        );
        return Ok(());
    }
    // When a receive is posted, the DUT may report the new credit with an ACK of an earlier PSN.
    let before = unready.last_sent().minus(1);
    let tells_of_it =
        |seen: &Seen<'_>| seen.frame.place > receive.place && answer::is_ack(seen) && seen.psn() == before;
    for turn in [&mut behind, &mut ready] {
        turn.answers.retain(|seen| !tells_of_it(seen));
    }
    nothing(f, BEHIND.name, &behind);
    let about = (SEQUENCE, READY.name);
    if answer::acknowledged(t, f, about, (dialogue, &ready), (ready.last_sent(), 1)) {
        let about = (SEQUENCE, BEHIND_AGAIN.name);
        answer::acknowledged(t, f, about, (dialogue, &again), (again.last_sent(), 2));
        let mut memory = vec![0; LOOKED_AT as usize];
        for (n, turn) in [(0, &ready), (1, &again)] {
            effect::put(&mut memory, place(n), &turn.payload());
        }
        let words = ("the data of the SEND and of the repeated WRITE", memory.as_slice());
        effect::memory_is(f, (SEQUENCE, "memory after the RNR NAK"), read, words);
    }
    Ok(())
}

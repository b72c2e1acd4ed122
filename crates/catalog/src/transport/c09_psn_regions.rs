//! `c09-psn-regions`: half of all PSNs are duplicates, the other half are out of sequence; a duplicate has no effect.
//!
//! On one connection, after a valid WRITE:
//! - A WRITE with the oldest duplicate PSN is acknowledged, but not executed.
//! - A WRITE with the PSN furthest ahead gets a sequence NAK, and is not executed.
//! - The oldest duplicate is acknowledged again while the gap is open.
//! - The peer sends duplicates of the WRITE with other contents: with another address, length, R_Key or opcode.
//!
//! On a second connection the peer sends a FetchAdd, then other atomics with its PSN: with another operand, with
//! another address, and a CmpSwap.
//!
//! Reading: the 2^23 PSNs before the expected PSN are duplicates; the other 2^23 PSNs are not. The DUT may answer a
//! duplicate with other contents like the original, or not at all. It must neither refuse nor execute the duplicate.
//! The response to a duplicate atomic carries the original result. The test leaves out requests that the device lacks.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Passed, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Opcode, Psn, RKey, Transport};
use verbatim_wire::values::Hex64;

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::{self, MSN, nak_in};
use crate::transport::rc::ask::{self, HALF, Message};
use crate::transport::rc::{self, Dialogue, alive, effect, offers};

const SEQUENCE: &str = "9.7.4.1.1 PSN sequence";
const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";

const FILL: Label<Verbs> = Label::new("fill the memory");
const FIRST: Label<Frames> = Label::new("WRITE");
const OLDEST: Label<Frames> = Label::new("WRITE with the oldest PSN of a duplicate");
const FURTHEST: Label<Frames> = Label::new("WRITE with the PSN that is furthest ahead");
const OLDEST_IN_GAP: Label<Frames> = Label::new("WRITE with the oldest PSN, while the gap is open");
const OTHER: Label<Frames> = Label::new("request with the WRITE's PSN, another one");
const LAST: Label<Frames> = Label::new("WRITE behind all of them");
const RESULT: Label<Verbs> = Label::new("read the memory");

const FILL_ATOMIC: Label<Verbs> = Label::new("fill the memory for atomics");
const ATOMIC: Label<Frames> = Label::new("FetchAdd");
const OTHER_ATOMIC: Label<Frames> = Label::new("atomic with its PSN, another one");
const LAST_ATOMIC: Label<Frames> = Label::new("WRITE behind the atomics");
const RESULT_ATOMIC: Label<Verbs> = Label::new("read the memory after the atomics");
const AFTER: Label<Wait> = Label::new("after all requests");
const STATE: Label<Verbs> = Label::new("is the host still there");

const LENGTH: u32 = 64;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 16 * 1024;
/// Offsets of the WRITEs that the DUT executes.
const PLACES: [u32; 2] = [8, 256];
/// Offset of the requests that the DUT does not execute.
const NOWHERE: u32 = 1024;
/// Initial value for the atomics, its offset, and the operand of FetchAdd.
const NUMBER: u64 = 0xFEDC_BA98_7654_3210;
const NUMBER_AT: u32 = 64;
const ADDED: u64 = 0x0101_0202_0303_0404;

pub(super) static TEST: Test = Test {
    id: "c09-psn-regions",
    aliases: &[],
    revision: 2,
    about: "Half of all PSNs are duplicates, the other half are out of sequence; a duplicate with any contents has no \
        effect.",
    reading: "The 2^23 PSNs before the expected PSN are duplicates: acknowledged, but not executed. A PSN 2^23 - 1 \
        ahead is out of sequence and gets one sequence NAK. A duplicate with other contents may get the response to \
        the original, or none. It gets no NAK and changes nothing.",
    statements: &[SEQUENCE, DUPLICATES, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn write(t: &Tester<'_>, channel: &Channel, psn: Psn, (label, place): (Label<Frames>, u32)) -> Message {
    Message::write(channel, psn, place, &ask::random_bytes(t, label.name, LENGTH))
}

/// Builds requests with the PSN of an executed request. Each differs from the executed request.
fn others(t: &Tester<'_>, channel: &Channel, psn: Psn) -> Vec<Transport> {
    let mtu = ask::mtu(channel);
    let bytes = |length| ask::random_bytes(t, OTHER.name, length);
    let elsewhere = Message::write(channel, psn, NOWHERE, &bytes(LENGTH));
    let wrong_key = elsewhere.clone().changed(|packets| {
        let other = |key: RKey| RKey(key.0 ^ 0x0004_0040);
        packets[0].reth = packets[0].reth.map(|reth| reth.with_r_key(other(reth.r_key())));
    });
    let outside = elsewhere.clone().changed(|packets| {
        packets[0].reth = packets[0]
            .reth
            .map(|reth| reth.with_va(Hex64(channel.memory.address.wrapping_sub(1))));
    });
    let of_length = elsewhere.clone().changed(|packets| {
        packets[0].reth = packets[0].reth.map(|reth| reth.with_dma_len(LENGTH + 1));
    });
    let part = |opcode: Opcode, length: u32| Transport {
        payload: bytes(length),
        ..channel.transport(opcode, psn)
    };
    let parts = [
        (Opcode::RC_SEND_ONLY, LENGTH),
        (Opcode::RC_SEND_LAST, LENGTH),
        (Opcode::RC_SEND_MIDDLE, mtu),
        (Opcode::RC_WRITE_LAST, LENGTH),
        (Opcode::RC_WRITE_MIDDLE, mtu),
    ];
    let whole = [elsewhere, wrong_key, outside, of_length].map(|mut message| message.packets.remove(0));
    let read = Message::read(channel, psn, NOWHERE, LENGTH).packets;
    let parts = parts.map(|(opcode, length)| part(opcode, length));
    whole.into_iter().chain(parts).chain(read).collect()
}

fn other_atomics(channel: &Channel, psn: Psn) -> Vec<Transport> {
    let after = NUMBER.wrapping_add(ADDED);
    let all = [
        Message::fetch_add(channel, psn, NUMBER_AT, 1),
        Message::fetch_add(channel, psn, NUMBER_AT + 8, ADDED),
        Message::compare_swap(channel, psn, NUMBER_AT, (after, 1)),
        Message::compare_swap(channel, psn, NUMBER_AT, (NUMBER, 1)),
        Message::fetch_add(channel, psn, NUMBER_AT + 1, ADDED),
    ];
    all.into_iter().flat_map(|message| message.packets).collect()
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let first = channel.own_psn;
    let expected = first.next();
    let message = write(t, &channel, first, (FIRST, PLACES[0]));
    ask::ask(t, &channel, FIRST, &message)?;
    let oldest = write(t, &channel, expected.minus(HALF), (OLDEST, NOWHERE));
    ask::ask(t, &channel, OLDEST, &oldest)?;
    let furthest = write(t, &channel, expected.plus(HALF - 1), (FURTHEST, NOWHERE));
    // The DUT may repeat an earlier acknowledgement.
    ask::drain(t)?;
    for _ in 0..TRIES {
        ask::put(t, &channel, FURTHEST, &furthest)?;
        if ask::listen(t, &channel)? {
            break;
        }
    }
    ask::ask(t, &channel, OLDEST_IN_GAP, &oldest)?;
    for mut packet in others(t, &channel, first) {
        packet.bth = packet.bth.with_ack_request(true);
        let frame = channel.frame(&packet);
        if t.executes_frame(&frame) {
            ask::insist(t, OTHER, &frame)?;
        }
    }
    ask::drain(t)?;
    let last = write(t, &channel, expected, (LAST, PLACES[1]));
    ask::ask(t, &channel, LAST, &last)?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;

    let channel = if t.executes(Operation::FetchAdd) {
        atomics(t)?
    } else {
        channel
    };
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn atomics(t: &mut Tester<'_>) -> Step<Channel> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let mut bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    bytes[NUMBER_AT as usize..NUMBER_AT as usize + 8].copy_from_slice(&NUMBER.to_le_bytes());
    ask::fill(t, &channel, FILL_ATOMIC, 0, bytes)?;
    let add = Message::fetch_add(&channel, channel.own_psn, NUMBER_AT, ADDED);
    ask::ask(t, &channel, ATOMIC, &add)?;
    for packet in other_atomics(&channel, channel.own_psn) {
        let frame = channel.frame(&packet);
        if t.executes_frame(&frame) {
            ask::insist(t, OTHER_ATOMIC, &frame)?;
        }
    }
    ask::drain(t)?;
    let last = write(t, &channel, channel.own_psn.next(), (LAST_ATOMIC, PLACES[1]));
    ask::ask(t, &channel, LAST_ATOMIC, &last)?;
    ask::read_memory(t, &channel, RESULT_ATOMIC, LOOKED_AT)?;
    Ok(channel)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let (messages, atomics) = match all.as_slice() {
        [messages, atomics] => (messages, Some(atomics)),
        [messages] if !offers::executes(t, Operation::FetchAdd) => (messages, None),
        _ => return Err(Gap::Missing(ATOMIC.name)),
    };
    let (_, _) = (t.waited(AFTER)?, t.command(STATE)?);
    judge_messages(t, f, messages)?;
    match atomics {
        Some(atomics) => judge_atomics(t, f, atomics),
        None => {
            f.observe("the device has no FetchAdd: duplicates of atomics are not tested", &[]);
            Ok(())
        }
    }
}

fn judge_messages(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>) -> Result<(), Gap> {
    rc::sound_packets(f, dialogue);
    let turn = |label: Label<Frames>| answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name));
    let (first, last) = (turn(FIRST)?, turn(LAST)?);
    let psn = first.last_sent();
    for label in [FIRST, OLDEST, OLDEST_IN_GAP] {
        let statement = if label.name == FIRST.name { SEQUENCE } else { DUPLICATES };
        answer::acknowledged(t, f, (statement, label.name), (dialogue, &turn(label)?), (psn, 1));
    }
    let furthest = turn(FURTHEST)?;
    let is_right = |seen: &rc::Seen<'_>| ask::is_sequence_nak(&seen.packet) && seen.psn() == psn.next();
    let result = match furthest.answers.as_slice() {
        // The DUT sends this NAK once, and it may be lost.
        [] => alive(t, furthest.places.0, false),
        all if all.iter().all(is_right) => Passed::Pass,
        _ => Passed::Fail,
    };
    let words = (
        format!("a sequence NAK of PSN {}", psn.next()),
        rc::in_words(&furthest.answers),
    );
    f.prove(
        SEQUENCE,
        &furthest.evidence(&furthest.answers),
        FURTHEST.name,
        words,
        result,
    );
    // The NAK of the PSN furthest ahead may arrive late.
    let late = (!t.begin.simulated && furthest.answers.is_empty()).then(|| psn.next());
    not_refused(f, &turn(OTHER)?, OTHER.name, late);
    answer::acknowledged(t, f, (SEQUENCE, LAST.name), (dialogue, &last), (last.last_sent(), 2));
    let mut memory = effect::written(t.command(FILL)?).to_vec();
    effect::put(&mut memory, PLACES[0], &first.payload());
    effect::put(&mut memory, PLACES[1], &last.payload());
    let words = ("the data of the first and the last WRITE", memory.as_slice());
    effect::memory_in_turn(t, f, (DUPLICATES, "memory of the DUT"), t.command(RESULT)?, words);
    Ok(())
}

fn judge_atomics(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>) -> Result<(), Gap> {
    let turn = |label: Label<Frames>| answer::turn(t, dialogue, label).ok_or(Gap::Missing(label.name));
    let (_, others, last) = (turn(ATOMIC)?, turn(OTHER_ATOMIC)?, turn(LAST_ATOMIC)?);
    let (fill, read) = (t.command(FILL_ATOMIC)?, t.command(RESULT_ATOMIC)?);
    if !has_atomics(t) {
        f.observe("the device has no atomics: duplicates of atomics are not judged", &[]);
        return Ok(());
    }
    rc::sound_packets(f, dialogue);
    rc::answered(t, ATOMIC)?;
    not_refused(f, &others, OTHER_ATOMIC.name, None);
    let value = |seen: &rc::Seen<'_>| seen.packet.atomic_ack().map(|ack| ack.original().0);
    let other = others
        .answers
        .iter()
        .find_map(|seen| value(seen).filter(|value| *value != NUMBER));
    let seen = other.map_or("none".into(), |value| format!("{value:#018x}"));
    let words = (format!("no original value other than {NUMBER:#018x}"), seen);
    let result = if other.is_none() { Passed::Pass } else { Passed::Fail };
    f.prove(
        DUPLICATES,
        &others.evidence(&others.answers),
        OTHER_ATOMIC.name,
        words,
        result,
    );
    answer::acknowledged(
        t,
        f,
        (SEQUENCE, LAST_ATOMIC.name),
        (dialogue, &last),
        (last.last_sent(), 2),
    );
    let mut memory = effect::written(fill).to_vec();
    effect::put(&mut memory, NUMBER_AT, &NUMBER.wrapping_add(ADDED).to_le_bytes());
    effect::put(&mut memory, PLACES[1], &last.payload());
    let words = ("the number after one addition, and the last WRITE", memory.as_slice());
    effect::memory_is(f, (DUPLICATES, "memory after the atomics"), read, words);
    Ok(())
}

/// Checks that the DUT refuses no duplicate. A late sequence NAK of PSN `late` does not count.
fn not_refused(f: &mut Findings<'_>, turn: &answer::Turn<'_>, about: &str, late: Option<Psn>) {
    let is_late = |seen: &rc::Seen<'_>| ask::is_sequence_nak(&seen.packet) && Some(seen.psn()) == late;
    let all = turn
        .answers
        .iter()
        .filter(|seen| nak_in(seen).is_some() && !is_late(seen));
    let naks: Vec<rc::Seen<'_>> = all.copied().collect();
    let result = if naks.is_empty() { Passed::Pass } else { Passed::Fail };
    let words = match naks.as_slice() {
        [] => "none".into(),
        naks => rc::in_words(naks),
    };
    f.prove(DUPLICATES, &turn.evidence(&naks), about, ("no NAK", words), result);
}

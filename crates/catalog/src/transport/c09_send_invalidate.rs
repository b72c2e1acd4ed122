//! `c09-send-invalidate`: a SEND with Invalidate invalidates the R_Key that it names, or the DUT refuses it.
//!
//! Each case has its own connection, and follows a valid SEND. Some cases name the R_Key of the connection's own
//! region, and a WRITE or READ with this R_Key follows. Others name an R_Key that differs in one bit, in a SEND of
//! one packet and at the end of a SEND of two packets. On the last connection the SEND with the region's own R_Key
//! lacks a receive. The peer repeats this SEND when a receive is posted.
//!
//! Reading: the device decides whether a peer may invalidate an ordinary region. The device may refuse with a NAK, or
//! only with an error of the responder that the requester does not see. The test therefore requires no NAK. It requires
//! that the queue pair is in error, that no receive completes with success for another R_Key, and that the WRITE is not
//! executed.
//!
//! False alarm: an R_Key with one flipped bit may belong to another region of the same protection domain.

use verbatim_record::verbs::{Reply, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace, Verbs, WcStatus};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Step, Test, Tester};
use verbatim_wire::packet::{Ieth, NakCode, Opcode, Psn, RKey, SyndromeKind, Transport};

use super::c09_nak_invalid_request::data;
use super::c09_nak_remote_access::ACCESS;
use crate::transport::rc::answer;
use crate::transport::rc::ask::{self, Message, mtu};
use crate::transport::rc::refusal::{self, ERRORS, Refusal, TARGET};
use crate::transport::rc::{self, Dialogue, Seen};

const UNREADY: Label<Frames> = Label::new("SEND with Invalidate without a receive");
const RECEIVE: Label<Verbs> = Label::new("post a receive for it");
const AGAIN: Label<Frames> = Label::new("SEND with Invalidate, again");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Indices of the cases that name the region's own R_Key.
const OWN: [usize; 3] = [0, 3, 4];
/// Codes of a device that has the operation, and of a device that lacks it.
const CODES: &[NakCode] = &[NakCode::REMOTE_ACCESS, NakCode::INVALID_REQUEST];

static CASES: &[Refusal] = &[
    Refusal::new("SEND with Invalidate, and a WRITE with that R_Key", CODES, |c, psn| {
        let write = Message::write(c, psn.next(), TARGET, &[0x5A; 64]).packets;
        let send = invalidates(c, psn, &[(Opcode::RC_SEND_ONLY_INVALIDATE, 64)], 0);
        send.into_iter().chain(write).collect()
    }),
    Refusal::new(
        "SEND with Invalidate of an R_Key that differs in a bit",
        CODES,
        |c, psn| invalidates(c, psn, &[(Opcode::RC_SEND_ONLY_INVALIDATE, 64)], 1 << 12),
    ),
    Refusal::new(
        "SEND of two packets with Invalidate of an R_Key that differs",
        CODES,
        |c, psn| {
            let parts = [(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_LAST_INVALIDATE, 64)];
            invalidates(c, psn, &parts, 1)
        },
    )
    .at_second(),
    Refusal::new(
        "SEND of two packets with Invalidate, and a WRITE with that R_Key",
        CODES,
        |c, psn| {
            let parts = [(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_LAST_INVALIDATE, 64)];
            let write = Message::write(c, psn.plus(2), TARGET, &[0x5A; 64]).packets;
            invalidates(c, psn, &parts, 0).into_iter().chain(write).collect()
        },
    )
    .at_second(),
    Refusal::new("SEND with Invalidate, and a READ with that R_Key", CODES, |c, psn| {
        let read = Message::read(c, psn.next(), TARGET, 64).packets;
        let send = invalidates(c, psn, &[(Opcode::RC_SEND_ONLY_INVALIDATE, 64)], 0);
        send.into_iter().chain(read).collect()
    }),
];

pub(super) static TEST: Test = Test {
    id: "c09-send-invalidate",
    aliases: &[],
    revision: 4,
    about: "After a SEND with Invalidate, its R_Key grants no access; the DUT refuses a SEND that names another R_Key.",
    reading: "Each case follows a valid SEND. After the SEND with Invalidate, the DUT neither acknowledges nor \
        executes a WRITE, and answers no READ. A SEND with another R_Key completes no receive with success. The queue \
        pair is in error; the NAK is optional. A SEND that got an RNR NAK invalidated nothing: it is executed when \
        the peer repeats it.",
    statements: &[ACCESS, ERRORS, rc::GENERATION, rc::ICRC],
    needs: &[verbatim_tester::Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    refusal::procedure(t, CASES)?;
    let channel = t.open_channel(&ChannelOptions::default())?;
    let parts = [(Opcode::RC_SEND_ONLY_INVALIDATE, 64)];
    let packets = invalidates(&channel, channel.own_psn, &parts, 0);
    if !packets.iter().all(|packet| t.executes_frame(&channel.frame(packet))) {
        return Ok(());
    }
    for packet in packets {
        let send = Message::one(packet, 1);
        ask::ask_unready(t, &channel, UNREADY, &send)?;
        ask::post_receive(t, &channel, RECEIVE, 1, (0, 64))?;
        t.pause(ChannelOptions::default().min_rnr_timer.duration())?;
        ask::ask(t, &channel, AGAIN, &send)?;
    }
    ask::query(t, &channel, STATE)?;
    Ok(())
}

/// Checks that the DUT executes the SEND when it is repeated after an RNR NAK, if the device invalidates its R_Keys.
fn judge_again(t: &Trace, f: &mut Findings<'_>, all: &[Dialogue<'_>], is_taken: bool) {
    t.not_judged(RECEIVE);
    let _ = t.commands(STATE).count();
    let turns = |label| all.iter().find_map(|dialogue| answer::turn(t, dialogue, label));
    let (Some(first), Some(again)) = (turns(UNREADY), turns(AGAIN)) else {
        return;
    };
    let is_rnr =
        |seen: &Seen<'_>| ask::nak_of(&seen.packet).is_some_and(|of| matches!(of.kind(), SyndromeKind::RnrNak(_)));
    if !is_taken || !first.answers.iter().any(is_rnr) {
        return;
    }
    let refused: Vec<Seen<'_>> = again.answers.iter().copied().filter(answer::is_refusal).collect();
    let result = match refused.is_empty() {
        true if again.answers.iter().any(answer::is_ack) => Passed::Pass,
        true => rc::alive(t, again.places.0, again.asked_again()),
        false => Passed::Fail,
    };
    let words = (
        "an ACK: the SEND that got the RNR NAK invalidated nothing",
        rc::in_words(&again.answers),
    );
    f.prove(ACCESS, &again.evidence(&again.answers), AGAIN.name, words, result);
}

/// Builds packets. The last packet invalidates the region's R_Key, with these bits flipped.
fn invalidates(channel: &Channel, psn: Psn, parts: &[(Opcode, u32)], bits: u32) -> Vec<Transport> {
    let mut packets = data(channel, psn, parts);
    if let Some(last) = packets.last_mut() {
        last.ieth = Some(Ieth::default().with_r_key(RKey(channel.memory.r_key.0 ^ bits)));
    }
    packets
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let mut is_taken = false;
    let mut ways = Vec::new();
    refusal::not_judged(t);
    let _ = t
        .waits(refusal::SILENT)
        .next()
        .ok_or(Gap::Missing(refusal::SILENT.name))?;
    for (at, case) in CASES.iter().enumerate() {
        let about = case.label.name;
        if refusal::is_left_out(t, f, case) {
            continue;
        }
        let (dialogue, _) = refusal::counted(t, &all, case)?;
        let turn = answer::turn(t, dialogue, case.label).ok_or(Gap::Missing(about))?;
        rc::sound_packets(f, dialogue);
        let is = |holds| if holds { Passed::Pass } else { Passed::Fail };
        if OWN.contains(&at) {
            // Either the DUT acknowledged the SEND, or its refusal of the next request acknowledges the SEND, too.
            let send = turn.last_sent().minus(1);
            let took = turn.answers.iter().any(|seen| {
                let is_ack = answer::is_ack(seen) && seen.psn() == send;
                is_ack || answer::is_refusal(seen) && seen.psn() == turn.last_sent()
            });
            is_taken |= took;
            let refused = |seen: &&rc::Seen<'_>| answer::is_refusal(seen) && seen.psn() == send;
            let naks: Vec<Evidence<'_>> = turn
                .answers
                .iter()
                .filter(refused)
                .map(|seen| seen.frame.into())
                .collect();
            ways.push((took, naks));
            let is_done = |seen: &&rc::Seen<'_>| answer::nak_in(seen).is_none() && seen.psn() == turn.last_sent();
            let done: Vec<rc::Seen<'_>> = turn.answers.iter().filter(is_done).copied().collect();
            let words = ("no ACK of the WRITE, no response to the READ", rc::in_words(&done));
            f.prove(ACCESS, &turn.evidence(&done), about, words, is(done.is_empty()));
        } else {
            let receive = dialogue.completions.iter().find(|done| done.completion.wr_id == 2);
            // If the SEND was lost, the valid SEND after it has the same PSN and consumes its receive.
            let is_of_it =
                |done: &&rc::Done<'_>| t.begin.simulated || done.completion.byte_len != refusal::SOUND_LENGTH;
            let is_done = receive
                .filter(is_of_it)
                .is_some_and(|done| done.status() == WcStatus::SUCCESS);
            let seen = receive.map_or("none".into(), rc::Done::in_words);
            let words = ("no receive that completes with success", seen);
            f.prove(ACCESS, &turn.evidence(&[]), about, words, is(!is_done));
        }
        if let Some(read) = answer::commands_in(t, dialogue, refusal::MEMORY).last()
            && let Some(Reply::Bytes(found)) = rc::reply(read)
        {
            let written = found.bytes.iter().skip(TARGET as usize).any(|byte| *byte != 0);
            let seen = if written { "written" } else { "unchanged" };
            let about = format!("{about}: memory behind the receives");
            f.prove(ERRORS, &[(*read).into()], &about, ("unchanged", seen), is(!written));
        }
        let states = answer::commands_in(t, dialogue, refusal::STATE);
        let state = states.last().and_then(|state| rc::reply(state));
        let is_over = matches!(state, Some(Reply::Status(status)) if status.state() == pb::QpState::Err);
        let result = match is_over {
            true => Passed::Pass,
            false if t.begin.simulated => Passed::Fail,
            // The request that the DUT must refuse may have been lost.
            false => Passed::Inconclusive,
        };
        let words = ("ERR", if is_over { "ERR" } else { "another state" });
        f.prove(
            ERRORS,
            &turn.evidence(&turn.answers),
            &format!("{about}: state of the queue pair"),
            words,
            result,
        );
    }
    if let [(one, of_one), (two, of_two), ..] = ways.as_slice() {
        let differs = *one && !of_two.is_empty() || *two && !of_one.is_empty();
        let shown = [of_one.as_slice(), of_two.as_slice()].concat();
        let words = (
            "both executed, or both refused",
            if differs { "only one refused" } else { "no difference" },
        );
        let result = if differs { Passed::Fail } else { Passed::Pass };
        f.prove(
            ACCESS,
            &shown,
            "SEND with Invalidate of one packet, and of two",
            words,
            result,
        );
    }
    judge_again(t, f, &all, is_taken);
    Ok(())
}

//! `c09-060-coalesced-ack`: an ACK completes every SEND and WRITE up to its PSN, in order, and no other request.
//!
//! On one connection the peer acknowledges:
//! - three requests with one ACK;
//! - the first of two requests alone;
//! - two requests with one ACK, the first of them unsignaled;
//! - the first two packets of a SEND of three packets, before the last.
//!
//! A request completes, once and in posting order, if the ACK covers all of it. Other requests do not complete.
//!
//! Reading: the specification is clear. A DUT with only one request outstanding conforms, and the rest is
//! INCONCLUSIVE.
//!
//! False alarm: a lost ACK completes nothing, so the peer repeats it. An ACK that completes some requests was not lost.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Requester};

const COMPLETION: &str = "C9-60";

const ALL: Label<Frames> = Label::new("ACK of three requests");
const ALL_AGAIN: Label<Frames> = Label::new("ACK of three requests, again");
const FIRST: Label<Frames> = Label::new("ACK of the first of two");
const FIRST_AGAIN: Label<Frames> = Label::new("ACK of the first of two, again");
const SECOND_OPEN: Label<Wait> = Label::new("the second of two is outstanding");
const SECOND: Label<Frames> = Label::new("ACK of the second of two");
const SECOND_AGAIN: Label<Frames> = Label::new("ACK of the second of two, again");
const PART: Label<Frames> = Label::new("ACK of a part of a message");
const PART_OPEN: Label<Wait> = Label::new("a part of the message is acknowledged");
const WHOLE: Label<Frames> = Label::new("ACK of the whole message");
const WHOLE_AGAIN: Label<Frames> = Label::new("ACK of the whole message, again");

pub(super) static TEST: Test = Test {
    id: "c09-060-coalesced-ack",
    aliases: &[],
    revision: 2,
    about: "An ACK completes all requests that end at or before its PSN, once and in order, and no others.",
    reading: "One ACK for three requests completes the three in order; an ACK of the first of two leaves the second \
        outstanding; an ACK of a part of a message completes nothing. The test waits two seconds to prove that nothing \
        completes.",
    statements: &[COMPLETION, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let silence = t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0);
    sequence(t, &mut dut, silence)?;
    dut.close(t)
}

/// Runs the exchanges in order, and stops at the first exchange without the expected effect.
fn sequence(t: &mut Tester<'_>, dut: &mut Requester, silence: Duration) -> Step {
    let mut sent = Vec::new();
    for ask in [Ask::send(64), Ask::new(pb::Operation::Write, 200), Ask::send(0)] {
        sent.push(dut.post(t, ask)?);
    }
    for sent in &sent {
        if !dut.see_all(t, sent)? {
            return Ok(());
        }
    }
    let ack = dut.answers(t, &sent[2]);
    if !dut.answer(t, (ALL, ALL_AGAIN), &ack, 3)? {
        return Ok(());
    }
    let two = [dut.post(t, Ask::send(64))?, dut.post(t, Ask::send(64))?];
    if !dut.see_all(t, &two[0])? || !dut.see_all(t, &two[1])? {
        return Ok(());
    }
    let acks = two.map(|sent| dut.answers(t, &sent));
    if !dut.answer(t, (FIRST, FIRST_AGAIN), &acks[0], 1)? {
        return Ok(());
    }
    t.wait_for(SECOND_OPEN, silence)?;
    if !dut.answer(t, (SECOND, SECOND_AGAIN), &acks[1], 1)? {
        return Ok(());
    }
    // The first of the two requests is unsignaled.
    let quiet = Ask {
        silent: true,
        ..Ask::send(64)
    };
    let two = [dut.post(t, quiet)?, dut.post(t, Ask::send(64))?];
    if !dut.see_all(t, &two[0])? || !dut.see_all(t, &two[1])? {
        return Ok(());
    }
    let ack = dut.answers(t, &two[1]);
    if !dut.answer(t, (SECOND, SECOND_AGAIN), &ack, 1)? {
        return Ok(());
    }
    let message = dut.post(t, Ask::send(3 * dut.mtu))?;
    if !dut.see_all(t, &message)? {
        return Ok(());
    }
    for psn in [message.first, message.first.next()] {
        rc::ask::insist(t, PART, &dut.ack(psn, message.msn - 1))?;
    }
    t.wait_for(PART_OPEN, silence)?;
    let ack = dut.answers(t, &message);
    dut.answer(t, (WHOLE, WHOLE_AGAIN), &ack, 1)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::AnsweredCompletes, Rule::CompletedBy, Rule::CompletionOrder]);
    rc::came(t, &[ALL, FIRST, SECOND, PART, WHOLE])
}

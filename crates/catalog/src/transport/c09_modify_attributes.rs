//! `c09-modify-attributes`: attributes changed in RTS or SQD apply to the packets that follow.
//!
//! Each case has its own queue pair:
//! - One queue pair without rights and with the shortest RNR interval gets all rights and a longer interval in RTS. The
//!   DUT then executes the peer's requests, and its RNR NAK carries the longer interval.
//! - Three queue pairs lose their rights in RTS. Then one refuses a WRITE, one a READ, and one a FetchAdd.
//! - Two queue pairs get their rights late: one from INIT to INIT, the other with the transition to RTR.
//! - One queue pair gets its RNR interval with the transition to RTS.
//! - Four queue pairs change attributes in SQD. The first changes the ACK timeout and retry_cnt, the second
//!   rnr_retry. The third changes max_rd_atomic and the address vector, the fourth only the ACK timeout. Back in
//!   RTS they use the new values, and the old values of all other attributes.
//!
//! Reading: the specification is clear. If a host refuses an optional transition, the test does not check the
//! effect of that transition. The test leaves out SQD and READs if the device lacks them.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions, RightsBy};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, RnrTimer, SyndromeKind};

use crate::transport::rc::answer::{self, ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, RESULTS, Requester, offers};

const RNR_ERROR: &str = "9.7.5.2.8 RNR error completion";
const REFUSAL: &str = "9.7.5.2.4 invalid request";
const STEPS: &str = "11.2.5.2 modify queue pair";

const OPEN: Label<Verbs> = Label::new("ask for the port");
const MODIFY: Label<Verbs> = Label::new("modify the queue pair");
const ANSWER: Label<Frames> = Label::new("answer");
const AGAIN: Label<Frames> = Label::new("answer, again");
const ASKED: Label<Frames> = Label::new("request of the peer");
const UNREADY: Label<Frames> = Label::new("SEND without a receive");
const TAKEN: Label<Frames> = Label::new("request after the rights were taken");
const RNR: Label<Frames> = Label::new("RNR NAK");
const ENDS: Label<Wait> = Label::new("until all retries are over");

pub(super) static TEST: Test = Test {
    id: "c09-modify-attributes",
    aliases: &[],
    revision: 7,
    about: "Attributes changed in RTS or SQD apply to the packets that follow.",
    reading: "The test gives rights in INIT, with RTR and in RTS, takes rights away, and changes min_rnr_timer in RTS. \
        In SQD, if the host allows it, the test changes the address vector, retry_cnt, rnr_retry, the ACK timeout and \
        max_rd_atomic. Packets and errors follow the new values.",
    statements: &[
        STEPS,
        "C9-60",
        "C9-143",
        RNR_ERROR,
        "9.7.5.2.8 RNR NAK",
        ACKNOWLEDGEMENT,
        MSN,
        REFUSAL,
        rc::GENERATION,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: attributes,
    judge: judge_attributes,
};

const NONE: pb::Access = pb::Access {
    local_write: false,
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
};
/// RNR interval that the test sets with or after the transition to RTS.
const LATER_RNR: RnrTimer = RnrTimer(20);
const TIMEOUT: AckTimeout = AckTimeout(14);

fn attributes(t: &mut Tester<'_>) -> Step {
    in_rtr_and_rts(t)?;
    rights_taken(t, pb::Operation::Write)?;
    rights_by(t, RightsBy::InitAgain)?;
    rights_by(t, RightsBy::Rtr)?;
    rights_taken(t, pb::Operation::Read)?;
    rights_taken(t, pb::Operation::FetchAdd)?;
    let drained = Command::ModifyQp(pb::ModifyQp {
        qp: 0,
        state: pb::QpState::Sqd.into(),
        attributes: None,
    });
    if t.must_be_offered(Side::Dut, &drained).is_ok() {
        for change in 0..4 {
            in_sqd(t, change)?;
        }
    }
    with_rts(t)
}

fn step(t: &mut Tester<'_>, channel: &Channel, state: pb::QpState, attributes: pb::QpAttributes) -> Step<bool> {
    let modify = Command::ModifyQp(pb::ModifyQp {
        qp: channel.qp,
        state: state.into(),
        attributes: Some(attributes),
    });
    let is_there = t.must_be_offered(Side::Dut, &modify).is_ok();
    Ok(is_there && !matches!(t.verbs(MODIFY, Side::Dut, modify)?, Reply::Refused(_)))
}

/// Grants all rights and sets a longer RNR interval in RTS.
fn in_rtr_and_rts(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        qp_access: NONE,
        min_rnr_timer: RnrTimer(1),
        ..ChannelOptions::default()
    };
    let dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    let all = ChannelOptions::default().qp_access;
    let changed = pb::QpAttributes {
        access: Some(all),
        min_rnr_timer: t.offers_rnr_timer(LATER_RNR).then_some(LATER_RNR.0.into()),
        ..pb::QpAttributes::default()
    };
    if step(t, &channel, pb::QpState::Rts, changed)? {
        let psn = channel.own_psn;
        let mut asked = vec![Message::write(&channel, psn, 0, &[0x5A; 8])];
        if t.executes(pb::Operation::Read) {
            asked.push(Message::read(&channel, psn.plus(1), 0, 8));
        }
        if channel.atomics && t.executes(pb::Operation::FetchAdd) {
            asked.push(Message::fetch_add(&channel, psn.plus(asked.len() as u32), 16, 1));
        }
        for message in &asked {
            ask::ask(t, &channel, ASKED, message)?;
        }
        let next = psn.plus(asked.len() as u32);
        ask::ask_unready(t, &channel, UNREADY, &Message::send(&channel, next, &[0x5A; 8]))?;
    }
    dut.close(t)
}

/// Sets the RNR interval with the transition from RTR to RTS.
fn with_rts(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        min_rnr_timer: RnrTimer(1),
        to_rts: false,
        ..ChannelOptions::default()
    };
    let dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    let usual = t.nearest(&ChannelOptions::default());
    let rts = pb::QpAttributes {
        sq_psn: Some(channel.dut_psn.0),
        timeout: Some(usual.timeout.0.into()),
        retry_cnt: Some(7),
        rnr_retry: Some(usual.rnr_retry.into()),
        max_rd_atomic: Some(channel.max_rd_atomic.min(1).into()),
        min_rnr_timer: Some(LATER_RNR.0.into()),
        ..pb::QpAttributes::default()
    };
    let without = pb::QpAttributes {
        min_rnr_timer: None,
        ..rts.clone()
    };
    let rts = if t.offers_rnr_timer(LATER_RNR) { rts } else { without };
    if step(t, &channel, pb::QpState::Rts, rts)? {
        let send = Message::send(&channel, channel.own_psn, &[0x5A; 8]);
        ask::ask_unready(t, &channel, UNREADY, &send)?;
    }
    dut.close(t)
}

/// Withdraws a granted right. The DUT must execute a request before the change, and refuse a request after the change.
fn rights_taken(t: &mut Tester<'_>, operation: pb::Operation) -> Step {
    let dut = Requester::open(t, &ChannelOptions::default())?;
    let channel = dut.channel;
    let asks = |psn| match operation {
        pb::Operation::Read => Message::read(&channel, psn, 0, 8),
        pb::Operation::FetchAdd => Message::fetch_add(&channel, psn, 16, 1),
        _ => Message::write(&channel, psn, 0, &[0x5A; 8]),
    };
    let is_atomic = operation == pb::Operation::FetchAdd;
    if !t.executes(operation) || is_atomic && !channel.atomics {
        return dut.close(t);
    }
    ask::ask(t, &channel, ASKED, &asks(channel.own_psn))?;
    let taken = pb::QpAttributes {
        access: Some(NONE),
        ..pb::QpAttributes::default()
    };
    if step(t, &channel, pb::QpState::Rts, taken)? {
        ask::ask(t, &channel, TAKEN, &asks(channel.own_psn.next()))?;
    }
    dut.close(t)
}

/// Grants rights after the first transition to INIT: from INIT to INIT, or with RTR. The DUT must then execute a
/// WRITE.
fn rights_by(t: &mut Tester<'_>, rights_by: RightsBy) -> Step {
    let options = ChannelOptions {
        rights_by,
        ..ChannelOptions::default()
    };
    let dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    ask::ask(
        t,
        &channel,
        ASKED,
        &Message::write(&channel, channel.own_psn, 0, &[0x5A; 8]),
    )?;
    dut.close(t)
}

/// Changes attributes of the requester in SQD, and provokes their effect.
fn in_sqd(t: &mut Tester<'_>, change: usize) -> Step {
    let options = ChannelOptions {
        rnr_retry: 7,
        // The case that counts retries does not use 7, because some devices treat 7 as retries without end.
        retry_cnt: if change == 3 { 6 } else { 7 },
        max_rd_atomic: 4,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let channel = dut.channel;
    let none = pb::QpAttributes::default;
    let Reply::Opened(facts) = t.verbs_must(OPEN, Side::Dut, Command::Open(pb::Open {}))? else {
        return dut.close(t);
    };
    let address = pb::AddressVector {
        traffic_class: 0xA8,
        hop_limit: 37,
        flow_label: 0x4_5678,
        ..t.address_of_peer(&facts)?
    };
    let changed = [
        pb::QpAttributes {
            timeout: Some(TIMEOUT.0.into()),
            retry_cnt: Some(2),
            ..none()
        },
        pb::QpAttributes {
            rnr_retry: Some(1),
            pkey_index: Some(0),
            ..none()
        },
        pb::QpAttributes {
            max_rd_atomic: Some(channel.max_rd_atomic.min(1).into()),
            max_dest_rd_atomic: Some(channel.max_dest_rd_atomic.min(2).into()),
            address: Some(address),
            ..none()
        },
        // Attributes that are not named keep their values.
        pb::QpAttributes {
            timeout: Some(TIMEOUT.0.into()),
            ..none()
        },
    ];
    let is_drained = step(t, &channel, pb::QpState::Sqd, none())?
        && step(t, &channel, pb::QpState::Sqd, changed[change].clone())?
        && step(t, &channel, pb::QpState::Rts, none())?;
    if !is_drained {
        return dut.close(t);
    }
    match change {
        0 | 3 => {
            let retry_cnt = if change == 0 { 2 } else { options.retry_cnt };
            let send = dut.post(t, Ask::send(64))?;
            dut.see_all(t, &send)?;
            t.wait_for(ENDS, t.rc_silence(Duration::ZERO, TIMEOUT, retry_cnt))?;
        }
        1 => {
            let send = dut.post(t, Ask::send(64))?;
            let nak = dut.rnr_nak(send.first, RnrTimer(12), 0);
            for _ in 0..2 {
                if dut.see_all(t, &send)? {
                    t.send_frame(RNR, &nak)?;
                }
            }
            t.wait_for(ENDS, t.rc_silence(RnrTimer(12).duration(), AckTimeout::OFF, 0))?;
        }
        _ => {
            let mut sent = Vec::new();
            // Without READs, SENDs still show the address vector.
            let operation = if t.offers(pb::Operation::Read) {
                pb::Operation::Read
            } else {
                pb::Operation::Send
            };
            for place in 0..3 {
                sent.push(dut.post(t, Ask::new(operation, 8).at(RESULTS + 64 * place))?);
            }
            t.wait_for(ENDS, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
            for sent in &sent {
                if dut.see_all(t, sent)? {
                    let answers = dut.answers(t, sent);
                    dut.answer(t, (ANSWER, AGAIN), &answers, 1)?;
                }
            }
        }
    }
    dut.close(t)
}

fn judge_attributes(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [OPEN, MODIFY] {
        t.not_judged(label);
    }
    for label in [ANSWER, AGAIN, RNR] {
        t.not_judged(label);
    }
    if t.frames(TAKEN).next().is_none() {
        f.goes_without(&[REFUSAL], "the host refuses to take rights away in RTS");
    }
    t.commands(rc::steps::STATE).count();
    let all = rc::cases(t)?;
    let first = all
        .first()
        .map(|case| &case.dialogue)
        .ok_or(Gap::Missing(rc::steps::STATE.name))?;
    // The DUT must refuse no request that the new rights allow.
    if t.frames(ASKED).next().is_some() {
        let naks: Vec<rc::Seen<'_>> = first
            .of_dut()
            .filter(|seen| ask::nak_of(&seen.packet).is_some())
            .collect();
        let is_rnr = |seen: &&rc::Seen<'_>| {
            let syndrome = ask::nak_of(&seen.packet).map(|syndrome| syndrome.kind());
            matches!(syndrome, Some(SyndromeKind::RnrNak(_)))
        };
        let (rnr, others): (Vec<rc::Seen<'_>>, Vec<rc::Seen<'_>>) =
            naks.iter().copied().partition(|seen| is_rnr(&seen));
        let result = if others.is_empty() { Passed::Pass } else { Passed::Fail };
        let shown: Vec<Evidence<'_>> = others.iter().map(|seen| seen.frame.into()).collect();
        let words = ("no refusal", rc::in_words(&others));
        f.prove(
            STEPS,
            &shown,
            "requests after all rights were given in RTS",
            words,
            result,
        );
        let given = first.attributes.min_rnr_timer.and_then(|code| u8::try_from(code).ok());
        let given = RnrTimer(given.unwrap_or(LATER_RNR.0));
        let turn = answer::turn(t, first, UNREADY).ok_or(Gap::Missing(UNREADY.name))?;
        let asks = |seen: &rc::Seen<'_>| match ask::nak_of(&seen.packet).map(|syndrome| syndrome.kind()) {
            Some(SyndromeKind::RnrNak(timer)) => timer.duration() >= given.duration(),
            _ => false,
        };
        let of_it: Vec<rc::Seen<'_>> = rnr
            .iter()
            .filter(|seen| seen.psn() == turn.last_sent())
            .copied()
            .collect();
        let result = match of_it.as_slice() {
            [] => rc::alive(t, turn.places.0, turn.asked_again()),
            some if some.iter().all(asks) => Passed::Pass,
            _ => Passed::Fail,
        };
        let shown: Vec<Evidence<'_>> = of_it.iter().map(|seen| seen.frame.into()).collect();
        let words = (
            format!("an RNR NAK with code {}, or with a code of a longer interval", given.0),
            rc::in_words(&of_it),
        );
        f.prove(STEPS, &shown, "min_rnr_timer that was given in RTS", words, result);
    }
    for (case, by) in all.iter().skip(2).zip(["INIT to INIT", "INIT to RTR"]) {
        let naks: Vec<rc::Seen<'_>> = case.dialogue.of_dut().filter(answer::is_refusal).collect();
        let result = if naks.is_empty() { Passed::Pass } else { Passed::Fail };
        let shown: Vec<Evidence<'_>> = naks.iter().map(|seen| seen.frame.into()).collect();
        let about = format!("a WRITE after all rights were given from {by}");
        f.prove(STEPS, &shown, &about, ("no refusal", rc::in_words(&naks)), result);
    }
    let mut rules = vec![Rule::StepTaken, Rule::AddressVector];
    t.not_judged(ENDS);
    if t.timeline.waits.iter().any(|wait| wait.label == ENDS.name) {
        rules.extend([
            Rule::RetryFails,
            Rule::RnrFails,
            Rule::InFlight,
            Rule::AnsweredCompletes,
        ]);
        if !offers::posts(t, pb::Operation::Read) {
            f.goes_without(&["in-flight"], "the device has no READ");
        }
    } else if !offers::goes_to(t, pb::QpState::Sqd) {
        f.goes_without(&["C9-60", "C9-143", RNR_ERROR], "the device has no SQD");
    }
    f.exercises(&rules);
    Ok(())
}

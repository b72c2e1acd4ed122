//! `c09-rnr-nak-codes`: an RNR NAK asks for the interval of the queue pair's min_rnr_timer, whichever it is.
//!
//! For each of the 32 codes a connection is made whose min_rnr_timer it is. A SEND for which no receive is posted gets an RNR
//! NAK with its PSN and that code.
//! Reading: min_rnr_timer is the least that an RNR NAK may ask for, as its name in the verbs says ("minimum RNR NAK timer"). One that asks for a longer interval conforms, and an
//! observation tells of it. The codes are in no order of size: what is compared are their intervals, code 0 the longest.
//! False alarm: none known.

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{RnrTimer, SyndromeKind};

use crate::transport::rc::answer;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Dialogue};

const RNR: &str = "9.7.5.2.8 RNR NAK";

const SEND: Label<Frames> = Label::new("SEND without a receive");
const STATE: Label<Verbs> = Label::new("is the host still there");
const DESTROY: Label<Verbs> = Label::new("destroy the queue pair");

/// Bytes of the DUT's memory, which nothing is to reach.
const MEMORY: u32 = 4096;
const LENGTH: u32 = 61;

/// Every code, of the responder.
pub(super) static TEST: Test = Test {
    id: "c09-rnr-nak-codes",
    aliases: &[],
    revision: 1,
    about: "An RNR NAK asks for the interval of min_rnr_timer, whichever of the 32 codes it is.",
    reading: "One SEND without a receive on a connection for each code. PASS: RNR NAKs of its PSN with that code, or with one that \
        stands for a longer interval, which the architecture leaves open. Code 0 is 655.36 ms, the longest.",
    statements: &[RNR, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn codes() -> impl Iterator<Item = RnrTimer> {
    (0..32).map(RnrTimer)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    for code in codes() {
        let options = ChannelOptions {
            min_rnr_timer: code,
            memory: MEMORY,
            ..ChannelOptions::default()
        };
        let channel = t.open_channel(&options)?;
        let payload = ask::random_bytes(t, SEND.name, LENGTH);
        let send = Message::send(&channel, channel.own_psn, &payload);
        ask::ask_unready(t, &channel, SEND, &send)?;
        ask::query(t, &channel, STATE)?;
        // A device may have few queue pairs.
        t.verbs(DESTROY, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp: channel.qp }))?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [STATE, DESTROY] {
        t.not_judged(label);
    }
    let all = rc::dialogues(t)?;
    let given = all.iter().map(|dialogue| dialogue.attributes.min_rnr_timer);
    if !given.eq(codes().map(|code| Some(code.0.into()))) {
        return Err(Gap::Missing(SEND.name));
    }
    for (dialogue, code) in all.iter().zip(codes()) {
        rc::sound_packets(f, dialogue);
        asks_for(t, f, dialogue, code)?;
    }
    Ok(())
}

/// The SEND gets an RNR NAK that asks for the interval of the code at least, and nothing else.
fn asks_for(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>, code: RnrTimer) -> Result<(), Gap> {
    let turn = answer::turn(t, dialogue, SEND).ok_or(Gap::Missing(SEND.name))?;
    let (answers, psn) = (turn.counted_unready(t), turn.last_sent());
    let asked = |seen: &rc::Seen<'_>| match answer::nak_in(seen)?.kind() {
        SyndromeKind::RnrNak(timer) if seen.psn() == psn => Some(timer),
        _ => None,
    };
    let is_enough = |seen: &rc::Seen<'_>| asked(seen).is_some_and(|timer| timer.duration() >= code.duration());
    let result = if answers.is_empty() {
        rc::alive(t, turn.places.0, turn.asked_again())
    } else if answers.len() <= turn.most(t) && answers.iter().all(is_enough) {
        Passed::Pass
    } else {
        Passed::Fail
    };
    let words = (
        format!("one RNR NAK of PSN {psn} with {code}, or longer"),
        rc::in_words(&answers),
    );
    let about = format!("min_rnr_timer {}", code.0);
    f.prove(RNR, &turn.evidence(&answers), &about, words, result);
    let is_longer = |timer: &RnrTimer| timer.duration() > code.duration();
    if let Some(longer) = answers.iter().filter_map(asked).find(is_longer) {
        f.observe_ambiguous(format!("min_rnr_timer {code}: an RNR NAK asks for {longer}"), &[]);
    }
    Ok(())
}

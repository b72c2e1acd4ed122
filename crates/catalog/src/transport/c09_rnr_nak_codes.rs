//! `c09-rnr-nak-codes`: an RNR NAK requests the interval of the queue pair's min_rnr_timer, for every code.
//!
//! For each of the 32 codes the test opens a connection with this min_rnr_timer. A SEND without a posted receive gets
//! an RNR NAK with its PSN and this code.
//!
//! Reading: min_rnr_timer is the least interval that an RNR NAK may request, as its name in the verbs says ("minimum
//! RNR NAK timer"). A longer interval conforms, and an observation reports it. The codes are not in the order of their
//! intervals, so the test compares intervals. Code 0 has the longest interval.
//!
//! False alarm: none known.

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::RnrTimer;

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, offers};

const RNR: &str = "9.7.5.2.8 RNR NAK";

const SEND: Label<Frames> = Label::new("SEND without a receive");
const STATE: Label<Verbs> = Label::new("is the host still there");
const DESTROY: Label<Verbs> = Label::new("destroy the queue pair");

/// Length of the DUT's memory in bytes. No request may write to it.
const MEMORY: u32 = 4096;
const LENGTH: u32 = 61;

pub(super) static TEST: Test = Test {
    id: "c09-rnr-nak-codes",
    aliases: &[],
    revision: 1,
    about: "An RNR NAK requests the interval of min_rnr_timer, for each of the 32 codes.",
    reading: "The peer sends one SEND without a receive on a connection for each code. PASS: RNR NAKs of its PSN have \
        that code, or the code of a longer interval, which the architecture leaves open. Code 0 is 655.36 ms, the \
        longest interval.",
    statements: &[RNR, "9.7.5.1 acknowledgement", rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn codes() -> impl Iterator<Item = RnrTimer> {
    (0..32).map(RnrTimer)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let is_taken = |code: &RnrTimer| t.offers_rnr_timer(*code);
    for code in codes().filter(is_taken).collect::<Vec<_>>() {
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
        // Destroy the queue pair, because a device may have few.
        t.verbs(DESTROY, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp: channel.qp }))?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::RnrTimer, Rule::RnrNakOwed]);
    for label in [STATE, DESTROY] {
        t.not_judged(label);
    }
    let all = rc::dialogues(t)?;
    let given = all.iter().map(|dialogue| dialogue.attributes.min_rnr_timer);
    let is_each = given.eq(codes()
        .filter(|code| offers::rnr_timer(t, *code))
        .map(|code| Some(code.0.into())));
    let places = all.iter().map(|dialogue| dialogue.places);
    let mut within = places.map(|(from, to)| t.frames(SEND).any(|frame| frame.place > from && frame.place < to));
    if !is_each || !within.all(|is_sent| is_sent) {
        return Err(Gap::Missing(SEND.name));
    }
    Ok(())
}

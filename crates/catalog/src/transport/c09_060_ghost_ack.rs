//! `c09-060-ghost-ack`: an ACK of a PSN that is not outstanding, or with a wrong ICRC, completes nothing.
//!
//! The peer acknowledges one SEND; a second SEND is outstanding. Then the peer sends packets that must have no effect:
//! - ACKs of PSNs that the DUT never sent, and of PSNs acknowledged long ago;
//! - RNR NAKs of PSNs that the DUT never sent;
//! - the second SEND's ACK with a wrong ICRC.
//!
//! The DUT must neither complete nor retransmit the second SEND. The peer sends each packet three times, because a
//! packet may be lost. Then the valid ACK completes the SEND. A completed READ and a completed atomic get another
//! response with other bytes, which must change nothing.
//!
//! Reading: the DUT may take credits from such an ACK; the test cannot observe the DUT's credits.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::mend_icrc;
use verbatim_wire::packet::{AckTimeout, Medium, Psn, RnrTimer};

use crate::transport::rc::{self, Ask, RESULTS, Requester, offers};

const COMPLETION: &str = "C9-60";
const TIMEOUT: &str = "C9-142";

const EARLIER: Label<Frames> = Label::new("ACK of the first request");
const EARLIER_AGAIN: Label<Frames> = Label::new("ACK of the first request, again");
const GHOST: Label<Frames> = Label::new("ghost ACK");
const HAUNTED: Label<Wait> = Label::new("after the ghost ACKs");
const GHOST_NAK: Label<Frames> = Label::new("ghost RNR NAK");
const AFTER_NAKS: Label<Wait> = Label::new("after the ghost RNR NAKs");
const SPOILT: Label<Frames> = Label::new("ACK with a wrong ICRC");
const UNHEARD: Label<Wait> = Label::new("after the ACK with a wrong ICRC");
const DATA: [Label<Frames>; 2] = [
    Label::new("response to a READ or atomic"),
    Label::new("response to a READ or atomic, again"),
];
const GHOST_DATA: Label<Frames> = Label::new("ghost response with other bytes");
const AFTER_DATA: Label<Wait> = Label::new("after the ghost responses");
const ACK: Label<Frames> = Label::new("ACK of the second request");
const ACK_AGAIN: Label<Frames> = Label::new("ACK of the second request, again");

pub(super) static TEST: Test = Test {
    id: "c09-060-ghost-ack",
    aliases: &[],
    revision: 3,
    about: "An ACK of a PSN that is not outstanding, or with a wrong ICRC, completes nothing and causes no \
        retransmission.",
    reading: "The ACKs carry PSNs that the DUT never sent, up to half of all PSNs ahead, and PSNs acknowledged before. \
        In two seconds the DUT neither completes a request nor sends a packet.",
    statements: &[COMPLETION, TIMEOUT, "9.7.6.1.1 response data", rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let silence = t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0);
    let first = dut.post(t, Ask::send(64))?;
    let acks = dut.answers(t, &first);
    if dut.see_all(t, &first)? && dut.answer(t, (EARLIER, EARLIER_AGAIN), &acks, 1)? {
        let second = dut.post(t, Ask::send(64))?;
        if dut.see_all(t, &second)? {
            let psn = second.first;
            let ahead = [1, 2, 1000, Psn::COUNT / 2 - 1].map(|steps| psn.plus(steps));
            let behind = [1, 2, 1000, Psn::COUNT / 4].map(|steps| psn.minus(steps));
            for ghost in ahead.into_iter().chain(behind) {
                rc::ask::insist(t, GHOST, &dut.ack(ghost, 1))?;
            }
            t.wait_for(HAUNTED, silence)?;
            for ghost in ahead {
                rc::ask::insist(t, GHOST_NAK, &dut.rnr_nak(ghost, RnrTimer(14), 1))?;
            }
            t.wait_for(AFTER_NAKS, silence)?;
            let acks = dut.answers(t, &second);
            let mut spoilt = acks[0].clone();
            if let Some(byte) = spoilt.last_mut() {
                *byte ^= 0x10;
            }
            rc::ask::insist(t, SPOILT, &spoilt)?;
            t.wait_for(UNHEARD, silence)?;
            dut.answer(t, (ACK, ACK_AGAIN), &acks, 1)?;
            for operation in [Operation::Read, Operation::FetchAdd] {
                if t.offers(operation) {
                    ghost_of(t, &mut dut, operation)?;
                }
            }
            dut.read_memory(t)?;
        }
    }
    dut.close(t)
}

/// Has the DUT post a READ or an atomic, and sends a different response after the request completed.
fn ghost_of(t: &mut Tester<'_>, dut: &mut Requester, operation: Operation) -> Step {
    let place = if operation == Operation::Read {
        RESULTS
    } else {
        RESULTS + 64
    };
    // Some devices report an operation but their hosts refuse to post it.
    let Some(sent) = dut.try_post(t, Ask::new(operation, 8).at(place))? else {
        return Ok(());
    };
    let responses = dut.answers(t, &sent);
    if dut.see_all(t, &sent)? && dut.answer(t, DATA.into(), &responses, 1)? {
        let mut other = responses[0].clone();
        let bytes = other.len().saturating_sub(4 + 8)..other.len().saturating_sub(4);
        other[bytes].iter_mut().for_each(|byte| *byte ^= 0xA5);
        let _ = mend_icrc(Medium::Ethernet, &mut other);
        rc::ask::insist(t, GHOST_DATA, &other)?;
        t.wait_for(AFTER_DATA, t.longest_round_trip())?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::AnsweredCompletes, Rule::CompletedBy]);
    if offers::posts(t, Operation::Read) {
        f.exercises(&[Rule::ResponseData]);
        rc::came(t, &[GHOST_DATA])?;
    } else {
        f.goes_without(&["9.7.6.1.1 response data"], "the device has no READ");
    }
    // If nothing is retransmitted, the statement on time-outs does not apply.
    f.goes_without.push(TIMEOUT);
    rc::came(t, &[EARLIER, GHOST, GHOST_NAK, SPOILT, ACK])
}

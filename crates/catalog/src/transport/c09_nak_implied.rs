//! `c09-nak-implied`: an ACK behind an RDMA READ or an atomic that has no response makes that one come again.
//!
//! A READ and a SEND are outstanding, on another connection a FetchAdd and a SEND. The SEND is acknowledged, the other has
//! no response: it was lost. The DUT completes neither, and asks again. Then the response and the ACK come, and both
//! complete in order.
//! Reading: whether the SEND completes by the first ACK, once the response is there, or wants another, is left open.
//! A DUT that has only one request outstanding conforms, and the rest is INCONCLUSIVE. False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace, WcStatus};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Case, Requester};

const NAKS: &str = "9.7.5.1.1 NAK handling";

const ACK: Label<Frames> = Label::new("ACK behind the missing response");
const ACK_AGAIN: Label<Frames> = Label::new("ACK behind the missing response, again");
const RESPONSE: Label<Frames> = Label::new("response and ACK");
const RESPONSE_AGAIN: Label<Frames> = Label::new("response and ACK, again");

const OK: &[WcStatus] = &[WcStatus::SUCCESS];

/// Implied NAKs.
pub(super) static TEST: Test = Test {
    id: "c09-nak-implied",
    aliases: &[],
    revision: 1,
    about: "An ACK behind an RDMA READ or atomic without a response makes that one come again, and completes nothing.",
    reading: "No completion before the response; the READ or atomic is sent again; after response and ACK both complete, in \
        order.",
    statements: &[NAKS, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for ask in [Ask::new(pb::Operation::Read, 64), Ask::new(pb::Operation::FetchAdd, 8)] {
        let mut dut = Requester::open(t, &ChannelOptions::default())?;
        if let Some(first) = dut.try_post(t, ask)? {
            let second = dut.post(t, Ask::send(64))?;
            if dut.see_all(t, &first)? && dut.see_all(t, &second)? {
                let ack = dut.answers(t, &second);
                let patience = t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0);
                dut.provoke(t, (ACK, ACK_AGAIN), &ack[0], (first.first, patience))?;
                let came = dut.come(t)?;
                let responses = [dut.answers(t, &first), ack].concat();
                dut.answer(t, (RESPONSE, RESPONSE_AGAIN), &responses, 2 - came.min(2))?;
            }
        }
        dut.close(t)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for case in &rc::cases(t)? {
        rc::sound_packets(f, &case.dialogue);
        let again = [case.frames(t, ACK_AGAIN), case.frames(t, RESPONSE_AGAIN)];
        let (acks, responses) = (case.frames(t, ACK), case.frames(t, RESPONSE));
        if case.posted.len() < 2 {
            case.tell_refused(f);
            continue;
        }
        let Some(ack) = acks.first() else {
            not_outstanding(t, f, case)?;
            continue;
        };
        case.packets_are_those_posted(f, rc::GENERATION, "first transmission", (case.start(), ack.place));
        case.packets_are_those_posted(f, NAKS, "retry", (ack.place, case.end()));
        let first = &case.posted[0];
        let about = format!("{}, an ACK behind it", first.in_words());
        let until = responses.first().map_or(case.end(), |response| response.place);
        let retries = case.sent_with(first.first, ack.place, until);
        let result = if retries.is_empty() {
            // A DUT may act on the first such ACK alone, so that asking again shows nothing.
            rc::alive(t, case.end(), false)
        } else {
            Passed::Pass
        };
        let mut evidence = vec![Evidence::from(*ack)];
        evidence.extend(retries.iter().map(|seen| Evidence::from(seen.frame)));
        let words = ("it comes again", format!("{} times", retries.len()));
        f.prove(NAKS, &evidence, &about, words, result);
        rc::no_completion(
            f,
            NAKS,
            &format!("{about}: before the response"),
            &case.dialogue,
            (case.start(), until),
        );
        if case.dialogue.completions_between(case.start(), until).is_empty() {
            let asked_again = rc::asked_again(&again[1], responses.len());
            let about = format!("{about}, then response and ACK");
            case.completes(
                t,
                f,
                (NAKS, &about),
                (until, case.end()),
                (&[(1, OK), (2, OK)], asked_again),
            );
        }
    }
    Ok(())
}

/// The second request did not come before the first was answered: legal, and nothing is claimed.
fn not_outstanding(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) -> Result<(), Gap> {
    let first = &case.posted[0];
    if case.sent_with(first.first, case.start(), case.end()).is_empty() {
        return rc::not_sent(t, f, case, 0);
    }
    let words = ("both requests outstanding", "the first alone");
    f.prove(
        NAKS,
        &[case.state.into()],
        &first.in_words(),
        words,
        Passed::Inconclusive,
    );
    Ok(())
}

//! `c09-nak-sequence`: a sequence NAK acknowledges what lies before its PSN and makes the rest come again from there.
//!
//! Three connections. Of three SENDs the second gets the NAK: the first completes, the second and third come again. Of a
//! SEND of four packets the third gets it: the third and fourth come again, from the NAK's PSN. With retry_cnt 2 every
//! transmission of a SEND gets it: after two retries the request fails with IBV_WC_RETRY_EXC_ERR.
//! Reading: a sequence NAK spends retry_cnt, as a time-out does. A DUT that goes back further than it was asked to does
//! no harm: seen, and not judged. False alarm: where a NAK may have been lost, a missing retry is INCONCLUSIVE.

use core::time::Duration;

use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace, Wait, WcStatus};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::{self, Ask, Case, Requester};

const NAKS: &str = "9.7.5.1.1 NAK handling";
const COMPLETION: &str = "C9-60";

const NAK: Label<Frames> = Label::new("sequence NAK");
const NAK_AGAIN: Label<Frames> = Label::new("sequence NAK, again");
const ACK: Label<Frames> = Label::new("ACK of all");
const ACK_AGAIN: Label<Frames> = Label::new("ACK of all, again");
const LAST: Label<Frames> = Label::new("the last sequence NAK");
const LAST_AGAIN: Label<Frames> = Label::new("the last sequence NAK, again");
const AFTER: Label<Wait> = Label::new("after the last sequence NAK");

const OK: &[WcStatus] = &[WcStatus::SUCCESS];
/// retry_cnt where the retries are to be spent.
const RETRY_CNT: u8 = 2;

/// Sequence NAKs.
pub(super) static TEST: Test = Test {
    id: "c09-nak-sequence",
    aliases: &[],
    revision: 1,
    about: "A sequence NAK acknowledges what lies before it, makes the rest come again, and spends retry_cnt.",
    reading: "What lies before the NAK's PSN completes; the packet with that PSN comes again before any later one, then the \
        rest; 1 + retry_cnt transmissions, then IBV_WC_RETRY_EXC_ERR.",
    statements: &[NAKS, COMPLETION, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    several(t)?;
    within(t)?;
    without_end(t)
}

fn patience(t: &Tester<'_>) -> Duration {
    t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0)
}

/// A NAK between requests.
fn several(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let sent = [
        dut.post(t, Ask::send(64))?,
        dut.post(t, Ask::send(64).at(64))?,
        dut.post(t, Ask::send(8))?,
    ];
    let mut all_seen = true;
    for sent in &sent {
        all_seen = all_seen && dut.see_all(t, sent)?;
    }
    if all_seen {
        let nak = dut.nak(sent[1].first, NakCode::PSN_SEQUENCE_ERROR, 1);
        let wait = patience(t);
        dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent[1].first, wait))?;
        dut.see_all(t, &sent[2])?;
        let came = dut.completions(t, 1)?;
        let ack = dut.answers(t, &sent[2]);
        dut.answer(t, (ACK, ACK_AGAIN), &ack, 3 - came)?;
    }
    dut.close(t)
}

/// A NAK within a message.
fn within(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let sent = dut.post(t, Ask::send(4 * dut.mtu))?;
    if dut.see_all(t, &sent)? {
        let third = sent.first.plus(2);
        let nak = dut.nak(third, NakCode::PSN_SEQUENCE_ERROR, 0);
        let wait = patience(t);
        dut.provoke(t, (NAK, NAK_AGAIN), &nak, (third, wait))?;
        dut.see_all(t, &sent)?;
        let ack = dut.answers(t, &sent);
        dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
    }
    dut.close(t)
}

/// NAKs until the retries are spent.
fn without_end(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        retry_cnt: RETRY_CNT,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let sent = dut.post(t, Ask::send(64))?;
    let wait = patience(t);
    let mut retried = dut.see_all(t, &sent)?;
    let nak = dut.nak(sent.first, NakCode::PSN_SEQUENCE_ERROR, 0);
    for _ in 0..RETRY_CNT {
        retried = retried && dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, wait))?;
    }
    if retried {
        dut.answer(t, (LAST, LAST_AGAIN), &[nak], 1)?;
        t.wait_for(AFTER, wait)?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let cases = rc::cases(t)?;
    let _ = (t.waited(AFTER), t.frames(LAST), t.frames(ACK));
    for (at, case) in cases.iter().enumerate() {
        rc::sound_packets(f, &case.dialogue);
        let naks = case.frames(t, NAK);
        let [naks_again, last_again, acks_again] =
            [NAK_AGAIN, LAST_AGAIN, ACK_AGAIN].map(|label| case.frames(t, label));
        let Some(nak) = naks.first() else {
            rc::not_sent(t, f, case, [2, 0, 0][at])?;
            continue;
        };
        case.packets_are_those_posted(f, rc::GENERATION, "first transmission", (case.start(), nak.place));
        case.packets_are_those_posted(f, NAKS, "retry", (nak.place, case.end()));
        if at == 2 {
            let again = [naks_again, last_again].concat();
            spent(t, f, case, nak.place, rc::asked_again(&again, 1))?;
        } else {
            let again = [naks_again, acks_again].map(|again| rc::asked_again(&again, 1));
            resent(t, f, case, (nak.place, [1, 2][at]), again);
        }
    }
    Ok(())
}

/// The packets from a PSN on, counted from the first, came again in order, and all completed.
fn resent(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, (nak, from): (usize, u32), [by_naks, by_acks]: [bool; 2]) {
    let acks = case.frames(t, ACK);
    let until = acks.first().map_or(case.end(), |ack| ack.place);
    let missing = case.dialogue.dut_psn.plus(from);
    let sent = case.sent(nak, until);
    let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
    let about = format!("after a sequence NAK of PSN {missing}");
    let further_back = sent
        .iter()
        .take_while(|seen| seen.psn() != missing && missing.since(seen.psn()) <= from)
        .count();
    if further_back > 0 {
        f.observe_ambiguous(format!("{about} {further_back} packets before it came again too"), &[]);
    }
    let psns: Vec<u32> = sent[further_back..].iter().map(|seen| seen.psn().0).collect();
    let count = if from == 1 { 2 } else { 4 - from };
    let wanted: Vec<u32> = (0..count).map(|at| missing.plus(at).0).collect();
    let result = if psns == wanted {
        Passed::Pass
    } else if psns.len() < wanted.len() && psns.iter().zip(&wanted).all(|(seen, wanted)| seen == wanted) {
        // Of those that began to come again one may have been lost.
        rc::alive(t, until.min(case.end()), by_naks && psns.is_empty())
    } else if t.begin.simulated || (by_naks && !psns.contains(&missing.0)) {
        // Elsewhere a packet that came again may have been lost, and the NAK was then sent again.
        Passed::Fail
    } else {
        Passed::Inconclusive
    };
    let in_words = |psns: &[u32]| {
        let words: Vec<String> = psns.iter().map(|psn| format!("{psn:#08x}")).collect();
        if words.is_empty() {
            "none".into()
        } else {
            words.join(", ")
        }
    };
    f.prove(
        NAKS,
        &evidence,
        &format!("{about}: PSNs that come again"),
        (in_words(&wanted), in_words(&psns)),
        result,
    );
    // No timer runs: what comes again shows that the NAK was heard, and the host loses nothing.
    let heard = by_naks || psns.contains(&missing.0);
    // What lies before the NAK completes by it, what it speaks of does not.
    let by_nak: &[(u64, &[WcStatus])] = if from == 1 { &[(1, OK)] } else { &[] };
    case.completes(
        t,
        f,
        (NAKS, &format!("{about}: completions")),
        (nak, until),
        (by_nak, heard),
    );
    no_success(f, case, &about, (nak, until), if from == 1 { 2 } else { 1 });
    let by_ack: &[(u64, &[WcStatus])] = if from == 1 { &[(2, OK), (3, OK)] } else { &[(1, OK)] };
    if case.dialogue.completions_between(nak, until).len() == by_nak.len() {
        let about = format!("{about}, then an ACK of all");
        case.completes(t, f, (NAKS, &about), (until, case.end()), (by_ack, by_acks));
    }
}

/// A request that got a NAK has not completed with success by it.
fn no_success(f: &mut Findings<'_>, case: &Case<'_>, about: &str, (after, until): (usize, usize), from: u64) {
    let mut done = case.dialogue.completions_between(after, until);
    done.retain(|done| done.completion.wr_id >= from && done.status() == WcStatus::SUCCESS);
    let result = if done.is_empty() { Passed::Pass } else { Passed::Fail };
    let words = ("none", rc::completions_in_words(&done));
    f.prove(
        COMPLETION,
        &rc::evidence(&done),
        &format!("{about}: success of what it speaks of"),
        words,
        result,
    );
}

/// The retries are spent by sequence NAKs.
fn spent(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, first: usize, asked_again: bool) -> Result<(), Gap> {
    let about = format!("retry_cnt {RETRY_CNT}, every transmission gets a sequence NAK");
    let sent = case.sent(case.start(), case.end());
    let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
    let allowed = 1 + usize::from(RETRY_CNT);
    let result = match sent.len().cmp(&allowed) {
        core::cmp::Ordering::Equal => Passed::Pass,
        core::cmp::Ordering::Greater => Passed::Fail,
        // A retry that was lost was asked for again, and spent two.
        core::cmp::Ordering::Less => rc::alive(t, case.end(), false),
    };
    let words = (allowed.to_string(), sent.len().to_string());
    f.prove(NAKS, &evidence, &format!("{about}: transmissions"), words, result);
    no_success(f, case, &about, (first, case.end()), 1);
    if let Some(last) = case.frames(t, LAST).first() {
        let waited = case.waited(t, AFTER)?;
        rc::quiet(t, f, NAKS, &about, (&case.dialogue, last.place, waited), Duration::ZERO);
        let expected: [(u64, &[WcStatus]); 1] = [(1, &[WcStatus::RETRY_EXC_ERR])];
        case.completes(
            t,
            f,
            (NAKS, &about),
            (case.start(), case.end()),
            (&expected, asked_again),
        );
        case.is_in_error(f, NAKS, &about);
    }
    Ok(())
}

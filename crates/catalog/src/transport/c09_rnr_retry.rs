//! `c09-rnr-retry`: a requester retries after RNR NAKs as often as rnr_retry says, for each request anew.
//!
//! The DUT posts SENDs; the peer answers each transmission with an RNR NAK, or at last with an ACK. With rnr_retry 0, 1
//! and 3 there are 1 + rnr_retry transmissions, then IBV_WC_RNR_RETRY_EXC_ERR and a queue pair in error; with 7 the DUT
//! still retries after 12. A request that is acknowledged loads the counter again. retry_cnt is 0 throughout, so an RNR
//! NAK that spends it ends the request at once. Every retry is the same packet again.
//! Reading: nothing is unclear. The ACK timeout is off, so that nothing else makes the DUT send again.
//! False alarm: none known; where an RNR NAK or a retry may have been lost, fewer retries are INCONCLUSIVE. An error of spent
//! retries before a request got 1 + rnr_retry RNR NAKs is none that a lost packet explains.

use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Trace, Wait, WcStatus};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use crate::transport::rc::{self, Ask, Case, Requester};

const RETRY: &str = "9.7.5.2.8 RNR retry";
const ERROR: &str = "9.7.5.2.8 RNR error completion";

const NAK: Label<Frames> = Label::new("RNR NAK");
const NAK_AGAIN: Label<Frames> = Label::new("RNR NAK, again");
const LAST: Label<Frames> = Label::new("the last RNR NAK");
const LAST_AGAIN: Label<Frames> = Label::new("the last RNR NAK, again");
const ACK: Label<Frames> = Label::new("ACK");
const ACK_AGAIN: Label<Frames> = Label::new("ACK, again");
const AFTER: Label<Wait> = Label::new("after the last RNR NAK");

/// The value of rnr_retry that means without end.
const INFINITE: u8 = 7;
/// What the RNR NAKs ask for: 1.28 ms.
const TIMER: RnrTimer = RnrTimer(14);

/// rnr_retry, and the retries that each request in turn is made to do; after them it gets an ACK, or, where the last
/// one is to fail, one RNR NAK more.
const CASES: &[(u8, &[usize], bool)] = &[
    (0, &[0], true),
    (1, &[1], true),
    (3, &[3], true),
    (2, &[2, 2], true),
    (7, &[12], false),
];

/// Retries after RNR NAKs.
pub(super) static TEST: Test = Test {
    id: "c09-rnr-retry",
    aliases: &[],
    revision: 1,
    about: "A requester retries after RNR NAKs as often as rnr_retry says, 7 without end, for each request anew.",
    reading: "Exactly 1 + rnr_retry transmissions, then IBV_WC_RNR_RETRY_EXC_ERR; 7 = still retrying after 12 RNR NAKs; an \
        acknowledged request loads the counter again; retry_cnt is 0 and is not spent.",
    statements: &[RETRY, ERROR, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for (rnr_retry, retries, fails) in CASES {
        case(t, *rnr_retry, retries, *fails)?;
    }
    Ok(())
}

fn case(t: &mut Tester<'_>, rnr_retry: u8, retries: &[usize], fails: bool) -> Step {
    let options = ChannelOptions {
        rnr_retry,
        retry_cnt: 0,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(TIMER.duration(), AckTimeout::OFF, 0);
    'requests: for (at, count) in retries.iter().enumerate() {
        let sent = dut.post(t, Ask::send(64))?;
        let nak = dut.rnr_nak(sent.first, TIMER, sent.msn - 1);
        if !dut.see(t, sent.first, patience)? {
            break;
        }
        for _ in 0..*count {
            if !dut.provoke(t, (NAK, NAK_AGAIN), &nak, (sent.first, patience))? {
                break 'requests;
            }
        }
        if fails && at + 1 == retries.len() {
            dut.answer(t, (LAST, LAST_AGAIN), &[nak], 1)?;
            t.wait_for(AFTER, patience)?;
        } else {
            let ack = dut.answers(t, &sent);
            dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
        }
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.not_judged(AFTER);
    for (case, (rnr_retry, retries, fails)) in rc::cases(t)?.iter().zip(CASES) {
        rc::sound_packets(f, &case.dialogue);
        judge_case(t, f, case, (*rnr_retry, retries, *fails))?;
    }
    Ok(())
}

fn judge_case(
    t: &Trace,
    f: &mut Findings<'_>,
    case: &Case<'_>,
    (rnr_retry, retries, fails): (u8, &[usize], bool),
) -> Result<(), Gap> {
    let last = case.frames(t, LAST);
    let again = [case.frames(t, NAK_AGAIN), case.frames(t, LAST_AGAIN)].concat();
    let (naks, acks) = (case.frames(t, NAK), case.frames(t, ACK));
    let acks_again = case.frames(t, ACK_AGAIN);
    for (at, (posted, count)) in case.posted.iter().zip(retries).enumerate() {
        let until = case.posted.get(at + 1).map_or(case.end(), |next| next.command.place);
        let sent = case.sent(posted.command.place, until);
        for (number, seen) in sent.iter().enumerate() {
            let (statement, about) = if number == 0 {
                (rc::GENERATION, "first transmission")
            } else {
                (RETRY, "retry")
            };
            case.is_posted(f, statement, about, seen);
        }
        let result = match sent.len().cmp(&(1 + count)) {
            core::cmp::Ordering::Equal => Passed::Pass,
            // An RNR NAK that was sent again may have crossed the retry, and is answered too.
            core::cmp::Ordering::Greater if !again.is_empty() => Passed::Inconclusive,
            core::cmp::Ordering::Greater => Passed::Fail,
            // A retry that was lost was asked for again, and spent two.
            core::cmp::Ordering::Less => rc::alive(t, case.end(), false),
        };
        let statement = if sent.is_empty() { rc::GENERATION } else { RETRY };
        let about = format!("rnr_retry {rnr_retry}: transmissions of request {}", at + 1);
        let words = ((1 + count).to_string(), sent.len().to_string());
        let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
        f.prove(statement, &evidence, &about, words, result);
        // Until it is answered for good, nothing may complete it.
        let place = |frames: &[&verbatim_record::FrameSeen]| {
            let mut of_it = frames.iter().map(|frame| frame.place);
            of_it.find(|place| *place > posted.command.place && *place < until)
        };
        let ending = place(&last).or_else(|| place(&acks)).unwrap_or(case.end());
        if again.is_empty() && !naks.is_empty() {
            let about = format!("rnr_retry {rnr_retry}: while retries are left");
            rc::no_completion(f, RETRY, &about, &case.dialogue, (posted.command.place, ending));
        }
    }
    let about = format!("rnr_retry {rnr_retry}");
    let all = [naks, again.clone(), last.clone()].concat();
    too_soon(f, case, rnr_retry, &all);
    for ack in &acks {
        let wr_id = 1 + acks.iter().filter(|other| other.place < ack.place).count() as u64;
        let until = case
            .posted
            .get(wr_id as usize)
            .map_or(case.end(), |next| next.command.place);
        let expected: [(u64, &[WcStatus]); 1] = [(wr_id, &[WcStatus::SUCCESS])];
        let again = rc::asked_again(&acks_again, 1);
        case.completes(
            t,
            f,
            (RETRY, &format!("{about}: after the ACK")),
            (ack.place, until),
            (&expected, again),
        );
    }
    let Some(last) = last.first().filter(|_| fails) else {
        return Ok(());
    };
    let waited = case.waited(t, AFTER)?;
    let after = format!("{about}: after the last RNR NAK");
    rc::quiet(
        t,
        f,
        RETRY,
        &after,
        (&case.dialogue, last.place, waited),
        TIMER.duration(),
    );
    let expected: [(u64, &[WcStatus]); 1] = [(retries.len() as u64, &[WcStatus::RNR_RETRY_EXC_ERR])];
    case.completes(
        t,
        f,
        (ERROR, &after),
        (last.place, case.end()),
        (&expected, rc::asked_again(&again, 1)),
    );
    case.is_in_error(f, ERROR, &about);
    Ok(())
}

/// No request fails for spent retries before as many RNR NAKs were sent for it as that takes: 7 is without end.
fn too_soon(f: &mut Findings<'_>, case: &Case<'_>, rnr_retry: u8, naks: &[&FrameSeen]) {
    let about = format!("rnr_retry {rnr_retry}: errors of spent retries before they were spent");
    let within = case.dialogue.completions_between(case.start(), case.end());
    let spent = within
        .into_iter()
        .filter(|done| done.status() == WcStatus::RNR_RETRY_EXC_ERR);
    let early = spent.filter(|done| {
        let request = usize::try_from(done.completion.wr_id).unwrap_or(0).checked_sub(1);
        let posted = request.and_then(|at| case.posted.get(at));
        let from = posted.map_or(case.start(), |posted| posted.command.place);
        let sent = naks
            .iter()
            .filter(|nak| nak.place > from && nak.place < done.told.place);
        rnr_retry == INFINITE || sent.count() <= usize::from(rnr_retry)
    });
    let early: Vec<_> = early.collect();
    let result = if early.is_empty() { Passed::Pass } else { Passed::Fail };
    let words = ("none", rc::completions_in_words(&early));
    f.prove(RETRY, &rc::evidence(&early), &about, words, result);
}

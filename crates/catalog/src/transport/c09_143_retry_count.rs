//! `c09-143-retry-count`: a request without an answer is retried retry_cnt times, and then fails.
//!
//! SENDs that nobody answers, with retry_cnt 0, 1 and 7: 1 + retry_cnt transmissions, then IBV_WC_RETRY_EXC_ERR, once,
//! and a queue pair in error that sends nothing more. 7 is seven: only rnr_retry has a value without end. On a fourth
//! connection the first SEND is acknowledged after its only retry; the second may then be retried once again.
//! Where fewer transmissions came than must, it is tried again on new connections.
//! Reading: nothing is unclear. False alarm: where a retry may have been lost, fewer are INCONCLUSIVE, unless the error
//! came before so many time-outs could be over, or the only retry is missing on three connections; a tester that takes
//! longer than T to acknowledge is INCONCLUSIVE too.

use core::time::Duration;

use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, Trace, Wait, WaitDone, WcStatus};
use verbatim_record::{FrameSeen, TRIES, duration_words};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Case, Requester, Seen};

const COUNT: &str = "C9-143";

const ACK: Label<Frames> = Label::new("ACK of the first request");
const ACK_AGAIN: Label<Frames> = Label::new("ACK of the first request, again");
const AFTER: Label<Wait> = Label::new("after the error completion");

/// retry_cnt of each connection, and whether a first request is acknowledged after its retry.
const CASES: [(u8, bool); 4] = [(0, false), (1, false), (7, false), (1, true)];

/// Retries, counted.
pub(super) static TEST: Test = Test {
    id: "c09-143-retry-count",
    aliases: &[],
    revision: 1,
    about: "A request without an answer is retried retry_cnt times, 7 included, for each request anew, and then fails.",
    reading: "Exactly 1 + retry_cnt transmissions, then one IBV_WC_RETRY_EXC_ERR and the queue pair in error; an acknowledged \
        request loads the counter again.",
    statements: &[COUNT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "timeout_code",
        about: "local ACK timeout of the DUT's queue pair: T = 4.096 us times 2 to the power of it",
        range: (1, 20),
        simulated: 14,
        default: 14,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let code = t.parameter("timeout_code") as u8;
    for (retry_cnt, reloads) in CASES {
        for _ in 0..TRIES {
            if connection(t, (retry_cnt, reloads), timeout(code, reloads))? {
                break;
            }
        }
    }
    Ok(())
}

/// The ACK timeout of a connection: room for a tester that is slow to acknowledge.
fn timeout(code: u8, reloads: bool) -> AckTimeout {
    AckTimeout(code + u8::from(reloads))
}

/// One connection. Whether as many transmissions of the last request came as must.
fn connection(t: &mut Tester<'_>, (retry_cnt, reloads): (u8, bool), timeout: AckTimeout) -> Step<bool> {
    let options = ChannelOptions {
        timeout,
        retry_cnt,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let silence = t.rc_silence(Duration::ZERO, timeout, retry_cnt);
    if reloads {
        let sent = dut.post(t, Ask::send(64))?;
        let retried = dut.see(t, sent.first, silence)? && dut.see(t, sent.first, silence)?;
        let ack = dut.answers(t, &sent);
        if retried {
            dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
        }
    }
    let sent = dut.post(t, Ask::send(64))?;
    t.next_completion(Side::Dut, dut.channel.qp, t.now().after(silence))?;
    t.wait_for(AFTER, silence)?;
    let mut came = 0;
    while dut.see(t, sent.first, Duration::ZERO)? {
        came += 1;
    }
    dut.close(t)?;
    Ok(came > u32::from(retry_cnt))
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let code = t
        .parameter("timeout_code")
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(0);
    let cases = rc::cases(t)?;
    for case in &cases {
        rc::sound_packets(f, &case.dialogue);
    }
    for (retry_cnt, reloads) in CASES {
        let timeout = timeout(code, reloads);
        let is_tried = |case: &&Case<'_>| {
            let attributes = &case.dialogue.attributes;
            attributes.retry_cnt == Some(retry_cnt.into()) && attributes.timeout == Some(timeout.0.into())
        };
        let tried: Vec<&Case<'_>> = cases.iter().filter(is_tried).collect();
        let counts = if t.begin.simulated { tried.first() } else { tried.last() };
        let Some(case) = counts else {
            return Err(Gap::Missing(AFTER.name));
        };
        let waited = case.waited(t, AFTER)?;
        let once = timeout.duration().unwrap_or_default();
        let _ = case.frames(t, ACK_AGAIN);
        // Of more retries one may be lost each time.
        let never = retry_cnt == 1 && tried.len() >= TRIES as usize;
        if !reloads {
            spent(t, f, case, 0, ((retry_cnt, once), never), waited);
        } else if is_acknowledged(t, f, case, case.frames(t, ACK).first().copied(), once) {
            spent(t, f, case, 1, ((retry_cnt, once), never), waited);
        }
    }
    Ok(())
}

/// The first request was retried, acknowledged in time, and completed: the second begins with a full counter.
fn is_acknowledged(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, ack: Option<&FrameSeen>, once: Duration) -> bool {
    let about = "the first request, acknowledged after its retry";
    let until = case.posted.get(1).map_or(case.end(), |next| next.command.place);
    let sent = case.sent(case.start(), until);
    let (Some(ack), Some(retry)) = (ack, sent.get(1)) else {
        let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
        let words = ("a retry", format!("{} transmissions", sent.len()));
        return f.prove(COUNT, &evidence, about, words, rc::alive(t, case.end(), false));
    };
    let evidence = [Evidence::from(retry.frame), ack.into()];
    let (_, took) = ack.at.since(retry.frame.at);
    let done = case.dialogue.completions_between(ack.place, until);
    let succeeded = done.iter().any(|done| done.status() == WcStatus::SUCCESS);
    if !succeeded && took >= once / 2 {
        let words = (
            "an ACK well within T".to_string(),
            format!("after {}", duration_words(took)),
        );
        return f.prove(COUNT, &evidence, about, words, Passed::Inconclusive);
    }
    let expected: [(u64, &[WcStatus]); 1] = [(1, &[WcStatus::SUCCESS])];
    // An ACK that was lost lets the request fail by right.
    let result = if succeeded || t.begin.simulated {
        Passed::Pass
    } else {
        Passed::Inconclusive
    };
    if result == Passed::Inconclusive {
        let words = (
            "wr_id 1 with IBV_WC_SUCCESS".to_string(),
            rc::completions_in_words(&done),
        );
        return f.prove(COUNT, &evidence, about, words, result);
    }
    case.completes(t, f, (COUNT, about), (ack.place, until), (&expected, false))
}

/// A request, by its place among those posted, was sent 1 + retry_cnt times and failed, and with it the queue pair; the
/// requests behind it were flushed. `never` says that the only retry did not come on three connections.
fn spent(
    t: &Trace,
    f: &mut Findings<'_>,
    case: &Case<'_>,
    number: usize,
    ((retry_cnt, once), never): ((u8, Duration), bool),
    waited: &WaitDone,
) {
    let Some(posted) = case.posted.get(number) else {
        return;
    };
    let about = format!("retry_cnt {retry_cnt}, {}", posted.in_words());
    let (after, until) = (posted.command.place, waited.place);
    let sent: Vec<Seen<'_>> = case.sent_with(posted.first, after, until);
    let done = case.dialogue.completions_between(after, until);
    // The first transmission may have been lost, so time runs from the posting; the error is told late, never early.
    let least = once * (u32::from(retry_cnt) + 1);
    let too_soon = done
        .first()
        .is_some_and(|done| t.begin.at_most(done.told.at.since(posted.command.asked).1) < least);
    let result = match sent.len().cmp(&(1 + usize::from(retry_cnt))) {
        core::cmp::Ordering::Equal => Passed::Pass,
        core::cmp::Ordering::Greater => Passed::Fail,
        core::cmp::Ordering::Less => rc::alive(t, until, too_soon || (never && sent.len() == 1)),
    };
    let mut evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
    evidence.extend(rc::evidence(&done));
    let words = ((1 + retry_cnt).to_string(), sent.len().to_string());
    let statement = if sent.is_empty() { rc::GENERATION } else { COUNT };
    f.prove(statement, &evidence, &format!("{about}: transmissions"), words, result);
    if let Some(done) = done.first() {
        let after = done.told.place;
        let mut evidence = case.sent(after, case.end());
        evidence.retain(|seen| t.begin.simulated || done.told.at.is_before(seen.frame.at));
        let result = if evidence.is_empty() {
            Passed::Pass
        } else {
            Passed::Fail
        };
        let seen = evidence
            .first()
            .map_or_else(|| "none".into(), |seen| seen.packet.to_string());
        let evidence: Vec<Evidence<'_>> = evidence.iter().map(|seen| seen.frame.into()).collect();
        f.prove(
            COUNT,
            &evidence,
            &format!("{about}: packets after the error"),
            ("none", seen),
            result,
        );
    }
    let failed: &[WcStatus] = &[WcStatus::RETRY_EXC_ERR];
    let flushed: &[WcStatus] = &[WcStatus::WR_FLUSH_ERR];
    let expected: Vec<(u64, &[WcStatus])> = (number..case.posted.len())
        .map(|at| (at as u64 + 1, if at == number { failed } else { flushed }))
        .collect();
    // The host was asked, and lost nothing; and no answer was ever sent.
    case.completes(t, f, (COUNT, &about), (after, until), (&expected, true));
    case.is_in_error(f, COUNT, &about);
}

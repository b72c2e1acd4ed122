//! Judges a record: turns its entries into a verdict.

use verbatim_oracle as oracle;
use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{
    Cause, Check, Entry, Findings, Gap, Outcome, Passed, Side, StopReason, TRIES, Trace, TraceError, VerbsDone, Verdict,
};
use verbatim_tester::{ANOTHER_KEY, Need, Test};
use verbatim_wire::Status;

use crate::chapters::TESTS;
use crate::kernel_reports::with_kernel_reports;
use crate::transport;

/// The reason why a record has no verdict.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JudgeError {
    /// The record refers to an item that it does not define.
    #[error("the record cannot be judged: {0}")]
    Trace(#[from] TraceError),
    /// The catalogue has no test with this id.
    #[error("this catalogue has no test {0}: judge the record with the version that made it")]
    UnknownTest(String),
    /// The catalogue has another revision of the test.
    #[error(
        "the record is of revision {recorded} of {test}, this catalogue has revision {ours}: judge it with the version that made it"
    )]
    Revision {
        /// The test's id.
        test: String,
        /// The record's revision.
        recorded: u32,
        /// The catalogue's revision.
        ours: u32,
    },
}

/// Judges a test from its record alone.
///
/// # Errors
/// Returns an error if the record refers to an undefined item, or if the catalogue lacks the record's test or has
/// another revision.
pub fn judge(entries: Vec<Entry>) -> Result<Verdict, JudgeError> {
    judge_trace(&Trace::new(entries)?)
}

/// Judges a test from its trace.
///
/// # Errors
/// Returns the errors of [`judge`].
pub fn judge_trace(trace: &Trace) -> Result<Verdict, JudgeError> {
    let test = TESTS
        .iter()
        .find(|test| test.id == trace.begin.test)
        .ok_or_else(|| JudgeError::UnknownTest(trace.begin.test.clone()))?;
    if test.revision != trace.begin.revision {
        return Err(JudgeError::Revision {
            test: test.id.into(),
            recorded: trace.begin.revision,
            ours: test.revision,
        });
    }
    trace.judged_anew();
    Ok(of_trace(test, trace))
}

/// Outcome, cause and reason of a verdict.
pub(crate) type Came = (Outcome, Option<Cause>, String);

fn of_trace(test: &Test, trace: &Trace) -> Verdict {
    let mut findings = Findings::new(trace);
    let came = match before_judging(trace) {
        Some(came) => before_its_procedure(test, trace, &mut findings)
            .or_else(|| before_what_it_lacks(test, trace, &mut findings))
            .unwrap_or(came),
        None => judged(test, trace, &mut findings),
    };
    // A crash of the DUT's kernel explains its silence.
    let came = match trace.kernel_reports.iter().any(|report| report.side == Side::Dut) {
        true => came,
        false => with_reset(trace, came, &mut findings),
    };
    let came = while_restoring(test, trace, came, &mut findings);
    let came = with_kernel_reports(trace, came, &mut findings);
    if !trace.kernel_reports.is_empty() {
        transport::tell_if_broken(trace, &mut findings);
    }
    let (outcome, cause, reason) = with_restore(trace, came);
    let Findings {
        checks, observations, ..
    } = findings;
    let (passed, findings) = checks.into_iter().partition(|check| check.result() == Passed::Pass);
    Verdict {
        test: test.id.into(),
        aliases: strings(test.aliases),
        outcome: outcome.into(),
        cause: cause.unwrap_or_default().into(),
        reason,
        statements: strings(test.statements),
        findings,
        passed,
        observations,
        restored: trace
            .restored
            .iter()
            .filter(|r| !r.is_complete() || !r.not_restorable.is_empty())
            .cloned()
            .collect(),
    }
}

fn strings(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

/// Judges the responses of a device that failed the sanity check. Returns FAIL if a response violates a management
/// rule.
fn before_its_procedure(test: &Test, trace: &Trace, findings: &mut Findings<'_>) -> Option<Came> {
    let reason = trace.stopped.as_ref()?.reason;
    if reason != StopReason::NotSane || !test.is_of_management() {
        return None;
    }
    oracle::management::judge(is_alone(test), trace, findings);
    oracle::causes::link(&mut findings.checks);
    let fails = findings.checks.iter().any(|check| check.result() == Passed::Fail);
    fails.then(|| (Outcome::Fail, Some(Cause::Dut), first(findings, Passed::Fail)))
}

/// Judges a test that stopped because the device lacks a feature, or its host refused a command. Returns FAIL if
/// the device violated a rule before the stop. Only the oracle's rules apply, because they need only the packets
/// sent so far. The test's own judge would expect the complete procedure.
fn before_what_it_lacks<'a>(test: &Test, trace: &'a Trace, findings: &mut Findings<'a>) -> Option<Came> {
    let stopped = trace.stopped.as_ref()?;
    if stopped.reason != StopReason::NotOffered && !is_refused_by_host(trace) {
        return None;
    }
    let mut so_far = Findings::new(trace);
    oracle::judge(trace, &mut so_far, test.statements);
    oracle::causes::link(&mut so_far.checks);
    let fails = so_far.checks.iter().any(|check| check.result() == Passed::Fail);
    fails.then(|| {
        let reason = first(&so_far, Passed::Fail);
        *findings = so_far;
        (Outcome::Fail, Some(Cause::Dut), reason)
    })
}

/// Returns whether the procedure ended at a command that a host refused. A refusal by a driver or an agent is not a
/// fault of the device.
fn is_refused_by_host(trace: &Trace) -> bool {
    let is_end = |done: &&VerbsDone| matches!(done.command, Command::DestroyAll(_));
    let last = trace.timeline.commands.iter().rev().find(|done| !is_end(done));
    let refused = last.is_some_and(|last| matches!(last.answer, Some((.., Reply::Refused(_), _))));
    refused
        && trace
            .stopped
            .as_ref()
            .is_some_and(|stopped| stopped.reason == StopReason::Refused)
}

/// Returns the verdict if the early end of the procedure decides it without any check.
fn before_judging(trace: &Trace) -> Option<Came> {
    let stopped = trace.stopped.as_ref()?;
    let (outcome, cause) = match stopped.reason {
        StopReason::Refused if !is_refused_by_host(trace) => return None,
        StopReason::NoAnswer => return None,
        StopReason::NotOffered | StopReason::Refused => (Outcome::NotApplicable, who_lacks(&stopped.text)),
        StopReason::Skipped => (Outcome::Skipped, Cause::Rig),
        StopReason::NotWanted => (Outcome::Skipped, Cause::Operator),
        StopReason::Cancelled | StopReason::LeaseEnded => (Outcome::Error, Cause::Operator),
        StopReason::RigGone => (Outcome::Error, Cause::Rig),
        StopReason::Disturbed => (Outcome::Inconclusive, Cause::Rig),
        StopReason::Stalled => (Outcome::Inconclusive, Cause::Tester),
        StopReason::Panicked | StopReason::Tester => (Outcome::Error, Cause::Tester),
        // A device may conform although its M_Key differs from the rig file's key, so the cause is the rig.
        StopReason::NotSane if stopped.text.contains(ANOTHER_KEY) => (Outcome::Error, Cause::Rig),
        StopReason::NotSane if trace.exchanges.iter().any(|exchange| exchange.answer().is_some()) => {
            (Outcome::Inconclusive, Cause::Rig)
        }
        StopReason::NotSane => (Outcome::Error, Cause::Rig),
    };
    Some((outcome, Some(cause), stopped.text.clone()))
}

/// Returns the side that lacks a feature. The record names the side only in the tester's text.
fn who_lacks(text: &str) -> Cause {
    if text.contains("the DUT's device") {
        Cause::Dut
    } else {
        Cause::Rig
    }
}

fn judged(test: &Test, trace: &Trace, findings: &mut Findings<'_>) -> Came {
    trace.not_judged(transport::rc::ask::AT_ONCE);
    let gap = (test.judge)(trace, findings).err().map(|gap| why_missing(trace, gap));
    // The rules of the oracle apply to all packets of the device, in every test.
    oracle::judge(trace, findings, test.statements);
    if trace.kernel_reports.is_empty() {
        transport::tell_if_broken(trace, findings);
    }
    if test.is_of_management() {
        oracle::management::judge(is_alone(test), trace, findings);
    }
    for exchange in &trace.exchanges {
        let answers = exchange
            .arrivals
            .iter()
            .filter(|arrived| arrived.how == verbatim_record::Match::Again)
            .count();
        if answers > 0 {
            let more = if answers == 1 { "answer" } else { "answers" };
            findings.observe(format!("{answers} further {more} to one request"), &[exchange]);
        }
    }
    crate::kernel::observe(trace, findings);
    // If a host refused a command, the procedure may have left out the step whose label the judge misses.
    let refused = oracle::first_refused(trace).filter(|_| matches!(gap, Some(Gap::Missing(_))));
    let gap = gap.filter(|_| refused.is_none());
    findings.not_applicable = findings.not_applicable.take().or(refused);
    let by_gap = gap.map(|gap| of_gap(test, trace, &gap, findings));
    oracle::causes::link(&mut findings.checks);
    let worst = findings.checks.iter().map(|check| check.result()).max();
    let by_checks = match (worst, &findings.not_applicable) {
        (Some(Passed::Fail), _) if may_be_another_s(test, trace) => (
            Outcome::Inconclusive,
            Some(Cause::Rig),
            format!(
                "{}; another subnet manager may have written in between: run the test on a subnet without one",
                first(findings, Passed::Fail)
            ),
        ),
        (Some(Passed::Fail), _) => (Outcome::Fail, Some(Cause::Dut), first(findings, Passed::Fail)),
        (Some(Passed::Inconclusive), _) => (
            Outcome::Inconclusive,
            Some(Cause::Rig),
            first(findings, Passed::Inconclusive),
        ),
        (_, Some(why)) => (Outcome::NotApplicable, Some(Cause::Dut), why.clone()),
        (Some(Passed::Pass), None) => passed(trace),
        (None | Some(Passed::Unspecified), None) => (
            Outcome::Inconclusive,
            Some(Cause::Tester),
            "the record contains nothing to judge".into(),
        ),
    };
    let came = match by_gap {
        // A gap replaces a pass or a less severe outcome, but never hides a failed check.
        Some(came) if came.0 > by_checks.0 || worst.is_none_or(|worst| worst == Passed::Pass) => came,
        _ => by_checks,
    };
    unless_by_habit(test, trace, came)
}

/// Turns an inconclusive outcome into NOT_APPLICABLE if the device's retry timer has a habit: a violation for which
/// another test fails the device.
fn unless_by_habit(test: &Test, trace: &Trace, came: Came) -> Came {
    if came.0 != Outcome::Inconclusive || trace.timeline.frames.is_empty() {
        return came;
    }
    match oracle::habits(trace).foreign_to(test.id) {
        Some(habit) => (
            Outcome::NotApplicable,
            Some(Cause::Dut),
            format!("{}; without it: {}", habit.words(), came.2),
        ),
        None => came,
    }
}

/// Returns whether another subnet manager may have changed a value between a Set and the next read. A subnet manager
/// may sweep at any time, and these tests leave the fields unprotected by an M_Key.
fn may_be_another_s(test: &Test, trace: &Trace) -> bool {
    let is_open = test.id.starts_with("c14-024-") || test.id.starts_with("c14-015-");
    let sets = |exchange: &verbatim_record::Exchange| {
        exchange.request.is_smp() && exchange.request.method() == verbatim_wire::Method::SET
    };
    trace.begin.shared_subnet && !trace.begin.simulated && is_open && trace.exchanges.iter().any(sets)
}

/// Attributes a missing exchange to the exchange at which the procedure ended early, or to the reason of that end.
fn why_missing(trace: &Trace, gap: Gap) -> Gap {
    match (&gap, &trace.stopped, trace.last_of_procedure()) {
        (Gap::Missing(_), Some(stopped), None) => Gap::Ended(stopped.text.clone()),
        (Gap::Missing(_), Some(_), Some(last)) => match last.answer() {
            Some(answer) if answer.mad.status() != Status::OK => Gap::Refused(last.number, answer.mad.status()),
            _ => Gap::NoAnswer(last.number),
        },
        _ => gap,
    }
}

/// Returns PASS if the procedure reached its end and the judge used every label, otherwise ERROR.
fn passed(trace: &Trace) -> Came {
    let unjudged = trace.unjudged();
    if !unjudged.is_empty() {
        let reason = format!(
            "a defect of the test: its judge did not use {} (mark a label without evidence with `t.not_judged`)",
            unjudged.join(", ")
        );
        return (Outcome::Error, Some(Cause::Tester), reason);
    }
    match &trace.stopped {
        Some(stopped) => {
            let reason = format!(
                "the procedure ended early ({}), and the judge has no verdict for that end",
                stopped.text
            );
            (Outcome::Error, Some(Cause::Tester), reason)
        }
        None => (Outcome::Pass, None, String::new()),
    }
}

fn first(findings: &Findings<'_>, result: Passed) -> String {
    let all: Vec<&Check> = findings
        .checks
        .iter()
        .filter(|check| check.result() == result && check.follows_from.is_none())
        .collect();
    let more = if all.len() > 1 {
        format!(" (and {} more)", all.len() - 1)
    } else {
        String::new()
    };
    all.first().map_or_else(String::new, |check| format!("{check}{more}"))
}

/// Returns the verdict for the gap in the record that stopped the judge.
fn of_gap(test: &Test, trace: &Trace, gap: &Gap, findings: &mut Findings<'_>) -> Came {
    let inconclusive = |cause, reason| (Outcome::Inconclusive, Some(cause), reason);
    match gap {
        Gap::Missing(label) => inconclusive(
            Cause::Tester,
            format!(
                "the test ended before its step \"{label}\": a packet, a response or a completion before it did not \
                 come, or the record is cut"
            ),
        ),
        Gap::Repeated(label) => (
            Outcome::Error,
            Some(Cause::Tester),
            format!("a defect of the test: \"{label}\" was used more than once"),
        ),
        Gap::Ended(why) => inconclusive(Cause::Rig, why.clone()),
        Gap::Unmet(label, what) => inconclusive(Cause::Rig, format!("\"{label}\": the record does not show {what}")),
        Gap::Undecided(number) => inconclusive(
            Cause::Rig,
            format!("exchange #{number} has no answer, and the tester did not wait long enough for one"),
        ),
        Gap::NoLid(number) => (
            Outcome::NotApplicable,
            Some(Cause::Rig),
            format!(
                "exchange #{number}: the port has no LID or no subnet manager: it may refuse a Set, and MADs of QP1 do not \
                 reach it; let a subnet manager bring it up, or write assign_lid = 5 into the rig file"
            ),
        ),
        Gap::Refused(number, Status::BUSY) => inconclusive(
            Cause::Rig,
            format!("exchange #{number}: the device answered every attempt with status BUSY"),
        ),
        Gap::NoAnswer(number) if nearly(trace, *number).is_none() && !trace.alive_after(*number) => (
            Outcome::Error,
            Some(Cause::Rig),
            format!(
                "the device stopped answering at exchange #{number} and answered nothing after it: check that the \
                 device still runs"
            ),
        ),
        Gap::NoAnswer(number) if nearly(trace, *number).is_none() && !asked_again(trace, *number) => inconclusive(
            Cause::Rig,
            format!("exchange #{number} was sent once and got no answer: the packet may have been lost"),
        ),
        Gap::NoAnswer(number) | Gap::Refused(number, _) => {
            let exchange = &trace.exchanges[*number as usize - 1];
            let seen = match gap {
                Gap::Refused(_, status) => format!("status {status}"),
                _ if nearly(trace, *number).is_some() => nearly(trace, *number).unwrap_or_default(),
                _ if exchange.answer().is_some() => "an answer after the deadline of the rule of silence".into(),
                _ => "no answer, though the device answered later requests".into(),
            };
            findings
                .claim(test.statements[0], "answer")
                .by(exchange)
                .saw(seen)
                .comes_to("an answer with status 0x0000 (success)", Passed::Fail);
            (Outcome::Fail, Some(Cause::Dut), first(findings, Passed::Fail))
        }
    }
}

/// Describes a MAD that differs from an exchange's expected response in one header field only.
fn nearly(trace: &Trace, number: u32) -> Option<String> {
    let exchange = &trace.exchanges[number as usize - 1];
    if let Some((arrived, field)) = exchange.nearly_answered() {
        return Some(format!("an answer but for its {field}: {}", arrived.mad));
    }
    // In real time, a MAD with another TransactionID may be a late response to an earlier test.
    let stray = trace.answered_as_another(exchange).filter(|_| trace.begin.simulated)?;
    let id = stray.mad.transaction_id();
    Some(format!("an answer but for its TransactionID {id:#018x}: {}", stray.mad))
}

/// Returns whether packet loss is ruled out as the cause of a missing response: the tester retried, or time is
/// simulated.
fn asked_again(trace: &Trace, number: u32) -> bool {
    trace.begin.simulated || trace.silences(&trace.exchanges[number as usize - 1]) >= TRIES as usize
}

/// Adds the results of reset commands to the verdict. The device fails if it responded during the test, stopped
/// responding, and responded again after a reset.
fn with_reset(trace: &Trace, came: Came, findings: &mut Findings<'_>) -> Came {
    let mut came = came;
    for reset in &trace.resets {
        let command = reset.command.join(" ");
        let took = verbatim_record::duration_words(reset.took);
        let back = if !reset.after.is_empty() {
            format!("no answer after the reset: {}", reset.after)
        } else if reset.succeeded {
            "it answers again".into()
        } else {
            "it answers again all the same".into()
        };
        let told = format!("`{command}` ({}, after {took})", reset.ended);
        if reset.silent.is_empty() {
            if !reset.succeeded || !reset.after.is_empty() {
                findings.observe(format!("the reset after the test failed: {told}; {back}"), &[]);
            }
            continue;
        }
        let answered = trace
            .exchanges
            .iter()
            .rev()
            .find(|exchange| exchange.answer().is_some());
        let is_back = reset.succeeded && reset.after.is_empty();
        // If no MAD was answered, no statement requires a response, and the reset may have repaired the path to the
        // device instead.
        let result = match answered {
            Some(_) if is_back => Passed::Fail,
            _ => Passed::Inconclusive,
        };
        let seen = format!("{}; reset by {told}: {back}", reset.silent);
        let claim = findings.claim(ANSWERS, STOPPED_ANSWERING);
        let claim = match answered {
            Some(last) => claim.by(last),
            None => claim,
        };
        claim.saw(seen).comes_to("answers after the test, as before it", result);
        let gravest = match result {
            Passed::Fail => Outcome::Fail,
            _ => Outcome::Inconclusive,
        };
        // A reset of the device removed the problem, so the device caused it.
        let is_explained = came.0 == Outcome::Error && came.1 == Some(Cause::Rig) && gravest == Outcome::Fail;
        if gravest > came.0 || is_explained {
            let last = findings.checks.last().map(ToString::to_string).unwrap_or_default();
            let before = match came.2.as_str() {
                "" => String::new(),
                reason => format!(" (before that: {} {reason})", came.0),
            };
            let cause = if gravest == Outcome::Fail {
                Cause::Dut
            } else {
                Cause::Rig
            };
            came = (gravest, Some(cause), format!("{last}{before}"));
        }
    }
    came
}

/// The statement that a port responds to requests.
const ANSWERS: &str = "C13-14";
/// The text of the check on a device that needed a reset.
const STOPPED_ANSWERING: &str = "device stopped answering";

/// Judges a device that could not be restored. Each Set of the restore with a successful response must have taken
/// effect.
fn while_restoring(test: &Test, trace: &Trace, came: Came, findings: &mut Findings<'_>) -> Came {
    let is_restored = trace.restored.iter().all(verbatim_record::Restored::is_complete);
    if came.0 == Outcome::Fail || test.is_of_management() || is_restored {
        return came;
    }
    let before = findings.checks.len();
    oracle::management::judge_restore(is_alone(test), trace, findings);
    let mut found = findings.checks[before..].iter();
    match found.find(|check| check.result() == Passed::Fail) {
        Some(broken) => (Outcome::Fail, Some(Cause::Dut), broken.to_string()),
        None => came,
    }
}

/// Returns whether the test requires that the tester is the only subnet manager.
fn is_alone(test: &Test) -> bool {
    test.needs.contains(&Need::OwnSubnet)
}

/// Turns any outcome except FAIL into ERROR if the device could not be restored, because the rig has changed. A FAIL
/// stays, and is often the reason for the incomplete restore.
fn with_restore(trace: &Trace, came: Came) -> Came {
    let left: Vec<String> = trace
        .restored
        .iter()
        .filter(|restored| !restored.is_complete())
        .map(|restored| {
            let what = if restored.failure.is_empty() {
                restored.left.join("; ")
            } else {
                restored.failure.clone()
            };
            format!("{} not restored: {what}", restored.area)
        })
        .collect();
    if left.is_empty() {
        return came;
    }
    if came.0 == Outcome::Fail {
        return (came.0, came.1, format!("{}; and {}", came.2, left.join("; ")));
    }
    let before = if came.2.is_empty() {
        String::new()
    } else {
        format!(" (before that: {} {})", came.0, came.2)
    };
    (Outcome::Error, Some(Cause::Rig), format!("{}{before}", left.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_feature_is_attributed_to_dut_or_rig() {
        for (text, cause) in [
            ("the DUT's device x has no READ, as its agent says", Cause::Dut),
            (
                "the DUT's device x executes no FETCH ADD of the other side, as its agent says",
                Cause::Dut,
            ),
            (
                "the messages need a path MTU of 1024 bytes, and the nearest that the DUT's device has is 256, as its agent says",
                Cause::Dut,
            ),
            (
                "the host of the DUT's device makes no datagram queue pairs: no UD",
                Cause::Dut,
            ),
            ("the tester's device x has no READ, as its agent says", Cause::Rig),
            ("the rig does not offer packets of its own making", Cause::Rig),
        ] {
            assert_eq!(who_lacks(text), cause, "{text}");
        }
    }
}

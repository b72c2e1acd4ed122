//! `c09-requests-in-flight`: no more READs and atomics in flight than max_rd_atomic, and a fence waits for them.
//!
//! With max_rd_atomic 2 the DUT posts five READs and atomics, and nobody answers: two at most may be seen. As they are
//! answered the others come. On another connection a fenced SEND follows a READ: it must not be seen before the READ is
//! answered, and must come then.
//! Reading: fewer in flight than allowed conforms. False alarm: none known; what does not come after an answer is
//! INCONCLUSIVE on hardware, where a packet may be lost.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace, Wait, WcStatus};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Case, RESULTS, Requester};

const COMPLETION: &str = "C9-60";

const UNANSWERED: Label<Wait> = Label::new("unanswered");
const ANSWER: Label<Frames> = Label::new("answer");
const ANSWER_AGAIN: Label<Frames> = Label::new("answer, again");

/// READs and atomics that may be in flight.
const LIMIT: usize = 2;
/// More READs than the limit: a device without atomics is tried too.
const OPERATIONS: [pb::Operation; 5] = [
    pb::Operation::Read,
    pb::Operation::Read,
    pb::Operation::FetchAdd,
    pb::Operation::Read,
    pb::Operation::CompareSwap,
];

/// Limits on what is in flight.
pub(super) static TEST: Test = Test {
    id: "c09-requests-in-flight",
    aliases: &[],
    revision: 1,
    about: "At most max_rd_atomic READs and atomics are in flight, and a fenced request waits for those before it.",
    reading: "With max_rd_atomic 2 no third READ or atomic in two seconds, and it comes when the first is answered; no fenced \
        SEND in two seconds, and it comes when the READ is answered.",
    statements: &[rc::GENERATION, COMPLETION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let limited = ChannelOptions {
        max_rd_atomic: LIMIT as u8,
        ..ChannelOptions::default()
    };
    let places = [0, 256, 512, 768, 1024].map(|at| RESULTS + at);
    let asks = OPERATIONS
        .iter()
        .zip(places)
        .map(|(operation, at)| Ask::new(*operation, 8).at(at));
    unanswered(t, &limited, &asks.collect::<Vec<_>>())?;
    let fenced = Ask {
        fence: true,
        ..Ask::send(64)
    };
    unanswered(
        t,
        &ChannelOptions::default(),
        &[Ask::new(pb::Operation::Read, 64), fenced],
    )
}

/// Posts all, waits, then answers one after the other.
fn unanswered(t: &mut Tester<'_>, options: &ChannelOptions, asks: &[Ask]) -> Step {
    let mut dut = Requester::open(t, options)?;
    let mut sent = Vec::new();
    for ask in asks {
        sent.extend(dut.try_post(t, *ask)?);
    }
    t.wait_for(UNANSWERED, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    let mut came = 0;
    for sent in &sent {
        // What was seen during the wait is still to be taken.
        if !dut.see_all(t, sent)? {
            break;
        }
        let answers = dut.answers(t, sent);
        if !dut.answer(t, (ANSWER, ANSWER_AGAIN), &answers, 1)? {
            break;
        }
        came += 1;
    }
    t.note(format!("{came} of {} requests were answered", sent.len()));
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for (at, case) in rc::cases(t)?.iter().enumerate() {
        rc::sound_packets(f, &case.dialogue);
        case.tell_refused(f);
        let waited = case.waited(t, UNANSWERED)?;
        case.packets_are_those_posted(f, rc::GENERATION, "request", (case.start(), case.end()));
        let sent = case.sent(case.start(), waited.place);
        let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
        let (about, most) = if at == 0 {
            (format!("max_rd_atomic {LIMIT}: READs and atomics in flight"), LIMIT)
        } else {
            ("a READ and a fenced SEND: in flight".to_string(), 1)
        };
        let result = if sent.len() > most {
            Passed::Fail
        } else if sent.is_empty() {
            rc::alive(t, case.end(), false)
        } else if case.posted.len() <= most {
            // Nothing was held back that could have come too soon.
            Passed::Inconclusive
        } else {
            Passed::Pass
        };
        let words = (
            format!("1 to {most}"),
            format!("{}: {}", sent.len(), rc::in_words(&sent)),
        );
        f.prove(rc::GENERATION, &evidence, &about, words, result);
        answered(t, f, case);
    }
    Ok(())
}

/// Each request came once, the later ones as those before were answered, and all completed in order.
fn answered(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) {
    let (answers, again) = (case.frames(t, ANSWER), case.frames(t, ANSWER_AGAIN));
    for posted in &case.posted {
        let sent = case.sent_with(posted.first, case.start(), case.end());
        let result = match sent.len() {
            1 => Passed::Pass,
            0 => rc::alive(t, case.end(), false),
            _ => Passed::Fail,
        };
        let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
        let about = format!("{}: times that it was sent", posted.in_words());
        f.prove(rc::GENERATION, &evidence, &about, ("1", sent.len().to_string()), result);
    }
    let expected: Vec<(u64, &[WcStatus])> = (1..=answers.len() as u64)
        .map(|wr_id| (wr_id, &[WcStatus::SUCCESS] as &[WcStatus]))
        .collect();
    let window = (case.start(), case.end());
    let asked_again = rc::asked_again(&again, 1);
    case.completes(
        t,
        f,
        (COMPLETION, "all that was answered"),
        window,
        (&expected, asked_again),
    );
}

//! `c09-requests-in-flight`: at most max_rd_atomic READs and atomics are in flight, and a fenced request waits for all
//! earlier ones.
//!
//! With max_rd_atomic 2 the DUT posts five READs and atomics, and the peer does not answer: at most two may arrive. As
//! the peer answers them, the DUT sends the others. On another connection a fenced SEND follows a READ. The DUT must
//! not send the SEND before the peer answers the READ, and must send it then. With max_rd_atomic 1 the DUT retries the
//! first of three READs after a time-out, and the second must still wait. A device without READs uses atomics instead.
//! The test does not apply to a device with neither.
//!
//! Reading: a device that keeps fewer requests in flight than allowed conforms.
//!
//! False alarm: none known. A request that does not come after a response is INCONCLUSIVE on hardware, where packets
//! may be lost.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, RESULTS, Requester, offers};

const COMPLETION: &str = "C9-60";

const UNANSWERED: Label<Wait> = Label::new("unanswered");
const ANSWER: Label<Frames> = Label::new("answer");
const ANSWER_AGAIN: Label<Frames> = Label::new("answer, again");

/// Number of READs and atomics that may be in flight.
const LIMIT: usize = 2;
/// More READs than the limit, so that a device without atomics is tested too.
const OPERATIONS: [pb::Operation; 5] = [
    pb::Operation::Read,
    pb::Operation::Read,
    pb::Operation::FetchAdd,
    pb::Operation::Read,
    pb::Operation::CompareSwap,
];

pub(super) static TEST: Test = Test {
    id: "c09-requests-in-flight",
    aliases: &[],
    revision: 4,
    about: "At most max_rd_atomic READs and atomics are in flight, and a fenced request waits for those before it.",
    reading: "With max_rd_atomic 2, the DUT sends no third READ or atomic for two seconds, and sends it when the \
        first is answered. A fenced SEND, with or without data, waits two seconds while an earlier READ or atomic is \
        unanswered. The DUT sends it after the response.",
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
    )?;
    let atomic = [pb::Operation::FetchAdd, pb::Operation::CompareSwap]
        .into_iter()
        .find(|operation| t.offers(*operation));
    if let Some(atomic) = atomic {
        unanswered(t, &ChannelOptions::default(), &[Ask::new(atomic, 8), fenced])?;
    }
    again(t)?;
    // A fenced request without data waits, too.
    let empty = Ask { length: 0, ..fenced };
    unanswered(
        t,
        &ChannelOptions::default(),
        &[Ask::new(pb::Operation::Read, 64), empty],
    )
}

/// Leaves three READs unanswered until the DUT retries the first after a time-out. The second READ must still wait.
fn again(t: &mut Tester<'_>) -> Step {
    let Some(operation) = offered(t, pb::Operation::Read) else {
        return Ok(());
    };
    let timeout = t.nearest_timeout(AckTimeout(16));
    let options = ChannelOptions {
        max_rd_atomic: 1,
        timeout,
        ..ChannelOptions::default()
    };
    let mut dut = Requester::open(t, &options)?;
    let patience = t.rc_silence(Duration::ZERO, timeout, 1);
    let mut sent = Vec::new();
    for at in 0..3 {
        sent.extend(dut.try_post(t, Ask::new(operation, 8).at(RESULTS + 256 * at))?);
    }
    let Some(first) = sent.first().map(|sent| sent.first) else {
        return dut.close(t);
    };
    if dut.see(t, first, patience)? && dut.see(t, first, patience)? {
        // If the DUT sends a request that must still wait, the request arrives during this pause.
        t.pause(timeout.duration().unwrap_or_default() / 4)?;
        for sent in &sent {
            let answers = dut.answers(t, sent);
            dut.answer(t, (ANSWER, ANSWER_AGAIN), &answers, 1)?;
            t.pause(timeout.duration().unwrap_or_default() / 8)?;
        }
    }
    dut.close(t)
}

/// Returns the operation if the device has it. Instead of a missing READ, returns an atomic that the device has.
fn offered(t: &Tester<'_>, operation: pb::Operation) -> Option<pb::Operation> {
    let atomics = [pb::Operation::FetchAdd, pb::Operation::CompareSwap];
    let others = atomics.into_iter().filter(|_| operation == pb::Operation::Read);
    [operation].into_iter().chain(others).find(|one| t.offers(*one))
}

/// Has the DUT post all requests, waits, and then answers one request after the other.
fn unanswered(t: &mut Tester<'_>, options: &ChannelOptions, asks: &[Ask]) -> Step {
    let mut dut = Requester::open(t, options)?;
    if offered(t, pb::Operation::Read).is_none() {
        return Err(offers::nothing_left("READs or atomics"));
    }
    let mut sent = Vec::new();
    for ask in asks {
        let operation = if ask.operation == pb::Operation::Send {
            Some(ask.operation)
        } else {
            offered(t, ask.operation)
        };
        if let Some(operation) = operation {
            // An atomic has 8 bytes.
            let length = if operation == ask.operation { ask.length } else { 8 };
            let ask = Ask {
                operation,
                length,
                ..*ask
            };
            sent.extend(dut.try_post(t, ask)?);
        }
    }
    t.wait_for(UNANSWERED, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    let mut came = 0;
    for sent in &sent {
        // Packets that came during the wait are still in the queue.
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
    f.exercises(&[Rule::InFlight, Rule::Fence, Rule::AnsweredCompletes]);
    rc::came_on_each(t, &[ANSWER])
}

//! `c09-nak-implied`: an answer behind an RDMA READ or an atomic that has no response makes that one come again.
//!
//! A READ, or a FetchAdd, and a request behind it are outstanding, on a connection for each way to answer the second: a SEND is
//! acknowledged, put off, asked for again or refused for good, a READ and a FetchAdd have their response. The first has none: it was lost. The DUT
//! completes neither, and asks again. Then the response and the answer come, and both complete in order; unless it was refused, all
//! of it comes a second time on that connection.
//! Reading: whether the second completes by its first answer, once the response is there, or wants another, is left open; so is,
//! of a refusal, when the first comes again: that it does not complete with success, nor with the error of the other, is not.
//! A DUT that has only one request outstanding conforms, and the rest is INCONCLUSIVE. False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode, RnrTimer};

use crate::transport::rc::{self, Ask, RESULTS, Requester, Sent};

const BEHIND: Label<Frames> = Label::new("answer behind the missing response");
const BEHIND_AGAIN: Label<Frames> = Label::new("answer behind the missing response, again");
const ALL: Label<Frames> = Label::new("response and answer");
const ALL_AGAIN: Label<Frames> = Label::new("response and answer, again");

/// What comes behind the missing response.
#[derive(Clone, Copy)]
enum Behind {
    /// What answers a request of this kind.
    Answer(Ask),
    /// The receive of a SEND is missing.
    Rnr,
    /// A SEND is asked for again.
    Sequence,
    /// A SEND is refused for good.
    Refusal,
}

const EACH: [Behind; 6] = [
    Behind::Answer(Ask::send(64)),
    Behind::Answer(Ask::new(pb::Operation::Read, 64).at(RESULTS + 64)),
    Behind::Answer(Ask::new(pb::Operation::FetchAdd, 8).at(RESULTS + 64)),
    Behind::Rnr,
    Behind::Sequence,
    Behind::Refusal,
];
/// How often in a row on a connection: what was done about the first says nothing of the next.
const TIMES: usize = 2;

/// Implied NAKs.
pub(super) static TEST: Test = Test {
    id: "c09-nak-implied",
    aliases: &[],
    revision: 3,
    about: "An answer behind an RDMA READ or atomic without a response makes that one come again, and completes nothing.",
    reading: "No completion before the response; behind an ACK or a response the READ or atomic is sent again; after response and \
        answer both complete, in order.",
    statements: &[rc::NAKS, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for first in [Ask::new(pb::Operation::Read, 64), Ask::new(pb::Operation::FetchAdd, 8)] {
        for behind in EACH {
            let mut dut = Requester::open(t, &ChannelOptions::default())?;
            let second = match behind {
                Behind::Answer(second) => second,
                Behind::Rnr | Behind::Sequence | Behind::Refusal => Ask::send(64),
            };
            if !can(&dut, &[first, second]) {
                dut.close(t)?;
                continue;
            }
            let times = if matches!(behind, Behind::Refusal) { 1 } else { TIMES };
            for _ in 0..times {
                if let Some(first) = dut.try_post(t, first)?
                    && let Some(second) = dut.try_post(t, second)?
                    && dut.see_all(t, &first)?
                    && dut.see_all(t, &second)?
                    && answer(t, &dut, behind, (&first, &second))?
                {
                    continue;
                }
                break;
            }
            dut.close(t)?;
        }
    }
    Ok(())
}

/// Whether the device has both outstanding at a time: where it has atomics and more than one READ or atomic in flight.
fn can(dut: &Requester, both: &[Ask; 2]) -> bool {
    let of = |is: fn(pb::Operation) -> bool| both.iter().filter(|ask| is(ask.operation)).count();
    let atomics = of(|operation| operation == pb::Operation::FetchAdd);
    let in_flight = of(|operation| operation != pb::Operation::Send);
    (dut.channel.atomics || atomics == 0) && in_flight <= usize::from(dut.channel.max_rd_atomic)
}

/// Answers the second request alone, and when the first has come again both. Whether both completed.
fn answer(t: &mut Tester<'_>, dut: &Requester, behind: Behind, (first, second): (&Sent, &Sent)) -> Step<bool> {
    let last = dut.answers(t, second);
    let frame = match behind {
        Behind::Answer(_) => last[0].clone(),
        Behind::Rnr => dut.rnr_nak(second.first, RnrTimer(1), first.msn),
        Behind::Sequence => dut.nak(second.first, NakCode::PSN_SEQUENCE_ERROR, first.msn),
        Behind::Refusal => dut.nak(second.first, NakCode::REMOTE_ACCESS, first.msn),
    };
    let patience = t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0);
    dut.provoke(t, (BEHIND, BEHIND_AGAIN), &frame, (first.first, patience))?;
    let came = dut.come(t)?;
    let all = [dut.answers(t, first), last].concat();
    dut.answer(t, (ALL, ALL_AGAIN), &all, 2 - came.min(2))
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::NakRetried]);
    rc::came_on_each(t, &[BEHIND])
}

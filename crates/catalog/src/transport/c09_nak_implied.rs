//! `c09-nak-implied`: a response to a later request makes the DUT repeat an earlier READ or atomic that got no
//! response.
//!
//! A READ or a FetchAdd is outstanding, and the DUT has sent a second request after it. On each connection the
//! peer answers the second request in a different manner. A SEND gets an ACK, an RNR NAK, a sequence NAK or a
//! refusing NAK; a READ or a FetchAdd gets its response. The peer sends no response to the first request. The DUT
//! completes neither request, and repeats the first. Then the peer answers both, and both complete in order.
//! Unless the second request was refused, the sequence runs twice on each connection.
//!
//! Reading: when the first request is answered, the second may complete by its earlier response, or need another
//! response. After a refusal the DUT may repeat the first at any time. It must not complete the first with success or
//! with the status of the second. A DUT with only one request outstanding conforms, and the rest is INCONCLUSIVE.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode, RnrTimer};

use crate::transport::rc::{self, Ask, RESULTS, Requester, Sent, offers};

const BEHIND: Label<Frames> = Label::new("answer behind the missing response");
const BEHIND_AGAIN: Label<Frames> = Label::new("answer behind the missing response, again");
const ALL: Label<Frames> = Label::new("response and answer");
const ALL_AGAIN: Label<Frames> = Label::new("response and answer, again");

/// Response to the second request.
#[derive(Clone, Copy)]
enum Behind {
    /// The regular response to a request of this kind.
    Answer(Ask),
    /// An RNR NAK of a SEND.
    Rnr,
    /// A sequence NAK of a SEND.
    Sequence,
    /// A NAK that refuses a SEND.
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
/// Number of rounds on a connection: a correct first round proves nothing about the next.
const TIMES: usize = 2;

pub(super) static TEST: Test = Test {
    id: "c09-nak-implied",
    aliases: &[],
    revision: 3,
    about: "An answer to a later request makes the DUT repeat an unanswered RDMA READ or atomic, and completes \
        nothing.",
    reading: "No completion before the response to the READ or atomic. After an ACK of or a response to the later \
        request, the DUT sends the READ or atomic again. When both have their answers, both complete, in order.",
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
            if dut.channel.max_rd_atomic == 0 {
                return Err(offers::nothing_left("READs and atomics"));
            }
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

/// Returns whether the device supports both requests, and may have both outstanding.
fn can(dut: &Requester, both: &[Ask; 2]) -> bool {
    let of = |is: fn(pb::Operation) -> bool| both.iter().filter(|ask| is(ask.operation)).count();
    let atomics = of(|operation| operation == pb::Operation::FetchAdd);
    let in_flight = of(|operation| operation != pb::Operation::Send);
    (dut.channel.atomics || atomics == 0) && in_flight <= usize::from(dut.channel.max_rd_atomic)
}

/// Answers only the second request, and then both when the DUT repeated the first. Returns whether both completed.
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

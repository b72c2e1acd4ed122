//! `c09-send-queue-error`: a datagram queue pair whose send queue failed still receives.
//!
//! The DUT posts a datagram in SQD, and its memory is deregistered, so that the send queue fails in RTS (SQE). If the
//! host reports SQE, it posts a receive, and the peer sends a datagram, three times at most. The datagram arrives
//! whole, and the receive completes. The test repeats these steps back in RTS.
//!
//! Reading: in SQE only the send queue is in error. If the send queue does not fail, the test is NOT_APPLICABLE.
//!
//! False alarm: none known. A datagram may be lost, so the peer sends it up to three times.

use verbatim_record::verbs::{Reply, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{Psn, QKey};

use super::datagrams::labels::STATE;
use super::datagrams::{self, DATAGRAMS, Datagrams, HEADER, datagram};
use crate::transport::rc;
use crate::transport::rc::ask;
use verbatim_oracle::Rule;

const RECEIVE: [Label<Verbs>; 2] = [
    Label::new("post a receive in SQE"),
    Label::new("post a receive in RTS again"),
];
const SENT: [Label<Frames>; 2] = [Label::new("datagram in SQE"), Label::new("datagram in RTS again")];
const MEMORY: [Label<Verbs>; 2] = [Label::new("memory, in SQE"), Label::new("memory, in RTS again")];

const Q_KEY: QKey = QKey(0x1357_9BDF);
const FIRST: Psn = Psn(0x65_4321);
/// Length of a datagram in bytes.
const LENGTH: u32 = 48;
/// Offsets of the receives.
const PLACES: [u32; 2] = [1024, 2048];

pub(super) static TEST: Test = Test {
    id: "c09-send-queue-error",
    aliases: &[],
    revision: 1,
    about: "A datagram queue pair whose send queue has failed still receives.",
    reading: "When the host reports SQE, a datagram arrives in its receive, and the receive completes with success.",
    statements: &[DATAGRAMS],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let of_dut = datagrams::open(t, &channel, Q_KEY, FIRST)?;
    if !datagrams::fail(t, &channel, &of_dut, Q_KEY)? {
        return Ok(());
    }
    receives(t, &channel, &of_dut, 0)?;
    datagrams::step(t, &of_dut, pb::QpState::Rts, pb::QpAttributes::default())?;
    receives(t, &channel, &of_dut, 1)
}

/// Posts a receive, and sends datagrams until the receive completes.
fn receives(t: &mut Tester<'_>, channel: &Channel, of_dut: &Datagrams, at: usize) -> Step {
    let ud = &of_dut.channel;
    ask::post_receive(t, ud, RECEIVE[at], 100 + at as u64, (PLACES[at], HEADER + LENGTH))?;
    let payload = ask::random_bytes(t, SENT[at].name, LENGTH);
    let frame = channel.frame(&datagram(channel, of_dut.qpn, Q_KEY, payload));
    datagrams::deliver(t, of_dut, SENT[at], &frame)?;
    ask::read_memory(t, channel, MEMORY[at], PLACES[1] + HEADER + LENGTH)?;
    ask::query(t, ud, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let is_in_error =
        |reply: Option<&Reply>| matches!(reply, Some(Reply::Status(status)) if status.state() == pb::QpState::Sqe);
    if !t
        .commands(STATE)
        .next()
        .is_some_and(|state| is_in_error(rc::reply(state)))
    {
        f.not_applicable = Some("the send queue did not fail, or the host does not report SQE".into());
        return Ok(());
    }
    datagrams::judged(t, f, &[Rule::DatagramReceived, Rule::DatagramStored])
}

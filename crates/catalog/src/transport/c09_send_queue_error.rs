//! `c09-send-queue-error`: a datagram queue pair whose send queue failed still receives.
//!
//! The DUT posts a datagram in SQD, and the host deregisters the datagram's memory, so that the send queue fails
//! in RTS (SQE). If the host reports SQE, it posts a receive, and the peer sends a datagram, three times at most.
//! The datagram arrives whole, and the receive completes. Back in RTS, the test posts another receive and sends
//! another datagram.
//!
//! Reading: in SQE only the send queue is in error. If the send queue does not fail, the test is NOT_APPLICABLE.
//!
//! False alarm: none known. A datagram may be lost, so the peer sends it up to three times.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, TRIES, Trace, Verbs, WcStatus};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{Medium, Packet, Psn, QKey};

use super::datagrams::labels::{CREATE, MODIFY, OPEN};
use super::datagrams::{self, Datagrams, HEADER, datagram};
use crate::transport::rc;
use crate::transport::rc::ask;

const DATAGRAMS: &str = "9.8.3 datagrams";

const OTHER: Label<Verbs> = Label::new("register memory that is taken away");
const POST: Label<Verbs> = Label::new("post a datagram in SQD");
const GONE: Label<Verbs> = Label::new("take its memory away");
const STATE: Label<Verbs> = Label::new("state of the queue pair");
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
    statements: &[DATAGRAMS, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let of_dut = datagrams::open(t, &channel, Q_KEY, FIRST)?;
    if !fails(t, &channel, &of_dut)? {
        return Ok(());
    }
    receives(t, &channel, &of_dut, 0)?;
    datagrams::step(t, &of_dut, pb::QpState::Rts, pb::QpAttributes::default())?;
    receives(t, &channel, &of_dut, 1)
}

/// Makes the send queue fail. Returns whether the host reports SQE.
fn fails(t: &mut Tester<'_>, channel: &Channel, of_dut: &Datagrams) -> Step<bool> {
    let none = pb::QpAttributes::default();
    let register = Command::RegisterMemory(pb::RegisterMemory {
        length: 4096,
        access: Some(pb::Access::default()),
    });
    let Reply::Memory(other) = t.verbs(OTHER, Side::Dut, register)? else {
        return Ok(false);
    };
    datagrams::step(t, of_dut, pb::QpState::Sqd, none.clone())?;
    let post = Command::PostSend(pb::PostSend {
        qp: of_dut.channel.qp,
        wr_id: 1,
        operation: pb::Operation::Send.into(),
        local: Some(pb::Slice {
            memory: other.memory,
            offset: 0,
            length: LENGTH,
        }),
        signaled: true,
        address: Some(of_dut.peer.clone()),
        remote_qpn: channel.own_qpn.0,
        remote_qkey: Q_KEY.0,
        ..pb::PostSend::default()
    });
    t.verbs(POST, Side::Dut, post)?;
    let gone = Command::DeregisterMemory(pb::DeregisterMemory { memory: other.memory });
    t.verbs(GONE, Side::Dut, gone)?;
    datagrams::step(t, of_dut, pb::QpState::Rts, none)?;
    // Take the completion of the datagram, so that the next completion belongs to a receive.
    t.next_completion(Side::Dut, of_dut.channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
    let reply = ask::query(t, &of_dut.channel, STATE)?;
    Ok(matches!(reply, Reply::Status(status) if status.state() == pb::QpState::Sqe))
}

/// Posts a receive, and sends datagrams until the receive completes.
fn receives(t: &mut Tester<'_>, channel: &Channel, of_dut: &Datagrams, at: usize) -> Step {
    let ud = &of_dut.channel;
    ask::post_receive(t, ud, RECEIVE[at], 100 + at as u64, (PLACES[at], HEADER + LENGTH))?;
    let payload = ask::random_bytes(t, SENT[at].name, LENGTH);
    let frame = channel.frame(&datagram(channel, of_dut.qpn, Q_KEY, payload));
    for _ in 0..TRIES {
        t.send_frame(SENT[at], &frame)?;
        let until = t.now().after(ask::RESPONSE_WAIT);
        if t.next_completion(Side::Dut, ud.qp, until)?.is_some() {
            break;
        }
    }
    ask::read_memory(t, channel, MEMORY[at], PLACES[1] + HEADER + LENGTH)?;
    ask::query(t, ud, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let _ = (t.command(OPEN)?, t.commands(MODIFY).count());
    let _ = (
        t.commands(OTHER).count(),
        t.commands(POST).count(),
        t.commands(GONE).count(),
    );
    let created = t.command(CREATE)?;
    let Some(Reply::Qp(qp)) = rc::reply(created) else {
        return Err(Gap::Missing(CREATE.name));
    };
    let states: Vec<_> = t.commands(STATE).collect();
    let is_in_error =
        |reply: Option<&Reply>| matches!(reply, Some(Reply::Status(status)) if status.state() == pb::QpState::Sqe);
    if !states.first().is_some_and(|state| is_in_error(rc::reply(state))) {
        f.not_applicable = Some("the send queue did not fail, or the host does not report SQE".into());
        return Ok(());
    }
    for at in 0..2 {
        let receive = t.command(RECEIVE[at])?;
        let sent: Vec<_> = t.frames(SENT[at]).collect();
        let after = t.command(MEMORY[at])?;
        let mut done = rc::completions_of(t, Side::Dut, (receive.place, after.place));
        done.retain(|done| done.completion.qp == qp.qp && done.completion.wr_id == 100 + at as u64);
        let result = match done.as_slice() {
            [only] if only.status() == WcStatus::SUCCESS => Passed::Pass,
            // One or two datagrams may be lost. A loss of all three is unlikely.
            [] => rc::alive(t, receive.place, sent.len() >= TRIES as usize),
            _ => Passed::Fail,
        };
        let evidence = sent.iter().map(|frame| Evidence::from(*frame));
        let evidence: Vec<Evidence<'_>> = evidence.chain(rc::evidence(&done)).chain([receive.into()]).collect();
        let words = ("one completion with success", rc::completions_in_words(&done));
        f.prove(DATAGRAMS, &evidence, RECEIVE[at].name, words, result);
        let Some(Reply::Bytes(found)) = rc::reply(after).filter(|_| !done.is_empty()) else {
            continue;
        };
        let place = (PLACES[at] + HEADER) as usize;
        let landed = found.bytes.get(place..place + LENGTH as usize);
        let packet = sent
            .first()
            .and_then(|frame| Packet::parse(Medium::Ethernet, &frame.bytes).ok());
        let is_so = packet.is_some_and(|packet| landed == Some(packet.payload()));
        let seen = if is_so { "the payload" } else { "other bytes" };
        let result = if is_so { Passed::Pass } else { Passed::Fail };
        f.prove(
            DATAGRAMS,
            &evidence,
            MEMORY[at].name,
            ("the payload after 40 bytes of header", seen.to_owned()),
            result,
        );
    }
    Ok(())
}

//! A datagram queue pair of the DUT, and datagrams that the peer sends to it.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, DEPTH};
use verbatim_tester::{Step, Stop, Tester};
use verbatim_wire::packet::{Deth, Opcode, Psn, QKey, Qpn, Transport};

use crate::transport::rc::ask;
use verbatim_oracle::Rule;

pub(super) const DATAGRAMS: &str = "9.8.3 datagrams";
pub(super) const HEADERS: &str = "9.6.1 header validation";

/// Number of bytes before the payload that hold the network header.
pub(super) const HEADER: u32 = 40;

/// Labels of the commands that open a datagram queue pair.
pub(super) mod labels {
    use super::{Label, Verbs, Wait};

    pub(in crate::transport) const OPEN: Label<Verbs> = Label::new("ask for the port");
    pub(in crate::transport) const CREATE: Label<Verbs> = Label::new("create a datagram queue pair");
    pub(in crate::transport) const MODIFY: Label<Verbs> = Label::new("modify the datagram queue pair");
    pub(super) const OTHER: Label<Verbs> = Label::new("register memory that is taken away");
    pub(super) const POST: Label<Verbs> = Label::new("post a datagram in SQD");
    pub(super) const GONE: Label<Verbs> = Label::new("take its memory away");
    pub(in crate::transport) const STATE: Label<Verbs> = Label::new("state of the queue pair");
    pub(super) const LATE: Label<Wait> = Label::new("for a completion that is missing");
}

/// Wait after which a completion counts as missing.
const MISSING: Duration = Duration::from_secs(2);

/// A datagram queue pair of the DUT.
pub(super) struct Datagrams {
    /// The channel of a reliable connection, with the handle of this queue pair.
    pub(super) channel: Channel,
    pub(super) qpn: Qpn,
    /// The host's reply to Open, with the facts of the port.
    pub(super) opened: Reply,
    /// Address vector of the peer.
    pub(super) peer: pb::AddressVector,
}

/// Creates a datagram queue pair and moves it to RTS.
///
/// # Errors
/// Returns an error when the DUT's host refuses a command, or when the run must stop.
pub(super) fn open(t: &mut Tester<'_>, channel: &Channel, q_key: QKey, psn: Psn) -> Step<Datagrams> {
    let of = begin(t, channel, q_key)?;
    let rts = pb::QpAttributes {
        sq_psn: Some(psn.0),
        ..pb::QpAttributes::default()
    };
    step(t, &of, pb::QpState::Rtr, pb::QpAttributes::default())?;
    step(t, &of, pb::QpState::Rts, rts)?;
    Ok(of)
}

/// Sends a datagram until a completion comes, three times at most. Returns whether a completion came.
///
/// # Errors
/// Returns an error when the run must stop.
pub(super) fn deliver(t: &mut Tester<'_>, of: &Datagrams, label: Label<Frames>, frame: &[u8]) -> Step<bool> {
    for _ in 0..TRIES {
        t.send_frame(label, frame)?;
        if next(t, of)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until each datagram on its way has arrived.
///
/// # Errors
/// Returns an error when the run must stop.
pub(super) fn settle(t: &mut Tester<'_>) -> Step {
    t.wait_for(labels::LATE, MISSING)
}

/// Waits for the next completion, until it counts as missing. Returns whether a completion came.
///
/// # Errors
/// Returns an error when the run must stop.
pub(super) fn next(t: &mut Tester<'_>, of: &Datagrams) -> Step<bool> {
    let until = t.now().after(ask::RESPONSE_WAIT);
    let came = t.next_completion(Side::Dut, of.channel.qp, until)?.is_some();
    if !came {
        t.wait_for(labels::LATE, MISSING)?;
    }
    Ok(came)
}

/// Moves the queue pair to a state.
///
/// # Errors
/// Returns an error when the DUT's host refuses a command, or when the run must stop.
pub(super) fn step(t: &mut Tester<'_>, of: &Datagrams, state: pb::QpState, attributes: pb::QpAttributes) -> Step {
    let modify = Command::ModifyQp(pb::ModifyQp {
        qp: of.channel.qp,
        state: state.into(),
        attributes: Some(attributes),
    });
    t.verbs_must(labels::MODIFY, Side::Dut, modify).map(drop)
}

/// Creates a datagram queue pair and moves it to INIT.
///
/// # Errors
/// Returns an error when the DUT's host refuses a command, or when the run must stop.
pub(super) fn begin(t: &mut Tester<'_>, channel: &Channel, q_key: QKey) -> Step<Datagrams> {
    let opened = t.verbs_must(labels::OPEN, Side::Dut, Command::Open(pb::Open {}))?;
    let Reply::Opened(facts) = &opened else {
        return Err(Stop::Tester("a host answered Open with something else".into()));
    };
    let (send_depth, receive_depth) = t.depths(DEPTH);
    let create = Command::CreateQp(pb::CreateQp {
        service: pb::Service::Ud.into(),
        send_depth,
        receive_depth,
    });
    let qp = match t.verbs(labels::CREATE, Side::Dut, create)? {
        Reply::Qp(qp) => qp,
        Reply::Refused(refused) => return Err(no_datagrams(&refused)),
        _ => return Err(Stop::Tester("a host answered CreateQp with something else".into())),
    };
    let of = Datagrams {
        channel: Channel { qp: qp.qp, ..*channel },
        qpn: Qpn(qp.qpn),
        peer: t.address_of_peer(facts)?,
        opened,
    };
    init(t, &of, q_key)?;
    Ok(of)
}

/// Moves the queue pair to INIT.
///
/// # Errors
/// Returns an error when the DUT's host refuses the command, or when the run must stop.
pub(super) fn init(t: &mut Tester<'_>, of: &Datagrams, q_key: QKey) -> Step {
    let port = match &of.opened {
        Reply::Opened(facts) => Some(facts.port),
        _ => None,
    };
    let init = pb::QpAttributes {
        pkey_index: Some(0),
        port,
        qkey: Some(q_key.0),
        ..pb::QpAttributes::default()
    };
    step(t, of, pb::QpState::Init, init)
}

/// Returns the reason to stop: a device may support only reliable connections, which is no failure.
fn no_datagrams(refused: &pb::Refused) -> Stop {
    Stop::NotOffered(format!(
        "the host of the DUT's device makes no datagram queue pairs: {}",
        refused.text
    ))
}

/// Lets the rules of datagrams judge a test, which must exercise `rules`.
pub(super) fn judged(t: &Trace, f: &mut Findings<'_>, rules: &[Rule]) -> Result<(), Gap> {
    t.command(labels::OPEN)?;
    t.command(labels::CREATE)?;
    f.exercises(rules);
    Ok(())
}

/// Makes the send queue fail: the memory of a request in SQD is deregistered, and the queue pair moves to RTS. Returns
/// whether the host reports SQE.
///
/// # Errors
/// Returns an error when the DUT's host refuses a command, or when the run must stop.
pub(super) fn fail(t: &mut Tester<'_>, channel: &Channel, of: &Datagrams, q_key: QKey) -> Step<bool> {
    let none = pb::QpAttributes::default();
    let register = Command::RegisterMemory(pb::RegisterMemory {
        length: 4096,
        access: Some(pb::Access::default()),
    });
    let Reply::Memory(other) = t.verbs(labels::OTHER, Side::Dut, register)? else {
        return Ok(false);
    };
    step(t, of, pb::QpState::Sqd, none.clone())?;
    let post = pb::PostSend {
        local: Some(pb::Slice {
            memory: other.memory,
            offset: 0,
            length: 48,
        }),
        ..of.send(channel, FAILS, q_key)
    };
    t.verbs(labels::POST, Side::Dut, Command::PostSend(post))?;
    let gone = Command::DeregisterMemory(pb::DeregisterMemory { memory: other.memory });
    t.verbs(labels::GONE, Side::Dut, gone)?;
    step(t, of, pb::QpState::Rts, none)?;
    // Take the completion of the datagram, so that the next completion belongs to a receive.
    t.next_completion(Side::Dut, of.channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
    let reply = ask::query(t, &of.channel, labels::STATE)?;
    Ok(matches!(reply, Reply::Status(status) if status.state() == pb::QpState::Sqe))
}

/// `wr_id` of the request that fails.
const FAILS: u64 = 1000;

impl Datagrams {
    /// Returns a SEND to the peer, without data.
    pub(super) fn send(&self, channel: &Channel, wr_id: u64, q_key: QKey) -> pb::PostSend {
        pb::PostSend {
            qp: self.channel.qp,
            wr_id,
            operation: pb::Operation::Send.into(),
            signaled: true,
            address: Some(self.peer.clone()),
            remote_qpn: channel.own_qpn.0,
            remote_qkey: q_key.0,
            ..pb::PostSend::default()
        }
    }
}

/// Builds a datagram to the queue pair `qpn`.
pub(super) fn datagram(channel: &Channel, qpn: Qpn, q_key: QKey, payload: Vec<u8>) -> Transport {
    let mut packet = Transport {
        deth: Some(Deth::default().with_q_key(q_key).with_src_qp(channel.own_qpn)),
        payload,
        ..channel.transport(Opcode::UD_SEND_ONLY, Psn(0))
    };
    packet.bth = packet.bth.with_dest_qp(qpn);
    packet
}

//! A datagram queue pair of the DUT, and datagrams that the peer sends to it.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Findings, FrameSeen, Label, Passed, Side, Trace, Verbs};
use verbatim_tester::peer::{Channel, DEPTH};
use verbatim_tester::{Step, Stop, Tester};
use verbatim_wire::packet::{Deth, Medium, Opcode, Packet, Psn, QKey, Qpn, Transport};

use crate::transport::rc;

pub(super) const DATAGRAMS: &str = "9.8.3 datagrams";

/// Number of bytes at the start of a receive that hold the network header, before the payload.
pub(super) const HEADER: u32 = 40;

/// Labels of the commands that open a datagram queue pair.
pub(super) mod labels {
    use super::{Label, Verbs};

    pub(in crate::transport) const OPEN: Label<Verbs> = Label::new("ask for the port");
    pub(in crate::transport) const CREATE: Label<Verbs> = Label::new("create a datagram queue pair");
    pub(in crate::transport) const MODIFY: Label<Verbs> = Label::new("modify the datagram queue pair");
}

/// A datagram queue pair of the DUT.
pub(super) struct Datagrams {
    /// Copy of a reliable connection's channel, with the handle of the datagram queue pair.
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
    let port = facts.port;
    let of = Datagrams {
        channel: Channel { qp: qp.qp, ..*channel },
        qpn: Qpn(qp.qpn),
        peer: t.address_of_peer(facts)?,
        opened,
    };
    let init = pb::QpAttributes {
        pkey_index: Some(0),
        port: Some(port),
        qkey: Some(q_key.0),
        ..pb::QpAttributes::default()
    };
    step(t, &of, pb::QpState::Init, init)?;
    Ok(of)
}

/// Returns the reason to stop: a device may support only reliable connections, which is no failure.
fn no_datagrams(refused: &pb::Refused) -> Stop {
    Stop::NotOffered(format!(
        "the host of the DUT's device makes no datagram queue pairs: {}",
        refused.text
    ))
}

/// Returns the datagrams that the DUT sent from this queue pair.
pub(super) fn sent_by(t: &Trace, qpn: u32) -> Vec<(&FrameSeen, Packet<'_>)> {
    let is_its = |packet: &Packet<'_>| packet.deth().is_some_and(|deth| deth.src_qp().0 == qpn);
    let received = t.timeline.frames.iter().filter(|frame| frame.received);
    received
        .filter_map(|frame| Some((frame, Packet::parse(Medium::Ethernet, &frame.bytes).ok()?)))
        .filter(|(_, packet)| is_its(packet))
        .collect()
}

/// Checks ICRC, transport version, P_Key and the reserved byte of the DUT's datagrams.
pub(super) fn sound_packets(f: &mut Findings<'_>, sent: &[(&FrameSeen, Packet<'_>)]) {
    for (frame, packet) in sent {
        let shown = [Evidence::from(*frame)];
        if !packet.icrc_is_right() {
            let hex = |crc: Option<[u8; 4]>| crc.map_or_else(|| "none".into(), |crc| format!("{crc:02x?}"));
            let words = (hex(packet.computed_icrc()), hex(packet.icrc()));
            f.prove(rc::ICRC, &shown, "ICRC of a datagram", words, Passed::Fail);
        }
        let (bth, deth) = (packet.bth(), packet.deth().unwrap_or_default());
        let fields = [
            ("BTH:TVer", u64::from(bth.tver()), 0),
            ("BTH:P_Key, the partition", u64::from(bth.p_key().0 & 0x7FFF), 0x7FFF),
            ("DETH, the reserved byte", deth.reserved_32().0, 0),
        ];
        for (name, seen, expected) in fields {
            if seen != expected {
                let words = (format!("{expected:#x}"), format!("{seen:#x}"));
                f.prove(DATAGRAMS, &shown, name, words, Passed::Fail);
            }
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

/// Copies the payload of a datagram into a memory image, after the header of its receive.
///
/// The header comes from `found`, the memory as the host read it, so that the comparison ignores the header.
pub(super) fn put(memory: &mut [u8], found: &[u8], at: u32, payload: &[u8]) {
    let header = found.get(at as usize..(at + HEADER) as usize);
    rc::effect::put(memory, at, header.unwrap_or_default());
    rc::effect::put(memory, at + HEADER, payload);
}

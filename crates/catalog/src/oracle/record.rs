//! The device's connections with the packet peer in a record: what it sent there, by the rules, whatever the test was for.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Findings, FrameSeen, Passed, Side, Trace, VerbsDone};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{Medium, Packet, Psn, Qpn, Service};

use super::connection::{Connection, Loss};
use super::heard::Event;
use super::rule::Excuse;

/// The tester's end of a connection, and the device's.
const TESTER: usize = 0;
const DUT: usize = 1;
/// Findings of one rule in a record that become checks: what is broken once is broken again and again.
const EACH: usize = 2;

/// The rule of reserved bits: a test of its own judges these, lest one fault fail all others.
const RESERVED: &str = "reserved";

/// States a failed check for each rule that the device breaks, unless a lost packet explains it. In real time it is an
/// observation: the rules have judged no foreign device in these dialogues yet.
///
/// The peer breaks rules on purpose; of those nobody hears. What it sends to see it dropped is not looked at.
pub(crate) fn judge(trace: &Trace, findings: &mut Findings<'_>) {
    let mut told: Vec<&str> = Vec::new();
    for connection in connections(trace) {
        let of_dut = connection.findings.iter();
        // Between the device and the peer nothing is damaged.
        let is_its_own = |unless: Option<Excuse>| unless.is_none_or(|excuse| excuse == Excuse::Damaged);
        for finding in of_dut.filter(|finding| finding.by == DUT && is_its_own(finding.unless)) {
            let name = finding.rule.name;
            if name == RESERVED || told.iter().filter(|told| **told == name).count() == EACH {
                continue;
            }
            told.push(name);
            let frames = finding.packets.iter().filter_map(|number| {
                let at = usize::try_from(*number).ok()?.checked_sub(1)?;
                trace.timeline.frames.get(at)
            });
            let frames: Vec<Evidence<'_>> = frames.map(Evidence::Frame).collect();
            if trace.begin.simulated {
                let words = (finding.expected.clone(), finding.seen.clone());
                findings.prove(finding.rule.statement, &frames, finding.rule.name, words, Passed::Fail);
            } else {
                let shown: Vec<String> = frames.iter().map(Evidence::in_words).collect();
                findings.observe(
                    format!("{} {finding} ({})", finding.rule.statement, shown.join("; ")),
                    &[],
                );
            }
        }
    }
}

/// A queue pair of the device that was connected, and when it was there.
struct Pair {
    dut: Qpn,
    own: Qpn,
    /// The PSN of the first request that it expects.
    expects: Option<Psn>,
    /// Bytes of its path MTU.
    path_mtu: Option<u32>,
    places: (usize, usize),
}

/// All connections of the device's reliable queue pairs, each with its packets.
pub(super) fn connections(trace: &Trace) -> Vec<Connection> {
    let pairs = pairs(trace);
    pairs.iter().map(|pair| connection(trace, pair)).collect()
}

fn pairs(trace: &Trace) -> Vec<Pair> {
    let commands = || trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
    let made: Vec<_> = commands()
        .filter_map(|done| match (&done.command, &done.answer) {
            (Command::CreateQp(of), Some((_, _, Reply::Qp(qp), _))) => Some((done.place, of.service(), qp)),
            _ => None,
        })
        .collect();
    let end = trace.timeline.order.len();
    let mut pairs = Vec::new();
    for (at, (place, service, qp)) in made.iter().enumerate() {
        let given = |done: &'_ VerbsDone| match &done.command {
            Command::ModifyQp(modify) if modify.qp == qp.qp && done.place > *place => modify.attributes.clone(),
            _ => None,
        };
        let all: Vec<pb::QpAttributes> = commands().filter_map(given).collect();
        let own = all.iter().find_map(|given| given.dest_qpn);
        if let (Some(own), pb::Service::Rc) = (own, service) {
            let path_mtu = all.iter().find_map(|given| given.path_mtu);
            pairs.push(Pair {
                dut: Qpn(qp.qpn),
                own: Qpn(own),
                expects: all.iter().find_map(|given| given.rq_psn).map(Psn::new),
                path_mtu: path_mtu.and_then(|code| Mtu(u8::try_from(code).ok()?).bytes()),
                places: (*place, made.get(at + 1).map_or(end, |(next, ..)| *next)),
            });
        }
    }
    pairs
}

fn connection(trace: &Trace, pair: &Pair) -> Connection {
    let mut connection = Connection::new(Loss::Possible);
    connection.know(TESTER, pair.expects, pair.path_mtu);
    let frames = trace.timeline.frames.iter();
    let frames = frames.filter(|frame| frame.place > pair.places.0 && frame.place < pair.places.1);
    let packets: Vec<(&FrameSeen, Packet<'_>)> = frames
        .filter_map(|frame| {
            let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
            let to = if frame.received { pair.own } else { pair.dut };
            let is_ours = packet.bth().dest_qp() == to && packet.opcode().service() == Service::Rc;
            is_ours.then_some((frame, packet))
        })
        .collect();
    let Some((_, of_dut)) = packets.iter().find(|(frame, _)| frame.received) else {
        return connection;
    };
    for (frame, packet) in &packets {
        if !frame.received && !reaches(packet, of_dut) {
            continue;
        }
        let event = Event {
            number: frame.number.into(),
            at: Some(frame.at.earliest),
            packet: *packet,
        };
        connection.take(if frame.received { DUT } else { TESTER }, &event);
    }
    connection
}

/// Whether a packet is from where the device's packets go, and of their partition: another one it drops in silence.
fn reaches(packet: &Packet<'_>, of_dut: &Packet<'_>) -> bool {
    let from_peer = match (packet.ipv4(), of_dut.ipv4()) {
        (Some(packet), Some(of_dut)) => packet.src() == of_dut.dst() && packet.dst() == of_dut.src(),
        _ => packet.ipv6().map(|ip| (ip.src(), ip.dst())) == of_dut.ipv6().map(|ip| (ip.dst(), ip.src())),
    };
    let (key, own) = (packet.bth().p_key().0, of_dut.bth().p_key().0);
    from_peer && key & 0x7FFF == own & 0x7FFF && (key | own) & 0x8000 != 0
}

//! The peer as responder: it answers the DUT's requests, with the faults of the walk.

use verbatim_record::TRIES;
use verbatim_record::verbs::pb::Operation as O;
use verbatim_tester::Tester;
use verbatim_wire::packet::{Aeth, AtomicAckEth, NakCode, Opcode, Packet, Psn, RnrTimer, Syndrome, Transport};
use verbatim_wire::values::Hex64;

use super::peer::{MOMENT, Peer, labels};
use super::step::Fault;
use super::stray;
use crate::transport::rc::ask::HALF;
use crate::transport::rc::{Sent, read_response};

/// A request that the DUT posted, and the peer's treatment of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    sent: Sent,
    fault: Fault,
    refusal: Option<NakCode>,
    /// Whether the response to a later request acknowledges this request.
    is_coalesced: bool,
}

/// The peer's state as responder.
#[derive(Clone, Debug)]
pub(super) struct Answering {
    /// Posted requests, in order.
    pub(super) posted: Vec<Expected>,
    /// Next PSN that the responder expects.
    pub(super) expected: Psn,
    /// Expected PSN at the beginning of the step. All requests before this PSN are answered.
    pub(super) settled: Psn,
    msn: u32,
    /// PSN of the last NAK, or `None` once the expected packet has arrived.
    told: Option<Psn>,
    /// RNR NAK whose request the DUT has not retried: its PSN, its timer, and the number of repetitions left. The
    /// peer repeats the NAK because the NAK may be lost.
    put_off: Option<(Psn, RnrTimer, u32)>,
}

impl Answering {
    pub(super) fn new(first: Psn) -> Self {
        Self {
            posted: Vec::new(),
            expected: first,
            settled: first,
            msn: 0,
            told: None,
            put_off: None,
        }
    }

    /// Begins a step: all requests so far are answered.
    pub(super) fn begin_step(&mut self) {
        self.settled = self.expected;
    }

    pub(super) fn add(&mut self, sent: Sent) {
        self.posted.push(Expected {
            sent,
            fault: Fault::None,
            refusal: None,
            is_coalesced: false,
        });
    }

    /// Sets the fault of the request at an index. `last` is the index of the last request posted in the same step.
    pub(super) fn expect_fault(&mut self, place: usize, fault: Fault, last: Option<usize>) {
        self.posted[place].fault = fault;
        if fault == Fault::Coalesced {
            for posted in &mut self.posted[place..last.unwrap_or(place)] {
                posted.is_coalesced = true;
            }
        }
    }

    /// Makes the peer refuse the request at an index.
    pub(super) fn refuse(&mut self, place: usize, code: NakCode) {
        self.posted[place].refusal = Some(code);
    }

    /// Returns the PSN after all posted requests.
    pub(super) fn end(&self) -> Psn {
        self.posted
            .last()
            .map_or(self.expected, |posted| posted.sent.last.next())
    }
}

/// Returns a byte of the peer's memory. The peer stores no memory: it computes each byte from the address.
fn byte(address: u64) -> u8 {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Handles a request packet of the DUT.
pub(super) fn serve(t: &mut Tester<'_>, peer: &mut Peer, packet: &Packet<'_>) -> verbatim_tester::Step {
    let psn = packet.bth().psn();
    let state = &mut peer.answering;
    let covers = |posted: &Expected| psn.since(posted.sent.first) <= posted.sent.last.since(posted.sent.first);
    let Some(at) = state.posted.iter().position(covers) else {
        return Ok(());
    };
    let ahead = psn.since(state.expected);
    let of_expected = state.posted.iter().find(|posted| {
        let (first, last) = (posted.sent.first, posted.sent.last);
        state.expected.since(first) <= last.since(first)
    });
    let is_silent = of_expected.is_some_and(|posted| matches!(posted.fault, Fault::Silent(_)));
    if is_silent && ahead != 0 {
        return Ok(());
    }
    if ahead >= HALF {
        return respond(t, peer, at, packet, true);
    }
    if ahead > 0 {
        if state.told == Some(state.expected) {
            return Ok(());
        }
        state.told = Some(state.expected);
        let syndrome = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
        return acknowledge(t, peer, peer.answering.expected, syndrome);
    }
    let posted = state.posted[at];
    if let Some(code) = posted.refusal {
        return acknowledge(t, peer, psn, Syndrome::nak(code));
    }
    let is_at = |of: u32| of % packets(&posted.sent) == psn.since(posted.sent.first);
    let ends = psn == posted.sent.last;
    match posted.fault {
        Fault::RequestLost(of) if is_at(of) => {
            state.posted[at].fault = Fault::None;
            Ok(())
        }
        // A later packet that overtook this packet has already caused this NAK.
        Fault::SequenceNak(of) if is_at(of) && state.told != Some(psn) => {
            state.posted[at].fault = Fault::None;
            state.told = Some(psn);
            acknowledge(t, peer, psn, Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR))
        }
        Fault::Rnr(timer, times) if lacks_receive(&posted.sent, packet) => {
            state.posted[at].fault = match times {
                0 | 1 => Fault::None,
                _ => Fault::Rnr(timer, times - 1),
            };
            state.told = Some(psn);
            acknowledge(t, peer, psn, Syndrome::rnr_nak(timer))
        }
        Fault::Stray(of) => {
            state.posted[at].fault = Fault::None;
            stray::send(t, peer, of)?;
            respond(t, peer, at, packet, false)
        }
        Fault::Behind(of) => {
            state.posted[at].fault = Fault::None;
            stray::send(t, peer, of)?;
            t.pause(MOMENT)?;
            respond(t, peer, at, packet, false)
        }
        Fault::Unready(timer) => {
            state.posted[at].fault = Fault::None;
            state.told = Some(psn);
            state.put_off = Some((psn, timer, TRIES - 1));
            acknowledge(t, peer, psn, Syndrome::rnr_nak(timer))
        }
        Fault::RnrThenSilent(timer, times) if lacks_receive(&posted.sent, packet) => {
            state.posted[at].fault = Fault::Silent(times);
            state.told = Some(psn);
            acknowledge(t, peer, psn, Syndrome::rnr_nak(timer))
        }
        Fault::NakThenSilent(times) if state.told != Some(psn) => {
            state.posted[at].fault = Fault::Silent(times);
            state.told = Some(psn);
            acknowledge(t, peer, psn, Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR))
        }
        Fault::Silent(times) if ends || packet.opcode() == Opcode::RC_READ_REQUEST => {
            state.posted[at].fault = match times {
                0 | 1 => Fault::None,
                _ => Fault::Silent(times - 1),
            };
            Ok(())
        }
        Fault::AnswerLost if ends || packet.opcode() == Opcode::RC_READ_REQUEST => {
            state.posted[at].fault = Fault::None;
            executed(peer, at, packet);
            Ok(())
        }
        Fault::AnswerTwice if packets(&posted.sent) == 1 || ends => {
            state.posted[at].fault = Fault::None;
            respond(t, peer, at, packet, false)?;
            respond(t, peer, at, packet, true)
        }
        _ => respond(t, peer, at, packet, false),
    }
}

/// Repeats an RNR NAK whose request was not retried. Returns whether the peer sent such a NAK.
pub(super) fn put_off_again(t: &mut Tester<'_>, peer: &mut Peer) -> verbatim_tester::Step<bool> {
    let Some((psn, timer, times @ 1..)) = peer.answering.put_off else {
        return Ok(false);
    };
    peer.answering.put_off = Some((psn, timer, times - 1));
    acknowledge(t, peer, psn, Syndrome::rnr_nak(timer))?;
    Ok(true)
}

/// Returns whether a packet consumes the receive of its message.
fn lacks_receive(sent: &Sent, packet: &Packet<'_>) -> bool {
    match sent.ask.operation {
        O::Send | O::SendImm | O::SendInvalidate => packet.bth().psn() == sent.first,
        O::WriteImm => packet.bth().psn() == sent.last,
        _ => false,
    }
}

/// Returns the number of packets of a request.
fn packets(sent: &Sent) -> u32 {
    match sent.ask.operation {
        O::Read => 1,
        _ => sent.last.since(sent.first) + 1,
    }
}

/// Updates the responder's state after the expected packet.
fn executed(peer: &mut Peer, at: usize, packet: &Packet<'_>) {
    let state = &mut peer.answering;
    let sent = state.posted[at].sent;
    state.told = None;
    state.put_off = None;
    state.expected = match sent.ask.operation {
        O::Read => sent.last.next(),
        _ => packet.bth().psn().next(),
    };
    if state.expected == sent.last.next() {
        state.msn = sent.msn;
    }
}

/// Answers the expected packet, or a duplicate.
fn respond(
    t: &mut Tester<'_>,
    peer: &mut Peer,
    at: usize,
    packet: &Packet<'_>,
    is_duplicate: bool,
) -> verbatim_tester::Step {
    if !is_duplicate {
        executed(peer, at, packet);
    }
    let posted = peer.answering.posted[at];
    let psn = packet.bth().psn();
    let channel = peer.requester.channel;
    let answers = match (packet.opcode(), packet.reth(), packet.atomic()) {
        (Opcode::RC_READ_REQUEST, Some(reth), _) => {
            let mut answers = read(peer, &posted.sent, psn, (reth.va().0, reth.dma_len()));
            if let (Fault::ResponseLost(of), false) = (posted.fault, is_duplicate) {
                peer.answering.posted[at].fault = Fault::None;
                answers.remove(of as usize % answers.len());
            }
            answers
        }
        (Opcode::RC_COMPARE_SWAP | Opcode::RC_FETCH_ADD, _, Some(atomic)) => {
            let va = atomic.va().0;
            let original = u64::from_be_bytes(core::array::from_fn(|at| byte(va ^ at as u64)));
            vec![Transport {
                aeth: Some(
                    Aeth::default()
                        .with_syndrome(peer.requester.syndrome)
                        .with_msn(posted.sent.msn),
                ),
                atomic_ack: Some(AtomicAckEth::default().with_original(Hex64(original))),
                ..channel.transport(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn)
            }]
        }
        _ if is_duplicate => {
            let newest = peer.answering.expected.minus(1);
            return acknowledge(t, peer, newest, peer.requester.syndrome);
        }
        _ if posted.fault == Fault::Each => vec![ack(peer, psn)],
        _ if posted.is_coalesced || !packet.bth().ack_request() => return Ok(()),
        _ => vec![ack(peer, psn)],
    };
    let frames: Vec<Vec<u8>> = answers.iter().map(|answer| channel.frame(answer)).collect();
    if let (Fault::Altered(alteration), false) = (posted.fault, is_duplicate) {
        peer.answering.posted[at].fault = Fault::None;
        for answer in &answers {
            t.send_frame(labels::STRAY, &stray::altered(&channel, answer, alteration))?;
        }
        t.pause(MOMENT)?;
    }
    if peer.answering.posted[at].fault == Fault::AnswerDamaged {
        peer.answering.posted[at].fault = Fault::None;
        for frame in &frames {
            let mut frame = frame.clone();
            if let Some(last) = frame.last_mut() {
                *last ^= 0x80;
            }
            t.send_frame(labels::STRAY, &frame)?;
        }
    }
    let stray = match posted.fault {
        Fault::Within(stray) if !is_duplicate && frames.len() > 1 => {
            peer.answering.posted[at].fault = Fault::None;
            Some(stray)
        }
        _ => None,
    };
    for (place, frame) in frames.iter().enumerate() {
        if let (1, Some(stray)) = (place, stray) {
            stray::send(t, peer, stray)?;
            t.pause(MOMENT)?;
        }
        t.send_frame(labels::ANSWER, frame)?;
    }
    Ok(())
}

/// Builds an ACK of all packets up to a PSN.
fn ack(peer: &Peer, psn: Psn) -> Transport {
    let aeth = Aeth::default()
        .with_syndrome(peer.requester.syndrome)
        .with_msn(peer.answering.msn);
    Transport {
        aeth: Some(aeth),
        ..peer.requester.channel.transport(Opcode::RC_ACKNOWLEDGE, psn)
    }
}

/// Greatest length in bytes of a READ's response: more than any READ of a walk requests, at any path MTU.
///
/// The lengths depend on the drawn path MTU, even if the device lacks this path MTU.
const LONGEST: u32 = 4 * 1024;

/// Builds the responses to a READ of the peer's memory.
fn read(peer: &Peer, sent: &Sent, psn: Psn, (va, length): (u64, u32)) -> Vec<Transport> {
    let (channel, mtu) = (&peer.requester.channel, peer.requester.mtu);
    // A wrong length in the DUT's request must not cause more responses than a READ of a walk has.
    let length = length.min(LONGEST);
    let count = length.div_ceil(mtu).max(1);
    let aeth = Aeth::default()
        .with_syndrome(peer.requester.syndrome)
        .with_msn(sent.msn);
    let response = |at: u32| {
        let opcode = read_response(at, count);
        let (from, until) = (at * mtu, length.min((at + 1) * mtu));
        Transport {
            aeth: (opcode != Opcode::RC_READ_RESPONSE_MIDDLE).then_some(aeth),
            payload: (from..until).map(|place| byte(va.wrapping_add(place.into()))).collect(),
            ..channel.transport(opcode, psn.plus(at))
        }
    };
    (0..count).map(response).collect()
}

fn acknowledge(t: &mut Tester<'_>, peer: &Peer, psn: Psn, syndrome: Syndrome) -> verbatim_tester::Step {
    let frame = peer.requester.channel.acknowledge(psn, syndrome, peer.answering.msn);
    t.send_frame(labels::ANSWER, &frame)?;
    Ok(())
}

//! The peer of a walk, as requester and as responder, with the disturbances of the walk.

use core::time::Duration;

use verbatim_record::verbs::pb::Operation as O;
use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Frames, Label, Side, TRIES, Verbs};
use verbatim_tester::peer::{ChannelOptions, Sign};
use verbatim_tester::{Stop, Tester};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{CreditCode, Medium, NakCode, Opcode, Packet, Psn, RKey, Syndrome, SyndromeKind};

use super::answering::Answering;
use super::image::Image;
use super::malformed::{Malformed, On};
use super::more;
use super::step::{Illegal, Step, WalkConnection, Want, Way};
use super::stray;
use crate::transport::rc::ask::{self, HALF, Message, nak_of};
use crate::transport::rc::{Ask, RESULTS, Requester, steps};

/// Labels of the packets and commands of a walk.
pub(super) mod labels {
    use super::{Frames, Label, Verbs};

    /// First transmission of a packet.
    pub(in crate::transport) const REQUEST: Label<Frames> = Label::new("a request");
    /// Repetition of a packet after a missing response, an RNR NAK or a sequence NAK.
    pub(in crate::transport) const AGAIN: Label<Frames> = Label::new("a request, again");
    /// Repetition of a packet of an answered message.
    pub(in crate::transport) const DUPLICATE: Label<Frames> = Label::new("an answered request, again");
    /// Response to a request of the DUT.
    pub(in crate::transport) const ANSWER: Label<Frames> = Label::new("an answer");
    /// Packet without an effect.
    pub(in crate::transport) const STRAY: Label<Frames> = Label::new("a packet without effect");
    /// Request that the DUT must refuse.
    pub(in crate::transport) const ILLEGAL: Label<Frames> = Label::new("a request that must be refused");
    /// Malformed packet.
    pub(in crate::transport) const MALFORMED: Label<Frames> = Label::new("a malformed packet");
    pub(in crate::transport) const RECEIVE: Label<Verbs> = Label::new("post a receive");
    pub(in crate::transport) const DRAIN: Label<Verbs> = Label::new("modify to SQD");
    pub(in crate::transport) const RESUME: Label<Verbs> = Label::new("modify from SQD to RTS");
    pub(in crate::transport) const RESET: Label<Verbs> = Label::new("modify to RESET");
    pub(super) const DEREGISTER: Label<Verbs> = Label::new("deregister the memory");
}

/// wr_id of the first receive. The wr_ids of requests start at 1.
pub(super) const RECEIVES: u64 = 1000;
/// Offset in the DUT's memory to which the peer adds [`Want::place`].
pub(super) const TARGET: u32 = 16 * 1024;
/// Offset in the DUT's memory of the two receive buffers.
const SLOTS: u32 = 24 * 1024;
/// Length in bytes of a buffer for a receive or a result.
pub(super) const SLOT: u32 = 4096;
/// Longest wait for a completion, including retransmissions before it.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest time that a packet takes to reach the DUT.
pub(super) const MOMENT: Duration = Duration::from_millis(20);
/// Greatest number of packets and completions of the DUT in one step. The connection ends if the DUT exceeds this
/// number.
const SIGNS: u32 = 800;

/// A message of the peer, and the state of its responses.
#[derive(Clone, Debug)]
pub(super) struct Flying {
    message: Message,
    operation: O,
    /// PSNs of the responses to a READ that have not arrived.
    missing: Vec<Psn>,
    is_done: bool,
    /// Offset in the DUT's memory, and length in bytes.
    extent: (u32, u32),
    /// Number of repetitions of the message until its receive is posted.
    lacks_receive: u32,
}

impl Flying {
    fn takes_receive(&self) -> bool {
        matches!(self.operation, O::Send | O::SendImm | O::WriteImm)
    }

    fn returns_data(&self) -> bool {
        matches!(self.operation, O::Read | O::CompareSwap | O::FetchAdd)
    }

    /// Returns whether a packet is the last packet of the response.
    fn is_ended_by(&self, packet: &Packet<'_>) -> bool {
        let is_last = packet.bth().psn() == self.message.last();
        match (self.operation, packet.opcode()) {
            (O::Read, opcode) => is_last && opcode.is_response() && opcode != Opcode::RC_ACKNOWLEDGE,
            (O::CompareSwap | O::FetchAdd, opcode) => is_last && opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE,
            (_, opcode) => opcode == Opcode::RC_ACKNOWLEDGE && nak_of(packet).is_none(),
        }
    }
}

/// The peer's side of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) requester: Requester,
    pub(super) answering: Answering,
    pub(super) messages: Vec<Flying>,
    /// PSN of the peer's next message.
    pub(super) next: Psn,
    receives: u64,
    pub(super) received: u64,
    pub(super) completed: usize,
    /// Expected contents of the DUT's memory after all messages so far.
    pub(super) image: Image,
    /// Whether the connection is over, for example after a refused or failed request.
    pub(super) is_over: bool,
    /// Whether a request completed with an error, so that all later requests fail too.
    has_failed: bool,
    /// Whether the DUT's queue pair is still in RTR.
    pub(super) in_rtr: bool,
    pub(super) options: ChannelOptions,
    any_key: bool,
    /// Index of the answered message that the peer repeats after the next RNR NAK.
    meanwhile: Option<usize>,
    random: u32,
}

impl Peer {
    pub(super) fn open(t: &mut Tester<'_>, connection: &WalkConnection) -> verbatim_tester::Step<Self> {
        let mut requester = Requester::open(t, &connection.options)?;
        // On about half of all connections, the peer reports credits. Few credits must not stop the DUT forever.
        let mut random = t.random(&format!("credits of leg {}", connection.number));
        requester.syndrome = Syndrome::ack(CreditCode(random.between(0, 62).min(31) as u8));
        let (asked, has) = (connection.options.mtu, requester.channel.mtu);
        if connection.counts_packets && has != asked {
            let words = |mtu: Mtu| mtu.bytes().unwrap_or_default();
            let (asked, has) = (words(asked), words(has));
            return Err(Stop::NotOffered(format!(
                "the messages need a path MTU of {asked} bytes, and the nearest that the DUT's device has is {has}, as its agent says"
            )));
        }
        Ok(Self {
            next: requester.channel.own_psn,
            answering: Answering::new(requester.channel.dut_psn),
            image: Image::new(requester.memory.clone(), requester.channel.memory.address),
            requester,
            messages: Vec::new(),
            receives: 0,
            received: 0,
            completed: 0,
            is_over: false,
            has_failed: false,
            in_rtr: !connection.options.to_rts,
            options: connection.options,
            any_key: connection.any_key,
            meanwhile: None,
            random: 0,
        })
    }

    /// Runs a step, and waits until all requests are answered.
    pub(super) fn take(&mut self, t: &mut Tester<'_>, step: &Step, name: &str) -> verbatim_tester::Step {
        match step {
            Step::Ask(wants, way) => {
                let from = self.messages.len();
                for want in wants {
                    self.random += 1;
                    self.make(t, want, &format!("{name}, message {}", self.random));
                }
                self.send(t, from, *way)?;
                self.meanwhile = (*way == Way::UnreadyAmid).then(|| from.checked_sub(1)).flatten();
                self.settle(t)?;
                if *way == Way::AnswersLost && !self.is_over {
                    for at in from..self.messages.len() {
                        self.repeat(t, at)?;
                    }
                }
                Ok(())
            }
            Step::Again(back) => match self.messages.len().checked_sub(1 + *back as usize) {
                Some(at) => self.repeat(t, at),
                None => Ok(()),
            },
            Step::Tail(back) => match self.messages.len().checked_sub(1 + *back as usize) {
                Some(at) => {
                    let frames = self.tail(at);
                    self.repeat_frames(t, at, &frames)
                }
                None => Ok(()),
            },
            Step::Stray(of) => {
                self.answering.begin_step();
                stray::send(t, self, *of)?;
                self.settle(t)?;
                // Wait until the packet has arrived, because its PSN may be outstanding in the next step.
                t.pause(MOMENT)
            }
            Step::Post(wants, at, fault) => {
                self.answering.begin_step();
                let posted = self.post(t, wants)?;
                if let Some(place) = posted.get(*at) {
                    self.answering.expect_fault(*place, *fault, posted.last().copied());
                }
                self.settle(t)
            }
            Step::Begin(wants, fault) => {
                self.answering.begin_step();
                let posted = self.post(t, wants)?;
                if let Some(place) = posted.first() {
                    self.answering.expect_fault(*place, *fault, posted.last().copied());
                }
                while let Some(sign) = t.next_sign(self.requester.channel.qp, t.now().after(MOMENT))? {
                    self.hear(t, &sign)?;
                    if matches!(sign, Sign::Packet(_)) {
                        break;
                    }
                }
                Ok(())
            }
            Step::Refuse(wants, at, code) => {
                let posted = self.post(t, wants)?;
                if let Some(place) = posted.get(*at) {
                    self.answering.refuse(*place, *code);
                }
                self.settle(t)?;
                self.is_over |= !posted.is_empty();
                Ok(())
            }
            Step::Illegal(illegal) => self.provoke(t, *illegal, name),
            Step::Malformed(malformed) => self.malform(t, malformed),
            Step::Marks(marks) => {
                self.requester.channel.marks = *marks;
                Ok(())
            }
            Step::Drain(wants) => self.drain(t, wants),
            Step::Reset(psn) => self.reset(t, *psn),
        }
    }

    /// Has the DUT post requests. Returns the indices of the requests that its host accepts.
    pub(super) fn post(&mut self, t: &mut Tester<'_>, wants: &[Want]) -> verbatim_tester::Step<Vec<usize>> {
        self.start_sending(t)?;
        let mut posted = Vec::new();
        for want in wants {
            let is_atomic = matches!(want.operation, O::CompareSwap | O::FetchAdd);
            if is_atomic && !self.requester.channel.atomics || !t.offers(want.operation) {
                continue;
            }
            // Only a request that completes a receive raises a solicited event. Some hosts refuse the flag for other
            // requests.
            let takes_event = !matches!(want.operation, O::Write | O::Read | O::CompareSwap | O::FetchAdd);
            let count = self.answering.posted.len() as u32;
            let offset = match want.operation {
                O::Read | O::CompareSwap | O::FetchAdd => RESULTS + count % 4 * SLOT,
                _ => want.place,
            };
            let ask = Ask {
                fence: want.fence,
                solicited: want.solicited && takes_event,
                value: want.value,
                ..Ask::new(want.operation, want.length).at(offset)
            };
            if let Some(sent) = self.requester.try_post(t, ask)? {
                posted.push(self.answering.posted.len());
                self.answering.add(sent);
            }
        }
        Ok(posted)
    }

    /// Builds a message, if the DUT can execute it, and applies it to the memory image.
    fn make(&mut self, t: &Tester<'_>, want: &Want, name: &str) {
        let (channel, psn, place) = (&self.requester.channel, self.next, TARGET.wrapping_add(want.place));
        let is_atomic = matches!(want.operation, O::CompareSwap | O::FetchAdd);
        let flying = self
            .messages
            .iter()
            .filter(|flying| !flying.is_done && flying.returns_data());
        let is_full = flying.count() >= usize::from(channel.max_dest_rd_atomic);
        let takes_resource = is_atomic || want.operation == O::Read;
        let is_allowed = more::may(&self.options, want.operation);
        if !is_allowed || is_atomic && !channel.atomics || takes_resource && is_full || !t.executes(want.operation) {
            return;
        }
        let payload = ask::random_bytes(t, name, want.length);
        let held = self.image.word(place as usize);
        let mut random = t.random(name);
        let value = |drawn: u64| want.value.unwrap_or(drawn);
        let drawn = random.bits();
        let imm = value(drawn) as u32;
        let message = match want.operation {
            O::SendImm => Message::send(channel, psn, &payload).with_imm(imm),
            O::Write => Message::write(channel, psn, place, &payload),
            O::WriteImm => Message::write(channel, psn, place, &payload).with_imm(imm),
            O::Read => Message::read(channel, psn, place, want.length),
            O::CompareSwap => {
                let compare = if drawn & 1 == 0 || want.value.is_some() {
                    held
                } else {
                    random.bits()
                };
                Message::compare_swap(channel, psn, place, (compare, value(random.bits())))
            }
            O::FetchAdd => Message::fetch_add(channel, psn, place, value(random.bits())),
            _ => Message::send(channel, psn, &payload),
        };
        let message = message.changed(|packets| {
            if let Some(last) = packets.last_mut() {
                let takes_event = matches!(want.operation, O::Send | O::SendImm | O::WriteImm);
                last.bth = last.bth.with_solicited_event(want.solicited && takes_event);
            }
            if self.any_key && want.length == 0 {
                let other = RKey(random.bits() as u32);
                packets[0].reth = packets[0].reth.map(|reth| reth.with_r_key(other));
            }
        });
        for frame in message.frames(channel) {
            if let Ok(packet) = Packet::parse(Medium::Ethernet, &frame) {
                self.image.take(&packet);
            }
        }
        self.next = message.next();
        let missing = match want.operation {
            O::Read => (0..self.next.since(psn)).map(|at| psn.plus(at)).collect(),
            _ => Vec::new(),
        };
        self.messages.push(Flying {
            message,
            operation: want.operation,
            missing,
            is_done: false,
            extent: (place, want.length),
            lacks_receive: 0,
        });
    }

    /// Sends the messages from index `from` on for the first time, with a disturbance.
    fn send(&mut self, t: &mut Tester<'_>, from: usize, way: Way) -> verbatim_tester::Step {
        for at in from..self.messages.len() {
            if self.messages[at].takes_receive() {
                match way {
                    Way::Unready | Way::UnreadyAmid => self.messages[at].lacks_receive = 1,
                    Way::UnreadyTwice => self.messages[at].lacks_receive = 2,
                    _ => self.post_receive(t)?,
                }
            }
        }
        let channel = &self.requester.channel;
        let all = self.messages[from..]
            .iter()
            .map(|flying| flying.message.frames(channel));
        let mut frames: Vec<Vec<u8>> = all.flatten().collect();
        let count = frames.len() as u32;
        if count == 0 {
            return Ok(());
        }
        match way {
            Way::Lost(at) => drop(frames.remove((at % count) as usize)),
            Way::Overtakes(at) if count > 1 => {
                let at = (1 + at % (count - 1)) as usize;
                frames.swap(at - 1, at);
            }
            _ => {}
        }
        for (at, frame) in (0u32..).zip(&frames) {
            match way {
                Way::Damaged(of) if of % count == at => {
                    let mut frame = frame.clone();
                    if let Some(last) = frame.last_mut() {
                        *last ^= 1;
                    }
                    t.send_frame(labels::STRAY, &frame)?;
                }
                _ => drop(t.send_frame(labels::REQUEST, frame)?),
            }
        }
        Ok(())
    }

    fn post_receive(&mut self, t: &mut Tester<'_>) -> verbatim_tester::Step {
        self.post_receive_of(t, SLOT)
    }

    /// Posts a receive of this length in bytes.
    fn post_receive_of(&mut self, t: &mut Tester<'_>, length: u32) -> verbatim_tester::Step {
        let slot = SLOTS + (self.receives % 2) as u32 * SLOT;
        let wr_id = RECEIVES + self.receives;
        self.receives += 1;
        ask::post_receive(t, &self.requester.channel, labels::RECEIVE, wr_id, (slot, length))
    }

    /// Repeats the unanswered messages from a PSN on, and all unanswered READs and atomics.
    fn send_again(&mut self, t: &mut Tester<'_>, from: Psn) -> verbatim_tester::Step {
        let open: Vec<usize> = (0..self.messages.len())
            .filter(|at| !self.messages[*at].is_done)
            .collect();
        for at in open {
            if self.messages[at].lacks_receive > 0 {
                self.messages[at].lacks_receive -= 1;
                if self.messages[at].lacks_receive == 0 {
                    self.post_receive(t)?;
                }
            }
            let flying = &self.messages[at];
            for packet in &flying.message.packets {
                let is_behind = packet.bth.psn().since(from) < HALF;
                if is_behind || flying.returns_data() {
                    t.send_frame(labels::AGAIN, &self.requester.channel.frame(packet))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the frames of an answered message without its first packet; all frames if it has one packet.
    /// For a long READ, returns a request for the responses after the first.
    fn tail(&self, at: usize) -> Vec<Vec<u8>> {
        let (flying, channel, mtu) = (&self.messages[at], &self.requester.channel, self.requester.mtu);
        let (place, length) = flying.extent;
        if flying.operation == O::Read && length > mtu {
            let rest = Message::read(
                channel,
                flying.message.first().next(),
                place.wrapping_add(mtu),
                length - mtu,
            );
            return rest.frames(channel);
        }
        let frames = flying.message.frames(channel);
        frames[usize::from(frames.len() > 1)..].to_vec()
    }

    /// Repeats an answered message until the DUT answers it again, three times at most.
    fn repeat(&mut self, t: &mut Tester<'_>, at: usize) -> verbatim_tester::Step {
        let frames = self.messages[at].message.frames(&self.requester.channel);
        self.repeat_frames(t, at, &frames)
    }

    /// Sends frames of an answered message until the DUT answers, three times at most.
    fn repeat_frames(&mut self, t: &mut Tester<'_>, at: usize, frames: &[Vec<u8>]) -> verbatim_tester::Step {
        let flying = self.messages[at].clone();
        // Skip late responses to earlier messages.
        t.skip_packets();
        for _ in 0..TRIES {
            for frame in frames {
                t.send_frame(labels::DUPLICATE, frame)?;
            }
            let until = t.now().after(ask::soon(t));
            while let Some(sign) = t.next_sign(self.requester.channel.qp, until)? {
                let is_answer = matches!(&sign, Sign::Packet(received) if flying.is_ended_by(&received.packet()));
                self.hear(t, &sign)?;
                if is_answer {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends a request that the DUT must refuse, until the DUT refuses it, three times at most.
    fn provoke(&mut self, t: &mut Tester<'_>, illegal: Illegal, name: &str) -> verbatim_tester::Step {
        let illegal = instead(t, illegal);
        let operation = illegal.operation();
        let needs_atomics = matches!(operation, Some(O::CompareSwap | O::FetchAdd));
        // Skip a request that also lacks a right: it has two errors, and a NAK may report either.
        let is_allowed = operation.is_none_or(|operation| more::may(&self.options, operation));
        let is_right = matches!(illegal, Illegal::Right(_));
        if self.is_over || !is_allowed && !is_right || needs_atomics && !self.requester.channel.atomics {
            return Ok(());
        }
        let message = stray::illegal(t, self, illegal, name);
        let mut frames = message.frames(&self.requester.channel).into_iter();
        if !frames.all(|frame| t.executes_frame(&frame)) {
            return Ok(());
        }
        match illegal {
            // Without a receive the request would have two errors.
            Illegal::TooLong(O::Send, _) | Illegal::Right(O::WriteImm) => self.post_receive(t)?,
            Illegal::Overlong(_) => self.post_receive_of(t, stray::SHORT)?,
            _ => {}
        }
        self.is_over = true;
        for _ in 0..TRIES {
            for frame in message.frames(&self.requester.channel) {
                t.send_frame(labels::ILLEGAL, &frame)?;
            }
            let until = t.now().after(ask::soon(t));
            while let Some(sign) = t.next_sign(self.requester.channel.qp, until)? {
                let Sign::Packet(received) = &sign else { continue };
                match nak_of(&received.packet()).map(|nak| nak.kind()) {
                    // The DUT lacks a resource for a moment, or a packet was lost: this NAK refuses nothing.
                    Some(SyndromeKind::RnrNak(timer)) => {
                        t.pause(timer.duration())?;
                        break;
                    }
                    Some(SyndromeKind::Nak(NakCode::PSN_SEQUENCE_ERROR)) => break,
                    Some(_) => return Ok(()),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Sends a malformed packet, and waits for its effects. The connection then ends, because the DUT may have refused
    /// the packet.
    fn malform(&mut self, t: &mut Tester<'_>, malformed: &Malformed) -> verbatim_tester::Step {
        if self.is_over {
            return Ok(());
        }
        if malformed.has_receive {
            self.post_receive(t)?;
        }
        if malformed.is_inside {
            let payload = ask::random_bytes(t, "First before a malformed packet", self.requester.mtu + 8);
            let message = Message::write(&self.requester.channel, self.next, TARGET, &payload);
            t.send_frame(labels::REQUEST, &self.requester.channel.frame(&message.packets[0]))?;
            self.next = self.next.next();
        }
        let on = On {
            channel: &self.requester.channel,
            next: self.next,
            answered: self.answering.end().minus(1),
            place: TARGET + 64,
        };
        let frame = malformed.frame(t, on);
        if t.executes_frame(&frame) {
            t.send_frame(labels::MALFORMED, &frame)?;
            for _ in 0..SIGNS {
                match t.next_sign(self.requester.channel.qp, t.now().after(MOMENT))? {
                    Some(sign) => self.hear(t, &sign)?,
                    None => break,
                }
            }
            // A NAK ends the peer's requests, but the DUT's own requests must still complete.
            self.is_over = false;
            self.settle(t)?;
        }
        self.is_over = true;
        Ok(())
    }

    /// Acts as requester and responder until all requests are answered and completed, or until the DUT stays
    /// silent.
    pub(super) fn settle(&mut self, t: &mut Tester<'_>) -> verbatim_tester::Step {
        let (mut tries, mut signs) = (0, 0);
        while !self.is_over && signs < SIGNS {
            let mine = self.messages.iter().any(|flying| !flying.is_done);
            let due = self
                .messages
                .iter()
                .filter(|flying| flying.is_done && flying.takes_receive());
            let received = due.count() as u64 <= self.received;
            if !mine && received && self.completed == self.answering.posted.len() {
                self.is_over |= self.has_failed;
                return Ok(());
            }
            let patience = if mine { ask::soon(t) } else { PATIENCE };
            match t.next_sign(self.requester.channel.qp, t.now().after(patience))? {
                Some(sign) => {
                    signs += 1;
                    self.hear(t, &sign)?;
                }
                None if mine && tries < TRIES && !self.has_failed => {
                    tries += 1;
                    self.send_again(t, self.oldest())?;
                }
                None if super::answering::put_off_again(t, self)? => {}
                None => self.is_over = true,
            }
        }
        self.is_over |= signs == SIGNS;
        Ok(())
    }

    /// Returns the PSN of the oldest unanswered message.
    fn oldest(&self) -> Psn {
        let open = self.messages.iter().find(|flying| !flying.is_done);
        open.map_or(self.next, |flying| flying.message.first())
    }

    fn hear(&mut self, t: &mut Tester<'_>, sign: &Sign) -> verbatim_tester::Step {
        match sign {
            Sign::Completion(completion) => {
                self.has_failed |= completion.status != 0;
                if completion.wr_id >= RECEIVES {
                    self.received += 1;
                } else {
                    self.completed += 1;
                }
                Ok(())
            }
            Sign::Packet(received) => {
                let packet = received.packet();
                let is_ours = packet.bth().dest_qp() == self.requester.channel.own_qpn;
                if !is_ours || packet.opcode() == Opcode::CNP {
                    Ok(())
                } else if packet.opcode().is_response() {
                    self.answered(t, &packet)
                } else {
                    super::answering::serve(t, self, &packet)
                }
            }
        }
    }

    /// Handles a response of the DUT to a message.
    fn answered(&mut self, t: &mut Tester<'_>, packet: &Packet<'_>) -> verbatim_tester::Step {
        let psn = packet.bth().psn();
        let is_old = psn.since(self.oldest()) >= HALF;
        if is_old || psn.since(self.next) < HALF {
            return Ok(());
        }
        let kind = packet.aeth().map(|aeth| aeth.syndrome().kind());
        match (packet.opcode(), kind) {
            (Opcode::RC_ACKNOWLEDGE, Some(SyndromeKind::Ack(_))) => self.acknowledge(psn),
            (Opcode::RC_ACKNOWLEDGE, Some(SyndromeKind::RnrNak(timer))) => {
                self.acknowledge(psn.minus(1));
                if let Some(answered) = self.meanwhile.take().and_then(|at| self.messages.get(at)) {
                    for frame in answered.message.frames(&self.requester.channel) {
                        t.send_frame(labels::DUPLICATE, &frame)?;
                    }
                }
                t.pause(timer.duration())?;
                return self.send_again(t, psn);
            }
            (Opcode::RC_ACKNOWLEDGE, _) if is_sequence(packet) => {
                self.acknowledge(psn.minus(1));
                return self.send_again(t, psn);
            }
            // The DUT refused a request, or sent a syndrome without a meaning.
            (Opcode::RC_ACKNOWLEDGE, _) => self.is_over = true,
            (opcode, _) => {
                let is_atomic = opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE;
                let of = self.messages.iter_mut().filter(|flying| flying.returns_data());
                for flying in of {
                    if is_atomic && flying.message.first() == psn {
                        flying.is_done = true;
                    } else if !is_atomic && !flying.missing.is_empty() {
                        flying.missing.retain(|missing| *missing != psn);
                        flying.is_done |= flying.missing.is_empty();
                    }
                }
                self.acknowledge(psn.minus(1));
            }
        }
        Ok(())
    }

    /// Marks all SENDs and WRITEs up to a PSN as done.
    fn acknowledge(&mut self, psn: Psn) {
        for flying in &mut self.messages {
            let last = flying.message.last();
            flying.is_done |= !flying.returns_data() && psn.since(last) < HALF;
        }
    }

    /// Reads the memory, queries the state of the queue pair, and ends the connection.
    pub(super) fn close(mut self, t: &mut Tester<'_>) -> verbatim_tester::Step {
        ask::drain(t)?;
        self.is_over = true;
        // Read all memory: the part after the filled bytes must be unchanged.
        let channel = &self.requester.channel;
        ask::read_memory(t, channel, steps::MEMORY, channel.memory.length)?;
        let memory = channel.memory.handle;
        self.requester.close(t)?;
        // A host limits the registered memory, and a test may have thousands of connections.
        t.verbs(
            labels::DEREGISTER,
            Side::Dut,
            Command::DeregisterMemory(pb::DeregisterMemory { memory }),
        )?;
        Ok(())
    }
}

/// Replaces an operation that the DUT lacks by a WRITE, if the error stays the same.
fn instead(t: &Tester<'_>, illegal: Illegal) -> Illegal {
    match illegal {
        Illegal::RKey(operation, bit) if !t.executes(operation) => Illegal::RKey(O::Write, bit),
        Illegal::Beyond(operation) if !t.executes(operation) => Illegal::Beyond(O::Write),
        Illegal::Before(operation) if !t.executes(operation) => Illegal::Before(O::Write),
        Illegal::Address(operation, bit) if !t.executes(operation) => Illegal::Address(O::Write, bit),
        Illegal::Around(operation) if !t.executes(operation) => Illegal::Around(O::Write),
        same => same,
    }
}

fn is_sequence(packet: &Packet<'_>) -> bool {
    nak_of(packet) == Some(Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR))
}

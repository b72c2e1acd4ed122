//! The peer as requester: messages of its own making, sent until their answer has come.

use core::time::Duration;

pub(crate) use verbatim_oracle::rc::{HALF, ON_ITS_WAY, RESPONSE_WAIT, is_sequence_nak, nak_of};
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Frames, Label, Side, TRIES, Verbs};
use verbatim_tester::peer::Channel;
use verbatim_tester::{Step, Tester};
use verbatim_wire::packet::{AtomicEth, ImmDt, Opcode, Psn, Reth, SyndromeKind, Transport};
use verbatim_wire::values::{Hex32, Hex64};

/// How long an answer may take before the request is sent again: longer where the DUT says that it takes longer.
pub(crate) fn soon(t: &Tester<'_>) -> Duration {
    RESPONSE_WAIT.max(t.answer_time())
}

/// How long late answers to a request that was sent again are waited for.
const DRAIN: Duration = Duration::from_millis(100);
/// A look at memory that tells only whether it must be waited for.
pub(crate) const AT_ONCE: Label<Verbs> = Label::new("look at the memory at once");

/// A notice of congestion (annex A17.9); the PSN says nothing.
pub(crate) fn cnp(channel: &Channel) -> Vec<u8> {
    let mut cnp = channel.transport(Opcode::CNP, Psn(0));
    cnp.bth = cnp.bth.with_becn(true);
    cnp.payload = vec![0; 16];
    channel.frame(&cnp)
}

/// Sends a frame that is to have no effect, [`TRIES`] times: one that is lost must not look like one without an effect.
pub(crate) fn insist(t: &mut Tester<'_>, label: Label<Frames>, frame: &[u8]) -> Step {
    for _ in 0..TRIES {
        t.send_frame(label, frame)?;
    }
    Ok(())
}

/// A request: one message, in its packets. The last one asks for an acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The packets, in order.
    pub(crate) packets: Vec<Transport>,
    /// PSNs that it takes: a READ takes one for each response.
    psns: u32,
}

/// First, Middle, Last and Only of an operation that carries data.
const SEND: [Opcode; 4] = [
    Opcode::RC_SEND_FIRST,
    Opcode::RC_SEND_MIDDLE,
    Opcode::RC_SEND_LAST,
    Opcode::RC_SEND_ONLY,
];
const WRITE: [Opcode; 4] = [
    Opcode::RC_WRITE_FIRST,
    Opcode::RC_WRITE_MIDDLE,
    Opcode::RC_WRITE_LAST,
    Opcode::RC_WRITE_ONLY,
];

impl Message {
    /// A SEND.
    pub(crate) fn send(channel: &Channel, psn: Psn, payload: &[u8]) -> Self {
        Self::with_data(channel, psn, payload, SEND)
    }

    /// An RDMA WRITE to so many bytes behind the beginning of the DUT's memory.
    pub(crate) fn write(channel: &Channel, psn: Psn, offset: u32, payload: &[u8]) -> Self {
        let mut message = Self::with_data(channel, psn, payload, WRITE);
        message.packets[0].reth = Some(reth(channel, offset, payload.len() as u32));
        message
    }

    /// An RDMA READ of so many bytes.
    pub(crate) fn read(channel: &Channel, psn: Psn, offset: u32, length: u32) -> Self {
        let request = Transport {
            reth: Some(reth(channel, offset, length)),
            ..channel.transport(Opcode::RC_READ_REQUEST, psn)
        };
        Self::one(request, length.div_ceil(mtu(channel)).max(1))
    }

    /// A CmpSwap.
    pub(crate) fn compare_swap(channel: &Channel, psn: Psn, offset: u32, (compare, swap): (u64, u64)) -> Self {
        Self::atomic(channel, Opcode::RC_COMPARE_SWAP, psn, offset, (swap, compare))
    }

    /// A FetchAdd.
    pub(crate) fn fetch_add(channel: &Channel, psn: Psn, offset: u32, add: u64) -> Self {
        Self::atomic(channel, Opcode::RC_FETCH_ADD, psn, offset, (add, 0))
    }

    fn atomic(channel: &Channel, opcode: Opcode, psn: Psn, offset: u32, (swap_add, compare): (u64, u64)) -> Self {
        let atomic = AtomicEth::default()
            .with_va(Hex64(channel.memory.address.wrapping_add(offset.into())))
            .with_r_key(channel.memory.r_key)
            .with_swap_add(Hex64(swap_add))
            .with_compare(Hex64(compare));
        let request = Transport {
            atomic: Some(atomic),
            ..channel.transport(opcode, psn)
        };
        Self::one(request, 1)
    }

    /// A message of one packet, whatever it is. It asks for an acknowledgement; but a READ or atomic with an even PSN, which has its response
    /// all the same.
    pub(crate) fn one(mut packet: Transport, psns: u32) -> Self {
        let has_response = packet.atomic.is_some() || packet.bth.opcode() == Opcode::RC_READ_REQUEST;
        let is_even = packet.bth.psn().0.is_multiple_of(2);
        packet.bth = packet.bth.with_ack_request(!(has_response && is_even));
        Self {
            packets: vec![packet],
            psns,
        }
    }

    /// Messages of one packet each, one behind the other; the last one asks for an acknowledgement of all.
    pub(crate) fn several(messages: impl Iterator<Item = Self>) -> Self {
        let mut packets: Vec<_> = messages.flat_map(|message| message.packets).collect();
        let end = packets.len() - 1;
        for packet in &mut packets[..end] {
            packet.bth = packet.bth.with_ack_request(false);
        }
        let psns = packets.len() as u32;
        Self { packets, psns }
    }

    fn with_data(channel: &Channel, psn: Psn, payload: &[u8], [first, middle, last, only]: [Opcode; 4]) -> Self {
        let parts: Vec<&[u8]> = if payload.is_empty() {
            vec![&[]]
        } else {
            payload.chunks(mtu(channel) as usize).collect()
        };
        let end = parts.len() - 1;
        let packets = parts
            .iter()
            .enumerate()
            .map(|(at, part)| {
                let opcode = match at {
                    0 if end == 0 => only,
                    0 => first,
                    _ if at == end => last,
                    _ => middle,
                };
                let mut packet = Transport {
                    payload: part.to_vec(),
                    ..channel.transport(opcode, psn.plus(at as u32))
                };
                packet.bth = packet.bth.with_ack_request(at == end);
                packet
            })
            .collect();
        Self {
            packets,
            psns: parts.len() as u32,
        }
    }

    /// The same SEND or WRITE with Immediate.
    pub(crate) fn with_imm(mut self, data: u32) -> Self {
        if let Some(last) = self.packets.last_mut() {
            // The code behind Last and Only is that with Immediate.
            let opcode = Opcode(last.bth.opcode().0 + 1);
            last.bth = last.bth.with_opcode(opcode);
            last.imm = Some(ImmDt::default().with_data(Hex32(data)));
        }
        self
    }

    /// The same with its packets changed.
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Vec<Transport>)) -> Self {
        change(&mut self.packets);
        self
    }

    /// Its first PSN.
    pub(crate) fn first(&self) -> Psn {
        self.packets[0].bth.psn()
    }

    /// Its last PSN.
    pub(crate) fn last(&self) -> Psn {
        self.next().minus(1)
    }

    /// The PSN behind it.
    pub(crate) fn next(&self) -> Psn {
        self.first().plus(self.psns)
    }

    /// Its packets as frames.
    pub(crate) fn frames(&self, channel: &Channel) -> Vec<Vec<u8>> {
        self.packets.iter().map(|packet| channel.frame(packet)).collect()
    }
}

fn reth(channel: &Channel, offset: u32, length: u32) -> Reth {
    Reth::default()
        .with_va(Hex64(channel.memory.address.wrapping_add(offset.into())))
        .with_r_key(channel.memory.r_key)
        .with_dma_len(length)
}

/// Bytes of a full packet.
pub(crate) fn mtu(channel: &Channel) -> u32 {
    channel.mtu.bytes().unwrap_or(256)
}

/// Sends a message until its answer has come, three times at most. Whether it came.
///
/// An RNR NAK is no answer: the DUT may lack a resource for a moment, so its interval is waited for and the message is sent
/// again.
pub(crate) fn ask(t: &mut Tester<'_>, channel: &Channel, label: Label<Frames>, message: &Message) -> Step<bool> {
    ask_from(t, channel, label, message, 0)
}

/// The same of a message that lacks a receive: an RNR NAK is its answer.
pub(crate) fn ask_unready(
    t: &mut Tester<'_>,
    channel: &Channel,
    label: Label<Frames>,
    message: &Message,
) -> Step<bool> {
    until_answered(t, channel, label, message, (0, true))
}

/// The same as [`ask`], but the first packets were sent already: the first try sends the others alone.
pub(crate) fn ask_from(
    t: &mut Tester<'_>,
    channel: &Channel,
    label: Label<Frames>,
    message: &Message,
    sent: usize,
) -> Step<bool> {
    until_answered(t, channel, label, message, (sent, false))
}

fn until_answered(
    t: &mut Tester<'_>,
    channel: &Channel,
    label: Label<Frames>,
    message: &Message,
    (sent, is_unready): (usize, bool),
) -> Step<bool> {
    t.skip_packets();
    let frames = message.frames(channel);
    for attempt in 0..TRIES {
        let from = if attempt == 0 { sent } else { 0 };
        for frame in &frames[from..] {
            t.send_frame(label, frame)?;
        }
        if hears(t, channel, message, is_unready)? {
            if attempt > 0 {
                drain(t)?;
            }
            return Ok(true);
        }
    }
    drain(t)?;
    Ok(false)
}

/// What answers to tries before the last comes now, not among the answers to the next request.
pub(crate) fn drain(t: &mut Tester<'_>) -> Step {
    let until = t.now().after(DRAIN.max(t.answer_time()));
    while t.next_packet(until)?.is_some() {}
    Ok(())
}

/// Whether the whole answer comes. A sequence NAK says that a packet of ours was lost: it is no answer. Nor is an RNR NAK,
/// unless the message lacks a receive; its interval is waited for.
fn hears(t: &mut Tester<'_>, channel: &Channel, message: &Message, is_unready: bool) -> Step<bool> {
    let until = t.now().after(soon(t));
    let is_read = message.packets[0].bth.opcode() == Opcode::RC_READ_REQUEST;
    let mut missing: Vec<Psn> = if is_read {
        (0..message.psns).map(|at| message.first().plus(at)).collect()
    } else {
        Vec::new()
    };
    while let Some(received) = t.next_packet(until)? {
        let packet = received.packet();
        let (opcode, psn) = (packet.opcode(), packet.bth().psn());
        if packet.bth().dest_qp() != channel.own_qpn {
            continue;
        }
        if is_sequence_nak(&packet) {
            return Ok(false);
        }
        if let Some(syndrome) = nak_of(&packet) {
            return match syndrome.kind() {
                SyndromeKind::RnrNak(timer) if !is_unready => {
                    t.pause(timer.duration())?;
                    Ok(false)
                }
                _ => Ok(true),
            };
        }
        let is_acknowledge = matches!(opcode, Opcode::RC_ACKNOWLEDGE | Opcode::RC_ATOMIC_ACKNOWLEDGE);
        if is_read && !is_acknowledge {
            missing.retain(|one| *one != psn);
            if missing.is_empty() {
                return Ok(true);
            }
        } else if !is_read && is_acknowledge && psn.since(message.last()) < HALF {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits for the DUT's next packet on this connection, for as long as an answer may take. Whether one came.
pub(crate) fn listen(t: &mut Tester<'_>, channel: &Channel) -> Step<bool> {
    let until = t.now().after(soon(t));
    while let Some(received) = t.next_packet(until)? {
        if received.packet().bth().dest_qp() == channel.own_qpn {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sends the packets of a message once, and waits for nothing.
pub(crate) fn put(t: &mut Tester<'_>, channel: &Channel, label: Label<Frames>, message: &Message) -> Step {
    for frame in message.frames(channel) {
        t.send_frame(label, &frame)?;
    }
    Ok(())
}

/// Writes the DUT's memory.
pub(crate) fn fill(t: &mut Tester<'_>, channel: &Channel, label: Label<Verbs>, offset: u32, bytes: Vec<u8>) -> Step {
    let write = Command::WriteMemory(pb::WriteMemory {
        memory: channel.memory.handle,
        offset,
        bytes,
    });
    t.verbs_must(label, Side::Dut, write).map(drop)
}

/// Reads the first bytes of the DUT's memory: at once where the host sees all that was acknowledged, else when it must.
pub(crate) fn read_memory(t: &mut Tester<'_>, channel: &Channel, label: Label<Verbs>, length: u32) -> Step<Reply> {
    let read = || {
        Command::ReadMemory(pb::ReadMemory {
            from: Some(channel.memory.slice(0, length)),
        })
    };
    let latest = t.last_frame().after(ON_ITS_WAY);
    let shows_all = if t.is_simulated() || !t.is_landing() {
        !t.is_landing()
    } else {
        match t.verbs(AT_ONCE, Side::Dut, read())? {
            Reply::Bytes(found) => !t.is_missing(channel.memory.address, &found.bytes),
            _ => false,
        }
    };
    if !shows_all {
        t.wait_until(latest)?;
    }
    let reply = t.verbs(label, Side::Dut, read())?;
    t.looked_at_memory();
    Ok(reply)
}

/// Posts a receive on the DUT's queue pair.
pub(crate) fn post_receive(
    t: &mut Tester<'_>,
    channel: &Channel,
    label: Label<Verbs>,
    wr_id: u64,
    (offset, length): (u32, u32),
) -> Step {
    let post = Command::PostReceive(pb::PostReceive {
        qp: channel.qp,
        wr_id,
        local: Some(channel.memory.slice(offset, length)),
    });
    t.verbs_must(label, Side::Dut, post).map(drop)
}

/// Asks for the state of the DUT's queue pair: the host is there.
pub(crate) fn query(t: &mut Tester<'_>, channel: &Channel, label: Label<Verbs>) -> Step<Reply> {
    t.verbs(label, Side::Dut, Command::QueryQp(pb::QueryQp { qp: channel.qp }))
}

/// Random bytes, none of them 0: what was not written shows.
pub(crate) fn random_bytes(t: &Tester<'_>, name: &str, count: u32) -> Vec<u8> {
    let mut random = t.random(name);
    (0..count).map(|_| random.byte().max(1)).collect()
}

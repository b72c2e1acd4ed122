//! The peer as requester: messages that it sends until the DUT responds.

use core::time::Duration;

pub(crate) use verbatim_oracle::rc::{HALF, ON_ITS_WAY, RESPONSE_WAIT, is_sequence_nak, nak_of};
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Frames, Label, Side, TRIES, Verbs};
use verbatim_tester::peer::Channel;
use verbatim_tester::{Step, Tester};
use verbatim_wire::packet::{AtomicEth, ImmDt, Opcode, Psn, Reth, SyndromeKind, Transport};
use verbatim_wire::values::{Hex32, Hex64};

/// Returns how long the peer waits for a response before it repeats a request. A slow DUT gets more time.
pub(crate) fn soon(t: &Tester<'_>) -> Duration {
    RESPONSE_WAIT.max(t.answer_time())
}

/// Wait for late responses to a repeated request.
const DRAIN: Duration = Duration::from_millis(100);
/// Memory read that decides only whether the final read must wait.
pub(crate) const AT_ONCE: Label<Verbs> = Label::new("look at the memory at once");

/// Builds a congestion notification packet (annex A17.9); its PSN has no meaning.
pub(crate) fn cnp(channel: &Channel) -> Vec<u8> {
    let mut cnp = channel.transport(Opcode::CNP, Psn(0));
    cnp.bth = cnp.bth.with_becn(true);
    cnp.payload = vec![0; 16];
    channel.frame(&cnp)
}

/// Sends a frame that must have no effect [`TRIES`] times, because a lost frame has no effect either.
pub(crate) fn insist(t: &mut Tester<'_>, label: Label<Frames>, frame: &[u8]) -> Step {
    for _ in 0..TRIES {
        t.send_frame(label, frame)?;
    }
    Ok(())
}

/// A request message, split into packets.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) packets: Vec<Transport>,
    /// Number of PSNs that the message uses; a READ uses one for each response packet.
    psns: u32,
}

/// Opcodes of an operation: First, Middle, Last, Only.
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
    pub(crate) fn send(channel: &Channel, psn: Psn, payload: &[u8]) -> Self {
        Self::with_data(channel, psn, payload, SEND)
    }

    /// Builds an RDMA WRITE to `offset` in the DUT's memory.
    pub(crate) fn write(channel: &Channel, psn: Psn, offset: u32, payload: &[u8]) -> Self {
        let mut message = Self::with_data(channel, psn, payload, WRITE);
        message.packets[0].reth = Some(reth(channel, offset, payload.len() as u32));
        message
    }

    /// Builds an RDMA READ of `length` bytes.
    pub(crate) fn read(channel: &Channel, psn: Psn, offset: u32, length: u32) -> Self {
        let request = Transport {
            reth: Some(reth(channel, offset, length)),
            ..channel.transport(Opcode::RC_READ_REQUEST, psn)
        };
        Self::one(request, length.div_ceil(mtu(channel)).max(1))
    }

    pub(crate) fn compare_swap(channel: &Channel, psn: Psn, offset: u32, (compare, swap): (u64, u64)) -> Self {
        Self::atomic(channel, Opcode::RC_COMPARE_SWAP, psn, offset, (swap, compare))
    }

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

    /// Makes a message of one packet that requests an acknowledgement.
    ///
    /// A READ or atomic with an even PSN does not request an acknowledgement: the responder answers it anyway.
    pub(crate) fn one(mut packet: Transport, psns: u32) -> Self {
        let returns_data = packet.atomic.is_some() || packet.bth.opcode() == Opcode::RC_READ_REQUEST;
        let is_even = packet.bth.psn().0.is_multiple_of(2);
        packet.bth = packet.bth.with_ack_request(!(returns_data && is_even));
        Self {
            packets: vec![packet],
            psns,
        }
    }

    /// Joins messages of one packet each. Only the last packet requests an acknowledgement.
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

    /// Turns a SEND or WRITE into the form with Immediate.
    pub(crate) fn with_imm(mut self, data: u32) -> Self {
        if let Some(last) = self.packets.last_mut() {
            // The opcode after Last or Only is its form with Immediate.
            let opcode = Opcode(last.bth.opcode().0 + 1);
            last.bth = last.bth.with_opcode(opcode);
            last.imm = Some(ImmDt::default().with_data(Hex32(data)));
        }
        self
    }

    /// Turns a SEND or WRITE into the form with Immediate, if the DUT executes that form.
    pub(crate) fn with_imm_if_executed(self, t: &Tester<'_>, data: u32) -> Self {
        let form = match self.packets[0].reth {
            Some(_) => pb::Operation::WriteImm,
            None => pb::Operation::SendImm,
        };
        if t.executes(form) { self.with_imm(data) } else { self }
    }

    /// Returns the message with its packets changed.
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Vec<Transport>)) -> Self {
        change(&mut self.packets);
        self
    }

    pub(crate) fn first(&self) -> Psn {
        self.packets[0].bth.psn()
    }

    pub(crate) fn last(&self) -> Psn {
        self.next().minus(1)
    }

    /// Returns the PSN after the message.
    pub(crate) fn next(&self) -> Psn {
        self.first().plus(self.psns)
    }

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

/// Returns the path MTU in bytes.
pub(crate) fn mtu(channel: &Channel) -> u32 {
    channel.mtu.bytes().unwrap_or(256)
}

/// Sends a message until the DUT responds, three times at most. Returns whether the DUT responded.
///
/// An RNR NAK is no response: the DUT may lack a resource for a moment. The peer waits for the NAK's interval and
/// repeats the message.
pub(crate) fn ask(t: &mut Tester<'_>, channel: &Channel, label: Label<Frames>, message: &Message) -> Step<bool> {
    ask_from(t, channel, label, message, 0)
}

/// Sends a message as [`ask`] does, but without a posted receive: an RNR NAK is the response.
pub(crate) fn ask_unready(
    t: &mut Tester<'_>,
    channel: &Channel,
    label: Label<Frames>,
    message: &Message,
) -> Step<bool> {
    until_answered(t, channel, label, message, (0, true))
}

/// Sends a message as [`ask`] does. The first try skips the first `sent` packets, which the peer has sent already.
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

/// Waits for responses to earlier tries, so that they do not mix with the responses to the next request.
pub(crate) fn drain(t: &mut Tester<'_>) -> Step {
    let until = t.now().after(DRAIN.max(t.answer_time()));
    while t.next_packet(until)?.is_some() {}
    Ok(())
}

/// Waits for the whole response. Returns whether it arrived.
///
/// A sequence NAK is no response: it reports a lost packet. An RNR NAK is a response only if `is_unready`; otherwise
/// the function waits for the NAK's interval.
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

/// Waits for the DUT's next packet on this connection, as long as a response may take. Returns whether a packet
/// arrived.
pub(crate) fn listen(t: &mut Tester<'_>, channel: &Channel) -> Step<bool> {
    let until = t.now().after(soon(t));
    while let Some(received) = t.next_packet(until)? {
        if received.packet().bth().dest_qp() == channel.own_qpn {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sends the packets of a message once, and waits for no response.
pub(crate) fn put(t: &mut Tester<'_>, channel: &Channel, label: Label<Frames>, message: &Message) -> Step {
    for frame in message.frames(channel) {
        t.send_frame(label, &frame)?;
    }
    Ok(())
}

/// Writes bytes to the DUT's memory.
pub(crate) fn fill(t: &mut Tester<'_>, channel: &Channel, label: Label<Verbs>, offset: u32, bytes: Vec<u8>) -> Step {
    let write = Command::WriteMemory(pb::WriteMemory {
        memory: channel.memory.handle,
        offset,
        bytes,
    });
    t.verbs_must(label, Side::Dut, write).map(drop)
}

/// Reads the first bytes of the DUT's memory.
///
/// Reads at once if the host already sees all acknowledged data, otherwise when the data must have arrived.
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

/// Queries the state of the DUT's queue pair. A reply shows that the host is alive.
pub(crate) fn query(t: &mut Tester<'_>, channel: &Channel, label: Label<Verbs>) -> Step<Reply> {
    t.verbs(label, Side::Dut, Command::QueryQp(pb::QueryQp { qp: channel.qp }))
}

/// Returns random bytes without a 0, so that a 0 shows memory that was not written.
pub(crate) fn random_bytes(t: &Tester<'_>, name: &str, count: u32) -> Vec<u8> {
    let mut random = t.random(name);
    (0..count).map(|_| random.byte().max(1)).collect()
}

//! Helpers of procedures with the DUT as requester: they post requests, wait for packets and send responses.
//!
//! A [`Requester`] tracks the PSNs that the DUT must use and the MSN that a responder would report. It draws no
//! conclusions: judges read the record with [`super::cases`].

use core::time::Duration;

use verbatim_oracle::rc::{psns, steps};
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Frames, Label, Side, TRIES};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Step, Tester};
use verbatim_wire::packet::{Aeth, AtomicAckEth, NakCode, Opcode, Psn, RnrTimer, Syndrome, Transport};
use verbatim_wire::values::Hex64;

/// Longest wait for a packet or completion that the test does not delay.
const PACKET_WAIT: Duration = Duration::from_secs(2);
/// Wait for the next packet of a message, before the peer sends an ACK to let the DUT continue.
const BRIEF: Duration = Duration::from_millis(20);
/// Remote address of the DUT's requests. The tester answers them without memory at this address.
const REMOTE: u64 = 0x0099_9000;
const R_KEY: u32 = 0x0001_2345;
/// Original value that the tester's ATOMIC ACKNOWLEDGEs carry.
const ORIGINAL: u64 = 0xFF2D_B500_1E58_B3E7;
/// Offset of the results of READs and atomics, after the data of SENDs and WRITEs.
pub(crate) const RESULTS: u32 = 32 * 1024;
/// Length of the memory that the tester fills, in bytes.
const FILLED: u32 = 48 * 1024;

/// A request for the DUT to post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) operation: pb::Operation,
    /// Offset of the local buffer in the DUT's memory.
    pub(crate) offset: u32,
    /// Length of the local buffer in bytes.
    pub(crate) length: u32,
    /// Whether the request asks for a solicited event.
    pub(crate) solicited: bool,
    /// Whether the request waits for earlier READs and atomics (fence).
    pub(crate) fence: bool,
    /// Whether the request is unsignaled: it then completes only on failure.
    pub(crate) silent: bool,
    /// Immediate data, or the value that an atomic adds or swaps in. `None` derives the value from the request's
    /// number.
    pub(crate) value: Option<u64>,
}

impl Ask {
    /// Makes a request over `length` bytes of local memory, at [`RESULTS`] for READs and atomics, else at 0.
    pub(crate) const fn new(operation: pb::Operation, length: u32) -> Self {
        let results = matches!(
            operation,
            pb::Operation::Read | pb::Operation::CompareSwap | pb::Operation::FetchAdd
        );
        Self {
            operation,
            offset: if results { RESULTS } else { 0 },
            length,
            solicited: false,
            fence: false,
            silent: false,
            value: None,
        }
    }

    /// Makes a SEND of `length` bytes.
    pub(crate) const fn send(length: u32) -> Self {
        Self::new(pb::Operation::Send, length)
    }

    /// Returns the request with its local buffer at another offset.
    pub(crate) const fn at(self, offset: u32) -> Self {
        Self { offset, ..self }
    }
}

/// Returns the remote address of a request.
///
/// READs with an odd number start at most 128 bytes below a multiple of 2^32, so that a longer first packet crosses
/// that multiple.
fn remote_address(operation: pb::Operation, number: u64, spread: u64) -> u64 {
    let address = REMOTE.wrapping_add(spread >> 1);
    match operation {
        pb::Operation::CompareSwap | pb::Operation::FetchAdd => address & !7,
        pb::Operation::Read if number % 2 == 1 => address | 0xFFFF_FF80,
        _ => address,
    }
}

/// A request that the DUT has posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) ask: Ask,
    pub(crate) first: Psn,
    pub(crate) last: Psn,
    /// MSN that the response carries.
    pub(crate) msn: u32,
}

/// A connection on which the DUT is the requester.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) channel: Channel,
    /// Path MTU in bytes.
    pub(crate) mtu: u32,
    /// Bytes with which the tester filled the DUT's memory.
    pub(crate) memory: Vec<u8>,
    /// AETH syndrome of the tester's ACKs and responses: an ACK with its credit count.
    pub(crate) syndrome: Syndrome,
    next: Psn,
    posted: u32,
    /// Number of requests posted on earlier connections.
    before: u32,
    /// Number added to the count of requests to form a wr_id.
    wr_ids: u64,
}

impl Requester {
    /// Opens a connection and fills the DUT's memory with random bytes.
    pub(crate) fn open(t: &mut Tester<'_>, options: &ChannelOptions) -> Step<Self> {
        let channel = t.open_channel(options)?;
        let mut random = t.random("memory");
        let memory: Vec<u8> = (0..FILLED).map(|_| random.byte()).collect();
        let fill = Command::WriteMemory(pb::WriteMemory {
            memory: channel.memory.handle,
            offset: 0,
            bytes: memory.clone(),
        });
        t.verbs_must(steps::FILL, Side::Dut, fill)?;
        t.skip_packets();
        Ok(Self {
            channel,
            mtu: channel.mtu.bytes().unwrap_or(256),
            memory,
            syndrome: Syndrome::ACK,
            next: channel.dut_psn,
            posted: 0,
            before: 0,
            wr_ids: 0,
        })
    }

    /// Returns the requester with wr_ids that start after `wr_ids`.
    pub(crate) fn numbered_from(self, wr_ids: u64) -> Self {
        Self { wr_ids, ..self }
    }

    /// Opens another connection of the same queue pair, which must be in RESET.
    ///
    /// The wr_ids continue, so that a judge can recognize completions of the earlier connection.
    pub(crate) fn again(mut self, t: &mut Tester<'_>, options: &ChannelOptions) -> Step<Self> {
        self.reconnect(t, options)?;
        Ok(self)
    }

    /// Opens another connection as [`again`](Self::again) does, but in place. The channel keeps its header values.
    pub(crate) fn reconnect(&mut self, t: &mut Tester<'_>, options: &ChannelOptions) -> Step {
        let channel = t.open_channel_again(&self.channel, options)?;
        let fill = Command::WriteMemory(pb::WriteMemory {
            memory: channel.memory.handle,
            offset: 0,
            bytes: self.memory.clone(),
        });
        t.verbs_must(steps::FILL, Side::Dut, fill)?;
        t.skip_packets();
        self.channel = Channel {
            marks: self.channel.marks,
            ..channel
        };
        self.mtu = channel.mtu.bytes().unwrap_or(256);
        self.next = channel.dut_psn;
        self.before += self.posted;
        self.posted = 0;
        Ok(())
    }

    /// Has the DUT post a request with the next wr_id: 1, 2, ..., or counted from
    /// [`numbered_from`](Self::numbered_from).
    ///
    /// Returns `None` if the host refused an operation that a device may lack: all but SEND, RDMA WRITE and RDMA READ.
    ///
    /// # Errors
    /// Returns an error when the host refused a SEND, RDMA WRITE or RDMA READ, or when the run must stop.
    pub(crate) fn try_post(&mut self, t: &mut Tester<'_>, ask: Ask) -> Step<Option<Sent>> {
        let number = u64::from(self.before + self.posted) + 1;
        // Spreads the number over 64 bits, so that each bit of addresses, keys and operands takes both values.
        let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let is_swap = ask.operation == pb::Operation::CompareSwap;
        let is_atomic = is_swap || ask.operation == pb::Operation::FetchAdd;
        let post = Command::PostSend(pb::PostSend {
            qp: self.channel.qp,
            wr_id: self.wr_ids + number,
            operation: ask.operation.into(),
            local: Some(self.channel.memory.slice(ask.offset, ask.length)),
            signaled: !ask.silent,
            solicited: ask.solicited,
            fence: ask.fence,
            remote_address: remote_address(ask.operation, number, spread),
            r_key: R_KEY ^ (spread >> 32) as u32,
            compare: if is_swap { ORIGINAL } else { 0 },
            swap_add: if is_atomic {
                ask.value.unwrap_or(0x0102_0304_0506_0708 ^ spread)
            } else {
                0
            },
            imm: ask.value.unwrap_or(0xC0DE_0001 ^ spread) as u32,
            ..pb::PostSend::default()
        });
        let reply = match ask.operation {
            // Without these operations, a PASS would show nothing.
            pb::Operation::Send | pb::Operation::Write | pb::Operation::Read => {
                t.verbs_must(steps::POST, Side::Dut, post)?
            }
            _ => t.verbs(steps::POST, Side::Dut, post)?,
        };
        if let Reply::Refused(_) = reply {
            return Ok(None);
        }
        self.posted += 1;
        let first = self.next;
        let last = first.plus(psns(ask.operation, ask.length, self.mtu) - 1);
        self.next = last.next();
        Ok(Some(Sent {
            ask,
            first,
            last,
            msn: self.posted,
        }))
    }

    /// Has the DUT post a request that its host must accept.
    ///
    /// # Errors
    /// Returns an error when the host refuses the request, or when the run must stop.
    pub(crate) fn post(&mut self, t: &mut Tester<'_>, ask: Ask) -> Step<Sent> {
        self.try_post(t, ask)?
            .ok_or_else(|| verbatim_tester::Stop::Refused("the host of the DUT's device refused a request".into()))
    }

    /// Waits for the DUT's next packet with this PSN on this connection, and skips other packets.
    ///
    /// Returns whether the packet arrived in time.
    pub(crate) fn see(&self, t: &mut Tester<'_>, psn: Psn, patience: Duration) -> Step<bool> {
        let until = t.now().after(patience);
        while let Some(received) = t.next_packet(until)? {
            let bth = received.packet().bth();
            if bth.dest_qp() == self.channel.own_qpn && bth.psn() == psn {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits for the DUT's next packet on this connection, except CNPs. Returns its PSN if it arrived in time.
    pub(crate) fn next_psn(&self, t: &mut Tester<'_>) -> Step<Option<Psn>> {
        let until = t.now().after(PACKET_WAIT);
        while let Some(received) = t.next_packet(until)? {
            let bth = received.packet().bth();
            if bth.dest_qp() == self.channel.own_qpn && bth.opcode() != Opcode::CNP {
                return Ok(Some(bth.psn()));
            }
        }
        Ok(None)
    }

    /// Waits for the last packet of a request. Returns whether the packet arrived in time.
    pub(crate) fn see_all(&self, t: &mut Tester<'_>, sent: &Sent) -> Step<bool> {
        let is_read = sent.ask.operation == pb::Operation::Read;
        self.see(t, if is_read { sent.first } else { sent.last }, PACKET_WAIT)
    }

    /// Has the DUT post requests that its host must accept, and waits for the last packet of each.
    ///
    /// Returns the requests, and whether all packets arrived in time.
    ///
    /// # Errors
    /// Returns an error when the host refuses a request, or when the run must stop.
    pub(crate) fn post_and_see<const N: usize>(
        &mut self,
        t: &mut Tester<'_>,
        asks: [Ask; N],
    ) -> Step<(Vec<Sent>, bool)> {
        let sent = asks
            .into_iter()
            .map(|ask| self.post(t, ask))
            .collect::<Step<Vec<_>>>()?;
        let mut all_seen = true;
        for sent in &sent {
            all_seen = all_seen && self.see_all(t, sent)?;
        }
        Ok((sent, all_seen))
    }

    /// Waits for the last packet of a request, and acknowledges each earlier packet that requests an ACK.
    ///
    /// Returns whether the last packet arrived.
    pub(crate) fn serve(&self, t: &mut Tester<'_>, label: Label<Frames>, sent: &Sent) -> Step<bool> {
        let last = if sent.ask.operation == pb::Operation::Read {
            sent.first
        } else {
            sent.last
        };
        loop {
            let until = t.now().after(PACKET_WAIT);
            let Some(received) = t.next_packet(until)? else {
                return Ok(false);
            };
            let bth = received.packet().bth();
            if bth.dest_qp() == self.channel.own_qpn && bth.psn() == last {
                return Ok(true);
            }
            let within = bth.psn().since(sent.first) < last.since(sent.first);
            if bth.dest_qp() == self.channel.own_qpn && within && bth.ack_request() {
                t.send_frame(label, &self.ack(bth.psn(), sent.msn - 1))?;
            }
        }
    }

    /// Waits for packet `at` of a message, counted from 0. Returns whether it arrived.
    ///
    /// If the packet does not arrive, the peer acknowledges the packets before it, to let the DUT continue.
    pub(crate) fn comes(
        &self,
        t: &mut Tester<'_>,
        labels: (Label<Frames>, Label<Frames>),
        sent: &Sent,
        at: u32,
    ) -> Step<bool> {
        let psn = sent.first.plus(at);
        if at == 0 {
            return self.see(t, psn, PACKET_WAIT);
        }
        let ack = self.ack(psn.minus(1), sent.msn - 1);
        Ok(self.see(t, psn, BRIEF)? || self.provoke(t, labels, &ack, (psn, PACKET_WAIT))?)
    }

    /// Builds the response of a responder: an ACK, READ responses, or an ATOMIC ACKNOWLEDGE.
    pub(crate) fn answers(&self, t: &Tester<'_>, sent: &Sent) -> Vec<Vec<u8>> {
        match sent.ask.operation {
            pb::Operation::Read => self.read_responses(sent, &response_data(t, sent)),
            pb::Operation::CompareSwap | pb::Operation::FetchAdd => vec![self.atomic_acknowledge(sent)],
            _ => vec![self.channel.acknowledge(sent.last, self.syndrome, sent.msn)],
        }
    }

    fn atomic_acknowledge(&self, sent: &Sent) -> Vec<u8> {
        self.channel.frame(&Transport {
            aeth: Some(Aeth::default().with_syndrome(self.syndrome).with_msn(sent.msn)),
            atomic_ack: Some(AtomicAckEth::default().with_original(Hex64(ORIGINAL))),
            ..self.channel.transport(Opcode::RC_ATOMIC_ACKNOWLEDGE, sent.first)
        })
    }

    fn read_responses(&self, sent: &Sent, data: &[u8]) -> Vec<Vec<u8>> {
        let count = sent.last.since(sent.first) + 1;
        let mtu = self.mtu as usize;
        (0..count)
            .map(|at| {
                let from = (at as usize * mtu).min(data.len());
                let opcode = read_response(at, count);
                self.response(sent, at, opcode, &data[from..(from + mtu).min(data.len())])
            })
            .collect()
    }

    /// Builds packet `at` of a READ response, with any opcode and payload.
    pub(crate) fn response(&self, sent: &Sent, at: u32, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let aeth = Aeth::default().with_syndrome(self.syndrome).with_msn(sent.msn);
        self.channel.frame(&Transport {
            aeth: (opcode != Opcode::RC_READ_RESPONSE_MIDDLE).then_some(aeth),
            payload: payload.to_vec(),
            ..self.channel.transport(opcode, sent.first.plus(at))
        })
    }

    /// Builds an ACK of all packets up to `psn`; `msn` is the number of completed messages.
    pub(crate) fn ack(&self, psn: Psn, msn: u32) -> Vec<u8> {
        self.channel.acknowledge(psn, self.syndrome, msn)
    }

    pub(crate) fn nak(&self, psn: Psn, code: NakCode, msn: u32) -> Vec<u8> {
        self.channel.acknowledge(psn, Syndrome::nak(code), msn)
    }

    pub(crate) fn rnr_nak(&self, psn: Psn, timer: RnrTimer, msn: u32) -> Vec<u8> {
        self.channel.acknowledge(psn, Syndrome::rnr_nak(timer), msn)
    }

    /// Waits for `count` completions. Returns how many arrived in time.
    pub(crate) fn completions(&self, t: &mut Tester<'_>, count: u32) -> Step<u32> {
        let until = t.now().after(PACKET_WAIT);
        for came in 0..count {
            if t.next_completion(Side::Dut, self.channel.qp, until)?.is_none() {
                return Ok(came);
            }
        }
        Ok(count)
    }

    /// Takes the completions that have already arrived. Returns their number.
    pub(crate) fn come(&self, t: &mut Tester<'_>) -> Step<u32> {
        let mut came = 0;
        while t.next_completion(Side::Dut, self.channel.qp, t.now())?.is_some() {
            came += 1;
        }
        Ok(came)
    }

    /// Sends responses and waits for `count` completions. Returns whether all arrived.
    ///
    /// The tester repeats a single response up to twice while completions are missing. It sends several responses only
    /// once. After a loss the DUT may request only the rest of a READ, and the old responses would not match that
    /// request.
    pub(crate) fn answer(
        &self,
        t: &mut Tester<'_>,
        (label, again): (Label<Frames>, Label<Frames>),
        frames: &[Vec<u8>],
        count: u32,
    ) -> Step<bool> {
        let mut missing = count;
        let tries = if frames.len() > 1 { 1 } else { TRIES };
        for attempt in 0..tries {
            for frame in frames {
                t.send_frame(if attempt == 0 { label } else { again }, frame)?;
            }
            missing -= self.completions(t, missing)?;
            if missing == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends a frame and waits for the DUT's packet with this PSN. Returns whether the packet arrived.
    ///
    /// The tester repeats the frame up to twice while the packet is missing.
    pub(crate) fn provoke(
        &self,
        t: &mut Tester<'_>,
        (label, again): (Label<Frames>, Label<Frames>),
        frame: &[u8],
        (psn, patience): (Psn, Duration),
    ) -> Step<bool> {
        for attempt in 0..TRIES {
            t.send_frame(if attempt == 0 { label } else { again }, frame)?;
            if self.see(t, psn, patience)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the filled memory back, so that a judge can compare all of it.
    pub(crate) fn read_memory(&self, t: &mut Tester<'_>) -> Step {
        let read = Command::ReadMemory(pb::ReadMemory {
            from: Some(self.channel.memory.slice(0, FILLED)),
        });
        t.verbs(steps::MEMORY, Side::Dut, read)?;
        Ok(())
    }

    /// Queries the queue pair's state, which shows that the host is alive, and destroys the queue pair.
    pub(crate) fn close(self, t: &mut Tester<'_>) -> Step {
        let qp = self.channel.qp;
        t.verbs(steps::STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp }))?;
        t.verbs(steps::DESTROY, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp }))?;
        t.skip_packets();
        Ok(())
    }
}

/// Returns the opcode of READ response packet `at` of `count`.
pub(crate) fn read_response(at: u32, count: u32) -> Opcode {
    match (at == 0, at + 1 == count) {
        (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
        (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
        (false, true) => Opcode::RC_READ_RESPONSE_LAST,
        (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
    }
}

/// Returns the payload of all responses to a READ.
pub(crate) fn response_data(t: &Tester<'_>, sent: &Sent) -> Vec<u8> {
    let mut random = t.random(&format!("response {}", sent.msn));
    (0..sent.ask.length).map(|_| random.byte()).collect()
}

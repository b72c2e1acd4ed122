//! The DUT as requester, from the procedure's side: what it is told to post, what is waited for, what answers it.
//!
//! A [`Requester`] keeps count of the PSNs that the DUT has to use and of the messages that a responder would have
//! completed. It concludes nothing: [`super::cases`] reads the same from the record.

use core::time::Duration;

use verbatim_oracle::rc::{psns, steps};
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Frames, Label, Side, TRIES};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Step, Tester};
use verbatim_wire::packet::{Aeth, AtomicAckEth, NakCode, Opcode, Psn, RnrTimer, Syndrome, Transport};
use verbatim_wire::values::Hex64;

/// How long a packet or completion may take that nothing holds back.
const PACKET_WAIT: Duration = Duration::from_secs(2);
/// How long the next packet of a message may take until it is asked for.
const BRIEF: Duration = Duration::from_millis(20);
/// Where the tester's memory would be; the tester has none, and needs none.
const REMOTE: u64 = 0x0099_9000;
/// The key of that memory.
const R_KEY: u32 = 0x0001_2345;
/// What an ATOMIC ACKNOWLEDGE says that the memory held.
const ORIGINAL: u64 = 0xFF2D_B500_1E58_B3E7;
/// Where the results of READs and atomics land, behind what is sent.
pub(crate) const RESULTS: u32 = 32 * 1024;
/// Bytes of the memory that are filled.
const FILLED: u32 = 48 * 1024;

/// A request for the DUT to post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// What it does.
    pub(crate) operation: pb::Operation,
    /// Where its local memory begins.
    pub(crate) offset: u32,
    /// Bytes of its local memory.
    pub(crate) length: u32,
    /// Whether the other side's completion raises an event.
    pub(crate) solicited: bool,
    /// Whether it waits for READs and atomics before it.
    pub(crate) fence: bool,
    /// Whether it completes only when it fails.
    pub(crate) silent: bool,
}

impl Ask {
    /// This operation over so many bytes: of what is sent, or of where results land.
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
        }
    }

    /// A SEND of so many bytes.
    pub(crate) const fn send(length: u32) -> Self {
        Self::new(pb::Operation::Send, length)
    }

    /// The same from, or to, another place.
    pub(crate) const fn at(self, offset: u32) -> Self {
        Self { offset, ..self }
    }
}

/// Where the other side's memory would be. Every other READ crosses a multiple of 2^32 with its first packet.
fn remote_address(operation: pb::Operation, number: u64, spread: u64) -> u64 {
    let address = REMOTE.wrapping_add(spread >> 1);
    match operation {
        pb::Operation::CompareSwap | pb::Operation::FetchAdd => address & !7,
        pb::Operation::Read if number % 2 == 1 => address | 0xFFFF_FF80,
        _ => address,
    }
}

/// A request that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// What was posted.
    pub(crate) ask: Ask,
    /// Its first PSN.
    pub(crate) first: Psn,
    /// Its last PSN.
    pub(crate) last: Psn,
    /// The MSN of its response.
    pub(crate) msn: u32,
}

/// A connection on which the DUT is the requester.
#[derive(Debug)]
pub(crate) struct Requester {
    /// The connection.
    pub(crate) channel: Channel,
    /// Bytes of the path MTU.
    pub(crate) mtu: u32,
    /// What the memory was filled with.
    pub(crate) memory: Vec<u8>,
    /// What its ACKs and responses say: an ACK, and of how many credits.
    pub(crate) syndrome: Syndrome,
    next: Psn,
    posted: u32,
    /// Posted on connections before.
    before: u32,
    /// What the numbers of requests are counted from.
    wr_ids: u64,
}

impl Requester {
    /// Makes the connection and fills the DUT's memory with random bytes.
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

    /// The same, but the numbers of its requests begin behind this one.
    pub(crate) fn numbered_from(self, wr_ids: u64) -> Self {
        Self { wr_ids, ..self }
    }

    /// Makes another connection of the same queue pair, which is in RESET. Its requests are numbered on, so that a completion
    /// of before is known.
    pub(crate) fn again(mut self, t: &mut Tester<'_>, options: &ChannelOptions) -> Step<Self> {
        self.reconnect(t, options)?;
        Ok(self)
    }

    /// The same in its place. What its packets carry that decides nothing stays.
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

    /// Has the DUT post a request, as wr_id 1, 2, ... in order, or from [`numbered_from`](Self::numbered_from) on; none when its host refused an operation that a device may
    /// lack: all but SEND, RDMA WRITE and RDMA READ.
    ///
    /// # Errors
    /// When its host refused one of those, and when the run must stop.
    pub(crate) fn try_post(&mut self, t: &mut Tester<'_>, ask: Ask) -> Step<Option<Sent>> {
        let number = u64::from(self.before + self.posted) + 1;
        // Each bit of what is named is 0 and 1 in turns.
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
            swap_add: if is_atomic { 0x0102_0304_0506_0708 ^ spread } else { 0 },
            imm: 0xC0DE_0001 ^ spread as u32,
            ..pb::PostSend::default()
        });
        let reply = match ask.operation {
            // A test without these would say that it passed and show nothing.
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

    /// Has the DUT post a request that every device has.
    ///
    /// # Errors
    /// When its host refuses, and when the run must stop.
    pub(crate) fn post(&mut self, t: &mut Tester<'_>, ask: Ask) -> Step<Sent> {
        self.try_post(t, ask)?
            .ok_or_else(|| verbatim_tester::Stop::Refused("the host of the DUT's device refused a request".into()))
    }

    /// Waits for the DUT's next packet with this PSN on this connection; others are passed over. Whether it came in time.
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

    /// Waits for the DUT's next packet on this connection. Its PSN, if it came in time.
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

    /// Waits for the last packet of a request. Whether it came in time.
    pub(crate) fn see_all(&self, t: &mut Tester<'_>, sent: &Sent) -> Step<bool> {
        let is_read = sent.ask.operation == pb::Operation::Read;
        self.see(t, if is_read { sent.first } else { sent.last }, PACKET_WAIT)
    }

    /// Has the DUT post requests that every device has, and waits for the last packet of each. Whether all came in time.
    ///
    /// # Errors
    /// When its host refuses one, and when the run must stop.
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

    /// Waits for the packets of a request, and acknowledges those within it that ask for it. Whether the last one came.
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

    /// Waits for packet `at` of a message. One behind the first that does not come is asked for by an ACK of those before it.
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

    /// What a responder answers: an ACK, READ responses, an ATOMIC ACKNOWLEDGE.
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

    /// One response to a READ, sound or not.
    pub(crate) fn response(&self, sent: &Sent, at: u32, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let aeth = Aeth::default().with_syndrome(self.syndrome).with_msn(sent.msn);
        self.channel.frame(&Transport {
            aeth: (opcode != Opcode::RC_READ_RESPONSE_MIDDLE).then_some(aeth),
            payload: payload.to_vec(),
            ..self.channel.transport(opcode, sent.first.plus(at))
        })
    }

    /// An ACK that speaks for everything up to a PSN; the MSN is that of the messages which it ends.
    pub(crate) fn ack(&self, psn: Psn, msn: u32) -> Vec<u8> {
        self.channel.acknowledge(psn, self.syndrome, msn)
    }

    /// A NAK.
    pub(crate) fn nak(&self, psn: Psn, code: NakCode, msn: u32) -> Vec<u8> {
        self.channel.acknowledge(psn, Syndrome::nak(code), msn)
    }

    /// An RNR NAK.
    pub(crate) fn rnr_nak(&self, psn: Psn, timer: RnrTimer, msn: u32) -> Vec<u8> {
        self.channel.acknowledge(psn, Syndrome::rnr_nak(timer), msn)
    }

    /// Waits for that many completions. How many came in time.
    pub(crate) fn completions(&self, t: &mut Tester<'_>, count: u32) -> Step<u32> {
        let until = t.now().after(PACKET_WAIT);
        for came in 0..count {
            if t.next_completion(Side::Dut, self.channel.qp, until)?.is_none() {
                return Ok(came);
            }
        }
        Ok(count)
    }

    /// How many completions have come already.
    pub(crate) fn come(&self, t: &mut Tester<'_>) -> Step<u32> {
        let mut came = 0;
        while t.next_completion(Side::Dut, self.channel.qp, t.now())?.is_some() {
            came += 1;
        }
        Ok(came)
    }

    /// Sends responses and waits for that many completions; sends a single one again, twice at most, when they do not come.
    ///
    /// Several are sent once: when some of a READ's responses were lost, the DUT may ask for the rest alone, and the old
    /// ones would no longer be answers to that.
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

    /// Sends a frame and waits for the DUT's packet with this PSN; sends it again, twice at most, when that does not come.
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

    /// Reads the memory back, for a judge to compare whole.
    pub(crate) fn read_memory(&self, t: &mut Tester<'_>) -> Step {
        let read = Command::ReadMemory(pb::ReadMemory {
            from: Some(self.channel.memory.slice(0, FILLED)),
        });
        t.verbs(steps::MEMORY, Side::Dut, read)?;
        Ok(())
    }

    /// Asks for the state of the queue pair, which shows the host alive, and destroys it.
    pub(crate) fn close(self, t: &mut Tester<'_>) -> Step {
        let qp = self.channel.qp;
        t.verbs(steps::STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp }))?;
        t.verbs(steps::DESTROY, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp }))?;
        t.skip_packets();
        Ok(())
    }
}

/// Opcode of one of so many responses to a READ.
pub(crate) fn read_response(at: u32, count: u32) -> Opcode {
    match (at == 0, at + 1 == count) {
        (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
        (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
        (false, true) => Opcode::RC_READ_RESPONSE_LAST,
        (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
    }
}

/// What the responses to a READ carry.
pub(crate) fn response_data(t: &Tester<'_>, sent: &Sent) -> Vec<u8> {
    let mut random = t.random(&format!("response {}", sent.msn));
    (0..sent.ask.length).map(|_| random.byte()).collect()
}

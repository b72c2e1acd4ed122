//! The adapter from outside: frames, verbs and time in; frames, completions and the next wake-up out.

use core::time::Duration;
use std::collections::BTreeMap;

use verbatim_wire::verbs::{Access, QpAttributes, QpState, QpStatus, Service, WcOpcode, WcStatus};
use verbatim_wire::{
    EtherType, Ethernet, Ipv6, Layout, MacAddress, Medium, NakCode, Opcode, Packet, Psn, Qpn, Syndrome, Transport,
    ether::IpProtocol,
};

use super::completion::{AsyncEvent, Completion};
use super::defect::{RcDefect, RcFaults};
use super::frame::Path;
use super::memory::{self, Regions};
use super::port::Port;
use super::profile::AdapterProfile;
use super::qp::{Context, Qp, Told};
use super::validate;
use super::verbs::{Memory, MemoryHandle, QpHandle, ReceiveRequest, Refusal, SendRequest, Slice};

/// A RoCEv2 adapter of one port: reliable connections and unreliable datagrams, its memory, ARP and neighbour discovery.
#[derive(Clone, Debug)]
pub struct Adapter {
    profile: AdapterProfile,
    faults: RcFaults,
    port: Port,
    memory: Regions,
    qps: BTreeMap<QpHandle, Qp>,
    by_number: BTreeMap<Qpn, QpHandle>,
    told: Told,
    qps_made: u32,
    p_key_violations: u16,
    now: Duration,
}

impl Adapter {
    /// An adapter with these defects; with none it conforms.
    #[must_use]
    pub fn new(profile: AdapterProfile, defects: &[RcDefect]) -> Self {
        let faults = RcFaults::new(defects);
        Self {
            port: Port::new(&profile, &faults),
            profile,
            faults,
            memory: Regions::default(),
            qps: BTreeMap::new(),
            by_number: BTreeMap::new(),
            told: Told::default(),
            qps_made: 0,
            p_key_violations: 0,
            now: Duration::ZERO,
        }
    }

    /// What the adapter is.
    #[must_use]
    pub fn profile(&self) -> &AdapterProfile {
        &self.profile
    }

    /// An Ethernet frame arrives, without its check sequence. What is not for this adapter, or is no ARP, neighbour
    /// discovery or RoCEv2, is ignored.
    pub fn handle(&mut self, now: Duration, frame: &[u8]) {
        self.tick(now);
        let now = self.now;
        if frame.len() < Ethernet::SIZE {
            return;
        }
        let ethernet = Ethernet::from_bytes(frame);
        if ethernet.dst() != self.profile.mac && !ethernet.dst().is_multicast() {
            return;
        }
        let body = &frame[Ethernet::SIZE..];
        match ethernet.ethertype() {
            EtherType::ARP => self.port.receive_arp(now, body),
            EtherType::IPV6 if Ipv6::from_bytes(body).next_header() == IpProtocol::ICMP_V6 => {
                self.port.receive_icmp(now, body);
            }
            EtherType::IPV4 | EtherType::IPV6 => {
                if let Ok(packet) = Packet::parse(Medium::Ethernet, frame) {
                    self.receive(&packet);
                }
            }
            _ => {}
        }
        self.port.tick(now);
    }

    /// Whether a wrong ICRC goes for a right one.
    fn takes_damaged(&self, packet: &Packet<'_>) -> bool {
        let is_datagram = packet.opcode().service() == verbatim_wire::Service::Ud;
        self.faults.has(RcDefect::BadIcrcAccepted) || is_datagram && self.faults.has(RcDefect::DatagramIcrcIgnored)
    }

    /// A RoCEv2 packet arrives: the checks that need no queue pair.
    fn receive(&mut self, packet: &Packet<'_>) {
        let Some((source, own)) = validate::addresses(packet) else {
            return;
        };
        let bth = packet.bth();
        if !self.port.has(own)
            || (!packet.icrc_is_right() && !self.takes_damaged(packet))
            || (bth.tver() != 0 && !self.faults.has(RcDefect::TVerIgnored))
        {
            return;
        }
        let mut handle = self.by_number.get(&bth.dest_qp()).copied();
        if self.faults.has(RcDefect::DestQpLow16Bits) {
            let is_like = |qpn: &Qpn| qpn.0 & 0xFFFF == bth.dest_qp().0 & 0xFFFF;
            let mut like = self.by_number.iter().filter(|(qpn, _)| is_like(qpn));
            handle = handle.or_else(|| like.next().map(|(_, handle)| *handle));
        }
        let Some(handle) = handle else {
            if self.faults.has(RcDefect::UnknownQpAnswered) && !packet.opcode().is_response() {
                self.refuse_unknown(packet);
            }
            return;
        };
        let bad_p_key = self.on(handle, |qp, cx| qp.handle(cx, packet, source, own));
        if self.faults.has(RcDefect::TimerShared) && packet.opcode() == Opcode::RC_ACKNOWLEDGE {
            let others: Vec<QpHandle> = self.qps.keys().copied().filter(|other| *other != handle).collect();
            for other in others {
                self.on(other, Qp::start_timer_anew);
            }
        }
        if core::mem::take(&mut self.told.acknowledged) {
            for waiting in self.qps.values_mut().filter(|qp| qp.send.rnr_until.is_some()) {
                waiting.send.rnr_until = Some(self.now);
            }
        }
        if bad_p_key == Some(true) {
            self.p_key_violations = self.p_key_violations.saturating_add(1);
        }
    }

    /// What a defective adapter says to who asks for a queue pair that does not exist.
    fn refuse_unknown(&mut self, packet: &Packet<'_>) {
        let Some((to, from)) = validate::addresses(packet) else {
            return;
        };
        let bth = packet.bth();
        let path = Path {
            from,
            to,
            hop_limit: 0,
            traffic_class: 0,
            flow_label: 0,
            udp_port: 0xC000,
        };
        let transport = Transport {
            bth: bth.with_opcode(Opcode::RC_ACKNOWLEDGE).with_ack_request(false),
            aeth: Some(verbatim_wire::Aeth::default().with_syndrome(Syndrome::nak(NakCode::INVALID_REQUEST))),
            ..Transport::default()
        };
        self.port.send(self.now + self.profile.latency, path, transport);
    }

    /// The next Ethernet frame that leaves, if one is ready.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.port.poll_transmit()
    }

    /// When [`tick`](Self::tick) has something to do next; `None` when only a frame or a verb can change anything.
    #[must_use]
    pub fn poll_at(&self) -> Option<Duration> {
        let qps = self.qps.values().filter_map(Qp::poll_at);
        let told = self.told.completions.front().map(|one| self.told_at(one));
        let event = self.told.events.front().map(|one| self.reported_at(one));
        let told = told.into_iter().chain(event).filter(|at| *at > self.now);
        qps.chain(self.port.poll_at()).chain(told).min()
    }

    /// Time has come to `now`; a time before the latest one known is taken as that one. What was due is done in the
    /// order in which it was, but now: who calls at [`poll_at`](Self::poll_at) makes timers exact.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let now = self.now;
        let due = self
            .qps
            .iter()
            .filter_map(|(&handle, qp)| Some((qp.poll_at()?, handle)));
        let mut due: Vec<_> = due.filter(|&(at, _)| at <= now).collect();
        due.sort_unstable();
        for (_, handle) in due {
            self.on(handle, Qp::tick);
        }
        self.port.tick(now);
    }

    /// The next completion that the host has not fetched yet.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        // In order: what is behind one that is late is late, too.
        let at = self.told_at(self.told.completions.front()?);
        if at > self.now {
            return None;
        }
        let one = self.told.completions.pop_front()?;
        Some(Completion {
            at: one.at.max(at),
            ..one
        })
    }

    /// When the host is told of it.
    fn told_at(&self, one: &Completion) -> Duration {
        let is_receive = matches!(one.opcode, WcOpcode::RECV | WcOpcode::RECV_RDMA_WITH_IMM);
        let choices = &self.profile.choices;
        let delay = match one.status {
            WcStatus::SUCCESS if is_receive => choices.receive_delay,
            WcStatus::SUCCESS => choices.send_delay,
            _ => Duration::ZERO,
        };
        one.at + delay
    }

    /// The next asynchronous event that the host has not fetched yet.
    pub fn poll_async(&mut self) -> Option<AsyncEvent> {
        let at = self.reported_at(self.told.events.front()?);
        if at > self.now {
            return None;
        }
        let one = self.told.events.pop_front()?;
        Some(AsyncEvent { at, ..one })
    }

    /// When the host is told of an event.
    fn reported_at(&self, one: &AsyncEvent) -> Duration {
        one.at + self.profile.choices.event_delay
    }

    /// Packets dropped for their P_Key; the count stops at 65,535.
    #[must_use]
    pub fn pkey_violations(&self) -> u16 {
        self.p_key_violations
    }

    /// Allocates memory, all zeros, and registers it.
    ///
    /// # Errors
    /// The length is 0 or beyond the profile's limit, the access has remote writing without local writing, or too much
    /// was registered.
    pub fn register(&mut self, length: u32, access: Access) -> Result<Memory, Refusal> {
        let longest = self.profile.max_memory.min(memory::LONGEST);
        self.memory
            .register(length, access, (longest, self.profile.first_address))
    }

    /// Deregisters memory; what queue pairs want to do with it from then on fails.
    ///
    /// # Errors
    /// There is no such memory.
    pub fn deregister(&mut self, memory: MemoryHandle) -> Result<(), Refusal> {
        if self.faults.has(RcDefect::DeregisteredOpen) {
            return self.memory.deregister_here(memory);
        }
        self.memory.deregister(memory)
    }

    /// Reads registered memory as the host sees it.
    ///
    /// # Errors
    /// There is no such memory, or the slice leaves it.
    pub fn read_memory(&self, from: Slice) -> Result<Vec<u8>, Refusal> {
        self.memory.check(from)?;
        Ok(self.memory.seen(from, self.now))
    }

    /// Writes registered memory as the host does.
    ///
    /// # Errors
    /// There is no such memory, or the bytes would leave it.
    pub fn write_memory(&mut self, memory: MemoryHandle, offset: u32, bytes: &[u8]) -> Result<(), Refusal> {
        let Ok(length) = u32::try_from(bytes.len()) else {
            return Err(Refusal::invalid("expected fewer than 2^32 bytes to write"));
        };
        let slice = Slice { memory, offset, length };
        self.memory.check(slice)?;
        self.memory.settle();
        self.memory.write(slice, 0, bytes);
        Ok(())
    }

    /// Creates a queue pair in RESET. Only signalled requests complete with success.
    ///
    /// # Errors
    /// A depth is 0 or beyond the profile's limit, or there are as many queue pairs as the adapter has.
    pub fn create_qp(
        &mut self,
        service: Service,
        send_depth: u32,
        receive_depth: u32,
    ) -> Result<(QpHandle, Qpn), Refusal> {
        let limit = self.profile.max_depth;
        for (name, depth) in [("send_depth", send_depth), ("receive_depth", receive_depth)] {
            if depth == 0 || depth > limit {
                return Err(Refusal::invalid(format!(
                    "expected a {name} of 1 to {limit}, not {depth}"
                )));
            }
        }
        if self.qps.len() >= self.profile.max_qps as usize {
            return Err(Refusal::full(format!(
                "expected at most {} queue pairs; destroy one first",
                self.profile.max_qps
            )));
        }
        self.qps_made += 1;
        let handle = QpHandle(self.qps_made);
        let qpn = self.free_number();
        self.qps
            .insert(handle, Qp::new(handle, qpn, service, send_depth, receive_depth));
        self.by_number.insert(qpn, handle);
        Ok((handle, qpn))
    }

    /// A number that no queue pair has, never one of the management queue pairs' or the multicast one.
    fn free_number(&self) -> Qpn {
        let made = if self.profile.choices.reuses_numbers {
            1
        } else {
            self.qps_made
        };
        let mut number = self.profile.first_qpn.0.wrapping_add(made - 1) & 0x00FF_FFFF;
        while number < 2 || number == Qpn::MULTICAST.0 || self.by_number.contains_key(&Qpn(number)) {
            number = (number + 1) & 0x00FF_FFFF;
        }
        Qpn(number)
    }

    /// Modifies a queue pair: every attribute named, none added.
    ///
    /// What follows from it happens at the time of the last [`tick`](Self::tick) or [`handle`](Self::handle).
    ///
    /// # Errors
    /// There is no such queue pair, no such step, an attribute is missing, not wanted or out of range. Nothing has
    /// changed then.
    pub fn modify(&mut self, qp: QpHandle, state: QpState, attributes: &QpAttributes) -> Result<(), Refusal> {
        self.with(qp, |qp, cx| qp.modify(cx, state, attributes))
    }

    /// State and PSNs of a queue pair.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn query(&self, qp: QpHandle) -> Result<QpStatus, Refusal> {
        let found = self.qps.get(&qp).map(Qp::status);
        let shown = found.ok_or_else(|| Refusal::unknown("queue pair", qp.0))?;
        if shown.state != QpState::Err || !self.profile.choices.psns_gone_in_err {
            return Ok(shown);
        }
        Ok(QpStatus {
            sq_psn: Psn::default(),
            rq_psn: Psn::default(),
            ..shown
        })
    }

    /// Posts a send request at a time.
    ///
    /// # Errors
    /// There is no such queue pair, it is in a state without sending, its queue is full, or the request cannot be.
    pub fn post_send(&mut self, now: Duration, qp: QpHandle, request: &SendRequest) -> Result<(), Refusal> {
        self.tick(now);
        self.with(qp, |qp, cx| qp.post_send(cx, request))
    }

    /// Posts a receive request at a time.
    ///
    /// # Errors
    /// There is no such queue pair, it is in RESET, its queue is full, or the slice leaves its memory.
    pub fn post_receive(&mut self, now: Duration, qp: QpHandle, request: &ReceiveRequest) -> Result<(), Refusal> {
        self.tick(now);
        self.with(qp, |qp, cx| qp.post_receive(cx, request))
    }

    /// Destroys a queue pair. What waits in it gets no completion.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn destroy(&mut self, qp: QpHandle) -> Result<(), Refusal> {
        if self.faults.has(RcDefect::DestroyedQpAnswers) && self.qps.contains_key(&qp) {
            return Ok(());
        }
        let Some(gone) = self.qps.remove(&qp) else {
            return Err(Refusal::unknown("queue pair", qp.0));
        };
        self.by_number.remove(&gone.qpn);
        if let Some(path) = gone.attributes.path {
            let mut others = self.qps.values().filter_map(|qp| qp.attributes.path);
            if !others.any(|other| other.to == path.to) {
                self.port.forget(path.to);
            }
        }
        Ok(())
    }

    /// Destroys all queue pairs, deregisters all memory, and forgets completions and events that were not fetched.
    pub fn destroy_all(&mut self) {
        let handles: Vec<_> = self.qps.keys().copied().collect();
        for handle in handles {
            // It exists, so there is nothing to refuse.
            let _ = self.destroy(handle);
        }
        self.memory.clear();
        self.told = Told::default();
    }

    /// The Ethernet address.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.profile.mac
    }

    fn with(
        &mut self,
        handle: QpHandle,
        act: impl FnOnce(&mut Qp, &mut Context<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let done = self.on(handle, act);
        self.port.tick(self.now);
        done.unwrap_or_else(|| Err(Refusal::unknown("queue pair", handle.0)))
    }

    /// Does something with a queue pair, if it exists.
    fn on<R>(&mut self, handle: QpHandle, act: impl FnOnce(&mut Qp, &mut Context<'_>) -> R) -> Option<R> {
        let qp = self.qps.get_mut(&handle)?;
        let mut cx = Context {
            now: self.now,
            profile: &self.profile,
            faults: &self.faults,
            port: &mut self.port,
            memory: &mut self.memory,
            told: &mut self.told,
        };
        Some(act(qp, &mut cx))
    }
}

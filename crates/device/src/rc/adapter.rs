//! The interface of the adapter. Inputs: frames, verbs and the time. Outputs: frames, completions, asynchronous events
//! and the time of the next event.

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
use super::profile::{AdapterProfile, NativePort};
use super::qp::{Context, HostQueue, Qp};
use super::validate;
use super::verbs::{Memory, MemoryHandle, QpHandle, ReceiveRequest, Refusal, SendRequest, Slice};

/// An adapter of one port, on Ethernet or InfiniBand: reliable connections, unreliable datagrams, memory. On Ethernet,
/// also ARP and neighbour discovery.
#[derive(Clone, Debug)]
pub struct Adapter {
    profile: AdapterProfile,
    faults: RcFaults,
    port: Port,
    memory: Regions,
    qps: BTreeMap<QpHandle, Qp>,
    by_number: BTreeMap<Qpn, QpHandle>,
    told: HostQueue,
    qps_made: u32,
    p_key_violations: u16,
    now: Duration,
}

impl Adapter {
    /// Creates an adapter with the given defects. Without defects the adapter conforms.
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
            told: HostQueue::default(),
            qps_made: 0,
            p_key_violations: 0,
            now: Duration::ZERO,
        }
    }

    /// Returns the profile of the adapter.
    #[must_use]
    pub fn profile(&self) -> &AdapterProfile {
        &self.profile
    }

    /// Receives an Ethernet frame without its frame check sequence. Ignores frames for other destinations, and frames
    /// other than ARP, neighbour discovery and RoCEv2.
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

    /// Attaches the adapter to an InfiniBand port, or sets new attributes of this port. The MTU and the P_Key table of
    /// the port replace those of the profile.
    pub fn set_port(&mut self, port: &NativePort) {
        if self.port.native.as_ref() == Some(port) {
            return;
        }
        self.port.native = Some(port.clone());
        self.profile.ips.clear();
        (self.profile.mtu, self.profile.p_keys) = (port.mtu, port.p_keys.clone());
        self.profile.infiniband = Some(port.clone());
        for qp in self.qps.values_mut().filter(|qp| qp.state != QpState::Reset) {
            let index = usize::from(qp.attributes.p_key_index);
            qp.attributes.p_key = port.p_keys.get(index).copied().unwrap_or_default();
        }
    }

    /// Receives a native packet that the link layer of the port accepted, from the LRH to the VCRC.
    pub fn handle_native(&mut self, now: Duration, bytes: &[u8]) {
        self.tick(now);
        if let Ok(packet) = Packet::parse(Medium::InfiniBand, bytes) {
            self.receive(&packet);
        }
        self.port.tick(self.now);
    }

    /// Returns whether a defect makes the adapter accept this packet with a wrong ICRC.
    fn takes_damaged(&self, packet: &Packet<'_>) -> bool {
        let is_datagram = packet.opcode().service() == verbatim_wire::Service::Ud;
        self.faults.has(RcDefect::BadIcrcAccepted) || is_datagram && self.faults.has(RcDefect::DatagramIcrcIgnored)
    }

    /// Receives a packet. Performs the checks that need no queue pair and passes the packet to its queue pair.
    fn receive(&mut self, packet: &Packet<'_>) {
        let Some((source, own)) = validate::addresses(packet) else {
            return;
        };
        let bth = packet.bth();
        let native = self.port.native.as_ref();
        let is_for_other_gid = packet
            .grh()
            .zip(native)
            .is_some_and(|(grh, port)| grh.dst().octets() != port.gid.0);
        if !self.port.has(own)
            || is_for_other_gid
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

    /// Sends the NAK of a defective adapter for a request to a queue pair that does not exist.
    fn refuse_unknown(&mut self, packet: &Packet<'_>) {
        let Some((to, from)) = validate::addresses(packet) else {
            return;
        };
        let bth = packet.bth();
        let path = Path {
            from,
            to,
            sl: packet.lrh().map_or(0, |lrh| lrh.sl()),
            gids: None,
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

    /// Returns the next frame or native packet to send, if one is ready.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.port.poll_transmit()
    }

    /// Returns the time of the next event for [`tick`](Self::tick), or `None` if only a frame or a verb can cause one.
    #[must_use]
    pub fn poll_at(&self) -> Option<Duration> {
        let qps = self.qps.values().filter_map(Qp::poll_at);
        let told = self.told.completions.front().map(|one| self.told_at(one));
        let event = self.told.events.front().map(|one| self.reported_at(one));
        let told = told.into_iter().chain(event).filter(|at| *at > self.now);
        qps.chain(self.port.poll_at()).chain(told).min()
    }

    /// Advances the time to `now`. Handles all events that are due, in the order of their times. Each event then
    /// occurs at `now`, so for exact timers, call this function at the time of [`poll_at`](Self::poll_at). The time
    /// never goes back: an earlier `now` does not change the time.
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

    /// Returns the next completion for the host.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        // Completions stay in order: a delayed completion also delays the completions after it.
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

    /// Returns the time at which the host can fetch a completion.
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

    /// Returns the next asynchronous event for the host.
    pub fn poll_async(&mut self) -> Option<AsyncEvent> {
        let at = self.reported_at(self.told.events.front()?);
        if at > self.now {
            return None;
        }
        let one = self.told.events.pop_front()?;
        Some(AsyncEvent { at, ..one })
    }

    /// Returns the time at which the host can fetch an event.
    fn reported_at(&self, one: &AsyncEvent) -> Duration {
        one.at + self.profile.choices.event_delay
    }

    /// Returns the number of packets dropped for their P_Key. The counter stops at 65,535.
    #[must_use]
    pub fn pkey_violations(&self) -> u16 {
        self.p_key_violations
    }

    /// Allocates memory of zeros and registers it.
    ///
    /// # Errors
    /// If the length is 0 or beyond the profile's limit, if too much memory is registered, or after 65,536
    /// registrations. Also if the access rights include remote write or remote atomic without local write.
    pub fn register(&mut self, length: u32, access: Access) -> Result<Memory, Refusal> {
        let longest = self.profile.max_memory.min(memory::LONGEST);
        self.memory
            .register(length, access, (longest, self.profile.first_address))
    }

    /// Deregisters memory. Later operations on this memory fail.
    ///
    /// # Errors
    /// If the memory does not exist.
    pub fn deregister(&mut self, memory: MemoryHandle) -> Result<(), Refusal> {
        if self.faults.has(RcDefect::DeregisteredOpen) {
            return self.memory.deregister_here(memory);
        }
        self.memory.deregister(memory)
    }

    /// Reads registered memory as the host sees it.
    ///
    /// # Errors
    /// If the memory does not exist, or if the slice exceeds it.
    pub fn read_memory(&self, from: Slice) -> Result<Vec<u8>, Refusal> {
        self.memory.check(from)?;
        Ok(self.memory.seen(from, self.now))
    }

    /// Writes registered memory on behalf of the host.
    ///
    /// # Errors
    /// If the memory does not exist, or if the bytes exceed it.
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

    /// Creates a queue pair in RESET. A successful send request produces a completion only if it is signaled.
    ///
    /// # Errors
    /// If a depth is 0 or beyond the profile's limit, or if the adapter has its maximum number of queue pairs.
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

    /// Returns a free queue pair number: not 0 or 1, which are the management queue pairs, and not the multicast
    /// number.
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

    /// Modifies a queue pair with exactly the given attributes.
    ///
    /// The modification takes effect at the time of the last [`tick`](Self::tick) or [`handle`](Self::handle).
    ///
    /// # Errors
    /// If the queue pair or the state transition does not exist, or if an attribute is missing, not allowed or out of
    /// range. The queue pair then stays unchanged.
    pub fn modify(&mut self, qp: QpHandle, state: QpState, attributes: &QpAttributes) -> Result<(), Refusal> {
        self.with(qp, |qp, cx| qp.modify(cx, state, attributes))
    }

    /// Returns the state and PSNs of a queue pair.
    ///
    /// # Errors
    /// If the queue pair does not exist.
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

    /// Posts a send request at the time `now`.
    ///
    /// # Errors
    /// If the queue pair does not exist, cannot send in its state or has a full send queue, or if the request is
    /// invalid.
    pub fn post_send(&mut self, now: Duration, qp: QpHandle, request: &SendRequest) -> Result<(), Refusal> {
        self.tick(now);
        self.with(qp, |qp, cx| qp.post_send(cx, request))
    }

    /// Posts a receive request at the time `now`.
    ///
    /// # Errors
    /// If the queue pair does not exist, is in RESET or has a full receive queue, or if the slice exceeds its memory.
    pub fn post_receive(&mut self, now: Duration, qp: QpHandle, request: &ReceiveRequest) -> Result<(), Refusal> {
        self.tick(now);
        self.with(qp, |qp, cx| qp.post_receive(cx, request))
    }

    /// Destroys a queue pair. Its pending requests get no completion.
    ///
    /// # Errors
    /// If the queue pair does not exist.
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

    /// Destroys all queue pairs, deregisters all memory, and discards the completions and events that the host did not
    /// fetch.
    pub fn destroy_all(&mut self) {
        let handles: Vec<_> = self.qps.keys().copied().collect();
        for handle in handles {
            // The handle exists, so `destroy` succeeds.
            let _ = self.destroy(handle);
        }
        self.memory.clear();
        self.told = HostQueue::default();
    }

    /// Returns the Ethernet address.
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

    /// Calls `act` with a queue pair and its context, or returns `None` if the queue pair does not exist.
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

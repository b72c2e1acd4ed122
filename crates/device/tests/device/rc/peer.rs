//! An adapter, and a station: a peer that sends handmade packets.

use std::net::IpAddr;
use std::time::Duration;

use verbatim_device::rc::{
    Access, Adapter, AdapterProfile, AsyncEvent, Completion, Memory, Operation, QpHandle, QpState, QpStatus, RcDefect,
    ReceiveRequest, SendRequest, Service, Slice,
};
use verbatim_wire::ether::Arp;
use verbatim_wire::packet::packet;
use verbatim_wire::values::{Hex32, Hex64};
use verbatim_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, EtherType, Ethernet, Ieth, ImmDt, Layout, Medium, Network, Opcode, PKey,
    Packet, Psn, Qpn, RKey, Reth, Station, Syndrome, Transport,
};

use super::adapters::{A, B, MEMORY, Setup, address, mac, profile};

/// The queue pair number of the station.
pub const PEER_QPN: Qpn = Qpn(0x1234);

/// An adapter at end A, and a station at end B.
pub struct Peer {
    pub adapter: Adapter,
    pub now: Duration,
    pub setup: Setup,
    pub qp: QpHandle,
    pub qpn: Qpn,
    pub memory: Memory,
    /// Transport packets of the adapter, with the times of their transmission.
    pub seen: Vec<(Duration, Transport)>,
    pub completions: Vec<Completion>,
    pub events: Vec<AsyncEvent>,
    /// PSN of the first request that the adapter expects. `ask` and its variants count PSNs from here.
    pub psn: Psn,
    taken: usize,
}

impl Peer {
    pub fn new(setup: &Setup) -> Self {
        Self::of(profile(A), &[], setup)
    }

    pub fn of(profile: AdapterProfile, defects: &[RcDefect], setup: &Setup) -> Self {
        let mut adapter = Adapter::new(profile, defects);
        let memory = adapter.register(MEMORY, Access::ALL).unwrap();
        let mut peer = Self {
            adapter,
            now: Duration::ZERO,
            setup: *setup,
            qp: QpHandle(0),
            qpn: Qpn(0),
            memory,
            seen: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
            psn: Psn(0),
            taken: 0,
        };
        let bytes: Vec<u8> = (0..MEMORY)
            .map(|at| (at as u8).wrapping_mul(37) ^ (at >> 8) as u8)
            .collect();
        peer.adapter.write_memory(memory.handle, 0, &bytes).unwrap();
        peer.fresh(setup);
        peer
    }

    /// Replaces the queue pair with a new one.
    pub fn fresh(&mut self, setup: &Setup) {
        let _ = self.adapter.destroy(self.qp);
        (self.qp, self.qpn) = self.adapter.create_qp(Service::Rc, 64, 64).unwrap();
        setup.connect(&mut self.adapter, self.qp, A, PEER_QPN);
        self.setup = *setup;
        self.psn = setup.psn[B];
        self.taken = self.seen.len();
    }

    fn station(end: usize, v6: bool) -> Station {
        Station {
            mac: mac(end),
            ip: address(end, v6),
            udp_port: 0xC123,
        }
    }

    /// Returns the frame of a packet to the adapter.
    pub fn frame(&self, transport: &Transport) -> Vec<u8> {
        let v6 = self.setup.v6;
        packet(
            &Network::roce_v2(&Self::station(B, v6), &Self::station(A, v6)),
            transport,
        )
    }

    pub fn frame_from(&self, source: IpAddr, transport: &Transport) -> Vec<u8> {
        let from = Station {
            ip: source,
            ..Self::station(B, self.setup.v6)
        };
        packet(&Network::roce_v2(&from, &Self::station(A, self.setup.v6)), transport)
    }

    pub fn send_frame(&mut self, frame: &[u8]) {
        self.adapter.handle(self.now, frame);
        self.collect();
    }

    pub fn send(&mut self, transport: &Transport) {
        let frame = self.frame(transport);
        self.send_frame(&frame);
    }

    fn collect(&mut self) {
        while let Some(frame) = self.adapter.poll_transmit() {
            let ethernet = Ethernet::from_bytes(&frame);
            if ethernet.ethertype() == EtherType::ARP {
                let arp = Arp::from_bytes(&frame[Ethernet::SIZE..]);
                if arp.operation() == Arp::REQUEST && IpAddr::from(arp.target_ip()) == address(B, false) {
                    let reply = arp.reply(mac(B));
                    let header = Ethernet::default()
                        .with_dst(mac(A))
                        .with_src(mac(B))
                        .with_ethertype(EtherType::ARP);
                    let answer = [header.bytes(), reply.bytes()].concat();
                    self.adapter.handle(self.now, &answer);
                }
                continue;
            }
            if let Ok(packet) = Packet::parse(Medium::Ethernet, &frame) {
                self.seen.push((self.now, packet.transport()));
            }
        }
        self.completions
            .extend(std::iter::from_fn(|| self.adapter.poll_completion()));
        self.events.extend(std::iter::from_fn(|| self.adapter.poll_async()));
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        self.collect();
        while let Some(at) = self.adapter.poll_at().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.adapter.tick(self.now);
            self.collect();
        }
        self.now = until;
        self.adapter.tick(until);
        self.collect();
    }

    /// Advances the time far enough for the adapter to respond, but not for its timers to expire.
    pub fn moment(&mut self) {
        self.run(Duration::from_micros(20));
    }

    pub fn status(&self) -> QpStatus {
        self.adapter.query(self.qp).unwrap()
    }

    pub fn state(&self) -> QpState {
        self.status().state
    }

    pub fn slice(&self, offset: u32, length: u32) -> Slice {
        Slice {
            memory: self.memory.handle,
            offset,
            length,
        }
    }

    pub fn bytes(&self, offset: u32, length: u32) -> Vec<u8> {
        self.adapter.read_memory(self.slice(offset, length)).unwrap()
    }

    pub fn number(&self, offset: u32) -> u64 {
        u64::from_le_bytes(self.bytes(offset, 8).try_into().unwrap())
    }

    pub fn set_number(&mut self, offset: u32, number: u64) {
        self.adapter
            .write_memory(self.memory.handle, offset, &number.to_le_bytes())
            .unwrap();
    }

    /// Creates a request of the adapter to memory of the station.
    pub fn request(&self, wr_id: u64, operation: Operation, length: u32) -> SendRequest {
        let length = if operation.is_atomic() { 8 } else { length };
        SendRequest::new(wr_id, operation, self.slice(256 * wr_id as u32, length)).at(0x1_0000, RKey(0x77))
    }

    pub fn post(&mut self, wr_id: u64, operation: Operation, length: u32) {
        let request = self.request(wr_id, operation, length);
        self.post_request(&request);
    }

    pub fn post_request(&mut self, request: &SendRequest) {
        // Ignore a refusal: a queue pair in ERR accepts requests, but a queue pair in RESET refuses them.
        let _ = self.adapter.post_send(self.now, self.qp, request);
        self.moment();
    }

    pub fn post_receive(&mut self, wr_id: u64, offset: u32, length: u32) {
        let local = self.slice(offset, length);
        let request = ReceiveRequest { wr_id, local };
        self.adapter.post_receive(self.now, self.qp, &request).unwrap();
        self.collect();
    }

    /// Returns the packets that the adapter sent since the last call.
    pub fn take(&mut self) -> Vec<Transport> {
        let new = self.seen[self.taken..]
            .iter()
            .map(|(_, packet)| packet.clone())
            .collect();
        self.taken = self.seen.len();
        new
    }

    /// Returns the syndrome and PSN of each packet with an AETH that the adapter sent since the last call.
    pub fn acks(&mut self) -> Vec<(u8, u32)> {
        let new = self.take();
        let acks = new.iter().filter_map(|p| Some((p.aeth?.syndrome().0, p.bth.psn().0)));
        acks.collect()
    }

    /// Returns the BTH of a packet to the adapter's queue pair.
    pub fn bth(&self, opcode: Opcode, psn: Psn) -> Bth {
        Bth::default()
            .with_opcode(opcode)
            .with_p_key(PKey(0xFFFF))
            .with_dest_qp(self.qpn)
            .with_psn(psn)
    }

    /// Sends an Acknowledge packet to the adapter.
    pub fn answer(&mut self, psn: Psn, syndrome: Syndrome) {
        let transport = Transport {
            bth: self.bth(Opcode::RC_ACKNOWLEDGE, psn),
            aeth: Some(Aeth::default().with_syndrome(syndrome)),
            ..Transport::default()
        };
        self.send(&transport);
        self.moment();
    }

    /// Sends a READ response to the adapter.
    pub fn read_response(&mut self, opcode: Opcode, psn: Psn, payload: &[u8]) {
        let transport = Transport {
            bth: self.bth(opcode, psn),
            aeth: opcode
                .headers()
                .aeth()
                .then(|| Aeth::default().with_syndrome(Syndrome::ACK)),
            payload: payload.to_vec(),
            ..Transport::default()
        };
        self.send(&transport);
        self.moment();
    }

    pub fn atomic_ack(&mut self, psn: Psn, original: u64) {
        let transport = Transport {
            bth: self.bth(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn),
            aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK)),
            atomic_ack: Some(AtomicAckEth::default().with_original(Hex64(original))),
            ..Transport::default()
        };
        self.send(&transport);
        self.moment();
    }

    /// Creates a request packet to the adapter with the AckReq bit. `psn` counts from the first expected PSN.
    pub fn ask(&self, opcode: Opcode, psn: u32, payload: &[u8]) -> Transport {
        Transport {
            bth: self.bth(opcode, self.psn.plus(psn)).with_ack_request(true),
            imm: opcode
                .headers()
                .imm()
                .then(|| ImmDt::default().with_data(Hex32(0x0A0B_0C0D))),
            ieth: opcode
                .headers()
                .ieth()
                .then(|| Ieth::default().with_r_key(self.memory.r_key)),
            payload: payload.to_vec(),
            ..Transport::default()
        }
    }

    /// Creates a WRITE packet with a RETH, or a READ request.
    pub fn ask_rdma(&self, opcode: Opcode, psn: u32, offset: u32, dma_len: u32, payload: &[u8]) -> Transport {
        Transport {
            reth: Some(
                Reth::default()
                    .with_va(Hex64(self.memory.address + u64::from(offset)))
                    .with_r_key(self.memory.r_key)
                    .with_dma_len(dma_len),
            ),
            ..self.ask(opcode, psn, payload)
        }
    }

    pub fn ask_atomic(&self, opcode: Opcode, psn: u32, offset: u32, swap_add: u64, compare: u64) -> Transport {
        Transport {
            atomic: Some(
                AtomicEth::default()
                    .with_va(Hex64(self.memory.address + u64::from(offset)))
                    .with_r_key(self.memory.r_key)
                    .with_swap_add(Hex64(swap_add))
                    .with_compare(Hex64(compare)),
            ),
            ..self.ask(opcode, psn, &[])
        }
    }

    /// Sends a packet and waits for the adapter's response.
    pub fn put(&mut self, transport: &Transport) {
        self.send(transport);
        self.moment();
    }
}

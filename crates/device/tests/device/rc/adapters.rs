//! Two adapters and a configurable link, which delays, loses, repeats and reorders frames.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use verbatim_device::rc::{
    Access, Adapter, AdapterProfile, AddressVector, AsyncEvent, Completion, Gid, Memory, Operation, QpAttributes,
    QpHandle, QpState, RcDefect, ReceiveRequest, SendRequest, Service, Slice,
};
use verbatim_wire::{AckTimeout, MacAddress, Medium, Mtu, Packet, Psn, Qpn, RnrTimer};

pub const A: usize = 0;
pub const B: usize = 1;

/// Decides what the link does with a frame, from the time, the sending end and the frame. Returns one delay for
/// each copy of the frame that the link delivers; an empty vector loses the frame.
pub type Fate = Box<dyn FnMut(Duration, usize, &[u8]) -> Vec<Duration>>;

/// Delivers each frame once, after 1 us.
pub fn straight() -> Fate {
    Box::new(|_, _, _| vec![Duration::from_micros(1)])
}

pub fn address(end: usize, v6: bool) -> IpAddr {
    let last = end as u8 + 1;
    if v6 {
        IpAddr::from([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
    } else {
        IpAddr::from([10, 0, 0, last])
    }
}

pub fn mac(end: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, end as u8 + 1])
}

/// Returns an adapter with an IPv4 and an IPv6 address.
pub fn profile(end: usize) -> AdapterProfile {
    AdapterProfile::new(mac(end), &[address(end, false), address(end, true)])
}

/// The attributes of both ends' queue pairs. `psn` is indexed by the sending end.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub v6: bool,
    pub mtu: Mtu,
    pub timeout: AckTimeout,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: RnrTimer,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub access: Access,
    pub psn: [Psn; 2],
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            v6: false,
            mtu: Mtu::B1024,
            timeout: AckTimeout(14),
            retry_cnt: 3,
            rnr_retry: 3,
            min_rnr_timer: RnrTimer(12),
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: Access::ALL,
            psn: [Psn(0xFF_FFFE), Psn(7)],
        }
    }
}

impl Setup {
    /// Connects queue pair `qp` of the adapter at `end` to the queue pair `to` of the other end. Moves `qp` to RTS.
    pub fn connect(&self, adapter: &mut Adapter, qp: QpHandle, end: usize, to: Qpn) {
        for (state, attributes) in self.steps(end, to) {
            adapter.modify(qp, state, &attributes).unwrap();
        }
    }

    pub fn steps(&self, end: usize, to: Qpn) -> [(QpState, QpAttributes); 3] {
        let init = QpAttributes {
            pkey_index: Some(0),
            port: Some(1),
            access: Some(self.access),
            ..QpAttributes::default()
        };
        let rtr = QpAttributes {
            path_mtu: Some(self.mtu),
            dest_qpn: Some(to),
            rq_psn: Some(self.psn[1 - end]),
            max_dest_rd_atomic: Some(self.max_dest_rd_atomic),
            min_rnr_timer: Some(self.min_rnr_timer),
            address: Some(AddressVector {
                dgid: Some(Gid::from(address(1 - end, self.v6))),
                sgid_index: self.v6.into(),
                ..AddressVector::default()
            }),
            ..QpAttributes::default()
        };
        let rts = QpAttributes {
            sq_psn: Some(self.psn[end]),
            timeout: Some(self.timeout),
            retry_cnt: Some(self.retry_cnt),
            rnr_retry: Some(self.rnr_retry),
            max_rd_atomic: Some(self.max_rd_atomic),
            ..QpAttributes::default()
        };
        [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)]
    }
}

/// Two connected adapters.
pub struct Pair {
    pub ends: [Adapter; 2],
    pub qps: [QpHandle; 2],
    pub memory: [Memory; 2],
    pub now: Duration,
    pub completions: [Vec<Completion>; 2],
    pub events: [Vec<AsyncEvent>; 2],
    /// Every frame sent, with its time and its sending end.
    pub sent: Vec<(Duration, usize, Vec<u8>)>,
    pub fate: Fate,
    flying: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    serial: u64,
}

/// Size of each end's memory, in bytes.
pub const MEMORY: u32 = 64 * 1024;

impl Pair {
    pub fn new(setup: &Setup) -> Self {
        Self::of([profile(A), profile(B)], [&[], &[]], setup)
    }

    pub fn of(profiles: [AdapterProfile; 2], defects: [&[RcDefect]; 2], setup: &Setup) -> Self {
        let [a, b] = profiles;
        let mut ends = [Adapter::new(a, defects[0]), Adapter::new(b, defects[1])];
        let memory = [0, 1].map(|end| ends[end].register(MEMORY, Access::ALL).unwrap());
        let made = [0, 1].map(|end| ends[end].create_qp(Service::Rc, 64, 64).unwrap());
        for end in [A, B] {
            setup.connect(&mut ends[end], made[end].0, end, made[1 - end].1);
        }
        Self {
            ends,
            qps: made.map(|(handle, _)| handle),
            memory,
            now: Duration::ZERO,
            completions: [Vec::new(), Vec::new()],
            events: [Vec::new(), Vec::new()],
            sent: Vec::new(),
            fate: straight(),
            flying: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Fills memory with bytes that depend on their offset and on `salt`.
    pub fn fill(&mut self, end: usize, salt: u8) {
        let bytes: Vec<u8> = (0..MEMORY)
            .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ salt)
            .collect();
        self.ends[end].write_memory(self.memory[end].handle, 0, &bytes).unwrap();
    }

    pub fn slice(&self, end: usize, offset: u32, length: u32) -> Slice {
        Slice {
            memory: self.memory[end].handle,
            offset,
            length,
        }
    }

    pub fn bytes(&self, end: usize, offset: u32, length: u32) -> Vec<u8> {
        self.ends[end].read_memory(self.slice(end, offset, length)).unwrap()
    }

    /// Creates a request of A to the memory of B, at the given offsets.
    pub fn request(&self, wr_id: u64, operation: Operation, from: u32, to: u32, length: u32) -> SendRequest {
        let remote = self.memory[B];
        SendRequest::new(wr_id, operation, self.slice(A, from, length)).at(remote.address + u64::from(to), remote.r_key)
    }

    pub fn post(&mut self, request: &SendRequest) {
        self.ends[A].post_send(self.now, self.qps[A], request).unwrap();
        self.collect();
    }

    pub fn post_receive(&mut self, wr_id: u64, offset: u32, length: u32) {
        let local = self.slice(B, offset, length);
        let request = ReceiveRequest { wr_id, local };
        self.ends[B].post_receive(self.now, self.qps[B], &request).unwrap();
        self.collect();
    }

    fn collect(&mut self) {
        for end in [A, B] {
            while let Some(frame) = self.ends[end].poll_transmit() {
                self.sent.push((self.now, end, frame.clone()));
                for delay in (self.fate)(self.now, end, &frame) {
                    self.serial += 1;
                    let key = (self.now + delay, self.serial);
                    self.flying.insert(key, (1 - end, frame.clone()));
                }
            }
            self.completions[end].extend(std::iter::from_fn(|| self.ends[end].poll_completion()));
            self.events[end].extend(std::iter::from_fn(|| self.ends[end].poll_async()));
        }
    }

    /// Performs the next event up to the time `until`. Returns whether there was an event.
    pub fn step(&mut self, until: Duration) -> bool {
        self.collect();
        let arrival = self.flying.keys().next().map(|&(at, _)| at);
        let wakes = self.ends.iter().map(Adapter::poll_at);
        let Some(at) = wakes.chain([arrival]).flatten().min().filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        if arrival == Some(at) {
            let (_, (to, frame)) = self.flying.pop_first().unwrap();
            self.ends[to].handle(self.now, &frame);
        } else {
            for end in &mut self.ends {
                end.tick(self.now);
            }
        }
        self.collect();
        true
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
        for end in &mut self.ends {
            end.tick(until);
        }
    }

    /// Runs until A has `count` completions, but at most 60 seconds.
    pub fn run_until_completions(&mut self, count: usize) {
        let until = self.now + Duration::from_secs(60);
        while self.completions[A].len() < count && self.step(until) {}
    }

    /// Returns the transport packets that an end sent.
    pub fn packets(&self, end: usize) -> Vec<(Duration, Packet<'_>)> {
        self.sent
            .iter()
            .filter(|(_, from, _)| *from == end)
            .filter_map(|(at, _, frame)| Some((*at, Packet::parse(Medium::Ethernet, frame).ok()?)))
            .collect()
    }
}

//! The interface of the device. Inputs: packets and the time. Outputs: packets and the time of the next event.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use verbatim_wire::{Lid, MAD_LENGTH, Mad, Method, MgmtClass, Status};

use crate::defect::{Defect, Faults};
use crate::node::Node;
use crate::port::Port;
use crate::profile::{Profile, below};
use crate::{agent, performance, port_info, smi, traps};

/// Maximum number of pending responses. The device drops further responses, because VL 15 is unreliable.
const MAX_PENDING: usize = 4096;

/// A packet that the device sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The port that sends the packet.
    pub port: u8,
    /// SLID of the packet's local route header.
    pub slid: Lid,
    /// DLID of the packet's local route header: permissive on a directed route, and if the SLID of the request is
    /// unknown.
    pub dlid: Lid,
    /// The MAD.
    pub bytes: [u8; MAD_LENGTH],
}

impl core::fmt::Debug for Transmit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mad = Mad::from(self.bytes);
        write!(f, "port {} to {}: {mad:?}", self.port, self.dlid)
    }
}

/// The management agents of a channel adapter.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Profile,
    pub(crate) faults: Faults,
    node: Node,
    pub(crate) ports: Vec<Port>,
    /// Responses to send later, by time and serial number.
    pending: BTreeMap<(Duration, u64), Transmit>,
    ready: VecDeque<Transmit>,
    serial: u64,
    now: Duration,
    /// Generator that selects the requests that get a Busy response.
    chance: ChaCha8Rng,
    /// SMPs in the buffer of VL 15: index of the port, and the time at which the SMP leaves the buffer.
    held: Vec<(usize, Duration)>,
}

impl Device {
    /// Creates a device with the given defects. Without defects the device conforms.
    #[must_use]
    pub fn new(profile: Profile, defects: &[Defect]) -> Self {
        let node = Node::new(&profile);
        let chance = ChaCha8Rng::seed_from_u64(profile.tables_seed);
        let ports = (1..=node.num_ports).map(|number| Port::new(&profile, number)).collect();
        Self {
            profile,
            faults: Faults::new(defects),
            node,
            ports,
            pending: BTreeMap::new(),
            ready: VecDeque::new(),
            serial: 0,
            now: Duration::ZERO,
            chance,
            held: Vec::new(),
        }
    }

    /// Receives a MAD at a port. Discards bytes that are not a MAD, and MADs to a port that does not exist or is
    /// disabled.
    pub fn handle(&mut self, now: Duration, port: u8, bytes: &[u8]) {
        self.handle_from(now, port, Lid::PERMISSIVE, bytes);
    }

    /// Receives a MAD from a known SLID. The device sends the response to a LID-routed request to this LID. A trap
    /// about the request contains this LID.
    pub fn handle_from(&mut self, now: Duration, port: u8, slid: Lid, bytes: &[u8]) {
        self.tick(now);
        let (now, index) = (self.now, usize::from(port).wrapping_sub(1));
        let Ok(mad) = Mad::try_from(bytes) else {
            return;
        };
        if self.ports.get(index).is_none_or(Port::is_disabled) {
            return;
        }
        if mad.is_smp() && !self.has_room(now, index) {
            return;
        }
        let answer = match mad.class() {
            MgmtClass::SUBN_LID | MgmtClass::SUBN_DIRECTED => smi::receive(&mad, port, &self.faults)
                .and_then(|mad| self.serve(now, index, &mad, slid))
                .map(|answer| smi::spoiled(&smi::send_back(&answer), &self.faults)),
            MgmtClass::PERF => performance::serve(&mut self.ports, index, (&self.profile, &self.faults), &mad),
            _ => None,
        };
        self.release(now);
        let Some(answer) = answer else {
            return;
        };
        // A port that the request disabled sends no response.
        if self.pending.len() >= MAX_PENDING || self.ports[index].is_disabled() {
            return;
        }
        let due = now + self.latency(mad.method());
        self.serial += 1;
        let transmit = Transmit {
            port,
            slid: if mad.is_directed() {
                Lid::PERMISSIVE
            } else {
                self.ports[index].info.lid()
            },
            dlid: smi::destination(&mad, slid),
            bytes: *answer.bytes(),
        };
        self.pending.insert((due, self.serial), transmit);
        if self.faults.has(Defect::ResponseToSetTwice) && mad.method() == Method::SET {
            self.serial += 1;
            self.pending.insert((due, self.serial), transmit);
        }
        self.release(now);
    }

    /// Handles a link that came up again, possibly to another neighbour: the state of the port becomes Initialize
    /// (architecture 7.2.7). A disabled port stays disabled.
    pub fn link_up(&mut self, port: u8) {
        if let Some(port) = self.ports.get_mut(usize::from(port).wrapping_sub(1))
            && !port.is_disabled()
        {
            port.info = port_info::initialize(port.info);
        }
    }

    /// Returns the time of the next event for [`tick`](Self::tick), or `None` if only a packet can cause one.
    #[must_use]
    pub fn poll_at(&self) -> Option<Duration> {
        let answer = self.pending.keys().next().map(|&(due, _)| due);
        let ports = self
            .ports
            .iter()
            .flat_map(|port| [port.lock.expires_at(), port.traps.due()]);
        ports.chain([answer]).flatten().min()
    }

    /// Advances the time to `now`. The time never goes back: an earlier `now` does not change the time.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let now = self.now;
        for port in &mut self.ports {
            port.lock.expire(now, &self.faults);
        }
        self.release(now);
    }

    /// Returns the next packet to send, if one is ready.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.ready.pop_front()
    }

    /// Returns the profile of the device.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns whether the buffer of VL 15 has space for an SMP. In a limited buffer, the SMP then occupies the
    /// space until the device has served the SMP.
    fn has_room(&mut self, now: Duration, index: usize) -> bool {
        self.held.retain(|(_, until)| *until > now);
        let room = usize::from(self.profile.choices.vl15_room);
        let is_there = room == 0 || self.held.iter().filter(|(port, _)| *port == index).count() < room;
        if room > 0 && is_there {
            self.held.push((index, now + self.profile.latency));
        } else if !is_there {
            let port = &mut self.ports[index];
            let dropped = port.counters.vl15_dropped().saturating_add(1);
            port.counters = port.counters.with_vl15_dropped(dropped);
        }
        is_there
    }

    /// Returns the agent's response to an SMP at the end of its route, or a Busy response.
    fn serve(&mut self, now: Duration, index: usize, request: &Mad, source: Lid) -> Option<Mad> {
        let choices = self.profile.choices;
        let asks = matches!(request.method(), Method::GET | Method::SET);
        if asks && choices.busy > 0 && below(&mut self.chance, 16) < u64::from(choices.busy) {
            if choices.busy_and_done {
                self.agent(now, index).serve(request, source);
            }
            return Some(agent::refuse(request, Status::BUSY));
        }
        self.agent(now, index).serve(request, source)
    }

    fn agent(&mut self, now: Duration, index: usize) -> agent::Agent<'_> {
        agent::Agent {
            profile: &self.profile,
            faults: &self.faults,
            node: &mut self.node,
            ports: &mut self.ports,
            at: index,
            now,
        }
    }

    /// Moves the responses and traps that are due to the ready queue.
    fn release(&mut self, now: Duration) {
        while let Some(entry) = self.pending.first_entry()
            && entry.key().0 <= now
        {
            self.ready.push_back(entry.remove());
        }
        for port in &mut self.ports {
            if let Some(trap) = port.traps.take_due(now, &port.info, &self.faults) {
                let trap = traps::spoiled(trap, port.lock.key, &self.faults);
                self.ready.push_back(Transmit {
                    port: port.number,
                    slid: port.info.lid(),
                    dlid: port.info.master_sm_lid(),
                    bytes: *trap.bytes(),
                });
            }
        }
    }

    fn latency(&self, method: Method) -> Duration {
        let late =
            self.faults.has(Defect::AnswersLate) || (self.faults.has(Defect::AnswersSetsLate) && method == Method::SET);
        if !late {
            return self.profile.latency;
        }
        let allowed = self.profile.resp_time_value.duration();
        let travel = 2 * self.profile.subnet_timeout.duration();
        allowed + travel + allowed / 2 + Duration::from_millis(1)
    }
}

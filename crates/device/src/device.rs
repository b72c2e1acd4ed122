//! The device from outside: packets and time in, packets and the next wake-up out.

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

/// Answers that the device holds at a time; what comes beyond is dropped, as VL 15 may be.
const MAX_PENDING: usize = 4096;

/// A packet that the device sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The port that it leaves by.
    pub port: u8,
    /// SLID of its local route header.
    pub slid: Lid,
    /// DLID of its local route header: permissive for directed routes and where the asker's LID was not told.
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

/// A channel adapter's management agents.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Profile,
    faults: Faults,
    node: Node,
    pub(crate) ports: Vec<Port>,
    /// Answers that are not due yet, by time and order.
    pending: BTreeMap<(Duration, u64), Transmit>,
    ready: VecDeque<Transmit>,
    serial: u64,
    now: Duration,
    /// Which requests find it busy.
    chance: ChaCha8Rng,
    /// SMPs in the buffer of VL 15: the port of each, and until when it is there.
    held: Vec<(usize, Duration)>,
}

impl Device {
    /// A device as found, with these defects; with none it conforms.
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

    /// A MAD arrives at a port. Bytes that are none, and ports that do not exist, are discarded.
    pub fn handle(&mut self, now: Duration, port: u8, bytes: &[u8]) {
        self.handle_from(now, port, Lid::PERMISSIVE, bytes);
    }

    /// The same where the SLID of the packet is known: a LID-routed answer goes there, and a trap names it.
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
        // An answer does not leave by a port that the request switched off.
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

    /// The link of a port has come up anew, with another neighbour perhaps: its state is Initialize (architecture 7.2.7).
    /// A port that is disabled stays so.
    pub fn link_up(&mut self, port: u8) {
        if let Some(port) = self.ports.get_mut(usize::from(port).wrapping_sub(1))
            && !port.is_disabled()
        {
            port.info = port_info::initialize(port.info);
        }
    }

    /// When [`tick`](Self::tick) has something to do next; `None` when only a packet can change anything.
    #[must_use]
    pub fn poll_at(&self) -> Option<Duration> {
        let answer = self.pending.keys().next().map(|&(due, _)| due);
        let ports = self
            .ports
            .iter()
            .flat_map(|port| [port.lock.expires_at(), port.traps.due()]);
        ports.chain([answer]).flatten().min()
    }

    /// Time has come to `now`; a time before the latest one known is taken as that one.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let now = self.now;
        for port in &mut self.ports {
            port.lock.expire(now, &self.faults);
        }
        self.release(now);
    }

    /// The next packet that leaves, if one is ready.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.ready.pop_front()
    }

    /// What the device is.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether VL 15 has room for an SMP; then it is held until it is served.
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

    /// The answer to an SMP at the end of its route: the agent's, unless the device is busy.
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

    /// Makes ready what is due.
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

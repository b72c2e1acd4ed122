//! The virtual rig: the device model behind a simulated link, in simulated time.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use verbatim_device::link::{self, LinkChoices, LinkDefect};
use verbatim_device::rc::{Adapter, AdapterProfile, RcDefect};
use verbatim_device::{Defect, Device, Profile};
use verbatim_record::{Delimiter, OWN_PORT, Side, Span, Time};
use verbatim_tester::{Arrival, FramePort, Need, PortId, Rig, RigInfo, Route, Step, Stimulus, Stop};
use verbatim_wire::ether::{Ethernet, MacAddress};
use verbatim_wire::{Layout, Lrh, MKey, Mad, Method};

use crate::host;
use crate::link::{Tamper, smi_forward, smi_return};
use crate::native::{self, Leaves, NativeLink, Received};
use crate::pair::{InfiniBand, TESTER_LID};
use crate::segment::{Disturbance, Segment};

/// The one-way delay of the cable.
const WAY: Duration = Duration::from_micros(1);
/// The most events of a procedure before it counts as endless.
const EVENT_BUDGET: u64 = 20_000_000;
/// The most events without progress of time before the device counts as never idle.
const AT_ONE_INSTANT: u32 = 1_000_000;

/// MAC addresses of the stations on the Ethernet segment.
const DUT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const TESTER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const TESTER_ADAPTER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 3]);

enum Event {
    ToDevice(PortId, Mad),
    ToTester(PortId, Mad),
    /// A native packet, and whether the tester's port made the packet from a MAD.
    PacketToDevice(PortId, Vec<u8>, Delimiter, bool),
    PacketToTester(PortId, Vec<u8>, Delimiter),
    /// A frame on the segment, and its sender.
    Frame(MacAddress, Vec<u8>),
    /// A native packet that the adapter of this side sent.
    Data(Side, Vec<u8>),
    /// A frame that the tester's port has held back since this time.
    Held(Time, Vec<u8>),
}

/// Returns the IPv4 and the IPv6 address of a station. Their last byte equals the MAC address's.
fn addresses(mac: MacAddress) -> [IpAddr; 2] {
    let last = mac.0[5];
    [
        Ipv4Addr::new(10, 0, 0, last).into(),
        Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, last.into()).into(),
    ]
}

/// Returns the device's port at the other end of the rig's port. A number above 255 becomes 0, which is no port of
/// the device.
fn port_of(cable: PortId) -> u8 {
    u8::try_from(cable + 1).unwrap_or(0)
}

/// The device model behind simulated links. The rig's port n is cabled to the device's port n + 1, if the device
/// has that port. One Ethernet segment connects the device's adapter, the tester's adapter and the tester's own
/// Ethernet port. [`VirtualRig::on_infiniband`] attaches both adapters to the first cable instead.
///
/// [`Stimulus::Mad`] bypasses the device's link layer, so a test can read counters of a defective link layer.
/// [`Stimulus::MadTo`] and [`Stimulus::Packet`] pass through it.
pub struct VirtualRig {
    device: Device,
    native: NativeLink,
    adapters: [Adapter; 2],
    /// The tester's port, if the adapters are on InfiniBand.
    infiniband: Option<InfiniBand>,
    segment: Segment,
    /// The time at which each station's last frame left; the key is the MAC address.
    left: BTreeMap<[u8; 6], Time>,
    /// The earliest arrival of the device's next frame. A late response delays later frames.
    held_up: Time,
    arrivals: VecDeque<Arrival>,
    now: Time,
    serial: u64,
    events: BTreeMap<(Time, u64), Event>,
    budget: u64,
    /// The number of events since time last advanced.
    at_this_instant: u32,
    tamper: Option<Tamper>,
    stop_at: Option<(Time, Stop)>,
}

impl core::fmt::Debug for VirtualRig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "VirtualRig(at {}, {} events)", self.now, self.events.len())
    }
}

impl VirtualRig {
    /// Makes a rig whose device has this profile and these defects.
    #[must_use]
    pub fn new(profile: Profile, defects: &[Defect]) -> Self {
        Self {
            device: Device::new(profile, defects),
            native: NativeLink::default(),
            adapters: [
                Adapter::new(Self::adapter_profile(Side::Dut), &[]),
                Adapter::new(Self::adapter_profile(Side::Tester), &[]),
            ],
            infiniband: None,
            segment: Segment::new(Disturbance::default()),
            left: BTreeMap::new(),
            held_up: Time(0),
            arrivals: VecDeque::new(),
            now: Time(0),
            serial: 0,
            events: BTreeMap::new(),
            budget: EVENT_BUDGET,
            at_this_instant: 0,
            tamper: None,
            stop_at: None,
        }
    }

    /// Returns the properties that a procedure may know of this kind of rig.
    #[must_use]
    pub fn info(key: MKey) -> RigInfo {
        RigInfo {
            kind: "virtual".into(),
            offers: vec![
                Need::Mad,
                Need::AnyLid,
                Need::Link,
                Need::OwnSubnet,
                Need::Counters,
                Need::SecondPort,
                Need::Packets,
                Need::Verbs,
                Need::Crash,
            ],
            route: Route::Directed(vec![1]),
            key,
            host_bound: Duration::ZERO,
            simulated: true,
            shared_subnet: false,
            window: 16,
            subnet_timeout: None,
            assign_lid: None,
            frames: Some(Self::frame_port(false)),
            time_scale: (1, None),
            gid_indices: (None, None),
            of_device: Vec::new(),
        }
    }

    /// Returns the tester's Ethernet port, with its IPv4 or IPv6 address.
    #[must_use]
    pub fn frame_port(ipv6: bool) -> FramePort {
        FramePort {
            mac: TESTER_MAC,
            ip: addresses(TESTER_MAC)[usize::from(ipv6)],
            dut_ip: None,
        }
    }

    /// Returns the default adapter profile of one side.
    #[must_use]
    pub fn adapter_profile(side: Side) -> AdapterProfile {
        let mac = Self::mac_of(side);
        AdapterProfile::new(mac, &addresses(mac))
    }

    /// Replaces the adapter of the device under test.
    #[must_use]
    pub fn with_adapter(mut self, profile: AdapterProfile, defects: &[RcDefect]) -> Self {
        self.adapters[0] = Adapter::new(profile, defects);
        self
    }

    /// Attaches both adapters to the cable between the rig's port 0 and the device's port 1. The rig then has no
    /// Ethernet.
    #[must_use]
    pub fn on_infiniband(mut self) -> Self {
        let mut own = InfiniBand::facing(self.device.profile());
        own.settle(&mut self.device, &mut self.adapters);
        self.infiniband = Some(own);
        self
    }

    /// Sets the defects of the device's link layer.
    #[must_use]
    pub fn with_link_defects(mut self, defects: &[LinkDefect]) -> Self {
        self.native.defects = defects.to_vec();
        self
    }

    /// Sets the choices of the device's link layer.
    #[must_use]
    pub fn with_link_choices(mut self, choices: LinkChoices) -> Self {
        self.native.choices = choices;
        self
    }

    /// Sets the disturbance of frames and MADs in transit.
    #[must_use]
    pub fn with_disturbance(mut self, disturbance: Disturbance) -> Self {
        self.segment = Segment::new(disturbance);
        self
    }

    /// Passes every response through `tamper`.
    #[must_use]
    pub fn with_tamper(mut self, tamper: Tamper) -> Self {
        self.tamper = Some(tamper);
        self
    }

    /// Stops the procedure at this time, as a cancel or the end of a lease would.
    #[must_use]
    pub fn with_stop_at(mut self, at: Time, stop: Stop) -> Self {
        self.stop_at = Some((at, stop));
        self
    }

    /// Replaces the limit of events after which a procedure is stopped.
    #[must_use]
    pub fn with_event_budget(mut self, events: u64) -> Self {
        self.budget = events;
        self
    }

    /// Returns the device, for inspection.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    /// Takes the MADs that leave both ports, and schedules their arrival.
    fn collect(&mut self) {
        if let Some(own) = &mut self.infiniband {
            let answers = own.answers();
            own.settle(&mut self.device, &mut self.adapters);
            for answer in answers {
                self.schedule(self.now, Event::ToTester(OWN_PORT, answer));
            }
        }
        while let Some(transmit) = self.device.poll_transmit() {
            let cable = PortId::from(transmit.port.saturating_sub(1));
            match self.native.leaves(&transmit) {
                Leaves::Mad => {}
                Leaves::Elsewhere => continue,
                Leaves::Packet(bytes) => {
                    let back = Event::PacketToTester(cable, bytes, Delimiter::Egp);
                    self.schedule(self.now.after(WAY), back);
                    continue;
                }
            }
            let mad = smi_return(&Mad::from(transmit.bytes));
            let deliveries = match &mut self.tamper {
                Some(tamper) if mad.method() != Method::TRAP => tamper(&mad),
                _ => vec![(Duration::ZERO, mad)],
            };
            for (delay, mad) in deliveries {
                let is_trap = mad.method() == Method::TRAP;
                let lost = if is_trap {
                    self.segment.loses_trap()
                } else {
                    self.segment.loses()
                };
                if lost {
                    continue;
                }
                let late = if is_trap {
                    Duration::ZERO
                } else {
                    self.segment.late_mad()
                };
                self.schedule(self.now.after(WAY + delay + late), Event::ToTester(cable, mad));
            }
        }
    }

    /// Takes the adapters' outgoing frames, completions and events.
    fn collect_frames(&mut self) {
        for side in [Side::Dut, Side::Tester] {
            while let Some(frame) = self.adapters[side as usize].poll_transmit() {
                if self.infiniband.is_some() {
                    self.put_on_cable(side, frame);
                } else {
                    self.put_on_segment(Self::mac_of(side), frame);
                }
            }
            while let Some((at, event)) = host::told(&mut self.adapters[side as usize]) {
                let host_at = Span::exactly(Time(0).after(at));
                let now = Span::exactly(self.now);
                self.arrivals.push_back(Arrival::Told(side, now, host_at, event));
            }
        }
    }

    fn mac_of(side: Side) -> MacAddress {
        match side {
            Side::Dut => DUT_MAC,
            Side::Tester => TESTER_ADAPTER_MAC,
        }
    }

    /// Sends a native packet of an adapter through the adapter's port.
    fn put_on_cable(&mut self, from: Side, mut bytes: Vec<u8>) {
        let port = match (from, &mut self.infiniband) {
            (Side::Tester, Some(own)) => &mut own.device,
            _ => &mut self.device,
        };
        if port.send_data(1, &mut bytes) && !self.segment.loses() {
            self.schedule(self.now.after(WAY), Event::Data(from, bytes));
        }
    }

    /// Delivers a native packet of an adapter to the port at the other end. If the adapter's own port has the packet's
    /// DLID, delivers the packet to that port instead.
    fn deliver_data(&mut self, from: Side, bytes: &[u8]) {
        let now = self.since_start();
        let own = &mut self.adapters[from as usize];
        let dlid = bytes.get(..Lrh::SIZE).map(|lrh| Lrh::from_bytes(lrh).dlid());
        let port = own.profile().infiniband.as_ref();
        if port.zip(dlid).is_some_and(|(port, dlid)| port.has(dlid)) {
            own.handle_native(now, bytes);
            return;
        }
        let arrival = (bytes, Delimiter::Egp);
        match from {
            Side::Tester => self.deliver_native(0, arrival, false),
            Side::Dut => {
                let now = self.since_start();
                let accepted = self.infiniband.as_mut().is_some_and(|own| own.accepts(now, bytes));
                if accepted {
                    self.adapters[Side::Tester as usize].handle_native(now, bytes);
                }
            }
        }
    }

    fn put_on_segment(&mut self, from: MacAddress, frame: Vec<u8>) {
        // A frame from an adapter to itself does not cross the segment.
        if frame.len() >= Ethernet::SIZE && Ethernet::from_bytes(&frame).dst() == from {
            self.schedule(self.now.after(WAY), Event::Frame(from, frame));
            return;
        }
        let spacing = self.segment.spacing();
        let leaves = match self.left.get(&from.0) {
            Some(last) if !spacing.is_zero() => last.after(spacing).max(self.now),
            _ => self.now,
        };
        self.left.insert(from.0, leaves);
        for (delay, frame) in self.segment.carry(frame) {
            let mut at = leaves.after(WAY + delay);
            if from == DUT_MAC {
                let late = self.segment.late_frame(&frame);
                at = at.after(late).max(self.held_up);
                if !late.is_zero() {
                    self.held_up = at;
                }
            }
            self.schedule(at, Event::Frame(from, frame));
        }
    }

    /// Delivers a frame to all addressed stations. Does not deliver a multicast to its sender. Returns the frame if the
    /// tester's Ethernet port receives it.
    fn deliver(&mut self, from: MacAddress, frame: Vec<u8>) -> Option<Arrival> {
        if frame.len() < Ethernet::SIZE {
            return None;
        }
        let to = Ethernet::from_bytes(&frame).dst();
        let now = self.since_start();
        for side in [Side::Dut, Side::Tester] {
            let mac = Self::mac_of(side);
            if to == mac || mac != from && to.is_multicast() {
                self.adapters[side as usize].handle(now, &frame);
            }
        }
        let for_tester = from != TESTER_MAC && (to == TESTER_MAC || to.is_multicast());
        if !for_tester {
            return None;
        }
        let held = self.segment.hold();
        if !held.is_zero() {
            self.schedule(self.now.after(held), Event::Held(self.now, frame));
            return None;
        }
        Some(Arrival::Frame(0, Span::exactly(self.now), frame))
    }

    /// Delivers a native packet to the device. A packet that the device forwards leaves from its next port.
    fn deliver_native(&mut self, cable: PortId, (bytes, delimiter): (&[u8], Delimiter), as_mad: bool) {
        let arrival = link::Arrival { bytes, delimiter };
        let now = self.since_start();
        let received = self
            .native
            .receive((&mut self.device, now), port_of(cable), &arrival, as_mad);
        match received {
            Received::Forwarded(bytes, delimiter) => {
                let ports = u32::from(self.device.profile().num_ports.max(1));
                let other = Event::PacketToTester((cable + 1) % ports, bytes, delimiter);
                self.schedule(self.now.after(WAY), other);
            }
            Received::ForAdapter if cable == 0 && self.infiniband.is_some() => {
                self.adapters[Side::Dut as usize].handle_native(now, bytes);
            }
            Received::ForAdapter | Received::Nothing => {}
        }
    }

    /// Returns the time of the next event on the cable, in the device or in an adapter.
    fn next(&self) -> Option<Time> {
        let cable = self.events.keys().next().map(|(at, _)| *at);
        let adapters = self.adapters.iter().map(Adapter::poll_at);
        let own = self.infiniband.as_ref().and_then(|own| own.device.poll_at());
        let inside = adapters.chain([self.device.poll_at(), own]).flatten().min();
        let inside = inside.map(|at| Time(0).after(at).max(self.now));
        [cable, inside].into_iter().flatten().min()
    }

    fn since_start(&self) -> Duration {
        self.now.since(Time(0))
    }
}

impl Rig for VirtualRig {
    fn now(&self) -> Time {
        self.now
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        match what {
            Stimulus::Mad(OWN_PORT, mad) => {
                let now = self.since_start();
                if let Some(own) = &mut self.infiniband {
                    own.device.handle(now, 1, mad.bytes());
                }
                self.collect();
            }
            Stimulus::Mad(..) | Stimulus::MadTo(..) if self.segment.loses() => {}
            Stimulus::Mad(cable, mad) => {
                self.schedule(self.now.after(WAY), Event::ToDevice(cable, smi_forward(mad)));
            }
            Stimulus::MadTo(cable, lid, mad) => {
                let bytes = native::packet_of(TESTER_LID, lid, mad);
                let event = Event::PacketToDevice(cable, bytes, Delimiter::Egp, true);
                self.schedule(self.now.after(WAY), event);
            }
            Stimulus::Packet(cable, bytes, delimiter) => {
                let event = Event::PacketToDevice(cable, bytes.to_vec(), delimiter, false);
                self.schedule(self.now.after(WAY), event);
            }
            Stimulus::Frame(_, bytes) => self.put_on_segment(TESTER_MAC, bytes.to_vec()),
            Stimulus::Verbs(side, number, command) => {
                let now = self.since_start();
                let reply = host::perform(&mut self.adapters[side as usize], now, command);
                // Report earlier events before the reply.
                self.collect_frames();
                let at = Span::exactly(self.now);
                self.arrivals.push_back(Arrival::Verbs(side, number, at, at, reply));
            }
        }
        Ok(Span::exactly(self.now))
    }

    fn wait(&mut self, until: Time) -> Arrival {
        loop {
            if self.budget == 0 {
                return Arrival::Stop(Stop::Tester(
                    "the procedure used its whole event budget: is it endless?".into(),
                ));
            }
            self.budget -= 1;
            if let Some(arrival) = self.arrivals.pop_front() {
                return arrival;
            }
            let next = self.next().filter(|at| *at <= until);
            if let Some((at, stop)) = self.stop_at.take_if(|(at, _)| *at <= next.unwrap_or(until)) {
                self.now = self.now.max(at);
                return Arrival::Stop(stop);
            }
            let Some(at) = next else {
                self.now = self.now.max(until);
                return Arrival::Deadline;
            };
            self.at_this_instant = if at > self.now { 0 } else { self.at_this_instant + 1 };
            if self.at_this_instant == AT_ONE_INSTANT {
                return Arrival::Stop(Stop::Tester(format!(
                    "{AT_ONE_INSTANT} events at one instant: a device that never rests?"
                )));
            }
            self.now = self.now.max(at);
            match self
                .events
                .first_entry()
                .filter(|entry| entry.key().0 <= at)
                .map(|entry| entry.remove())
            {
                Some(Event::ToTester(cable, mad)) => return Arrival::Mad(cable, Span::exactly(self.now), mad),
                Some(Event::ToDevice(cable, mad)) => {
                    self.device.handle(self.since_start(), port_of(cable), mad.bytes());
                }
                Some(Event::PacketToDevice(cable, bytes, delimiter, as_mad)) => {
                    self.deliver_native(cable, (&bytes, delimiter), as_mad);
                    self.collect_frames();
                }
                Some(Event::PacketToTester(cable, bytes, delimiter)) => {
                    return Arrival::Packet(cable, Span::exactly(self.now), bytes, delimiter);
                }
                Some(Event::Data(from, bytes)) => {
                    self.deliver_data(from, &bytes);
                    self.collect_frames();
                }
                Some(Event::Frame(from, frame)) => {
                    let arrival = self.deliver(from, frame);
                    self.collect_frames();
                    self.arrivals.extend(arrival);
                }
                Some(Event::Held(since, frame)) => {
                    return Arrival::Frame(0, Span::between(since, self.now), frame);
                }
                None => {
                    let now = self.since_start();
                    self.device.tick(now);
                    if let Some(own) = &mut self.infiniband {
                        own.device.tick(now);
                    }
                    for adapter in &mut self.adapters {
                        adapter.tick(now);
                    }
                    self.collect_frames();
                }
            }
            self.collect();
        }
    }
}

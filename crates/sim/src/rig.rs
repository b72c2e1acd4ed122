//! The virtual rig: the device model behind a simulated link, in simulated time.

use core::time::Duration;
use std::collections::BTreeMap;

use verbatim_device::{Defect, Device, Profile};
use verbatim_record::{Span, Time};
use verbatim_tester::{Arrival, Need, PortId, Rig, RigInfo, Route, Step, Stimulus, Stop};
use verbatim_wire::{MKey, Mad, Method};

use crate::link::{Tamper, smi_forward, smi_return};

/// One way through the cable.
const WAY: Duration = Duration::from_micros(1);
/// Events after which a procedure counts as endless.
const EVENT_BUDGET: u64 = 20_000_000;

enum Event {
    ToDevice(PortId, Mad),
    ToTester(PortId, Mad),
}

/// The device model behind simulated links: the rig's port n is cabled to the device's port n + 1, if it has one.
pub struct VirtualRig {
    device: Device,
    now: Time,
    serial: u64,
    events: BTreeMap<(Time, u64), Event>,
    budget: u64,
    tamper: Option<Tamper>,
    stop_at: Option<(Time, Stop)>,
}

impl core::fmt::Debug for VirtualRig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "VirtualRig(at {}, {} events)", self.now, self.events.len())
    }
}

impl VirtualRig {
    /// A rig whose device has this profile and these defects.
    #[must_use]
    pub fn new(profile: Profile, defects: &[Defect]) -> Self {
        Self {
            device: Device::new(profile, defects),
            now: Time(0),
            serial: 0,
            events: BTreeMap::new(),
            budget: EVENT_BUDGET,
            tamper: None,
            stop_at: None,
        }
    }

    /// What a procedure may know of a rig of this kind.
    #[must_use]
    pub fn info(key: MKey) -> RigInfo {
        RigInfo {
            kind: "virtual".into(),
            offers: vec![Need::Mad, Need::OwnSubnet, Need::SecondPort],
            route: Route::Directed(vec![1]),
            key,
            host_bound: Duration::ZERO,
            simulated: true,
            shared_subnet: false,
            window: 16,
            subnet_timeout: None,
        }
    }

    /// Lets every answer pass through `tamper`.
    #[must_use]
    pub fn with_tamper(mut self, tamper: Tamper) -> Self {
        self.tamper = Some(tamper);
        self
    }

    /// Stops the procedure at an instant, as a cancel or the end of a lease would.
    #[must_use]
    pub fn with_stop_at(mut self, at: Time, stop: Stop) -> Self {
        self.stop_at = Some((at, stop));
        self
    }

    /// Ends a procedure after that many events instead of the usual number.
    #[must_use]
    pub fn with_event_budget(mut self, events: u64) -> Self {
        self.budget = events;
        self
    }

    /// The device, to be looked at.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    /// Takes what the device wants to send and puts it on the cable.
    fn collect(&mut self) {
        while let Some(transmit) = self.device.poll_transmit() {
            let mad = smi_return(&Mad::from(transmit.bytes));
            let cable = PortId::from(transmit.port.saturating_sub(1));
            let deliveries = match &mut self.tamper {
                Some(tamper) if mad.method() != Method::TRAP => tamper(&mad),
                _ => vec![(Duration::ZERO, mad)],
            };
            for (delay, mad) in deliveries {
                self.schedule(self.now.after(WAY + delay), Event::ToTester(cable, mad));
            }
        }
    }

    /// The next event's time: on the cable or in the device.
    fn next(&self) -> Option<Time> {
        let cable = self.events.keys().next().map(|(at, _)| *at);
        let device = self.device.poll_at().map(|at| Time(0).after(at).max(self.now));
        [cable, device].into_iter().flatten().min()
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
        let Stimulus::Mad(cable, mad) = what;
        self.schedule(self.now.after(WAY), Event::ToDevice(cable, smi_forward(mad)));
        Ok(Span::exactly(self.now))
    }

    fn wait(&mut self, until: Time) -> Arrival {
        loop {
            if self.budget == 0 {
                return Arrival::Stop(Stop::Tester("the event budget is spent: an endless procedure?".into()));
            }
            self.budget -= 1;
            let next = self.next().filter(|at| *at <= until);
            if let Some((at, stop)) = self.stop_at.take_if(|(at, _)| *at <= next.unwrap_or(until)) {
                self.now = self.now.max(at);
                return Arrival::Stop(stop);
            }
            let Some(at) = next else {
                self.now = self.now.max(until);
                return Arrival::Deadline;
            };
            self.now = self.now.max(at);
            match self
                .events
                .first_entry()
                .filter(|entry| entry.key().0 <= at)
                .map(|entry| entry.remove())
            {
                Some(Event::ToTester(cable, mad)) => return Arrival::Mad(cable, Span::exactly(self.now), mad),
                Some(Event::ToDevice(cable, mad)) => {
                    let port = u8::try_from(cable + 1).unwrap_or(0); // no device has a port 0
                    self.device.handle(self.since_start(), port, mad.bytes());
                }
                None => self.device.tick(self.since_start()),
            }
            self.collect();
        }
    }
}

//! Rigs without MADs: frames of our own making on one link, and verbs on the hosts of one or both devices.
//!
//! One door: a look takes what all sources have, in the order of the latest instants, and what one source says stays in
//! its order. So a frame that the DUT sent before its host told of a completion is handed over before it, as far as the
//! spans of both can tell.

mod host;
mod kernel;
mod link;
mod open;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use verbatim_hw::ether::Stamp;
use verbatim_record::{Side, Span, Time};
use verbatim_tester::{Arrival, Rig, Step, Stimulus, Stop};

use self::host::{Host, hosts_have};
use super::clock::Clock;
use super::port::{End, NotSent, PROBE_AFTER, SLICE, host_bound};
use verbatim_verbs::VerbsLink;

pub(super) use kernel::kernel_has;
pub(super) use link::machine_is_there;
pub(super) use open::{dut_host, packet, pair};

/// Things that one look takes of one source: more are left for the next, so that a flood never keeps a deadline.
const AT_ONCE: usize = 4096;
/// How often a link is asked for lost frames.
const LOST_EVERY: Duration = Duration::from_millis(5);
/// How often hosts are looked at while a link is waited on.
const HOSTS_EVERY: Duration = Duration::from_millis(1);
/// After a frame passed, the next is waited for without sleeping: what answers it may come at once, and to be woken takes
/// the system longer than to answer.
const ATTENTION: Duration = Duration::from_micros(200);

/// What was taken from a link.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// When it came.
    pub(super) at: Stamp,
    /// The frame; none for one that concerns somebody else.
    pub(super) frame: Option<Vec<u8>>,
}

/// Carries frames; knows nothing of the rig's time.
pub(super) trait FrameLink: Send {
    /// Sends, and says when it left.
    fn send(&mut self, frame: &[u8]) -> Result<Stamp, NotSent>;

    /// Takes what came in, waiting at most that long; zero looks without waiting, and nothing from a look means that
    /// nothing was there.
    ///
    /// # Errors
    /// When the link is gone: why.
    fn receive(&mut self, timeout: Duration) -> Result<Option<Taken>, String>;

    /// Frames that came in since the link was opened and that nobody will see.
    fn lost(&mut self) -> u64;

    /// Finds out whether the other end is there, where that would not be seen otherwise.
    ///
    /// # Errors
    /// When the link is gone: why.
    fn probe(&mut self) -> Result<(), String>;
}

/// The link that frames go by, and what is known of it.
struct Wire {
    link: Box<dyn FrameLink>,
    /// Nothing that is still to come arrived before this.
    empty_at: Time,
    /// The last sign of life.
    sign_at: Time,
    /// Lost frames that were told of, and when it was asked for them last.
    lost: u64,
    lost_asked: Option<Time>,
    /// When the last frame passed, either way.
    passed: Option<Time>,
    /// What a wait ended with.
    next: Option<Taken>,
}

/// How fast a device and its host are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How many times slower than our own clock the device's runs.
    pub(super) scale: u32,
    /// How long its agent may take for a command; none for what is usual.
    pub(super) agent_within: Option<Duration>,
}

impl Pace {
    /// That of a rig.
    pub(super) fn of(config: &super::RigConfig) -> Self {
        Self {
            scale: config.slow.scale,
            agent_within: config.slow.agent_within,
        }
    }
}

/// A rig over a link for frames, hosts, or both; in real time.
pub(super) struct PeerRig {
    clock: Clock,
    wire: Option<Wire>,
    hosts: Vec<Host>,
    /// Its loss is told once all that came before it is handed over.
    end: End,
    /// What came in and was not handed over.
    queue: VecDeque<Arrival>,
    /// The deadline that was waited for last, if it was not met.
    waited_for: Option<Time>,
}

/// What a look found, each with the instant that orders it.
#[derive(Default)]
struct Found {
    all: Vec<(Time, Arrival)>,
    /// The order of the source never goes back.
    last: Time,
}

impl Found {
    fn next_source(&mut self) {
        self.last = Time(0);
    }

    fn push(&mut self, latest: Time, arrival: Arrival) {
        self.last = self.last.max(latest);
        self.all.push((self.last, arrival));
    }
}

impl PeerRig {
    pub(super) fn new(
        wire: Option<Box<dyn FrameLink>>,
        hosts: Vec<(Side, Box<dyn VerbsLink>)>,
        pace: Pace,
        cancel: Arc<AtomicBool>,
    ) -> Self {
        let clock = Clock::start(pace.scale);
        let host = |(side, link)| Host::new(side, link, clock, pace.agent_within);
        Self {
            clock,
            wire: wire.map(|link| Wire {
                link,
                empty_at: Time(0),
                sign_at: Time(0),
                lost: 0,
                lost_asked: None,
                passed: None,
                next: None,
            }),
            hosts: hosts.into_iter().map(host).collect(),
            end: End::new(cancel),
            queue: VecDeque::new(),
            waited_for: None,
        }
    }

    /// How long our own host may hold up what comes in: as for ports that send MADs.
    fn measure_host_bound(&mut self) -> Duration {
        let clock = self.clock;
        let measured: Result<_, core::convert::Infallible> = host_bound(clock, |wait| Ok(!self.doze(wait)));
        match measured {
            Ok(bound) => bound,
        }
    }

    /// Waits until a source has something, at most that long; whether one has. A frame ends it at once; hosts are looked
    /// at every millisecond where there is a link for frames, which waits by itself.
    fn doze(&mut self, timeout: Duration) -> bool {
        let until = Clock::wall_now() + timeout;
        loop {
            let left = until.saturating_sub(Clock::wall_now());
            let Some(wire) = &mut self.wire else {
                return hosts_have(&self.hosts, left);
            };
            if wire.next.is_some() || hosts_have(&self.hosts, Duration::ZERO) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            let now = self.clock.now();
            let attentive = wire
                .passed
                .is_some_and(|passed| now.since(passed) < self.clock.of_rig(ATTENTION));
            let wait = if attentive {
                Duration::ZERO
            } else {
                left.min(HOSTS_EVERY)
            };
            match wire.link.receive(wait) {
                Ok(taken) => wire.next = taken,
                Err(why) => {
                    self.end.lost(why);
                    return true;
                }
            }
        }
    }

    /// Everything that came in before this was handed over, or is in the queue.
    fn complete_until(&self) -> Time {
        let wire = self.wire.iter().map(|wire| wire.empty_at);
        let hosts = self.hosts.iter().map(|host| host.empty_at);
        wire.chain(hosts).min().unwrap_or_else(|| self.clock.now())
    }

    /// Takes what all sources have. The hosts come first: a frame that left before a host spoke is there by then.
    fn look(&mut self) {
        let mut found = Found::default();
        let mut gone = Vec::new();
        let before = self.clock.now();
        let hosts_have = hosts_have(&self.hosts, Duration::ZERO);
        for host in &mut self.hosts {
            found.next_source();
            if hosts_have || host.has_next() {
                gone.extend(host.look(self.clock, &mut found).err());
            } else {
                host.empty_at = before;
            }
        }
        if let Some(wire) = &mut self.wire {
            found.next_source();
            gone.extend(wire.look(self.clock, &mut found).err());
        }
        found.all.sort_by_key(|(at, _)| *at);
        self.queue.extend(found.all.into_iter().map(|(_, arrival)| arrival));
        if let Some(why) = gone.into_iter().next() {
            self.end.lost(why);
        }
    }

    /// Asks the other ends for a sign when there was none for a while.
    fn probe(&mut self) {
        let now = self.clock.now();
        let mut gone = Vec::new();
        for host in &mut self.hosts {
            gone.extend(host.ask_for_sign(now).err());
        }
        if let Some(wire) = &mut self.wire
            && self.clock.wall(now.since(wire.sign_at)) >= PROBE_AFTER
        {
            wire.sign_at = now;
            gone.extend(wire.link.probe().err());
        }
        if let Some(why) = gone.into_iter().next() {
            self.end.lost(why);
        }
    }

    /// Whether a host was not heard of for so long that the silence of its device says nothing.
    fn wants_sign(&self) -> bool {
        let now = self.clock.now();
        self.hosts.iter().any(|host| host.wants_sign(now))
    }
}

impl Wire {
    fn look(&mut self, clock: Clock, found: &mut Found) -> Result<(), String> {
        // What a wait ended with is handed over at once: who waited is to answer it.
        let at_once = if self.next.is_some() { 1 } else { AT_ONCE };
        for _ in 0..at_once {
            let before = clock.now();
            let taken = match self.next.take() {
                None => self.link.receive(Duration::ZERO)?,
                next => next,
            };
            let Some(Taken { at, frame }) = taken else {
                self.empty_at = before;
                break;
            };
            let at = clock.span(at);
            self.sign_at = before;
            self.passed = Some(before);
            // The link keeps the order of arrival.
            self.empty_at = self.empty_at.max(at.earliest);
            if let Some(frame) = frame {
                found.push(at.latest, Arrival::Frame(0, at, frame));
            }
        }
        if self
            .lost_asked
            .is_some_and(|asked| clock.wall(clock.now().since(asked)) < LOST_EVERY)
        {
            return Ok(());
        }
        self.lost_asked = Some(clock.now());
        let lost = self.link.lost();
        if lost > self.lost {
            let more = lost - self.lost;
            self.lost = lost;
            let text = format!(
                "{more} frames came in faster than they were taken and are lost: a record with holes judges nothing; keep \
                 other traffic off this link, and other work off this host, and run again"
            );
            found.push(clock.now(), Arrival::Stop(Stop::Stalled(text)));
        }
        Ok(())
    }
}

impl Rig for PeerRig {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        if let Some(stop) = self.end.gone() {
            return Err(stop);
        }
        match what {
            Stimulus::Mad(..) | Stimulus::MadTo(..) => Err(Stop::Tester(
                "this rig sends no MADs, and a test sent one: that test needs a rig of kind virtual, model or umad"
                    .into(),
            )),
            Stimulus::Packet(..) => Err(Stop::Tester(
                "this rig has no native link, and a test sent a packet on one: that test needs a rig of kind virtual"
                    .into(),
            )),
            Stimulus::Frame(port, frame) => {
                let Some(wire) = self.wire.as_mut().filter(|_| port == 0) else {
                    return Err(Stop::Tester(format!(
                        "a test sent a frame by port {port}, and this rig has {}",
                        if self.wire.is_some() {
                            "port 0 alone"
                        } else {
                            "none for frames"
                        }
                    )));
                };
                match wire.link.send(frame) {
                    Ok(stamp) => {
                        wire.passed = Some(self.clock.now());
                        Ok(self.clock.span(stamp))
                    }
                    Err(NotSent::Refused(why)) => Err(Stop::Tester(why)),
                    Err(NotSent::NoRoom(why)) => Err(Stop::Stalled(why)),
                    Err(NotSent::Gone(why)) => Err(self.end.lost(why)),
                }
            }
            Stimulus::Verbs(side, number, command) => {
                let before = self.clock.now();
                let Some(host) = self.hosts.iter_mut().find(|host| host.side == side) else {
                    return Err(Stop::Tester(format!(
                        "a test sent a verbs command to the {side}'s host, and this rig has none"
                    )));
                };
                match host.send(number, command) {
                    Ok(()) => Ok(self.clock.since(before)),
                    Err(why) => Err(self.end.lost(why)),
                }
            }
        }
    }

    fn wait(&mut self, until: Time) -> Arrival {
        // A look of an earlier call may have met this deadline, and found more than that call could hand over.
        let mut looked = self.waited_for == Some(until);
        loop {
            if self.end.is_cancelled_now() {
                return Arrival::Stop(Stop::Cancelled);
            }
            if let Some(arrival) = self.queue.pop_front() {
                self.waited_for = Some(until);
                return arrival;
            }
            if let Some(stop) = self.end.gone() {
                return Arrival::Stop(stop);
            }
            let wants_sign = self.wants_sign();
            if looked && self.complete_until() >= until && !wants_sign {
                self.waited_for = None;
                return Arrival::Deadline;
            }
            if looked {
                self.probe();
                let left = self.clock.wall(until.since(self.clock.now()));
                self.doze(if wants_sign { SLICE } else { left.min(SLICE) });
            }
            self.look();
            looked = true;
        }
    }
}

//! Rigs without MADs: raw frames on one link, and verbs on the hosts of one or both devices.
//!
//! All arrivals pass through one queue. Each call of `look` takes the arrivals of all sources and sorts them by the
//! latest time of their spans. Arrivals of one source keep their order. A frame and a later completion are
//! therefore queued in this order, if their spans show the order.

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
pub(super) use open::{dut_host, hosts, packet, pair};

/// Maximum number of arrivals that one call of `look` takes from one source. The rest waits for the next call, so that
/// a flood of arrivals does not delay a deadline.
const AT_ONCE: usize = 4096;
/// Interval between two queries of the number of lost frames.
const LOST_EVERY: Duration = Duration::from_millis(5);
/// Interval between two polls of the hosts during a wait on the link.
const HOSTS_EVERY: Duration = Duration::from_millis(1);
/// For this time after a frame, the rig polls for the next frame without sleeping. A response may arrive sooner than
/// the system can wake this thread.
const ATTENTION: Duration = Duration::from_micros(200);

/// A frame received from a link.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// Time of arrival.
    pub(super) at: Stamp,
    /// The frame; None if it is for another station.
    pub(super) frame: Option<Vec<u8>>,
}

/// A link that carries frames. It has no access to the rig's clock.
pub(super) trait FrameLink: Send {
    /// Sends a frame, and returns the time at which it left.
    fn send(&mut self, frame: &[u8]) -> Result<Stamp, NotSent>;

    /// Returns the next frame. Waits at most `timeout`; zero only polls. None from a poll means that no frame was
    /// there.
    ///
    /// # Errors
    /// When the link is gone; the text is the reason.
    fn receive(&mut self, timeout: Duration) -> Result<Option<Taken>, String>;

    /// Returns the number of received frames that were dropped since the link was opened.
    fn lost(&mut self) -> u64;

    /// Checks whether the other end still exists, for links on which no other call reports its loss.
    ///
    /// # Errors
    /// When the link is gone; the text is the reason.
    fn probe(&mut self) -> Result<(), String>;
}

/// The link for frames, with its state.
struct Wire {
    link: Box<dyn FrameLink>,
    /// Frames that are not taken yet arrived at or after this time.
    empty_at: Time,
    /// Time of the last frame or probe.
    sign_at: Time,
    /// Number of lost frames that were reported.
    lost: u64,
    /// Time of the last query for the number of lost frames.
    lost_asked: Option<Time>,
    /// Time of the last frame in either direction.
    passed: Option<Time>,
    /// A frame that ended a wait and was not taken yet.
    next: Option<Taken>,
}

/// Speed of a device and its agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Ratio of host time to device time.
    pub(super) scale: u32,
    /// Time limit of an agent's command; None for the default.
    pub(super) agent_within: Option<Duration>,
}

impl Pace {
    pub(super) fn of(config: &super::RigConfig) -> Self {
        Self {
            scale: config.slow.scale,
            agent_within: config.slow.agent_within,
        }
    }
}

/// A rig with a link for frames, hosts, or both; in real time.
pub(super) struct PeerRig {
    clock: Clock,
    wire: Option<Wire>,
    hosts: Vec<Host>,
    /// Cancel and loss of the rig. The loss is reported after all earlier arrivals.
    end: End,
    /// Arrivals that the caller has not taken yet.
    queue: VecDeque<Arrival>,
    /// The deadline of the last wait, if an arrival ended that wait.
    waited_for: Option<Time>,
}

/// The arrivals of one call of `look`, each with its sort time.
#[derive(Default)]
struct Found {
    all: Vec<(Time, Arrival)>,
    /// The largest sort time of the current source so far. Sort times of one source never decrease.
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

    /// Returns the rig's clock.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Measures how long this host may delay an arrival.
    pub(super) fn measure_host_bound(&mut self) -> Duration {
        let clock = self.clock;
        let measured: Result<_, core::convert::Infallible> = host_bound(clock, |wait| Ok(!self.doze(wait)));
        match measured {
            Ok(bound) => bound,
        }
    }

    /// Waits until a source has an arrival; false on timeout. A frame ends the wait at once. If there is a link,
    /// the function blocks on the link and polls the hosts every millisecond.
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

    /// Returns the time up to which all arrivals are known: they are in the queue, or the caller has taken them.
    fn complete_until(&self) -> Time {
        let wire = self.wire.iter().map(|wire| wire.empty_at);
        let hosts = self.hosts.iter().map(|host| host.empty_at);
        wire.chain(hosts).min().unwrap_or_else(|| self.clock.now())
    }

    /// Takes the arrivals of all sources. Looks at the hosts before the link, so that every frame that precedes a
    /// host's report is found in the same call.
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

    /// Probes the link and the hosts that were silent for some time.
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

    /// Returns whether a host was silent for so long that its device's silence proves nothing.
    fn wants_sign(&self) -> bool {
        let now = self.clock.now();
        self.hosts.iter().any(|host| host.wants_sign(now))
    }
}

impl Wire {
    fn look(&mut self, clock: Clock, found: &mut Found) -> Result<(), String> {
        // If a frame ended the wait, take only this frame, because the tester may have to respond at once.
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
            // The link delivers frames in the order of their arrival.
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
                "received frames lost on this host: {more}; they arrived faster than the tester read them, and an \
                 incomplete record cannot be judged; keep other traffic off this link, and other work off this host, \
                 and run again"
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
                            "only port 0"
                        } else {
                            "no port for frames"
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
        // If the last call had this deadline, it may already have read all sources past the deadline. The rig then
        // reports the deadline without reading them again.
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

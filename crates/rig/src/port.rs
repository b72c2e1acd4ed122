//! Common part of all ports that send in real time: spans, deadlines, cancel, loss of the port.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use verbatim_record::{Span, Time};
use verbatim_tester::{Arrival, Rig, Step, Stimulus, Stop};
use verbatim_wire::{Lid, Mad};

use super::clock::Clock;

/// The longest single wait. A cancel is noticed within this time.
pub(super) const SLICE: Duration = Duration::from_millis(20);
/// After this time without an arrival or a send, the rig probes whether the link's other end is still there.
pub(super) const PROBE_AFTER: Duration = Duration::from_millis(250);
/// Number of waits in a measurement of the host.
const MEASURED: u32 = 20;
/// Length of each wait in a measurement of the host.
const MEASURED_WAIT: Duration = Duration::from_millis(1);
/// Lower limit of the measured host bound.
const LEAST_HOST_BOUND: Duration = Duration::from_millis(10);

/// A port that sends and receives MADs, and has no clock.
pub(super) trait Link: Send {
    fn send(&mut self, mad: &Mad) -> Result<(), NotSent>;

    /// Sends a LID-routed SMP to an arbitrary LID.
    fn send_to(&mut self, lid: Lid, mad: &Mad) -> Result<(), NotSent> {
        Err(NotSent::Refused(format!(
            "{mad} cannot be sent to LID {lid}: this rig reaches only the device under test; use a rig of kind umad or \
             virtual"
        )))
    }

    /// Returns the next MAD. Waits at most `timeout`; zero only polls. A poll returns None if no MAD was there. A
    /// wait may return None early.
    ///
    /// # Errors
    /// When the port is gone; the text is the reason.
    fn recv(&mut self, timeout: Duration) -> Result<Option<Incoming>, String>;

    /// Checks whether the link's other end still exists, for links on which no other call reports its loss. Sends
    /// nothing to the device under test.
    ///
    /// # Errors
    /// When the port is gone; the text is the reason.
    fn probe(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Sets the response timeout of the MADs sent from now on.
    fn answers_within(&mut self, _: Duration) {}

    /// Returns whether a MAD sent now leaves at once. If not, an arrival or the passage of time frees room.
    ///
    /// # Errors
    /// When the port is gone; the text is the reason.
    fn has_room(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    /// Stops waiting for the responses to all MADs sent so far.
    ///
    /// # Errors
    /// When the port is gone; the text is the reason.
    fn give_up(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Checks that the state found when the rig was opened, such as the subnet manager, has not changed.
    ///
    /// # Errors
    /// When the state has changed; the text has the change and the remedy.
    fn is_undisturbed(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// An arrival at the port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) mad: Mad,
    /// 0, or the errno with which the host returns one of our own MADs.
    pub(super) errno: i32,
}

/// The reason why a MAD was not sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NotSent {
    /// The port is gone.
    Gone(String),
    /// This MAD cannot be sent; the port can still be used.
    Refused(String),
    /// The send queue is full; the port can still be used.
    NoRoom(String),
}

/// Measures how long this host may delay an action: twice the worst overshoot of short waits. `wait` returns whether it
/// lasted its full time; a wait that ended early is not measured.
pub(super) fn host_bound<E>(clock: Clock, mut wait: impl FnMut(Duration) -> Result<bool, E>) -> Result<Duration, E> {
    let mut worst = Duration::ZERO;
    for _ in 0..MEASURED {
        let before = Clock::wall_now();
        if wait(MEASURED_WAIT)? {
            let lasted = Clock::wall_now().saturating_sub(before);
            worst = worst.max(lasted.saturating_sub(MEASURED_WAIT));
        }
    }
    Ok(clock.of_rig((2 * worst).max(LEAST_HOST_BOUND)))
}

/// The events that end a run from outside. A cancel is reported once; the loss of the rig is reported at every wait and
/// send.
pub(super) struct End {
    pub(super) cancel: Arc<AtomicBool>,
    cancel_told: bool,
    gone: Option<String>,
}

impl End {
    pub(super) fn new(cancel: Arc<AtomicBool>) -> Self {
        Self {
            cancel,
            cancel_told: false,
            gone: None,
        }
    }

    /// Returns true once after the run was cancelled.
    pub(super) fn is_cancelled_now(&mut self) -> bool {
        let cancelled = self.cancel.load(Ordering::Acquire);
        let news = cancelled && !self.cancel_told;
        self.cancel_told = cancelled;
        news
    }

    /// Records the loss of the rig, and returns it. Keeps the first reason.
    pub(super) fn lost(&mut self, why: String) -> Stop {
        Stop::RigGone(self.gone.get_or_insert(why).clone())
    }

    /// Returns the loss of the rig, if it is lost.
    pub(super) fn gone(&self) -> Option<Stop> {
        self.gone.clone().map(Stop::RigGone)
    }
}

/// A rig on one link, in real time.
pub(super) struct PortRig<L> {
    link: L,
    clock: Clock,
    end: End,
    /// MADs that are not taken yet arrived at or after this time.
    empty_at: Time,
    /// Time of the last arrival or successful send.
    sign_at: Time,
    /// Arrivals that were received while a send waited for room.
    early: VecDeque<Arrival>,
}

impl<L: Link> PortRig<L> {
    pub(super) fn new(link: L, scale: u32, cancel: Arc<AtomicBool>) -> Self {
        Self {
            link,
            clock: Clock::start(scale),
            end: End::new(cancel),
            empty_at: Time(0),
            sign_at: Time(0),
            early: VecDeque::new(),
        }
    }

    /// Returns the rig on another clock, which it then shares with another rig.
    pub(super) fn on_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Measures how long this host may delay a MAD.
    pub(super) fn measure_host_bound(&mut self) -> Result<Duration, String> {
        let link = &mut self.link;
        // A MAD that arrives during the measurement is dropped.
        host_bound(self.clock, |wait| link.recv(wait).map(|incoming| incoming.is_none()))
    }

    /// Waits until the link has room for one more MAD. Queues the arrivals meanwhile, in order and with their
    /// times. After a cancel, drops the outstanding requests to make room.
    fn make_room(&mut self) -> Result<(), String> {
        while !self.link.has_room()? {
            if self.end.cancel.load(Ordering::Acquire) {
                self.link.give_up()?;
            } else if let Some(arrival) = self.look(self.clock.now().after(self.clock.of_rig(SLICE)))?
                && arrival != Arrival::Deadline
            {
                self.early.push_back(arrival);
            }
        }
        Ok(())
    }

    /// Returns a queued arrival, else polls, then waits once. Returns None if the wait ended early and without an
    /// arrival.
    fn step(&mut self, until: Time) -> Result<Option<Arrival>, String> {
        match self.early.pop_front() {
            Some(arrival) => Ok(Some(arrival)),
            None => self.look(until),
        }
    }

    fn look(&mut self, until: Time) -> Result<Option<Arrival>, String> {
        let before = self.clock.now();
        if let Some(incoming) = self.link.recv(Duration::ZERO)? {
            return Ok(Some(self.arrived(incoming)));
        }
        self.empty_at = before;
        if before >= until {
            return Ok(Some(Arrival::Deadline));
        }
        if self.clock.wall(before.since(self.sign_at)) >= PROBE_AFTER {
            self.link.probe()?;
            self.sign_at = before;
        }
        let incoming = self.link.recv(self.clock.wall(until.since(before)).min(SLICE))?;
        Ok(incoming.map(|incoming| self.arrived(incoming)))
    }

    fn arrived(&mut self, Incoming { mad, errno }: Incoming) -> Arrival {
        let at = self.clock.since(self.empty_at);
        self.sign_at = at.latest;
        if errno == 0 {
            Arrival::Mad(0, at, mad)
        } else {
            Arrival::Returned(0, at, mad, errno)
        }
    }
}

impl<L: Link> Rig for PortRig<L> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        if let Some(stop) = self.end.gone() {
            return Err(stop);
        }
        let (to, mad) = match what {
            Stimulus::Mad(_, mad) => (None, mad),
            Stimulus::MadTo(_, lid, mad) => (Some(lid), mad),
            Stimulus::Packet(..) | Stimulus::Frame(..) | Stimulus::Verbs(..) => {
                return Err(Stop::Tester(
                    "this rig carries only MADs, and a test sent a packet, a frame or a verbs command: that test needs \
                     a rig of kind virtual, packet or verbs"
                        .into(),
                ));
            }
        };
        self.make_room().map_err(|why| self.end.lost(why))?;
        let before = self.clock.now();
        let sent = match to {
            None => self.link.send(mad),
            Some(lid) => self.link.send_to(lid, mad),
        };
        let at = self.clock.since(before);
        match sent {
            Ok(()) => {
                self.sign_at = at.latest;
                Ok(at)
            }
            Err(NotSent::Gone(why)) => Err(self.end.lost(why)),
            Err(NotSent::Refused(why)) => Err(Stop::Tester(why)),
            Err(NotSent::NoRoom(why)) => Err(Stop::Stalled(why)),
        }
    }

    fn wait(&mut self, until: Time) -> Arrival {
        loop {
            if let Some(stop) = self.end.gone() {
                return Arrival::Stop(stop);
            }
            if self.end.is_cancelled_now() {
                return Arrival::Stop(Stop::Cancelled);
            }
            match self.step(until) {
                Ok(Some(arrival)) => return arrival,
                Ok(None) => {}
                Err(why) => return Arrival::Stop(self.end.lost(why)),
            }
        }
    }

    fn answers_within(&mut self, how_long: Duration) {
        self.link.answers_within(how_long);
    }

    fn procedure_ended(&mut self) -> Step {
        if let Some(stop) = self.end.gone() {
            return Err(stop);
        }
        self.link.give_up().map_err(|why| self.end.lost(why))?;
        self.link.is_undisturbed().map_err(Stop::Disturbed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;
    use verbatim_wire::{AttributeId, Method};

    /// A link that follows a script.
    #[derive(Default)]
    struct Script {
        /// Each arrival, with its time after the first `recv`.
        arrivals: VecDeque<(Duration, Incoming)>,
        start: Option<Instant>,
        probes: usize,
        dies_at_probe: bool,
        refuses: Option<NotSent>,
        /// Number of arrivals until there is room to send.
        full: usize,
        disturbed: Option<String>,
    }

    impl Link for Script {
        fn send(&mut self, _: &Mad) -> Result<(), NotSent> {
            self.refuses.take().map_or(Ok(()), Err)
        }

        fn recv(&mut self, timeout: Duration) -> Result<Option<Incoming>, String> {
            let start = *self.start.get_or_insert_with(Instant::now);
            let due = self.arrivals.front().map(|(due, _)| *due);
            let until = start.elapsed() + timeout;
            match due {
                Some(due) if due <= until => {
                    thread::sleep(due.saturating_sub(start.elapsed()));
                    self.full = self.full.saturating_sub(1);
                    Ok(self.arrivals.pop_front().map(|(_, incoming)| incoming))
                }
                _ => {
                    thread::sleep(timeout);
                    Ok(None)
                }
            }
        }

        fn probe(&mut self) -> Result<(), String> {
            self.probes += 1;
            if self.dies_at_probe {
                return Err("dead".into());
            }
            Ok(())
        }

        fn has_room(&mut self) -> Result<bool, String> {
            Ok(self.full == 0)
        }

        fn give_up(&mut self) -> Result<(), String> {
            self.full = 0;
            Ok(())
        }

        fn is_undisturbed(&mut self) -> Result<(), String> {
            self.disturbed.clone().map_or(Ok(()), Err)
        }
    }

    fn rig(script: Script) -> PortRig<Script> {
        PortRig::new(script, 1, Arc::default())
    }

    fn incoming(errno: i32) -> Incoming {
        Incoming {
            mad: Mad::directed(Method::GET_RESP, AttributeId::PORT_INFO, 0, &[1]),
            errno,
        }
    }

    #[test]
    fn arrival_span_contains_true_time() {
        let due = Duration::from_millis(1500);
        let mut rig = rig(Script {
            arrivals: VecDeque::from([(due, incoming(0)), (due, incoming(110))]),
            ..Script::default()
        });
        let Arrival::Mad(0, at, _) = rig.wait(Time(0).after(Duration::from_secs(5))) else {
            panic!("no MAD");
        };
        let truth = Time(0).after(due);
        // The script's clock starts a little after the rig's, and the machine may be busy.
        let slack = Duration::from_secs(1);
        assert!(
            at.earliest <= truth.after(slack) && at.latest >= truth,
            "{at:?} around {truth:?}"
        );
        assert!(at.latest.since(at.earliest) < SLICE + slack, "{at:?}");
        let Arrival::Returned(0, second, _, 110) = rig.wait(Time(u64::MAX)) else {
            panic!("not given back");
        };
        assert_eq!(second.earliest, at.earliest, "the link was not seen empty in between");
    }

    #[test]
    fn deadline_waits_until_link_is_empty() {
        let mut rig = rig(Script::default());
        let until = rig.now().after(Duration::from_millis(30));
        assert_eq!(rig.wait(until), Arrival::Deadline);
        assert!(rig.empty_at >= until);
        assert_eq!(
            rig.wait(Time(0)),
            Arrival::Deadline,
            "a deadline in the past is met at once"
        );
    }

    #[test]
    fn arrival_precedes_a_passed_deadline() {
        let mut rig = rig(Script {
            arrivals: VecDeque::from([(Duration::ZERO, incoming(0))]),
            ..Script::default()
        });
        assert!(matches!(rig.wait(Time(0)), Arrival::Mad(..)));
        assert_eq!(rig.wait(Time(0)), Arrival::Deadline);
    }

    #[test]
    fn cancel_interrupts_wait_and_is_reported_once() {
        let mut rig = rig(Script::default());
        let cancel = Arc::clone(&rig.end.cancel);
        let other = Arc::clone(&cancel);
        let canceller = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            other.store(true, Ordering::Release);
        });
        let start = Instant::now();
        let far = Time(0).after(Duration::from_secs(600));
        assert_eq!(rig.wait(far), Arrival::Stop(Stop::Cancelled));
        assert!(start.elapsed() < Duration::from_secs(5));
        canceller.join().unwrap();
        let soon = rig.now().after(Duration::from_millis(5));
        assert_eq!(rig.wait(soon), Arrival::Deadline, "it is told once");
        cancel.store(false, Ordering::Release);
        assert_eq!(rig.wait(Time(0)), Arrival::Deadline);
        cancel.store(true, Ordering::Release);
        assert_eq!(rig.wait(far), Arrival::Stop(Stop::Cancelled));
    }

    #[test]
    fn probe_finds_a_silently_lost_link() {
        let mut rig = rig(Script {
            dies_at_probe: true,
            ..Script::default()
        });
        let start = Instant::now();
        let gone = Arrival::Stop(Stop::RigGone("dead".into()));
        assert_eq!(rig.wait(Time(0).after(Duration::from_secs(600))), gone);
        assert!(start.elapsed() >= PROBE_AFTER && start.elapsed() < Duration::from_secs(10));
        assert_eq!(rig.wait(Time(u64::MAX)), gone, "at once, at every wait");
        let mad = incoming(0).mad;
        assert_eq!(rig.send(Stimulus::Mad(0, &mad)), Err(Stop::RigGone("dead".into())));
    }

    #[test]
    fn active_link_is_not_probed() {
        let arrivals = (1..=20)
            .map(|at| (Duration::from_millis(at * 20), incoming(0)))
            .collect();
        let mut rig = rig(Script {
            arrivals,
            ..Script::default()
        });
        for _ in 0..20 {
            assert!(matches!(rig.wait(Time(u64::MAX)), Arrival::Mad(..)));
        }
        assert_eq!(rig.link.probes, 0);
    }

    #[test]
    fn refused_mad_leaves_port_usable() {
        let mut rig = rig(Script {
            refuses: Some(NotSent::Refused("no".into())),
            ..Script::default()
        });
        let mad = incoming(0).mad;
        assert_eq!(rig.send(Stimulus::Mad(0, &mad)), Err(Stop::Tester("no".into())));
        assert!(rig.send(Stimulus::Mad(0, &mad)).is_ok());
    }

    #[test]
    fn send_waits_for_room_and_queues_arrivals() {
        let due = [40, 80].map(Duration::from_millis);
        let mut rig = rig(Script {
            arrivals: VecDeque::from([(due[0], incoming(0)), (due[1], incoming(110))]),
            full: 2,
            ..Script::default()
        });
        let sent = rig.send(Stimulus::Mad(0, &incoming(0).mad)).unwrap();
        assert!(sent.earliest >= Time(0).after(due[1]), "{sent:?}");
        let Arrival::Mad(0, first, _) = rig.wait(sent.latest) else {
            panic!("no MAD");
        };
        assert!(first.earliest < sent.earliest && first.latest >= Time(0).after(due[0]));
        assert!(matches!(rig.wait(sent.latest), Arrival::Returned(0, at, _, 110) if at.latest <= sent.latest));
        assert_eq!(rig.wait(sent.latest), Arrival::Deadline);
    }

    #[test]
    fn cancelled_run_does_not_wait_for_room() {
        let mut rig = rig(Script {
            full: 1,
            ..Script::default()
        });
        rig.end.cancel.store(true, Ordering::Release);
        assert!(rig.send(Stimulus::Mad(0, &incoming(0).mad)).is_ok());
    }

    #[test]
    fn procedure_end_reports_disturbance() {
        let mut rig = rig(Script {
            full: 1,
            disturbed: Some("somebody".into()),
            ..Script::default()
        });
        assert_eq!(rig.procedure_ended(), Err(Stop::Disturbed("somebody".into())));
        assert!(
            rig.send(Stimulus::Mad(0, &incoming(0).mad)).is_ok(),
            "and nothing is waited for any more"
        );
    }

    #[test]
    fn host_bound_is_at_least_10_ms() {
        let bound = rig(Script::default()).measure_host_bound().unwrap();
        assert!(bound >= LEAST_HOST_BOUND, "{bound:?}");
    }
}

//! What all real ports share: spans, deadlines, cancel, and a peer that vanishes without a word.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use verbatim_record::{Span, Time};
use verbatim_tester::{Arrival, Rig, Step, Stimulus, Stop};
use verbatim_wire::{Lid, Mad};

use super::clock::Clock;

/// The longest time in which a cancel is not seen.
pub(super) const SLICE: Duration = Duration::from_millis(20);
/// After so long without any sign the link is asked whether its other end is still there.
pub(super) const PROBE_AFTER: Duration = Duration::from_millis(250);
/// Waits that are measured, and how long each is.
const MEASURED: u32 = 20;
const MEASURED_WAIT: Duration = Duration::from_millis(1);
/// The bound of our own host is never taken as less.
const LEAST_HOST_BOUND: Duration = Duration::from_millis(10);

/// A port that MADs go out by and come in from; knows nothing of time.
pub(super) trait Link: Send {
    /// Sends.
    fn send(&mut self, mad: &Mad) -> Result<(), NotSent>;

    /// Sends a LID-routed SMP to any LID.
    fn send_to(&mut self, lid: Lid, mad: &Mad) -> Result<(), NotSent> {
        Err(NotSent::Refused(format!(
            "{mad} cannot be sent to LID {lid}: this rig reaches the device under test alone; use a rig of kind umad or \
             virtual"
        )))
    }

    /// Takes what came in, waiting at most that long; zero looks without waiting. Nothing from a look means that
    /// nothing was there; nothing from a wait may come early.
    ///
    /// # Errors
    /// When the port is gone: why.
    fn recv(&mut self, timeout: Duration) -> Result<Option<Incoming>, String>;

    /// Does what shows whether the other end is still there, if it would not be seen otherwise. Nothing of it reaches
    /// the device under test.
    ///
    /// # Errors
    /// When the port is gone: why.
    fn probe(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// How long answers to what is sent from now on are waited for.
    fn answers_within(&mut self, _: Duration) {}

    /// Whether a MAD that is sent now leaves at once. What frees room is an arrival, or time.
    ///
    /// # Errors
    /// When the port is gone: why.
    fn has_room(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    /// Nobody waits any more for answers to what was sent so far.
    ///
    /// # Errors
    /// When the port is gone: why.
    fn give_up(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Whether what the rig was opened on is as it was.
    ///
    /// # Errors
    /// What became of it, and the remedy.
    fn is_undisturbed(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// What came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    /// The MAD.
    pub(super) mad: Mad,
    /// 0, or the host's error number with which it gives a MAD of ours back.
    pub(super) errno: i32,
}

/// Why a MAD was not sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NotSent {
    /// The port is gone.
    Gone(String),
    /// This MAD cannot be sent; the port lives.
    Refused(String),
    /// There was no room for it on the way out; the port lives.
    NoRoom(String),
}

/// How long this host may hold something up: twice the worst overshoot of short waits. A wait says whether it lasted
/// its time: one that was cut short measures nothing.
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

/// What ends a run on a rig from outside: a cancel, told once, and the loss of the rig, told at every wait and send.
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

    /// Whether the run was cancelled and nobody was told yet.
    pub(super) fn is_cancelled_now(&mut self) -> bool {
        let cancelled = self.cancel.load(Ordering::Acquire);
        let news = cancelled && !self.cancel_told;
        self.cancel_told = cancelled;
        news
    }

    /// The rig is gone, for this reason if it was not gone before.
    pub(super) fn lost(&mut self, why: String) -> Stop {
        Stop::RigGone(self.gone.get_or_insert(why).clone())
    }

    /// What tells that the rig is gone, if it is.
    pub(super) fn gone(&self) -> Option<Stop> {
        self.gone.clone().map(Stop::RigGone)
    }
}

/// A rig over one link, in real time.
pub(super) struct PortRig<L> {
    link: L,
    clock: Clock,
    end: End,
    /// Nothing that is still to come arrived before this.
    empty_at: Time,
    /// The last sign of life: something arrived, or was taken from us.
    sign_at: Time,
    /// What came in while a send waited for room.
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

    /// How long our own host may hold up a MAD: twice the worst overshoot of short waits.
    pub(super) fn measure_host_bound(&mut self) -> Result<Duration, String> {
        let link = &mut self.link;
        // What arrives here belongs to nobody.
        host_bound(self.clock, |wait| link.recv(wait).map(|incoming| incoming.is_none()))
    }

    /// Waits until the link has room for one more. What comes in meanwhile is kept, in order and with its instant. A run
    /// that was cancelled waits for no answer any more.
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

    /// Takes what came early; else looks, then waits once. Nothing when neither `until` nor an arrival was met.
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
                    "this rig carries MADs alone, and a test sent a packet, a frame or a verbs command: that test needs a \
                     rig of kind virtual, packet or verbs"
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

    /// A link with a script: what each recv does.
    #[derive(Default)]
    struct Script {
        /// Waits until the first arrival, then what arrives.
        arrivals: VecDeque<(Duration, Incoming)>,
        start: Option<Instant>,
        probes: usize,
        dies_at_probe: bool,
        refuses: Option<NotSent>,
        /// So many arrivals until there is room.
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
    fn the_span_of_an_arrival_holds_its_true_instant_and_is_shorter_than_a_slice() {
        let due = Duration::from_millis(1500);
        let mut rig = rig(Script {
            arrivals: VecDeque::from([(due, incoming(0)), (due, incoming(110))]),
            ..Script::default()
        });
        let Arrival::Mad(0, at, _) = rig.wait(Time(0).after(Duration::from_secs(5))) else {
            panic!("no MAD");
        };
        let truth = Time(0).after(due);
        // The script's clock starts a little after the rig's, and the machine may be busy with something else.
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
    fn a_deadline_comes_when_the_link_was_seen_empty_after_it_and_not_before() {
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
    fn what_lies_there_at_the_deadline_is_taken_first() {
        let mut rig = rig(Script {
            arrivals: VecDeque::from([(Duration::ZERO, incoming(0))]),
            ..Script::default()
        });
        assert!(matches!(rig.wait(Time(0)), Arrival::Mad(..)));
        assert_eq!(rig.wait(Time(0)), Arrival::Deadline);
    }

    #[test]
    fn a_cancel_is_seen_in_the_middle_of_a_wait_told_once_and_told_again_for_the_next_run() {
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
    fn a_link_that_dies_silently_is_found_by_a_probe_and_stays_gone() {
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
    fn a_link_that_answers_is_not_probed() {
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
    fn a_refused_mad_stops_the_test_and_leaves_the_port() {
        let mut rig = rig(Script {
            refuses: Some(NotSent::Refused("no".into())),
            ..Script::default()
        });
        let mad = incoming(0).mad;
        assert_eq!(rig.send(Stimulus::Mad(0, &mad)), Err(Stop::Tester("no".into())));
        assert!(rig.send(Stimulus::Mad(0, &mad)).is_ok());
    }

    #[test]
    fn a_send_waits_for_room_and_what_comes_meanwhile_keeps_its_order_and_its_instant() {
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
    fn a_cancelled_run_waits_for_no_room() {
        let mut rig = rig(Script {
            full: 1,
            ..Script::default()
        });
        rig.end.cancel.store(true, Ordering::Release);
        assert!(rig.send(Stimulus::Mad(0, &incoming(0).mad)).is_ok());
    }

    #[test]
    fn what_came_between_is_told_at_the_end_of_a_procedure_and_the_port_lives_on() {
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
    fn the_host_bound_is_at_least_ten_milliseconds() {
        let bound = rig(Script::default()).measure_host_bound().unwrap();
        assert!(bound >= LEAST_HOST_BOUND, "{bound:?}");
    }
}

//! A rig with MADs and verbs to the same device: a rig for MADs, and a rig for the hosts of both adapters, on one clock.

use core::time::Duration;

use verbatim_record::{Span, Time};
use verbatim_tester::{Arrival, Rig, Step, Stimulus};

/// The longest wait for one of the two rigs. The other rig is then polled.
const TURN: Duration = Duration::from_millis(1);

/// Two rigs as one.
pub(super) struct Both<M, H> {
    mads: M,
    hosts: H,
}

impl<M: Rig, H: Rig> Both<M, H> {
    /// Joins two rigs, whose clocks must be the same.
    pub(super) fn new(mads: M, hosts: H) -> Self {
        Self { mads, hosts }
    }
}

impl<M: Rig, H: Rig> Rig for Both<M, H> {
    fn now(&self) -> Time {
        self.mads.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        match what {
            Stimulus::Verbs(..) => self.hosts.send(what),
            _ => self.mads.send(what),
        }
    }

    fn wait(&mut self, until: Time) -> Arrival {
        loop {
            let polled = self.now().min(until);
            let arrival = self.mads.wait(polled);
            if arrival != Arrival::Deadline {
                return arrival;
            }
            let arrival = self.hosts.wait(polled);
            if arrival != Arrival::Deadline || polled >= until {
                return arrival;
            }
            let arrival = self.hosts.wait(polled.after(TURN).min(until));
            if arrival != Arrival::Deadline {
                return arrival;
            }
        }
    }

    fn answers_within(&mut self, how_long: Duration) {
        self.mads.answers_within(how_long);
    }

    fn procedure_ended(&mut self) -> Step {
        self.hosts.procedure_ended()?;
        self.mads.procedure_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};
    use verbatim_tester::Stop;

    /// A rig with arrivals at given times. The two rigs of a test share the time, which only waits advance.
    struct Script {
        now: Arc<Mutex<Time>>,
        arrivals: VecDeque<(u64, &'static str)>,
    }

    impl Rig for Script {
        fn now(&self) -> Time {
            *self.now.lock().unwrap()
        }

        fn send(&mut self, _: Stimulus<'_>) -> Step<Span> {
            Err(Stop::Tester("a script sends nothing".into()))
        }

        fn wait(&mut self, until: Time) -> Arrival {
            let mut now = self.now.lock().unwrap();
            match self.arrivals.front() {
                Some((at, what)) if Time(*at) <= until.max(*now) => {
                    *now = now.max(Time(*at));
                    let stop = Arrival::Stop(Stop::RigGone((*what).into()));
                    self.arrivals.pop_front();
                    stop
                }
                _ => {
                    *now = now.max(until);
                    Arrival::Deadline
                }
            }
        }
    }

    #[test]
    fn takes_arrivals_of_both_before_the_deadline() {
        let now = Arc::new(Mutex::new(Time(0)));
        let script = |arrivals: &[(u64, &'static str)]| Script {
            now: Arc::clone(&now),
            arrivals: arrivals.iter().copied().collect(),
        };
        let mads = script(&[(500_000, "mad"), (9_000_000, "late mad")]);
        let mut both = Both::new(mads, script(&[(2_500_000, "host")]));
        let mut came = Vec::new();
        loop {
            match both.wait(Time(5_000_000)) {
                Arrival::Stop(Stop::RigGone(what)) => came.push(what),
                other => {
                    assert_eq!(other, Arrival::Deadline);
                    break;
                }
            }
        }
        assert_eq!(came, ["mad", "host"]);
        assert_eq!(both.now(), Time(5_000_000));
        assert_eq!(
            both.wait(Time(10_000_000)),
            Arrival::Stop(Stop::RigGone("late mad".into()))
        );
    }
}

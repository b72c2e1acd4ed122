//! A run that waits or is under way: its events go to the store and, from a short memory, to its watchers.
//!
//! Watchers pull: each asks from its own cursor on when it has room for more, and is told that there is something new
//! through one number. Nobody waits for a watcher. One that is far behind reads from the store.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost_types::Timestamp;
use tokio::sync::watch;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{RunEvent, RunInfo, RunState, RunStateChanged};
use verbatim_proto::worker::Lease;
use verbatim_run::RunId;

use super::ending::Ending;
use crate::store::{HistoryStore, StoreError, StoredRun};

/// Events kept in memory for watchers.
const RECENT: usize = 256;

/// What is new in a run since a cursor.
#[derive(Clone, PartialEq, Debug)]
pub enum Since {
    /// These events; none when the cursor is that of the last one.
    Events(Vec<RunEvent>),
    /// More than is in memory, which begins with this cursor: the store has the rest.
    OlderThan(u64),
}

/// A run that has not ended.
#[derive(Debug)]
pub struct Live {
    id: RunId,
    /// Held by who writes: events come one after the other. Watchers never wait for a disk: they need only `log`.
    turn: Mutex<()>,
    log: Mutex<Log>,
    /// The last cursor.
    last: watch::Sender<u64>,
    stop: watch::Sender<bool>,
    lease: watch::Sender<Lease>,
}

#[derive(Debug)]
struct Log {
    run: StoredRun,
    recent: VecDeque<RunEvent>,
    /// Why the store does not keep the run's events any more.
    unkept: Option<String>,
    /// Who stopped the run.
    stopped: Option<String>,
}

impl Live {
    /// A run that was just kept, or found.
    #[must_use]
    pub fn new(run: StoredRun, last: u64) -> Self {
        Self {
            id: run.id.clone(),
            turn: Mutex::new(()),
            log: Mutex::new(Log {
                run,
                recent: VecDeque::new(),
                unkept: None,
                stopped: None,
            }),
            last: watch::Sender::new(last),
            stop: watch::Sender::new(false),
            lease: watch::Sender::default(),
        }
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.id
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run as it stands.
    #[must_use]
    pub fn run(&self) -> StoredRun {
        self.log().run.clone()
    }

    /// Changes whenever there is a new event, to its cursor.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Turns true when the run is to stop.
    #[must_use]
    pub fn stop_signal(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// The lease that the run is under, as it stands.
    #[must_use]
    pub fn lease(&self) -> watch::Receiver<Lease> {
        self.lease.subscribe()
    }

    /// The run is under this lease, or that was renewed.
    pub fn under(&self, lease: Lease) {
        self.lease.send_replace(lease);
    }

    /// Asks the run to stop; the first to ask is the one who did.
    pub fn stop(&self, who: &str) {
        self.log().stopped.get_or_insert_with(|| who.into());
        self.stop.send_replace(true);
    }

    /// Who stopped the run.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.log().stopped.clone()
    }

    /// Why the run's events are not kept any more.
    #[must_use]
    pub fn unkept(&self) -> Option<String> {
        self.log().unkept.clone()
    }

    /// Keeps events and shows them to watchers. When the store cannot, the run is stopped, and its watchers still see
    /// what happens.
    pub fn tell(&self, store: &dyn HistoryStore, now_ns: u64, events: Vec<Event>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = *self.last.borrow();
        let mut new = Vec::with_capacity(events.len());
        for event in events {
            last += 1;
            new.push(RunEvent {
                cursor: last,
                time: Some(timestamp(now_ns)),
                event: Some(event),
            });
        }
        if self.unkept().is_none()
            && let Err(error) = store.append(&self.id, &new)
        {
            tracing::error!(run = %self.id, %error, "the run's events cannot be kept: it is stopped");
            self.cannot_keep(&error);
        }
        let mut log = self.log();
        for event in new {
            if log.recent.len() == RECENT {
                log.recent.pop_front();
            }
            log.recent.push_back(to_watch(event));
        }
        self.last.send_replace(last);
    }

    /// Notes that the store does not keep the run any more, and stops it.
    pub fn cannot_keep(&self, error: &StoreError) {
        self.log().unkept.get_or_insert_with(|| error.to_string());
        self.stop.send_replace(true);
    }

    /// The run begins.
    ///
    /// # Errors
    /// When the store cannot keep that: the run is not to begin.
    pub fn begin(&self, store: &dyn HistoryStore, now_ns: u64) -> Result<(), StoreError> {
        let run = {
            let mut log = self.log();
            log.run.state = RunState::Running;
            // Also where the clock was set back meanwhile: what comes after does not come before.
            let started_ns = now_ns.max(log.run.created_ns);
            log.run.started_ns.get_or_insert(started_ns);
            log.run.reason.clear();
            log.run.clone()
        };
        store.update(&run).inspect_err(|error| self.cannot_keep(error))?;
        self.tell(store, now_ns, vec![changed(RunState::Running, None)]);
        Ok(())
    }

    /// The run gave way and waits again: why.
    pub fn wait_again(&self, store: &dyn HistoryStore, now_ns: u64, why: &str) {
        let run = {
            let mut log = self.log();
            log.run.state = RunState::Queued;
            log.run.reason = why.into();
            log.run.clone()
        };
        if let Err(error) = store.update(&run) {
            self.cannot_keep(&error);
        }
        let waits = RunStateChanged {
            state: RunState::Queued.into(),
            reason: why.into(),
            ..RunStateChanged::default()
        };
        self.tell(store, now_ns, vec![Event::StateChanged(waits)]);
    }

    /// The run ends; returns with what, which is an error when the store cannot keep it. The store tells of it from then
    /// on, if only until the daemon ends when it cannot write.
    pub fn end(&self, store: &dyn HistoryStore, now_ns: u64, ending: Ending, info: Option<RunInfo>) -> Ending {
        let mut ending = ending;
        self.log().run.info = info;
        if let Err(error) = store.update(&self.ended(now_ns, &ending)) {
            tracing::error!(run = %self.id, %error, "the run's end cannot be kept");
            self.cannot_keep(&error);
            ending = Ending::of_unkept(&error.to_string());
            // The disk may be as full as before: then memory has it.
            let _ = store.update(&self.ended(now_ns, &ending));
        }
        self.tell(store, now_ns, vec![changed(RunState::Ended, Some(&ending))]);
        ending
    }

    fn ended(&self, now_ns: u64, ending: &Ending) -> StoredRun {
        let mut log = self.log();
        log.run.state = RunState::Ended;
        log.run.outcome = Some(ending.outcome);
        log.run.cause = ending.cause;
        log.run.reason.clone_from(&ending.reason);
        log.run.ended_ns = Some(now_ns.max(log.run.started_ns.unwrap_or(log.run.created_ns)));
        log.run.clone()
    }

    /// Events after a cursor.
    #[must_use]
    pub fn since(&self, cursor: u64) -> Since {
        let log = self.log();
        match log.recent.front() {
            Some(first) if first.cursor > cursor + 1 => Since::OlderThan(first.cursor),
            // Events of an earlier daemon are in the store alone.
            None if *self.last.borrow() > cursor => Since::OlderThan(*self.last.borrow() + 1),
            _ => {
                let new = log.recent.iter().filter(|event| event.cursor > cursor);
                Since::Events(new.take(64).cloned().collect())
            }
        }
    }
}

/// A run moved to a state.
#[must_use]
pub fn changed(state: RunState, ending: Option<&Ending>) -> Event {
    Event::StateChanged(RunStateChanged {
        state: state.into(),
        outcome: ending.map(|ending| ending.outcome).unwrap_or_default().into(),
        cause: ending.and_then(|ending| ending.cause).unwrap_or_default().into(),
        reason: ending.map(|ending| ending.reason.clone()).unwrap_or_default(),
    })
}

/// Whether an event is the last of its run.
#[must_use]
pub fn is_last(event: &RunEvent) -> bool {
    matches!(&event.event, Some(Event::StateChanged(changed)) if changed.state() == RunState::Ended)
}

/// An event as a watcher gets it: without the checks that passed, of which a sweep has a hundred thousand.
#[must_use]
pub fn to_watch(mut event: RunEvent) -> RunEvent {
    if let Some(Event::TestEnded(ended)) = &mut event.event
        && let Some(verdict) = &mut ended.verdict
    {
        verdict.passed = Vec::new();
    }
    event
}

/// Nanoseconds since 1970 as a timestamp.
#[must_use]
pub fn timestamp(ns: u64) -> Timestamp {
    Timestamp {
        seconds: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

//! A waiting or running run. Its events go to the store and, through a short buffer in memory, to its watchers.
//!
//! Each watcher reads from its own cursor at its own pace, and a watcher that is far behind reads from the store.
//! The run never waits for a watcher. A channel with the last cursor notifies watchers of new events.

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

/// How many events are buffered for watchers.
const RECENT: usize = 256;

/// The events of a run after a cursor.
#[derive(Clone, PartialEq, Debug)]
pub enum Since {
    /// The events; an empty list if no event follows the cursor.
    Events(Vec<RunEvent>),
    /// The events are no longer in the buffer, which starts at this cursor. The store has them.
    OlderThan(u64),
}

/// A run that has not ended.
#[derive(Debug)]
pub struct Live {
    id: RunId,
    /// Locked while events are written, so that they are written one after the other. Watchers lock only `log`, so
    /// they never wait for a disk.
    turn: Mutex<()>,
    log: Mutex<Log>,
    /// The cursor of the last event.
    last: watch::Sender<u64>,
    stop: watch::Sender<bool>,
    lease: watch::Sender<Lease>,
}

#[derive(Debug)]
struct Log {
    run: StoredRun,
    recent: VecDeque<RunEvent>,
    /// Why the run's events are no longer stored; `None` while they are.
    unkept: Option<String>,
    /// The client or component that stopped the run, in words.
    stopped: Option<String>,
}

impl Live {
    /// Creates the live state of a run. `last` is the cursor of its last event.
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

    /// Returns the run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.id
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current state of the run.
    #[must_use]
    pub fn run(&self) -> StoredRun {
        self.log().run.clone()
    }

    /// Returns a channel with the cursor of the last event.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Returns a channel that becomes true when the run must stop.
    #[must_use]
    pub fn stop_signal(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Returns a channel with the current lease of the run.
    #[must_use]
    pub fn lease(&self) -> watch::Receiver<Lease> {
        self.lease.subscribe()
    }

    /// Sets the lease of the run, also after a renewal.
    pub fn under(&self, lease: Lease) {
        self.lease.send_replace(lease);
    }

    /// Tells the run to stop. Only the first call records its `who`.
    pub fn stop(&self, who: &str) {
        self.log().stopped.get_or_insert_with(|| who.into());
        self.stop.send_replace(true);
    }

    /// Returns who stopped the run.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.log().stopped.clone()
    }

    /// Returns why the run's events are no longer stored; `None` while they are.
    #[must_use]
    pub fn unkept(&self) -> Option<String> {
        self.log().unkept.clone()
    }

    /// Stores events and publishes them to watchers. If the store fails, the run is stopped, and its watchers still
    /// receive the events.
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
            tracing::error!(run = %self.id, %error, "the run's events cannot be stored: the run is stopped");
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

    /// Records that the store has failed for this run, and stops the run.
    pub fn cannot_keep(&self, error: &StoreError) {
        self.log().unkept.get_or_insert_with(|| error.to_string());
        self.stop.send_replace(true);
    }

    /// Marks the run as running.
    ///
    /// # Errors
    /// When the store cannot write the state. The run must then not begin.
    pub fn begin(&self, store: &dyn HistoryStore, now_ns: u64) -> Result<(), StoreError> {
        let run = {
            let mut log = self.log();
            log.run.state = RunState::Running;
            // The clock may have been set back, but the start must not precede the creation.
            let started_ns = now_ns.max(log.run.created_ns);
            log.run.started_ns.get_or_insert(started_ns);
            log.run.reason.clear();
            log.run.clone()
        };
        store.update(&run).inspect_err(|error| self.cannot_keep(error))?;
        self.tell(store, now_ns, vec![changed(RunState::Running, None)]);
        Ok(())
    }

    /// Marks a run that gave way as waiting again, with the reason.
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

    /// Ends the run, and returns its ending. If the end cannot be written, the run ends with an error instead. From
    /// then on the store returns the ended run: from memory, if the error cannot be written either.
    pub fn end(&self, store: &dyn HistoryStore, now_ns: u64, ending: Ending, info: Option<RunInfo>) -> Ending {
        let mut ending = ending;
        self.log().run.info = info;
        if let Err(error) = store.update(&self.ended(now_ns, &ending)) {
            tracing::error!(run = %self.id, %error, "the run's end cannot be stored");
            self.cannot_keep(&error);
            ending = Ending::of_unkept(&error.to_string());
            // If this write fails too, the store keeps the ended run in memory.
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

    /// Returns the next events after a cursor, at most 64.
    #[must_use]
    pub fn since(&self, cursor: u64) -> Since {
        let log = self.log();
        match log.recent.front() {
            Some(first) if first.cursor > cursor + 1 => Since::OlderThan(first.cursor),
            // Events that an earlier daemon sent are only in the store.
            None if *self.last.borrow() > cursor => Since::OlderThan(*self.last.borrow() + 1),
            _ => {
                let new = log.recent.iter().filter(|event| event.cursor > cursor);
                Since::Events(new.take(64).cloned().collect())
            }
        }
    }
}

/// Returns the event of a run's change to a state.
#[must_use]
pub fn changed(state: RunState, ending: Option<&Ending>) -> Event {
    Event::StateChanged(RunStateChanged {
        state: state.into(),
        outcome: ending.map(|ending| ending.outcome).unwrap_or_default().into(),
        cause: ending.and_then(|ending| ending.cause).unwrap_or_default().into(),
        reason: ending.map(|ending| ending.reason.clone()).unwrap_or_default(),
    })
}

/// Returns whether an event is the last of its run.
#[must_use]
pub fn is_last(event: &RunEvent) -> bool {
    matches!(&event.event, Some(Event::StateChanged(changed)) if changed.state() == RunState::Ended)
}

/// Removes the passed checks from an event for watchers: one test can have a hundred thousand passed checks.
#[must_use]
pub fn to_watch(mut event: RunEvent) -> RunEvent {
    if let Some(Event::TestEnded(ended)) = &mut event.event
        && let Some(verdict) = &mut ended.verdict
    {
        verdict.passed = Vec::new();
    }
    event
}

/// Converts nanoseconds since 1970 to a timestamp.
#[must_use]
pub fn timestamp(ns: u64) -> Timestamp {
    Timestamp {
        seconds: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

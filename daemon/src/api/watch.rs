//! The implementation of WatchRun: sends the past events after a cursor, then new events as they happen.
//!
//! A watcher reads at its own pace: from the run's buffer if the buffer has the next event, and otherwise from the
//! store. At most [`AHEAD`] events are prepared for a watcher. The run never waits for a watcher.

use std::sync::Arc;

use tonic::Status;
use verbatim_proto::v1::{RunEvent, RunState, WatchRunResponse};

use super::hidden::hide;
use super::streams::{Answer, Gone, Out};
use super::view::Eyes;
use super::{Shared, blocking, errors};
use crate::access::{Access, May, View};
use crate::sched::{Ending, Live, Scheduler, Since, Watching, changed, is_last, timestamp, to_watch};
use crate::store::StoredRun;
use verbatim_record::secrets::Secrets;

/// How many events may be prepared ahead of the watcher.
const AHEAD: usize = 16;
/// How many events are read from the store at once.
const BATCH: usize = 128;

/// Starts a watch. The caller must have read `live` before `run`, because a run that is no longer live has its end
/// in the store.
pub(super) async fn begin(
    scheduler: Arc<Scheduler>,
    (shared, may): (&Shared, May<View>),
    run: StoredRun,
    live: Option<Arc<Live>>,
    cursor: u64,
) -> Result<Answer<WatchRunResponse>, Status> {
    let reader = may.clone();
    let may_watch = move |access: &Access| access.view(reader.caller(), reader.rig()).map(drop);
    let (sender, answer) = shared.open(may.who(), AHEAD, may_watch)?;
    let watching = (*may.who() == run.owner).then(|| scheduler.watching(format!("runs/{}", run.id)));
    let mut watcher = Watcher {
        _watching: watching,
        eyes: Eyes::of(shared, may.caller()),
        secrets: Secrets::default(),
        scheduler,
        run,
        cursor,
        sender,
    };
    let elsewhere = live.is_none() && watcher.scheduler.is_elsewhere(&watcher.run.host);
    let last = match &live {
        Some(live) => *live.news().borrow(),
        // Until a run on another host ends, its last cursor is unknown.
        None if elsewhere && watcher.run.state != RunState::Ended => u64::MAX,
        None => last_of(&watcher.scheduler, &watcher.run).await?,
    };
    if cursor > last {
        return Err(errors::out_of_range(&format!(
            "cursor: expected the cursor of an event of the run, 0 to {last}, seen {cursor}; watch again from 0"
        )));
    }
    tokio::spawn(async move {
        let watched = match live {
            Some(live) => watcher.watch(&live).await,
            None => watcher.replay(elsewhere).await,
        };
        if let Err(Leave::With(status)) = watched {
            let _ = watcher.sender.send(Err(*status)).await;
        }
    });
    Ok(answer)
}

/// Returns the last cursor of an ended run.
async fn last_of(scheduler: &Scheduler, run: &StoredRun) -> Result<u64, Status> {
    let (store, id) = (Arc::clone(scheduler.store()), run.id.clone());
    let last = move || {
        store.last_event(&id).map(|last| match last {
            Some(event) if is_last(&event) => event.cursor,
            // If the last event could not be stored, `Watcher::end` sends it under the next cursor.
            Some(event) => event.cursor + 1,
            None => 1,
        })
    };
    blocking(last).await?.map_err(|error| errors::store(&error))
}

/// Why a watch ends early.
enum Leave {
    /// The watcher left.
    Gone,
    /// Reading the events failed.
    With(Box<Status>),
}

struct Watcher {
    /// If the watcher owns the run, this value counts the owner's client as connected until the value is dropped.
    _watching: Option<Watching>,
    eyes: Eyes,
    /// The M_Keys that were hidden from the watcher.
    secrets: Secrets,
    scheduler: Arc<Scheduler>,
    run: StoredRun,
    /// The cursor of the last sent event.
    cursor: u64,
    sender: Out<WatchRunResponse>,
}

impl Watcher {
    /// Sends events. Returns true if the run's last event was sent.
    async fn send(&mut self, events: Vec<RunEvent>) -> Result<bool, Leave> {
        for event in events {
            let (cursor, last) = (event.cursor, is_last(&event));
            let mut event = to_watch(event);
            if !self.eyes.see_keys(&self.run.spec.rig) {
                event = hide("RunEvent", &event, &mut self.secrets);
            }
            let event = Some(event);
            self.sender
                .send(Ok(WatchRunResponse { event }))
                .await
                .map_err(|Gone| Leave::Gone)?;
            self.cursor = cursor;
            if last {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next events from the store.
    async fn stored(&mut self) -> Result<Vec<RunEvent>, Leave> {
        let (store, id, cursor) = (Arc::clone(self.scheduler.store()), self.run.id.clone(), self.cursor);
        let read = blocking(move || store.events(&id, cursor, BATCH)).await;
        let read = read.map_err(|status| Leave::With(Box::new(status)))?;
        read.map_err(|error| Leave::With(Box::new(errors::store(&error))))
    }

    /// Sends the events of a live run until its end.
    async fn watch(&mut self, live: &Live) -> Result<(), Leave> {
        let mut news = live.news();
        loop {
            news.borrow_and_update();
            let events = match live.since(self.cursor) {
                Since::Events(events) => events,
                Since::OlderThan(first) => {
                    let events = self.stored().await?;
                    if events.is_empty() {
                        // The missing events could not be stored and are lost; the buffer has the rest.
                        self.cursor = first - 1;
                    }
                    events
                }
            };
            if events.is_empty() && live.since(self.cursor) == Since::Events(Vec::new()) {
                tokio::select! {
                    changed = news.changed() => changed.map_err(|_| Leave::Gone)?,
                    () = self.sender.closed() => return Err(Leave::Gone),
                }
                continue;
            }
            if self.send(events).await? {
                return Ok(());
            }
        }
    }

    /// Sends the events of a run that is not live here. If another host has the run, polls the store for new
    /// events until the run ends.
    async fn replay(&mut self, elsewhere: bool) -> Result<(), Leave> {
        loop {
            let ended = self.run.state == RunState::Ended;
            let events = self.stored().await?;
            if events.is_empty() && elsewhere && !ended {
                tokio::select! {
                    () = tokio::time::sleep(super::ELSEWHERE) => {}
                    () = self.sender.closed() => return Err(Leave::Gone),
                }
                let (store, id) = (Arc::clone(self.scheduler.store()), self.run.id.clone());
                let kept = blocking(move || store.get(&id)).await;
                let kept = kept.map_err(|status| Leave::With(Box::new(status)))?;
                self.run = kept.map_err(|error| Leave::With(Box::new(errors::store(&error))))?.run;
                continue;
            }
            if events.is_empty() {
                return self.end().await;
            }
            if self.send(events).await? {
                return Ok(());
            }
        }
    }

    /// Sends the end of a run whose last event could not be stored, unless the watcher already has the end.
    async fn end(&mut self) -> Result<(), Leave> {
        let last = last_of(&self.scheduler, &self.run).await;
        let last = last.map_err(|status| Leave::With(Box::new(status)))?;
        if self.cursor >= last {
            return Ok(());
        }
        let ending = self.run.outcome.map(|outcome| Ending {
            outcome,
            cause: self.run.cause,
            reason: self.run.reason.clone(),
        });
        let end = RunEvent {
            cursor: last,
            time: self.run.ended_ns.map(timestamp),
            event: Some(changed(RunState::Ended, ending.as_ref())),
        };
        self.send(vec![end]).await.map(|_| ())
    }
}

//! WatchRun: from a cursor on, first what already happened, then what does.
//!
//! A watcher pulls at its own pace: from the run's short memory while it keeps up, from the store when it does not. What
//! it has not taken yet is at most [`AHEAD`] events; nobody waits for it.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use verbatim_proto::v1::{RunEvent, RunState, WatchRunResponse};

use super::{blocking, errors};
use crate::sched::{Ending, Live, Scheduler, Since, changed, is_last, timestamp, to_watch};
use crate::store::{EventReader, StoredRun};

/// Events made ready for a watcher who has not taken them yet.
const AHEAD: usize = 16;
/// Events read from the store at once.
const BATCH: usize = 128;

type Sender = mpsc::Sender<Result<WatchRunResponse, Status>>;

/// A watcher comes. `live` is of the time before `run` was read.
pub(super) async fn begin(
    scheduler: Arc<Scheduler>,
    run: StoredRun,
    live: Option<Arc<Live>>,
    cursor: u64,
) -> Result<ReceiverStream<Result<WatchRunResponse, Status>>, Status> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let mut watcher = Watcher {
        scheduler,
        run,
        cursor,
        sender,
        reader: None,
    };
    let last = match &live {
        Some(live) => *live.news().borrow(),
        None => last_of(&watcher.scheduler, &watcher.run).await?,
    };
    if cursor > last {
        return Err(errors::out_of_range(&format!(
            "cursor: expected that of an event of the run, 0 to {last}, seen {cursor}; watch from 0 on"
        )));
    }
    tokio::spawn(async move {
        let watched = match live {
            Some(live) => watcher.watch(&live).await,
            None => watcher.replay().await,
        };
        if let Err(Leave::With(status)) = watched {
            let _ = watcher.sender.send(Err(*status)).await;
        }
    });
    Ok(ReceiverStream::new(receiver))
}

/// The last cursor of a run that ended.
async fn last_of(scheduler: &Scheduler, run: &StoredRun) -> Result<u64, Status> {
    let (store, id) = (Arc::clone(scheduler.store()), run.id.clone());
    let last = move || {
        let mut reader = store.events(&id, 0)?;
        let mut last = 0;
        let mut ended = false;
        loop {
            let events = reader.next(BATCH)?;
            let Some(event) = events.last() else {
                // An end that could not be kept counts as the one that is shown in its place.
                return Ok(if ended { last } else { last + 1 });
            };
            last = event.cursor;
            ended = is_last(event);
        }
    };
    blocking(last).await?.map_err(|error| errors::store(&error))
}

/// Why a watch ends early.
enum Leave {
    /// The watcher left.
    Gone,
    /// It cannot be told what happened.
    With(Box<Status>),
}

struct Watcher {
    scheduler: Arc<Scheduler>,
    run: StoredRun,
    /// Of the last event that was sent.
    cursor: u64,
    sender: Sender,
    reader: Option<Box<dyn EventReader>>,
}

impl Watcher {
    /// Sends events; true when one of them is the run's last.
    async fn send(&mut self, events: Vec<RunEvent>) -> Result<bool, Leave> {
        for event in events {
            let (cursor, last) = (event.cursor, is_last(&event));
            let event = Some(to_watch(event));
            self.sender
                .send(Ok(WatchRunResponse { event }))
                .await
                .map_err(|_| Leave::Gone)?;
            self.cursor = cursor;
            if last {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next events that the store has.
    async fn stored(&mut self) -> Result<Vec<RunEvent>, Leave> {
        let (store, id, cursor) = (Arc::clone(self.scheduler.store()), self.run.id.clone(), self.cursor);
        let reader = self.reader.take();
        let read = move || {
            let mut reader = match reader {
                Some(reader) => reader,
                None => store.events(&id, cursor)?,
            };
            loop {
                let mut events = reader.next(BATCH)?;
                let at_the_end = events.is_empty();
                // Those taken from the run's memory meanwhile: that none is left of a batch is not the end.
                events.retain(|event| event.cursor > cursor);
                if at_the_end || !events.is_empty() {
                    return Ok((reader, events));
                }
            }
        };
        let read = blocking(read).await.map_err(|status| Leave::With(Box::new(status)))?;
        let (reader, events) = read.map_err(|error| Leave::With(Box::new(errors::store(&error))))?;
        self.reader = Some(reader);
        Ok(events)
    }

    /// A run that has not ended.
    async fn watch(&mut self, live: &Live) -> Result<(), Leave> {
        let mut news = live.news();
        loop {
            news.borrow_and_update();
            let events = match live.since(self.cursor) {
                Since::Events(events) => events,
                Since::OlderThan(first) => {
                    let events = self.stored().await?;
                    if events.is_empty() {
                        // What the store could not keep is lost; memory has the rest.
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

    /// A run that ended.
    async fn replay(&mut self) -> Result<(), Leave> {
        loop {
            let events = self.stored().await?;
            if events.is_empty() {
                return self.end().await;
            }
            if self.send(events).await? {
                return Ok(());
            }
        }
    }

    /// The end of a run whose last event could not be kept, or was sent before.
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

//! Follows a run: returns each event once, in order, across broken connections.

use core::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::sleep;
use tonic::Streaming;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::{RunEvent, RunState, WatchRunResponse};

use crate::backoff::Backoff;
use crate::{Client, Error, RunName};

/// Default time for which a watch waits for a stopped daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// The events of a run, from a cursor on.
///
/// When the connection breaks, the watch reconnects and continues with the event after the last received one. It
/// returns every event exactly once. The pauses between attempts grow to two seconds. The watch gives up after a
/// minute without a connection. The future of [`Watch::next`] may be dropped at any time; the next call continues.
pub struct Watch {
    client: Client,
    run: RunName,
    cursor: u64,
    doing: Doing,
    /// Whether the current stream has returned an event.
    brought: bool,
    /// Whether the run had ended before the current stream was opened.
    ended: bool,
    /// Whether an event was missing, and no event has been returned since.
    gap: bool,
    over: bool,
    backoff: Backoff,
    patience: Duration,
    on_break: Option<OnBreak>,
}

/// The current action of a watch.
enum Doing {
    /// The watch reads a stream of events.
    Reading(Box<Streaming<WatchRunResponse>>),
    /// The watch waits for a response.
    Waiting(Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>),
}

/// The response for which the watch waited.
enum Answer {
    /// A stream of events.
    Opened(Box<Streaming<WatchRunResponse>>),
    /// The state of the run.
    Stands(RunState),
}

/// Called before each reconnect after a break.
type OnBreak = Box<dyn FnMut(&Error) + Send>;

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("run", &self.run)
            .field("cursor", &self.cursor)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(client: Client, run: RunName, cursor: u64) -> Self {
        Self {
            doing: open(client.clone(), run.clone(), cursor, Duration::ZERO),
            client,
            run,
            cursor,
            brought: false,
            ended: false,
            gap: false,
            over: false,
            backoff: Backoff::new(PATIENCE),
            patience: PATIENCE,
            on_break: None,
        }
    }

    /// Sets the time for which the watch waits for a stopped daemon; the default is a minute.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self.backoff = Backoff::new(patience);
        self
    }

    /// Sets a callback for each reconnect after a break. The watch calls it before it opens the new connection.
    #[must_use]
    pub fn on_break(mut self, tell: impl FnMut(&Error) + Send + 'static) -> Self {
        self.on_break = Some(Box::new(tell));
        self
    }

    /// Returns the cursor of the last received event.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Returns the next event; None after the run's end.
    ///
    /// # Errors
    /// When no such run exists, the daemon has lost events of the run, or no daemon responds for too long. After an
    /// error the watch returns None.
    pub async fn next(&mut self) -> Option<Result<RunEvent, Error>> {
        if self.over {
            return None;
        }
        let next = self.advance().await;
        self.over = match &next {
            Ok(Some(event)) => is_end(event),
            Ok(None) | Err(_) => true,
        };
        next.transpose()
    }

    async fn advance(&mut self) -> Result<Option<RunEvent>, Error> {
        loop {
            let stream = match &mut self.doing {
                Doing::Reading(stream) => stream,
                Doing::Waiting(answer) => {
                    match answer.await {
                        Ok(Answer::Opened(stream)) => {
                            self.doing = Doing::Reading(stream);
                            self.brought = false;
                        }
                        Ok(Answer::Stands(state)) => self.closed(state)?,
                        Err(error) => self.broken(error)?,
                    }
                    continue;
                }
            };
            let message = stream.message().await;
            match message.map(|message| message.map(|message| message.event.unwrap_or_default())) {
                // A server may repeat events.
                Ok(Some(event)) if event.cursor <= self.cursor => {}
                Ok(Some(event)) if event.cursor == self.cursor + 1 => {
                    self.cursor = event.cursor;
                    self.brought = true;
                    self.gap = false;
                    self.backoff.reset();
                    return Ok(Some(event));
                }
                Ok(Some(event)) => self.missed(event.cursor)?,
                Ok(None) if self.ended && !self.brought => return Ok(None),
                Ok(None) => {
                    let (client, run) = (self.client.clone(), self.run.clone());
                    let stands = async move { Ok(Answer::Stands(client.get_run(&run).await?.state())) };
                    self.doing = Doing::Waiting(Box::pin(stands));
                }
                Err(status) => {
                    let client = self.client.clone();
                    let why = async move { Err(client.translate("WatchRun", &status).await) };
                    self.doing = Doing::Waiting(Box::pin(why));
                }
            }
        }
    }

    /// Handles a missing event. Reconnects once, because only this stream may lack the event. If the event is
    /// missing again, the daemon has lost it.
    fn missed(&mut self, seen: u64) -> Result<(), Error> {
        let gap = Error::Gap {
            run: self.run.to_string(),
            at: self.client.address().in_words(),
            expected: self.cursor + 1,
            seen,
        };
        if std::mem::replace(&mut self.gap, true) {
            return Err(gap);
        }
        self.pause(gap)
    }

    /// Handles a stream that the daemon closed before the run's last event, and reconnects. `state` is the
    /// run's state after the close.
    fn closed(&mut self, state: RunState) -> Result<(), Error> {
        self.ended = state == RunState::Ended;
        // Reconnect even if the run has ended: events may have followed after the stream was closed.
        self.pause(Error::Broken {
            at: self.client.address().in_words(),
            seen: "the daemon closed the stream of events before the run ended".into(),
        })
    }

    fn broken(&mut self, error: Error) -> Result<(), Error> {
        if error.is_transient() {
            self.pause(error)
        } else {
            Err(error)
        }
    }

    fn pause(&mut self, error: Error) -> Result<(), Error> {
        let Some(pause) = self.backoff.after_failure() else {
            return Err(Error::Lost {
                run: self.run.to_string(),
                cursor: self.cursor,
                seconds: self.patience.as_secs(),
                last: Box::new(error),
            });
        };
        if let Some(tell) = &mut self.on_break
            && !self.ended
        {
            tell(&error);
        }
        self.doing = open(self.client.clone(), self.run.clone(), self.cursor, pause);
        Ok(())
    }
}

/// Opens a stream of events after a pause.
fn open(client: Client, run: RunName, cursor: u64, pause: Duration) -> Doing {
    Doing::Waiting(Box::pin(async move {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        Ok(Answer::Opened(Box::new(client.open_watch(&run, cursor).await?)))
    }))
}

/// Returns whether this is the last event of its run.
fn is_end(event: &RunEvent) -> bool {
    matches!(&event.event, Some(Event::StateChanged(changed)) if changed.state() == RunState::Ended)
}

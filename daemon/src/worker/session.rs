//! A session with a worker, from its start to its end.

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use verbatim_proto::worker::{Cancel, Finished, FromWorker, Lease, Ping, Start, ToWorker, from_worker, to_worker};
use verbatim_record::Restored;

use super::Supervision;
use super::host::cancelled;
use super::process::{self, Failure, Process, Reached};
use crate::framing::{self, Frames, Junk};
use verbatim_rig::RigConfig;
use verbatim_run::Event;
use verbatim_run::state::StateDirectory;

pub(super) struct Session<'a> {
    supervision: &'a Supervision,
    rig: &'a RigConfig,
    process: Process,
    stream: UnixStream,
    frames: Frames,
    events: mpsc::UnboundedSender<Event>,
    /// The test that began last, and its last step.
    at: (Option<String>, Option<String>),
    reached: Reached,
    restored: Vec<Restored>,
    /// Whether the first message has arrived.
    greeted: bool,
    /// The number of the unanswered ping, and when the daemon first sent this ping.
    asked: Option<(u64, Instant)>,
}

/// Waits until the lease is renewed, and returns it.
async fn renewed(lease: &mut Option<watch::Receiver<Lease>>) -> Lease {
    if let Some(lease) = lease
        && lease.changed().await.is_ok()
    {
        return *lease.borrow_and_update();
    }
    std::future::pending().await
}

/// Why the daemon ends a worker.
enum Trouble {
    /// The worker closed the stream, and ends or has ended.
    Closed,
    /// The worker does not respond to pings or read its messages any more.
    Deaf,
    /// The worker was cancelled and does not stop.
    DoesNotStop,
    /// The worker did not send its first message in time.
    Silent,
    /// The worker sent an invalid message.
    Junk(String),
}

impl From<Junk> for Trouble {
    fn from(junk: Junk) -> Self {
        Self::Junk(junk.to_string())
    }
}

impl<'a> Session<'a> {
    pub(super) async fn start(
        supervision: &'a Supervision,
        rig: &'a RigConfig,
        state: &StateDirectory,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, Failure> {
        let (process, stream) = process::start(supervision, rig, state, events.clone()).await?;
        Ok(Self {
            supervision,
            rig,
            process,
            stream,
            frames: Frames::new(framing::LONGEST),
            events,
            at: (None, None),
            reached: Reached::default(),
            restored: Vec::new(),
            greeted: false,
            asked: None,
        })
    }

    /// Sends an order to the worker, and handles the worker's messages until the order is done.
    pub(super) async fn run(
        mut self,
        order: to_worker::Message,
        until: (watch::Receiver<bool>, Option<watch::Receiver<Lease>>),
    ) -> Result<(Finished, Vec<Restored>), Failure> {
        if let to_worker::Message::Start(Start {
            resume: Some(resume), ..
        }) = &order
        {
            let begun = resume.done + u32::from(!resume.lost.is_empty());
            self.reached = Reached {
                begun,
                ended: resume.done,
            };
        }
        match self.follow(order, until).await {
            Ok(finished) => {
                // The result is complete, so kill a process that does not end, for example because a library hangs
                // at exit.
                if self.process.end_within(self.supervision.grace).await.is_none() {
                    self.process.kill(self.supervision.grace).await;
                }
                Ok((finished, self.restored))
            }
            Err(trouble) => Err(self.failure(trouble).await),
        }
    }

    async fn follow(
        &mut self,
        order: to_worker::Message,
        (mut cancel, mut lease): (watch::Receiver<bool>, Option<watch::Receiver<Lease>>),
    ) -> Result<Finished, Trouble> {
        let mut order = Some(order);
        let mut ping = interval(self.supervision.ping_every);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number = 0;
        let mut greeted_by = Instant::now() + self.supervision.start_within;
        let mut stopped_by = None;
        loop {
            tokio::select! {
                // Read the worker's messages first: after a delay of this process, the expected answer may already
                // be there.
                biased;
                read = self.stream.read_buf(self.frames.buffer()) => {
                    if !matches!(read, Ok(1..)) {
                        return Err(Trouble::Closed);
                    }
                    while let Some(message) = self.frames.next::<FromWorker>()? {
                        if let Some(finished) = self.take(message)? {
                            return Ok(finished);
                        }
                    }
                }
                () = cancelled(&mut cancel), if stopped_by.is_none() && self.greeted => {
                    stopped_by = Some(Instant::now() + self.supervision.stop_within);
                    self.send(to_worker::Message::Cancel(Cancel {})).await?;
                }
                renewed = renewed(&mut lease), if self.greeted => {
                    self.send(to_worker::Message::Lease(renewed)).await?;
                }
                tick = ping.tick() => {
                    // A delay of this process may have delayed the worker too, so extend the worker's time limits.
                    let missed = tick.elapsed();
                    if missed > self.supervision.ping_every {
                        greeted_by += missed;
                        self.asked = self.asked.map(|(number, at)| (number, at + missed));
                    }
                    let now = Instant::now();
                    if self.greeted {
                        let (asked, since) = *self.asked.get_or_insert_with(|| {
                            number += 1;
                            (number, now)
                        });
                        if since + self.supervision.grace <= now {
                            return Err(Trouble::Deaf);
                        }
                        // Repeat the ping. The worker ignored the first ping if its thread seemed to hang, but the
                        // thread may have gone on since.
                        self.send(to_worker::Message::Ping(Ping { number: asked })).await?;
                    } else if greeted_by <= now {
                        return Err(Trouble::Silent);
                    }
                }
                never = self.process.output.tell() => match never {},
            }
            if self.greeted
                && let Some(order) = order.take()
            {
                self.send(order).await?;
            }
            // Check the limit here, because the worker may send messages all the time.
            if stopped_by.is_some_and(|by: Instant| by <= Instant::now()) {
                return Err(Trouble::DoesNotStop);
            }
        }
    }

    async fn send(&mut self, message: to_worker::Message) -> Result<(), Trouble> {
        let bytes = ToWorker { message: Some(message) }.encode_length_delimited_to_vec();
        match timeout(self.supervision.grace, self.stream.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            // The worker closed the stream, but its earlier messages must still be read.
            Ok(Err(_)) => Ok(()),
            Err(_) => Err(Trouble::Deaf),
        }
    }

    /// Handles a message. Returns [`Finished`], the last message of the worker.
    fn take(&mut self, message: FromWorker) -> Result<Option<Finished>, Trouble> {
        let message = message
            .message
            .ok_or_else(|| Trouble::Junk("of an unknown kind".into()))?;
        let event = match message {
            from_worker::Message::Hello(hello) => return self.greet(hello.pid).map(|()| None),
            _ if !self.greeted => return Err(Trouble::Junk("the first message is not a greeting".into())),
            from_worker::Message::Finished(finished) => return Ok(Some(finished)),
            from_worker::Message::Pong(pong) => {
                if self.asked.is_some_and(|(number, _)| number == pong.number) {
                    self.asked = None;
                }
                return Ok(None);
            }
            from_worker::Message::Event(event) => {
                event.event.ok_or_else(|| Trouble::Junk("an unknown event".into()))?
            }
        };
        match &event {
            Event::TestStarted(begun) => {
                self.at = (Some(begun.test.clone()), None);
                self.reached.begun = begun.place.saturating_add(1);
            }
            Event::TestEnded(_) => self.reached.ended = self.reached.begun,
            Event::StepStarted(step) => self.at.1 = Some(step.step.clone()),
            Event::RestoreEnded(ended) => self.restored.clone_from(&ended.areas),
            _ => {}
        }
        // The receiver may be closed.
        let _ = self.events.send(event);
        Ok(None)
    }

    fn greet(&mut self, pid: u32) -> Result<(), Trouble> {
        if self.greeted {
            return Err(Trouble::Junk("a second greeting".into()));
        }
        let known = self.process.greeted(pid);
        known
            .map_err(|error| Trouble::Junk(format!("a greeting of process {pid}, which cannot be watched: {error}")))?;
        self.greeted = true;
        Ok(())
    }

    /// Ends the worker if it has not ended, and describes the failure.
    async fn failure(&mut self, trouble: Trouble) -> Failure {
        let who = self.who();
        let grace = self.supervision.grace;
        if matches!(trouble, Trouble::Closed)
            && let Some(end) = self.process.end_within(grace).await
        {
            return Failure {
                reason: self.process.ended(end, &format!("{who} ended early")),
                reached: Some(self.reached),
            };
        }
        let killed = self.process.kill(grace).await;
        let what = match trouble {
            Trouble::Closed => format!("closed its stream and did not end within {grace:?}"),
            Trouble::Deaf => format!(
                "did not answer for {grace:?} (stopped, or hanging in a library or driver for {:?})",
                self.supervision.hung_after
            ),
            Trouble::DoesNotStop => format!(
                "was cancelled and did not end within {:?}",
                self.supervision.stop_within
            ),
            Trouble::Silent => format!("did not greet the daemon within {:?}", self.supervision.start_within),
            Trouble::Junk(what) => format!("sent an invalid message ({what}): a defect of Verbatim"),
        };
        let then = if killed {
            "it was killed"
        } else {
            "it could not be killed: it hangs in the kernel, and only a restart of this host frees its port"
        };
        Failure {
            reason: format!("{who} {what}; {then}; {}", self.process.output.quote()),
            reached: killed.then_some(self.reached),
        }
    }

    /// Describes the worker and its current work.
    fn who(&self) -> String {
        let mut who = format!("the worker of rig {} (process {})", self.rig.name, self.process.pid);
        if let (Some(test), step) = &self.at {
            who += &format!(", in test {test}");
            if let Some(step) = step {
                who += &format!(", at {step:?},");
            }
        }
        who
    }
}

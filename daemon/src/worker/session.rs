//! One worker from its start to its end.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use verbatim_proto::worker::{Cancel, Finished, FromWorker, Hello, Ping, ToWorker, from_worker, to_worker};
use verbatim_record::{Cause, Restored};

use super::frame::{self, Frames, Junk};
use super::host::cancelled;
use super::process::{self, Failure, Process};
use super::{BUILD_ID, Supervision, WorkerEvent};
use verbatim_rig::RigConfig;
use verbatim_run::state::StateDirectory;

/// A worker, as the daemon sees it.
pub(super) struct Session<'a> {
    supervision: &'a Supervision,
    rig: &'a RigConfig,
    process: Process,
    stream: UnixStream,
    frames: Frames,
    events: mpsc::UnboundedSender<WorkerEvent>,
    /// The test that began last, and its last step.
    at: (Option<String>, Option<String>),
    restored: Vec<Restored>,
    /// The first message came.
    greeted: bool,
    /// The ping that is not yet answered, and since when.
    asked: Option<(u64, Instant)>,
}

/// Why a worker is ended.
enum Trouble {
    /// It closed the stream: it ends, or has ended.
    Closed,
    /// It does not answer any more.
    Deaf,
    /// It was cancelled and goes on.
    DoesNotStop,
    /// It did not say who it is.
    Silent,
    /// It is of another build.
    Foreign(String),
    /// What it sent makes no sense.
    Junk(String),
}

impl From<Junk> for Trouble {
    fn from(junk: Junk) -> Self {
        Self::Junk(junk.to_string())
    }
}

impl<'a> Session<'a> {
    /// Starts a worker.
    pub(super) async fn start(
        supervision: &'a Supervision,
        rig: &'a RigConfig,
        state: &StateDirectory,
        events: mpsc::UnboundedSender<WorkerEvent>,
    ) -> Result<Self, Failure> {
        let (process, stream) = process::start(supervision, rig, state, events.clone()).await?;
        Ok(Self {
            supervision,
            rig,
            process,
            stream,
            frames: Frames::new(frame::FROM_WORKER),
            events,
            at: (None, None),
            restored: Vec::new(),
            greeted: false,
            asked: None,
        })
    }

    /// Lets it do one thing, to its end.
    pub(super) async fn run(
        mut self,
        order: to_worker::Message,
        cancel: watch::Receiver<bool>,
    ) -> Result<(Finished, Vec<Restored>), Failure> {
        match self.follow(order, cancel).await {
            Ok(finished) => {
                // A library may hang while the process ends; what was to be known is known.
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
        mut cancel: watch::Receiver<bool>,
    ) -> Result<Finished, Trouble> {
        let mut order = Some(order);
        let mut ping = interval(self.supervision.ping_every);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number = 0;
        let greeted_by = Instant::now() + self.supervision.start_within;
        let mut stopped_by = None;
        loop {
            let answered_by = self.asked.map(|(_, at)| at + self.supervision.grace);
            let wake = [(!self.greeted).then_some(greeted_by), answered_by, stopped_by];
            let wake = wake.into_iter().flatten().min();
            tokio::select! {
                // What the worker has said already comes first: this process may have been the one that was held up.
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
                _ = ping.tick(), if self.greeted && self.asked.is_none() => {
                    number += 1;
                    self.asked = Some((number, Instant::now()));
                    self.send(to_worker::Message::Ping(Ping { number })).await?;
                }
                never = self.process.output.tell() => match never {},
                () = at(wake) => {
                    if !self.greeted {
                        return Err(Trouble::Silent);
                    }
                    if answered_by.is_some_and(|by| by <= Instant::now()) {
                        return Err(Trouble::Deaf);
                    }
                }
            }
            if self.greeted
                && let Some(order) = order.take()
            {
                self.send(order).await?;
            }
            // Also when the worker talks all the time.
            if stopped_by.is_some_and(|by| by <= Instant::now()) {
                return Err(Trouble::DoesNotStop);
            }
        }
    }

    async fn send(&mut self, message: to_worker::Message) -> Result<(), Trouble> {
        let bytes = frame::encode(&ToWorker { message: Some(message) });
        match timeout(self.supervision.grace, self.stream.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            // What it said before it closed the stream is still to be read.
            Ok(Err(_)) => Ok(()),
            Err(_) => Err(Trouble::Deaf),
        }
    }

    /// Takes a message; the last one is returned.
    fn take(&mut self, message: FromWorker) -> Result<Option<Finished>, Trouble> {
        let message = message
            .message
            .ok_or_else(|| Trouble::Junk("a message that this build does not know".into()))?;
        let event = match message {
            from_worker::Message::Hello(hello) => return self.greet(&hello).map(|()| None),
            _ if !self.greeted => return Err(Trouble::Junk("something else than who it is, first".into())),
            from_worker::Message::Finished(finished) => return Ok(Some(finished)),
            from_worker::Message::Pong(pong) => {
                if self.asked.is_some_and(|(number, _)| number == pong.number) {
                    self.asked = None;
                }
                return Ok(None);
            }
            from_worker::Message::Begun(begun) => {
                self.at = (Some(begun.test.clone()), None);
                WorkerEvent::Begun(begun.test, begun.place, begun.total)
            }
            from_worker::Message::Step(step) => {
                self.at.1 = Some(step.label.clone());
                WorkerEvent::Step(step.label)
            }
            from_worker::Message::Ended(ended) => WorkerEvent::Ended(Box::new(read(&ended.verdict_json)?)),
            from_worker::Message::Recovered(recovered) => {
                let areas: Result<Vec<Restored>, _> = recovered.areas_json.iter().map(|area| read(area)).collect();
                self.restored = areas?;
                WorkerEvent::Recovered(self.restored.clone())
            }
        };
        // Nobody may be listening.
        let _ = self.events.send(event);
        Ok(None)
    }

    fn greet(&mut self, hello: &Hello) -> Result<(), Trouble> {
        if self.greeted {
            return Err(Trouble::Junk("who it is, again".into()));
        }
        if hello.build_id != BUILD_ID {
            return Err(Trouble::Foreign(hello.build_id.clone()));
        }
        self.greeted = true;
        Ok(())
    }

    /// Ends the worker, if it has not ended, and says what happened.
    async fn failure(&mut self, trouble: Trouble) -> Failure {
        let who = self.who();
        let grace = self.supervision.grace;
        if matches!(trouble, Trouble::Closed)
            && let Some(status) = self.process.end_within(grace).await
        {
            return self.process.ended(status, &format!("{who} broke off"));
        }
        let killed = self.process.kill(grace).await;
        let what = match trouble {
            Trouble::Closed => format!("closed its stream and did not end within {grace:?}"),
            Trouble::Deaf => format!(
                "did not say for {grace:?} that it is alive (stopped, or hanging in a library or driver for {:?})",
                self.supervision.hung_after
            ),
            Trouble::DoesNotStop => format!(
                "was cancelled and did not end within {:?}",
                self.supervision.stop_within
            ),
            Trouble::Silent => format!("did not say within {:?} who it is", self.supervision.start_within),
            Trouble::Foreign(build) => format!(
                "is of build {build}, and this is {BUILD_ID}: {} was replaced; restart the daemon, so that both are of one \
                 build",
                self.supervision.program.display()
            ),
            Trouble::Junk(what) => format!("sent {what}, which no worker of this build does: a defect of Verbatim"),
        };
        let then = if killed {
            "it was killed"
        } else {
            "it could not be killed: it hangs in the kernel, and only a restart of this host frees its port"
        };
        Failure {
            cause: Cause::Tester,
            reason: format!(
                "{who} {what}; {then}; {}; restore the rig before it is used again",
                self.process.output.quote()
            ),
        }
    }

    /// The worker, and what it was at.
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

/// Ready at that time; never, when there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, Trouble> {
    serde_json::from_str(json).map_err(|error| Trouble::Junk(format!("a result that cannot be read ({error})")))
}

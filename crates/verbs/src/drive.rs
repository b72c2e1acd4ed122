//! The loop of the thread that owns a session: it receives commands, and sends replies and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use verbatim_proto::agent as proto;
use verbatim_proto::agent::{Command, Event, Reply, command, event, reply};

use crate::device::Device;
use crate::session::{Done, Happened, Session};
use crate::wake::Wake;

/// Largest number of queued commands of a session.
const WAITING: usize = 64;
/// Largest total size of the queued commands, in bytes.
const ROOM: u32 = 32 << 20;

/// Longest polling without a pause after a post: `AT_ONCE` while the reply is held back, then `ATTENTION` after the
/// reply was sent.
const AT_ONCE: Duration = Duration::from_micros(50);
const ATTENTION: Duration = Duration::from_millis(1);
/// Longest time that replies and events are held back while posts are queued.
const KEPT_BACK: Duration = Duration::from_millis(10);

/// A queued command: its number, the command, and its share of the queue's bytes.
type Waiting = (u64, Command, OwnedSemaphorePermit);

/// Returns the size of a message in bytes, limited to `room`. A larger message therefore still fits into an empty
/// queue.
#[must_use]
pub fn weight(message: &impl Message, room: u32) -> u32 {
    u32::try_from(message.encoded_len()).unwrap_or(room).clamp(1, room)
}

/// A message of a session.
#[derive(Clone, PartialEq, Debug)]
pub enum AgentMessage {
    /// The reply to the command with this number, and the time of its execution.
    Answer(u64, proto::Instant, Reply),
    /// An event, and its time.
    Event(proto::Instant, Event),
}

/// The reason why a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The client sent its last command, and all commands are answered.
    Left,
    /// The session was cut off, or its receiver is gone. Queued commands were not executed.
    Cut,
    /// The device is unusable, for the given reason.
    Gone(String),
}

/// A handle that ends a session from any thread, without executing its queued commands.
#[derive(Debug)]
pub struct Cut {
    cut: AtomicBool,
    told: Notify,
    wake: Wake,
}

impl Cut {
    /// Ends the session without executing its queued commands. The session's thread notices this at once, unless it is
    /// inside a call of the driver.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.told.notify_one();
        self.wake.wake_who_waits();
    }

    /// Whether the session was cut off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Waits until the session is cut off. Only one caller at a time may wait.
    pub async fn wait(&self) {
        while !self.is_cut() {
            self.told.notified().await;
        }
    }
}

/// The sending end of a session's commands. When it is dropped, the session ends after the queued commands.
#[derive(Debug)]
pub struct Inlet {
    commands: Option<Sender<Waiting>>,
    room: Arc<Semaphore>,
    cut: Arc<Cut>,
}

impl Inlet {
    /// Queues a command. Waits while the queue is full.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn put(&self, number: u64, command: Command) -> Result<(), SessionEnded> {
        let commands = self.commands.as_ref().ok_or(SessionEnded)?;
        let room = Arc::clone(&self.room).acquire_many_owned(weight(&command, ROOM));
        let permit = tokio::select! {
            permit = room => permit.map_err(|_| SessionEnded)?,
            () = commands.closed() => return Err(SessionEnded),
        };
        let put = commands.send((number, command, permit));
        put.await.map_err(|_| SessionEnded)?;
        self.cut.wake.wake_who_waits();
        Ok(())
    }

    /// Queues a command if the queue is not full. Returns whether the command was queued.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn try_put(&self, number: u64, command: Command) -> Result<bool, SessionEnded> {
        let commands = self.commands.as_ref().ok_or(SessionEnded)?;
        let Ok(permit) = Arc::clone(&self.room).try_acquire_many_owned(weight(&command, ROOM)) else {
            return Ok(false);
        };
        match commands.try_send((number, command, permit)) {
            Ok(()) => {
                self.cut.wake.wake_who_waits();
                Ok(true)
            }
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Closed(_)) => Err(SessionEnded),
        }
    }

    /// Waits until the session has ended.
    pub async fn ended(&self) {
        if let Some(commands) = &self.commands {
            commands.closed().await;
        }
    }

    /// Returns the handle that cuts the session off.
    #[must_use]
    pub fn cut(&self) -> &Arc<Cut> {
        &self.cut
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        // Ends the commands before it wakes the session's thread.
        self.commands = None;
        self.cut.wake.wake_who_waits();
    }
}

/// The error of a command whose session has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionEnded;

/// The receiving end of a session's commands.
#[derive(Debug)]
pub struct Outlet {
    commands: Receiver<Waiting>,
    cut: Arc<Cut>,
}

impl Outlet {
    /// Returns the handle that cuts the session off.
    #[must_use]
    pub fn cut(&self) -> &Arc<Cut> {
        &self.cut
    }

    /// Returns the number of the first command, for the reply of a session that could not begin. Returns `None` if no
    /// command arrives in time.
    pub fn first(&mut self, within: Duration) -> Option<u64> {
        let begun = Instant::now();
        loop {
            self.cut.wake.arm();
            match self.commands.try_recv() {
                Ok((number, ..)) => return Some(number),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            let left = within.saturating_sub(begun.elapsed());
            if left.is_zero() || self.cut.is_cut() {
                return None;
            }
            self.cut.wake.wait(left);
        }
    }
}

/// Makes the two ends of a session's commands.
///
/// # Errors
/// When the process has no file descriptor left.
pub fn commands() -> std::io::Result<(Inlet, Outlet)> {
    let (put, take) = channel(WAITING);
    let cut = Arc::new(Cut {
        cut: AtomicBool::new(false),
        told: Notify::new(),
        wake: Wake::new()?,
    });
    let inlet = Inlet {
        commands: Some(put),
        room: Arc::new(Semaphore::new(usize::try_from(ROOM).unwrap_or(usize::MAX >> 4))),
        cut: Arc::clone(&cut),
    };
    Ok((inlet, Outlet { commands: take, cut }))
}

/// Executes commands and reports events until the session ends. `say` returns whether the receiver still exists.
///
/// Sending a reply or event may wake another thread, which would delay the requests just posted. Replies and events are
/// therefore held back for at most 10 ms, while this thread polls for completions or while further posts are queued.
pub fn drive<D: Device>(
    session: &mut Session<D>,
    outlet: &mut Outlet,
    mut say: impl FnMut(AgentMessage) -> bool,
) -> End {
    // The usual timer slack of 50 µs would prolong each wait of 100 µs by up to half.
    let _ = nix::sys::prctl::set_timerslack(1_000);
    let mut unsaid = Unsaid::default();
    // Whether the wake was armed before the queue was last seen empty. Only then does a later command end a wait.
    let mut armed = false;
    loop {
        if outlet.cut.is_cut() {
            let _ = unsaid.say(&mut say);
            return End::Cut;
        }
        let (next, mut idle) = (outlet.commands.try_recv(), false);
        match next {
            Ok((number, command, _room)) => {
                let is_post = matches!(
                    &command.kind,
                    Some(command::Kind::PostSend(_) | command::Kind::PostReceive(_))
                );
                // Calls of the driver other than posts may take long, so the thread first sends everything that it held
                // back.
                if !is_post && !unsaid.say(&mut say) {
                    return End::Cut;
                }
                let done = session.execute(&command);
                let watched = is_watched_for(&command, &done);
                unsaid.happened(done.before);
                unsaid.put(AgentMessage::Answer(number, done.at, done.reply));
                let stop = || outlet.cut.is_cut() || !outlet.commands.is_empty();
                if watched && !stop() {
                    let soon = session.attend(AT_ONCE, stop);
                    let none = soon.is_empty();
                    unsaid.happened(soon);
                    if none && !stop() {
                        // The completion may depend on an action of the reply's receiver, so the reply is sent first.
                        if !unsaid.say(&mut say) {
                            return End::Cut;
                        }
                        unsaid.happened(session.attend(ATTENTION, stop));
                    }
                }
            }
            Err(TryRecvError::Disconnected) => {
                return if unsaid.say(&mut say) { End::Left } else { End::Cut };
            }
            Err(TryRecvError::Empty) => {
                unsaid.happened(session.events());
                idle = unsaid.is_empty();
            }
        }
        let commands_wait = !outlet.commands.is_empty() && session.gone().is_none();
        let keep_back = commands_wait && unsaid.may_wait();
        if !keep_back && !unsaid.say(&mut say) {
            return End::Cut;
        }
        if let Some(why) = session.gone() {
            return End::Gone(why.into());
        }
        if idle && armed {
            session.wait(&outlet.cut.wake, Duration::MAX);
        }
        // Arms the wake before the next look into the queue, so that a command after that look ends the wait.
        armed = idle && !armed;
        if armed {
            outlet.cut.wake.arm();
        }
    }
}

/// Whether a command was a signaled post that succeeded and has not completed yet.
fn is_watched_for(command: &Command, done: &Done) -> bool {
    let Some(command::Kind::PostSend(post)) = &command.kind else {
        return false;
    };
    let is_its = |happened: &Happened| matches!(&happened.event.kind, Some(event::Kind::Completion(of)) if of.qp == post.qp && of.wr_id == post.wr_id);
    post.signaled && matches!(done.reply.kind, Some(reply::Kind::Done(_))) && !done.before.iter().any(is_its)
}

/// Replies and events that are held back.
#[derive(Default)]
struct Unsaid {
    said: Vec<AgentMessage>,
    since: Option<Instant>,
}

impl Unsaid {
    fn put(&mut self, said: AgentMessage) {
        self.since.get_or_insert_with(Instant::now);
        self.said.push(said);
    }

    fn happened(&mut self, happened: Vec<Happened>) {
        for happened in happened {
            self.put(AgentMessage::Event(happened.at, happened.event));
        }
    }

    fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    fn may_wait(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() < KEPT_BACK)
    }

    /// Sends everything that was held back. Returns whether the receiver still exists.
    fn say(&mut self, say: impl FnMut(AgentMessage) -> bool) -> bool {
        self.since = None;
        self.said.drain(..).all(say)
    }
}

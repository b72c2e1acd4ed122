//! The loop of the thread that owns a session: commands in, answers and events out.

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

/// Commands that may wait for a session.
const WAITING: usize = 64;
/// Their bytes.
const ROOM: u32 = 32 << 20;

/// How long completions are looked for without a pause after a post: first while its answer is kept back, then on.
const AT_ONCE: Duration = Duration::from_micros(50);
const ATTENTION: Duration = Duration::from_millis(1);
/// How long what is to be said is kept back while posts wait.
const KEPT_BACK: Duration = Duration::from_millis(10);

/// A command that waits, its number, and the room that it takes.
type Waiting = (u64, Command, OwnedSemaphorePermit);

/// What a message counts for in room of this size: one that is larger fills it.
#[must_use]
pub fn weight(message: &impl Message, room: u32) -> u32 {
    u32::try_from(message.encoded_len()).unwrap_or(room).clamp(1, room)
}

/// What a session says.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// The command of this number is done.
    Answer(u64, proto::Instant, Reply),
    /// Something happened.
    Event(proto::Instant, Event),
}

/// Why a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// No more commands: all that were given are answered.
    Left,
    /// It was cut off, or nobody listened any more. Commands that waited were not done.
    Cut,
    /// The device is of no use any more, and why.
    Gone(String),
}

/// Cuts a session off, from any thread.
#[derive(Debug)]
pub struct Cut {
    cut: AtomicBool,
    told: Notify,
    wake: Wake,
}

impl Cut {
    /// Ends the session without the commands that wait. Its thread notices at once, unless it is inside a call of the
    /// driver.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.told.notify_one();
        self.wake.wake_who_waits();
    }

    /// Whether it was cut off.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Comes back once it was cut off. For one caller at a time.
    pub async fn wait(&self) {
        while !self.is_cut() {
            self.told.notified().await;
        }
    }
}

/// Where commands go in. When the last clone is dropped, the session ends after the commands that wait.
#[derive(Debug)]
pub struct Inlet {
    commands: Option<Sender<Waiting>>,
    room: Arc<Semaphore>,
    cut: Arc<Cut>,
}

impl Inlet {
    /// Hands a command in; waits while too many wait already.
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

    /// Hands a command in, if not too many wait already; gives whether that was so.
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

    /// Comes back when the session has ended.
    pub async fn ended(&self) {
        if let Some(commands) = &self.commands {
            commands.closed().await;
        }
    }

    /// What cuts the session off.
    #[must_use]
    pub fn cut(&self) -> &Arc<Cut> {
        &self.cut
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        // First the end of the commands, then the word that there is something to see.
        self.commands = None;
        self.cut.wake.wake_who_waits();
    }
}

/// The session that the command was for has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionEnded;

/// Where the session's thread takes commands out.
#[derive(Debug)]
pub struct Outlet {
    commands: Receiver<Waiting>,
    cut: Arc<Cut>,
}

impl Outlet {
    /// What cuts the session off.
    #[must_use]
    pub fn cut(&self) -> &Arc<Cut> {
        &self.cut
    }

    /// The number of the first command, when the session could not begin. None when none comes in time.
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

/// A way for commands into a session.
///
/// # Errors
/// When the process has no descriptor left.
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

/// Does commands and passes on what happens, until the session ends. `say` gives whether anybody listens.
///
/// What is said may wake another thread, which takes time from what was just posted: so while completions are attended to
/// or further posts wait, it is kept back, for at most 10 ms.
pub fn drive<D: Device>(session: &mut Session<D>, outlet: &mut Outlet, mut say: impl FnMut(Said) -> bool) -> End {
    // The usual slack of 50 µs would make half of what times are known to.
    let _ = nix::sys::prctl::set_timerslack(1_000);
    let mut unsaid = Unsaid::default();
    // Whether who puts a command since the last look for one wakes this thread.
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
                // What else the driver is asked for may take long.
                if !is_post && !unsaid.say(&mut say) {
                    return End::Cut;
                }
                let done = session.execute(&command);
                let watched = is_watched_for(&command, &done);
                unsaid.happened(done.before);
                unsaid.put(Said::Answer(number, done.at, done.reply));
                let stop = || outlet.cut.is_cut() || !outlet.commands.is_empty();
                if watched && !stop() {
                    let soon = session.attend(AT_ONCE, stop);
                    let none = soon.is_empty();
                    unsaid.happened(soon);
                    if none && !stop() {
                        // It may need what only who hears the answer can do.
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
        // Before anything is looked at once more: a wake that comes later stays.
        armed = idle && !armed;
        if armed {
            outlet.cut.wake.arm();
        }
    }
}

/// Whether a command was a post that may complete at once, and has not.
fn is_watched_for(command: &Command, done: &Done) -> bool {
    let Some(command::Kind::PostSend(post)) = &command.kind else {
        return false;
    };
    let is_its = |happened: &Happened| matches!(&happened.event.kind, Some(event::Kind::Completion(of)) if of.qp == post.qp && of.wr_id == post.wr_id);
    post.signaled && matches!(done.reply.kind, Some(reply::Kind::Done(_))) && !done.before.iter().any(is_its)
}

/// What is kept back.
#[derive(Default)]
struct Unsaid {
    said: Vec<Said>,
    since: Option<Instant>,
}

impl Unsaid {
    fn put(&mut self, said: Said) {
        self.since.get_or_insert_with(Instant::now);
        self.said.push(said);
    }

    fn happened(&mut self, happened: Vec<Happened>) {
        for happened in happened {
            self.put(Said::Event(happened.at, happened.event));
        }
    }

    fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    fn may_wait(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() < KEPT_BACK)
    }

    /// Gives whether anybody listens.
    fn say(&mut self, say: impl FnMut(Said) -> bool) -> bool {
        self.since = None;
        self.said.drain(..).all(say)
    }
}

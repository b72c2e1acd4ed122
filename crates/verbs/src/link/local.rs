//! A session on a device of this host: the tester's own adapter.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::device::{Device, Failure};
use crate::drive::{End, Inlet, commands, drive};
use crate::{Limits, Session, VerbsDevice};
use verbatim_hw::verbs::Library;
use verbatim_proto::agent::Command;

use super::inbox::{Inbox, inbox};
use super::{AgentMessage, Gone, VerbsLink};

/// Longest time for the beginning, and for the end, of a session.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session on a device of this host, with a thread of its own. Times are on the clock of this host.
#[derive(Debug)]
pub struct LocalVerbs {
    inlet: Option<Inlet>,
    inbox: Inbox,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl LocalVerbs {
    /// Opens a device of this host through libibverbs.
    ///
    /// # Errors
    /// When the library, the device or the port is missing, or the device cannot be opened.
    pub fn open(device: &str, port: u8, limits: Limits) -> Result<Self, String> {
        let name = device.to_owned();
        Self::with(limits, move || {
            let library = Library::open()?;
            VerbsDevice::open(&library, &name, port)
        })
        .map_err(|why| format!("the tester's device: {why}"))
    }

    /// Begins a session on a device that `open` opens, on the thread of the session.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn with<D: Device>(
        limits: Limits,
        open: impl FnOnce() -> Result<D, Failure> + Send + 'static,
    ) -> Result<Self, String> {
        let internal = |error: std::io::Error| format!("no session can begin ({error})");
        let (inlet, mut outlet) = commands().map_err(internal)?;
        let (putter, inbox) = inbox().map_err(internal)?;
        let (opened_put, opened) = sync_channel(1);
        let (ended_put, ended) = sync_channel::<()>(0);
        let work = move || {
            // Dropped last, so the receiver then knows that the session's objects are destroyed.
            let _ended = ended_put;
            let mut session = match open() {
                Ok(device) => Session::new(device, limits),
                Err(failure) => {
                    let _ = opened_put.send(Err(failure.text));
                    return;
                }
            };
            if opened_put.send(Ok(())).is_err() {
                return;
            }
            let end = drive(&mut session, &mut outlet, |said| putter.blocking_put(said));
            drop(session);
            putter.end(match end {
                End::Gone(why) => format!("the tester's device is gone: {why}"),
                End::Left | End::Cut => "the tester ended the session".into(),
            });
        };
        let thread = std::thread::Builder::new()
            .name("verbs".into())
            .spawn(work)
            .map_err(internal)?;
        match opened.recv_timeout(PATIENCE) {
            Ok(opened) => opened?,
            Err(_) => return Err(format!("it does not open within {} s; see `dmesg`", PATIENCE.as_secs())),
        }
        Ok(Self {
            inlet: Some(inlet),
            inbox,
            ended,
            thread: Some(thread),
        })
    }
}

impl VerbsLink for LocalVerbs {
    fn send(&mut self, number: u64, command: Command) -> Result<(), Gone> {
        self.inbox.ended()?;
        let put = self.inlet.as_ref().map(|inlet| inlet.try_put(number, command));
        match put {
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(Gone(
                "the tester's device takes no commands: its queue of commands is full; does a call of its driver hang?"
                    .into(),
            )),
            Some(Err(_)) | None => Err(self.inbox.gone()),
        }
    }

    fn recv(&mut self, timeout: Duration) -> Result<Option<AgentMessage>, Gone> {
        self.inbox.recv(timeout)
    }
}

impl AsFd for LocalVerbs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}

impl Drop for LocalVerbs {
    fn drop(&mut self) {
        if let Some(inlet) = self.inlet.take() {
            inlet.cut().cut();
        }
        self.inbox.close();
        let hangs = matches!(self.ended.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout));
        if let Some(thread) = self.thread.take()
            && !hangs
        {
            let _ = thread.join();
        }
    }
}

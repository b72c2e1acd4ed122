//! The queue of a session's messages to its user.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::wake::Wake;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{AgentMessage, Gone};

/// Largest number of queued messages. A sender waits while the queue is full, so no message is lost.
const WAITING: usize = 4096;
/// Longest wait for the reason of a session's end, after the session stopped taking commands.
const END_WITHIN: Duration = Duration::from_secs(3);

/// The receiving end of the queue.
#[derive(Debug)]
pub(super) struct Inbox {
    said: Receiver<AgentMessage>,
    shared: Arc<Shared>,
}

/// The sending end of the queue. Dropping it ends the session for the receiver.
#[derive(Debug)]
pub(super) struct Putter {
    said: Option<Sender<AgentMessage>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wake: Wake,
    end: Mutex<Option<String>>,
    has_ended: Condvar,
}

impl Shared {
    /// Stores the reason of the end; the first reason stays.
    fn end(&self, why: impl FnOnce() -> String) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.get_or_insert_with(why);
        self.has_ended.notify_all();
    }
}

/// Makes both ends of the queue.
pub(super) fn inbox() -> std::io::Result<(Putter, Inbox)> {
    let (put, take) = channel(WAITING);
    let shared = Arc::new(Shared {
        wake: Wake::new()?,
        end: Mutex::new(None),
        has_ended: Condvar::new(),
    });
    let putter = Putter {
        said: Some(put),
        shared: Arc::clone(&shared),
    };
    Ok((putter, Inbox { said: take, shared }))
}

impl Inbox {
    pub(super) fn recv(&mut self, timeout: Duration) -> Result<Option<AgentMessage>, Gone> {
        let begun = Instant::now();
        loop {
            if let Some(found) = self.take()? {
                return Ok(Some(found));
            }
            // A message sent from here on wakes the receiver again.
            self.shared.wake.clear();
            match self.take() {
                Ok(None) => {}
                found => {
                    // Keeps the descriptor readable, because there may be more messages, and the end must stay visible.
                    self.shared.wake.wake();
                    return found;
                }
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.shared.wake.wait(left);
        }
    }

    /// Stops receiving. A sender gets an error, even if it already waits.
    pub(super) fn close(&mut self) {
        self.said.close();
    }

    fn take(&mut self) -> Result<Option<AgentMessage>, Gone> {
        match self.said.try_recv() {
            Ok(said) => Ok(Some(said)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.gone()),
        }
    }

    /// Returns the reason as an error if the session has ended, even if messages are left.
    pub(super) fn ended(&self) -> Result<(), Gone> {
        let end = self.shared.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.as_ref().map_or(Ok(()), |why| Err(Gone(why.clone())))
    }

    /// Returns why the session ended. Waits for the reason, because a broken connection may stop taking commands
    /// before the reason is known.
    pub(super) fn gone(&self) -> Gone {
        let end = self.shared.end.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .shared
            .has_ended
            .wait_timeout_while(end, END_WITHIN, |end| end.is_none());
        let (end, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Gone(end.clone().unwrap_or_else(|| {
            format!(
                "the session takes no commands and gave no reason within {END_WITHIN:?}; check whether the agent, or \
                 the driver of the tester's own device, hangs (its log, `dmesg`)"
            )
        }))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

impl Putter {
    /// Sends a message, and waits while the queue is full. Returns whether the receiver still exists.
    pub(super) async fn put(&self, said: AgentMessage) -> bool {
        let Some(put) = &self.said else { return false };
        let taken = put.send(said).await.is_ok();
        self.shared.wake.wake();
        taken
    }

    /// Sends a message from a thread outside the runtime, like [`Putter::put`].
    pub(super) fn blocking_put(&self, said: AgentMessage) -> bool {
        let Some(put) = &self.said else { return false };
        let taken = put.blocking_send(said).is_ok();
        self.shared.wake.wake();
        taken
    }

    /// Ends the session for the receiver, after it has taken all messages.
    pub(super) fn end(self, why: String) {
        self.shared.end(|| why);
    }
}

impl Drop for Putter {
    fn drop(&mut self) {
        // Stores the end before it wakes the receiver.
        self.shared
            .end(|| "the tester abandoned the session; if the run was not cancelled, please report this".into());
        self.said = None;
        self.shared.wake.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_proto::agent::{Event, Instant as At};

    fn event(earliest_ns: u64) -> AgentMessage {
        let at = At {
            earliest_ns,
            latest_ns: 0,
        };
        AgentMessage::Event(at, Event { kind: None })
    }

    fn readable(inbox: &Inbox) -> bool {
        let mut fds = [nix::poll::PollFd::new(inbox.as_fd(), nix::poll::PollFlags::POLLIN)];
        nix::poll::poll(&mut fds, 0_u8).unwrap() == 1
    }

    #[test]
    fn descriptor_is_readable_while_messages_wait() {
        let (putter, mut inbox) = inbox().unwrap();
        assert!(!readable(&inbox));
        for n in 0..3 {
            assert!(putter.blocking_put(event(n)));
        }
        for n in 0..3 {
            assert!(readable(&inbox));
            assert_eq!(inbox.recv(Duration::ZERO), Ok(Some(event(n))));
        }
        assert_eq!(inbox.recv(Duration::ZERO), Ok(None));
        assert!(!readable(&inbox));
        putter.end("over".into());
        for _ in 0..2 {
            assert!(readable(&inbox));
            assert_eq!(inbox.recv(Duration::ZERO), Err(Gone("over".into())));
        }
    }

    #[test]
    fn messages_come_before_the_end() {
        let (putter, mut inbox) = inbox().unwrap();
        putter.blocking_put(event(1));
        putter.end("over".into());
        assert_eq!(inbox.recv(Duration::ZERO), Ok(Some(event(1))));
        assert!(inbox.recv(Duration::ZERO).is_err());
    }

    #[test]
    fn gone_waits_for_the_reason() {
        let (putter, inbox) = inbox().unwrap();
        let asking = std::thread::spawn(move || inbox.gone());
        putter.end("the agent was killed".into());
        assert_eq!(asking.join().unwrap(), Gone("the agent was killed".into()));
    }

    #[test]
    fn dropped_putter_gives_a_reason() {
        let (putter, mut inbox) = inbox().unwrap();
        drop(putter);
        let Err(Gone(why)) = inbox.recv(Duration::ZERO) else {
            panic!("no end")
        };
        assert!(why.contains("abandoned the session"), "{why}");
    }

    #[test]
    fn message_ends_a_wait() {
        let (putter, mut inbox) = inbox().unwrap();
        let saying = std::thread::spawn(move || {
            putter.blocking_put(event(7));
            putter
        });
        assert_eq!(inbox.recv(Duration::from_secs(60)), Ok(Some(event(7))));
        drop(saying.join().unwrap());
    }
}

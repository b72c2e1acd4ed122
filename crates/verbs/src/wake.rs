//! Waking a thread that waits in `poll`.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// More than the system can be asked to wait for would be an error.
const LONGEST: Duration = Duration::from_secs(3600);

/// A descriptor that is readable from [`Wake::wake`] until [`Wake::clear`].
#[derive(Debug)]
pub struct Wake {
    fd: EventFd,
    /// Whether somebody is about to wait, or waits.
    armed: AtomicBool,
}

impl Wake {
    /// One that is not readable yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            fd,
            armed: AtomicBool::new(false),
        })
    }

    /// Makes it readable.
    pub fn wake(&self) {
        // The counter is full after 2^64 wakes without a clear: it is readable then anyway.
        let _ = self.fd.write(1);
    }

    /// Makes it unreadable, and has [`Wake::wake_who_waits`] make it readable. What it announces must be looked at
    /// afterwards, or a wake could be lost.
    pub fn arm(&self) {
        // In this order: a wake that is under way for what was seen before is cleared, none that comes later is.
        self.clear();
        self.armed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Makes it readable, if it was armed since the last time: who does not wait will look without being woken, and is
    /// spared the call. What it announces must be there before.
    pub fn wake_who_waits(&self) {
        fence(Ordering::SeqCst);
        if self.armed.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Makes it unreadable. What it announces must be looked at afterwards, or a wake could be lost.
    pub fn clear(&self) {
        let _ = self.fd.read();
    }

    /// Waits until it is readable or the time is over.
    pub fn wait(&self, timeout: Duration) {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        // A signal ends the wait early, which callers expect of any wait.
        match ppoll(&mut fds, Some(timeout.min(LONGEST).into()), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            // Without memory for the call: the caller comes back.
            Err(_) => std::thread::yield_now(),
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn waited(wake: &Wake, timeout: Duration) -> bool {
        let begun = Instant::now();
        wake.wait(timeout);
        begun.elapsed() >= timeout
    }

    #[test]
    fn one_who_waits_is_woken_and_one_who_does_not_is_not() {
        let wake = Wake::new().unwrap();
        wake.wake_who_waits();
        assert!(waited(&wake, Duration::from_millis(5)), "not armed");
        wake.arm();
        wake.wake_who_waits();
        assert!(!waited(&wake, Duration::from_secs(10)));
        wake.arm();
        assert!(waited(&wake, Duration::from_millis(5)), "armed anew, it is unreadable");
    }

    #[test]
    fn no_word_is_lost_between_one_who_looks_and_one_who_puts() {
        let wake = Wake::new().unwrap();
        let (put, taken) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..10_000 {
                    put.send(n).unwrap();
                    wake.wake_who_waits();
                }
            });
            let mut next = 0;
            while next < 10_000 {
                wake.arm();
                let before = next;
                next += taken.try_iter().count();
                if next == before {
                    let begun = Instant::now();
                    wake.wait(Duration::from_secs(60));
                    assert!(begun.elapsed() < Duration::from_secs(30), "asleep after {next}");
                }
            }
        });
    }

    #[test]
    fn a_wait_ends_when_woken_and_lasts_again_once_cleared() {
        let wake = Wake::new().unwrap();
        assert!(waited(&wake, Duration::from_millis(5)));
        wake.wake();
        wake.wake();
        assert!(!waited(&wake, Duration::from_secs(10)));
        wake.clear();
        assert!(waited(&wake, Duration::from_millis(5)));
    }
}

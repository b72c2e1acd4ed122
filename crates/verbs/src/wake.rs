//! Waking a thread that waits in `poll`.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Longest wait. A wait longer than the system supports would be an error.
const LONGEST: Duration = Duration::from_secs(3600);

/// A file descriptor that is readable from [`Wake::wake`] until [`Wake::clear`].
#[derive(Debug)]
pub struct Wake {
    fd: EventFd,
    /// Whether a thread waits or is about to wait.
    armed: AtomicBool,
}

impl Wake {
    /// Creates a wake whose descriptor is not readable.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            fd,
            armed: AtomicBool::new(false),
        })
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        // An error means that the counter is full after 2^64 wakes; the descriptor is readable then.
        let _ = self.fd.write(1);
    }

    /// Makes the descriptor unreadable, and permits [`Wake::wake_who_waits`] to make it readable. The caller must
    /// then check for new data; otherwise a wake could be lost.
    pub fn arm(&self) {
        // Clears the descriptor before arming. Clearing it later could remove a new wake.
        self.clear();
        self.armed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Makes the descriptor readable if [`Wake::arm`] was called since the last call of this function. Otherwise no
    /// thread waits, and this function makes no system call. The caller must make the data available before the
    /// call.
    pub fn wake_who_waits(&self) {
        fence(Ordering::SeqCst);
        if self.armed.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Makes the descriptor unreadable. The caller must then check for new data; otherwise a wake could be lost.
    pub fn clear(&self) {
        let _ = self.fd.read();
    }

    /// Waits until the descriptor is readable or the time is over.
    pub fn wait(&self, timeout: Duration) {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        // A signal ends the wait early. Callers must expect an early end.
        match ppoll(&mut fds, Some(timeout.min(LONGEST).into()), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            // The system has no memory for the call, so the caller tries again.
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
    fn wakes_only_an_armed_waiter() {
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
    fn no_wake_is_lost_between_threads() {
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
    fn wait_ends_on_wake_until_cleared() {
        let wake = Wake::new().unwrap();
        assert!(waited(&wake, Duration::from_millis(5)));
        wake.wake();
        wake.wake();
        assert!(!waited(&wake, Duration::from_secs(10)));
        wake.clear();
        assert!(waited(&wake, Duration::from_millis(5)));
    }
}

//! Detects a thread that hangs in a call: the thread neither computes nor wakes up.
//!
//! A worker answers a ping only while the thread of its procedure does not hang. Another thread reads the stream,
//! so an answer without this check would say nothing about the procedure.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Watches a thread of this process. A procedure wakes up at least every few tens of milliseconds, even while it waits.
#[derive(Debug)]
pub(super) struct Pulse {
    directory: PathBuf,
    limit: Duration,
    last: Option<String>,
    since: Instant,
}

impl Pulse {
    /// Watches the calling thread. The thread counts as hung if it neither computes nor wakes up for `limit`.
    pub(super) fn of_this_thread(limit: Duration) -> Self {
        let thread = nix::unistd::gettid();
        Self {
            directory: format!("/proc/self/task/{thread}").into(),
            limit,
            last: None,
            since: Instant::now(),
        }
    }

    /// Returns whether the thread hangs. If `/proc` gives no information, the thread counts as alive.
    pub(super) fn hangs(&mut self) -> bool {
        let now = self.sign();
        if now.is_none() || now != self.last {
            self.last = now;
            self.since = Instant::now();
        }
        self.since.elapsed() >= self.limit
    }

    /// Returns the processor time and the context switches of the thread so far.
    fn sign(&self) -> Option<String> {
        let stat = fs::read_to_string(self.directory.join("stat")).ok()?;
        // The name in parentheses may hold any characters; utime and stime are the 12th and 13th words after the name.
        let mut sign: Vec<&str> = stat.rsplit(") ").next()?.split(' ').skip(11).take(2).collect();
        let status = fs::read_to_string(self.directory.join("status")).ok()?;
        sign.extend(status.lines().filter(|line| line.contains("ctxt_switches")));
        Some(sign.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn detects_hung_thread() {
        let limit = Duration::from_millis(500);
        let (send, receive) = mpsc::channel();
        let (let_go, wait) = mpsc::channel::<()>();
        let (stop, stopped) = mpsc::channel::<()>();
        let waiting = thread::spawn(move || {
            send.send(Pulse::of_this_thread(limit)).unwrap();
            // Wakes up again and again until `stop` is dropped. Then waits without waking up, until `let_go` is
            // dropped.
            while stopped.recv_timeout(Duration::from_millis(5)) == Err(mpsc::RecvTimeoutError::Timeout) {}
            wait.recv().unwrap_err();
        });
        let mut pulse = receive.recv().unwrap();
        let until = Instant::now() + 2 * limit;
        while Instant::now() < until {
            assert!(!pulse.hangs());
            thread::yield_now();
        }
        drop(stop);
        let start = Instant::now();
        while !pulse.hangs() {
            assert!(start.elapsed() < Duration::from_secs(60), "never found to hang");
            thread::yield_now();
        }
        assert!(start.elapsed() >= limit);
        drop(let_go);
        waiting.join().unwrap();
    }
}

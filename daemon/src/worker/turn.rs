//! Virtual rigs run their tests one after the other. A test of a virtual rig computes as fast as it can, and holds
//! its record in this process. Two large tests in parallel would take twice the memory, and would end no sooner.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a test waits for its turn. After this time the test begins anyway, so that no long test delays another
/// test for longer.
const PATIENCE: Duration = Duration::from_secs(10);

static TURNS: Turns = Turns::new();

/// The turn. At most one test holds the turn.
#[derive(Debug)]
struct Turns {
    taken: Mutex<bool>,
    free: Condvar,
}

impl Turns {
    const fn new() -> Self {
        Self {
            taken: Mutex::new(false),
            free: Condvar::new(),
        }
    }

    /// Waits for the turn. Returns `None` if no turn comes within `patience`.
    fn take(&'static self, patience: Duration) -> Option<Turn> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.free.wait_timeout_while(taken, patience, |taken| *taken);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && *taken {
            return None;
        }
        *taken = true;
        Some(Turn(self))
    }
}

/// The held turn, which passes to the next test on drop.
#[derive(Debug)]
pub(super) struct Turn(&'static Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

/// Waits for the turn of a test, at most [`PATIENCE`]. Blocks.
pub(super) fn take() -> Option<Turn> {
    TURNS.take(PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_exclusive_and_waits_are_bounded() {
        static TURNS: Turns = Turns::new();
        let first = TURNS.take(Duration::ZERO).unwrap();
        assert!(TURNS.take(Duration::from_millis(1)).is_none());
        let next = std::thread::spawn(|| TURNS.take(Duration::from_secs(600)).is_some());
        drop(first);
        assert!(next.join().unwrap());
        assert!(TURNS.take(Duration::ZERO).is_some(), "its end gave the turn on");
    }
}

//! Virtual rigs run their tests in turn: such a test computes as fast as it can, and holds its record in this process. Two that
//! exercise a whole table side by side would take twice the memory and end no sooner for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a test waits for its turn, and then begins all the same: a long one holds up nobody for longer.
const PATIENCE: Duration = Duration::from_secs(10);

static TURNS: Turns = Turns::new();

/// Who has the turn.
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

    /// Waits for the turn; none after `patience`.
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

/// The turn, given on when this is dropped.
#[derive(Debug)]
pub(super) struct Turn(&'static Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

/// Waits for the turn of a test. Blocks.
pub(super) fn take() -> Option<Turn> {
    TURNS.take(PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_until_it_gives_it_on_and_nobody_waits_for_it_without_end() {
        static TURNS: Turns = Turns::new();
        let first = TURNS.take(Duration::ZERO).unwrap();
        assert!(TURNS.take(Duration::from_millis(1)).is_none());
        let next = std::thread::spawn(|| TURNS.take(Duration::from_secs(600)).is_some());
        drop(first);
        assert!(next.join().unwrap());
        assert!(TURNS.take(Duration::ZERO).is_some(), "its end gave the turn on");
    }
}

//! How long to wait before trying again, and when to give up.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// The first pause.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses that double up to a bound, each with a random part, until patience ends. Success starts it anew.
#[derive(Debug)]
pub(crate) struct Backoff {
    patience: Duration,
    pause: Duration,
    since: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            pause: FIRST,
            since: None,
        }
    }

    /// After a failure: how long to wait before the next attempt; none when patience is over.
    pub(crate) fn after_failure(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= self.patience {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST);
        Some(pause / 2 + pause.mul_f64(share() / 2.0))
    }

    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.pause = FIRST;
        self.since = None;
    }
}

/// A random share of one, so that watchers do not all come back at the same instant.
fn share() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_success_starts_them_anew() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let pauses: Vec<Duration> = (0..20).filter_map(|_| backoff.after_failure()).collect();
        assert_eq!(pauses.len(), 20);
        assert!(pauses[0] <= FIRST && pauses[19] >= LONGEST / 2 && pauses.iter().all(|pause| *pause <= LONGEST));
        backoff.reset();
        assert!(backoff.after_failure().is_some_and(|pause| pause <= FIRST));
    }

    #[test]
    fn without_patience_the_first_failure_is_the_last() {
        assert_eq!(Backoff::new(Duration::ZERO).after_failure(), None);
    }
}

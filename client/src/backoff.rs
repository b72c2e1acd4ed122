//! Pauses between attempts.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses between attempts. They double up to [`LONGEST`], and each has a random part. They end after `patience`.
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

    /// Returns the pause before the next attempt; None once `patience` has passed since the first failure.
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

    /// Resets the pauses after a success.
    pub(crate) fn reset(&mut self) {
        self.pause = FIRST;
        self.since = None;
    }
}

/// Returns a random number from 0 to 1, so that several watchers do not reconnect at the same time.
fn share() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_reset() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let pauses: Vec<Duration> = (0..20).filter_map(|_| backoff.after_failure()).collect();
        assert_eq!(pauses.len(), 20);
        assert!(pauses[0] <= FIRST && pauses[19] >= LONGEST / 2 && pauses.iter().all(|pause| *pause <= LONGEST));
        backoff.reset();
        assert!(backoff.after_failure().is_some_and(|pause| pause <= FIRST));
    }

    #[test]
    fn zero_patience_allows_no_retry() {
        assert_eq!(Backoff::new(Duration::ZERO).after_failure(), None);
    }
}

//! Turns to work: a limit for each identity, and a limit for all together. An identity takes part in the queue of all
//! with as many works as its own limit allows, so no identity delays others by the number of its calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Identity;

/// The turns of all identities. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    each: usize,
    own: Arc<Mutex<HashMap<Identity, Weak<Semaphore>>>>,
    all: Arc<Semaphore>,
}

/// A turn, which ends on drop.
#[derive(Debug)]
pub(crate) struct Turn {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Creates `each` turns for every identity, and at most `all` for all of them together.
    pub(crate) fn new(each: usize, all: usize) -> Self {
        Self {
            each,
            own: Arc::default(),
            all: Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Waits for a turn. `None` stands for the daemon itself, which has no limit of its own.
    pub(crate) async fn take(&self, who: Option<&Identity>) -> Turn {
        // The permits are never missing: the semaphores are never closed.
        let own = match who {
            Some(who) => self.of(who).acquire_owned().await.ok(),
            None => None,
        };
        Turn {
            _own: own,
            _all: Arc::clone(&self.all).acquire_owned().await.ok(),
        }
    }

    fn of(&self, who: &Identity) -> Arc<Semaphore> {
        let mut all = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(who).and_then(Weak::upgrade) {
            return own;
        }
        // Remove the entries of identities without turns whenever an entry is added.
        all.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.each));
        all.insert(who.clone(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_pending(turn: std::pin::Pin<&mut impl Future<Output = Turn>>) -> bool {
        turn.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn busy_client_delays_only_itself() {
        const EACH: usize = 32;
        let turns = Turns::new(EACH, usize::MAX);
        let (many, other) = (Identity::User(1), Identity::User(2));
        let mut in_work = Vec::new();
        for _ in 0..EACH {
            in_work.push(turns.take(Some(&many)).await);
        }
        let mut waits = Box::pin(turns.take(Some(&many)));
        assert!(is_pending(waits.as_mut()), "one more begins");
        drop(turns.take(Some(&other)).await);
        in_work.pop();
        drop(waits.await);
        drop(in_work);
        for number in 3..1_000 {
            drop(turns.take(Some(&Identity::User(number))).await);
        }
        assert_eq!(turns.own.lock().unwrap().len(), 1, "who is gone is forgotten");
    }

    #[tokio::test]
    async fn identities_take_turns_in_rotation() {
        let turns = Turns::new(1, 1);
        let (many, other) = (Identity::User(1), Identity::User(2));
        let first = turns.take(Some(&many)).await;
        let mut queue: Vec<_> = (0..20).map(|_| Box::pin(turns.take(Some(&many)))).collect();
        assert!(queue.iter_mut().all(|turn| is_pending(turn.as_mut())));
        let mut others = pin!(turns.take(Some(&other)));
        assert!(is_pending(others.as_mut()));
        drop(first);
        // The other identity is next, before the 20 earlier calls.
        assert!(queue.iter_mut().all(|turn| is_pending(turn.as_mut())));
        drop(others.await);
    }
}

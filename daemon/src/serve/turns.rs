//! How many calls of one client are in work at a time. What it asks for beyond that waits its turn, unread, on its own
//! connections: nobody else's calls stand behind it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Identity;

/// The turns of all clients.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    each: usize,
    all: Arc<Mutex<HashMap<Identity, Weak<Semaphore>>>>,
}

impl Turns {
    /// So many calls of each client.
    pub(super) fn new(each: usize) -> Self {
        Self {
            each,
            all: Arc::default(),
        }
    }

    /// Waits until a call of somebody may begin. It lasts until what this returns is dropped; a stream that goes on
    /// afterwards has a budget of its own.
    pub(super) async fn take(&self, who: &Identity) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        self.of(who).acquire_owned().await.ok()
    }

    fn of(&self, who: &Identity) -> Arc<Semaphore> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(who).and_then(Weak::upgrade) {
            return own;
        }
        // Those of who asks for nothing any more go when somebody new comes.
        all.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.each));
        all.insert(who.clone(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn who_asks_for_much_waits_its_own_turn_and_keeps_nobody_waiting() {
        const EACH: usize = 32;
        let turns = Turns::new(EACH);
        let (many, other) = (Identity::User(1), Identity::User(2));
        let mut in_work = Vec::new();
        for _ in 0..EACH {
            in_work.push(turns.take(&many).await);
        }
        let mut waits = Box::pin(turns.take(&many));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending(), "one more begins");
        assert!(turns.take(&other).await.is_some());
        in_work.pop();
        assert!(waits.await.is_some());
        drop(in_work);
        for number in 3..1_000 {
            drop(turns.take(&Identity::User(number)).await);
        }
        assert_eq!(turns.all.lock().unwrap().len(), 1, "who is gone is forgotten");
    }
}

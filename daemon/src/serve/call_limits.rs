//! Limits of concurrent calls per identity. Above the limit, further calls of the identity wait unread on its own
//! connections, and do not delay the calls of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Identity;

/// The call slots of all identities.
#[derive(Clone, Debug)]
pub(super) struct CallLimits {
    each: usize,
    all: Arc<Mutex<HashMap<Identity, Weak<Semaphore>>>>,
}

impl CallLimits {
    /// Creates the slots, `each` for every identity.
    pub(super) fn new(each: usize) -> Self {
        Self {
            each,
            all: Arc::default(),
        }
    }

    /// Waits for a slot for a call. Dropping the permit frees the slot. A call holds its slot until its response
    /// begins; response streams have their own limits.
    pub(super) async fn take(&self, who: &Identity) -> Option<OwnedSemaphorePermit> {
        // Never `None`: the semaphore is never closed.
        self.of(who).acquire_owned().await.ok()
    }

    fn of(&self, who: &Identity) -> Arc<Semaphore> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(who).and_then(Weak::upgrade) {
            return own;
        }
        // Remove the entries of identities without calls whenever an entry is added.
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
    async fn busy_client_delays_only_itself() {
        const EACH: usize = 32;
        let call_limits = CallLimits::new(EACH);
        let (many, other) = (Identity::User(1), Identity::User(2));
        let mut in_work = Vec::new();
        for _ in 0..EACH {
            in_work.push(call_limits.take(&many).await);
        }
        let mut waits = Box::pin(call_limits.take(&many));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending(), "one more begins");
        assert!(call_limits.take(&other).await.is_some());
        in_work.pop();
        assert!(waits.await.is_some());
        drop(in_work);
        for number in 3..1_000 {
            drop(call_limits.take(&Identity::User(number)).await);
        }
        assert_eq!(call_limits.all.lock().unwrap().len(), 1, "who is gone is forgotten");
    }
}

//! How many connections one identity may have, and all together. Beyond, the one that has been silent longest gives way, of
//! its own or of who has the most: who leaves connections lying about keeps out nobody else, and not itself either.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::access::Identity;

/// Connections of one identity. A client holds one; a bench of watchers some dozens.
const EACH: usize = 128;
/// Connections of all.
const ALL: usize = 1024;

/// All seats.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by: HashMap<Identity, HashMap<u64, Held>>,
}

#[derive(Debug)]
struct Held {
    heard: Instant,
    /// Dropped, it tells the connection to go.
    _stay: oneshot::Sender<()>,
}

/// A connection's seat, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    who: Identity,
    number: u64,
    must_go: oneshot::Receiver<()>,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection of somebody.
    pub(super) fn take(&self, who: &Identity) -> Seat {
        let (stay, must_go) = oneshot::channel();
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        if taken.by.get(who).map_or(0, HashMap::len) >= EACH {
            taken.one_gives_way(who);
        } else if taken.by.values().map(HashMap::len).sum::<usize>() >= ALL {
            let most = taken.by.iter().max_by_key(|(_, held)| held.len());
            if let Some(most) = most.map(|(who, _)| who.clone()) {
                taken.one_gives_way(&most);
            }
        }
        let own = taken.by.entry(who.clone()).or_default();
        let heard = Instant::now();
        own.insert(number, Held { heard, _stay: stay });
        Seat {
            seats: self.clone(),
            who: who.clone(),
            number,
            must_go,
        }
    }
}

impl Taken {
    /// Of somebody's connections, the one that has been silent longest.
    fn one_gives_way(&mut self, who: &Identity) {
        let Some(own) = self.by.get_mut(who) else { return };
        // Told once each: a flood is one line for each that gives way, and no more than that.
        let silent_longest = own.iter().min_by_key(|(_, held)| held.heard).map(|(number, _)| *number);
        if let Some(number) = silent_longest {
            own.remove(&number);
            tracing::debug!(%who, "too many connections: the one that has been silent longest gives way");
        }
    }
}

impl Seat {
    /// The other end was heard.
    pub(super) fn heard(&self) {
        let mut taken = self.seats.taken();
        let own = taken.by.get_mut(&self.who);
        if let Some(held) = own.and_then(|own| own.get_mut(&self.number)) {
            held.heard = Instant::now();
        }
    }

    /// Ready when the connection must go.
    pub(super) fn poll_must_go(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.must_go).poll(context).map(|_| ())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        if let Some(own) = taken.by.get_mut(&self.who) {
            own.remove(&self.number);
            if own.is_empty() {
                taken.by.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must_go(seat: &mut Seat) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        seat.poll_must_go(&mut context).is_ready()
    }

    #[test]
    fn the_silent_one_of_who_has_too_many_gives_way_and_nobody_elses() {
        let seats = Seats::default();
        let (many, other) = (Identity::User(1), Identity::User(2));
        let mut others = seats.take(&other);
        let mut own: Vec<Seat> = (0..EACH).map(|_| seats.take(&many)).collect();
        own[0].heard();
        let _more = seats.take(&many);
        assert!(!must_go(&mut own[0]) && !must_go(&mut others));
        assert_eq!(own.iter_mut().filter_map(|seat| must_go(seat).then_some(())).count(), 1);
        drop(own);
        let mut all: Vec<Seat> = (0..ALL)
            .map(|number| seats.take(&Identity::User(3 + number as u32 / 100)))
            .collect();
        assert!(!must_go(&mut others), "who has one alone stays");
        assert_eq!(all.iter_mut().filter_map(|seat| must_go(seat).then_some(())).count(), 2);
        drop(all);
        let mut again: Vec<Seat> = (1..EACH).map(|_| seats.take(&many)).collect();
        assert!(again.iter_mut().all(|seat| !must_go(seat)));
    }
}

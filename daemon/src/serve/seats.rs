//! How many connections one identity may have, and all together. Beyond, the one that has been silent longest gives way, of
//! its own or of who has the most: who leaves connections lying about keeps out nobody else, and not itself either. An admin's
//! gives way to nobody's but an admin's: however many others there are, somebody can end what they do.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::limits::Limits;
use crate::access::{Access, Caller, Identity};

/// All seats.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    limits: Limits,
    access: Arc<Access>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    by: HashMap<Identity, HashMap<u64, Held>>,
}

#[derive(Debug)]
struct Held {
    heard: Instant,
    is_admins: bool,
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
    /// None taken; who is an admin, `access` says.
    pub(super) fn new(limits: Limits, access: Arc<Access>) -> Self {
        Self {
            limits,
            access,
            taken: Arc::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection of somebody.
    pub(super) fn take(&self, caller: &Caller) -> Seat {
        let (stay, must_go) = oneshot::channel();
        let (who, is_admins) = (&caller.who, self.access.table().has_admin(caller));
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        if taken.by.get(who).map_or(0, HashMap::len) >= self.limits.connections_each {
            taken.one_gives_way(who);
        } else if taken.by.values().map(HashMap::len).sum::<usize>() >= self.limits.connections
            && let Some(most) = taken.who_has_most()
        {
            taken.one_gives_way(&most);
        }
        let own = taken.by.entry(who.clone()).or_default();
        let held = Held {
            heard: Instant::now(),
            is_admins,
            _stay: stay,
        };
        own.insert(number, held);
        Seat {
            seats: self.clone(),
            who: who.clone(),
            number,
            must_go,
        }
    }
}

impl Taken {
    /// Who is no admin and has the most connections; an admin, where nobody else has any.
    fn who_has_most(&self) -> Option<Identity> {
        let all = self.by.iter();
        let rank = |held: &HashMap<u64, Held>| (!held.values().any(|held| held.is_admins), held.len());
        all.max_by_key(|(_, held)| rank(held)).map(|(who, _)| who.clone())
    }

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
    use crate::access::Table;

    const OWNER: u32 = 1000;

    fn seats() -> Seats {
        Seats::new(Limits::default(), Arc::new(Access::new(Table::usual(OWNER))))
    }

    fn user(number: u32) -> Caller {
        Caller::user(number, number)
    }

    fn must_go(seat: &mut Seat) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        seat.poll_must_go(&mut context).is_ready()
    }

    fn gone(seats: &mut [Seat]) -> usize {
        seats.iter_mut().filter_map(|seat| must_go(seat).then_some(())).count()
    }

    #[test]
    fn the_silent_one_of_who_has_too_many_gives_way_and_nobody_elses() {
        let (seats, limits) = (seats(), Limits::default());
        let (many, other) = (user(1), user(2));
        let mut others = seats.take(&other);
        let mut own: Vec<Seat> = (0..limits.connections_each).map(|_| seats.take(&many)).collect();
        own[0].heard();
        let _more = seats.take(&many);
        assert!(!must_go(&mut own[0]) && !must_go(&mut others));
        assert_eq!(gone(&mut own), 1);
        drop(own);
        let mut all: Vec<Seat> = (0..limits.connections)
            .map(|number| seats.take(&user(3 + number as u32 / 100)))
            .collect();
        assert!(!must_go(&mut others), "who has one alone stays");
        assert_eq!(gone(&mut all), 2);
        drop(all);
        let mut again: Vec<Seat> = (1..limits.connections_each).map(|_| seats.take(&many)).collect();
        assert!(again.iter_mut().all(|seat| !must_go(seat)));
    }

    #[test]
    fn an_admin_comes_in_and_stays_however_many_others_there_are() {
        let limits = Limits {
            connections: 10,
            connections_each: 4,
            ..Limits::default()
        };
        let seats = Seats::new(limits, Arc::new(Access::new(Table::usual(OWNER))));
        // As many as there may be, of as many clients, in front of it and behind it.
        let mut before: Vec<Seat> = (1..=10).map(|number| seats.take(&user(number))).collect();
        let mut admins: Vec<Seat> = (0..3).map(|_| seats.take(&user(OWNER))).collect();
        assert_eq!(gone(&mut before), 3);
        let behind: Vec<Seat> = (2000..2100).map(|number| seats.take(&user(number))).collect();
        assert_eq!(gone(&mut admins), 0);
        drop(behind);
        // Its own too many it gives up as everybody.
        admins.push(seats.take(&user(OWNER)));
        let _one_more = seats.take(&user(OWNER));
        assert_eq!(gone(&mut admins), 1);
    }
}

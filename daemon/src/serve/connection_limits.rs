//! Limits of connections, per identity and in total. At the limit of an identity, a new connection closes that
//! identity's connection with the longest silence. At the total limit, the identity with the most connections
//! loses its connection with the longest silence. So forgotten connections of an identity lock out neither that
//! identity nor others.
//!
//! At the total limit, an admin loses a connection only if all connections belong to admins. So an admin can
//! always connect and end the work of others.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::limits::Limits;
use crate::access::{Access, Caller, Identity};

/// The slots of all connections.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimits {
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
    /// Dropping the sender tells the connection to close.
    _stay: oneshot::Sender<()>,
}

/// The slot of a connection, which is freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connection_limits: ConnectionLimits,
    who: Identity,
    number: u64,
    must_go: oneshot::Receiver<()>,
}

impl ConnectionLimits {
    /// Creates the slots. `access` tells which callers are admins.
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

    /// Takes a slot for a new connection.
    pub(super) fn take(&self, caller: &Caller) -> ConnectionSlot {
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
        ConnectionSlot {
            connection_limits: self.clone(),
            who: who.clone(),
            number,
            must_go,
        }
    }
}

impl Taken {
    /// Returns the identity with the most connections. Admins count only if all connections belong to admins.
    fn who_has_most(&self) -> Option<Identity> {
        let all = self.by.iter();
        let rank = |held: &HashMap<u64, Held>| (!held.values().any(|held| held.is_admins), held.len());
        all.max_by_key(|(_, held)| rank(held)).map(|(who, _)| who.clone())
    }

    /// Closes this identity's connection with the longest silence.
    fn one_gives_way(&mut self, who: &Identity) {
        let Some(own) = self.by.get_mut(who) else { return };
        let silent_longest = own.iter().min_by_key(|(_, held)| held.heard).map(|(number, _)| *number);
        if let Some(number) = silent_longest {
            own.remove(&number);
            tracing::debug!(%who, "too many connections: the daemon closes the one with the longest silence");
        }
    }
}

impl ConnectionSlot {
    /// Notes that data arrived on the connection.
    pub(super) fn heard(&self) {
        let mut taken = self.connection_limits.taken();
        let own = taken.by.get_mut(&self.who);
        if let Some(held) = own.and_then(|own| own.get_mut(&self.number)) {
            held.heard = Instant::now();
        }
    }

    /// Becomes ready when the connection must be closed.
    pub(super) fn poll_must_go(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.must_go).poll(context).map(|_| ())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.connection_limits.taken();
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

    fn connection_limits() -> ConnectionLimits {
        ConnectionLimits::new(Limits::default(), Arc::new(Access::new(Table::usual(OWNER))))
    }

    fn user(number: u32) -> Caller {
        Caller::user(number, number)
    }

    fn must_go(slot: &mut ConnectionSlot) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        slot.poll_must_go(&mut context).is_ready()
    }

    fn gone(connection_limits: &mut [ConnectionSlot]) -> usize {
        connection_limits
            .iter_mut()
            .filter_map(|slot| must_go(slot).then_some(()))
            .count()
    }

    #[test]
    fn closes_longest_silent_connection() {
        let (connection_limits, limits) = (connection_limits(), Limits::default());
        let (many, other) = (user(1), user(2));
        let mut others = connection_limits.take(&other);
        let mut own: Vec<ConnectionSlot> = (0..limits.connections_each)
            .map(|_| connection_limits.take(&many))
            .collect();
        own[0].heard();
        let _more = connection_limits.take(&many);
        assert!(!must_go(&mut own[0]) && !must_go(&mut others));
        assert_eq!(gone(&mut own), 1);
        drop(own);
        let mut all: Vec<ConnectionSlot> = (0..limits.connections)
            .map(|number| connection_limits.take(&user(3 + number as u32 / 100)))
            .collect();
        assert!(!must_go(&mut others), "who has one alone stays");
        assert_eq!(gone(&mut all), 2);
        drop(all);
        let mut again: Vec<ConnectionSlot> = (1..limits.connections_each)
            .map(|_| connection_limits.take(&many))
            .collect();
        assert!(again.iter_mut().all(|slot| !must_go(slot)));
    }

    #[test]
    fn admin_connection_survives_a_flood() {
        let limits = Limits {
            connections: 10,
            connections_each: 4,
            ..Limits::default()
        };
        let connection_limits = ConnectionLimits::new(limits, Arc::new(Access::new(Table::usual(OWNER))));
        // Clients fill all slots, with one connection each, before and after the admin connects.
        let mut before: Vec<ConnectionSlot> = (1..=10).map(|number| connection_limits.take(&user(number))).collect();
        let mut admins: Vec<ConnectionSlot> = (0..3).map(|_| connection_limits.take(&user(OWNER))).collect();
        assert_eq!(gone(&mut before), 3);
        let behind: Vec<ConnectionSlot> = (2000..2100)
            .map(|number| connection_limits.take(&user(number)))
            .collect();
        assert_eq!(gone(&mut admins), 0);
        drop(behind);
        // At the limit of an identity, an admin loses a connection like any other identity.
        admins.push(connection_limits.take(&user(OWNER)));
        let _one_more = connection_limits.take(&user(OWNER));
        assert_eq!(gone(&mut admins), 1);
    }
}

//! Clients that have not said yet who they are or what they want: TLS handshakes, and requests over HTTP. Their number
//! is limited. At the limit, the source address with the most clients loses its oldest client. So a flood from one
//! address disturbs only clients of the same address.
//!
//! Each [`Stage`] has a limit of its own, so clients that send nothing, or one byte, disturb no clients that have sent
//! their first message. The clients of [`Known`] addresses have reserved places.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The number of known addresses that are kept.
const KNOWN: usize = 64;
/// The limit of clients of known addresses at each stage.
const RESERVED: usize = 16;

/// The addresses with reserved places. A server adds the address of each client whose access must never be blocked,
/// such as an admin's. Clones share the addresses.
#[derive(Clone, Debug, Default)]
pub struct Known(Arc<Mutex<VecDeque<Source>>>);

impl Known {
    fn sources(&self) -> MutexGuard<'_, VecDeque<Source>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an address. Forgets the address that was not added for the longest time, if there are too many.
    pub fn add(&self, address: IpAddr) {
        let (source, mut sources) = (Source::of(address), self.sources());
        sources.retain(|known| *known != source);
        sources.push_back(source);
        let more = sources.len().saturating_sub(KNOWN);
        sources.drain(..more);
    }
}

/// An IPv4 address, or the network of an IPv6 address. A host can use all addresses of its IPv6 network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Source(IpAddr);

impl Source {
    fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

/// How much of its first message a client has sent. Clones share the stage.
#[derive(Clone, Debug, Default)]
pub struct Stage(Arc<AtomicU8>);

impl Stage {
    const ALL: u8 = 3;

    /// Notes that the client has sent something.
    pub fn begins(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Notes that the client's first message is complete.
    pub fn is_complete(&self) {
        self.0.store(2, Ordering::Relaxed);
    }

    fn is(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The clients whose tasks are running, the oldest first.
#[derive(Debug)]
pub struct Crowd {
    limits: [usize; Stage::ALL as usize],
    known: Known,
    all: VecDeque<Guest>,
}

#[derive(Debug)]
struct Guest {
    source: Source,
    is_known: bool,
    stage: Stage,
    task: AbortHandle,
}

impl Crowd {
    /// Creates an empty crowd with these limits of clients that sent nothing, a part, or all of their first message.
    #[must_use]
    pub fn new(limits: [usize; 3], known: Known) -> Self {
        Self {
            limits,
            known,
            all: VecDeque::new(),
        }
    }

    /// Makes room for another client. Callers use this before they start the client's task.
    pub fn make_room(&mut self) {
        self.all.retain(|guest| !guest.task.is_finished());
        let unknown = (0..Stage::ALL)
            .zip(self.limits)
            .map(|(stage, at_most)| (false, stage, at_most));
        let known = (0..Stage::ALL).map(|stage| (true, stage, RESERVED));
        for (is_known, stage, at_most) in unknown.chain(known) {
            let is_of_kind = |guest: &&Guest| guest.is_known == is_known && guest.stage.is() == stage;
            if self.all.iter().filter(is_of_kind).count() < at_most {
                continue;
            }
            let mut counts: HashMap<Source, usize> = HashMap::new();
            for guest in self.all.iter().filter(is_of_kind) {
                *counts.entry(guest.source).or_default() += 1;
            }
            let most = counts.values().max().copied();
            let gives_way = |guest: &Guest| is_of_kind(&guest) && counts.get(&guest.source).copied() == most;
            if let Some(oldest) = self.all.iter().position(gives_way)
                && let Some(guest) = self.all.remove(oldest)
            {
                guest.task.abort();
            }
        }
    }

    /// Adds a client whose task was started.
    pub fn add(&mut self, address: IpAddr, stage: Stage, task: AbortHandle) {
        let source = Source::of(address);
        let is_known = self.known.sources().contains(&source);
        self.all.push_back(Guest {
            source,
            is_known,
            stage,
            task,
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    struct Door {
        crowd: Crowd,
        tasks: Vec<JoinHandle<()>>,
    }

    impl Door {
        fn comes(&mut self, address: &str, has_spoken: bool) -> usize {
            self.crowd.make_room();
            let (stage, task) = (Stage::default(), tokio::spawn(std::future::pending()));
            if has_spoken {
                stage.is_complete();
            }
            self.crowd.add(address.parse().unwrap(), stage, task.abort_handle());
            self.tasks.push(task);
            self.tasks.len() - 1
        }

        async fn is_gone(&self, which: usize) -> bool {
            tokio::task::yield_now().await;
            self.tasks[which].is_finished()
        }
    }

    #[tokio::test]
    async fn flood_evicts_only_its_own_address() {
        let known = Known::default();
        let mut door = Door {
            crowd: Crowd::new([8, 8, 4], known.clone()),
            tasks: Vec::new(),
        };
        let friends = [door.comes("192.0.2.1", false), door.comes("192.0.2.1", true)];
        let first = door.comes("192.0.2.9", true);
        for _ in 0..50 {
            door.comes("192.0.2.9", true);
            door.comes("192.0.2.9", false);
        }
        assert!(door.is_gone(first).await);
        for friend in friends {
            assert!(!door.is_gone(friend).await, "{friend}");
        }
        let left = door.tasks.iter().filter(|task| !task.is_finished()).count();
        assert!((10..=8 + 4).contains(&left), "{left}");
    }

    #[tokio::test]
    async fn known_address_keeps_its_place_in_any_flood() {
        let known = Known::default();
        known.add("192.0.2.1".parse().unwrap());
        let mut door = Door {
            crowd: Crowd::new([8, 8, 4], known),
            tasks: Vec::new(),
        };
        let stranger = door.comes("192.0.2.2", true);
        let admin = door.comes("::ffff:192.0.2.1", true);
        for number in 0..50 {
            door.comes(&format!("198.51.100.{number}"), true);
        }
        assert!(door.is_gone(stranger).await && !door.is_gone(admin).await);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_source() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn number_of_known_addresses_is_limited() {
        let known = Known::default();
        for number in 0..200_u8 {
            known.add([192, 0, 2, number].into());
        }
        assert_eq!(known.sources().len(), KNOWN);
        assert!(known.sources().contains(&Source::of([192, 0, 2, 199].into())));
    }
}

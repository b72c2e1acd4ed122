//! The queue: which lease gets a free rig, which run gives way, and how long a lease waits. All functions are
//! pure: the result depends only on the time, the waiting leases and the rigs.
//!
//! The order is by class, then by the owner's recent use of rigs, then by arrival. An owner's first waiting lease for a
//! rig rises by one class every [`RISES_EVERY`]. The time counts from the arrival, or from a later last turn of the
//! owner on the rig. So many leases of one owner rise no faster than one lease. Among leases that have risen above all
//! classes, those of owners without a turn in the last [`RECENTLY`] go first; then this time counts. So no lease waits
//! forever, and a new user does not wait for the turns of all others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crate::access::Identity;
use crate::store::LeaseId;

/// The class of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Gets a rig when no other lease wants it.
    Low,
    /// The default.
    Normal,
    /// Goes before the other classes. Runs of the other classes give way to a lease of this class between two tests.
    High,
}

/// The waiting time after which a lease counts as one class higher.
pub const RISES_EVERY: Duration = Duration::from_secs(30 * 60);

/// The time after which a turn on a rig no longer counts against its owner.
pub const RECENTLY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A lease that waits for a rig.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting<'a> {
    /// The lease.
    pub lease: &'a LeaseId,
    /// The owner.
    pub owner: &'a Identity,
    /// The class.
    pub class: Class,
    /// When the lease was requested, on the clock of `now`.
    pub since: Duration,
    /// The last time at which the owner got or left one of the rigs; `None` if this is unknown or not recent.
    pub last_turn: Option<Duration>,
    /// The acceptable rigs.
    pub rigs: &'a [String],
    /// How long the lease will hold its rig; [`Duration::MAX`] if that is unknown.
    pub lasts: Duration,
}

/// A rig and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use<'a> {
    /// The rig's name.
    pub rig: &'a str,
    /// The use.
    pub by: By<'a>,
}

/// The use of a rig.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By<'a> {
    /// The rig is free.
    Nobody,
    /// A lease holds the rig.
    Lease {
        /// The lease.
        lease: &'a LeaseId,
        /// The owner.
        owner: &'a Identity,
        /// The class.
        class: Class,
        /// When the lease expires.
        until: Duration,
        /// Whether the run of the lease can give way between two tests.
        gives_way: bool,
    },
    /// The rig cannot be granted, and its next availability is unknown: it is restored, drained, unreachable or
    /// quarantined.
    Closed,
}

/// A decision of the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// A lease gets a rig.
    Grant {
        /// The lease.
        lease: LeaseId,
        /// The rig.
        rig: String,
    },
    /// The lease that holds a rig gives it up between two tests, for a lease of a higher class.
    GiveWay {
        /// The holder.
        lease: LeaseId,
        /// The rig.
        rig: String,
        /// The lease of a higher class.
        to: LeaseId,
    },
}

/// The use of rigs by each owner: how many rigs the owner holds, and how long the owner recently held rigs.
pub type Shares = BTreeMap<Identity, (usize, Duration)>;

/// The rank of a waiting lease. A smaller rank goes first.
type Rank<'a> = (Reverse<usize>, (usize, Duration), Duration, &'a LeaseId);

/// Returns the class of a lease that waited this long, at most [`Class::High`]. A lease keeps its risen class when
/// it gets a rig. Otherwise a lease of a higher class could take the rig from the lease that waited the longest.
#[must_use]
pub fn risen(class: Class, waited: Duration) -> Class {
    match class as usize + steps(waited) {
        0 => Class::Low,
        1 => Class::Normal,
        _ => Class::High,
    }
}

/// Returns by how many classes a lease has risen.
fn steps(waited: Duration) -> usize {
    usize::try_from(waited.as_secs() / RISES_EVERY.as_secs()).unwrap_or(usize::MAX / 2)
}

fn rank<'a>(now: Duration, waiting: &Waiting<'a>, is_first: bool, shares: &Shares) -> Rank<'a> {
    let above_all = Class::High as usize + 1;
    let ages_from = waiting.since.max(waiting.last_turn.unwrap_or_default());
    let risen = match is_first {
        true => steps(now.saturating_sub(ages_from)),
        false => 0,
    };
    let class = (waiting.class as usize).saturating_add(risen).min(above_all);
    let (share, from) = match class {
        class if class == above_all => {
            let is_recent = |last: Duration| now.saturating_sub(last) < RECENTLY;
            let had_turn = waiting.last_turn.is_some_and(is_recent);
            ((usize::from(had_turn), Duration::ZERO), ages_from)
        }
        _ => (shares.get(waiting.owner).copied().unwrap_or_default(), waiting.since),
    };
    (Reverse(class), share, from, waiting.lease)
}

/// Returns for each waiting lease whether it is first: no earlier lease of its owner waits for one of its rigs.
fn firsts(waiting: &[Waiting<'_>]) -> Vec<bool> {
    let mut by_arrival: Vec<usize> = (0..waiting.len()).collect();
    by_arrival.sort_by_key(|at| (waiting[*at].since, waiting[*at].lease));
    let (mut taken, mut firsts) = (HashSet::new(), vec![false; waiting.len()]);
    for at in by_arrival {
        let of = &waiting[at];
        firsts[at] = true;
        for rig in of.rigs {
            firsts[at] &= taken.insert((of.owner, rig.as_str()));
        }
    }
    firsts
}

/// Returns the waiting leases in the order in which they would get a rig that all of them accept.
#[must_use]
pub fn in_order<'w, 'a>(now: Duration, waiting: &'w [Waiting<'a>], shares: &Shares) -> Vec<&'w Waiting<'a>> {
    let firsts = firsts(waiting);
    let mut order: Vec<_> = waiting.iter().zip(firsts).collect();
    order.sort_by_cached_key(|(waiting, is_first)| rank(now, waiting, *is_first, shares));
    order.into_iter().map(|(waiting, _)| waiting).collect()
}

/// Returns which leases get a rig now, and which must give way. `shares` affects only the order of leases of one
/// class.
#[must_use]
pub fn decide(now: Duration, waiting: &[Waiting<'_>], rigs: &[Use<'_>], shares: &Shares) -> Vec<Decision> {
    let mut shares = shares.clone();
    let firsts = firsts(waiting);
    let rank = |at: usize, shares: &Shares| rank(now, &waiting[at], firsts[at], shares);
    let mut given = vec![false; waiting.len()];
    let mut decisions = Vec::new();
    let mut for_free: HashMap<&str, Vec<usize>> = HashMap::new();
    for free in rigs.iter().filter(|rig| rig.by == By::Nobody) {
        for_free.insert(free.rig, Vec::new());
    }
    // Only the free rigs need candidates, and usually most rigs are held.
    if !for_free.is_empty() {
        for (at, waiting) in waiting.iter().enumerate() {
            for rig in waiting.rigs {
                if let Some(wanted_by) = for_free.get_mut(rig.as_str()) {
                    wanted_by.push(at);
                }
            }
        }
    }
    for free in rigs.iter().filter(|rig| rig.by == By::Nobody) {
        let fits = for_free.get(free.rig).into_iter().flatten().copied();
        let first = fits.filter(|at| !given[*at]).min_by_key(|at| rank(*at, &shares));
        if let Some(first) = first {
            given[first] = true;
            let first = &waiting[first];
            shares.entry(first.owner.clone()).or_default().0 += 1;
            decisions.push(Decision::Grant {
                lease: first.lease.clone(),
                rig: free.rig.into(),
            });
        }
    }
    // The leases that can give way and do not give way yet, by rig.
    let mut give_way: HashMap<&str, (Class, &LeaseId)> = HashMap::new();
    for rig in rigs {
        if let By::Lease {
            lease,
            class,
            gives_way: true,
            ..
        } = rig.by
        {
            give_way.insert(rig.rig, (class, lease));
        }
    }
    if give_way.is_empty() {
        return decisions;
    }
    let could = |at: &usize| {
        let holds_less = |rig: &String| {
            give_way
                .get(rig.as_str())
                .is_some_and(|held| held.0 < waiting[*at].class)
        };
        !given[*at] && waiting[*at].rigs.iter().any(holds_less)
    };
    let mut left: Vec<usize> = (0..waiting.len()).filter(could).collect();
    left.sort_by_cached_key(|at| rank(*at, &shares));
    for waiting in left.into_iter().map(|at| &waiting[at]) {
        let lower = waiting
            .rigs
            .iter()
            .filter_map(|rig| give_way.get_key_value(rig.as_str()));
        let lower = lower.filter(|(_, (class, _))| *class < waiting.class);
        let lower = lower.min_by_key(|(_, (class, lease))| (*class, Reverse(*lease)));
        if let Some((rig, (_, lease))) = lower.map(|(rig, held)| (*rig, *held)) {
            give_way.remove(rig);
            decisions.push(Decision::GiveWay {
                lease: lease.clone(),
                rig: rig.into(),
                to: waiting.lease.clone(),
            });
        }
    }
    decisions
}

/// Why a lease waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The place among the leases that wait for one of the same rigs, starting at 1.
    pub place: usize,
    /// The leases that hold acceptable rigs.
    pub holders: Vec<LeaseId>,
    /// The latest time of the grant; `None` when no acceptable rig can be granted at all. The time assumes that no
    /// lease is renewed, no further lease goes first and no rig is drained.
    pub latest: Option<Duration>,
}

/// Returns why a waiting lease waits.
#[must_use]
pub fn why(now: Duration, lease: &LeaseId, waiting: &[Waiting<'_>], rigs: &[Use<'_>], shares: &Shares) -> Option<Wait> {
    let of = waiting.iter().find(|waiting| waiting.lease == lease)?;
    let concerns = |rig: &str| of.rigs.iter().any(|wanted| wanted == rig);
    let mut free_by: BTreeMap<&str, Duration> = BTreeMap::new();
    let mut holders = Vec::new();
    for rig in rigs.iter().filter(|rig| concerns(rig.rig)) {
        match rig.by {
            By::Nobody => drop(free_by.insert(rig.rig, now)),
            By::Lease { lease, until, .. } => {
                free_by.insert(rig.rig, until.max(now));
                holders.push(lease.clone());
            }
            By::Closed => {}
        }
    }
    let mut place = 1;
    for before in in_order(now, waiting, shares) {
        if before.lease == lease {
            let latest = free_by.into_values().min().filter(|latest| *latest < Duration::MAX);
            return Some(Wait { place, holders, latest });
        }
        // The earlier lease may get any of its rigs, so add its duration to each of them.
        for rig in before.rigs {
            if let Some(free_by) = free_by.get_mut(rig.as_str()) {
                *free_by = free_by.saturating_add(before.lasts);
            }
        }
        place += usize::from(before.rigs.iter().any(|rig| concerns(rig)));
    }
    None
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

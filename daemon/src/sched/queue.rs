//! The queue: who gets a rig that is free, who has to give one up, who waits how long. Pure functions of the time, those
//! who wait and the rigs.
//!
//! First by class, then by what the owner has already, then by arrival. Who waits rises by a class every [`RISES_EVERY`],
//! and once above all classes goes by arrival alone: nobody waits for ever, whatever else comes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::access::Identity;
use crate::store::LeaseId;

/// The class of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// When nobody else wants the rig.
    Low,
    /// As usual.
    Normal,
    /// Before others, whose runs stop for it between two tests.
    High,
}

/// Who waits longer counts as of a class higher, and so on.
pub const RISES_EVERY: Duration = Duration::from_secs(30 * 60);

/// Somebody who waits for a rig.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting<'a> {
    /// The lease.
    pub lease: &'a LeaseId,
    /// Whose it is.
    pub owner: &'a Identity,
    /// Its class.
    pub class: Class,
    /// When it came, on the clock that `now` is of.
    pub since: Duration,
    /// Any of these will do.
    pub rigs: &'a [String],
    /// How long it will hold one.
    pub lasts: Duration,
}

/// A rig.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use<'a> {
    /// Its name.
    pub rig: &'a str,
    /// What it is used for.
    pub by: By<'a>,
}

/// What a rig is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By<'a> {
    /// Nothing: it can be given to somebody.
    Nobody,
    /// A lease.
    Lease {
        /// Which.
        lease: &'a LeaseId,
        /// Whose.
        owner: &'a Identity,
        /// Its class.
        class: Class,
        /// When it expires.
        until: Duration,
        /// Whether it can be made to give the rig up between two tests.
        gives_way: bool,
    },
    /// Nobody can have it now, nor is it known when: it is restored, drained or quarantined.
    Closed,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// A lease gets a rig.
    Grant {
        /// Which lease.
        lease: LeaseId,
        /// Which rig.
        rig: String,
    },
    /// The lease that holds a rig gives it up between two tests, for one of a higher class.
    GiveWay {
        /// The holder.
        lease: LeaseId,
        /// The rig.
        rig: String,
        /// The one of a higher class.
        to: LeaseId,
    },
}

/// What each owner has had of the rigs: how many it holds, and for how long it held some.
pub type Shares = BTreeMap<Identity, (usize, Duration)>;

/// Where somebody stands in the order: less is earlier.
type Rank<'a> = (Reverse<usize>, (usize, Duration), Duration, &'a LeaseId);

/// The class that somebody counts as who waited for so long; [`Class::High`] at most. Who has got a rig keeps it: otherwise
/// one of a higher class would take it away from who waited for it the longest.
#[must_use]
pub fn risen(class: Class, waited: Duration) -> Class {
    match class as usize + steps(waited) {
        0 => Class::Low,
        1 => Class::Normal,
        _ => Class::High,
    }
}

/// How often somebody rose.
fn steps(waited: Duration) -> usize {
    usize::try_from(waited.as_secs() / RISES_EVERY.as_secs()).unwrap_or(usize::MAX / 2)
}

fn rank<'a>(now: Duration, waiting: &Waiting<'a>, shares: &Shares) -> Rank<'a> {
    let above_all = Class::High as usize + 1;
    let class = (waiting.class as usize).saturating_add(steps(now.saturating_sub(waiting.since)));
    let share = match class {
        class if class >= above_all => (0, Duration::ZERO),
        _ => shares.get(waiting.owner).copied().unwrap_or_default(),
    };
    (Reverse(class.min(above_all)), share, waiting.since, waiting.lease)
}

/// Those who wait, in the order in which they would get a rig that does for all.
#[must_use]
pub fn in_order<'w, 'a>(now: Duration, waiting: &'w [Waiting<'a>], shares: &Shares) -> Vec<&'w Waiting<'a>> {
    let mut order: Vec<_> = waiting.iter().collect();
    order.sort_by_cached_key(|waiting| rank(now, waiting, shares));
    order
}

/// What is to be done now. Of `shares` only the order depends.
#[must_use]
pub fn decide(now: Duration, waiting: &[Waiting<'_>], rigs: &[Use<'_>], shares: &Shares) -> Vec<Decision> {
    let mut shares = shares.clone();
    let mut given = vec![false; waiting.len()];
    let mut decisions = Vec::new();
    let mut for_free: HashMap<&str, Vec<usize>> = HashMap::new();
    for free in rigs.iter().filter(|rig| rig.by == By::Nobody) {
        for_free.insert(free.rig, Vec::new());
    }
    // Whoever waits is looked at where it may get something, and nowhere else: of many rigs most are held.
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
        let first = fits
            .filter(|at| !given[*at])
            .min_by_key(|at| rank(now, &waiting[*at], &shares));
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
    // Those that could be made to give a rig up; what one of a higher class waits for already makes way for nobody else.
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
    left.sort_by_cached_key(|at| rank(now, &waiting[*at], &shares));
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

/// Why somebody waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The place among those who wait for one of the same rigs, from 1 on.
    pub place: usize,
    /// The leases that hold what would do.
    pub holders: Vec<LeaseId>,
    /// When it begins at the latest, unless a lease is renewed, somebody comes who goes first, or a rig is taken out of
    /// use; none when no rig that would do can be given at all.
    pub latest: Option<Duration>,
}

/// Why one of those who wait does.
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
            let latest = free_by.into_values().min();
            return Some(Wait { place, holders, latest });
        }
        // Which of its rigs it will get is not known: each may be held up by it.
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

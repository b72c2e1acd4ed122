//! Limits how long a run or lease waits for its rig: by the requested time, and by the absence of its client.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use verbatim_proto::v1::{Cause, LeaseState, RigState, RunState};

use super::drive::blocking;
use super::plan::{Action, Cancelled, NeverBegan};
use super::{Scheduler, leases};
use crate::store::{LeaseId, Patience, RemoteRequest, StoredRun};

/// How long a run with a client waits for an unreachable device. After this time, a person has to look at the
/// device.
const AWAY_AT_MOST: Duration = Duration::from_secs(600);
/// The pause between a change and its evaluation, because changes often come in bursts.
const PAUSE: Duration = Duration::from_millis(100);

/// How many watches of each run or lease its owner has open. The key is the resource name of the run or lease.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<HashMap<String, watch::Sender<usize>>>);

/// An owner's watch of a run or a lease. Dropping the value ends the watch.
#[derive(Debug)]
pub struct Watching {
    scheduler: Arc<Scheduler>,
    name: String,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.scheduler.watchers.change(&self.name, |count| *count -= 1);
    }
}

impl Watchers {
    fn all(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<usize>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut usize)) {
        let mut all = self.all();
        let count = all.entry(name.into()).or_default();
        count.send_modify(change);
        if *count.borrow() == 0 && count.receiver_count() == 0 {
            all.remove(name);
        }
    }

    fn count(&self, name: &str) -> watch::Receiver<usize> {
        self.all().entry(name.into()).or_default().subscribe()
    }
}

/// A waiting run or lease.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Run(Box<StoredRun>),
    /// A reserved lease.
    Lease(LeaseId),
}

impl Who {
    fn name(&self) -> String {
        match self {
            Self::Run(run) => format!("runs/{}", run.id),
            Self::Lease(lease) => format!("leases/{lease}"),
        }
    }
}

/// The situation of a waiting run or lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stands {
    /// Whether the devices of all acceptable rigs are unreachable.
    away: bool,
    /// Whether the run or lease waits only for the check of a device.
    about_to_begin: bool,
}

/// Why a run or lease leaves the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum GivesUp {
    /// The requested time is over.
    Waited,
    /// The client has been disconnected for too long.
    ClientGone,
    /// The device has been unreachable for too long.
    DeviceAway,
}

/// The waiting times of a run or lease, on the plan's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Waits {
    /// The end of the requested time.
    until: Option<Duration>,
    /// The time since which the client has been disconnected.
    alone: Option<Duration>,
    /// The time since which the device has been unreachable.
    away: Option<Duration>,
    /// Whether the run or lease waits only for the check of a device.
    about_to_begin: bool,
}

impl Waits {
    /// Returns when to evaluate again if nothing changes, or why the run or lease leaves the queue now.
    fn next(&self, now: Duration, gone_after: Duration) -> Result<Option<Duration>, GivesUp> {
        let until = self.until.filter(|_| !self.about_to_begin);
        let alone = self.alone.map(|since| since.saturating_add(gone_after));
        // A requested time replaces the limit for an unreachable device.
        let away = self.away.filter(|_| self.until.is_none());
        let away = away.map(|since| since.saturating_add(AWAY_AT_MOST));
        let ends = [
            (until, GivesUp::Waited),
            (alone, GivesUp::ClientGone),
            (away, GivesUp::DeviceAway),
        ];
        let first = ends.into_iter().filter_map(|(at, why)| Some((at?, why))).min();
        match first {
            Some((at, why)) if at <= now => Err(why),
            first => Ok(first.map(|(at, _)| at)),
        }
    }
}

impl Scheduler {
    /// Registers an owner's watch of the run or lease with this resource name. The owner's client counts as connected
    /// during the watch.
    #[must_use]
    pub fn watching(self: &Arc<Self>, name: String) -> Watching {
        self.watchers.change(&name, |count| *count += 1);
        Watching {
            scheduler: Arc::clone(self),
            name,
        }
    }

    /// Sets how long the client of a waiting run or lease may be disconnected.
    pub fn clients_may_be_gone_for(&self, at_most: Duration) {
        let ms = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        self.gone_after_ms.store(ms, Ordering::Relaxed);
    }

    /// Sets the maximum total duration of one identity's waiting reserved leases for one rig.
    pub fn leases_may_wait_for(&self, at_most: Duration) {
        self.longest_queue_s.store(at_most.as_secs(), Ordering::Relaxed);
    }

    /// Enforces the limits on the wait of a run that was just created, or was found at the daemon's start.
    pub(super) fn bound(self: &Arc<Self>, run: &StoredRun) {
        let mut patience = run.patience;
        if self.is_elsewhere(&run.host) {
            // The other host enforces the requested time. Only this host knows whether the client is connected.
            patience.at_most_s = None;
        }
        let until = patience.at_most_s.map(|s| {
            let created = leases::boot(run.created_ns, self.store.now_ns());
            created.saturating_add(Duration::from_secs(s))
        });
        self.see_to(Who::Run(Box::new(run.clone())), until, patience);
    }

    /// Enforces the limits on the wait of a reserved lease with a client.
    pub(super) fn bound_lease(self: &Arc<Self>, lease: &LeaseId) {
        let patience = Patience {
            at_most_s: None,
            attended: true,
        };
        self.see_to(Who::Lease(lease.clone()), None, patience);
    }

    fn see_to(self: &Arc<Self>, who: Who, until: Option<Duration>, patience: Patience) {
        if patience != Patience::default() {
            self.runtime
                .spawn(Arc::clone(self).leaves_in_time(who, until, patience.attended));
        }
    }

    /// Runs until the run or lease no longer waits. At a limit, removes the run or lease from the queue.
    async fn leaves_in_time(self: Arc<Self>, who: Who, until: Option<Duration>, attended: bool) {
        let (mut changed, mut watched) = (self.changes(), self.watchers.count(&who.name()));
        let mut waits = Waits {
            until,
            ..Waits::default()
        };
        loop {
            changed.mark_unchanged();
            let watchers = *watched.borrow_and_update();
            let (scheduler, of) = (Arc::clone(&self), who.clone());
            let Some(Some(stands)) = blocking(move || scheduler.stands_in_queue(&of)).await else {
                break;
            };
            let now = leases::now();
            let since = |before: Option<Duration>, holds: bool| holds.then(|| before.unwrap_or(now));
            waits.alone = since(waits.alone, attended && watchers == 0);
            waits.away = since(waits.away, attended && stands.away);
            waits.about_to_begin = stands.about_to_begin;
            let gone_after = Duration::from_millis(self.gone_after_ms.load(Ordering::Relaxed));
            let next = match waits.next(now, gone_after) {
                Ok(next) => next,
                Err(why) => {
                    let (scheduler, of) = (Arc::clone(&self), who.clone());
                    blocking(move || scheduler.leave(&of, why, &stands)).await;
                    break;
                }
            };
            let sleep = next.map_or(leases::LONGEST_SLEEP, |at| at.saturating_sub(now));
            tokio::select! {
                () = tokio::time::sleep(sleep.min(leases::LONGEST_SLEEP)) => {}
                _ = changed.changed() => tokio::time::sleep(PAUSE).await,
                _ = watched.changed() => {}
            }
        }
        drop(watched);
        self.watchers.change(&who.name(), |_| {});
    }

    /// Returns the situation of a waiting lease, or of a run that waits for its first test. Returns `None` if the
    /// run or lease no longer waits. Blocks on the store.
    fn stands_in_queue(&self, who: &Who) -> Option<Stands> {
        let lease = match who {
            Who::Run(run) if self.is_elsewhere(&run.host) => {
                let kept = self.store.get(&run.id).ok()?;
                return (kept.run.state == RunState::Queued).then(Stands::default);
            }
            Who::Run(run) => {
                let run = self.live(&run.id)?.run();
                if run.state != RunState::Queued || run.started_ns.is_some() {
                    return None;
                }
                run.lease
            }
            Who::Lease(lease) => lease.clone(),
        };
        let view = self.lease(&lease).ok()?;
        if matches!(who, Who::Lease(_)) && view.lease.state != LeaseState::Pending {
            return None;
        }
        let state = self.state();
        let away = |rig: &String| {
            let slot = state.plan.slot(rig);
            slot.is_some_and(|slot| slot.state().0 == RigState::Unreachable && slot.reach.away().is_some())
        };
        Some(Stands {
            away: view.lease.state == LeaseState::Pending && view.lease.rigs.iter().all(away),
            about_to_begin: view.about_to_begin,
        })
    }

    /// Removes a run or lease from the queue. Blocks on the disk.
    fn leave(self: &Arc<Self>, who: &Who, why: GivesUp, stands: &Stands) {
        let gone = "its client, which is gone";
        let run = match who {
            Who::Lease(lease) => return self.leave_lease(lease, gone),
            Who::Run(run) => run,
        };
        if self.is_elsewhere(&run.host) {
            if let Err(error) = self.remote_request(&run.host, &RemoteRequest::Cancel(run.id.clone(), gone.into())) {
                tracing::error!(run = %run.id, %error, "the client is gone, but the run's host cannot cancel the run");
            }
            return;
        }
        let because = self.lease(&run.lease).map(|view| view.because()).unwrap_or_default();
        let because = because
            .first()
            .map_or_else(|| "others are ahead of it in the queue".into(), Clone::clone);
        let gone_after_s = self.gone_after_ms.load(Ordering::Relaxed) / 1000;
        let why = match why {
            GivesUp::Waited => match run.patience.at_most_s.unwrap_or_default() {
                0 => format!("the run had to begin at once, and could not: {because}"),
                s => format!("the run waited {s} s for its rig, its limit: {because}"),
            },
            GivesUp::ClientGone => format!("the client of the run was gone for {gone_after_s} s"),
            GivesUp::DeviceAway => format!("the run waited {} s for its device: {because}", AWAY_AT_MOST.as_secs()),
        };
        let cause = if stands.away { Cause::Rig } else { Cause::Operator };
        tracing::info!(run = %run.id, "left the queue: {why}");
        let _ = self.decide(|state, now| {
            let waits = state
                .plan
                .lease_of(&run.id)
                .is_some_and(|lease| lease.runs.contains(&run.id));
            let cancelled = waits.then(|| state.plan.cancel(now, &run.id));
            let Some(Cancelled::Waiting(mut actions)) = cancelled else {
                return Err(());
            };
            for action in &mut actions {
                if let Action::End(_, never) = action {
                    *never = NeverBegan::GaveUp(cause, why.clone());
                }
            }
            Ok(actions)
        });
    }

    fn leave_lease(self: &Arc<Self>, lease: &LeaseId, gone: &str) {
        let is_ours = self.state().plan.lease(lease).is_some();
        if !is_ours {
            self.end_posted(lease, gone);
            return;
        }
        let _ = self.decide(|state, now| {
            let waits = state.plan.lease(lease).is_some_and(|lease| lease.held.is_none());
            let end = || state.plan.end_lease(now, lease, "left the queue: its client is gone");
            waits.then(end).ok_or(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn next(waits: Waits, now_s: u64) -> Result<Option<Duration>, GivesUp> {
        waits.next(S(now_s), S(60))
    }

    #[test]
    fn leaves_after_requested_time() {
        let waits = Waits {
            until: Some(S(10)),
            ..Waits::default()
        };
        assert_eq!(next(waits, 9), Ok(Some(S(10))));
        assert_eq!(next(waits, 10), Err(GivesUp::Waited));
        let about_to_begin = Waits {
            about_to_begin: true,
            ..waits
        };
        assert_eq!(next(about_to_begin, 10), Ok(None));
    }

    #[test]
    fn leaves_after_client_disconnects() {
        let waits = Waits {
            alone: Some(S(5)),
            until: Some(S(500)),
            ..Waits::default()
        };
        assert_eq!(next(waits, 64), Ok(Some(S(65))));
        assert_eq!(next(waits, 65), Err(GivesUp::ClientGone));
    }

    #[test]
    fn waits_ten_minutes_for_lost_device() {
        let waits = Waits {
            away: Some(S(0)),
            ..Waits::default()
        };
        assert_eq!(next(waits, 599), Ok(Some(S(600))));
        assert_eq!(next(waits, 600), Err(GivesUp::DeviceAway));
        let asked = Waits {
            until: Some(S(3600)),
            ..waits
        };
        assert_eq!(next(asked, 600), Ok(Some(S(3600))));
        assert_eq!(next(Waits::default(), 1 << 40), Ok(None));
    }
}

//! Leases: requests, renewals and ends, and the storage of their states.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use verbatim_proto::v1::{LeaseState, Priority};
use verbatim_proto::worker;
use verbatim_run::{RunId, boot_ns, now_ns};

use super::plan::{self, Action, Refusal};
use super::queue::{Class, Wait};
use super::{CreateError, Scheduler};
use crate::access::{End, Identity, May, Operate};
use crate::store::{AskedLease, BootTimes, LeaseId, RemoteRequest, StoreError, StoredLease};

/// The duration of a lease when the client names none.
pub const USUAL_LEASE: Duration = Duration::from_secs(60 * 60);
/// The longest duration of a lease from its grant on, and so of a run.
pub const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum total duration of one identity's waiting reserved leases for one rig, unless the configuration has
/// another limit.
pub const LONGEST_QUEUE: Duration = Duration::from_secs(72 * 60 * 60);
/// The number of the newest leases of a shared store that count for [`LONGEST_QUEUE`].
const NEWEST: usize = 2000;
/// The longest sleep of a timer. Leases expire on a clock that also counts the time while the host is suspended.
/// Timers do not count that time, so they must wake up often.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// A request for a lease, whose values are already checked.
#[derive(Clone, Debug)]
pub struct NewLease {
    /// The permissions of the future owner to run tests, one for each acceptable rig.
    pub may: Vec<May<Operate>>,
    /// The client's id of the request; empty when the client gave none.
    pub request_id: String,
    /// The client's choice of rigs.
    pub asked: AskedLease,
    /// The duration of the lease.
    pub lasts: Duration,
    /// The priority class of the lease.
    pub priority: Priority,
    /// The acceptable rigs of other hosts, each with its host.
    pub elsewhere: Vec<(String, String)>,
    /// Whether a client waits for the lease. If true, the lease leaves the queue after the client has
    /// disconnected.
    pub attended: bool,
}

/// The current state of a lease, and the reasons why it waits.
#[derive(Clone, PartialEq, Debug)]
pub struct LeaseView {
    /// The lease.
    pub lease: StoredLease,
    /// For a waiting lease: its place in the queue, and the latest time of its grant in nanoseconds since 1970, if
    /// known.
    pub waits: Option<(usize, Option<u64>)>,
    /// The leases that hold acceptable rigs.
    pub holders: Vec<StoredLease>,
    /// The acceptable rigs that cannot be granted at the moment, each with the reason.
    pub closed: Vec<(String, String)>,
    /// Whether the lease is the first in the queue, and waits only for the check of a device.
    pub about_to_begin: bool,
}

impl LeaseView {
    /// Returns a sentence for each holder of an acceptable rig, and for each acceptable rig that cannot be granted.
    #[must_use]
    pub fn because(&self) -> Vec<String> {
        let because = |holder: &StoredLease| {
            let until = holder.until_ns.map(|ns| super::timestamp(ns - ns % 1_000_000_000));
            // The expiry of a run's lease is only a limit, and no estimate.
            let (until, whose) = match (&holder.run, until) {
                (Some(run), _) => (String::new(), format!("runs/{run}")),
                (None, Some(until)) => (
                    format!(" until {until} unless renewed"),
                    format!("leases/{}", holder.id),
                ),
                (None, None) => (String::new(), format!("leases/{}", holder.id)),
            };
            format!(
                "rig {} is held by {}{until} ({whose})",
                holder.rig,
                holder.owner.in_words()
            )
        };
        self.holders
            .iter()
            .map(because)
            .chain(self.closed.iter().map(|(_, why)| why.clone()))
            .collect()
    }
}

/// Returns the current time of the plan's clock, which counts from the boot of this host.
pub(super) fn now() -> Duration {
    Duration::from_nanos(boot_ns())
}

/// Converts a time of the plan's clock to nanoseconds since 1970. `now_ns` is the current time.
pub(super) fn wall(at: Duration, now_ns: u64) -> u64 {
    let now = now();
    now_ns
        .saturating_add(nanos(at.saturating_sub(now)))
        .saturating_sub(nanos(now.saturating_sub(at)))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The environment variable with the id of the boot. The daemon's unit sets it, because `ProcSubset=pid` hides the
/// kernel's file.
const BOOT_ID: &str = "VERBATIM_BOOT_ID";

/// Returns the id of this host's boot; `None` if it is unknown.
fn boot_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        told.or_else(|| std::env::var(BOOT_ID).ok()).and_then(|id| plain(&id))
    };
    ID.get_or_init(read).as_deref()
}

/// Returns an id without hyphens, as the service manager writes it; `None` for an empty id.
fn plain(id: &str) -> Option<String> {
    Some(id.trim().replace('-', "")).filter(|id| !id.is_empty())
}

/// Returns whether a stored boot id is the id of this boot. An earlier version stored an empty id if it knew none.
fn is_this_boot(stored: &str, this: Option<&str>) -> bool {
    plain(stored).is_some_and(|stored| Some(stored.as_str()) == this)
}

/// Converts nanoseconds since 1970 to a time of the plan's clock. `now_ns` is the current time.
pub(super) fn boot(at_ns: u64, now_ns: u64) -> Duration {
    let ahead = Duration::from_nanos(at_ns.saturating_sub(now_ns));
    (now() + ahead).saturating_sub(Duration::from_nanos(now_ns.saturating_sub(at_ns)))
}

fn class(of: Priority) -> Class {
    match of {
        Priority::Low => Class::Low,
        Priority::Unspecified | Priority::Normal => Class::Normal,
        Priority::High => Class::High,
    }
}

/// Converts a lease of an earlier daemon or another host to the plan's form. `now_ns` is the current time on the
/// store's clock.
pub(super) fn planned(of: &StoredLease, now_ns: u64) -> plan::Lease {
    plan::Lease {
        id: of.id.clone(),
        owner: of.owner.clone(),
        class: class(of.priority),
        rigs: of.rigs.clone(),
        lasts: Duration::from_secs(of.lasts_s),
        run: of.run.clone(),
        // The clock may have changed since the lease was stored, so bound the times. No lease was requested later
        // than now, and no lease holds its rig for longer than [`LONGEST_LEASE`].
        since: boot(of.created_ns, now_ns).min(now()),
        held: of.granted_ns.zip(of.until_ns).map(|(granted_ns, until_ns)| {
            let (since, until) = match of.boot.as_ref().filter(|boot| is_this_boot(&boot.of, boot_id())) {
                Some(boot) => (
                    Duration::from_nanos(boot.granted_ns),
                    Duration::from_nanos(boot.until_ns),
                ),
                None => (boot(granted_ns, now_ns), boot(until_ns, now_ns)),
            };
            plan::Held {
                rig: of.rig.clone(),
                token: of.token,
                since: since.min(now()),
                until: until.min(now() + LONGEST_LEASE),
            }
        }),
        ends: None,
        gives_way: None,
        began: false,
        runs: of.run.iter().cloned().collect(),
    }
}

/// Returns a new lease in its stored form.
pub(crate) fn fresh(
    id: LeaseId,
    owner: &Identity,
    rigs: Vec<String>,
    run: Option<RunId>,
    priority: Priority,
) -> StoredLease {
    StoredLease {
        id,
        owner: owner.clone(),
        request_id: String::new(),
        state: LeaseState::Pending,
        priority,
        rigs,
        rig: String::new(),
        token: 0,
        run,
        lasts_s: LONGEST_LEASE.as_secs(),
        created_ns: now_ns(),
        granted_ns: None,
        until_ns: None,
        ended_ns: None,
        reason: String::new(),
        host: String::new(),
        posted: false,
        attended: false,
        boot: None,
        asked: AskedLease::default(),
    }
}

impl Scheduler {
    /// Requests a lease, or finds the lease that the same request created before. Blocks on the disk.
    ///
    /// # Errors
    /// When no rig accepts the lease, or the lease cannot be stored.
    pub fn reserve(self: &Arc<Self>, new: NewLease) -> Result<StoredLease, CreateError> {
        let mut last = self.creating();
        let Some(who) = new.may.first().map(|may| may.who().clone()) else {
            return Err(Refusal::UnknownRig(String::new()).into());
        };
        if !new.request_id.is_empty()
            && let Some(lease) = self.store.lease_of_request(&who, &new.request_id)?
        {
            return Ok(self.lease(&lease.id)?.lease);
        }
        let rigs: Vec<String> = new.may.iter().map(|may| may.rig().to_string()).collect();
        self.state().plan.has_room(&who)?;
        self.has_hours(&who, &rigs, new.lasts)?;
        let id = LeaseId::like(&super::next_id(&mut last, self.store.now_ns(), &self.store.serials()));
        let lease = StoredLease {
            request_id: new.request_id,
            lasts_s: new.lasts.as_secs(),
            created_ns: self.store.now_ns(),
            posted: !new.elsewhere.is_empty(),
            attended: new.attended,
            asked: new.asked,
            ..fresh(id.clone(), &who, rigs, None, new.priority)
        };
        if lease.posted {
            self.post(None, lease, &new.elsewhere)?;
        } else {
            self.ask(lease)?;
        }
        if new.attended {
            self.bound_lease(&id);
        }
        let lease = self.lease(&id)?.lease;
        tracing::info!(lease = %id, rig = lease.rig, %who, state = lease.state.as_str_name(), "lease created");
        Ok(lease)
    }

    /// Checks that an identity's waiting leases for each of these rigs do not last too long in total.
    fn has_hours(&self, who: &Identity, rigs: &[String], lasts: Duration) -> Result<(), CreateError> {
        let most = Duration::from_secs(self.longest_queue_s.load(Ordering::Relaxed));
        // Only a shared store knows the leases that wait for rigs of other hosts.
        let stored = match self.store.lab() {
            Some(_) => self.store.leases(false, NEWEST)?,
            None => Vec::new(),
        };
        let is_counted = |of: &&StoredLease| of.owner == *who && of.run.is_none() && of.state == LeaseState::Pending;
        let of_store = stored.iter().filter(is_counted);
        let of_store = of_store.map(|of| (of.rigs.as_slice(), Duration::from_secs(of.lasts_s)));
        let state = self.state();
        let of_plan = state.plan.reserved(who).filter(|_| stored.is_empty());
        let all: Vec<_> = of_store.chain(of_plan).collect();
        Ok(plan::has_hours(who, all.into_iter(), (rigs, lasts), most)?)
    }

    /// Adds a lease to the plan and stores it. If the store fails, removes the lease from the plan.
    pub(super) fn ask(self: &Arc<Self>, lease: StoredLease) -> Result<(), CreateError> {
        let (id, now_ns) = (lease.id.clone(), self.store.now_ns());
        self.decide(|state, now| {
            let planned = plan::Lease {
                since: now,
                ..planned(&lease, now_ns)
            };
            let asked = state.plan.ask(now, planned);
            let mut actions = asked?;
            let keep = Action::Keep(lease.id.clone());
            if !actions.contains(&keep) {
                actions.insert(0, keep);
            }
            state.leases.insert(lease.id.clone(), lease);
            Ok::<_, Refusal>(actions)
        })?;
        let Some(error) = self.state().unkept.take().filter(|(unkept, _)| *unkept == id) else {
            return Ok(());
        };
        self.forget(&id);
        Err(error.1.into())
    }

    /// Renews a lease, so that it expires `lasts` from now. Blocks on the disk.
    ///
    /// # Errors
    /// When the lease has ended or has no rig, would last too long, or cannot be stored.
    pub fn renew(self: &Arc<Self>, id: &LeaseId, lasts: Duration, may: &May<End>) -> Result<(), CreateError> {
        if let Some(host) = self.host_of(id) {
            let remote_request = RemoteRequest::Renew(id.clone(), lasts.as_secs(), may.who().in_words());
            return Ok(self.remote_request(&host, &remote_request)?);
        }
        self.decide(|state, now| state.plan.renew(now, id, lasts, LONGEST_LEASE))?;
        if let Some((_, error)) = self.state().unkept.take().filter(|(unkept, _)| unkept == id) {
            return Err(error.into());
        }
        tracing::info!(lease = %id, who = %may.who(), lasts_s = lasts.as_secs(), "lease renewed");
        Ok(())
    }

    /// Ends a lease for a client: at once, or after the run under it has stopped. Blocks on the disk.
    ///
    /// # Errors
    /// When the lease was made for a run, or the request to another host cannot be written.
    pub fn end_lease(self: &Arc<Self>, id: &LeaseId, may: &May<End>) -> Result<(), CreateError> {
        if let Some(host) = self.host_of(id) {
            return Ok(self.remote_request(&host, &RemoteRequest::End(id.clone(), may.who().in_words()))?);
        }
        let who = may.who().in_words();
        if self.store.lab().is_some() && self.end_posted(id, &who) {
            return Ok(());
        }
        Ok(self.end_lease_here(id, &who)?)
    }

    pub(super) fn end_lease_here(self: &Arc<Self>, id: &LeaseId, who: &str) -> Result<(), Refusal> {
        self.decide(|state, now| {
            let of_run = state.plan.lease(id).and_then(|lease| lease.run.clone());
            match of_run {
                Some(run) => Err(Refusal::LeaseOfRun { lease: id.clone(), run }),
                None => Ok(state.plan.end_lease(now, id, &format!("was ended by {who}"))),
            }
        })
    }

    /// Returns the current state of a lease. Blocks on the disk.
    ///
    /// # Errors
    /// When there is no such lease, or it cannot be read.
    pub fn lease(&self, id: &LeaseId) -> Result<LeaseView, crate::store::StoreError> {
        match self.view_of(id) {
            Some(view) => Ok(view),
            None => Ok(LeaseView {
                lease: self.store.lease(id)?,
                waits: None,
                holders: Vec::new(),
                closed: Vec::new(),
                about_to_begin: false,
            }),
        }
    }

    /// Returns the current state of a lease that has not ended.
    fn view_of(&self, id: &LeaseId) -> Option<LeaseView> {
        let state = self.state();
        let lease = state.stands(id)?;
        let wait = match lease.state {
            LeaseState::Pending => state.plan.why(now(), id),
            _ => None,
        };
        let holders = wait
            .iter()
            .flat_map(|wait| &wait.holders)
            .filter_map(|id| state.stands(id));
        Some(LeaseView {
            holders: holders.collect(),
            closed: wait.as_ref().map_or_else(Vec::new, |_| state.plan.closed(id)),
            about_to_begin: wait.as_ref().is_some_and(|wait| wait.place == 1) && state.plan.is_looked_at_for(id),
            waits: wait.map(|Wait { place, latest, .. }| (place, latest.map(|at| wall(at, self.store.now_ns())))),
            lease,
        })
    }

    /// Returns the newest leases, at most `at_most`. `ended` includes ended leases. Blocks on the disk.
    ///
    /// # Errors
    /// When the leases cannot be read.
    pub fn leases(&self, ended: bool, at_most: usize) -> Result<Vec<LeaseView>, crate::store::StoreError> {
        let kept = self.store.leases(ended, at_most)?;
        let view = |lease: StoredLease| {
            self.view_of(&lease.id).unwrap_or(LeaseView {
                lease,
                waits: None,
                holders: Vec::new(),
                closed: Vec::new(),
                about_to_begin: false,
            })
        };
        Ok(kept.into_iter().map(view).collect())
    }

    /// Stores the current state of a lease, and passes it to the run under the lease. Returns the actions to take when
    /// storing fails.
    pub(super) fn keep_lease(&self, id: &LeaseId) -> Vec<Action> {
        let (lease, live, held) = {
            let state = self.state();
            let Some(lease) = state.stands(id) else {
                return Vec::new();
            };
            let planned = state.plan.lease(id);
            let gives_way = planned.is_some_and(|lease| lease.gives_way.is_some());
            let held = planned.and_then(|lease| lease.held.as_ref());
            let running = state.plan.running_under(id);
            let live = running.and_then(|run| state.live.get(&run).cloned());
            (lease, live, held.map(|held| of_worker(held, gives_way)))
        };
        let error = match self.put(&lease) {
            Ok(token) => {
                let mut state = self.state();
                if let (Some(live), Some(held)) = (live, held) {
                    live.under(held);
                }
                if lease.state == LeaseState::Active {
                    state.plan.has_token(id, token);
                }
                state.leases.insert(id.clone(), StoredLease { token, ..lease });
                return Vec::new();
            }
            Err(StoreError::Taken(_)) => {
                tracing::debug!(lease = %id, "another host has the lease");
                self.state().leases.remove(id);
                return self.state().plan.forget(now(), id);
            }
            Err(error @ StoreError::Away { .. }) => {
                let mut state = self.state();
                let before = state.leases.get(id).filter(|before| is_one_grant(before, &lease));
                match before.and_then(|lease| lease.until_ns) {
                    Some(until_ns) => state.plan.lasts_as_before(id, boot(until_ns, self.store.now_ns())),
                    // The grant is new, or the lease gave way. The state of a lease that gave way is stored when
                    // the database is back.
                    _ => {
                        if lease.state == LeaseState::Active {
                            state.unheard.insert(id.clone());
                        }
                        state.plan.not_granted(id);
                    }
                }
                state.unkept = Some((id.clone(), error));
                return Vec::new();
            }
            Err(error) => error,
        };
        tracing::error!(lease = %id, %error, "the lease cannot be stored");
        let why = format!("could not be stored: {error}");
        let mut state = self.state();
        let was_granted = state.leases.get(id).is_some_and(|before| is_one_grant(before, &lease));
        if lease.run.is_none() {
            // `ask` or `renew` reports the error to the client.
            state.unkept = Some((id.clone(), error));
        }
        match was_granted {
            true => {
                state.leases.insert(id.clone(), lease);
                state.plan.end_lease(now(), id, &why)
            }
            // No run began under the lease, and no run will. The lease ends in its last stored state, because
            // another lease may have the new token by now.
            false => state.plan.cannot_be_granted(now(), id, &why),
        }
    }

    /// Writes the state of a lease. First writes the ends of leases whose earlier writes failed.
    fn put(&self, lease: &StoredLease) -> Result<u64, StoreError> {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(end) = unwritten.first() {
            self.store.put(end)?;
            unwritten.remove(0);
        }
        self.store.put(lease)
    }

    /// Writes the end of a lease. After a failed write, the next [`Scheduler::put`] of any lease writes the end
    /// first.
    pub(super) fn put_end(&self, lease: StoredLease) {
        if let Err(error) = self.put(&lease) {
            tracing::error!(lease = %lease.id, %error, "the lease's end cannot be stored yet");
            let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            unwritten.push(lease);
        }
    }

    /// Stores the end of a lease.
    pub(super) fn lease_ended(&self, of: &plan::Lease, why: &str) {
        let lease = self.state().leases.remove(&of.id);
        let Some(lease) = lease else { return };
        let lease = StoredLease {
            state: LeaseState::Ended,
            ended_ns: Some(match &of.held {
                Some(held) => wall(held.until, self.store.now_ns()),
                None => self.store.now_ns(),
            }),
            reason: why.into(),
            ..lease
        };
        if of.run.is_none() {
            tracing::info!(lease = %lease.id, rig = lease.rig, who = %lease.owner, "lease ended: it {why}");
        }
        self.put_end(lease);
    }

    /// Ends leases when they expire. Never returns.
    pub(super) async fn end_in_time(self: Arc<Self>) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let next = self.state().plan.next_end();
            let left = next.map_or(LONGEST_SLEEP, |next| next.saturating_sub(now()));
            if left.is_zero() {
                let scheduler = Arc::clone(&self);
                let tick = move || scheduler.decide(|state, now| Ok::<_, Refusal>(state.plan.tick(now)));
                // Ignore an error: a panic of the task was already reported.
                let _ = tokio::task::spawn_blocking(tick).await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(LONGEST_SLEEP)) => {}
                _ = changed.changed() => {}
            }
        }
    }
}

impl super::State {
    /// Returns the current state of a lease that has not ended.
    pub(super) fn stands(&self, id: &LeaseId) -> Option<StoredLease> {
        let wall = |at| wall(at, self.store.now_ns());
        let kept = self.leases.get(id)?;
        let planned = self.plan.lease(id)?;
        let mut lease = kept.clone();
        // The plan has only the rigs of this host, but a posted lease may also accept rigs of other hosts.
        if !lease.posted {
            lease.rigs.clone_from(&planned.rigs);
        }
        if planned.held.is_none() && lease.state == LeaseState::Active {
            // The run of the lease gave way, and this state is not stored yet.
            lease.state = LeaseState::Pending;
            lease.rig.clear();
            (lease.granted_ns, lease.until_ns, lease.boot) = (None, None, None);
        }
        if let Some(held) = &planned.held {
            lease.state = LeaseState::Active;
            lease.rig.clone_from(&held.rig);
            lease.token = held.token;
            // Keep the times that were stored first: the wall clock and the plan's clock drift apart.
            lease.granted_ns = lease.granted_ns.or_else(|| Some(wall(held.since)));
            let until_ns = wall(held.until);
            let as_before = |before: &u64| before.abs_diff(until_ns) < 500_000_000;
            lease.until_ns = lease.until_ns.filter(as_before).or(Some(until_ns));
            // With a shared database, all times are on the database's clock, so boot times are not needed.
            lease.boot = boot_id().filter(|_| self.store.lab().is_none()).map(|id| BootTimes {
                of: id.into(),
                granted_ns: nanos(held.since),
                until_ns: nanos(held.until),
            });
        }
        Some(lease)
    }
}

/// Returns whether two states of a lease belong to the same grant of a rig.
fn is_one_grant(before: &StoredLease, now: &StoredLease) -> bool {
    let held = |lease: &StoredLease| lease.state == LeaseState::Active;
    held(before) && held(now) && before.token == now.token
}

/// Converts a grant to the message for a worker.
pub(super) fn of_worker(held: &plan::Held, gives_way: bool) -> worker::Lease {
    worker::Lease {
        token: held.token,
        until_boot_ns: u64::try_from(held.until.as_nanos()).unwrap_or(u64::MAX),
        gives_way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_boot_id_is_no_boot() {
        assert!(!is_this_boot("", None) && !is_this_boot("", Some("0a1b")));
        assert!(!is_this_boot("0a1b", None) && !is_this_boot("0a-1c", Some("0a1b")));
        // The kernel writes hyphens, the service manager does not.
        assert!(is_this_boot("0a-1b", Some("0a1b")));
        assert_eq!(plain(" \n"), None);
    }
}

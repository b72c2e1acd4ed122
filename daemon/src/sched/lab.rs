//! Work with the other hosts of a shared database. This host takes waiting leases from the shared queue. Hosts
//! send each other requests about leases and runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use verbatim_proto::v1::{LeaseState, RunState};
use verbatim_run::RunId;

use super::leases::{self, LONGEST_LEASE};
use super::plan::{Action, Refusal};
use super::{CreateError, Ending, Live, NewRun, Scheduler, changed, takeover};
use crate::store::{Filter, LeaseId, Patience, RemoteRequest, StoreError, StoredLease, StoredRun};

impl Scheduler {
    /// Returns whether `host` is the name of another host.
    #[must_use]
    pub fn is_elsewhere(&self, host: &str) -> bool {
        !host.is_empty() && self.store.lab().is_some_and(|lab| lab.host() != host)
    }

    /// Returns the name of the other host that has a lease; `None` if this host or no host has the lease.
    pub(super) fn host_of(&self, id: &LeaseId) -> Option<String> {
        self.store.lab()?;
        if self.state().plan.lease(id).is_some() {
            return None;
        }
        let host = self.store.lease(id).ok()?.host;
        self.is_elsewhere(&host).then_some(host)
    }

    pub(super) fn remote_request(&self, host: &str, remote_request: &RemoteRequest) -> Result<(), StoreError> {
        self.store
            .lab()
            .map_or(Ok(()), |lab| lab.remote_request(host, remote_request))
    }

    /// Stores a lease in the shared queue, where the first host with a free acceptable rig takes it. If only one host
    /// has acceptable rigs, the lease is for that host. `elsewhere` holds pairs of a rig and its host.
    pub(super) fn post(
        self: &Arc<Self>,
        run: Option<&StoredRun>,
        mut lease: StoredLease,
        elsewhere: &[(String, String)],
    ) -> Result<(), CreateError> {
        let Some(lab) = self.store.lab() else {
            return Err(Refusal::UnknownRig(lease.rigs.join(", ")).into());
        };
        let mut hosts: HashSet<&str> = elsewhere.iter().map(|(_, host)| host.as_str()).collect();
        if lease.rigs.iter().any(|rig| self.rigs().find(rig).is_ok()) {
            hosts.insert(lab.host());
        }
        if let (1, Some(host)) = (hosts.len(), hosts.iter().next()) {
            lease.host = (*host).into();
        }
        lab.post(run, &lease)?;
        self.take_posted(&lease);
        Ok(())
    }

    /// Stores a run for the other host that has the run's rig.
    pub(super) fn create_elsewhere(
        &self,
        last: &mut (u64, u16),
        new: &NewRun,
        host: &str,
    ) -> Result<StoredRun, CreateError> {
        let run = self.keep(last, new)?;
        if new.lease.is_some() {
            self.remote_request(host, &RemoteRequest::Submit(run.id.clone()))?;
        }
        tracing::info!(run = %run.id, rig = run.spec.rig, who = %run.owner, host, "run created for another host");
        Ok(run)
    }

    /// Removes a lease and its runs from this host's plan, for example because another host has taken the lease.
    pub(super) fn forget(self: &Arc<Self>, id: &LeaseId) {
        let forget = self.decide(|state, now| {
            state.leases.remove(id);
            Ok::<_, Refusal>(state.plan.forget(now, id))
        });
        drop(forget);
    }

    /// Adds a lease of the shared queue to the plan, with the acceptable rigs that this host has.
    fn take_posted(self: &Arc<Self>, lease: &StoredLease) {
        let own: Vec<String> = lease
            .rigs
            .iter()
            .filter(|rig| self.rigs().find(rig).is_ok())
            .cloned()
            .collect();
        if own.is_empty() || self.state().leases.contains_key(&lease.id) {
            return;
        }
        let now_ns = self.store.now_ns();
        let live = match &lease.run {
            None => None,
            Some(run) => match self.take_run(run) {
                Some(live) => Some(live),
                None => return,
            },
        };
        let asked = self.decide(|state, now| {
            let mut planned = leases::planned(lease, now_ns);
            planned.rigs = own;
            let actions = state.plan.ask(now, planned)?;
            state.leases.insert(lease.id.clone(), lease.clone());
            Ok(actions)
        });
        match (asked, live) {
            (Err(refusal), Some(live)) => {
                self.end_refused(&live, &refusal);
                self.end_here(lease, "ended with its run");
            }
            // Only this host may take the lease, so end it here.
            (Err(refusal), None) if !lease.host.is_empty() => self.end_here(lease, &format!("ended: {refusal}")),
            _ => {}
        }
    }

    /// Takes over a run that was created at another host, if the run still waits.
    fn take_run(self: &Arc<Self>, run: &RunId) -> Option<Arc<Live>> {
        let kept = self.store.get(run).ok()?;
        if kept.run.state != RunState::Queued {
            return None;
        }
        let live = takeover::live(self.store.as_ref(), kept.run);
        live.tell(
            self.store.as_ref(),
            self.store.now_ns(),
            vec![changed(RunState::Queued, None)],
        );
        self.state().live.insert(run.clone(), Arc::clone(&live));
        self.bound(&StoredRun {
            // The host that created the run monitors the connection of the run's client.
            patience: Patience {
                attended: false,
                ..live.run().patience
            },
            ..live.run()
        });
        Some(live)
    }

    fn end_here(&self, lease: &StoredLease, why: &str) {
        self.put_end(StoredLease {
            state: LeaseState::Ended,
            ended_ns: Some(self.store.now_ns()),
            reason: why.into(),
            ..lease.clone()
        });
    }

    /// Takes waiting leases for rigs of this host, drops leases that another host has taken, and carries out the
    /// requests of other hosts. Blocks on the store.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn meet(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(lab) = self.store.lab() else { return Ok(()) };
        // Collect `known` before `posted`. In the other order, a lease that is posted in between would be only in
        // `known`, and would be dropped below.
        let known: Vec<LeaseId> = {
            let state = self.state();
            let waits = state
                .plan
                .waiting_leases()
                // Skip a lease that has just given way: the store may still list this lease as active.
                .filter(|id| {
                    state
                        .leases
                        .get(id)
                        .is_some_and(|of| of.posted && of.state == LeaseState::Pending)
                });
            waits.cloned().collect()
        };
        let posted = lab.posted()?;
        for lease in &posted {
            self.take_posted(lease);
        }
        for id in known.iter().filter(|id| !posted.iter().any(|lease| lease.id == **id)) {
            let waits = self.state().plan.lease(id).is_some_and(|lease| lease.held.is_none());
            if waits {
                self.forget(id);
            }
        }
        for remote_request in lab.remote_requests()? {
            match remote_request {
                RemoteRequest::Submit(run) => {
                    let Some(live) = self.take_run(&run) else { continue };
                    let lease = live.run().lease;
                    let submitted = self.decide(|state, _| state.plan.submit(&lease, run));
                    if let Err(refusal) = submitted {
                        self.end_refused(&live, &refusal);
                    }
                }
                RemoteRequest::Cancel(run, who) => self.cancel_here(&run, &who),
                RemoteRequest::End(lease, who) => {
                    let _ = self.end_lease_here(&lease, &who);
                }
                RemoteRequest::Renew(lease, lasts_s, who) => {
                    let lasts = Duration::from_secs(lasts_s);
                    match self.decide(|state, now| state.plan.renew(now, &lease, lasts, LONGEST_LEASE)) {
                        Ok(()) => tracing::info!(%lease, who, lasts_s, "lease renewed"),
                        Err(refusal) => tracing::info!(%lease, who, "lease not renewed: {refusal}"),
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends a lease that waits for any host, unless the plan of this host has the lease. Returns whether the lease was
    /// ended.
    pub(super) fn end_posted(&self, id: &LeaseId, who: &str) -> bool {
        let Ok(lease) = self.store.lease(id) else { return false };
        let waits = lease.posted && lease.host.is_empty() && lease.state == LeaseState::Pending;
        if waits && self.state().plan.lease(id).is_none() {
            self.end_here(&lease, &format!("was ended by {who}"));
            return true;
        }
        false
    }

    /// Writes a heartbeat to the database. If the write fails, no lease gets a rig until the database is back. Blocks
    /// on the store.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn beat(self: &Arc<Self>) -> Result<(), StoreError> {
        let Some(lab) = self.store.lab() else { return Ok(()) };
        if let Err(error) = lab.beat() {
            let mut state = self.state();
            if !state.plan.is_away() {
                tracing::error!(%error, "the daemon grants no rigs");
                state.plan.goes_away();
            }
            return Err(error);
        }
        if self.state().plan.is_away() {
            self.take_back()?;
            self.end_unknown();
            tracing::warn!("the database is back: the daemon grants rigs again");
            let back = self.decide(|state, now| {
                // Store the leases that gave way while the database was away. In the database these leases still
                // hold their rigs, so no other lease could get those rigs.
                let gave_way = state.leases.values().filter(|kept| {
                    let waits = state.plan.lease(&kept.id).is_some_and(|lease| lease.held.is_none());
                    waits && kept.state == LeaseState::Active
                });
                let mut actions: Vec<Action> = gave_way.map(|kept| Action::Keep(kept.id.clone())).collect();
                actions.extend(state.plan.is_back(now));
                Ok::<_, Refusal>(actions)
            });
            drop(back);
        }
        Ok(())
    }

    /// Makes the leases in `unheard` wait again in the database. The database may have committed their grants,
    /// although this daemon got no response.
    fn take_back(&self) -> Result<(), StoreError> {
        let unheard: Vec<LeaseId> = self.state().unheard.iter().cloned().collect();
        for id in unheard {
            // If the lease has ended meanwhile, `end_unknown` ends it in the database.
            let waits = self.state().plan.lease(&id).is_some();
            if waits {
                self.store.take_back(&id)?;
            }
            self.state().unheard.remove(&id);
        }
        Ok(())
    }

    /// Ends runs and leases of this host that only the database knows. The database committed them, but this
    /// daemon got no response.
    fn end_unknown(&self) {
        let creating = self.creating();
        let known: HashSet<RunId> = self.state().live.keys().cloned().collect();
        let waits_for_us = |run: &StoredRun| {
            let lease = self.store.lease(&run.lease);
            lease.is_ok_and(|lease| lease.posted && lease.state == LeaseState::Pending)
        };
        let unfinished = Filter {
            states: vec![RunState::Queued, RunState::Running],
            own: true,
            ..Filter::default()
        };
        let found = self.store.list(&unfinished, None, usize::MAX).unwrap_or_default();
        let unknown = found
            .into_iter()
            .map(|kept| kept.run)
            .filter(|run| !known.contains(&run.id) && !waits_for_us(run));
        for run in unknown {
            let why = "the database went away when the run was created";
            takeover::live(self.store.as_ref(), run).end(
                self.store.as_ref(),
                self.store.now_ns(),
                Ending::of_unkept(why),
                None,
            );
        }
        for lease in self.store.unended().unwrap_or_default() {
            let pending_for_us = lease.posted && lease.state == LeaseState::Pending;
            if self.state().plan.lease(&lease.id).is_none() && !pending_for_us {
                self.end_here(&lease, "ended: the database stored it, but its daemon got no response");
            }
        }
        drop(creating);
    }
}

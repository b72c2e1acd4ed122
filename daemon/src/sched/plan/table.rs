//! The leases that have not ended, with indexes by rig and by owner. A decision about a rig needs only the leases of
//! that rig.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Lease;
use crate::access::Identity;
use crate::store::LeaseId;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Table {
    leases: BTreeMap<LeaseId, Lease>,
    /// The leases that accept or hold a rig. The key is the rig's name.
    of_rig: HashMap<String, BTreeSet<LeaseId>>,
    of_owner: HashMap<Identity, BTreeSet<LeaseId>>,
    /// The number of leases that were made for a run.
    of_runs: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn of_runs(&self) -> usize {
        self.of_runs
    }

    pub(super) fn get(&self, id: &LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// Returns a lease for changes. The caller must not change the owner or the rigs of the lease, because both are
    /// indexed.
    pub(super) fn get_mut(&mut self, id: &LeaseId) -> Option<&mut Lease> {
        self.leases.get_mut(id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    pub(super) fn insert(&mut self, lease: Lease) {
        self.remove(&lease.id);
        for rig in &lease.rigs {
            self.of_rig.entry(rig.clone()).or_default().insert(lease.id.clone());
        }
        let own = self.of_owner.entry(lease.owner.clone()).or_default();
        own.insert(lease.id.clone());
        self.of_runs += usize::from(lease.run.is_some());
        self.leases.insert(lease.id.clone(), lease);
    }

    pub(super) fn remove(&mut self, id: &LeaseId) -> Option<Lease> {
        let lease = self.leases.remove(id)?;
        for rig in &lease.rigs {
            forget(&mut self.of_rig, rig, id);
        }
        forget(&mut self.of_owner, &lease.owner, id);
        self.of_runs -= usize::from(lease.run.is_some());
        Some(lease)
    }

    /// Removes rigs from a lease. Returns the number of rigs that the lease still accepts.
    pub(super) fn take_rigs(&mut self, id: &LeaseId, gone: &[String]) -> usize {
        let Some(lease) = self.leases.get_mut(id) else {
            return 0;
        };
        for rig in gone {
            forget(&mut self.of_rig, rig, id);
        }
        lease.rigs.retain(|rig| !gone.contains(rig));
        lease.rigs.len()
    }

    /// Returns the leases that accept or hold one of these rigs, in the order of their ids.
    pub(super) fn of_rigs<'t>(&'t self, rigs: &[String]) -> Vec<&'t Lease> {
        let of = |rig: &String| self.of_rig.get(rig).into_iter().flatten();
        let get = |id: &LeaseId| self.leases.get(id);
        if let [rig] = rigs {
            return of(rig).filter_map(get).collect();
        }
        let ids: BTreeSet<&LeaseId> = rigs.iter().flat_map(of).collect();
        ids.into_iter().filter_map(get).collect()
    }

    /// Returns the leases of an owner.
    pub(super) fn of_owner<'t>(&'t self, who: &Identity) -> impl Iterator<Item = &'t Lease> + use<'t> {
        let ids = self.of_owner.get(who).into_iter().flatten();
        ids.filter_map(|id| self.leases.get(id))
    }
}

fn forget<K: std::hash::Hash + Eq>(index: &mut HashMap<K, BTreeSet<LeaseId>>, key: &K, id: &LeaseId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

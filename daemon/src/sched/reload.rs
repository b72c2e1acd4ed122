//! Reloads the rig file: rigs are added, changed or removed. A rig that is used, or whose device is still to be
//! restored, stays and keeps its device.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use verbatim_rig::{RigConfig, RigFile, RigFileError};

use super::plan::{Action, Found, Left};
use super::{Scheduler, State, left, outlives_us};
use crate::store::{LeaseId, StoreError};

/// The result of a reload: the names of rigs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reloaded {
    /// New rigs.
    pub added: Vec<String>,
    /// Rigs whose description has changed.
    pub changed: Vec<String>,
    /// Removed rigs.
    pub removed: Vec<String>,
    /// Rigs that the file no longer has, and that stay until they are restored and unused.
    pub leaving: Vec<String>,
}

impl std::fmt::Display for Reloaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
            ("leaving", &self.leaving),
        ];
        let parts = parts.iter().filter(|(_, rigs)| !rigs.is_empty());
        let words: Vec<String> = parts
            .map(|(what, rigs)| format!("{what}: {}", rigs.join(", ")))
            .collect();
        f.write_str(if words.is_empty() { "as before" } else { "" })?;
        f.write_str(&words.join("; "))
    }
}

/// Why a reload failed. The rigs then stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum NotReloaded {
    /// The file cannot be used.
    #[error("{0}; the rigs stay as they were")]
    File(#[from] RigFileError),
    /// Two rigs have the same device.
    #[error(
        "the rigs {0:?} and {1:?} have the same device; remove one of them from the rig file; the rigs stay as they \
         were"
    )]
    OneDevice(String, String),
    /// A rig in use would get another device.
    #[error("{0}; end that first, or leave the rig as it was; the rigs stay as they were")]
    InUse(String),
    /// The new rigs could not be claimed in the shared database.
    #[error("{0}; the rigs stay as they were")]
    Store(#[from] StoreError),
}

/// Removes the built-in virtual rig from a rig file, for a host that shares a database. Every host has this rig,
/// but rig names must be unique in the shared database.
pub fn of_lab(rigs: &mut RigFile) {
    rigs.rigs.retain(|rig| rig.name != "virtual");
}

impl Scheduler {
    /// Reloads the rig file. Blocks on the disk.
    ///
    /// # Errors
    /// When the file is wrong, or a used rig would get another device. All rigs then stay as they were.
    pub fn reload(self: &Arc<Self>) -> Result<Reloaded, NotReloaded> {
        // While this lock is held, no run can be created on a rig that this reload removes.
        let _creating = self.creating();
        let before = self.rigs();
        let mut file = RigFile::load(before.path.as_deref())?;
        if self.store.lab().is_some() {
            of_lab(&mut file);
        }
        if let Some((one, other)) = file.two_of_one_device() {
            return Err(NotReloaded::OneDevice(one.into(), other.into()));
        }
        let was: BTreeMap<&str, &RigConfig> = before.rigs.iter().map(|rig| (rig.name.as_str(), rig)).collect();
        // Check the devices of new rigs only: the plan already knows the state of the other devices.
        let left = |rig: &RigConfig| match was.contains_key(rig.name.as_str()) {
            true => Left::AsFound,
            false => left(&self.journals, rig),
        };
        let lefts: Vec<Left> = file.rigs.iter().map(left).collect();
        let drained = self.drained.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let gone: Vec<String> = was
            .keys()
            .filter(|name| file.find(name).is_err())
            .map(ToString::to_string)
            .collect();
        let mut done = Reloaded::default();
        for rig in &file.rigs {
            match was.get(rig.name.as_str()) {
                None => done.added.push(rig.name.clone()),
                Some(before) if *before != rig => done.changed.push(rig.name.clone()),
                Some(_) => {}
            }
        }
        // Claim the new rigs before a lease can get one of them.
        let claims = self.store.lab().filter(|_| !done.added.is_empty());
        if let Some(lab) = claims {
            lab.claim(&done.added, false)?;
        }
        let decided = self.decide(|state, now| {
            for rig in &file.rigs {
                if let Some(before) = was.get(rig.name.as_str())
                    && !is_same_device(before, rig)
                    && let Some(why) = state.plan.in_use(&rig.name)
                {
                    let what = format!(
                        "rig {} would get another device ({} in place of {}), and {why}",
                        rig.name,
                        rig.kind.device(),
                        before.kind.device()
                    );
                    return Err(NotReloaded::InUse(what));
                }
                let under_another_name = |name: &&String| {
                    let device = was.get(name.as_str()).and_then(|before| before.device_identity());
                    device.is_some() && device == rig.device_identity()
                };
                if let Some(name) = gone.iter().find(under_another_name)
                    && let Some(why) = state.plan.in_use(name)
                {
                    let what = format!("rig {} has the device of rig {name}, and {why}", rig.name);
                    return Err(NotReloaded::InUse(what));
                }
            }
            let found = file.rigs.iter().zip(&lefts).map(|(rig, left)| Found {
                rig: &rig.name,
                left: *left,
                drained: drained.get(&rig.name).cloned(),
                leaving: false,
                is_looked_at: outlives_us(rig),
            });
            let found = found.collect();
            let mut actions = state.forget_those_of_others(now, &gone);
            let (leaving, more) = state.plan.reload(now, found, &gone);
            actions.extend(more);
            done.removed = gone.iter().filter(|rig| !leaving.contains(rig)).cloned().collect();
            let mut rigs = file.clone();
            rigs.rigs.extend(
                leaving
                    .iter()
                    .filter_map(|rig| was.get(rig.as_str()).map(|rig| (*rig).clone())),
            );
            done.leaving = leaving;
            *self.rigs.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rigs);
            Ok(actions)
        });
        if let (Err(_), Some(lab)) = (&decided, claims)
            && let Err(error) = lab.show(&BTreeMap::new(), &done.added)
        {
            tracing::error!(
                %error, rigs = ?done.added,
                "the new rigs were refused, but belong to this host in the database until it restarts"
            );
        }
        decided?;
        tracing::info!("the rig file was read again: {done}");
        Ok(done)
    }
}

impl State {
    /// Drops leases that wait for any host and for which this host no longer has a rig. Other hosts may still take
    /// these leases.
    fn forget_those_of_others(&mut self, now: Duration, gone: &[String]) -> Vec<Action> {
        let lost = |id: &&LeaseId| {
            let rigs = self.plan.lease(id).map_or(&[][..], |lease| &lease.rigs);
            rigs.iter().all(|rig| gone.contains(rig))
                && self
                    .leases
                    .get(*id)
                    .is_some_and(|lease| lease.posted && lease.host.is_empty())
        };
        let lost: Vec<LeaseId> = self.plan.waiting_leases().filter(lost).cloned().collect();
        let mut actions = Vec::new();
        for id in lost {
            self.leases.remove(&id);
            actions.extend(self.plan.forget(now, &id));
        }
        actions
    }
}

/// Returns whether two descriptions mean the same device.
fn is_same_device(one: &RigConfig, other: &RigConfig) -> bool {
    match (one.device_identity(), other.device_identity()) {
        (None, None) => one.kind == other.kind,
        (one, other) => one == other,
    }
}

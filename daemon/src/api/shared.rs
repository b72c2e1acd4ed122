//! What the services work with: the scheduler, who may do what, and the audit log.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Request, Status};

use super::errors;
use crate::access::{Access, Act, Audit, Caller, Denied};
use crate::sched::Scheduler;

/// Captures made at a time.
const CAPTURES: usize = 1;

/// What the services work with.
#[derive(Debug)]
pub struct Shared {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) access: Arc<Access>,
    audit: Audit,
    /// Turns at making a capture, which takes the memory of a whole record.
    pub(super) captures: Arc<Semaphore>,
}

impl Shared {
    /// Together.
    #[must_use]
    pub fn new(scheduler: Arc<Scheduler>, access: Arc<Access>, audit: Audit) -> Arc<Self> {
        Arc::new(Self {
            scheduler,
            access,
            audit,
            captures: Arc::new(Semaphore::new(CAPTURES)),
        })
    }

    /// Who sent a request, who has a role on some rig.
    pub(super) fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let caller = Caller::of(request);
        let known = caller.and_then(|caller| self.access.any(&caller).map(|()| caller));
        known.map_err(|denied| {
            tracing::warn!("refused: {denied}");
            errors::denied(&denied)
        })
    }

    /// Notes what was done to a rig, or that it was refused. Blocks on the disk. A line that cannot be kept is in the log.
    pub(super) fn note(&self, caller: &Caller, what: &str, rig: &str, run: &str, refused: &str) {
        let device = self
            .scheduler
            .rigs()
            .find(rig)
            .map(|rig| rig.kind.device())
            .unwrap_or_default();
        let act = Act {
            what,
            rig,
            device: &device,
            run,
            refused,
        };
        if let Err(error) = self.audit.note(caller, act) {
            tracing::error!(who = %caller.who, from = caller.from, ?act, %error, "the audit log cannot be kept");
        }
    }

    /// What somebody hears who may not change something; it is noted. Blocks on the disk.
    pub(super) fn refuse(&self, caller: &Caller, what: &str, rig: &str, run: &str, denied: &Denied) -> Status {
        let why = denied.to_string();
        tracing::warn!(who = %caller.who, from = caller.from, what, rig, "refused: {why}");
        self.note(caller, what, rig, run, &why);
        errors::denied(denied)
    }
}

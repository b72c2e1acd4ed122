//! What the services work with: the scheduler, who may do what, and the audit log.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Request, Status};

use super::streams::Streams;
use super::{errors, snapshot, view};
use crate::access::{Access, Act, Audit, Caller, Denied, End, May, View};
use crate::sched::Scheduler;
use crate::store::{StoreError, StoredRun};
use verbatim_proto::v1::Rig;

/// Captures made at a time.
const CAPTURES: usize = 1;

/// What the services work with.
#[derive(Debug)]
pub struct Shared {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(super) access: Arc<Access>,
    audit: Audit,
    /// Turns at making a capture, which takes the memory of a whole record.
    pub(super) captures: Arc<Semaphore>,
    /// Answers that go on.
    pub(super) streams: Streams,
    /// The rigs as they stood last.
    pub(super) rigs: snapshot::Last,
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
            streams: Streams::default(),
            rigs: snapshot::Last::default(),
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

    /// The rigs of other hosts whose daemons are there, and which hosts. Blocks on the store.
    pub(super) fn elsewhere(&self) -> Result<Vec<(Rig, String)>, StoreError> {
        let rigs = self.all_elsewhere()?.into_iter();
        Ok(rigs
            .filter(|(_, _, there)| *there)
            .map(|(rig, host, _)| (rig, host))
            .collect())
    }

    /// The rigs of all other hosts, and whether the daemon of each is there. Blocks on the store.
    pub(super) fn all_elsewhere(&self) -> Result<Vec<(Rig, String, bool)>, StoreError> {
        let found = self
            .scheduler
            .store()
            .lab()
            .map_or(Ok(Vec::new()), |lab| lab.elsewhere())?;
        Ok(found.into_iter().map(view::elsewhere).collect())
    }

    /// The directory of a run's record.
    ///
    /// # Errors
    /// When another host has it, or a link stands in its place or its run's: a worker may write there, and is not to choose what
    /// the daemon reads to others.
    pub(super) fn record(&self, run: &StoredRun) -> Result<PathBuf, Status> {
        if self.scheduler.is_elsewhere(&run.host) {
            return Err(errors::elsewhere(&run.id, &run.host));
        }
        let record = self.scheduler.store().record(run);
        match record.ancestors().take(2).find(|path| path.is_symlink()) {
            None => Ok(record),
            Some(link) => Err(errors::internal(&format!(
                "{} is a link, and was a directory when the run was made: somebody altered what the run left; nothing is read",
                link.display()
            ))),
        }
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

    /// That somebody who may see a run may also do what only its owner and an admin of its rig may: the call, and what
    /// that is in words. Blocks on the disk.
    pub(super) fn may_end(
        &self,
        may: &May<View>,
        run: &StoredRun,
        (call, what): (&str, &str),
    ) -> Result<May<End>, Status> {
        let (caller, rig) = (may.caller(), &run.spec.rig);
        let may = self.access.end(caller, rig, Some(&run.owner), what);
        may.map_err(|denied| self.refuse(caller, call, rig, &format!("runs/{}", run.id), &denied))
    }

    /// What somebody hears who may not change something; it is noted. Blocks on the disk.
    pub(super) fn refuse(&self, caller: &Caller, what: &str, rig: &str, run: &str, denied: &Denied) -> Status {
        let why = denied.to_string();
        tracing::warn!(who = %caller.who, from = caller.from, what, rig, "refused: {why}");
        self.note(caller, what, rig, run, &why);
        errors::denied(denied)
    }
}

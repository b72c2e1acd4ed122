//! The state that the services share: the scheduler, the access checks and the audit log.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Request, Status};

use super::captures::Captures;
use super::streams::{Answer, Out, Streams};
use super::{errors, snapshot, view};
use crate::access::{Access, Act, Audit, Caller, Denied, End, Identity, May, View};
use crate::sched::Scheduler;
use crate::store::{StoreError, StoredRun};
use verbatim_proto::v1::Rig;

/// The maximum number of reports that the daemon makes at the same time.
const REPORTS: usize = 1;

/// The state that the services share.
#[derive(Debug)]
pub struct Shared {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(super) access: Arc<Access>,
    audit: Audit,
    /// The captures that clients read.
    pub(super) captures: Captures,
    /// Permits to make a report. Each report needs memory for a whole record.
    pub(super) reports: Semaphore,
    /// The open response streams.
    streams: Streams,
    /// The last snapshot of the rigs.
    pub(super) rigs: snapshot::Last,
}

impl Shared {
    /// Creates the shared state.
    #[must_use]
    pub fn new(scheduler: Arc<Scheduler>, access: Arc<Access>, audit: Audit) -> Arc<Self> {
        Arc::new(Self {
            scheduler,
            access,
            audit,
            captures: Captures::default(),
            reports: Semaphore::new(REPORTS),
            streams: Streams::default(),
            rigs: snapshot::Last::default(),
        })
    }

    /// Returns the sender of a request, who must have a role on some rig.
    pub(super) fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let caller = Caller::of(request);
        let known = caller.and_then(|caller| self.access.any(&caller).map(|()| caller));
        known.map_err(|denied| {
            tracing::warn!("refused: {denied}");
            errors::denied(&denied)
        })
    }

    /// Opens a response stream that buffers at most `ahead` messages. The stream ends when `check` fails after a change
    /// of the roles.
    pub(super) fn open<T>(
        &self,
        who: &Identity,
        ahead: usize,
        check: impl Fn(&Access) -> Result<(), Denied> + Send + 'static,
    ) -> Result<(Out<T>, Answer<T>), Status> {
        self.streams.open(who, ahead, self.access.denied(check))
    }

    /// Returns the rigs of other hosts whose daemons are running, each with the name of its host. Blocks on the store.
    pub(super) fn elsewhere(&self) -> Result<Vec<(Rig, String)>, StoreError> {
        let rigs = self.all_elsewhere()?.into_iter();
        Ok(rigs
            .filter(|(_, _, there)| *there)
            .map(|(rig, host, _)| (rig, host))
            .collect())
    }

    /// Returns the rigs of all other hosts, each with the name of its host and whether the host's daemon is running.
    /// Blocks on the store.
    pub(super) fn all_elsewhere(&self) -> Result<Vec<(Rig, String, bool)>, StoreError> {
        let found = self
            .scheduler
            .store()
            .lab()
            .map_or(Ok(Vec::new()), |lab| lab.elsewhere())?;
        Ok(found.into_iter().map(view::elsewhere).collect())
    }

    /// Returns the directory of a run's record.
    ///
    /// # Errors
    /// When another host has the run, or when the directory or its parent is a symbolic link. A worker can write
    /// in these directories, and with a link it could choose the files that the daemon sends to clients.
    pub(super) fn record(&self, run: &StoredRun) -> Result<PathBuf, Status> {
        if self.scheduler.is_elsewhere(&run.host) {
            return Err(errors::elsewhere(&run.id, &run.host));
        }
        let record = self.scheduler.store().record(run);
        match record.ancestors().take(2).find(|path| path.is_symlink()) {
            None => Ok(record),
            Some(_) => Err(errors::internal(&format!(
                "the record of runs/{} is a link, but the run made a directory: its files were altered, and the daemon \
                 reads none of them",
                run.id
            ))),
        }
    }

    /// Records an act on a rig in the audit log. `refused` is the reason of a refusal; empty when the act was done.
    /// Blocks on the disk. A failed write is logged.
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
            tracing::error!(who = %caller.who, from = caller.from, ?act, %error, "the audit log cannot be written");
        }
    }

    /// Checks that the caller, who may see a run, is the run's owner or an admin of its rig. The pair holds the
    /// name of the call, and its description in errors. Blocks on the disk.
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

    /// Returns the status of a denied change, and records it in the audit log. Blocks on the disk.
    pub(super) fn refuse(&self, caller: &Caller, what: &str, rig: &str, run: &str, denied: &Denied) -> Status {
        let why = denied.to_string();
        tracing::warn!(who = %caller.who, from = caller.from, what, rig, "refused: {why}");
        self.note(caller, what, rig, run, &why);
        errors::denied(denied)
    }
}

//! The implementation of RunService.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use verbatim_catalog::Register;
use verbatim_proto::v1::run_service_server::RunService;
use verbatim_proto::v1::{
    CancelRunRequest, CancelRunResponse, CreateRunRequest, CreateRunResponse, DeleteRunRequest, DeleteRunResponse,
    GetRunRequest, GetRunResponse, LeaseState, ListArtifactsRequest, ListArtifactsResponse, ListRunsRequest,
    ListRunsResponse, PinRunRequest, PinRunResponse, Priority, ReadArtifactRequest, ReadArtifactResponse, Run,
    WatchRunRequest, WatchRunResponse,
};

use super::errors::Violation;
use super::streams::Answer;
use super::{Shared, artifacts, blocking, computing, errors, filter, leases, names, page, validate, view, watch};
use crate::access::{Access, Caller, Identity, May, Read, View};
use crate::sched::{NewRun, Scheduler};
use crate::store::{AskedRun, Detail, Filter, LeaseId, Patience, RunEntry, StoreError, StoredRun};
use verbatim_run::RunId;
use verbatim_text::cut;

/// The service of runs.
#[derive(Clone, Debug)]
pub struct Runs {
    shared: Arc<Shared>,
}

impl Runs {
    /// Creates the service.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns a run that the caller may see.
    async fn find<T>(&self, request: &Request<T>, name: &str) -> Result<(StoredRun, May<View>), Status> {
        let caller = self.shared.caller(request)?;
        let id = names::run("name", name)?;
        let store = Arc::clone(self.shared.scheduler.store());
        let run = blocking(move || store.get(&id)).await?;
        let run = run.map_err(|error| errors::store(&error))?.run;
        // A run on a rig that the caller does not see looks like an absent run.
        let may = self.shared.access.view(&caller, &run.spec.rig);
        let may = may.map_err(|_| errors::store(&StoreError::Unknown(run.id.clone())))?;
        Ok((run, may))
    }

    /// Returns a run whose record the caller may read.
    async fn readable<T>(&self, request: &Request<T>, name: &str) -> Result<(StoredRun, May<Read>), Status> {
        let (run, may) = self.find(request, name).await?;
        let may = self.shared.access.read(may.caller(), may.rig());
        Ok((run, may.map_err(|denied| errors::denied(&denied))?))
    }

    /// Applies `act` to a run, and records the call in the audit log. Only the run's owner or an admin of its rig
    /// may make the call. `what` holds the name of the call, and its description in errors.
    async fn as_owner<T, R: Send + 'static>(
        &self,
        request: &Request<T>,
        name: &str,
        what: (&'static str, &'static str),
        act: impl FnOnce(&Scheduler, &RunId) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, Status> {
        let (run, may) = self.find(request, name).await?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_string());
        let act = move || {
            let may = shared.may_end(&may, &run, what)?;
            let done = act(&shared.scheduler, &run.id).map_err(|error| errors::store(&error))?;
            shared.note(may.caller(), what.0, may.rig(), &name, "");
            Ok(done)
        };
        blocking(act).await?
    }
}

#[tonic::async_trait]
impl RunService for Runs {
    async fn create_run(&self, request: Request<CreateRunRequest>) -> Result<Response<CreateRunResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let mut request = request.into_inner();
        let shared = Arc::clone(&self.shared);
        let spec = validate::plain(request.spec.take().unwrap_or_default());
        let choose = move || (validate::chosen(&spec), spec);
        let (tests, spec) = computing(&caller.who, choose).await?;
        request.spec = Some(spec);
        let run = blocking(move || create(&shared, &caller, request, tests)).await??;
        Ok(Response::new(CreateRunResponse { run: Some(run) }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let (run, may) = self.find(&request, &request.get_ref().name).await?;
        let (scheduler, eyes) = (
            Arc::clone(&self.shared.scheduler),
            view::Eyes::of(&self.shared, may.caller()),
        );
        let run = blocking(move || get(&scheduler, &run.id, &eyes))
            .await?
            .map_err(|error| errors::store(&error))?;
        Ok(Response::new(GetRunResponse { run: Some(run) }))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let sees = self.shared.access.table().sees(&caller);
        let eyes = view::Eyes::of(&self.shared, &caller);
        let request = request.into_inner();
        let scheduler = Arc::clone(&self.shared.scheduler);
        Ok(Response::new(
            blocking(move || list(&scheduler, &request, (&caller.who, sees), &eyes)).await??,
        ))
    }

    async fn pin_run(&self, request: Request<PinRunRequest>) -> Result<Response<PinRunResponse>, Status> {
        let pinned = request.get_ref().pinned;
        let (call, what) = match pinned {
            true => ("PinRun", "pin this run"),
            false => ("UnpinRun", "unpin this run"),
        };
        let name = request.get_ref().name.clone();
        let eyes = view::Eyes::of(&self.shared, &self.shared.caller(&request)?);
        let pin = move |scheduler: &Scheduler, id: &RunId| {
            scheduler.store().pin(id, pinned)?;
            get(scheduler, id, &eyes)
        };
        let run = self.as_owner(&request, &name, (call, what), pin).await?;
        Ok(Response::new(PinRunResponse { run: Some(run) }))
    }

    async fn delete_run(&self, request: Request<DeleteRunRequest>) -> Result<Response<DeleteRunResponse>, Status> {
        let name = request.get_ref().name.clone();
        let delete = |scheduler: &Scheduler, id: &RunId| scheduler.store().delete(id);
        self.as_owner(&request, &name, ("DeleteRun", "delete this run"), delete)
            .await?;
        Ok(Response::new(DeleteRunResponse {}))
    }

    type WatchRunStream = Answer<WatchRunResponse>;

    async fn watch_run(&self, request: Request<WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        // Ask for the live run before the stored run: when a run is no longer live, the store already has its end.
        let live = self
            .shared
            .scheduler
            .live(&names::run("name", &request.get_ref().name)?);
        let (run, may) = self.find(&request, &request.get_ref().name).await?;
        let cursor = request.get_ref().cursor;
        tracing::debug!(run = %run.id, rig = run.spec.rig, who = %may.who(), cursor, "watcher comes");
        let stream = watch::begin(
            Arc::clone(&self.shared.scheduler),
            (&self.shared, may),
            run,
            live,
            cursor,
        )
        .await?;
        Ok(Response::new(stream))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        let name = request.get_ref().name.clone();
        let (run, may) = self.find(&request, &name).await?;
        let shared = Arc::clone(&self.shared);
        let cancel = move || {
            let may = shared.may_end(&may, &run, ("CancelRun", "cancel this run"))?;
            let cancelled = shared.scheduler.cancel(&run, &may);
            cancelled.map_err(|error| errors::store(&error))?;
            shared.note(may.caller(), "CancelRun", may.rig(), &name, "");
            let eyes = view::Eyes::of(&shared, may.caller());
            get(&shared.scheduler, &run.id, &eyes).map_err(|error| errors::store(&error))
        };
        let run = blocking(cancel).await??;
        Ok(Response::new(CancelRunResponse { run: Some(run) }))
    }

    async fn list_artifacts(
        &self,
        request: Request<ListArtifactsRequest>,
    ) -> Result<Response<ListArtifactsResponse>, Status> {
        let (run, _) = self.readable(&request, &request.get_ref().name).await?;
        let directory = self.shared.record(&run)?;
        let artifacts = blocking(move || artifacts::list(&directory)).await??;
        Ok(Response::new(ListArtifactsResponse { artifacts }))
    }

    type ReadArtifactStream = Answer<ReadArtifactResponse>;

    async fn read_artifact(
        &self,
        request: Request<ReadArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        let (run, may) = self.readable(&request, &request.get_ref().name).await?;
        let request = request.into_inner();
        let directory = self.shared.record(&run)?;
        let reader = may.clone();
        let may_read = move |access: &Access| access.read(reader.caller(), reader.rig()).map(drop);
        let (out, answer) = self.shared.open(may.who(), artifacts::AHEAD, may_read)?;
        let (of, name) = (directory.clone(), request.artifact.clone());
        if blocking(move || artifacts::is_capture_to_make(&of, &name)).await? {
            let (file, capture) = self.shared.captures.get(may.who(), directory).await?;
            artifacts::send(file, capture, out);
        } else {
            let file = blocking(move || artifacts::open(&directory, &request.artifact)).await??;
            artifacts::send(Arc::new(file), (), out);
        }
        Ok(Response::new(answer))
    }
}

/// Creates a run, or finds the run that the same request created before.
fn create(shared: &Shared, caller: &Caller, request: CreateRunRequest, tests: validate::Chosen) -> Result<Run, Status> {
    let scheduler = &shared.scheduler;
    let asked = AskedRun {
        lease: match request.lease.as_str() {
            "" => None,
            name => Some(names::lease("lease", name)?),
        },
        priority: request.priority(),
        own_lease: request.own_lease,
    };
    let run = match before(scheduler, &caller.who, &request.request_id)? {
        Some(run) => {
            let may = shared.access.view(caller, &run.spec.rig);
            may.map_err(|_| errors::store(&StoreError::Unknown(run.id.clone())))?;
            run
        }
        None => create_new(shared, caller, &request, &asked, tests)?,
    };
    // Compare after a creation too: another request with the same id may have created the run at the same time.
    match validate::differs(&run, &request, &asked) {
        Some(differs) => {
            let name = format!("runs/{}", run.id);
            Err(errors::request_id_reused(&request.request_id, ("run", &name), differs))
        }
        None => get(scheduler, &run.id, &view::Eyes::of(shared, caller)).map_err(|error| errors::store(&error)),
    }
}

fn create_new(
    shared: &Shared,
    caller: &Caller,
    request: &CreateRunRequest,
    asked: &AskedRun,
    tests: validate::Chosen,
) -> Result<StoredRun, Status> {
    let scheduler = &shared.scheduler;
    let mut spec = request.spec.clone().unwrap_or_default();
    if let Some(lease) = &asked.lease {
        let rig = under(shared, caller, lease)?;
        if !spec.rig.is_empty() && spec.rig != rig {
            let what = format!(
                "expected {rig:?}, the rig of the lease, or nothing; seen {:?}",
                spec.rig
            );
            return Err(errors::invalid_field("spec.rig", what));
        }
        spec.rig = rig;
    }
    let lease = match &asked.lease {
        None if !asked.own_lease => scheduler.held_by(&caller.who, &spec.rig),
        lease => lease.clone(),
    };
    let sees = |rig: &str| shared.access.view(caller, rig).is_ok();
    let elsewhere = elsewhere(shared, &spec.rig)?.filter(|_| sees(&spec.rig));
    let is_known = elsewhere.is_some();
    let tests = validate::tests_of(&request.request_id, &spec, tests, &scheduler.rigs(), is_known, sees);
    let tests = tests.map_err(errors::invalid)?;
    let may = shared.access.operate(caller, &spec.rig);
    let may = may.map_err(|denied| shared.refuse(caller, "CreateRun", &spec.rig, "", &denied))?;
    if asked.priority == Priority::High {
        let ends_others = shared
            .access
            .end(caller, &spec.rig, None, "create a run of high priority");
        ends_others.map_err(|denied| shared.refuse(caller, "CreateRun", &spec.rig, "", &denied))?;
    }
    let new = NewRun {
        may,
        request_id: request.request_id.clone(),
        spec,
        tests,
        lease,
        asked: asked.clone(),
        elsewhere,
        patience: Patience {
            at_most_s: request.wait_at_most_s,
            attended: request.attended,
        },
    };
    let run = scheduler.create(new).map_err(|error| errors::create(&error))?;
    shared.note(caller, "CreateRun", &run.spec.rig, &format!("runs/{}", run.id), "");
    Ok(run)
}

/// Returns the name of the other host that has a rig; `None` if this host or no host has the rig.
fn elsewhere(shared: &Shared, rig: &str) -> Result<Option<String>, Status> {
    if shared.scheduler.rigs().find(rig).is_ok() {
        return Ok(None);
    }
    let found = shared.elsewhere().map_err(|error| errors::store(&error))?;
    let has = |(of, _): &(verbatim_proto::v1::Rig, String)| of.name.strip_prefix("rigs/") == Some(rig);
    Ok(found.into_iter().find(has).map(|(_, host)| host))
}

/// Returns the rig of an active lease, if the caller owns the lease or is an admin of the rig.
fn under(shared: &Shared, caller: &Caller, lease: &LeaseId) -> Result<String, Status> {
    let found = shared
        .scheduler
        .lease(lease)
        .map_err(|error| errors::store(&error))?
        .lease;
    leases::must_see(&shared.access, caller, &found)?;
    let rig = match shared.scheduler.is_elsewhere(&found.host) && found.state == LeaseState::Active {
        true => found.rig.clone(),
        false => {
            let rig = shared.scheduler.rig_of(lease);
            rig.map_err(|refusal| errors::refused(&refusal))?
        }
    };
    let may = shared
        .access
        .end(caller, &rig, Some(&found.owner), "run tests under this lease");
    may.map_err(|denied| shared.refuse(caller, "CreateRun", &rig, &format!("leases/{lease}"), &denied))?;
    Ok(rig)
}

/// Returns the run that an earlier request with the same id created.
fn before(scheduler: &Scheduler, who: &Identity, request_id: &str) -> Result<Option<StoredRun>, Status> {
    if request_id.is_empty() {
        return Ok(None);
    }
    let run = scheduler.store().of_request(who, request_id);
    run.map_err(|error| errors::store(&error))
}

/// Returns a run with its verdicts in full.
fn get(scheduler: &Scheduler, id: &RunId, eyes: &view::Eyes) -> Result<Run, StoreError> {
    let store = scheduler.store();
    let kept = store.get(id)?;
    let place = scheduler.place(&kept.run);
    let rigs = scheduler.rigs();
    let deviations = rigs.find(&kept.run.spec.rig).map(|rig| rig.deviations.clone());
    let verdicts = store.verdicts(id, Detail::Whole)?;
    Ok(view::run(kept, place, verdicts, &deviations.unwrap_or_default(), eyes))
}

fn list(
    scheduler: &Scheduler,
    request: &ListRunsRequest,
    (me, sees): (&Identity, Option<Vec<String>>),
    eyes: &view::Eyes,
) -> Result<ListRunsResponse, Status> {
    let mut wrong = Vec::new();
    let mut take = |field: &str, what: String| wrong.push(Violation::new(field, what));
    let size = page::size(request.page_size).map_err(|what| take("page_size", what));
    let filter = filter::parse(&request.filter, me).map_err(|what| take("filter", what));
    let after = page::after(&request.page_token, &request.filter).map_err(|what| take("page_token", what));
    let (Ok(size), Ok(filter), Ok(after)) = (size, filter, after) else {
        return Err(errors::invalid(wrong));
    };
    let filter = Filter { sees, ..filter };
    let store = scheduler.store();
    let found = store.list(&filter, after.as_ref(), size + 1);
    let mut found = found.map_err(|error| errors::store(&error))?;
    let count = found.len();
    found.truncate(size);
    let ids: Vec<RunId> = found.iter().map(|kept| kept.run.id.clone()).collect();
    let run = |kept: RunEntry| {
        let mut verdicts = store.verdicts(&kept.run.id, Detail::Heads).unwrap_or_default();
        verdicts
            .iter_mut()
            .for_each(|head| cut(&mut head.reason, view::LONGEST_REASON));
        let place = scheduler.place(&kept.run);
        Run {
            info: None,
            known_deviations: Vec::new(),
            ..view::run(kept, place, verdicts, &Register::default(), eyes)
        }
    };
    let runs = page::taken(found.into_iter().map(run));
    let last = runs.len().checked_sub(1).and_then(|last| ids.get(last));
    let next_page_token = match last {
        Some(last) if runs.len() < count => page::token(last, &request.filter),
        _ => String::new(),
    };
    Ok(ListRunsResponse { runs, next_page_token })
}

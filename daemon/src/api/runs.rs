//! RunService.

use std::sync::Arc;

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use verbatim_proto::v1::run_service_server::RunService;
use verbatim_proto::v1::{
    CancelRunRequest, CancelRunResponse, CreateRunRequest, CreateRunResponse, GetRunRequest, GetRunResponse,
    ListArtifactsRequest, ListArtifactsResponse, ListRunsRequest, ListRunsResponse, ReadArtifactRequest,
    ReadArtifactResponse, Run, WatchRunRequest, WatchRunResponse,
};

use super::errors::Violation;
use super::{Shared, artifacts, blocking, errors, filter, names, page, validate, view, watch};
use crate::access::{Caller, Identity, May, View};
use crate::sched::{NewRun, Scheduler};
use crate::store::{Filter, StoreError, StoredRun};
use verbatim_run::RunId;

/// Runs of tests on rigs.
#[derive(Clone, Debug)]
pub struct Runs {
    shared: Arc<Shared>,
}

impl Runs {
    /// The runs of a scheduler.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// A run that somebody may see.
    async fn find<T>(&self, request: &Request<T>, name: &str) -> Result<(StoredRun, May<View>), Status> {
        let caller = self.shared.caller(request)?;
        let id = names::run("name", name)?;
        let store = Arc::clone(self.shared.scheduler.store());
        let run = blocking(move || store.get(&id)).await?;
        let run = run.map_err(|error| errors::store(&error))?;
        let may = self.shared.access.view(&caller, &run.spec.rig);
        Ok((run, may.map_err(|denied| errors::denied(&denied))?))
    }
}

#[tonic::async_trait]
impl RunService for Runs {
    async fn create_run(&self, request: Request<CreateRunRequest>) -> Result<Response<CreateRunResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let request = request.into_inner();
        let shared = Arc::clone(&self.shared);
        let run = blocking(move || create(&shared, &caller, request)).await??;
        Ok(Response::new(CreateRunResponse { run: Some(run) }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let (run, _) = self.find(&request, &request.get_ref().name).await?;
        let scheduler = Arc::clone(&self.shared.scheduler);
        let run = blocking(move || get(&scheduler, &run.id))
            .await?
            .map_err(|error| errors::store(&error))?;
        Ok(Response::new(GetRunResponse { run: Some(run) }))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let sees = self.shared.access.table().sees(&caller);
        let request = request.into_inner();
        let scheduler = Arc::clone(&self.shared.scheduler);
        Ok(Response::new(
            blocking(move || list(&scheduler, &request, sees)).await??,
        ))
    }

    type WatchRunStream = ReceiverStream<Result<WatchRunResponse, Status>>;

    async fn watch_run(&self, request: Request<WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        // In this order: a run that is not live any more has its end in the store.
        let live = self
            .shared
            .scheduler
            .live(&names::run("name", &request.get_ref().name)?);
        let (run, may) = self.find(&request, &request.get_ref().name).await?;
        let cursor = request.get_ref().cursor;
        tracing::debug!(run = %run.id, rig = run.spec.rig, who = %may.who(), cursor, "watcher comes");
        let stream = watch::begin(Arc::clone(&self.shared.scheduler), run, live, cursor).await?;
        Ok(Response::new(stream))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        let (run, may) = self.find(&request, &request.get_ref().name).await?;
        let shared = Arc::clone(&self.shared);
        let cancel = move || {
            let (caller, rig, name) = (may.caller(), &run.spec.rig, format!("runs/{}", run.id));
            let may = shared.access.end(caller, rig, Some(&run.owner), "cancelling a run");
            let may = may.map_err(|denied| shared.refuse(caller, "CancelRun", rig, &name, &denied))?;
            shared.scheduler.cancel(&run, &may);
            shared.note(caller, "CancelRun", rig, &name, "");
            get(&shared.scheduler, &run.id).map_err(|error| errors::store(&error))
        };
        let run = blocking(cancel).await??;
        Ok(Response::new(CancelRunResponse { run: Some(run) }))
    }

    async fn list_artifacts(
        &self,
        request: Request<ListArtifactsRequest>,
    ) -> Result<Response<ListArtifactsResponse>, Status> {
        let (run, _) = self.find(&request, &request.get_ref().name).await?;
        let directory = self.shared.scheduler.store().record(&run.id);
        let artifacts = blocking(move || artifacts::list(&directory)).await??;
        Ok(Response::new(ListArtifactsResponse { artifacts }))
    }

    type ReadArtifactStream = ReceiverStream<Result<ReadArtifactResponse, Status>>;

    async fn read_artifact(
        &self,
        request: Request<ReadArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        let (run, _) = self.find(&request, &request.get_ref().name).await?;
        let request = request.into_inner();
        let directory = self.shared.scheduler.store().record(&run.id);
        let turn = match request.artifact == artifacts::CAPTURE {
            true => Arc::clone(&self.shared.captures).acquire_owned().await.ok(),
            false => None,
        };
        // The turn is over when the capture is made, also for who does not wait for it.
        let open = move || (artifacts::open(&directory, &request.artifact), turn).0;
        let file = blocking(open).await??;
        Ok(Response::new(artifacts::stream(file)))
    }
}

/// Creates a run, or finds that of the same request.
fn create(shared: &Shared, caller: &Caller, request: CreateRunRequest) -> Result<Run, Status> {
    let scheduler = &shared.scheduler;
    let CreateRunRequest { request_id, spec } = request;
    let spec = validate::plain(spec.unwrap_or_default());
    let run = match before(scheduler, &caller.who, &request_id)? {
        Some(run) => run,
        None => {
            let tests = validate::tests_of(&request_id, &spec, scheduler.rigs()).map_err(errors::invalid)?;
            let may = shared.access.operate(caller, &spec.rig);
            let may = may.map_err(|denied| shared.refuse(caller, "CreateRun", &spec.rig, "", &denied))?;
            let new = NewRun {
                may,
                request_id: request_id.clone(),
                spec: spec.clone(),
                tests,
            };
            let run = scheduler.create(new).map_err(|error| errors::create(&error))?;
            shared.note(caller, "CreateRun", &spec.rig, &format!("runs/{}", run.id), "");
            run
        }
    };
    // Also when the same request came twice at once.
    match validate::differs(&run.spec, &spec) {
        Some(differs) => Err(errors::request_id_reused(&request_id, &run.id, differs)),
        None => get(scheduler, &run.id).map_err(|error| errors::store(&error)),
    }
}

/// The run that the same request created before.
fn before(scheduler: &Scheduler, who: &Identity, request_id: &str) -> Result<Option<StoredRun>, Status> {
    if request_id.is_empty() {
        return Ok(None);
    }
    let run = scheduler.store().of_request(who, request_id);
    run.map_err(|error| errors::store(&error))
}

/// A run with everything.
fn get(scheduler: &Scheduler, id: &RunId) -> Result<Run, StoreError> {
    let store = scheduler.store();
    let run = store.get(id)?;
    let place = scheduler.place(&run);
    Ok(view::run(run, place, store.verdicts(id)?))
}

fn list(
    scheduler: &Scheduler,
    request: &ListRunsRequest,
    sees: Option<Vec<String>>,
) -> Result<ListRunsResponse, Status> {
    let mut wrong = Vec::new();
    let mut take = |field: &str, what: String| wrong.push(Violation::new(field, what));
    let size = page::size(request.page_size).map_err(|what| take("page_size", what));
    let filter = filter::parse(&request.filter).map_err(|what| take("filter", what));
    let after = page::after(&request.page_token, &request.filter).map_err(|what| take("page_token", what));
    let (Ok(size), Ok(filter), Ok(after)) = (size, filter, after) else {
        return Err(errors::invalid(wrong));
    };
    let filter = Filter { sees, ..filter };
    let store = scheduler.store();
    let mut found = store.list(&filter, after.as_ref(), size + 1);
    let more = found.len() > size;
    found.truncate(size);
    let next_page_token = match found.last() {
        Some(last) if more => page::token(&last.id, &request.filter),
        _ => String::new(),
    };
    let run = |run: StoredRun| {
        let verdicts = store.verdicts(&run.id).unwrap_or_default();
        let place = scheduler.place(&run);
        view::in_a_list(view::run(run, place, verdicts))
    };
    Ok(ListRunsResponse {
        runs: found.into_iter().map(run).collect(),
        next_page_token,
    })
}

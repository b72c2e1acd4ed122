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
use super::{artifacts, blocking, errors, filter, names, page, uid, validate, view, watch};
use crate::sched::Scheduler;
use crate::store::{StoreError, StoredRun};
use verbatim_run::RunId;

/// Runs of tests on rigs.
#[derive(Clone, Debug)]
pub struct Runs {
    scheduler: Arc<Scheduler>,
}

impl Runs {
    /// The runs of a scheduler.
    #[must_use]
    pub fn new(scheduler: Arc<Scheduler>) -> Self {
        Self { scheduler }
    }

    async fn find(&self, name: &str) -> Result<StoredRun, Status> {
        let id = names::run("name", name)?;
        let scheduler = Arc::clone(&self.scheduler);
        blocking(move || scheduler.store().get(&id))
            .await?
            .map_err(|error| errors::store(&error))
    }
}

#[tonic::async_trait]
impl RunService for Runs {
    async fn create_run(&self, request: Request<CreateRunRequest>) -> Result<Response<CreateRunResponse>, Status> {
        let uid = uid(&request);
        let request = request.into_inner();
        let scheduler = Arc::clone(&self.scheduler);
        let run = blocking(move || create(&scheduler, uid, request)).await??;
        Ok(Response::new(CreateRunResponse { run: Some(run) }))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let id = names::run("name", &request.into_inner().name)?;
        let scheduler = Arc::clone(&self.scheduler);
        let run = blocking(move || get(&scheduler, &id))
            .await?
            .map_err(|error| errors::store(&error))?;
        Ok(Response::new(GetRunResponse { run: Some(run) }))
    }

    async fn list_runs(&self, request: Request<ListRunsRequest>) -> Result<Response<ListRunsResponse>, Status> {
        let request = request.into_inner();
        let scheduler = Arc::clone(&self.scheduler);
        Ok(Response::new(blocking(move || list(&scheduler, &request)).await??))
    }

    type WatchRunStream = ReceiverStream<Result<WatchRunResponse, Status>>;

    async fn watch_run(&self, request: Request<WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let uid = uid(&request);
        let request = request.into_inner();
        // In this order: a run that is not live any more has its end in the store.
        let live = self.scheduler.live(&names::run("name", &request.name)?);
        let run = self.find(&request.name).await?;
        tracing::debug!(run = %run.id, rig = run.spec.rig, uid, cursor = request.cursor, "watcher comes");
        let stream = watch::begin(Arc::clone(&self.scheduler), run, live, request.cursor).await?;
        Ok(Response::new(stream))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        let uid = uid(&request);
        let id = names::run("name", &request.into_inner().name)?;
        let scheduler = Arc::clone(&self.scheduler);
        let cancel = move || {
            let run = scheduler.store().get(&id)?;
            scheduler.cancel(&run, uid);
            get(&scheduler, &id)
        };
        let run = blocking(cancel).await?.map_err(|error| errors::store(&error))?;
        Ok(Response::new(CancelRunResponse { run: Some(run) }))
    }

    async fn list_artifacts(
        &self,
        request: Request<ListArtifactsRequest>,
    ) -> Result<Response<ListArtifactsResponse>, Status> {
        let run = self.find(&request.into_inner().name).await?;
        let directory = self.scheduler.store().record(&run.id);
        let artifacts = blocking(move || artifacts::list(&directory)).await??;
        Ok(Response::new(ListArtifactsResponse { artifacts }))
    }

    type ReadArtifactStream = ReceiverStream<Result<ReadArtifactResponse, Status>>;

    async fn read_artifact(
        &self,
        request: Request<ReadArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        let request = request.into_inner();
        let run = self.find(&request.name).await?;
        let directory = self.scheduler.store().record(&run.id);
        let file = blocking(move || artifacts::open(&directory, &request.artifact)).await??;
        Ok(Response::new(artifacts::stream(file)))
    }
}

/// Creates a run, or finds that of the same request.
fn create(scheduler: &Arc<Scheduler>, uid: u32, request: CreateRunRequest) -> Result<Run, Status> {
    let CreateRunRequest { request_id, spec } = request;
    let spec = validate::plain(spec.unwrap_or_default());
    let run = match before(scheduler, uid, &request_id)? {
        Some(run) => run,
        None => {
            let new = validate::new_run(&request_id, spec.clone(), uid, scheduler.rigs()).map_err(errors::invalid)?;
            scheduler.create(new).map_err(|error| errors::create(&error))?
        }
    };
    // Also when the same request came twice at once.
    match validate::differs(&run.spec, &spec) {
        Some(differs) => Err(errors::request_id_reused(&request_id, &run.id, differs)),
        None => get(scheduler, &run.id).map_err(|error| errors::store(&error)),
    }
}

/// The run that the same request created before.
fn before(scheduler: &Scheduler, uid: u32, request_id: &str) -> Result<Option<StoredRun>, Status> {
    if request_id.is_empty() {
        return Ok(None);
    }
    let run = scheduler.store().of_request(uid, request_id);
    run.map_err(|error| errors::store(&error))
}

/// A run with everything.
fn get(scheduler: &Scheduler, id: &RunId) -> Result<Run, StoreError> {
    let store = scheduler.store();
    let run = store.get(id)?;
    let place = scheduler.place(&run);
    Ok(view::run(run, place, store.verdicts(id)?))
}

fn list(scheduler: &Scheduler, request: &ListRunsRequest) -> Result<ListRunsResponse, Status> {
    let mut wrong = Vec::new();
    let mut take = |field: &str, what: String| wrong.push(Violation::new(field, what));
    let size = page::size(request.page_size).map_err(|what| take("page_size", what));
    let filter = filter::parse(&request.filter).map_err(|what| take("filter", what));
    let after = page::after(&request.page_token, &request.filter).map_err(|what| take("page_token", what));
    let (Ok(size), Ok(filter), Ok(after)) = (size, filter, after) else {
        return Err(errors::invalid(wrong));
    };
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

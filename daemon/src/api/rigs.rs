//! RigService.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use verbatim_proto::v1::rig_service_server::RigService;
use verbatim_proto::v1::{
    GetRigRequest, GetRigResponse, ListRigsRequest, ListRigsResponse, RestoreRigRequest, RestoreRigResponse, Rig,
};

use super::{blocking, errors, names, uid, view};
use crate::sched::{Scheduler, convert};
use verbatim_rig::RigConfig;

/// Where tests run.
#[derive(Clone, Debug)]
pub struct Rigs {
    scheduler: Arc<Scheduler>,
}

impl Rigs {
    /// The rigs of a scheduler.
    #[must_use]
    pub fn new(scheduler: Arc<Scheduler>) -> Self {
        Self { scheduler }
    }

    fn find(&self, name: &str) -> Result<RigConfig, Status> {
        let rig = names::rig("name", name)?;
        let found = self.scheduler.rigs().find(rig).cloned();
        found.map_err(|unknown| errors::not_found("RIG_UNKNOWN", name, &unknown.to_string()))
    }

    async fn view(&self, rigs: Vec<RigConfig>) -> Result<Vec<Rig>, Status> {
        let scheduler = Arc::clone(&self.scheduler);
        let view = move |rig: &RigConfig| view::rig(rig, scheduler.lane(&rig.name), scheduler.pending(rig).as_ref());
        blocking(move || rigs.iter().map(view).collect()).await
    }
}

#[tonic::async_trait]
impl RigService for Rigs {
    async fn list_rigs(&self, _: Request<ListRigsRequest>) -> Result<Response<ListRigsResponse>, Status> {
        let rigs = self.view(self.scheduler.rigs().rigs.clone()).await?;
        Ok(Response::new(ListRigsResponse { rigs }))
    }

    async fn get_rig(&self, request: Request<GetRigRequest>) -> Result<Response<GetRigResponse>, Status> {
        let rig = self.find(&request.into_inner().name)?;
        let rig = self.view(vec![rig]).await?.pop();
        Ok(Response::new(GetRigResponse { rig }))
    }

    async fn restore_rig(&self, request: Request<RestoreRigRequest>) -> Result<Response<RestoreRigResponse>, Status> {
        let uid = uid(&request);
        let rig = self.find(&request.into_inner().name)?;
        let done = self
            .scheduler
            .restore(&rig.name)
            .map_err(|refusal| errors::refused(&refusal))?;
        tracing::info!(rig = rig.name, uid, "restore asked for");
        let done = done
            .await
            .map_err(|_| errors::internal("the restore ended without a result; look at the daemon's log"))?;
        let rig = self.view(vec![rig]).await?.pop();
        Ok(Response::new(RestoreRigResponse {
            rig,
            areas: done.areas.iter().map(convert::restored).collect(),
        }))
    }
}

//! RigService.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use verbatim_proto::v1::rig_service_server::RigService;
use verbatim_proto::v1::{
    GetRigRequest, GetRigResponse, ListRigsRequest, ListRigsResponse, RestoreRigRequest, RestoreRigResponse, Rig,
};

use super::{Shared, blocking, errors, names, view};
use crate::access::{self, Identity, May, View};
use crate::sched::Scheduler;
use crate::store::Filter;
use verbatim_rig::RigConfig;

/// Where tests run.
#[derive(Clone, Debug)]
pub struct Rigs {
    shared: Arc<Shared>,
}

impl Rigs {
    /// The rigs of a scheduler.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// A rig that somebody may see.
    fn find<T>(&self, request: &Request<T>, name: &str) -> Result<(RigConfig, May<View>), Status> {
        let caller = self.shared.caller(request)?;
        let rig = names::rig("name", name)?;
        let found = self.shared.scheduler.rigs().find(rig).cloned();
        let found = found.map_err(|unknown| errors::not_found("RIG_UNKNOWN", name, &unknown.to_string()))?;
        let may = self.shared.access.view(&caller, rig);
        Ok((found, may.map_err(|denied| errors::denied(&denied))?))
    }

    async fn view(&self, rigs: Vec<RigConfig>) -> Result<Vec<Rig>, Status> {
        let scheduler = Arc::clone(&self.shared.scheduler);
        let view = move |rig: &RigConfig| view::rig(rig, scheduler.lane(&rig.name), scheduler.pending(rig).as_ref());
        blocking(move || rigs.iter().map(view).collect()).await
    }
}

/// Whose the runs on a rig are: who has the one that began last, and may have left the device changed.
fn owner(scheduler: &Scheduler, rig: &str) -> Option<Identity> {
    let on_it = Filter {
        rig: Some(rig.into()),
        ..Filter::default()
    };
    let runs = scheduler.store().list(&on_it, None, LAST_RUNS);
    runs.into_iter()
        .find(|run| run.started_ns.is_some())
        .map(|run| run.owner)
}

/// Among so many runs of a rig the last that began is looked for; the others ended in its queue.
const LAST_RUNS: usize = 100;

#[tonic::async_trait]
impl RigService for Rigs {
    async fn list_rigs(&self, request: Request<ListRigsRequest>) -> Result<Response<ListRigsResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let sees = self.shared.access.table().sees(&caller);
        let seen = |rig: &&RigConfig| sees.as_ref().is_none_or(|patterns| access::names(patterns, &rig.name));
        let rigs = &self.shared.scheduler.rigs().rigs;
        let rigs = self.view(rigs.iter().filter(seen).cloned().collect()).await?;
        Ok(Response::new(ListRigsResponse { rigs }))
    }

    async fn get_rig(&self, request: Request<GetRigRequest>) -> Result<Response<GetRigResponse>, Status> {
        let (rig, _) = self.find(&request, &request.get_ref().name)?;
        let rig = self.view(vec![rig]).await?.pop();
        Ok(Response::new(GetRigResponse { rig }))
    }

    async fn restore_rig(&self, request: Request<RestoreRigRequest>) -> Result<Response<RestoreRigResponse>, Status> {
        let (rig, may) = self.find(&request, &request.get_ref().name)?;
        let shared = Arc::clone(&self.shared);
        let name = rig.name.clone();
        let asked = move || {
            let caller = may.caller();
            let owner = owner(&shared.scheduler, &name);
            let may = shared.access.end(caller, &name, owner.as_ref(), "restoring a rig");
            let may = may.map_err(|denied| shared.refuse(caller, "RestoreRig", &name, "", &denied))?;
            let done = shared.scheduler.restore(&may);
            let done = done.map_err(|refusal| errors::refused(&refusal))?;
            tracing::info!(rig = name, who = %may.who(), "restore asked for");
            shared.note(caller, "RestoreRig", &name, "", "");
            Ok::<_, Status>(done)
        };
        let done = blocking(asked).await??;
        let done = done
            .await
            .map_err(|_| errors::internal("the restore ended without a result; look at the daemon's log"))?;
        let rig = self.view(vec![rig]).await?.pop();
        Ok(Response::new(RestoreRigResponse { rig, areas: done.areas }))
    }
}

//! The implementation of RigService.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use verbatim_proto::v1::rig_service_server::RigService;
use verbatim_proto::v1::{
    DrainRigRequest, DrainRigResponse, GetRigRequest, GetRigResponse, ListRigsRequest, ListRigsResponse,
    ReloadRigsRequest, ReloadRigsResponse, RestoreRigRequest, RestoreRigResponse, Rig, WatchRigsRequest,
    WatchRigsResponse,
};

use super::hidden::hide;
use super::streams::Answer;
use super::{Shared, blocking, errors, names, view};
use crate::access::{self, Access, Caller, Identity, May, View};
use crate::sched::{Reloaded, Scheduler};
use crate::store::Filter;
use verbatim_record::secrets::Secrets;
use verbatim_rig::RigConfig;

/// The service of rigs.
#[derive(Clone, Debug)]
pub struct Rigs {
    shared: Arc<Shared>,
}

impl Rigs {
    /// Creates the service.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns a rig that the caller may see.
    fn find<T>(&self, request: &Request<T>, name: &str) -> Result<(RigConfig, May<View>), Status> {
        let caller = self.shared.caller(request)?;
        let rig = names::rig("name", name)?;
        let rigs = self.shared.scheduler.rigs();
        let found = rigs.find_seen(rig, |rig| self.shared.access.view(&caller, rig).is_ok());
        let found = found.map_err(|unknown| errors::not_found("RIG_UNKNOWN", name, &unknown.to_string()))?;
        let may = self.shared.access.view(&caller, rig);
        Ok((found.clone(), may.map_err(|denied| errors::denied(&denied))?))
    }

    /// Returns all rigs that the caller may see.
    async fn seen(&self, caller: &Caller) -> Result<Vec<Rig>, Status> {
        let (shared, caller) = (Arc::clone(&self.shared), caller.clone());
        let seen = move || {
            let sees = Sees::of(&shared, &caller);
            let own = shared.rigs.now(&shared.scheduler);
            let own = own.rigs.iter().filter(|rig| sees.rig(rig)).map(|rig| Rig::clone(rig));
            own.chain(sees.elsewhere(&shared)).collect()
        };
        blocking(seen).await
    }

    async fn view(&self, rig: RigConfig) -> Result<Rig, Status> {
        let scheduler = Arc::clone(&self.shared.scheduler);
        blocking(move || {
            let lab = scheduler.store().lab();
            let host = lab.map(|lab| lab.host().to_string()).unwrap_or_default();
            let (slot, journals) = (scheduler.slot(&rig.name), scheduler.all_pending());
            Rig {
                host,
                ..view::rig(&rig, slot, scheduler.pending(&rig, &journals).as_ref())
            }
        })
        .await
    }
}

/// The rigs that a caller may see, as patterns; `None` for all rigs.
struct Sees(Option<Vec<String>>);

impl Sees {
    fn of(shared: &Shared, caller: &Caller) -> Self {
        Self(shared.access.table().sees(caller))
    }

    fn rig(&self, rig: &Rig) -> bool {
        let name = rig.name.trim_start_matches("rigs/");
        self.0.as_ref().is_none_or(|patterns| access::names(patterns, name))
    }

    /// Returns the visible rigs of other hosts. Blocks on the store.
    fn elsewhere(&self, shared: &Shared) -> impl Iterator<Item = Rig> {
        // While the database cannot be reached, the list contains only the rigs of this host.
        let others = shared.all_elsewhere().unwrap_or_default();
        others.into_iter().map(|(rig, ..)| rig).filter(|rig| self.rig(rig))
    }
}

/// The rigs that a watcher received last.
#[derive(Default)]
struct Told {
    own: Vec<Arc<Rig>>,
    elsewhere: Vec<Rig>,
    /// The count of [`Scheduler::changes`] when the watcher received them.
    count: u64,
}

impl Told {
    /// Returns the rigs that have changed since the watcher's last update. Their state may be up to [`PAUSE`] old.
    /// Blocks on the store.
    fn next(&mut self, shared: &Shared, caller: &Caller) -> Vec<Rig> {
        // The caller's roles may change during the watch.
        let sees = Sees::of(shared, caller);
        let last = shared.rigs.lately(&shared.scheduler, PAUSE);
        self.count = last.count;
        let mut new = Vec::new();
        // Both lists have the same order, so the last state of a rig is usually at the next position.
        let mut at = 0;
        let mut own = Vec::with_capacity(last.rigs.len());
        for rig in last.rigs.iter().filter(|rig| sees.rig(rig)) {
            let is_it = |at: &usize| self.own.get(*at).is_some_and(|told| told.name == rig.name);
            let anywhere = || self.own.iter().position(|told| told.name == rig.name);
            let found = Some(at).filter(is_it).or_else(anywhere);
            let told = found.map(|found| &self.own[found]);
            if told.is_none_or(|told| !Arc::ptr_eq(told, rig) && told != rig) {
                new.push(Rig::clone(rig));
            }
            at = found.map_or(at, |found| found + 1);
            own.push(Arc::clone(rig));
        }
        self.own = own;
        let elsewhere: Vec<Rig> = sees.elsewhere(shared).collect();
        new.extend(elsewhere.iter().filter(|rig| !self.elsewhere.contains(rig)).cloned());
        self.elsewhere = elsewhere;
        new
    }
}

/// Returns the owner of the newest run that began on a rig. This run may have left the device changed.
fn owner(scheduler: &Scheduler, rig: &str) -> Option<Identity> {
    let on_it = Filter {
        rig: Some(rig.into()),
        ..Filter::default()
    };
    let runs = scheduler.store().list(&on_it, None, LAST_RUNS).unwrap_or_default();
    runs.into_iter()
        .map(|kept| kept.run)
        .find(|run| run.started_ns.is_some())
        .map(|run| run.owner)
}

/// The rig name in access checks and audit lines of actions on all rigs. No rig has this name, and only a role on
/// all rigs matches it.
const ALL: &str = "*";
/// The shortest time between two updates that a watcher receives.
const PAUSE: Duration = Duration::from_millis(100);
/// The maximum length in characters of the reason for a drain.
const LONGEST_REASON: usize = 200;
/// How many of a rig's newest runs are searched for a run that began.
const LAST_RUNS: usize = 100;

#[tonic::async_trait]
impl RigService for Rigs {
    async fn list_rigs(&self, request: Request<ListRigsRequest>) -> Result<Response<ListRigsResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let rigs = self.seen(&caller).await?;
        Ok(Response::new(ListRigsResponse { rigs }))
    }

    async fn get_rig(&self, request: Request<GetRigRequest>) -> Result<Response<GetRigResponse>, Status> {
        let (rig, _) = self.find(&request, &request.get_ref().name)?;
        let rig = self.view(rig).await?;
        Ok(Response::new(GetRigResponse { rig: Some(rig) }))
    }

    type WatchRigsStream = Answer<WatchRigsResponse>;

    async fn watch_rigs(&self, request: Request<WatchRigsRequest>) -> Result<Response<Self::WatchRigsStream>, Status> {
        let caller = self.shared.caller(&request)?;
        let mut changes = self.shared.scheduler.changes();
        let reader = caller.clone();
        let may_watch = move |access: &Access| access.any(&reader);
        let (sender, answer) = self.shared.open(&caller.who, 1, may_watch)?;
        let of = self.clone();
        let shares = self.shared.scheduler.store().lab().is_some();
        tokio::spawn(async move {
            let mut told = Told::default();
            loop {
                let (shared, caller) = (Arc::clone(&of.shared), caller.clone());
                let look = move || {
                    let rigs = told.next(&shared, &caller);
                    (told, rigs)
                };
                let rigs;
                (told, rigs) = match blocking(look).await {
                    Ok(looked) => looked,
                    Err(failed) => {
                        // Ignore an error: the client may have disconnected.
                        let _ = sender.send(Err(failed)).await;
                        return;
                    }
                };
                if !rigs.is_empty() && sender.send(Ok(WatchRigsResponse { rigs })).await.is_err() {
                    return;
                }
                let count = told.count;
                tokio::select! {
                    gone = async { changes.wait_for(|now| *now != count).await.is_err() } => if gone { return },
                    // Changes on other hosts appear only in the database.
                    () = tokio::time::sleep(super::ELSEWHERE), if shares => {}
                    () = sender.closed() => return,
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(Response::new(answer))
    }

    async fn drain_rig(&self, request: Request<DrainRigRequest>) -> Result<Response<DrainRigResponse>, Status> {
        let (rig, may) = self.find(&request, &request.get_ref().name)?;
        let (shared, reason) = (Arc::clone(&self.shared), request.into_inner().reason);
        let characters = reason.chars().count();
        if characters > LONGEST_REASON {
            let what = format!("expected at most {LONGEST_REASON} characters, seen {characters}");
            return Err(errors::invalid_field("reason", what));
        }
        let name = rig.name.clone();
        let drain = move || {
            let (call, what) = match reason.is_empty() {
                true => ("UndrainRig", "put this rig back into use"),
                false => ("DrainRig", "take this rig out of use"),
            };
            let caller = may.caller();
            let may = shared.access.end(caller, &name, None, what);
            let may = may.map_err(|denied| shared.refuse(caller, call, &name, "", &denied))?;
            let why = (!reason.is_empty()).then(|| format!("drained by {}: {reason}", may.who().in_words()));
            shared
                .scheduler
                .drain(&may, why)
                .map_err(|error| errors::create(&error))?;
            shared.note(caller, call, &name, "", "");
            Ok::<_, Status>(())
        };
        blocking(drain).await??;
        let rig = self.view(rig).await?;
        Ok(Response::new(DrainRigResponse { rig: Some(rig) }))
    }

    async fn reload_rigs(&self, request: Request<ReloadRigsRequest>) -> Result<Response<ReloadRigsResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let shared = Arc::clone(&self.shared);
        let reload = move || {
            let may = shared.access.end(&caller, ALL, None, "reload the rig file");
            may.map_err(|denied| shared.refuse(&caller, "ReloadRigs", ALL, "", &denied))?;
            let done = shared.scheduler.reload();
            let refused = done.as_ref().err().map(ToString::to_string).unwrap_or_default();
            shared.note(&caller, "ReloadRigs", ALL, "", &refused);
            done.map_err(|error| errors::not_reloaded(&error))
        };
        let Reloaded {
            added,
            changed,
            removed,
            leaving,
        } = blocking(reload).await??;
        Ok(Response::new(ReloadRigsResponse {
            added,
            changed,
            removed,
            leaving,
        }))
    }

    async fn restore_rig(&self, request: Request<RestoreRigRequest>) -> Result<Response<RestoreRigResponse>, Status> {
        let (rig, may) = self.find(&request, &request.get_ref().name)?;
        let eyes = view::Eyes::of(&self.shared, may.caller());
        let shared = Arc::clone(&self.shared);
        let name = rig.name.clone();
        let asked = move || {
            let caller = may.caller();
            let owner = owner(&shared.scheduler, &name);
            let may = shared.access.end(caller, &name, owner.as_ref(), "restore this rig");
            let may = may.map_err(|denied| shared.refuse(caller, "RestoreRig", &name, "", &denied))?;
            let done = shared.scheduler.restore(&may);
            let done = done.map_err(|refusal| errors::refused(&refusal))?;
            tracing::info!(rig = name, who = %may.who(), "restore requested");
            shared.note(caller, "RestoreRig", &name, "", "");
            Ok::<_, Status>(done)
        };
        let done = blocking(asked).await??;
        let done = done
            .await
            .map_err(|_| errors::internal("the restore ended without a result; look at the daemon's log"))?;
        let name = rig.name.clone();
        let rig = self.view(rig).await?;
        let response = RestoreRigResponse {
            rig: Some(rig),
            areas: done.areas,
        };
        // The owner of the last run may restore the rig, even if the owner is now only a viewer.
        Ok(Response::new(match eyes.see_keys(&name) {
            true => response,
            false => hide("RestoreRigResponse", &response, &mut Secrets::default()),
        }))
    }
}

//! The implementation of LeaseService.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use verbatim_proto::v1::lease_service_server::LeaseService;
use verbatim_proto::v1::{
    CreateLeaseRequest, CreateLeaseResponse, EndLeaseRequest, EndLeaseResponse, GetLeaseRequest, GetLeaseResponse,
    Lease, LeaseState, ListLeasesRequest, ListLeasesResponse, Priority, RenewLeaseRequest, RenewLeaseResponse,
    WatchLeaseRequest, WatchLeaseResponse,
};

use super::errors::Violation;
use super::streams::Answer;
use super::{Shared, blocking, errors, names, page, validate, view};
use crate::access::{self, Access, Caller, Denied, End, May};
use crate::sched::{CreateError, LONGEST_LEASE, LeaseView, NewLease, Scheduler, USUAL_LEASE};
use crate::store::{AskedLease, LeaseId, StoreError, StoredLease};

/// The maximum number of labels in a request.
const MOST_LABELS: usize = 32;
/// The shortest time between two changes that a watcher receives.
const PAUSE: Duration = Duration::from_millis(100);

/// The service of leases.
#[derive(Clone, Debug)]
pub struct Leases {
    shared: Arc<Shared>,
}

impl Leases {
    /// Creates the service.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns a lease, if the caller owns it or may see one of its rigs.
    async fn find<T>(&self, request: &Request<T>, name: &str) -> Result<(LeaseView, Caller), Status> {
        let caller = self.shared.caller(request)?;
        let id = names::lease("name", name)?;
        let shared = Arc::clone(&self.shared);
        let found = blocking(move || shared.scheduler.lease(&id)).await?;
        let found = found.map_err(|error| errors::store(&error))?;
        must_see(&self.shared.access, &caller, &found.lease)?;
        Ok((found, caller))
    }

    /// Applies `act` to a lease, and records the call in the audit log. Only the lease's owner or an admin of its
    /// rig may make the call. `call` is the name of the call, and `what` is its description in errors.
    async fn as_owner<T>(
        &self,
        request: &Request<T>,
        name: &str,
        (call, what): (&'static str, &'static str),
        act: impl FnOnce(&Arc<Scheduler>, &LeaseId, &May<End>) -> Result<(), CreateError> + Send + 'static,
    ) -> Result<Lease, Status> {
        let (found, caller) = self.find(request, name).await?;
        let (shared, name) = (Arc::clone(&self.shared), name.to_string());
        let act = move || {
            let id = found.lease.id.clone();
            let may = may_end(&shared.access, &caller, &found.lease, what);
            let (may, rig) = match may {
                Ok(may) => (may.clone(), may.rig().to_string()),
                Err((rig, denied)) => return Err(shared.refuse(&caller, call, &rig, &name, &denied)),
            };
            act(&shared.scheduler, &id, &may).map_err(|error| errors::create(&error))?;
            shared.note(&caller, call, &rig, &name, "");
            let found = shared.scheduler.lease(&id).map_err(|error| errors::store(&error))?;
            Ok(view::lease(found, &view::Eyes::of(&shared, &caller)))
        };
        blocking(act).await?
    }
}

#[tonic::async_trait]
impl LeaseService for Leases {
    async fn create_lease(
        &self,
        request: Request<CreateLeaseRequest>,
    ) -> Result<Response<CreateLeaseResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let (shared, request) = (Arc::clone(&self.shared), request.into_inner());
        let lease = blocking(move || create(&shared, &caller, request)).await??;
        Ok(Response::new(CreateLeaseResponse { lease: Some(lease) }))
    }

    async fn get_lease(&self, request: Request<GetLeaseRequest>) -> Result<Response<GetLeaseResponse>, Status> {
        let (found, caller) = self.find(&request, &request.get_ref().name).await?;
        let lease = Some(view::lease(found, &view::Eyes::of(&self.shared, &caller)));
        Ok(Response::new(GetLeaseResponse { lease }))
    }

    async fn list_leases(&self, request: Request<ListLeasesRequest>) -> Result<Response<ListLeasesResponse>, Status> {
        let caller = self.shared.caller(&request)?;
        let eyes = view::Eyes::of(&self.shared, &caller);
        let size = page::size(request.get_ref().page_size);
        let size = size.map_err(|what| errors::invalid_field("page_size", what))?;
        let (scheduler, ended) = (Arc::clone(&self.shared.scheduler), request.get_ref().ended);
        let mine = request.get_ref().mine.then(|| caller.who.clone());
        let sees = eyes.clone();
        let seen = move |view: &LeaseView| {
            mine.as_ref().is_none_or(|who| *who == view.lease.owner) && is_on_seen_rig(&view.lease, |rig| sees.see(rig))
        };
        let list = move || {
            let mut at_most = size;
            loop {
                let mut found = scheduler.leases(ended, at_most)?;
                let is_all = found.len() < at_most;
                found.retain(&seen);
                if is_all || found.len() >= size {
                    found.truncate(size);
                    return Ok(found);
                }
                // Some of the newest leases are hidden from the caller, so read more.
                at_most = at_most.saturating_mul(8);
            }
        };
        let found = blocking(list)
            .await?
            .map_err(|error: StoreError| errors::store(&error))?;
        let leases = found.into_iter().map(|found| view::lease(found, &eyes)).collect();
        Ok(Response::new(ListLeasesResponse { leases }))
    }

    type WatchLeaseStream = Answer<WatchLeaseResponse>;

    async fn watch_lease(
        &self,
        request: Request<WatchLeaseRequest>,
    ) -> Result<Response<Self::WatchLeaseStream>, Status> {
        let mut changes = self.shared.scheduler.changes();
        let (found, caller) = self.find(&request, &request.get_ref().name).await?;
        let (reader, of) = (caller.clone(), found.lease.clone());
        let may_watch = move |access: &Access| may_see(access, &reader, &of);
        let (sender, answer) = self.shared.open(&caller.who, 1, may_watch)?;
        let (scheduler, id) = (Arc::clone(&self.shared.scheduler), found.lease.id.clone());
        let shares = scheduler.store().lab().is_some();
        let watching = (caller.who == found.lease.owner).then(|| scheduler.watching(format!("leases/{id}")));
        let eyes = view::Eyes::of(&self.shared, &caller);
        let mut lease = view::lease(found, &eyes);
        tokio::spawn(async move {
            let _watching = watching;
            loop {
                let ended = lease.state() == LeaseState::Ended;
                if sender
                    .send(Ok(WatchLeaseResponse {
                        lease: Some(lease.clone()),
                    }))
                    .await
                    .is_err()
                    || ended
                {
                    return;
                }
                loop {
                    tokio::select! {
                        changed = changes.changed() => if changed.is_err() { return },
                        // Changes on another host appear only in the database.
                        () = tokio::time::sleep(super::ELSEWHERE), if shares => {}
                        () = sender.closed() => return,
                    }
                    tokio::time::sleep(PAUSE).await;
                    let (scheduler, id) = (Arc::clone(&scheduler), id.clone());
                    let Ok(Ok(now)) = blocking(move || scheduler.lease(&id)).await else {
                        return;
                    };
                    let now = view::lease(now, &eyes);
                    if now != lease {
                        lease = now;
                        break;
                    }
                }
            }
        });
        Ok(Response::new(answer))
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        let lasts = lasts(request.get_ref().lasts_s).map_err(|wrong| errors::invalid(vec![wrong]))?;
        let name = request.get_ref().name.clone();
        let renew = move |scheduler: &Arc<Scheduler>, id: &LeaseId, may: &May<End>| scheduler.renew(id, lasts, may);
        let lease = self
            .as_owner(&request, &name, ("RenewLease", "renew this lease"), renew)
            .await?;
        Ok(Response::new(RenewLeaseResponse { lease: Some(lease) }))
    }

    async fn end_lease(&self, request: Request<EndLeaseRequest>) -> Result<Response<EndLeaseResponse>, Status> {
        let name = request.get_ref().name.clone();
        let end = |scheduler: &Arc<Scheduler>, id: &LeaseId, may: &May<End>| scheduler.end_lease(id, may);
        let lease = self
            .as_owner(&request, &name, ("EndLease", "end this lease"), end)
            .await?;
        Ok(Response::new(EndLeaseResponse { lease: Some(lease) }))
    }
}

/// Checks that the caller has a role, and owns a lease or may see one of its rigs.
fn may_see(access: &Access, caller: &Caller, lease: &StoredLease) -> Result<(), Denied> {
    access.any(caller)?;
    if caller.who == lease.owner || is_on_seen_rig(lease, |rig| access.view(caller, rig).is_ok()) {
        return Ok(());
    }
    let rig = lease.rigs.first().map_or("", String::as_str);
    access.view(caller, rig).map(drop)
}

/// Returns whether the caller sees the rig that a lease holds or, before the grant, one of its rigs.
fn is_on_seen_rig(lease: &StoredLease, sees: impl Fn(&str) -> bool) -> bool {
    match lease.rig.as_str() {
        "" => lease.rigs.iter().any(|rig| sees(rig)),
        rig => sees(rig),
    }
}

/// Checks that the caller may see a lease. Another lease looks like an absent one.
pub(super) fn must_see(access: &Access, caller: &Caller, lease: &StoredLease) -> Result<(), Status> {
    may_see(access, caller, lease).map_err(|_| errors::store(&StoreError::NoLease(lease.id.clone())))
}

/// Checks that the caller owns a lease, or is an admin of the rig that the lease holds. A waiting lease may get
/// any of its rigs at any moment, so another caller must be an admin of all its rigs. The error names the rig on
/// which the caller lacks the right.
fn may_end(
    access: &Access,
    caller: &Caller,
    lease: &StoredLease,
    what: &str,
) -> Result<May<End>, (String, access::Denied)> {
    let rigs = match lease.rig.is_empty() {
        true => lease.rigs.as_slice(),
        false => std::slice::from_ref(&lease.rig),
    };
    let on = |rig: &String| {
        let may = access.end(caller, rig, Some(&lease.owner), what);
        may.map_err(|denied| match denied {
            // This error would name a rig that the caller does not see.
            Denied::Role { who, .. } => Denied::NotOwner {
                who,
                what: what.into(),
                owner: format!("the owner, {}, or an admin of all its rigs", lease.owner),
            },
            denied => denied,
        })
        .map_err(|denied| (rig.clone(), denied))
    };
    let mut each = rigs.iter().map(on);
    let first = each.next().unwrap_or_else(|| on(&String::new()));
    match caller.who == lease.owner {
        // The owner may no longer see some of the rigs, so the right on one rig is enough.
        true => each.fold(first, |found, next| found.or(next)),
        false => each.fold(first, |found, next| found.and_then(|may| next.map(|_| may))),
    }
}

fn lasts(asked_s: u64) -> Result<Duration, Violation> {
    match asked_s {
        0 => Ok(USUAL_LEASE),
        s if s <= LONGEST_LEASE.as_secs() => Ok(Duration::from_secs(s)),
        s => Err(Violation::new(
            "lasts_s",
            format!(
                "expected at most {} s, seen {s}; renew it when it is about to end",
                LONGEST_LEASE.as_secs()
            ),
        )),
    }
}

fn create(shared: &Shared, caller: &Caller, mut request: CreateLeaseRequest) -> Result<Lease, Status> {
    request.labels.sort();
    request.labels.dedup();
    if let Some(rig) = request.rig.strip_prefix("rigs/") {
        request.rig = rig.into();
    }
    let attended = request.attended;
    let priority = request.priority();
    let rig = request.rig.as_str();
    let mut wrong: Vec<Violation> = validate::request_id(&request.request_id).into_iter().collect();
    let rigs = shared.scheduler.rigs();
    let elsewhere = shared.elsewhere().map_err(|error| errors::store(&error))?;
    let sees = |rig: &str| shared.access.view(caller, rig).is_ok();
    let is_elsewhere = |name: &str| {
        sees(name)
            && elsewhere
                .iter()
                .any(|(of, _)| of.name.strip_prefix("rigs/") == Some(name))
    };
    let count = request.labels.len();
    if count > MOST_LABELS {
        wrong.push(Violation::new(
            "labels",
            format!("expected at most {MOST_LABELS}, seen {count}"),
        ));
    }
    wrong.extend(
        request
            .labels
            .iter()
            .filter_map(|label| names::too_long("labels", label))
            .take(1),
    );
    if let Some(too_long) = names::too_long("rig", rig) {
        wrong.push(too_long);
    } else if rig.is_empty() && request.labels.is_empty() {
        wrong.push(Violation::new(
            "rig",
            "expected a rig, or labels that it must have; ListRigs names both",
        ));
    } else if !rig.is_empty()
        && !is_elsewhere(rig)
        && let Err(unknown) = rigs.find_seen(rig, sees)
    {
        wrong.push(Violation::new("rig", unknown.to_string()));
    }
    let lasts = lasts(request.lasts_s).map_err(|violation| wrong.push(violation));
    if let Ok(lasts) = lasts
        && let Some(before) = before(shared, caller, &request.request_id)?
    {
        return again((shared, caller), &before, &request, lasts);
    }
    let (Ok(lasts), true) = (lasts, wrong.is_empty()) else {
        return Err(errors::invalid(wrong));
    };
    let fits = |name: &str, has: &[String]| {
        // Only callers who may see a rig may learn its labels.
        (if rig.is_empty() { sees(name) } else { name == rig })
            && request.labels.iter().all(|label| has.contains(label))
    };
    let own = rigs
        .rigs
        .iter()
        .filter(|of| rig.is_empty() || of.name == rig)
        .map(|of| (of.name.clone(), of.all_labels().collect(), None));
    let others = elsewhere.iter().map(|(of, host)| {
        let name = of.name.trim_start_matches("rigs/").to_string();
        (name, of.labels.clone(), Some(host.clone()))
    });
    let fitting: Vec<(String, Option<String>)> = own
        .chain(others)
        .filter(|(name, has, _): &(String, Vec<String>, _)| fits(name, has))
        .map(|(name, _, host)| (name, host))
        .collect();
    if fitting.is_empty() {
        let what = format!(
            "expected labels that one rig has, seen {}; `verbatim rigs` shows the labels of each rig",
            request.labels.join(", ")
        );
        return Err(errors::invalid_field("labels", what));
    }
    // Only callers who may end the leases of others may use high priority.
    let may = |rig: &String| match priority {
        Priority::High => {
            let ends_others = shared.access.end(caller, rig, None, "create a lease of high priority");
            ends_others.and_then(|_| shared.access.operate(caller, rig))
        }
        _ => shared.access.operate(caller, rig),
    };
    let mut allowed = Vec::new();
    let mut denied = None;
    let mut of_others = Vec::new();
    for (rig, host) in &fitting {
        match may(rig) {
            Ok(may) => {
                allowed.push(may);
                of_others.extend(host.iter().map(|host| (rig.clone(), host.clone())));
            }
            Err(why) => drop(denied.get_or_insert((rig, why))),
        }
    }
    if let (true, Some((rig, why))) = (allowed.is_empty(), denied) {
        return Err(shared.refuse(caller, "CreateLease", rig, "", &why));
    }
    let new = NewLease {
        may: allowed,
        request_id: request.request_id.clone(),
        asked: AskedLease {
            rig: request.rig.clone(),
            labels: request.labels.clone(),
        },
        lasts,
        priority,
        elsewhere: of_others,
        attended,
    };
    let lease = shared.scheduler.reserve(new).map_err(|error| errors::create(&error))?;
    // Another request with the same id may have created the lease at the same time.
    let made = again((shared, caller), &lease, &request, lasts)?;
    // Record the granted rig or, for a waiting lease, all acceptable rigs.
    let rigs = match made.rig.as_str() {
        "" => lease.rigs.join(","),
        rig => rig.into(),
    };
    shared.note(caller, "CreateLease", &rigs, &made.name, "");
    Ok(made)
}

/// Returns the lease that an earlier request with the same id created.
fn before(shared: &Shared, caller: &Caller, request_id: &str) -> Result<Option<StoredLease>, Status> {
    if request_id.is_empty() {
        return Ok(None);
    }
    let lease = shared.scheduler.store().lease_of_request(&caller.who, request_id);
    lease.map_err(|error| errors::store(&error))
}

/// Returns the current state of a lease that this request, or an earlier one with the same id, created.
fn again(
    (shared, caller): (&Shared, &Caller),
    of: &StoredLease,
    request: &CreateLeaseRequest,
    lasts: Duration,
) -> Result<Lease, Status> {
    match validate::lease_differs(of, request, lasts.as_secs()) {
        Some(differs) => {
            let name = format!("leases/{}", of.id);
            Err(errors::request_id_reused(
                &request.request_id,
                ("lease", &name),
                differs,
            ))
        }
        None => {
            let found = shared.scheduler.lease(&of.id).map_err(|error| errors::store(&error))?;
            Ok(view::lease(found, &view::Eyes::of(shared, caller)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Grant, Identity, Role, Table, Who};
    use crate::store::LeaseId;
    use verbatim_run::RunId;

    #[test]
    fn waiting_lease_needs_admin_of_all_rigs() {
        let grant = |role, name: &str, rigs: &[&str]| Grant {
            role,
            who: vec![Who::Certificate(name.into())],
            rigs: rigs.iter().map(ToString::to_string).collect(),
        };
        let access = Access::new(Table::new(
            0,
            vec![
                grant(Role::Operator, "alice", &["b"]),
                grant(Role::Viewer, "dave", &[]),
                grant(Role::Admin, "dave", &["a"]),
                grant(Role::Admin, "erin", &["a", "b"]),
            ],
        ));
        let owner = Identity::Certificate("alice".into());
        let caller = |name: &str| Caller {
            who: Identity::Certificate(name.into()),
            gid: None,
            from: "192.0.2.1:5".into(),
        };
        let id = LeaseId::like(&RunId::new(0, 0));
        let mut lease = crate::sched::fresh(id, &owner, vec!["a".into(), "b".into()], None, Priority::Normal);
        let may = |lease: &StoredLease, name: &str| may_end(&access, &caller(name), lease, "end this lease").is_ok();
        // The owner alice has a role on only one of the rigs.
        assert!(may(&lease, "alice") && may(&lease, "erin") && !may(&lease, "dave"));
        lease.rig = "b".into();
        assert!(may(&lease, "alice") && may(&lease, "erin") && !may(&lease, "dave"));
        lease.rig = "a".into();
        assert!(may(&lease, "erin") && may(&lease, "dave"));
    }
}

//! Clients that create, renew and end leases and create runs. The clients store the daemon's responses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use verbatim_lab::campaign::Dice;
use verbatim_proto::v1::lease_service_client::LeaseServiceClient;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::run_service_client::RunServiceClient;
use verbatim_proto::v1::{
    CreateLeaseRequest, CreateRunRequest, EndLeaseRequest, ListLeasesRequest, RenewLeaseRequest, RunSpec, RunState,
    WatchRunRequest,
};

/// Timeout for each event of an ended run. All events of the run are stored, so a watch that takes longer never ends.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// The responses that the clients received.
#[derive(Default)]
pub(crate) struct Told {
    /// Names of the created leases. The key is the id of the request.
    pub(crate) leases: BTreeMap<String, String>,
    pub(crate) runs: BTreeMap<String, String>,
    pub(crate) latencies: Vec<Duration>,
    pub(crate) refused: u64,
    /// Descriptions of responses that are wrong.
    pub(crate) strange: Vec<String>,
}

/// Returns a channel to the daemon with this socket.
pub(crate) fn channel(socket: &std::path::Path) -> Channel {
    let endpoint = Endpoint::try_from(format!("unix://{}", socket.display())).expect("a path");
    endpoint.timeout(Duration::from_secs(60)).connect_lazy()
}

/// Repeats a call while the daemon or its database is unavailable.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, Status>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, Status> {
    loop {
        match call().await {
            Err(status)
                if matches!(
                    status.code(),
                    Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded
                ) =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => return other,
        }
    }
}

/// The daemon and the rigs that a client uses.
pub(crate) struct Wanted {
    /// Socket of the client's daemon.
    pub(crate) socket: PathBuf,
    /// Rigs of all hosts.
    pub(crate) rigs: Vec<String>,
    /// Rigs whose device outlives its daemon.
    pub(crate) models: Vec<String>,
}

/// Runs one client. `left` is the number of operations that remain for all clients together.
pub(crate) async fn client(wanted: Wanted, number: u64, seed: u64, left: Arc<AtomicU64>) -> Told {
    let channel = channel(&wanted.socket);
    let leases = LeaseServiceClient::new(channel.clone());
    let runs = RunServiceClient::new(channel);
    let (mut told, mut dice, mut own) = (Told::default(), Dice::of(seed, number), Vec::<String>::new());
    let take = |left: u64| left.checked_sub(1);
    while let Ok(count) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        let request_id = format!("{number}-{count}");
        let rig = &wanted.rigs[dice.below(wanted.rigs.len())];
        let refused = match dice.below(10) {
            0..4 => {
                let by_name = dice.percent(50);
                let request = CreateLeaseRequest {
                    request_id: request_id.clone(),
                    rig: if by_name { rig.clone() } else { String::new() },
                    labels: if by_name { Vec::new() } else { vec!["pool".into()] },
                    lasts_s: 1 + dice.draw() % 3,
                    ..CreateLeaseRequest::default()
                };
                let begun = Instant::now();
                let created = patiently(|| {
                    let (mut leases, request) = (leases.clone(), request.clone());
                    async move { leases.create_lease(request).await }
                });
                created.await.map(|created| {
                    told.latencies.push(begun.elapsed());
                    let name = created.into_inner().lease.unwrap_or_default().name;
                    own.push(name.clone());
                    told.leases.insert(request_id, name);
                })
            }
            4..7 if !own.is_empty() => {
                let name = own.swap_remove(dice.below(own.len()));
                let end = || {
                    let (mut leases, name) = (leases.clone(), name.clone());
                    async move { leases.end_lease(EndLeaseRequest { name }).await }
                };
                patiently(end).await.map(drop)
            }
            7 if !own.is_empty() => {
                let name = own[dice.below(own.len())].clone();
                let renew = || {
                    let (mut leases, name) = (leases.clone(), name.clone());
                    async move { leases.renew_lease(RenewLeaseRequest { name, lasts_s: 2 }).await }
                };
                patiently(renew).await.map(drop)
            }
            what => {
                let under = own.last().filter(|_| what == 8).cloned().unwrap_or_default();
                // Some runs change a device and take long enough to be interrupted.
                let (rig, test) = match dice.below(24) {
                    0 if under.is_empty() => (&wanted.models[dice.below(wanted.models.len())], "c14-016-set-protect-2"),
                    _ => (rig, "c14-024-node-info"),
                };
                let request = CreateRunRequest {
                    request_id: request_id.clone(),
                    spec: Some(RunSpec {
                        rig: if under.is_empty() { rig.clone() } else { String::new() },
                        patterns: vec![test.into()],
                        ..RunSpec::default()
                    }),
                    lease: under,
                    // All clients are one user, so each run must wait for its own lease.
                    own_lease: true,
                    ..CreateRunRequest::default()
                };
                let created = patiently(|| {
                    let (mut runs, request) = (runs.clone(), request.clone());
                    async move { runs.create_run(request).await }
                });
                created.await.map(|created| {
                    told.runs
                        .insert(request_id, created.into_inner().run.unwrap_or_default().name);
                })
            }
        };
        match refused {
            Ok(()) => {}
            // These refusals are expected: an expired lease, a rig of an unavailable host, or the quota of a client.
            Err(status)
                if matches!(status.code(), Code::FailedPrecondition | Code::InvalidArgument)
                    || status.code() == Code::ResourceExhausted && is_quota(&status) =>
            {
                told.refused += 1
            }
            Err(status) => told.strange.push(format!("{status:?}")),
        }
    }
    told
}

/// Returns whether a quota is the reason of the refusal. The other possible reason is a full disk.
fn is_quota(status: &Status) -> bool {
    status
        .get_details_error_info()
        .is_some_and(|info| info.reason == "TOO_MANY")
}

/// Watches ended runs. Returns the runs whose watch does not report the end.
pub(crate) async fn silent(socket: &std::path::Path, runs: &[String]) -> anyhow::Result<Vec<String>> {
    let client = RunServiceClient::new(channel(socket));
    let mut silent = Vec::new();
    for name in runs {
        let watch = || {
            let (mut client, name) = (client.clone(), name.clone());
            async move { client.watch_run(WatchRunRequest { name, cursor: 0 }).await }
        };
        let mut events = patiently(watch).await?.into_inner();
        let mut ended = false;
        // The watch ends with the run. The timeout detects a watch that never ends.
        while let Ok(told) = timeout(TOLD_WITHIN, events.message()).await {
            let Some(told) = told? else { break };
            let event = told.event.and_then(|event| event.event);
            ended = matches!(event, Some(Event::StateChanged(changed)) if changed.state() == RunState::Ended);
        }
        if !ended {
            silent.push(name.clone());
        }
    }
    Ok(silent)
}

/// Waits until no lease is active or pending.
pub(crate) async fn all_ended(socket: &std::path::Path) -> anyhow::Result<()> {
    let leases = LeaseServiceClient::new(channel(socket));
    loop {
        let list = || {
            let mut leases = leases.clone();
            async move {
                let request = ListLeasesRequest {
                    page_size: 1000,
                    ..ListLeasesRequest::default()
                };
                leases.list_leases(request).await
            }
        };
        let left = patiently(list).await?.into_inner().leases;
        if left.is_empty() {
            return Ok(());
        }
        for lease in left.into_iter().filter(|lease| lease.run.is_empty()) {
            // The lease may have expired already.
            let _ = leases.clone().end_lease(EndLeaseRequest { name: lease.name }).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

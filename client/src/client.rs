//! The calls of the API `verbatim.v1`.

use std::future::Future;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};
use verbatim_proto::v1;
use verbatim_proto::v1::catalog_service_client::CatalogServiceClient;
use verbatim_proto::v1::lease_service_client::LeaseServiceClient;
use verbatim_proto::v1::rig_service_client::RigServiceClient;
use verbatim_proto::v1::run_service_client::RunServiceClient;
use verbatim_tls::{ConnectError, Connector, Words};

use crate::address::Tls;
use crate::artifacts::ArtifactReader;
use crate::backoff::Backoff;
use crate::{Address, Error, LeaseName, RigName, RunName, Watch};

/// Time limit of a short call.
const SHORT: Duration = Duration::from_secs(30);
/// Time limit of a restore. It is long because a device that does not respond costs one timeout per attribute.
const RESTORE: Duration = Duration::from_secs(600);
/// Time for which [`patiently`] repeats a call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest accepted response, in bytes. The report of a large run exceeds tonic's default of 4 MiB.
const LARGEST: usize = 256 << 20;
/// Idle time after which the connection sends a keep-alive.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Time limit of the keep-alive's response. It is long because a loaded machine may be slow.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);
/// Flow-control window of a stream, in bytes. A list of thousands of rigs fits into the window.
const WINDOW: u32 = 4 << 20;

/// A connection to a daemon. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    channel: Channel,
}

impl Client {
    /// Connects to a daemon.
    ///
    /// # Errors
    /// When no daemon listens at the address, or this user may not connect.
    pub async fn connect(address: Address) -> Result<Self, Error> {
        probe(&address).await?;
        let (uri, connector) = match address.tls() {
            // The connector already knows the address to connect to. This URI only supplies the HTTP/2
            // `:authority` of the calls.
            Some(tls) => (
                format!("http://{}:{}", tls.host_in_url(), tls.port),
                Some(connector(tls)?),
            ),
            None => (address.to_string(), None),
        };
        let endpoint = Endpoint::from_shared(uri).map_err(|error| Error::Address {
            given: address.to_string(),
            why: error.to_string(),
        })?;
        let endpoint = endpoint
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW);
        let channel = match connector {
            Some(connector) => endpoint.connect_with_connector_lazy(connector),
            None => endpoint.connect_lazy(),
        };
        Ok(Self { address, channel })
    }

    /// Returns the daemon's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the tests that match any of the patterns, in the order of a run, and the version of the catalogue.
    ///
    /// # Errors
    /// When a pattern matches no test, or the call fails.
    pub async fn list_tests(&self, patterns: &[String]) -> Result<v1::ListTestsResponse, Error> {
        let request = v1::ListTestsRequest {
            patterns: patterns.to_vec(),
        };
        let mut client = CatalogServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST);
        self.call("ListTests", SHORT, client.list_tests(request)).await
    }

    /// Returns the statements that tests judge.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn list_statements(&self) -> Result<Vec<v1::Statement>, Error> {
        let mut client = CatalogServiceClient::new(self.channel.clone());
        let call = client.list_statements(v1::ListStatementsRequest {});
        Ok(self.call("ListStatements", SHORT, call).await?.statements)
    }

    /// Returns all rigs.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn list_rigs(&self) -> Result<Vec<v1::Rig>, Error> {
        let mut client = self.rigs();
        let call = client.list_rigs(v1::ListRigsRequest {});
        Ok(self.call("ListRigs", SHORT, call).await?.rigs)
    }

    /// Returns a rig.
    ///
    /// # Errors
    /// When no rig has this name, or the call fails.
    pub async fn get_rig(&self, rig: &RigName) -> Result<v1::Rig, Error> {
        let mut client = self.rigs();
        let request = v1::GetRigRequest { name: rig.to_string() };
        let answer = self.call("GetRig", SHORT, client.get_rig(request)).await?;
        self.part("GetRig", "a rig", answer.rig)
    }

    /// Restores the changes that an earlier run left on a rig's device. Returns when the restore is complete.
    ///
    /// # Errors
    /// When the rig is busy, no rig has this name, or the call fails.
    pub async fn restore_rig(&self, rig: &RigName) -> Result<v1::RestoreRigResponse, Error> {
        let mut client = self.rigs();
        let request = v1::RestoreRigRequest { name: rig.to_string() };
        self.call("RestoreRig", RESTORE, client.restore_rig(request)).await
    }

    /// Follows the rigs. The stream first returns every rig, then a rig each time it changes.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn watch_rigs(&self) -> Result<Changes<v1::WatchRigsResponse>, Error> {
        let mut client = self.rigs();
        let call = client.watch_rigs(v1::WatchRigsRequest {});
        Ok(Changes::new(
            self,
            "WatchRigs",
            self.call("WatchRigs", SHORT, call).await?,
        ))
    }

    /// Drains a rig for the given reason. An empty reason puts the rig back into use.
    ///
    /// # Errors
    /// When no rig has this name, this user is no admin of the rig, or the call fails.
    pub async fn drain_rig(&self, rig: &RigName, reason: &str) -> Result<v1::Rig, Error> {
        let mut client = self.rigs();
        let request = v1::DrainRigRequest {
            name: rig.to_string(),
            reason: reason.into(),
        };
        let answer = self.call("DrainRig", SHORT, client.drain_rig(request)).await?;
        self.part("DrainRig", "a rig", answer.rig)
    }

    /// Makes the daemon read its rig file again.
    ///
    /// # Errors
    /// When the daemon refuses the new rig file, this user is not an admin of every rig, or the call fails.
    pub async fn reload_rigs(&self) -> Result<v1::ReloadRigsResponse, Error> {
        let mut client = self.rigs();
        self.call("ReloadRigs", SHORT, client.reload_rigs(v1::ReloadRigsRequest {}))
            .await
    }

    /// Creates a lease, and repeats the request after a temporary error. The request id, from [`fresh_id`], is the
    /// same in each attempt, so the daemon creates one lease only.
    ///
    /// # Errors
    /// When no such rig exists, this user may not use it, or the call fails.
    pub async fn create_lease(&self, request: &v1::CreateLeaseRequest) -> Result<v1::Lease, Error> {
        patiently(|| async {
            let mut client = self.leases();
            let call = client.create_lease(request.clone());
            let answer = self.call("CreateLease", SHORT, call).await?;
            self.part("CreateLease", "a lease", answer.lease)
        })
        .await
    }

    /// Returns a lease.
    ///
    /// # Errors
    /// When no lease has this name, or the call fails.
    pub async fn get_lease(&self, lease: &LeaseName) -> Result<v1::Lease, Error> {
        let mut client = self.leases();
        let name = lease.to_string();
        let answer = self
            .call("GetLease", SHORT, client.get_lease(v1::GetLeaseRequest { name }))
            .await?;
        self.part("GetLease", "a lease", answer.lease)
    }

    /// Returns the leases, the newest first. With `ended`, also returns ended leases. With `mine`, returns only
    /// the caller's leases.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn list_leases(&self, ended: bool, mine: bool) -> Result<Vec<v1::Lease>, Error> {
        let mut client = self.leases();
        let request = v1::ListLeasesRequest {
            ended,
            page_size: 1000,
            mine,
        };
        Ok(self
            .call("ListLeases", SHORT, client.list_leases(request))
            .await?
            .leases)
    }

    /// Follows a lease until it ends.
    ///
    /// # Errors
    /// When no lease has this name, or the call fails.
    pub async fn watch_lease(&self, lease: &LeaseName) -> Result<Changes<v1::WatchLeaseResponse>, Error> {
        let mut client = self.leases();
        let name = lease.to_string();
        let call = client.watch_lease(v1::WatchLeaseRequest { name });
        Ok(Changes::new(
            self,
            "WatchLease",
            self.call("WatchLease", SHORT, call).await?,
        ))
    }

    /// Renews a lease for `lasts` from now on.
    ///
    /// # Errors
    /// When the lease is over, belongs to another user, would last too long, or the call fails.
    pub async fn renew_lease(&self, lease: &LeaseName, lasts: Duration) -> Result<v1::Lease, Error> {
        let mut client = self.leases();
        let request = v1::RenewLeaseRequest {
            name: lease.to_string(),
            lasts_s: lasts.as_secs(),
        };
        let answer = self.call("RenewLease", SHORT, client.renew_lease(request)).await?;
        self.part("RenewLease", "a lease", answer.lease)
    }

    /// Ends a lease. The daemon may still restore the device when this call returns.
    ///
    /// # Errors
    /// When no lease has this name, the lease belongs to another user or to a run, or the call fails.
    pub async fn end_lease(&self, lease: &LeaseName) -> Result<v1::Lease, Error> {
        let mut client = self.leases();
        let name = lease.to_string();
        let answer = self
            .call("EndLease", SHORT, client.end_lease(v1::EndLeaseRequest { name }))
            .await?;
        self.part("EndLease", "a lease", answer.lease)
    }

    /// Creates a run, and repeats the request after a temporary error. The request id, from [`fresh_id`], is the
    /// same in each attempt, so the daemon creates one run only.
    ///
    /// # Errors
    /// When the rig, a pattern or a parameter is invalid, or the call fails.
    pub async fn create_run(&self, request_id: &str, spec: &v1::RunSpec) -> Result<v1::Run, Error> {
        self.create_run_under(v1::CreateRunRequest {
            request_id: request_id.into(),
            spec: Some(spec.clone()),
            ..v1::CreateRunRequest::default()
        })
        .await
    }

    /// Like [`Client::create_run`], but with all fields of the request, such as a lease.
    ///
    /// # Errors
    /// The errors of [`Client::create_run`]. Also when the lease is over or belongs to another user.
    pub async fn create_run_under(&self, request: v1::CreateRunRequest) -> Result<v1::Run, Error> {
        patiently(|| async {
            let mut client = self.runs();
            let call = client.create_run(request.clone());
            let answer = self.call("CreateRun", SHORT, call).await?;
            self.part("CreateRun", "a run", answer.run)
        })
        .await
    }

    /// Returns a run.
    ///
    /// # Errors
    /// When no run has this name, or the call fails.
    pub async fn get_run(&self, run: &RunName) -> Result<v1::Run, Error> {
        let mut client = self.runs();
        let request = v1::GetRunRequest { name: run.to_string() };
        let answer = self.call("GetRun", SHORT, client.get_run(request)).await?;
        self.part("GetRun", "a run", answer.run)
    }

    /// Returns a page of runs, the newest first. `page_size` 0 means the daemon's default; an empty `page_token`
    /// means the first page.
    ///
    /// # Errors
    /// When the filter or the token is invalid, or the call fails.
    pub async fn list_runs(
        &self,
        filter: &str,
        page_size: i32,
        page_token: &str,
    ) -> Result<v1::ListRunsResponse, Error> {
        let request = v1::ListRunsRequest {
            page_size,
            page_token: page_token.into(),
            filter: filter.into(),
        };
        let mut client = self.runs();
        self.call("ListRuns", SHORT, client.list_runs(request)).await
    }

    /// Returns the caller's newest run, or else the newest run of all users, if there is one.
    ///
    /// # Errors
    /// When the call fails.
    pub async fn latest_run(&self) -> Result<Option<RunName>, Error> {
        let newest = self.newest("").await?;
        newest.map(|run| run.name.parse()).transpose()
    }

    /// Returns the newest of the caller's runs that match a filter, or else of all users' runs, if there is one.
    ///
    /// # Errors
    /// When the filter is invalid, or the call fails.
    pub async fn newest(&self, filter: &str) -> Result<Option<v1::Run>, Error> {
        let joined = [filter, "owner=me"].into_iter().filter(|term| !term.is_empty());
        let own = joined.collect::<Vec<_>>().join(" AND ");
        let found = match self.list_runs(&own, 1, "").await {
            // An earlier daemon knows no owner=me.
            Err(Error::Invalid(_)) => None,
            found => found?.runs.into_iter().next(),
        };
        match found {
            Some(run) => Ok(Some(run)),
            None => Ok(self.list_runs(filter, 1, "").await?.runs.into_iter().next()),
        }
    }

    /// Cancels a run. The run may still restore its device when this call returns.
    ///
    /// # Errors
    /// When no run has this name, or the call fails.
    pub async fn cancel_run(&self, run: &RunName) -> Result<v1::Run, Error> {
        let mut client = self.runs();
        let request = v1::CancelRunRequest { name: run.to_string() };
        let answer = self.call("CancelRun", SHORT, client.cancel_run(request)).await?;
        self.part("CancelRun", "a run", answer.run)
    }

    /// Pins or unpins a run. The daemon's limits on stored runs do not apply to a pinned run.
    ///
    /// # Errors
    /// When no run has this name, the run belongs to another user, or the call fails.
    pub async fn pin_run(&self, run: &RunName, pinned: bool) -> Result<v1::Run, Error> {
        let mut client = self.runs();
        let name = run.to_string();
        let call = client.pin_run(v1::PinRunRequest { name, pinned });
        let answer = self.call("PinRun", SHORT, call).await?;
        self.part("PinRun", "a run", answer.run)
    }

    /// Deletes an ended run with its files.
    ///
    /// # Errors
    /// When no run has this name, the run belongs to another user, is pinned or has not ended, or the call fails.
    pub async fn delete_run(&self, run: &RunName) -> Result<(), Error> {
        let mut client = self.runs();
        let request = v1::DeleteRunRequest { name: run.to_string() };
        self.call("DeleteRun", SHORT, client.delete_run(request))
            .await
            .map(drop)
    }

    /// Follows a run, starting after the event with this cursor; 0 for all events.
    #[must_use]
    pub fn watch(&self, run: &RunName, cursor: u64) -> Watch {
        Watch::new(self.clone(), run.clone(), cursor)
    }

    pub(crate) async fn open_watch(
        &self,
        run: &RunName,
        cursor: u64,
    ) -> Result<Streaming<v1::WatchRunResponse>, Error> {
        let mut client = self.runs();
        let request = v1::WatchRunRequest {
            name: run.to_string(),
            cursor,
        };
        self.call("WatchRun", SHORT, client.watch_run(request)).await
    }

    /// Returns the files of a run, sorted by name.
    ///
    /// # Errors
    /// When no such run exists, or the call fails.
    pub async fn list_artifacts(&self, run: &RunName) -> Result<Vec<v1::Artifact>, Error> {
        let mut client = self.runs();
        let request = v1::ListArtifactsRequest { name: run.to_string() };
        let answer = self
            .call("ListArtifacts", SHORT, client.list_artifacts(request))
            .await?;
        Ok(answer.artifacts)
    }

    /// Opens a file of a run. The daemon creates "run.pcapng" on each read.
    ///
    /// # Errors
    /// When no such run or file exists, or the call fails.
    pub async fn read_artifact(&self, run: &RunName, artifact: &str) -> Result<ArtifactReader, Error> {
        let mut client = self.runs();
        let request = v1::ReadArtifactRequest {
            name: run.to_string(),
            artifact: artifact.into(),
        };
        let call = client.read_artifact(request);
        let stream = self.call("ReadArtifact", SHORT, call).await?;
        Ok(ArtifactReader::new(self.clone(), artifact, stream))
    }

    fn leases(&self) -> LeaseServiceClient<Channel> {
        LeaseServiceClient::new(self.channel.clone())
    }

    fn rigs(&self) -> RigServiceClient<Channel> {
        RigServiceClient::new(self.channel.clone())
    }

    fn runs(&self) -> RunServiceClient<Channel> {
        RunServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    async fn call<T>(
        &self,
        name: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Error> {
        match timeout(limit, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.translate(name, &status).await),
            Err(_) => Err(Error::Timeout {
                call: name,
                at: self.address.in_words(),
                seconds: limit.as_secs(),
            }),
        }
    }

    /// Converts a status to an error. If the connection failed, tries a new connection to find the reason.
    pub(crate) async fn translate(&self, call: &'static str, status: &Status) -> Error {
        match Error::of_status(call, self.address.in_words(), status) {
            broken @ Error::Broken { .. } => probe(&self.address).await.err().unwrap_or(broken),
            other => other,
        }
    }

    fn part<T>(&self, call: &'static str, what: &'static str, part: Option<T>) -> Result<T, Error> {
        part.ok_or_else(|| Error::Incomplete {
            call,
            at: self.address.in_words(),
            what,
        })
    }
}

/// A stream of changes from a daemon.
#[derive(Debug)]
pub struct Changes<T> {
    client: Client,
    call: &'static str,
    stream: Streaming<T>,
}

impl<T> Changes<T> {
    fn new(client: &Client, call: &'static str, stream: Streaming<T>) -> Self {
        Self {
            client: client.clone(),
            call,
            stream,
        }
    }

    /// Returns the next change; None at the end of the stream.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        match self.stream.message().await {
            Ok(next) => Ok(next),
            Err(status) => Err(self.client.translate(self.call, &status).await),
        }
    }
}

/// Repeats a call while it fails for a temporary reason, such as a restart of the daemon; for ten seconds at most. The
/// call must be idempotent.
///
/// # Errors
/// The error of the last call.
pub async fn patiently<T, F>(mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut backoff = Backoff::new(PATIENCE);
    loop {
        match call().await {
            Err(error) if error.is_transient() => match backoff.after_failure() {
                Some(pause) => sleep(pause).await,
                None => return Err(error),
            },
            other => return other,
        }
    }
}

/// Names of the daemon and its options, for error messages.
const WORDS: Words = Words {
    server: "a daemon (`verbatimd serve --config …`)",
    client_ca: "as client_ca in its configuration",
    named_by: "--server-host",
};

fn connector(tls: &Tls) -> Result<Connector, Error> {
    Connector::new(&tls.host, tls.port, tls.name.as_deref(), &tls.files)
        .map_err(|error| Error::Certificates(error.to_string()))
}

/// Checks that a daemon listens at the address and accepts this client.
async fn probe(address: &Address) -> Result<(), Error> {
    let probed = async {
        let (path, tls) = match (address.path(), address.tls()) {
            (Some(path), _) => {
                let connected = UnixStream::connect(path).await;
                return connected.map(drop).map_err(|error| Error::from_connect(path, error));
            }
            (None, Some(tls)) => (address.to_string(), tls),
            (None, None) => return Ok(()),
        };
        let connected = connector(tls)?.connect().await;
        connected.map(drop).map_err(|error| {
            let why = error.in_words(&WORDS, &tls.files, tls.name.as_deref().unwrap_or(&tls.host));
            match error {
                ConnectError::Unreached(_) | ConnectError::Closed(_) => Error::Unreached { at: path, why },
                _ => Error::NotLetIn { at: path, why },
            }
        })
    };
    match timeout(SHORT, probed).await {
        Ok(probed) => probed,
        Err(_) => Err(Error::Timeout {
            call: "the connection attempt",
            at: address.in_words(),
            seconds: SHORT.as_secs(),
        }),
    }
}

/// Returns an id for a request: 32 random hexadecimal digits.
#[must_use]
pub fn fresh_id() -> String {
    let mut random = [0_u8; 16];
    // The kernel's generator does not fail after boot. If it fails nevertheless, time and process ID make the id
    // unique.
    if getrandom::fill(&mut random).is_err() {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        random = (now ^ (u128::from(std::process::id()) << 96)).to_be_bytes();
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_differ() {
        let (one, other) = (fresh_id(), fresh_id());
        assert_ne!(one, other);
        assert!(one.len() <= 64);
    }
}

//! The calls of `verbatim.v1`.

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

/// How long a call may take that only looks something up or asks for something.
const SHORT: Duration = Duration::from_secs(30);
/// How long a restore may take: it waits for what a dead device does not answer, area by area.
const RESTORE: Duration = Duration::from_secs(600);
/// How long a call is repeated that must not be lost to a daemon that just starts again.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer: a report holds each check of a sweep.
const LARGEST: usize = 256 << 20;
/// A connection that is silent for so long is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// And counts as broken when none comes in this time. Long: a machine under load may be slow.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a daemon may send before it is told that they were read: a list of thousands of rigs comes at once, and not in
/// a dozen parts with an answer to each.
const WINDOW: u32 = 4 << 20;

/// A connection to a daemon. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    channel: Channel,
}

impl Client {
    /// Connects to a daemon.
    ///
    /// # Errors
    /// When nobody listens there, or this user may not connect.
    pub async fn connect(address: Address) -> Result<Self, Error> {
        probe(&address).await?;
        let (uri, connector) = match address.tls() {
            // The connector has its own address; this one is what calls are said to be for.
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

    /// Where the daemon listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The tests that match, in the order in which a run takes them, and the catalogue's version.
    ///
    /// # Errors
    /// When a pattern matches none, or the daemon cannot be asked.
    pub async fn list_tests(&self, patterns: &[String]) -> Result<v1::ListTestsResponse, Error> {
        let request = v1::ListTestsRequest {
            patterns: patterns.to_vec(),
        };
        let mut client = CatalogServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST);
        self.call("ListTests", SHORT, client.list_tests(request)).await
    }

    /// The statements that tests judge.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    pub async fn list_statements(&self) -> Result<Vec<v1::Statement>, Error> {
        let mut client = CatalogServiceClient::new(self.channel.clone());
        let call = client.list_statements(v1::ListStatementsRequest {});
        Ok(self.call("ListStatements", SHORT, call).await?.statements)
    }

    /// All rigs.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    pub async fn list_rigs(&self) -> Result<Vec<v1::Rig>, Error> {
        let mut client = self.rigs();
        let call = client.list_rigs(v1::ListRigsRequest {});
        Ok(self.call("ListRigs", SHORT, call).await?.rigs)
    }

    /// A rig.
    ///
    /// # Errors
    /// When there is none of this name, or the daemon cannot be asked.
    pub async fn get_rig(&self, rig: &RigName) -> Result<v1::Rig, Error> {
        let mut client = self.rigs();
        let request = v1::GetRigRequest { name: rig.to_string() };
        let answer = self.call("GetRig", SHORT, client.get_rig(request)).await?;
        self.part("GetRig", "a rig", answer.rig)
    }

    /// Restores what an earlier run left changed on a rig's device. Waits until it is done.
    ///
    /// # Errors
    /// When the rig is busy, there is none of this name, or the daemon cannot be asked.
    pub async fn restore_rig(&self, rig: &RigName) -> Result<v1::RestoreRigResponse, Error> {
        let mut client = self.rigs();
        let request = v1::RestoreRigRequest { name: rig.to_string() };
        self.call("RestoreRig", RESTORE, client.restore_rig(request)).await
    }

    /// Follows the rigs: first all, then each that changed.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    pub async fn watch_rigs(&self) -> Result<Changes<v1::WatchRigsResponse>, Error> {
        let mut client = self.rigs();
        let call = client.watch_rigs(v1::WatchRigsRequest {});
        Ok(Changes::new(
            self,
            "WatchRigs",
            self.call("WatchRigs", SHORT, call).await?,
        ))
    }

    /// Takes a rig out of use for this reason, or puts it back when there is none.
    ///
    /// # Errors
    /// When there is none of this name, this user is no admin of it, or the daemon cannot be asked.
    pub async fn drain_rig(&self, rig: &RigName, reason: &str) -> Result<v1::Rig, Error> {
        let mut client = self.rigs();
        let request = v1::DrainRigRequest {
            name: rig.to_string(),
            reason: reason.into(),
        };
        let answer = self.call("DrainRig", SHORT, client.drain_rig(request)).await?;
        self.part("DrainRig", "a rig", answer.rig)
    }

    /// Has the daemon read its rig file again.
    ///
    /// # Errors
    /// When it stays with the rigs that it has, this user is no admin of all of them, or it cannot be asked.
    pub async fn reload_rigs(&self) -> Result<v1::ReloadRigsResponse, Error> {
        let mut client = self.rigs();
        self.call("ReloadRigs", SHORT, client.reload_rigs(v1::ReloadRigsRequest {}))
            .await
    }

    /// Asks for a lease, once: when the connection breaks, the same request is sent again. Its id is one of [`fresh_id`].
    ///
    /// # Errors
    /// When there is no such rig, this user may not use it, or the daemon cannot be asked.
    pub async fn create_lease(&self, request: &v1::CreateLeaseRequest) -> Result<v1::Lease, Error> {
        patiently(|| async {
            let mut client = self.leases();
            let call = client.create_lease(request.clone());
            let answer = self.call("CreateLease", SHORT, call).await?;
            self.part("CreateLease", "a lease", answer.lease)
        })
        .await
    }

    /// A lease.
    ///
    /// # Errors
    /// When there is none of this name, or the daemon cannot be asked.
    pub async fn get_lease(&self, lease: &LeaseName) -> Result<v1::Lease, Error> {
        let mut client = self.leases();
        let name = lease.to_string();
        let answer = self
            .call("GetLease", SHORT, client.get_lease(v1::GetLeaseRequest { name }))
            .await?;
        self.part("GetLease", "a lease", answer.lease)
    }

    /// Leases, the newest first; with `ended` also those that ended, with `mine` only the caller's own.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
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
    /// When there is none of this name, or the daemon cannot be asked.
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

    /// Lets a lease last for that long from now on.
    ///
    /// # Errors
    /// When it is over, is another's, would last too long, or the daemon cannot be asked.
    pub async fn renew_lease(&self, lease: &LeaseName, lasts: Duration) -> Result<v1::Lease, Error> {
        let mut client = self.leases();
        let request = v1::RenewLeaseRequest {
            name: lease.to_string(),
            lasts_s: lasts.as_secs(),
        };
        let answer = self.call("RenewLease", SHORT, client.renew_lease(request)).await?;
        self.part("RenewLease", "a lease", answer.lease)
    }

    /// Ends a lease. A device may still be being restored when this returns.
    ///
    /// # Errors
    /// When there is none of this name, it is another's or a run's, or the daemon cannot be asked.
    pub async fn end_lease(&self, lease: &LeaseName) -> Result<v1::Lease, Error> {
        let mut client = self.leases();
        let name = lease.to_string();
        let answer = self
            .call("EndLease", SHORT, client.end_lease(v1::EndLeaseRequest { name }))
            .await?;
        self.part("EndLease", "a lease", answer.lease)
    }

    /// Creates a run, once: when the connection breaks, the same request id is sent again. [`fresh_id`] makes one.
    ///
    /// # Errors
    /// When the rig, a pattern or a parameter is wrong, or the daemon cannot be asked.
    pub async fn create_run(&self, request_id: &str, spec: &v1::RunSpec) -> Result<v1::Run, Error> {
        self.create_run_under(v1::CreateRunRequest {
            request_id: request_id.into(),
            spec: Some(spec.clone()),
            ..v1::CreateRunRequest::default()
        })
        .await
    }

    /// Creates a run as [`Client::create_run`] does, such as under a lease.
    ///
    /// # Errors
    /// As there, and when the lease is over or another's.
    pub async fn create_run_under(&self, request: v1::CreateRunRequest) -> Result<v1::Run, Error> {
        patiently(|| async {
            let mut client = self.runs();
            let call = client.create_run(request.clone());
            let answer = self.call("CreateRun", SHORT, call).await?;
            self.part("CreateRun", "a run", answer.run)
        })
        .await
    }

    /// A run.
    ///
    /// # Errors
    /// When there is none of this name, or the daemon cannot be asked.
    pub async fn get_run(&self, run: &RunName) -> Result<v1::Run, Error> {
        let mut client = self.runs();
        let request = v1::GetRunRequest { name: run.to_string() };
        let answer = self.call("GetRun", SHORT, client.get_run(request)).await?;
        self.part("GetRun", "a run", answer.run)
    }

    /// A page of runs, the newest first. `page_size` 0 is the daemon's own; an empty `page_token` the first page.
    ///
    /// # Errors
    /// When the filter or the token is wrong, or the daemon cannot be asked.
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

    /// The newest run, if there is any.
    ///
    /// # Errors
    /// When the daemon cannot be asked.
    pub async fn latest_run(&self) -> Result<Option<RunName>, Error> {
        let newest = self.list_runs("", 1, "").await?.runs.into_iter().next();
        newest.map(|run| run.name.parse()).transpose()
    }

    /// Asks a run to stop. It may still be restoring its device when this returns.
    ///
    /// # Errors
    /// When there is none of this name, or the daemon cannot be asked.
    pub async fn cancel_run(&self, run: &RunName) -> Result<v1::Run, Error> {
        let mut client = self.runs();
        let request = v1::CancelRunRequest { name: run.to_string() };
        let answer = self.call("CancelRun", SHORT, client.cancel_run(request)).await?;
        self.part("CancelRun", "a run", answer.run)
    }

    /// Pins a run, so that neither it nor its files go, or lets it go again.
    ///
    /// # Errors
    /// When there is none of this name, it is another's, or the daemon cannot be asked.
    pub async fn pin_run(&self, run: &RunName, pinned: bool) -> Result<v1::Run, Error> {
        let mut client = self.runs();
        let name = run.to_string();
        let call = client.pin_run(v1::PinRunRequest { name, pinned });
        let answer = self.call("PinRun", SHORT, call).await?;
        self.part("PinRun", "a run", answer.run)
    }

    /// Deletes a run that has ended, with all that it left.
    ///
    /// # Errors
    /// When there is none of this name, it is another's, is pinned or goes on, or the daemon cannot be asked.
    pub async fn delete_run(&self, run: &RunName) -> Result<(), Error> {
        let mut client = self.runs();
        let request = v1::DeleteRunRequest { name: run.to_string() };
        self.call("DeleteRun", SHORT, client.delete_run(request))
            .await
            .map(drop)
    }

    /// Follows a run from after the event with this cursor; 0 for all events.
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

    /// The files that a run left, in order of name.
    ///
    /// # Errors
    /// When there is no such run, or the daemon cannot be asked.
    pub async fn list_artifacts(&self, run: &RunName) -> Result<Vec<v1::Artifact>, Error> {
        let mut client = self.runs();
        let request = v1::ListArtifactsRequest { name: run.to_string() };
        let answer = self
            .call("ListArtifacts", SHORT, client.list_artifacts(request))
            .await?;
        Ok(answer.artifacts)
    }

    /// Reads a file that a run left; "run.pcapng" is made when it is read.
    ///
    /// # Errors
    /// When there is no such run or file, or the daemon cannot be asked.
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

    /// What a status means. When it is the connection that failed, another one is tried: it tells why.
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

/// What a daemon tells of something that changes.
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

    /// The next; none when nothing changes any more.
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

/// Makes a call again and again while it fails for a reason that may pass, such as a daemon that starts again; for ten
/// seconds at most. The call must be one that can be made twice.
///
/// # Errors
/// The call's last.
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

/// What the daemon and its options are called.
const WORDS: Words = Words {
    server: "a daemon (`verbatimd serve --config …`)",
    client_ca: "as client_ca in its configuration",
    named_by: "--server-host",
};

fn connector(tls: &Tls) -> Result<Connector, Error> {
    Connector::new(&tls.host, tls.port, tls.name.as_deref(), &tls.files)
        .map_err(|error| Error::Certificates(error.to_string()))
}

/// Whether somebody listens there and lets us in, and if not, why.
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
            call: "a connection",
            at: address.in_words(),
            seconds: SHORT.as_secs(),
        }),
    }
}

/// An id for a request: 32 random hexadecimal digits.
#[must_use]
pub fn fresh_id() -> String {
    let mut random = [0_u8; 16];
    // The kernel's generator does not fail once the machine is up; if it did, the time and this process tell apart.
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
    fn each_request_id_is_another() {
        let (one, other) = (fresh_id(), fresh_id());
        assert_ne!(one, other);
        assert!(one.len() <= 64);
    }
}

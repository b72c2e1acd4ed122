//! `verbatimd serve`: the daemon.
//!
//! | module | content |
//! |---|---|
//! | `place` | the state directory and the socket, which only one daemon may use |
//! | `notify`, `watchdog` | messages to the service manager |
//! | `connection` | connections through the socket and over a network |
//! | `authority` | requests whose `:authority` is the path of the socket |
//! | `reload` | the reload of the configuration, the certificates and the rig file |
//! | `revoked` | the newest lists of revoked certificates, which survive a restart |
//! | `http`, `scrape`, `page` | plain HTTP for read-only content: the metrics and the web page |
//! | `connection_limits` | limits of connections |
//! | `limits` | the configured values of these limits |
//! | `services` | the dispatch of calls to services |
//! | `meanwhile` | the service while the daemon waits for a shared database |
//! | [`crate::api`] | the services |
//! | [`crate::sched`] | the scheduler of runs and leases |
//! | [`crate::store`] | the stored runs and leases |

mod authority;
mod connection;
mod connection_limits;
mod http;
mod limits;
mod meanwhile;
mod notify;
mod page;
mod place;
mod reload;
mod revoked;
mod scrape;
mod services;
mod watchdog;

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::signal_name;
use signal_hook_tokio::Signals;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use verbatim_proto::DESCRIPTORS;
use verbatim_proto::v1::catalog_service_server::CatalogServiceServer;
use verbatim_proto::v1::lease_service_server::LeaseServiceServer;
use verbatim_proto::v1::rig_service_server::RigServiceServer;
use verbatim_proto::v1::run_service_server::RunServiceServer;

use crate::access::{Access, Audit};
use crate::api::{Catalog, IN_WORK, Leases, Rigs, Runs, Shared, Web, meet};
use crate::config::Config;
use crate::log;
use crate::sched::{Execute, Scheduler, StartError, Workers, of_lab};
use crate::store::retention::Retention;
use crate::store::{LeaseStore, SqlStore, StoreError};
use crate::turns::Turns;
use connection::{Connection, patiently};
use connection_limits::ConnectionLimits;
use meanwhile::Meanwhile;
use place::{Socket, StateLock};
use revoked::Revoked;
use services::Services;
use verbatim_rig::{Place, RigFile};
use verbatim_run::state::StateDirectory;
use verbatim_tls::{Known, Peer};

/// The server pings a connection that was silent for this time, and closes it if no response arrives within the
/// same time.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The maximum number of concurrent calls on one connection.
const STREAMS: u32 = 256;
/// The maximum size of a request in bytes. A larger request is refused before it is read.
const LARGEST_REQUEST: usize = 1 << 20;

/// The number of threads for calls of clients and for the daemon's own accesses to files and the store. Calls and
/// accesses are short, and most wait for the store, so more threads would not help. Each thread costs a stack and
/// a heap. The threads beyond [`IN_WORK`] serve admins and the daemon itself.
const BLOCKING_CALLS: usize = IN_WORK + 32;
/// Threads that a busy rig may use: the run of a virtual rig, the writer of its events, and accesses to its journal or
/// lease.
const BLOCKING_EACH_RIG: usize = 4;

/// The interval of the removal of old files.
const TIDY_EVERY: Duration = Duration::from_secs(3600);
/// The interval of attempts to reach the shared database when the daemon starts.
const DATABASE_EACH: Duration = Duration::from_secs(1);
/// How long clients may take to read the ends of their streams, once runs and restores have stopped.
const FAREWELL: Duration = Duration::from_secs(2);

pub use limits::Limits;

/// The options of the daemon.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rigs.
    pub rigs: RigFile,
    /// The configuration.
    pub config: Config,
    /// The socket; `None` for the default path.
    pub socket: Option<PathBuf>,
    /// The state directory; `None` for the default path.
    pub state: Option<PathBuf>,
    /// The time limit of a stop.
    pub stop_within: Duration,
}

/// How the daemon stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// The daemon was told to stop. Every device is as it was found, or its rig is quarantined.
    Stopped,
    /// The daemon was told to stop, and these rigs were still busy at the time limit.
    Unfinished(Vec<String>),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the daemon cannot start. The error names the obstacle and the remedy.
pub fn serve(options: Options) -> anyhow::Result<Served> {
    let begun = Instant::now();
    // Changes the environment, so no thread may run yet.
    let activated = place::inherited()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("verbatimd")
        .thread_keep_alive(Duration::from_secs(2))
        .max_blocking_threads(blocking_threads(options.rigs.rigs.len()))
        .enable_all()
        .build()
        .context("starting threads")?;
    // Handshakes do not wait for the work of clients with access.
    let handshakes = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("handshakes")
        .enable_all()
        .build()
        .context("starting threads")?;
    // The connection to a span collector needs the runtime.
    let collector = {
        let _within = runtime.enter();
        log::begin(options.config.log.as_ref())?
    };
    let state = match &options.state {
        Some(path) => StateDirectory::at(std::path::absolute(path).context("--state")?),
        None => StateDirectory::find()?,
    };
    let lock = StateLock::take(&state)?;
    if crate::worker::are_units() {
        crate::worker::out_of_sight();
    }
    more_descriptors();
    Place::remove_abandoned();
    let served = runtime.block_on(run(options, &state, activated, (begun, handshakes.handle())));
    if let Some(collector) = collector {
        collector.end();
    }
    // Calls that still hang end with the process, so do not wait for them.
    runtime.shutdown_background();
    handshakes.shutdown_background();
    drop(lock);
    served
}

/// Returns the directory for logs that the service manager names. If `/var/log` has a disk of its own, the audit log
/// then shares no disk with the journals.
fn place_of_logs() -> Option<PathBuf> {
    let places = std::env::var_os("LOGS_DIRECTORY")?;
    std::env::split_paths(&places)
        .next()
        .filter(|place| place.is_absolute())
}

/// Returns the limit of threads for blocking work. Calls and the watchdog must get threads even while all rigs are
/// busy. Rigs that a later rig file adds use the threads for calls.
fn blocking_threads(rigs: usize) -> usize {
    BLOCKING_CALLS.saturating_add(rigs.saturating_mul(BLOCKING_EACH_RIG))
}

async fn run(
    mut options: Options,
    state: &StateDirectory,
    activated: Option<UnixListener>,
    (begun, handshakes): (Instant, &Handle),
) -> anyhow::Result<Served> {
    // From here on, SIGTERM and SIGINT stop the daemon in order, and do not end the process at once.
    let mut stop = Signals::new([SIGTERM, SIGINT]).context("catching SIGTERM and SIGINT")?;
    let hangup = Signals::new([SIGHUP]).context("catching SIGHUP")?;
    let config = options.config.clone();
    let revoked = Revoked::of(state);
    let gate = match &config.listen {
        Some(listen) => Some(revoked.open(&listen.files)?),
        None => None,
    };
    let socket = match activated {
        Some(listener) => Socket::activated(listener)?,
        None => Socket::bind(options.socket.as_deref())?,
    };
    // From here on, only this user can access new files, including files of workers. The socket exists already, so
    // its mode stays.
    umask(Mode::from_bits_truncate(0o077));
    let listener = socket.listener().context("listening on the socket")?;
    let place = place_of_logs().unwrap_or_else(|| state.path().into());
    let audit = Audit::open(&place).with_context(|| format!("opening the audit log in {}", place.display()))?;
    let access = Arc::new(Access::new(config.roles.clone()));
    let connection_limits = ConnectionLimits::new(config.limits, Arc::clone(&access));
    let tcp = match &config.listen {
        Some(listen) => Some({
            let _within = handshakes.enter();
            http::listen(listen.address, "listen")?
        }),
        None => None,
    };
    let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    let metrics = match config.metrics {
        Some(address) => Some(http::listen(address, "metrics")?),
        None => None,
    };
    let page = match &config.web {
        Some(web) => Some((http::listen(web.address, "web")?, web.names.clone())),
        None => None,
    };
    let rig_count = options.rigs.rigs.len();
    if config.store.is_some() {
        of_lab(&mut options.rigs);
    }
    let scheduler = tokio::select! {
        scheduler = begin(&config, (&socket, &connection_limits), state, &options.rigs) => scheduler?,
        () = told(&mut stop) => return Ok(Served::Stopped),
    };

    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<CatalogServiceServer<Catalog>>().await;
    health.set_serving::<RigServiceServer<Rigs>>().await;
    health.set_serving::<LeaseServiceServer<Leases>>().await;
    health.set_serving::<RunServiceServer<Runs>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (leave, left) = oneshot::channel::<()>();
    let shared = Shared::new(Arc::clone(&scheduler), Arc::clone(&access), audit);
    tokio::spawn(meet(Arc::clone(&shared)));
    let web = Arc::new(Web::new(&shared));
    let services = Services::new(Turns::new(config.limits.calls_each, usize::MAX), Arc::clone(&access))
        .with(health_service.max_decoding_message_size(LARGEST_REQUEST))
        .with(
            reflection()
                .build_v1()
                .context("loading the descriptors of the services")?
                .max_decoding_message_size(LARGEST_REQUEST),
        )
        .with(
            reflection()
                .build_v1alpha()
                .context("loading the descriptors of the services")?
                .max_decoding_message_size(LARGEST_REQUEST),
        )
        .with(CatalogServiceServer::new(Catalog::new(Arc::clone(&shared))).max_decoding_message_size(LARGEST_REQUEST))
        .with(RigServiceServer::new(Rigs::new(Arc::clone(&shared))).max_decoding_message_size(LARGEST_REQUEST))
        .with(LeaseServiceServer::new(Leases::new(Arc::clone(&shared))).max_decoding_message_size(LARGEST_REQUEST))
        .with(RunServiceServer::new(Runs::new(shared)).max_decoding_message_size(LARGEST_REQUEST));
    let local = UnixListenerStream::new(listener).then(patiently).map({
        let connection_limits = connection_limits.clone();
        move |unix| unix.map(|unix| Connection::unix(unix, &connection_limits))
    });
    let counts = Arc::clone(&scheduler);
    let refused = move |line: String| {
        counts.metrics().handshake_refused();
        tracing::warn!("{line}");
    };
    let known = Known::default();
    let remote = tcp.zip(gate.clone()).map(|(tcp, gate)| {
        let access = Arc::clone(&access);
        let is_admin = move |peer: &Peer| access.table().has_admin(&connection::caller(peer));
        let _within = handshakes.enter();
        verbatim_tls::incoming(tcp, gate, (known.clone(), is_admin), refused)
    });
    let left = async {
        let _ = left.await;
    };
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .max_connection_age(config.limits.oldest_connection)
        .max_concurrent_streams(Some(STREAMS));
    let mut server = match remote {
        Some(remote) => {
            let all = local.merge(remote.map(move |tls| tls.map(|tls| Connection::tls(tls, &connection_limits))));
            tokio::spawn(server.serve_with_incoming_shutdown(services, all, left))
        }
        None => tokio::spawn(server.serve_with_incoming_shutdown(services, local, left)),
    };
    let scraped = metrics.as_ref().and_then(|listener| listener.local_addr().ok());
    if let Some(metrics) = metrics {
        let scheduler = Arc::clone(&scheduler);
        tokio::spawn(http::serve(metrics, known.clone(), move |request, _| {
            scrape::answer(request.uri().path().to_owned(), Arc::clone(&scheduler))
        }));
    }
    let page_at = page.as_ref().and_then(|(listener, _)| listener.local_addr().ok());
    if let Some((listener, names)) = page {
        let names: Arc<[String]> = names.into();
        tokio::spawn(http::serve(listener, known, move |request, from| {
            page::answer(request, from, Arc::clone(&web), Arc::clone(&names))
        }));
    }
    tracing::info!(
        socket = %socket.path().display(),
        address = address.map(tracing::field::display),
        metrics = scraped.map(tracing::field::display),
        web = page_at.map(tracing::field::display),
        state = %state.path().display(),
        rigs = rig_count,
        ms = begun.elapsed().as_millis(),
        "serving"
    );
    notify::tell(&[NotifyState::Ready]);
    tokio::spawn(watchdog::feed(Arc::clone(&scheduler)));

    let (keep, limits) = watch::channel(config.keep);
    tokio::spawn(tidy(Arc::clone(&scheduler), limits));
    let reload = reload::read_again(
        config,
        gate.map(|gate| (gate, revoked)),
        (access, Arc::clone(&scheduler)),
        keep,
        hangup,
    );
    let mut damaged = None;
    tokio::select! {
        () = told(&mut stop) => {}
        () = reload => {}
        damage = damage(&scheduler) => {
            tracing::error!("{damage}");
            damaged = Some(damage);
        }
        ended = &mut server => {
            ended.context("the server failed")?.context("the server ended")?;
            anyhow::bail!("the server ended by itself; please report this");
        }
    }
    notify::tell(&[NotifyState::Stopping]);
    tracing::info!(
        within_s = options.stop_within.as_secs(),
        "stopping: the daemon starts no more runs, and restores the devices"
    );
    health.set_not_serving::<RunServiceServer<Runs>>().await;
    health.set_not_serving::<LeaseServiceServer<Leases>>().await;
    health.set_not_serving::<RigServiceServer<Rigs>>().await;
    health
        .set_service_status("", tonic_health::ServingStatus::NotServing)
        .await;
    let busy = scheduler.stop(options.stop_within).await;
    let _ = leave.send(());
    if tokio::time::timeout(FAREWELL, &mut server).await.is_err() {
        tracing::info!("clients are still connected: the daemon closes their connections");
        server.abort();
    }
    let served = if busy.is_empty() {
        tracing::info!("stopped: every device is as it was found, except on quarantined rigs");
        Served::Stopped
    } else {
        tracing::error!(
            rigs = busy.join(", "),
            "stopped before all devices were restored: their workers continue, and the next start restores the rest"
        );
        Served::Unfinished(busy)
    };
    match damaged {
        Some(damage) => Err(damage.into()),
        None => Ok(served),
    }
}

/// Checks all stored data once. Returns only if data is damaged, with the error.
async fn damage(scheduler: &Arc<Scheduler>) -> StoreError {
    let (scheduler, began) = (Arc::clone(scheduler), Instant::now());
    let checked = tokio::task::spawn_blocking(move || scheduler.store().check()).await;
    match checked {
        Ok(Err(damage @ StoreError::Damaged { .. })) => return damage,
        Ok(Err(error)) => tracing::warn!(%error, "the stored data could not be checked for damage"),
        Ok(Ok(())) => tracing::debug!(ms = began.elapsed().as_millis(), "the stored data is not damaged"),
        // A panic of the task was already reported.
        Err(_) => {}
    }
    std::future::pending().await
}

/// Starts a scheduler with the configured store. While the database cannot be reached, tries again without a time
/// limit. Meanwhile the daemon restores devices, and answers clients with an error that names the database.
async fn begin(
    config: &Config,
    (socket, connection_limits): (&Socket, &ConnectionLimits),
    state: &StateDirectory,
    rigs: &RigFile,
) -> anyhow::Result<Arc<Scheduler>> {
    let clients = config.listen.as_ref().map_or_else(
        || socket.path().display().to_string(),
        |listen| format!("https://{}", listen.address),
    );
    let execute: Arc<dyn Execute> = Arc::new(Workers { state: state.clone() });
    let mut meanwhile = None;
    loop {
        let shared = match &config.store {
            Some(shared) => Some((shared.address()?, shared.host.clone())),
            None => None,
        };
        let (state_of_store, runtime, clients) = (state.clone(), Handle::current(), clients.clone());
        let (rigs_of_plan, execute_plan) = (rigs.clone(), Arc::clone(&execute));
        let start = move || {
            let store = match shared {
                Some((address, host)) => SqlStore::postgres(address, &host, &clients, &state_of_store, runtime)?,
                None => SqlStore::sqlite(&state_of_store)?,
            };
            if let Some(lab) = store.lab() {
                let names: Vec<String> = rigs_of_plan.rigs.iter().map(|rig| rig.name.clone()).collect();
                lab.claim(&names, true)?;
            }
            Ok(Scheduler::start(
                rigs_of_plan,
                &state_of_store,
                Arc::new(store),
                execute_plan,
            ))
        };
        match tokio::task::spawn_blocking(start).await.context("starting")? {
            Err(error @ StoreError::Away { .. }) | Ok(Err(StartError::Store(error @ StoreError::Away { .. }))) => {
                if meanwhile.is_none() {
                    tracing::error!(
                        %error,
                        "waiting for the database: the daemon restores devices, but grants no rigs"
                    );
                    let begun = Meanwhile::begin(
                        (socket, connection_limits.clone()),
                        error,
                        rigs.clone(),
                        state,
                        Arc::clone(&execute),
                    );
                    meanwhile = Some(begun.context("listening on the socket")?);
                    // Report readiness now, so that the service manager doesn't end the daemon during the wait for the
                    // database.
                    notify::tell(&[NotifyState::Ready, NotifyState::Status("waiting for the database")]);
                }
                tokio::time::sleep(DATABASE_EACH).await;
            }
            Err(error) => return Err(error.into()),
            Ok(started) => {
                let scheduler = started?;
                scheduler.clients_may_be_gone_for(config.limits.client_gone);
                scheduler.leases_may_wait_for(config.limits.reserved_each);
                return Ok(scheduler);
            }
        }
    }
}

/// Removes the files of runs beyond the limits: now, every hour, and when the limits change.
async fn tidy(scheduler: Arc<Scheduler>, mut limits: watch::Receiver<Retention>) {
    loop {
        let (scheduler, retention) = (Arc::clone(&scheduler), *limits.borrow_and_update());
        // A panic of the task was already reported, and must not end this loop.
        let _ = tokio::task::spawn_blocking(move || scheduler.tidy(retention)).await;
        tokio::select! {
            () = tokio::time::sleep(TIDY_EVERY) => {}
            changed = limits.changed() => if changed.is_err() { return },
        }
    }
}

/// Raises the soft limit of file descriptors to the hard limit. [`connection_limits`] limits the connections.
fn more_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, most, most)
    {
        tracing::debug!(%error, "the limit of file descriptors could not be raised");
    }
}

async fn told(stop: &mut Signals) {
    if let Some(signal) = stop.next().await {
        tracing::info!("{}", signal_name(signal).unwrap_or("a signal"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_rigs_leave_threads_for_calls() {
        for rigs in [0, 1, 2, 500] {
            assert_eq!(blocking_threads(rigs) - rigs * BLOCKING_EACH_RIG, BLOCKING_CALLS);
        }
        assert_eq!(blocking_threads(usize::MAX), usize::MAX);
    }
}

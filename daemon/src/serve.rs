//! `verbatimd serve`: the daemon.
//!
//! | module | what |
//! |---|---|
//! | `place` | what only one daemon may have: the state directory and the socket |
//! | `log` | the log on stderr |
//! | `notify` | telling a service manager |
//! | `connection` | connections by the socket and over a network |
//! | `again` | reading the configuration again |
//! | `services` | which service a call is for |
//! | [`crate::api`] | the services |
//! | [`crate::sched`] | what runs where, and what waits |
//! | [`crate::store`] | the runs |

mod again;
mod connection;
mod log;
mod notify;
mod place;
mod services;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::stat::{Mode, umask};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use verbatim_proto::DESCRIPTORS;
use verbatim_proto::v1::catalog_service_server::CatalogServiceServer;
use verbatim_proto::v1::rig_service_server::RigServiceServer;
use verbatim_proto::v1::run_service_server::RunServiceServer;

use crate::access::{Access, Audit};
use crate::api::{Catalog, Rigs, Runs, Shared};
use crate::config::Config;
use crate::sched::{Scheduler, Workers};
use crate::store::FileStore;
use connection::{Connection, patiently};
use place::{Socket, StateLock};
use services::Services;
use verbatim_rig::{Place, RigFile};
use verbatim_run::state::StateDirectory;
use verbatim_tls::Gate;

/// A connection that is silent for so long is asked for a sign of life, and is lost when none comes in the same time.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Calls under way on one connection.
const STREAMS: u32 = 256;

/// How long clients may take to hear the end of what they listen to, once everything else has ended.
const FAREWELL: Duration = Duration::from_secs(2);

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rigs.
    pub rigs: RigFile,
    /// Where to listen over a network, and who may do what.
    pub config: Config,
    /// The socket; the usual one when none is given.
    pub socket: Option<PathBuf>,
    /// Journals and runs; the usual directory when none is given.
    pub state: Option<PathBuf>,
    /// How long a stop may take.
    pub stop_within: Duration,
}

/// What became of the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// It was told to stop, and every device is as it was found, or its rig is quarantined.
    Stopped,
    /// It was told to stop, and these rigs were still busy when its time was over.
    Unfinished(Vec<String>),
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the daemon cannot begin: what is in the way, and what to do.
pub fn serve(options: Options) -> anyhow::Result<Served> {
    let begun = Instant::now();
    log::begin()?;
    let state = match &options.state {
        Some(path) => StateDirectory::at(std::path::absolute(path).context("--state")?),
        None => StateDirectory::find()?,
    };
    let lock = StateLock::take(&state)?;
    Place::remove_abandoned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("verbatimd")
        .thread_keep_alive(Duration::from_secs(2))
        .enable_all()
        .build()
        .context("starting threads")?;
    let served = runtime.block_on(run(options, &state, begun));
    // What still hangs in a call ends with the process.
    runtime.shutdown_background();
    drop(lock);
    served
}

async fn run(options: Options, state: &StateDirectory, begun: Instant) -> anyhow::Result<Served> {
    // From here on a signal stops the daemon in order.
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt), Ok(hangup)] = signals else {
        anyhow::bail!("SIGTERM, SIGINT and SIGHUP cannot be caught");
    };
    let Options { config, .. } = options;
    let gate = config
        .listen
        .as_ref()
        .map(|listen| Gate::open(&listen.files))
        .transpose()?;
    let socket = Socket::bind(options.socket.as_deref())?;
    // From here on what is made, by workers too, is for this user alone; only the socket is not.
    umask(Mode::from_bits_truncate(0o077));
    let listener = socket.listener().context("listening on the socket")?;
    let store = Arc::new(FileStore::open(&state.runs())?);
    let audit = Audit::open(state.path()).context("the audit log in the state directory")?;
    let access = Arc::new(Access::new(config.roles.clone()));
    let tcp = match &config.listen {
        Some(listen) => {
            let bound = TcpListener::bind(listen.address).await;
            let bound =
                bound.with_context(|| format!("cannot listen on {}, the address in [listen]", listen.address))?;
            Some(bound)
        }
        None => None,
    };
    let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    let execute = Arc::new(Workers { state: state.clone() });
    let rig_count = options.rigs.rigs.len();
    let scheduler = Scheduler::start(options.rigs, state, store, execute);

    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<CatalogServiceServer<Catalog>>().await;
    health.set_serving::<RigServiceServer<Rigs>>().await;
    health.set_serving::<RunServiceServer<Runs>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (leave, left) = oneshot::channel::<()>();
    let shared = Shared::new(Arc::clone(&scheduler), Arc::clone(&access), audit);
    let services = Services::default()
        .with(health_service)
        .with(reflection().build_v1().context("the descriptors of the services")?)
        .with(
            reflection()
                .build_v1alpha()
                .context("the descriptors of the services")?,
        )
        .with(CatalogServiceServer::new(Catalog::new(Arc::clone(&shared))))
        .with(RigServiceServer::new(Rigs::new(Arc::clone(&shared))))
        .with(RunServiceServer::new(Runs::new(shared)));
    let local = UnixListenerStream::new(listener)
        .then(patiently)
        .map(|unix| unix.map(Connection::unix));
    let refused = |line: String| tracing::warn!("{line}");
    let remote = tcp
        .zip(gate.clone())
        .map(|(tcp, gate)| verbatim_tls::incoming(tcp, gate, refused));
    let left = async {
        let _ = left.await;
    };
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .max_concurrent_streams(Some(STREAMS));
    let mut server = match remote {
        Some(remote) => {
            let all = local.merge(remote.map(|tls| tls.map(Connection::tls)));
            tokio::spawn(server.serve_with_incoming_shutdown(services, all, left))
        }
        None => tokio::spawn(server.serve_with_incoming_shutdown(services, local, left)),
    };
    tracing::info!(
        socket = %socket.path().display(),
        address = address.map(tracing::field::display),
        state = %state.path().display(),
        rigs = rig_count,
        ms = begun.elapsed().as_millis(),
        "serving"
    );
    notify::tell("READY=1");

    let again = again::read_again(config, gate, access, hangup);
    tokio::select! {
        () = told(&mut terminate, &mut interrupt) => {}
        () = again => {}
        ended = &mut server => {
            ended.context("the server failed")?.context("the server ended")?;
            anyhow::bail!("the server ended by itself; please report this");
        }
    }
    notify::tell("STOPPING=1");
    tracing::info!(
        within_s = options.stop_within.as_secs(),
        "stopping: no more runs, devices are restored"
    );
    health.set_not_serving::<RunServiceServer<Runs>>().await;
    health.set_not_serving::<RigServiceServer<Rigs>>().await;
    health
        .set_service_status("", tonic_health::ServingStatus::NotServing)
        .await;
    let busy = scheduler.stop(options.stop_within).await;
    let _ = leave.send(());
    if tokio::time::timeout(FAREWELL, &mut server).await.is_err() {
        tracing::info!("clients still listen: they are left");
        server.abort();
    }
    if busy.is_empty() {
        tracing::info!("stopped: every device is as it was found, but for quarantined rigs");
        return Ok(Served::Stopped);
    }
    tracing::error!(
        rigs = busy.join(", "),
        "stopped before all was restored: workers restore by themselves, and the next start restores what is left"
    );
    Ok(Served::Unfinished(busy))
}

async fn told(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM"),
        _ = interrupt.recv() => tracing::info!("SIGINT"),
    }
}

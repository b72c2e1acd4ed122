//! The service while the daemon waits for a shared database: it restores devices, and responds to clients with an
//! error.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Server;
use verbatim_rig::RigFile;
use verbatim_run::state::StateDirectory;

use super::connection::{Connection, patiently};
use super::connection_limits::ConnectionLimits;
use super::place::Socket;
use crate::api::store_failed;
use crate::sched::{Execute, restore_meanwhile};
use crate::store::StoreError;

/// The service while the database cannot be reached. Dropping the value ends the service and closes its
/// connections; running restores continue. Clients then reconnect and find the normal services.
#[derive(Debug)]
pub(super) struct Meanwhile {
    _over: watch::Sender<()>,
}

impl Meanwhile {
    /// Starts the service.
    ///
    /// # Errors
    /// When the daemon cannot listen on the socket.
    pub(super) fn begin(
        (socket, connection_limits): (&Socket, ConnectionLimits),
        away: StoreError,
        rigs: RigFile,
        state: &StateDirectory,
        execute: Arc<dyn Execute>,
    ) -> io::Result<Self> {
        let connections = UnixListenerStream::new(socket.listener()?).then(patiently);
        let connections = connections.map(move |unix| unix.map(|unix| Connection::unix(unix, &connection_limits)));
        let (over, of_restores) = watch::channel(());
        let mut of_server = of_restores.clone();
        let left = async move { while of_server.changed().await.is_ok() {} };
        tokio::spawn(async move {
            let away = Away(Arc::new(away));
            let served = Server::builder().serve_with_incoming_shutdown(away, connections, left);
            if let Err(error) = served.await {
                tracing::error!(%error, "clients cannot be told that the daemon waits for the database");
            }
        });
        tokio::spawn(restore_meanwhile(rigs, state.clone(), execute, of_restores));
        Ok(Self { _over: over })
    }
}

/// Responds to each call with the error of the store.
#[derive(Clone, Debug)]
struct Away(Arc<StoreError>);

impl Service<http::Request<Body>> for Away {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        ready(Ok(store_failed(&self.0).into_http()))
    }
}

//! The server: listens, accepts clients, and stops cleanly.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use verbatim_proto::agent::agent_service_server::AgentServiceServer;

use crate::listen::{Listen, ListenError, Listener};
use crate::service::Agent;
use verbatim_tls::{Gate, Known, ServerFiles, TlsError, incoming};
use verbatim_verbs::LARGEST_MESSAGE;
use verbatim_verbs::device::{Device, Failure};
use verbatim_verbs::session::Limits;

/// Silence after which the server pings a connection. Without a response within the same time, the connection is
/// lost.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Largest number of streams of one connection.
const STREAMS: u32 = 64;
/// Wait before the next accept when the system has no file descriptor for a connection.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
/// Longest time for the end of the sessions when the agent stops.
const FAREWELL: Duration = Duration::from_secs(5);
/// Longest time after `FAREWELL` for sending the end of the streams to the clients.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The device to serve, and the listening address.
#[derive(Clone, Debug)]
pub struct Options {
    /// Listening address.
    pub listen: Listen,
    /// Certificates, for an address that other hosts can reach.
    pub tls: Option<ServerFiles>,
    /// The device's name, for messages.
    pub device: String,
    /// Limits of a session.
    pub limits: Limits,
    /// Largest number of sessions at a time.
    pub max_sessions: u32,
}

/// The reason why the server fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The listening address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A certificate file cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server ended by itself.
    #[error("the server ended by itself ({0}); please report this")]
    Ended(String),
}

/// A listening server. Must be used within a Tokio runtime.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    address: Listen,
    gate: Option<Arc<Gate>>,
    options: Options,
}

impl Server {
    /// Begins to listen. Clients get no answer before [`Server::serve`].
    ///
    /// # Errors
    /// When it cannot listen on the address, or a certificate cannot be used.
    pub async fn bind(options: Options) -> Result<Self, ServerError> {
        match (&options.listen, &options.tls) {
            (Listen::Tcp(address), None) if !options.listen.is_local() => {
                return Err(ServerError::Listen(ListenError::NeedsTls {
                    listen: *address,
                    listen_ip: address.ip(),
                }));
            }
            (listen @ Listen::Unix(_), Some(_)) => {
                return Err(ServerError::Listen(ListenError::NoTls { listen: listen.clone() }));
            }
            _ => {}
        }
        let gate = options.tls.as_ref().map(Gate::open).transpose()?;
        let listener = Listener::bind(&options.listen).await?;
        let address = listener.address().unwrap_or_else(|_| options.listen.clone());
        Ok(Self {
            listener,
            address,
            gate,
            options,
        })
    }

    /// Returns the listening address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Returns the gate, which can reload the certificates; `None` without TLS.
    #[must_use]
    pub fn gate(&self) -> Option<Arc<Gate>> {
        self.gate.clone()
    }

    /// Serves clients until `stop` completes, and then ends the sessions. `open` opens the device, once for each
    /// session.
    ///
    /// # Errors
    /// When the server ends by itself.
    pub async fn serve<D: Device>(
        self,
        open: impl Fn() -> Result<D, Failure> + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServerError> {
        let (stopping, stopped) = watch::channel(false);
        let seats = Arc::new(Semaphore::new(
            usize::try_from(self.options.max_sessions).unwrap_or(usize::MAX >> 4),
        ));
        let agent = Agent {
            open: Arc::new(open),
            device: self.options.device,
            limits: self.options.limits,
            max_sessions: self.options.max_sessions,
            seats: Arc::clone(&seats),
            stop: stopped,
        };
        let (leave, left) = oneshot::channel::<()>();
        let left = async {
            let _ = left.await;
        };
        let service = AgentServiceServer::new(agent).max_decoding_message_size(LARGEST_MESSAGE);
        let transport = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .max_concurrent_streams(Some(STREAMS));
        // Keeps the file of a unix socket apart from the listener, to remove the file as soon as the agent must stop.
        let (mut server, file) = match (self.listener, self.gate) {
            (Listener::Unix(listener, _), _) => {
                let (listener, file) = listener.into_parts();
                let incoming = UnixListenerStream::new(listener).then(patiently);
                let server = transport.serve_with_incoming_shutdown(service, incoming, left);
                (tokio::spawn(server), Some(file))
            }
            (Listener::Tcp(listener), Some(gate)) => {
                // Every client that the CA accepts may use the device, so each has a reserved place.
                let incoming = incoming(listener, gate, (Known::default(), |_| true), |line| crate::log(&line));
                let server = transport.serve_with_incoming_shutdown(service, incoming, left);
                (tokio::spawn(server), None)
            }
            (Listener::Tcp(listener), None) => {
                let incoming = TcpListenerStream::new(listener).then(patiently).map(at_once);
                let server = transport.serve_with_incoming_shutdown(service, incoming, left);
                (tokio::spawn(server), None)
            }
        };
        tokio::select! {
            () = stop => {}
            ended = &mut server => {
                let seen = match ended {
                    Ok(Ok(())) => "no reason".into(),
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                };
                return Err(ServerError::Ended(seen));
            }
        }
        let _ = stopping.send(true);
        let _ = leave.send(());
        drop(file);
        let all = seats.acquire_many(self.options.max_sessions);
        if timeout(FAREWELL, all).await.is_err() {
            crate::log("a session does not end; the kernel destroys its objects");
        }
        if timeout(LAST_WORDS, &mut server).await.is_err() {
            server.abort();
        }
        Ok(())
    }
}

/// Passes on an accepted connection. Waits after an error, because the next accept would fail with the same error.
async fn patiently<S>(accepted: io::Result<S>) -> io::Result<S> {
    if let Err(error) = &accepted {
        crate::log(format_args!("a connection could not be accepted: {error}"));
        sleep(SHORT_OF_DESCRIPTORS).await;
    }
    accepted
}

/// Disables Nagle's algorithm, so that no reply waits for more data.
fn at_once(accepted: io::Result<TcpStream>) -> io::Result<TcpStream> {
    accepted.inspect(|stream| {
        let _ = stream.set_nodelay(true);
    })
}

//! Connections: accepted, let in, and handed to the server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::listen::Listener;
use crate::log;

/// How long a client may take to let itself in.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many may be letting themselves in at a time.
const HANDSHAKES: usize = 32;
/// How long to wait when the system has no descriptor for another connection.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// A connection that was let in.
#[derive(Debug)]
pub(crate) enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream, String),
    Tls(Box<TlsStream<TcpStream>>, String),
}

/// Who is at the other end, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Peer(pub(crate) String);

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer(match self {
            Self::Unix(stream) => match stream.peer_cred() {
                Ok(peer) => format!("uid {}", peer.uid()),
                Err(_) => "somebody on this host".into(),
            },
            Self::Tcp(_, peer) | Self::Tls(_, peer) => peer.clone(),
        })
    }
}

macro_rules! inner {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Connection::Unix($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Connection::Tcp($stream, _) => {
                let $stream = Pin::new($stream);
                $call
            }
            Connection::Tls($stream, _) => {
                let $stream = Pin::new($stream);
                $call
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inner!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => stream.poll_shutdown(cx))
    }
}

/// Accepts connections until nobody takes them any more.
pub(crate) async fn accept(
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
    ready: mpsc::Sender<io::Result<Connection>>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let accepted = tokio::select! {
            accepted = one(&listener) => accepted,
            () = ready.closed() => return,
        };
        match (accepted, &acceptor) {
            (Ok(Connection::Tcp(stream, peer)), Some(acceptor)) => {
                let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
                    return;
                };
                let (acceptor, ready) = (acceptor.clone(), ready.clone());
                tokio::spawn(async move {
                    if let Some(connection) = let_in(&acceptor, stream, peer).await {
                        let _ = ready.send(Ok(connection)).await;
                    }
                    drop(permit);
                });
            }
            (Ok(connection), _) => {
                let _ = ready.send(Ok(connection)).await;
            }
            (Err(error), _) => {
                log(&format!("a connection could not be accepted: {error}"));
                sleep(SHORT_OF_DESCRIPTORS).await;
            }
        }
    }
}

async fn one(listener: &Listener) -> io::Result<Connection> {
    match listener {
        Listener::Unix(listener, _) => Ok(Connection::Unix(listener.accept().await?.0)),
        Listener::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            // An answer must not wait for more to be sent with it.
            let _ = stream.set_nodelay(true);
            Ok(Connection::Tcp(stream, peer.to_string()))
        }
    }
}

async fn let_in(acceptor: &TlsAcceptor, stream: TcpStream, peer: String) -> Option<Connection> {
    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(Connection::Tls(Box::new(stream), peer)),
        Ok(Err(error)) => {
            log(&format!("{peer} was not let in: {error}"));
            None
        }
        Err(_) => {
            log(&format!(
                "{peer} was not let in: no TLS handshake within {} s",
                HANDSHAKE.as_secs()
            ));
            None
        }
    }
}

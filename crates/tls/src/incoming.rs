//! Connections whose client certificate a [`Gate`] accepted.
//!
//! Handshakes run concurrently, each with a time limit. If too many are in progress, [`Crowd`] chooses the handshakes
//! that the server aborts. A connection ends when its client's certificate is revoked or expires.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::Acceptor;
use rustls::{CertificateError, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::crowd::{Crowd, Known, Stage};
use crate::files;
use crate::gate::{Gate, Shown};

/// Time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The limits of handshakes whose clients have sent nothing, a part of the ClientHello, or all of it.
const HANDSHAKES: [usize; 3] = [256, 64, 64];
/// The pause after a failed accept, for example when file descriptors are used up.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
/// The longest interval between two checks of a certificate's validity. The host's clock may be set at any time,
/// so a wait until the expiry is not enough.
const AT_MOST: Duration = Duration::from_secs(600);

/// The peer of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The name in its certificate.
    pub name: String,
    /// Address from which it connects.
    pub address: SocketAddr,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.name, self.address)
    }
}

/// A connection whose peer has an accepted certificate.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    /// Completes when the client's certificate is no longer accepted; `None` afterwards.
    locked_out: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Receives one log line for each refused client, each ended connection and each failed accept.
type Tell = Arc<dyn Fn(String) + Send + Sync>;

/// Accepts connections, and yields each connection whose client has an accepted certificate. If `is_known` is true for
/// a client, its address is added to `known`. Calls `tell` with the reason for each failed accept and each refused
/// client. Also calls `tell` for each connection that ends because its certificate is no longer accepted. Must be
/// called within a Tokio runtime. Dropping the stream closes the listener.
pub fn incoming(
    listener: TcpListener,
    gate: Arc<Gate>,
    (known, is_known): (Known, impl Fn(&Peer) -> bool + Send + 'static),
    tell: impl Fn(String) + Send + Sync + 'static,
) -> impl Stream<Item = io::Result<Connection>> + Send + Unpin {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, gate, (known, is_known), Arc::new(tell), sender));
    ReceiverStream::new(receiver)
}

async fn accept(
    listener: TcpListener,
    gate: Arc<Gate>,
    (known, is_known): (Known, impl Fn(&Peer) -> bool),
    tell: Tell,
    sender: mpsc::Sender<io::Result<Connection>>,
) {
    let mut under_way: JoinSet<Option<Connection>> = JoinSet::new();
    let mut handshakes = Crowd::new(HANDSHAKES, known.clone());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    handshakes.make_room();
                    let stage = Stage::default();
                    let handshake = let_in((stream, address), stage.clone(), Arc::clone(&gate), Arc::clone(&tell));
                    handshakes.add(address.ip(), stage, under_way.spawn(handshake));
                    // Let the handshakes run before the next accept, so that each notes its stage.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tell(format!("a connection could not be accepted: {error}"));
                    sleep(SHORT_OF_DESCRIPTORS).await;
                }
            },
            Some(done) = under_way.join_next() => {
                let Ok(Some(connection)) = done else { continue };
                if is_known(&connection.peer) {
                    known.add(connection.peer.address.ip());
                }
                if sender.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            () = sender.closed() => return,
        }
    }
}

/// Runs the handshake of one connection. Returns `None` if the server refuses the client.
async fn let_in(
    (stream, address): (TcpStream, SocketAddr),
    stage: Stage,
    gate: Arc<Gate>,
    tell: Tell,
) -> Option<Connection> {
    // Disable Nagle's algorithm, so that no reply waits for more data.
    let _ = stream.set_nodelay(true);
    let shown = Shown::default();
    let refused = |why: String| {
        let whose = shown.name().map(|name| format!(" ({name:?})")).unwrap_or_default();
        tell(format!("{address}{whose} was not let in: {why}"));
    };
    let handshake = async {
        stream.peek(&mut [0]).await?;
        stage.begins();
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        stage.is_complete();
        let config = gate.loaded().config(shown.clone()).map_err(io::Error::other)?;
        hello.into_stream(config).await
    };
    let stream = match timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            refused(why(&error));
            return None;
        }
        Err(_) => {
            refused(format!("no handshake within {} s", HANDSHAKE.as_secs()));
            return None;
        }
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain: Vec<_> = chain
        .iter()
        .map(|certificate| certificate.clone().into_owned())
        .collect();
    let named = chain
        .first()
        .ok_or_else(|| "no certificate".to_string())
        .and_then(files::name_of);
    let name = match named {
        Ok(name) => name,
        Err(why) => {
            refused(format!("its certificate cannot be used: {why}"));
            return None;
        }
    };
    let peer = Peer { name, address };
    let of_peer = peer.clone();
    let locked_out = async move {
        let why = until_locked_out(&gate, &chain).await;
        tell(format!("the connection of {of_peer} ends: {why}"));
    };
    Some(Connection {
        stream,
        peer,
        locked_out: Some(Box::pin(locked_out)),
    })
}

/// Waits until the client's certificate is no longer accepted, and returns the reason.
async fn until_locked_out(gate: &Gate, chain: &[CertificateDer<'static>]) -> String {
    let mut changes = gate.changes();
    loop {
        let verifier = Arc::clone(&changes.borrow_and_update().verifier);
        let now = UnixTime::now();
        let Some((first, between)) = chain.split_first() else {
            return "no certificate".into();
        };
        if let Err(error) = verifier.verify_client_cert(first, between, now) {
            return in_words(&error);
        }
        let pause = (files::time_left(first, now) + Duration::from_secs(1)).min(AT_MOST);
        let _ = timeout(pause, changes.changed()).await;
    }
}

/// Describes why a handshake failed.
fn why(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => in_words(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it closed the connection during the handshake".into(),
        None => error.to_string(),
    }
}

/// Describes why a server refuses a client.
fn in_words(error: &Error) -> String {
    use CertificateError as Certificate;
    let what = match error {
        Error::NoCertificatesPresented => "it shows no certificate",
        Error::InvalidMessage(_) => "it does not speak TLS, and plain text gets no response",
        Error::PeerIncompatible(_) => "it does not speak TLS 1.3",
        Error::InvalidCertificate(certificate) => match certificate {
            Certificate::Revoked => "its certificate is revoked",
            Certificate::Expired | Certificate::ExpiredContext { .. } => "its certificate has expired",
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => "its certificate is not valid yet",
            Certificate::UnknownIssuer | Certificate::BadSignature => {
                "its certificate was not signed by the CA of the clients"
            }
            Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. } => {
                "its certificate is not made for clients; use a client's certificate (client.pem of `verbatim pki \
                 init`)"
            }
            Certificate::UnknownRevocationStatus => "there is no list of revoked certificates for its CA",
            Certificate::ExpiredRevocationList | Certificate::ExpiredRevocationListContext { .. } => {
                "the list of revoked certificates has expired; `verbatim pki revoke` makes another"
            }
            _ => return format!("its certificate is not accepted ({error})"),
        },
        Error::AlertReceived(alert) => return format!("it does not accept the server's certificate ({alert:?})"),
        _ => return error.to_string(),
    };
    what.into()
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let let_in = self
            .locked_out
            .as_mut()
            .is_some_and(|ends| ends.as_mut().poll(context).is_pending());
        if !let_in {
            self.locked_out = None;
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

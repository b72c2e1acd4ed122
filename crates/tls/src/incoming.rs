//! Connections that have shown a certificate which a [`Gate`] lets in.
//!
//! A connection costs its peer a certificate before it costs us more than a descriptor: handshakes wait for nobody, end
//! in time, and when there are too many the one that has taken longest gives way, of those that have said nothing yet or of
//! the others: a flood of silent ones takes no place from who speaks. A connection ends when its certificate is revoked or
//! expires.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::files;
use crate::gate::{Gate, Shown};

/// How long a client may take to let itself in.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at a time in which the client has begun to speak. Beyond, the oldest gives way.
const HANDSHAKES: usize = 64;
/// Connections that have said nothing yet. Beyond, the oldest gives way: who is silent keeps nobody out.
const SILENT: usize = 256;
/// How long to wait when the system has no descriptor for another connection.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
/// The clock may be set: how long a certificate's time is taken for granted.
const AT_MOST: Duration = Duration::from_secs(600);

/// Who is at the other end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The name in its certificate.
    pub name: String,
    /// Where it connects from.
    pub address: SocketAddr,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.name, self.address)
    }
}

/// A connection whose peer has shown a certificate.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    /// Ends when its certificate is let in no more; none then.
    locked_out: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// What is told of who was not let in.
type Tell = Arc<dyn Fn(String) + Send + Sync>;

/// The connections of a listener, each once its peer is known. `tell` hears who was not let in or was locked out, and
/// why. Must be called within a runtime; the listener closes with the stream.
pub fn incoming(
    listener: TcpListener,
    gate: Arc<Gate>,
    tell: impl Fn(String) + Send + Sync + 'static,
) -> impl Stream<Item = io::Result<Connection>> + Send + Unpin {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, gate, Arc::new(tell), sender));
    ReceiverStream::new(receiver)
}

async fn accept(listener: TcpListener, gate: Arc<Gate>, tell: Tell, sender: mpsc::Sender<io::Result<Connection>>) {
    let mut under_way: JoinSet<Option<Connection>> = JoinSet::new();
    let mut handshakes = Handshakes::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    handshakes.make_room();
                    let spoke = Arc::<AtomicBool>::default();
                    let handshake = let_in((stream, address), Arc::clone(&spoke), Arc::clone(&gate), Arc::clone(&tell));
                    handshakes.0.push_back((under_way.spawn(handshake), spoke));
                    // Who has spoken is heard before more come.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tell(format!("a connection could not be accepted: {error}"));
                    sleep(SHORT_OF_DESCRIPTORS).await;
                }
            },
            Some(done) = under_way.join_next() => {
                if let Ok(Some(connection)) = done && sender.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            () = sender.closed() => return,
        }
    }
}

/// The handshakes under way, the oldest first, and whether their clients have spoken.
#[derive(Default)]
struct Handshakes(VecDeque<(AbortHandle, Arc<AtomicBool>)>);

impl Handshakes {
    /// Has the oldest give way, where there are too many of its kind.
    fn make_room(&mut self) {
        self.0.retain(|(handshake, _)| !handshake.is_finished());
        for (speaking, at_most) in [(false, SILENT), (true, HANDSHAKES)] {
            let is_of_kind = |(_, spoke): &(AbortHandle, Arc<AtomicBool>)| spoke.load(Ordering::Relaxed) == speaking;
            if self.0.iter().filter(|handshake| is_of_kind(handshake)).count() >= at_most
                && let Some(oldest) = self.0.iter().position(is_of_kind)
                && let Some((handshake, _)) = self.0.remove(oldest)
            {
                handshake.abort();
            }
        }
    }
}

/// The handshake.
async fn let_in(
    (stream, address): (TcpStream, SocketAddr),
    spoke: Arc<AtomicBool>,
    gate: Arc<Gate>,
    tell: Tell,
) -> Option<Connection> {
    // An answer must not wait for more to be sent with it.
    let _ = stream.set_nodelay(true);
    let shown = Shown::default();
    let refused = |why: String| {
        let whose = shown.name().map(|name| format!(" ({name:?})")).unwrap_or_default();
        tell(format!("{address}{whose} was not let in: {why}"));
    };
    let config = gate.loaded().config(shown.clone());
    let acceptor = match config {
        Ok(config) => TlsAcceptor::from(config),
        Err(error) => {
            refused(error.to_string());
            return None;
        }
    };
    let handshake = async {
        stream.peek(&mut [0]).await?;
        spoke.store(true, Ordering::Relaxed);
        acceptor.accept(stream).await
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

/// Waits until a certificate is let in no more; why not.
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

/// Why a handshake failed.
fn why(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => in_words(error),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it left in mid-handshake".into(),
        None => error.to_string(),
    }
}

/// What a server has against a client.
fn in_words(error: &Error) -> String {
    use CertificateError as Certificate;
    let what = match error {
        Error::NoCertificatesPresented => "it shows no certificate",
        Error::InvalidMessage(_) => "it does not speak TLS, and nothing is answered in plain text",
        Error::PeerIncompatible(_) => "it does not speak TLS 1.3",
        Error::InvalidCertificate(certificate) => match certificate {
            Certificate::Revoked => "its certificate is revoked",
            Certificate::Expired | Certificate::ExpiredContext { .. } => "its certificate has expired",
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => "its certificate is not valid yet",
            Certificate::UnknownIssuer | Certificate::BadSignature => {
                "its certificate was not signed by the CA of the clients"
            }
            Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. } => {
                "its certificate is not made for clients; a server's certificate is no client's"
            }
            Certificate::UnknownRevocationStatus => "no list of revoked certificates is there for its CA",
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

//! One type for connections through the socket and over a network, with the identity of the peer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::sleep;
use tonic::transport::server::Connected;
use verbatim_tls::Peer;

use super::authority::Requests;
use super::connection_limits::{ConnectionLimits, ConnectionSlot};
use crate::access::{Caller, Identity};

/// The pause after a failed accept, for example when file descriptors are used up.
const SHORT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// The number of bytes that one read takes from a connection.
const READ: usize = 8 << 10;

/// A connection and its peer.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    caller: Caller,
    slot: ConnectionSlot,
    requests: Requests,
    /// Whether the log names the refused `:authority` of this connection.
    is_refusal_told: bool,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tls(Box<verbatim_tls::Connection>),
}

impl Connection {
    /// Creates a connection through the socket.
    pub(super) fn unix(stream: UnixStream, connection_limits: &ConnectionLimits) -> Self {
        /// The user id for a peer whose credentials are unknown.
        const NOBODY: u32 = 65534;
        let peer = stream.peer_cred();
        let (uid, gid) = peer.map_or((NOBODY, NOBODY), |peer| (peer.uid(), peer.gid()));
        let caller = Caller::user(uid, gid);
        Self {
            stream: Stream::Unix(stream),
            slot: connection_limits.take(&caller),
            caller,
            requests: Requests::new(true),
            is_refusal_told: false,
        }
    }

    /// Creates a connection over a network.
    pub(super) fn tls(stream: verbatim_tls::Connection, connection_limits: &ConnectionLimits) -> Self {
        let caller = caller(&stream.connect_info());
        Self {
            stream: Stream::Tls(Box::new(stream)),
            slot: connection_limits.take(&caller),
            caller,
            requests: Requests::new(false),
            is_refusal_told: false,
        }
    }

    /// Logs that h2 refuses the requests of this connection.
    fn tell_refusal(&mut self, authority: &str) {
        if !std::mem::replace(&mut self.is_refusal_told, true) {
            let (who, from) = (&self.caller.who, &self.caller.from);
            tracing::warn!(
                %who,
                from,
                authority,
                "requests are refused: their :authority is no host name; set the client's authority to localhost, for \
                 example with grpc.default_authority"
            );
        }
    }
}

/// Returns the caller of a connection over a network.
pub(super) fn caller(peer: &Peer) -> Caller {
    Caller {
        who: Identity::Certificate(peer.name.clone()),
        gid: None,
        from: peer.address.to_string(),
    }
}

/// Returns `accepted` unchanged. Pauses first if it is an error, because the next accept would fail at once too.
pub(super) async fn patiently<S>(accepted: io::Result<S>) -> io::Result<S> {
    if let Err(error) = &accepted {
        tracing::warn!(%error, "a connection could not be accepted");
        sleep(SHORT_OF_DESCRIPTORS).await;
    }
    accepted
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.slot.poll_must_go(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        loop {
            if self.requests.pop(into) || into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut space = [0; READ];
            let mut received = ReadBuf::new(&mut space);
            let read = match &mut self.stream {
                Stream::Unix(stream) => Pin::new(stream).poll_read(context, &mut received),
                Stream::Tls(stream) => Pin::new(stream).poll_read(context, &mut received),
            };
            ready!(read)?;
            self.slot.heard();
            let received = received.filled();
            if let Some(refused) = self.requests.push(received) {
                self.tell_refusal(&refused);
            }
            if received.is_empty() {
                self.requests.pop(into);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

//! Connecting to an agent, and saying in words why it did not work.
//!
//! In TLS 1.3 a client is through with the handshake before the server has looked at its certificate, so a refusal
//! comes as an error of the first read, deep inside HTTP/2, which calls it "operation was canceled". The connection is
//! watched for that reason: what the transport saw first is what is said.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error as Tls};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use super::address::{AgentAddress, AgentTls, Place};

/// A connection that is silent for so long is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// And is lost when none comes in this time.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects.
pub(super) async fn connect(address: &AgentAddress) -> Result<(Channel, Seen), String> {
    let seen = Seen::default();
    let stream = Watched {
        inner: open(address)
            .await
            .map_err(|why| format!("agent at {address}: {why}"))?,
        seen: seen.clone(),
        plain: address.tls.is_none(),
        failed: None,
    };
    let mut once = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        // Never a second time: another connection would be another session.
        let stream = once.take().ok_or_else(|| io::Error::other("the connection is lost"));
        async move { stream }
    });
    let endpoint = Endpoint::from_static("http://agent")
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    let channel = endpoint.connect_with_connector(connector).await;
    let channel = channel.map_err(|error| seen.explain(address, &in_full(&error)))?;
    Ok((channel, seen))
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn open(address: &AgentAddress) -> Result<Box<dyn Stream>, String> {
    match (&address.place, &address.tls) {
        (Place::Unix(path), None) => match UnixStream::connect(path).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(not_there(&error)),
        },
        (Place::Unix(_), Some(_)) => Err("a unix socket has no TLS: leave the certificates out".into()),
        (Place::Tcp(address), None) if !address.ip().to_canonical().is_loopback() => Err(
            "an agent on another host takes clients with certificates only: name the CA, the certificate and the key \
             (`verbatim pki init` makes them)"
                .into(),
        ),
        (Place::Tcp(address), tls) => {
            let stream = TcpStream::connect(address).await.map_err(|error| not_there(&error))?;
            // A command must not wait for more to be sent with it.
            let _ = stream.set_nodelay(true);
            match tls {
                None => Ok(Box::new(stream)),
                Some(tls) => secure(stream, *address, tls).await,
            }
        }
    }
}

fn not_there(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            "nobody listens there: start `verbatim-agent --listen …`, or correct the address"
        }
        io::ErrorKind::PermissionDenied => "this user may not connect: join the group of the socket",
        _ => "is the host up, and its port open to this one?",
    };
    format!("no connection ({error}); {remedy}")
}

async fn secure(stream: TcpStream, address: SocketAddr, tls: &AgentTls) -> Result<Box<dyn Stream>, String> {
    let config = crate::tls::client(&tls.files).map_err(|error| error.to_string())?;
    let name = tls.server_name.clone().unwrap_or_else(|| address.ip().to_string());
    let server = ServerName::try_from(name.clone()).map_err(|_| {
        format!("{name:?} is no name that a certificate could be made for; give a host name or an address")
    })?;
    match TlsConnector::from(config).connect(server, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(tls_in_words(&error, Some((&name, tls)))),
    }
}

/// What a TLS error means and what to do. `ours` is absent where the files are not known any more.
fn tls_in_words(error: &io::Error, ours: Option<(&str, &AgentTls)>) -> String {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()) else {
        return format!("the TLS handshake failed ({error}); is it an agent with TLS that listens there?");
    };
    let (name, ca) = match ours {
        Some((name, tls)) => (name, tls.files.ca.display().to_string()),
        None => ("this address", "given".into()),
    };
    match tls {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            format!("the server's certificate was not signed by the CA {ca}; name the ca.pem that it was made with")
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            format!(
                "the server's certificate is not made for {name} ({tls}); make one with `verbatim pki init DIR --agent \
                 {name}`, or name the server as its certificate does"
            )
        }
        Tls::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            format!("the server's certificate has expired ({tls}); make new ones with `verbatim pki init`")
        }
        Tls::InvalidCertificate(_) => format!("the server's certificate is not accepted ({tls})"),
        Tls::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires a client certificate: name the certificate and the key of this side".into()
        }
        Tls::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "the server requires a client certificate: ours was not signed by the CA that it was given with \
             --tls-client-ca"
                .into()
        }
        Tls::AlertReceived(AlertDescription::CertificateExpired) => {
            "the server requires a client certificate: ours has expired, by its clock".into()
        }
        Tls::AlertReceived(AlertDescription::BadCertificate | AlertDescription::CertificateUnknown) => {
            format!("the server requires a client certificate: it does not accept ours ({tls})")
        }
        Tls::AlertReceived(AlertDescription::ProtocolVersion) | Tls::PeerIncompatible(_) => {
            format!("the server does not speak TLS 1.3 ({tls}); is it an agent that listens there?")
        }
        Tls::InvalidMessage(_) => {
            "the server does not speak TLS; is it an agent without certificates, on a loopback address of its host?"
                .into()
        }
        _ => format!("TLS failed ({tls})"),
    }
}

/// What went wrong with a connection first, as its transport saw it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    first: Arc<Mutex<Option<String>>>,
}

impl Seen {
    fn note(&self, what: impl FnOnce() -> String) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(what);
    }

    /// Why a call failed: what the transport saw, else what the call says.
    pub(super) fn explain(&self, address: &AgentAddress, call: &str) -> String {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            Some(seen) => format!("agent at {address}: {seen}"),
            None => format!("agent at {address}: {call}"),
        }
    }
}

/// A connection that is watched.
struct Watched {
    inner: Box<dyn Stream>,
    seen: Seen,
    /// Without TLS, until something was read.
    plain: bool,
    /// How the first write failed that did.
    failed: Option<io::ErrorKind>,
}

/// First byte of a TLS record that holds an alert, or a handshake message. HTTP/2 begins with a length below 2^16.
const TLS_RECORDS: [u8; 2] = [0x15, 0x16];

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.look_at_read(&polled, buffer, before);
        polled
    }
}

impl Watched {
    /// Notes what a read tells of the other end.
    fn look_at_read(&mut self, polled: &Poll<io::Result<()>>, buffer: &ReadBuf<'_>, before: usize) {
        match polled {
            Poll::Ready(Ok(())) => {
                let read = &buffer.filled()[before..];
                match read.first() {
                    Some(first) if self.plain && TLS_RECORDS.contains(first) => self.seen.note(|| {
                        "the server requires a client certificate: it speaks TLS, and this side was given none; name the \
                         CA, the certificate and the key"
                            .into()
                    }),
                    None if buffer.remaining() > 0 => self.seen.note(|| {
                        "the agent closed the connection: it was stopped or killed, or its host went down".into()
                    }),
                    _ => {}
                }
                self.plain &= read.is_empty();
            }
            Poll::Ready(Err(error)) => self.seen.note(|| match error.get_ref() {
                Some(inner) if inner.is::<Tls>() => tls_in_words(error, None),
                _ => format!("the connection broke ({error}): the agent was killed, or its host went down"),
            }),
            Poll::Pending => {}
        }
    }

    /// After a failed write: reads until the end, since why the other end closed may still be on its way. The end comes:
    /// a connection that cannot be written is over.
    fn read_the_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut room = [0; 1024];
            let mut buffer = ReadBuf::new(&mut room);
            let polled = Pin::new(&mut self.inner).poll_read(cx, &mut buffer);
            self.look_at_read(&polled, &buffer, 0);
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }

    /// Passes a write's result on; an error only once the end was read.
    fn written<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(Err(error)) => {
                let failed = self.failed.get_or_insert(error.kind());
                let error = io::Error::from(*failed);
                self.read_the_end(cx).map(|()| Err(error))
            }
            other => other,
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = match self.failed {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None => Pin::new(&mut self.inner).poll_write(cx, bytes),
        };
        self.written(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match self.failed {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None => Pin::new(&mut self.inner).poll_flush(cx),
        };
        self.written(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// An error with all that caused it.
pub(super) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

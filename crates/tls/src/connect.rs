//! The client side: connects to a server, and describes failures.
//!
//! In TLS 1.3 the client finishes the handshake before the server has checked the client's certificate.
//! [`Connector::connect`] therefore also waits for the server's first byte, which every HTTP/2 server sends
//! immediately. A server that refuses the client sends an alert instead of this byte. Without the wait, the HTTP/2
//! code would receive the alert, and its cause would be lost.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::iter::successors;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error as Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

use crate::{ClientFiles, TlsError};

/// The words for the server and its settings in error messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// The expected server, such as "a daemon".
    pub server: &'static str,
    /// The words that tell where the server's administrator sets the CA of the clients, such as "as client_ca".
    pub client_ca: &'static str,
    /// The option of `verbatim pki init` and `verbatim pki issue` that takes the server's name, such as
    /// "--server".
    pub named_by: &'static str,
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No server can be reached at the address.
    #[error("no connection ({0})")]
    Unreached(#[source] io::Error),
    /// This client does not accept the server's certificate.
    #[error("the server is not accepted ({0})")]
    NotAccepted(#[source] Tls),
    /// The server does not accept this client's certificate.
    #[error("the server does not accept this client ({0:?})")]
    Refused(AlertDescription),
    /// The server closed the connection without an alert.
    #[error("the server closed the connection in the TLS handshake ({0})")]
    Closed(#[source] io::Error),
}

/// A connector for tonic's channels that uses TLS. It connects to the host given to [`Connector::new`], and
/// ignores the URI of the request.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
    host: String,
    port: u16,
    name: ServerName<'static>,
}

impl Connector {
    /// Makes a connector for a server at this host name or address. `name` is the name in the server's certificate;
    /// `None` means `host`.
    ///
    /// # Errors
    /// The wrong file and the reason, or an invalid name.
    pub fn new(host: &str, port: u16, name: Option<&str>, files: &ClientFiles) -> Result<Self, ConnectorError> {
        let name = name.unwrap_or(host);
        Ok(Self {
            config: crate::client(files)?,
            host: host.into(),
            port,
            name: ServerName::try_from(name.to_owned()).map_err(|_| ConnectorError::Name(name.into()))?,
        })
    }

    /// Replaces the TLS configuration, for a test client that does not check its own certificate first.
    #[cfg(test)]
    pub(crate) fn set_config(&mut self, config: Arc<ClientConfig>) {
        self.config = config;
    }

    /// Connects and waits for the server's first byte.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(&self) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, ConnectError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(ConnectError::Unreached)?;
        let _ = stream.set_nodelay(true);
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let mut stream = connector
            .connect(self.name.clone(), stream)
            .await
            .map_err(of_handshake)?;
        let mut first = [0; 1];
        match stream.read_exact(&mut first).await {
            Ok(_) => Ok(Begun {
                stream,
                first: Some(first[0]),
            }),
            Err(error) => Err(of_handshake(error)),
        }
    }
}

/// Why a connector cannot be created, independent of the server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// A file cannot be used.
    #[error(transparent)]
    Files(#[from] TlsError),
    /// The server's name is invalid.
    #[error("{0:?} cannot be the name in a certificate; give a host name or an address")]
    Name(String),
}

fn of_handshake(error: io::Error) -> ConnectError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()) {
        Some(Tls::AlertReceived(alert)) => ConnectError::Refused(*alert),
        Some(tls) => ConnectError::NotAccepted(tls.clone()),
        None => ConnectError::Closed(error),
    }
}

impl ConnectError {
    /// Describes the error and what to do.
    #[must_use]
    pub fn in_words(&self, words: &Words, files: &ClientFiles, name: &str) -> String {
        let server = words.server;
        match self {
            Self::Unreached(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    format!("no connection ({error}); no program listens there: start {server}, or correct the address")
                }
                _ => format!("no connection ({error}); is the host up, its name right, and its port open to this one?"),
            },
            Self::NotAccepted(tls) => not_accepted(tls, words, files, name),
            Self::Refused(alert) => match refusal(*alert, words) {
                Some(why) => format!("the server requires a client certificate: {why}"),
                None if *alert == AlertDescription::ProtocolVersion => {
                    format!("the server does not speak TLS 1.3; is it {server} that listens there?")
                }
                None => format!("the server ended the TLS handshake ({alert:?}); its log says why"),
            },
            Self::Closed(error) => {
                format!(
                    "the TLS handshake failed ({error}): is it {server} with TLS that listens there? Its log says more"
                )
            }
        }
    }

    /// Finds this error among the causes of another error.
    #[must_use]
    pub fn within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        successors(Some(error), |&error| error.source()).find_map(|cause| cause.downcast_ref())
    }
}

/// Describes a handshake that failed on the client's side, and what to do.
fn not_accepted(tls: &Tls, words: &Words, files: &ClientFiles, name: &str) -> String {
    let Words { server, named_by, .. } = words;
    let ca = files.ca.display();
    match tls {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            format!("the server's certificate was not signed by the CA {ca}; name the ca.pem that it was made with")
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            format!(
                "the server's certificate is not made for {name} ({tls}); make one with `verbatim pki init DIR {named_by} \
                 {name}`, or name the server as its certificate does"
            )
        }
        Tls::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            format!("the server's certificate has expired ({tls}); make new ones with `verbatim pki init`")
        }
        Tls::InvalidCertificate(CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. }) => {
            "the server shows a certificate that is not made for servers; give it the server's (server.pem of `verbatim \
             pki init`)"
                .into()
        }
        Tls::InvalidCertificate(_) => format!("the server's certificate is not accepted ({tls})"),
        Tls::PeerIncompatible(_) => {
            format!("the server does not speak TLS 1.3 ({tls}); is it {server} that listens there?")
        }
        Tls::InvalidMessage(_) => {
            format!("the server does not speak TLS; is it {server} with certificates that listens there?")
        }
        _ => format!("TLS failed ({tls})"),
    }
}

/// Describes a server's alert about the client's certificate, and what to do. Returns `None` for any other alert.
fn refusal(alert: AlertDescription, words: &Words) -> Option<String> {
    Some(match alert {
        AlertDescription::CertificateRequired => "name the certificate and the key of this side".into(),
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            format!(
                "the client's certificate was not signed by the CA that the server has {}",
                words.client_ca
            )
        }
        AlertDescription::CertificateExpired => {
            "the client's certificate has expired, by the server's clock; make a new one with `verbatim pki issue`"
                .into()
        }
        AlertDescription::CertificateRevoked => {
            "the client's certificate is revoked; ask the server's administrator for a new one (`verbatim pki issue`)"
                .into()
        }
        AlertDescription::UnsupportedCertificate => {
            "the client's certificate is not made for clients; name another one (client.pem of `verbatim pki init`)"
                .into()
        }
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "the server does not accept the client's certificate; make a new one with `verbatim pki issue`".into()
        }
        _ => return None,
    })
}

/// Describes the failure of a connection, if the reason is that the server requires a client certificate. Searches
/// the causes of `error` for the text of the server's alert; returns `None` if no cause contains it.
#[must_use]
pub fn refused_by_it(error: &(dyn StdError + 'static), words: &Words) -> Option<String> {
    let asked = Tls::AlertReceived(AlertDescription::CertificateRequired).to_string();
    successors(Some(error), |&error| error.source())
        .any(|cause| cause.to_string().contains(&asked))
        .then(|| refusal(AlertDescription::CertificateRequired, words))
        .flatten()
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Pin<Box<dyn Stream>>>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let stream: Pin<Box<dyn Stream>> = Box::pin(connector.connect().await?);
            Ok(TokioIo::new(stream))
        })
    }
}

/// A connection with any transport.
pub trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// A connection whose first byte has been read.
struct Begun {
    stream: TlsStream<TcpStream>,
    first: Option<u8>,
}

impl AsyncRead for Begun {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.first {
            Some(first) if into.remaining() > 0 => {
                into.put_slice(&[first]);
                self.first = None;
                Poll::Ready(Ok(()))
            }
            Some(_) => Poll::Ready(Ok(())),
            None => Pin::new(&mut self.stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Begun {
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

//! Who may connect over a network: mutual TLS 1.3, with certificates from PEM files.
//!
//! Both sides show a certificate, each signed by a CA that the other names. There is no TLS 1.2 and nothing to
//! negotiate down to. `verbatim pki` makes a small CA and certificates.
//!
//! | module | what |
//! |---|---|
//! | `files` | files, looked at before they are used: what is wrong with one is said with its name |
//! | [`gate`](Gate) | what a server lets in by, read again without a restart |
//! | `incoming` | connections that have shown a certificate, until it is revoked or expires |
//! | `connect` | a client's side, and in words why it was not let in |

mod connect;
mod files;
mod gate;
mod incoming;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;

pub use connect::{ConnectError, Connector, Words, refused_by_it};
use files::{Part, Use};
pub use files::{TlsError, name_of};
pub use gate::Gate;
pub use incoming::{Connection, Peer, incoming};

/// The protocol that is spoken inside.
const HTTP_2: &[u8] = b"h2";

/// The files of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFiles {
    /// Its certificate, with those between it and its CA.
    pub cert: PathBuf,
    /// The private key of its certificate.
    pub key: PathBuf,
    /// The CA that signed the certificates of clients.
    pub client_ca: PathBuf,
    /// The CA's list of revoked certificates.
    pub crl: Option<PathBuf>,
}

/// The files of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFiles {
    /// The CA that signed the server's certificate.
    pub ca: PathBuf,
    /// The client's certificate, with those between it and its CA.
    pub cert: PathBuf,
    /// The private key of its certificate.
    pub key: PathBuf,
}

/// What does the sums.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Our certificate and its key, which belong together.
fn identity(cert: &Path, key: &Path, usage: Use) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = files::chain(cert, usage)?;
    let private = files::key(key)?;
    let identity =
        CertifiedKey::from_der(chain, private, &provider()).map_err(|error| TlsError::pair(cert, key, &error))?;
    Ok(Arc::new(identity))
}

/// A client's side, with a certificate.
///
/// # Errors
/// Which file is wrong, and why.
pub fn client(given: &ClientFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let identity = identity(&given.cert, &given.key, Use::Client)?;
    let (roots, _) = files::roots(Part::ServerCa, &given.ca)?;
    let unusable = |error| TlsError::unusable(Part::ServerCa, &given.ca, &error);
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(identity)));
    config.alpn_protocols = vec![HTTP_2.into()];
    // Nothing is taken up again: who connects shows a certificate.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Whether a certificate's time is now.
///
/// # Errors
/// What is the matter.
pub fn still_valid(certificate: &CertificateDer<'_>) -> Result<(), String> {
    files::in_time(certificate, UnixTime::now())
}

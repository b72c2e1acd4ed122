//! Access control over a network: mutual TLS 1.3, with certificates from PEM files.
//!
//! Each side presents a certificate, signed by a CA that the other side trusts. TLS 1.2 is not supported, so no
//! downgrade is possible. `verbatim pki` makes a small CA and certificates.
//!
//! | module | contents |
//! |---|---|
//! | `crl` | lists of revoked certificates: signature and age |
//! | `files` | checks of the files before use; an error names the file |
//! | [`gate`](Gate) | the TLS settings of a server, which can be reloaded without a restart |
//! | `crowd` | limits of clients that have not said who they are, by source address |
//! | `incoming` | connections with an accepted client certificate; they end when it is revoked or expires |
//! | `connect` | the client side, and descriptions of refusals |

mod connect;
mod crl;
mod crowd;
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
pub use crowd::{Crowd, Known, Stage};
use files::{Part, Use};
pub use files::{TlsError, name_of};
pub use gate::Gate;
pub use incoming::{Connection, Peer, incoming};

/// The ALPN name of HTTP/2, the protocol inside TLS.
const HTTP_2: &[u8] = b"h2";

/// The files of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFiles {
    /// The server's certificate, with its intermediate certificates.
    pub cert: PathBuf,
    /// The private key of this certificate.
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
    /// The client's certificate, with its intermediate certificates.
    pub cert: PathBuf,
    /// The private key of this certificate.
    pub key: PathBuf,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads a certificate and its key, and checks that they belong together.
fn identity(cert: &Path, key: &Path, usage: Use) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = files::chain(cert, usage)?;
    let private = files::key(key)?;
    let identity =
        CertifiedKey::from_der(chain, private, &provider()).map_err(|error| TlsError::pair(cert, key, &error))?;
    Ok(Arc::new(identity))
}

/// Makes the configuration of a client with a certificate.
///
/// # Errors
/// The wrong file and the reason.
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
    // Sessions are not resumed: each connection presents a certificate.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Checks that a certificate is valid now.
///
/// # Errors
/// The reason why it is not valid, as text.
pub fn still_valid(certificate: &CertificateDer<'_>) -> Result<(), String> {
    files::in_time(certificate, UnixTime::now())
}

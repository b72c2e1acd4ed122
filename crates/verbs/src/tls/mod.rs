//! Who may connect over a network: mutual TLS 1.3, with certificates from PEM files.
//!
//! Both sides show a certificate, each signed by a CA that the other names. There is no TLS 1.2 and nothing to
//! negotiate down to. `verbatim pki init` makes a small CA with one certificate for each side.

mod files;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

pub use files::TlsError;
use files::{Part, Use};

/// What both sides speak.
const ALPN: &[u8] = b"h2";

/// The files of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFiles {
    /// Its certificate, with those between it and its CA.
    pub cert: PathBuf,
    /// The private key of its certificate.
    pub key: PathBuf,
    /// The CA that signed the certificates of clients.
    pub client_ca: PathBuf,
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

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(part: Part, path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in files::ca(part, path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::unusable(part, path, &error))?;
    }
    Ok(Arc::new(roots))
}

/// A server's side: TLS 1.3 alone, no client without a certificate.
///
/// # Errors
/// Which file is wrong, and why.
pub fn server(given: &ServerFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = files::chain(Part::Certificate, &given.cert, Use::Server)?;
    let key = files::key(&given.key)?;
    let roots = roots(Part::ClientCa, &given.client_ca)?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| TlsError::unusable(Part::ClientCa, &given.client_ca, &error))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsError::unusable(Part::Certificate, &given.cert, &error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(|error| TlsError::pair(&given.cert, &given.key, &error))?;
    config.alpn_protocols = vec![ALPN.into()];
    // A ticket would let a client back in after its certificate expired.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A client's side: TLS 1.3 alone, with a certificate.
///
/// # Errors
/// Which file is wrong, and why.
pub fn client(given: &ClientFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let chain = files::chain(Part::Certificate, &given.cert, Use::Client)?;
    let key = files::key(&given.key)?;
    let roots = roots(Part::ServerCa, &given.ca)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsError::unusable(Part::Certificate, &given.cert, &error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| TlsError::pair(&given.cert, &given.key, &error))?;
    config.alpn_protocols = vec![ALPN.into()];
    Ok(Arc::new(config))
}

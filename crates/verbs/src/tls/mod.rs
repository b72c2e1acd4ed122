//! Who may connect over a network: mutual TLS 1.3, with certificates from PEM files.
//!
//! Both sides show a certificate, each signed by a CA that the other names. There is no TLS 1.2 and nothing to
//! negotiate down to. `verbatim pki init` makes a small CA with one certificate for each side.
//!
//! The handshakes are tonic's. What is here looks at the files first, so that what is wrong with one is said with its
//! name, and leaves this process no cipher suites but those of TLS 1.3: tonic's configuration has no word for it.

mod files;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

pub use files::TlsError;
use files::{Part, Use};

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

/// The provider of this process, which knows TLS 1.3 and no other.
///
/// # Errors
/// When something else in this process chose a provider before, and it has cipher suites of TLS 1.2.
fn provider() -> Result<&'static Arc<CryptoProvider>, TlsError> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.tls13().is_some());
    // It may be there from an earlier call.
    let _ = provider.install_default();
    CryptoProvider::get_default()
        .filter(|provider| provider.cipher_suites.iter().all(|suite| suite.tls13().is_some()))
        .ok_or(TlsError::OtherVersions)
}

/// Our certificate and its key, which belong together.
fn identity(cert: &Path, key: &Path, usage: Use) -> Result<Identity, TlsError> {
    let (chain, chain_pem) = files::chain(cert, usage)?;
    let (private, key_pem) = files::key(key)?;
    CertifiedKey::from_der(chain, private, provider()?).map_err(|error| TlsError::pair(cert, key, &error))?;
    Ok(Identity::from_pem(chain_pem, key_pem))
}

/// A server's side: no client without a certificate.
///
/// # Errors
/// Which file is wrong, and why.
pub fn server(given: &ServerFiles) -> Result<ServerTlsConfig, TlsError> {
    let identity = identity(&given.cert, &given.key, Use::Server)?;
    let ca = files::ca(Part::ClientCa, &given.client_ca)?;
    Ok(ServerTlsConfig::new()
        .identity(identity)
        .client_ca_root(Certificate::from_pem(ca)))
}

/// A client's side, with a certificate.
///
/// # Errors
/// Which file is wrong, and why.
pub fn client(given: &ClientFiles) -> Result<ClientTlsConfig, TlsError> {
    let identity = identity(&given.cert, &given.key, Use::Client)?;
    let ca = files::ca(Part::ServerCa, &given.ca)?;
    Ok(ClientTlsConfig::new()
        .identity(identity)
        .ca_certificate(Certificate::from_pem(ca)))
}

/// Whether a client's certificate is still valid: a connection may outlive it, and one that is taken up again is not
/// asked for it.
///
/// # Errors
/// What is the matter.
pub fn still_valid(certificate: &CertificateDer<'_>) -> Result<(), String> {
    files::in_time(certificate, UnixTime::now())
}

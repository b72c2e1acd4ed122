//! The TLS settings of a server. They can be reloaded from their files without a restart; a failed reload changes
//! nothing.

use std::sync::{Arc, Mutex, PoisonError};

use pem::Pem;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tokio::sync::watch;

use crate::crl::{self, Lists};
use crate::files::{self, Part, Use};
use crate::{HTTP_2, ServerFiles, TlsError, identity, provider};

/// The certificate of a server, and the verifier for its clients' certificates.
#[derive(Debug)]
pub struct Gate {
    now: watch::Sender<Arc<Loaded>>,
}

/// The content of the files when they were read.
#[derive(Debug)]
pub(super) struct Loaded {
    identity: Arc<CertifiedKey>,
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    /// The newest list of revoked certificates of each CA, also if it was used before these files were read.
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl Loaded {
    /// Reads the files. `used` holds the revocation lists that this server has used.
    fn read(given: &ServerFiles, used: &[CertificateRevocationListDer<'static>]) -> Result<Self, TlsError> {
        let identity = identity(&given.cert, &given.key, Use::Server)?;
        let (roots, cas) = files::roots(Part::ClientCa, &given.client_ca)?;
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let mut revoked = used.to_vec();
        if let Some(crl) = &given.crl {
            let lists = Lists::read(crl, &cas, used)?;
            revoked = lists.newest;
            verifier = verifier
                .with_crls(lists.each)
                .only_check_end_entity_revocation()
                .enforce_revocation_expiration();
        }
        let verifier = verifier.build();
        let verifier = verifier.map_err(|error| TlsError::unusable(Part::ClientCa, &given.client_ca, &error))?;
        Ok(Self {
            identity,
            verifier,
            revoked,
        })
    }

    /// Makes the configuration of one connection. When the client sends its certificate, the verifier stores the
    /// certificate's name in `shown`, so that the log line about a refusal can name the client.
    pub(super) fn config(&self, shown: Shown) -> Result<Arc<ServerConfig>, Error> {
        let verifier = Noting {
            verifier: Arc::clone(&self.verifier),
            shown,
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.identity))));
        config.alpn_protocols = vec![HTTP_2.into()];
        // Disable resumption: a resumed session would skip the check of the client's certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

impl Gate {
    /// Reads the files.
    ///
    /// # Errors
    /// The wrong file and the reason.
    pub fn open(files: &ServerFiles) -> Result<Arc<Self>, TlsError> {
        Self::open_after(files, "")
    }

    /// Reads the files. `used` is the result of [`Self::revoked`] of an earlier gate: an older list of revoked
    /// certificates is an error.
    ///
    /// # Errors
    /// The wrong file and the reason.
    pub fn open_after(files: &ServerFiles, used: &str) -> Result<Arc<Self>, TlsError> {
        let used = crl::parse(used.as_bytes()).unwrap_or_default();
        Ok(Arc::new(Self {
            now: watch::Sender::new(Arc::new(Loaded::read(files, &used)?)),
        }))
    }

    /// Reads the files again. Ends each connection whose client certificate the new files do not accept.
    ///
    /// # Errors
    /// The wrong file and the reason. After an error, the old settings stay in use.
    pub fn reload(&self, files: &ServerFiles) -> Result<(), TlsError> {
        let new = Loaded::read(files, &self.loaded().revoked)?;
        self.now.send_replace(Arc::new(new));
        Ok(())
    }

    /// Returns the newest list of revoked certificates of each CA, as PEM.
    #[must_use]
    pub fn revoked(&self) -> String {
        let loaded = self.loaded();
        let lists: Vec<_> = loaded
            .revoked
            .iter()
            .map(|list| Pem::new("X509 CRL", &**list))
            .collect();
        pem::encode_many(&lists)
    }

    pub(super) fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.now.borrow())
    }

    pub(super) fn changes(&self) -> watch::Receiver<Arc<Loaded>> {
        self.now.subscribe()
    }
}

/// The name in the certificate that a client sent.
#[derive(Clone, Default, Debug)]
pub(super) struct Shown(Arc<Mutex<Option<String>>>);

impl Shown {
    pub(super) fn name(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug)]
struct Noting {
    verifier: Arc<dyn ClientCertVerifier>,
    shown: Shown,
}

impl ClientCertVerifier for Noting {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        *self.shown.0.lock().unwrap_or_else(PoisonError::into_inner) = files::name_of(certificate).ok();
        self.verifier.verify_client_cert(certificate, between, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

//! Certificates and keys from PEM files, looked at before they are used: which file is wrong, and why.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Part {
    /// Our certificate.
    Certificate,
    /// Its private key.
    Key,
    /// The CA of clients.
    ClientCa,
    /// The CA of the server.
    ServerCa,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
            Self::ClientCa => "CA of the clients",
            Self::ServerCa => "CA of the server",
        })
    }
}

/// What a certificate of ours is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Server,
    Client,
}

/// Which file is wrong, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// It cannot be read.
    #[error("the {part} {path} cannot be read ({seen}); name a PEM file that this user may read")]
    Read {
        /// What it is for.
        part: Part,
        /// The file.
        path: PathBuf,
        /// What the system said.
        seen: io::Error,
    },
    /// It holds nothing of the kind.
    #[error("the {part} {path} holds no {expected} in PEM form ({seen})")]
    NotPem {
        /// What it is for.
        part: Part,
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        seen: String,
    },
    /// Its time is over, or has not come.
    #[error(
        "the {part} {path} {what} (this host's clock says {now}); make new ones with `verbatim pki init`, or set the clock"
    )]
    Time {
        /// What it is for.
        part: Part,
        /// The file.
        path: PathBuf,
        /// "expired on …" or "is not valid before …".
        what: String,
        /// Today.
        now: String,
    },
    /// The key is not that of the certificate.
    #[error("the private key {key} is not that of the certificate {cert}; name the two that were made together")]
    KeyMismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// It is made for something else.
    #[error("the {part} {path} is {what}")]
    Kind {
        /// What it is for.
        part: Part,
        /// The file.
        path: PathBuf,
        /// What it is, and what was expected.
        what: &'static str,
    },
    /// Another part of this process chose versions of TLS before.
    #[error("this process has chosen versions of TLS besides 1.3 already; please report this")]
    OtherVersions,
    /// It cannot be used for another reason.
    #[error("the {part} {path} cannot be used: {seen}")]
    Unusable {
        /// What it is for.
        part: Part,
        /// The file.
        path: PathBuf,
        /// Why.
        seen: String,
    },
}

impl TlsError {
    pub(super) fn unusable(part: Part, path: &Path, error: &dyn fmt::Display) -> Self {
        Self::Unusable {
            part,
            path: path.into(),
            seen: error.to_string(),
        }
    }

    /// What the certificate and the key have against each other.
    pub(super) fn pair(cert: &Path, key: &Path, error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(_) => Self::KeyMismatch {
                cert: cert.into(),
                key: key.into(),
            },
            // The only other thing that is looked at by then.
            error => Self::unusable(Part::Key, key, error),
        }
    }
}

/// Certificates are small; what is larger is no such file.
const LARGEST: u64 = 1 << 20;

fn read(part: Part, path: &Path) -> Result<Vec<u8>, TlsError> {
    let seen = |seen| TlsError::Read {
        part,
        path: path.into(),
        seen,
    };
    let metadata = fs::metadata(path).map_err(seen)?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(seen(io::Error::other("it is no file of at most 1 MiB")));
    }
    fs::read(path).map_err(seen)
}

/// The certificates of a file, and its bytes.
fn certificates(part: Part, path: &Path) -> Result<(Vec<CertificateDer<'static>>, Vec<u8>), TlsError> {
    let not_pem = |seen: String| TlsError::NotPem {
        part,
        path: path.into(),
        expected: "certificate",
        seen,
    };
    let bytes = read(part, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| not_pem(error.to_string()))?;
    if found.is_empty() {
        return Err(not_pem(in_short(&bytes)));
    }
    Ok((found, bytes))
}

/// What a file without the expected part looks like.
fn in_short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.lines().find(|line| line.starts_with("-----BEGIN")) {
        Some(line) => format!("it begins with {line}"),
        None if bytes.is_empty() => "it is empty".into(),
        None => "it has no line -----BEGIN …-----".into(),
    }
}

/// A certificate of ours with those between it and its CA, and the file's bytes.
pub(super) fn chain(path: &Path, usage: Use) -> Result<(Vec<CertificateDer<'static>>, Vec<u8>), TlsError> {
    let part = Part::Certificate;
    let (chain, bytes) = certificates(part, path)?;
    let (usage, wrong) = match usage {
        Use::Server => (
            KeyUsage::server_auth(),
            "not made for servers; name the server's certificate (server.pem of `verbatim pki init`)",
        ),
        Use::Client => (
            KeyUsage::client_auth(),
            "not made for clients; name the client's certificate (client.pem of `verbatim pki init`)",
        ),
    };
    let kind = |what| TlsError::Kind {
        part,
        path: path.into(),
        what,
    };
    match look(part, path, &chain[0], usage)? {
        webpki::Error::CaUsedAsEndEntity => Err(kind(
            "that of a CA; name the certificate that the CA made for this side (server.pem or client.pem)",
        )),
        webpki::Error::RequiredEkuNotFoundContext(_) => Err(kind(wrong)),
        _ => Ok((chain, bytes)),
    }
}

/// The bytes of a file with the certificates of a CA.
pub(super) fn ca(part: Part, path: &Path) -> Result<Vec<u8>, TlsError> {
    let (found, bytes) = certificates(part, path)?;
    for certificate in &found {
        if look(part, path, certificate, KeyUsage::server_auth())? != webpki::Error::CaUsedAsEndEntity {
            return Err(TlsError::Kind {
                part,
                path: path.into(),
                what: "no certificate of a CA; name the CA's (ca.pem of `verbatim pki init`)",
            });
        }
        webpki::anchor_from_trusted_cert(certificate).map_err(|error| TlsError::unusable(part, path, &error))?;
    }
    Ok(bytes)
}

/// What is the matter with a certificate by itself, besides its time.
fn look(part: Part, path: &Path, certificate: &CertificateDer<'_>, usage: KeyUsage) -> Result<webpki::Error, TlsError> {
    let now = UnixTime::now();
    let seen = verify(certificate, usage, now).map_err(|error| TlsError::unusable(part, path, &error))?;
    match out_of_time(&seen) {
        None => Ok(seen),
        Some(what) => Err(TlsError::Time {
            part,
            path: path.into(),
            what,
            now: date(now),
        }),
    }
}

/// What a certificate is called that is not valid at this time.
pub(super) fn in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), String> {
    let seen = verify(certificate, KeyUsage::client_auth(), now).map_err(|error| error.to_string())?;
    out_of_time(&seen).map_or(Ok(()), Err)
}

/// What is the matter with a certificate by itself: it is verified against no CA at all, so something always is.
fn verify(certificate: &CertificateDer<'_>, usage: KeyUsage, now: UnixTime) -> Result<webpki::Error, webpki::Error> {
    let parsed = EndEntityCert::try_from(certificate)?;
    let verified = parsed.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &[], &[], now, usage, None, None);
    Ok(verified.err().unwrap_or(webpki::Error::UnknownIssuer))
}

fn out_of_time(seen: &webpki::Error) -> Option<String> {
    match seen {
        webpki::Error::CertExpired { not_after, .. } => Some(format!("expired on {}", date(*not_after))),
        webpki::Error::CertNotValidYet { not_before, .. } => Some(format!("is not valid before {}", date(*not_before))),
        _ => None,
    }
}

fn date(at: UnixTime) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => at.date().to_string(),
        Err(_) => format!("second {seconds}"),
    }
}

/// A private key, and its file's bytes.
pub(super) fn key(path: &Path) -> Result<(PrivateKeyDer<'static>, Vec<u8>), TlsError> {
    let bytes = read(Part::Key, path)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| TlsError::NotPem {
        part: Part::Key,
        path: path.into(),
        expected: "private key without a passphrase",
        seen: match error {
            rustls::pki_types::pem::Error::NoItemsFound => in_short(&bytes),
            error => error.to_string(),
        },
    })?;
    Ok((key, bytes))
}

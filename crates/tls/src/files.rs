//! Reads certificates and keys from PEM files, and checks them before use. An error names the file and the reason.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, GeneralName, X509Certificate};

/// The purpose of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Part {
    /// The certificate of this side.
    Certificate,
    /// The private key of that certificate.
    Key,
    /// The CA of the clients.
    ClientCa,
    /// The CA of the server.
    ServerCa,
    /// The list of revoked certificates.
    Crl,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
            Self::ClientCa => "CA of the clients",
            Self::ServerCa => "CA of the server",
            Self::Crl => "list of revoked certificates",
        })
    }
}

/// The role of this side. Its certificate must be made for this role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Server,
    Client,
}

/// The reason why a certificate, key or CRL file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read.
    #[error("the {part} {path} cannot be read ({seen}); name a PEM file that this user may read")]
    Read {
        /// Purpose of the file.
        part: Part,
        /// The file.
        path: PathBuf,
        /// The system's error.
        seen: io::Error,
    },
    /// The file lacks the expected item.
    #[error("the {part} {path} holds no {expected} in PEM form ({seen})")]
    NotPem {
        /// Purpose of the file.
        part: Part,
        /// The file.
        path: PathBuf,
        /// The expected item.
        expected: &'static str,
        /// The found content.
        seen: String,
    },
    /// The validity period of the certificate or CRL has ended or not begun.
    #[error(
        "the {part} {path} {what} (this host's clock says {now}); make new ones with `verbatim pki init`, or set the clock"
    )]
    Time {
        /// Purpose of the file.
        part: Part,
        /// The file.
        path: PathBuf,
        /// "expired on …" or "is not valid before …".
        what: String,
        /// Date of this host's clock.
        now: String,
    },
    /// The key does not belong to the certificate.
    #[error("the private key {key} does not belong to the certificate {cert}; name the two that were made together")]
    KeyMismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The certificate is made for another use, or the CRL belongs to another CA or is not the newest.
    #[error("the {part} {path} is {what}")]
    Kind {
        /// Purpose of the file.
        part: Part,
        /// The file.
        path: PathBuf,
        /// The found kind, and what to do.
        what: String,
    },
    /// The file cannot be used for another reason.
    #[error("the {part} {path} cannot be used: {seen}")]
    Unusable {
        /// Purpose of the file.
        part: Part,
        /// The file.
        path: PathBuf,
        /// The reason.
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

    /// Converts the error of a certificate and a key that do not belong together.
    pub(super) fn pair(cert: &Path, key: &Path, error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(_) => Self::KeyMismatch {
                cert: cert.into(),
                key: key.into(),
            },
            // The certificate was checked before, so the key causes any other error.
            error => Self::unusable(Part::Key, key, error),
        }
    }
}

/// The size limit of a file in bytes.
const LARGEST: u64 = 1 << 20;

pub(super) fn read(part: Part, path: &Path) -> Result<Vec<u8>, TlsError> {
    let seen = |seen| TlsError::Read {
        part,
        path: path.into(),
        seen,
    };
    let metadata = fs::metadata(path).map_err(seen)?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(seen(io::Error::other("it is not a file of at most 1 MiB")));
    }
    fs::read(path).map_err(seen)
}

fn certificates(part: Part, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
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
    Ok(found)
}

/// Describes the content of a file that lacks the expected item.
pub(super) fn in_short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.lines().find(|line| line.starts_with("-----BEGIN")) {
        Some(line) => format!("it begins with {line}"),
        None if bytes.is_empty() => "it is empty".into(),
        None => "it has no line -----BEGIN …-----".into(),
    }
}

/// Reads the certificate of this side with its intermediate certificates.
pub(super) fn chain(path: &Path, usage: Use) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let part = Part::Certificate;
    let chain = certificates(part, path)?;
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
    let kind = |what: &str| TlsError::Kind {
        part,
        path: path.into(),
        what: what.into(),
    };
    match look(part, path, &chain[0], usage)? {
        webpki::Error::CaUsedAsEndEntity => Err(kind(
            "that of a CA; name the certificate that the CA made for this side (server.pem or client.pem)",
        )),
        webpki::Error::RequiredEkuNotFoundContext(_) => Err(kind(wrong)),
        _ => Ok(chain),
    }
}

/// Reads the certificates of a CA's file. Returns them as roots and as certificates.
pub(super) fn roots(part: Part, path: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
    let found = certificates(part, path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &found {
        if look(part, path, certificate, KeyUsage::server_auth())? != webpki::Error::CaUsedAsEndEntity {
            return Err(TlsError::Kind {
                part,
                path: path.into(),
                what: "no certificate of a CA; name the CA's (ca.pem of `verbatim pki init`)".into(),
            });
        }
        let added = roots.add(certificate.clone());
        added.map_err(|error| TlsError::unusable(part, path, &error))?;
    }
    Ok((roots, found))
}

/// The length limit of a name in bytes, which is X.520's limit of a common name.
const LONGEST_NAME: usize = 64;

/// Returns the name of a certificate's owner: the common name of its subject or, without one, its only DNS name or
/// e-mail address.
///
/// # Errors
/// When the certificate has no name, several names, or a name that cannot be read. When the name is empty or too
/// long, or has control characters or spaces around it.
pub fn name_of(certificate: &CertificateDer<'_>) -> Result<String, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let unreadable = |what: &str| format!("its {what} cannot be read; expected UTF-8 or PrintableString");
    // A name that cannot be read counts: the certificate must not get another name because of it.
    let common = parsed.subject().iter_common_name().map(AttributeTypeAndValue::as_str);
    let mut names: Vec<&str> = common
        .collect::<Result<_, _>>()
        .map_err(|_| unreadable("subject's common name"))?;
    if names.is_empty() {
        let others = parsed.subject_alternative_name();
        let others = others.map_err(|_| unreadable("list of alternative names"))?;
        let others = others.map_or(&[][..], |others| &others.value.general_names);
        if others.iter().any(|name| matches!(name, GeneralName::Invalid(..))) {
            return Err(unreadable("list of alternative names"));
        }
        names = others.iter().filter_map(alternative).collect();
    }
    match names[..] {
        [name] if name.is_empty() || name.len() > LONGEST_NAME || name.trim() != name => Err(format!(
            "its subject's name has {} bytes, or spaces around it; expected 1 to {LONGEST_NAME} bytes without them",
            name.len()
        )),
        [name] if name.chars().any(char::is_control) => Err("its subject's name has control characters".into()),
        [name] => Ok(name.into()),
        [] => Err("its subject has no common name; make one with `verbatim pki issue DIR NAME`".into()),
        _ => Err("it names several subjects; expected one common name".into()),
    }
}

fn alternative<'a>(name: &GeneralName<'a>) -> Option<&'a str> {
    match *name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) => Some(name),
        _ => None,
    }
}

/// Returns how long a certificate is still valid.
pub(super) fn time_left(certificate: &CertificateDer<'_>, now: UnixTime) -> std::time::Duration {
    let until = X509Certificate::from_der(certificate).map_or(0, |(_, parsed)| parsed.validity().not_after.timestamp());
    std::time::Duration::from_secs(u64::try_from(until).unwrap_or(0).saturating_sub(now.as_secs()))
}

/// Returns the error of [`verify`] at the present time. Fails if the certificate is malformed, has expired or is
/// not valid yet.
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

/// Checks that a certificate is valid at a time. The error gives the date on which the certificate expired or
/// becomes valid.
pub(super) fn in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), String> {
    let seen = verify(certificate, KeyUsage::client_auth(), now).map_err(|error| error.to_string())?;
    out_of_time(&seen).map_or(Ok(()), Err)
}

/// Checks a certificate alone, without its CA. The certificate is verified against an empty list of CAs, so the
/// verification always fails. Returns its error, which is `UnknownIssuer` if the certificate has no other fault.
/// Fails if the certificate is malformed.
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

pub(super) fn date(at: UnixTime) -> String {
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => at.date().to_string(),
        Err(_) => format!("second {seconds}"),
    }
}

pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(Part::Key, path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| TlsError::NotPem {
        part: Part::Key,
        path: path.into(),
        expected: "private key without a passphrase",
        seen: match error {
            rustls::pki_types::pem::Error::NoItemsFound => in_short(&bytes),
            error => error.to_string(),
        },
    })
}

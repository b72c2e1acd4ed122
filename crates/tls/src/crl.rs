//! Lists of revoked certificates (CRLs). A CA must have signed each list, and no list may be older than one that this
//! side has used: otherwise a revoked client could get in again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use crate::files::{Part, TlsError, date, in_short, read};

type Der = CertificateRevocationListDer<'static>;

/// The content of a file of lists.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) each: Vec<Der>,
    /// The newest list of each CA.
    pub(super) newest: Vec<Der>,
}

impl Lists {
    /// Reads the lists of a file. Each list must be signed by one of `cas`, not be expired, and not be older than a
    /// list of the same CA in the file or in `used`.
    pub(super) fn read(path: &Path, cas: &[CertificateDer<'_>], used: &[Der]) -> Result<Self, TlsError> {
        let part = Part::Crl;
        let not_pem = |seen: String| TlsError::NotPem {
            part,
            path: path.into(),
            expected: "X509 CRL",
            seen,
        };
        let wrong = |what: String| TlsError::Kind {
            part,
            path: path.into(),
            what,
        };
        let pem = read(part, path)?;
        let each = parse(&pem).map_err(|error| not_pem(error.to_string()))?;
        if each.is_empty() {
            return Err(not_pem(in_short(&pem)));
        }
        let mut given = Vec::new();
        for list in &each {
            let (_, parsed) =
                CertificateRevocationList::from_der(list).map_err(|error| TlsError::unusable(part, path, &error))?;
            let ca = signer(&parsed, cas).map_err(|what| wrong(what.into()))?;
            in_time(&parsed, path)?;
            given.push((ca, Age::of(&parsed), list));
        }
        // A used list of a CA that is no longer trusted has no effect.
        let used = used.iter().filter_map(|list| {
            let (_, parsed) = CertificateRevocationList::from_der(list).ok()?;
            Some((signer(&parsed, cas).ok()?, Age::of(&parsed), list))
        });
        let mut newest: BTreeMap<usize, (Age, &Der)> = BTreeMap::new();
        for (ca, age, list) in given.iter().cloned().chain(used) {
            if newest.get(&ca).is_none_or(|(than, _)| than.is_older_than(&age)) {
                newest.insert(ca, (age, list));
            }
        }
        for (ca, age, _) in &given {
            if let Some((newer, _)) = newest.get(ca).filter(|(newer, _)| age.is_older_than(newer)) {
                return Err(wrong(format!(
                    "older than one that was in use: expected {newer} or a later one, seen {age}. Put the newest list \
                     of the CA there; `verbatim pki revoke` makes it"
                )));
            }
        }
        let newest = newest.into_values().map(|(_, list)| list.clone()).collect();
        Ok(Self { each, newest })
    }
}

/// Returns the lists in a PEM text.
pub(super) fn parse(pem: &[u8]) -> Result<Vec<Der>, rustls::pki_types::pem::Error> {
    CertificateRevocationListDer::pem_slice_iter(pem).collect()
}

/// Returns the place of the CA that signed a list, or what is wrong with the list.
fn signer(list: &CertificateRevocationList<'_>, cas: &[CertificateDer<'_>]) -> Result<usize, &'static str> {
    let mut wrong = "that of another CA; name the crl.pem beside the CA's certificate";
    for (place, ca) in cas.iter().enumerate() {
        let Ok((_, ca)) = X509Certificate::from_der(ca) else {
            continue;
        };
        if ca.subject().as_raw() != list.issuer().as_raw() {
            continue;
        }
        if list.verify_signature(ca.public_key()).is_ok() {
            return Ok(place);
        }
        wrong = "not signed with the key of the CA that it names: it was altered, or another CA of this name made it";
    }
    Err(wrong)
}

fn in_time(list: &CertificateRevocationList<'_>, path: &Path) -> Result<(), TlsError> {
    let now = UnixTime::now();
    let Some(next) = list.next_update().map(|next| next.timestamp()) else {
        return Ok(());
    };
    let next = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(next).unwrap_or(0)));
    match next.as_secs() < now.as_secs() {
        true => Err(TlsError::Time {
            part: Part::Crl,
            path: path.into(),
            what: format!("expired on {}", date(next)),
            now: date(now),
        }),
        false => Ok(()),
    }
}

/// The place of a list among the lists of its CA.
#[derive(Clone, Debug)]
struct Age {
    /// The CRL number as a big-endian integer of 20 bytes, the longest that RFC 5280 allows.
    number: Option<[u8; 20]>,
    /// When the CA made the list, in seconds since 1970.
    made_s: i64,
}

impl Age {
    fn of(list: &CertificateRevocationList<'_>) -> Self {
        let number = list.crl_number().map(|number| {
            let (digits, mut padded) = (number.to_bytes_be(), [0; 20]);
            for (to, from) in padded.iter_mut().rev().zip(digits.iter().rev()) {
                *to = *from;
            }
            padded
        });
        Self {
            number,
            made_s: list.last_update().timestamp(),
        }
    }

    fn is_older_than(&self, other: &Self) -> bool {
        match (self.number, other.number) {
            (Some(own), Some(others)) if own != others => own < others,
            _ => self.made_s < other.made_s,
        }
    }
}

impl std::fmt::Display for Age {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(number) = self.number {
            let digits: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
            let digits = digits.trim_start_matches('0');
            write!(f, "number 0x{} ", if digits.is_empty() { "0" } else { digits })?;
        }
        let made = Duration::from_secs(u64::try_from(self.made_s).unwrap_or(0));
        write!(f, "of {}", date(UnixTime::since_unix_epoch(made)))
    }
}

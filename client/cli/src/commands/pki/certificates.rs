//! Certificates and revocation lists: X.509 version 3 (RFC 5280), with P-256 keys.

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};

use super::Host;

/// The validity of a certificate begins this long before its issue, because clocks of lab machines may be slow.
const ALLOWANCE: Duration = Duration::DAY;
/// Length of a serial number, in bytes: 127 random bits, and a sign bit of 0.
const SERIAL: usize = 16;

/// A certificate and its key, in PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The purpose of a certificate.
pub(super) enum For<'a> {
    /// A server with these names.
    Server(&'a [Host]),
    /// A client with this name.
    Client(&'a str),
}

/// A certificate authority.
pub(super) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    /// Certificate and key.
    pub(super) pair: Pair,
    /// End of the CA's validity.
    until: OffsetDateTime,
}

impl Ca {
    /// Creates a CA.
    pub(super) fn make(now: OffsetDateTime, days: u16) -> Result<Self, rcgen::Error> {
        let until = now + Duration::days(days.into());
        let mut params = valid(&format!("Verbatim lab CA of {}", now.date()), now, until);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pair = Pair {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        };
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, pair, until })
    }

    /// Loads a CA from PEM texts.
    pub(super) fn of(certificate: String, key: String) -> anyhow::Result<Self> {
        let issuer = Issuer::from_ca_cert_pem(&certificate, KeyPair::from_pem(&key).context("the CA's key")?);
        let issuer = issuer.context("the CA's certificate")?;
        let (_, until) = read(&certificate).context("the CA's certificate")?;
        Ok(Self {
            issuer,
            pair: Pair { certificate, key },
            until,
        })
    }

    /// Issues a certificate, and returns the end of its validity, which is not later than the CA's.
    pub(super) fn issue(
        &self,
        of: &For<'_>,
        now: OffsetDateTime,
        days: u16,
    ) -> Result<(Pair, OffsetDateTime), rcgen::Error> {
        let until = self.until.min(now + Duration::days(days.into()));
        let mut params = match of {
            For::Server(names) => {
                let mut params = valid("verbatim server", now, until);
                params.subject_alt_names = names.iter().map(subject).collect::<Result<_, _>>()?;
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                params
            }
            For::Client(name) => {
                let mut params = valid(name, now, until);
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                params
            }
        };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let pair = Pair {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        };
        Ok((pair, until))
    }

    /// Creates the list of revoked certificates with these serial numbers, in PEM. Its number is greater than the
    /// number `last` of the list before. The list and the CA expire at the same time.
    pub(super) fn revoke(&self, serials: &[Vec<u8>], last: u64, now: OffsetDateTime) -> Result<String, rcgen::Error> {
        let revoked = |serial: &Vec<u8>| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let seconds = u64::try_from(now.unix_timestamp()).unwrap_or(0);
        let list = CertificateRevocationListParams {
            this_update: now - ALLOWANCE,
            next_update: self.until,
            // The number of a later list must be greater (RFC 5280, 5.2.3), also after the clock was set back.
            crl_number: SerialNumber::from(seconds.max(last.saturating_add(1))),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer)?.pem()
    }
}

fn valid(common_name: &str, now: OffsetDateTime, until: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = now - ALLOWANCE;
    params.not_after = until;
    params.distinguished_name.push(DnType::CommonName, common_name);
    let mut serial = [0; SERIAL];
    // Without randomness rcgen derives the serial number from the key's hash, which is unique too.
    if getrandom::fill(&mut serial).is_ok() {
        serial[0] &= 0x7F;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
    }
    params
}

fn subject(host: &Host) -> Result<SanType, rcgen::Error> {
    Ok(match host {
        Host::Name(name) => SanType::DnsName(name.as_str().try_into()?),
        Host::Address(address) => SanType::IpAddress(*address),
    })
}

/// Returns a certificate's serial number, and the end of its validity.
pub(super) fn read(pem: &str) -> anyhow::Result<(Vec<u8>, OffsetDateTime)> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes())?;
    let certificate = pem.parse_x509()?;
    let until = OffsetDateTime::from_unix_timestamp(certificate.validity().not_after.timestamp())?;
    Ok((certificate.raw_serial().to_vec(), until))
}

/// Returns the serial numbers in a revocation list, and the number of the list.
pub(super) fn revoked(pem: &str) -> anyhow::Result<(Vec<Vec<u8>>, u64)> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes())?;
    let (_, list) = x509_parser::parse_x509_crl(&pem.contents)?;
    let serials = list
        .iter_revoked_certificates()
        .map(|revoked| revoked.raw_serial().to_vec())
        .collect();
    let number = list.crl_number().and_then(|number| u64::try_from(number).ok());
    Ok((serials, number.unwrap_or(0)))
}

//! The certificates: X.509 version 3 (RFC 5280), keys on the curve P-256.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use super::Server;

/// Clocks of lab machines are behind at times.
const ALLOWANCE: Duration = Duration::DAY;

/// A certificate and its key, as PEM texts.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A CA, and a certificate for each side.
pub(super) struct Pki {
    pub(super) ca: Pair,
    pub(super) server: Pair,
    pub(super) client: Pair,
    /// The last day.
    pub(super) until: String,
}

impl Pki {
    pub(super) fn make(names: &[Server], now: OffsetDateTime, days: u16) -> Result<Self, rcgen::Error> {
        let until = now + Duration::days(days.into());
        let valid = |common_name: String| {
            let mut params = CertificateParams::default();
            params.not_before = now - ALLOWANCE;
            params.not_after = until;
            params.distinguished_name.push(DnType::CommonName, common_name);
            params
        };
        let mut of_ca = valid(format!("Verbatim lab CA of {}", now.date()));
        of_ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        of_ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(of_ca, KeyPair::generate()?)?;

        let mut server = valid("verbatim-agent".into());
        server.subject_alt_names = names.iter().map(subject).collect::<Result<_, _>>()?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut client = valid("verbatim".into());
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(Self {
            server: signed(server, &ca)?,
            client: signed(client, &ca)?,
            ca: Pair {
                certificate: ca.pem(),
                key: ca.key().serialize_pem(),
            },
            until: until.date().to_string(),
        })
    }
}

fn subject(server: &Server) -> Result<SanType, rcgen::Error> {
    Ok(match server {
        Server::Name(name) => SanType::DnsName(name.as_str().try_into()?),
        Server::Address(address) => SanType::IpAddress(*address),
    })
}

fn signed(mut params: CertificateParams, ca: &CertifiedIssuer<'_, KeyPair>) -> Result<Pair, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok(Pair {
        certificate: params.signed_by(&key, ca)?.pem(),
        key: key.serialize_pem(),
    })
}

mod let_in;

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};

use super::*;

fn ca(directory: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    change(&mut params);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(directory.join(format!("{name}.pem")), issuer.pem()).unwrap();
    issuer
}

fn leaf(
    directory: &Path,
    name: &str,
    issuer: &CertifiedIssuer<'static, KeyPair>,
    usage: ExtendedKeyUsagePurpose,
    change: impl FnOnce(&mut CertificateParams),
) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.extended_key_usages = vec![usage];
    change(&mut params);
    let certificate = params.signed_by(&key, issuer).unwrap();
    fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
    fs::write(directory.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
}

/// Writes the files of a CA, a server and a client, all of them valid.
fn sound() -> (TempDir, CertifiedIssuer<'static, KeyPair>) {
    let directory = tempfile::tempdir().unwrap();
    let issuer = ca(directory.path(), "ca", |_| {});
    leaf(
        directory.path(),
        "server",
        &issuer,
        ExtendedKeyUsagePurpose::ServerAuth,
        |_| {},
    );
    leaf(
        directory.path(),
        "client",
        &issuer,
        ExtendedKeyUsagePurpose::ClientAuth,
        |_| {},
    );
    (directory, issuer)
}

fn server_with(directory: &TempDir, cert: &str, key: &str, client_ca: &str) -> Result<(), String> {
    let path = |name: &str| directory.path().join(name);
    let files = ServerFiles {
        cert: path(cert),
        key: path(key),
        client_ca: path(client_ca),
        crl: None,
    };
    Gate::open(&files).map(drop).map_err(|error| error.to_string())
}

fn error_with(directory: &TempDir, cert: &str, key: &str, client_ca: &str) -> String {
    server_with(directory, cert, key, client_ca).unwrap_err()
}

#[test]
fn valid_files_make_both_sides() {
    let (directory, _) = sound();
    server_with(&directory, "server.pem", "server-key.pem", "ca.pem").unwrap();
    let path = |name: &str| directory.path().join(name);
    let files = ClientFiles {
        ca: path("ca.pem"),
        cert: path("client.pem"),
        key: path("client-key.pem"),
    };
    client(&files).unwrap();
}

#[test]
fn wrong_file_is_named_in_error() {
    let (directory, _) = sound();
    let error = error_with(&directory, "absent.pem", "server-key.pem", "ca.pem");
    assert!(
        error.starts_with("the certificate ") && error.contains("absent.pem cannot be read"),
        "{error}"
    );
    let error = error_with(&directory, ".", "server-key.pem", "ca.pem");
    assert!(error.contains("it is not a file"), "{error}");
    let error = error_with(&directory, "server-key.pem", "server-key.pem", "ca.pem");
    assert!(
        error.contains("holds no certificate") && error.contains("PRIVATE KEY"),
        "{error}"
    );
    let error = error_with(&directory, "server.pem", "server.pem", "ca.pem");
    assert!(
        error.starts_with("the private key ") && error.contains("BEGIN CERTIFICATE"),
        "{error}"
    );
    fs::write(directory.path().join("der"), [0x30, 0x82, 0, 1]).unwrap();
    let error = error_with(&directory, "server.pem", "server-key.pem", "der");
    assert!(
        error.starts_with("the CA of the clients ") && error.contains("no line -----BEGIN"),
        "{error}"
    );
    fs::write(directory.path().join("empty"), "").unwrap();
    assert!(error_with(&directory, "empty", "server-key.pem", "ca.pem").contains("it is empty"));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(directory.path().join("broken"), broken).unwrap();
    let error = error_with(&directory, "broken", "server-key.pem", "ca.pem");
    assert!(error.contains("broken cannot be used"), "{error}");
}

#[test]
fn key_of_another_certificate_is_refused() {
    let (directory, _) = sound();
    let error = error_with(&directory, "server.pem", "client-key.pem", "ca.pem");
    assert!(
        error.contains("client-key.pem does not belong to the certificate"),
        "{error}"
    );
}

#[test]
fn certificate_of_wrong_kind_is_refused() {
    let (directory, _) = sound();
    let error = error_with(&directory, "client.pem", "client-key.pem", "ca.pem");
    assert!(error.contains("not made for servers"), "{error}");
    let error = error_with(&directory, "ca.pem", "server-key.pem", "ca.pem");
    assert!(error.contains("that of a CA"), "{error}");
    let error = error_with(&directory, "server.pem", "server-key.pem", "client.pem");
    assert!(error.contains("no certificate of a CA"), "{error}");
}

#[test]
fn certificate_outside_its_time_is_refused() {
    let (directory, issuer) = sound();
    let now = OffsetDateTime::now_utc();
    let past = |params: &mut CertificateParams| {
        params.not_before = now - Duration::days(9);
        params.not_after = now - Duration::days(2);
    };
    leaf(
        directory.path(),
        "old",
        &issuer,
        ExtendedKeyUsagePurpose::ServerAuth,
        past,
    );
    let error = error_with(&directory, "old.pem", "old-key.pem", "ca.pem");
    let day = (now - Duration::days(2)).date();
    assert!(error.contains(&format!("old.pem expired on {day}")), "{error}");
    leaf(
        directory.path(),
        "new",
        &issuer,
        ExtendedKeyUsagePurpose::ServerAuth,
        |params| {
            params.not_before = now + Duration::days(2);
        },
    );
    let error = error_with(&directory, "new.pem", "new-key.pem", "ca.pem");
    assert!(error.contains("is not valid before"), "{error}");
    ca(directory.path(), "old-ca", past);
    let error = error_with(&directory, "server.pem", "server-key.pem", "old-ca.pem");
    assert!(
        error.starts_with("the CA of the clients ") && error.contains("expired on"),
        "{error}"
    );
}

#[test]
fn certificate_is_valid_to_its_last_second() {
    let (directory, issuer) = sound();
    let last = OffsetDateTime::now_utc() + Duration::days(2);
    leaf(
        directory.path(),
        "client",
        &issuer,
        ExtendedKeyUsagePurpose::ClientAuth,
        |params| params.not_after = last,
    );
    let chain = files::chain(&directory.path().join("client.pem"), Use::Client).unwrap();
    let at = |seconds: i64| {
        let seconds = u64::try_from(last.unix_timestamp() + seconds).unwrap();
        files::in_time(
            &chain[0],
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)),
        )
    };
    assert_eq!(at(0), Ok(()));
    assert_eq!(at(1), Err(format!("expired on {}", last.date())));
    assert_eq!(still_valid(&chain[0]), Ok(()));
}

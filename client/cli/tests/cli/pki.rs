//! Tests of `verbatim pki init`: it creates all files, and a server and a client accept each other with these files.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream};

const FILES: [&str; 7] = [
    "ca.pem",
    "ca-key.pem",
    "crl.pem",
    "server.pem",
    "server-key.pem",
    "client.pem",
    "client-key.pem",
];

fn init(directory: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verbatim"))
        .args(["pki", "init"])
        .arg(directory)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn creates_all_files_with_private_keys() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("new/pki");
    let output = init(&directory, &["--agent", "10.0.2.15", "--days", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for name in FILES {
        let mode = fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
        let expected = if name.ends_with("-key.pem") { 0o600 } else { 0o644 };
        assert_eq!(mode & !expected, 0, "{name} {mode:o}");
        assert!(text.contains(name), "{name} is not named: {text}");
    }
    assert!(text.contains("verbatim-agent --listen 10.0.2.15:7000"), "{text}");
    assert!(text.contains("agent_name = \"10.0.2.15\""), "{text}");
}

#[test]
fn pki_overwrites_no_file() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("server-key.pem"), "mine").unwrap();
    let output = init(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("has server-key.pem already, and nothing is overwritten"),
        "{error}"
    );
    assert_eq!(fs::read(directory.path().join("server-key.pem")).unwrap(), b"mine");
    assert!(!directory.path().join("ca.pem").exists());
}

#[test]
fn refuses_invalid_name_or_duration() {
    let directory = tempfile::tempdir().unwrap();
    for wrong in [["--agent", "dut:7000"], ["--days", "0"], ["--days", "4000"]] {
        assert_eq!(init(directory.path(), &wrong).status.code(), Some(2), "{wrong:?}");
    }
    let output = init(Path::new("/proc/no"), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/proc/no"));
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn roots(path: &Path) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    chain(path).into_iter().for_each(|ca| roots.add(ca).unwrap());
    Arc::new(roots)
}

/// Connects a client to a server by the server name `name`. Returns whether both accept the other's certificate.
fn let_in(of_server: &Path, of_client: &Path, name: &'static str) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = |path: &Path| PrivateKeyDer::from_pem_file(path).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(&of_server.join("ca.pem")), provider.clone());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            chain(&of_server.join("server.pem")),
            key(&of_server.join("server-key.pem")),
        )
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(&of_client.join("ca.pem")))
        .with_client_auth_cert(
            chain(&of_client.join("client.pem")),
            key(&of_client.join("client-key.pem")),
        )
        .unwrap();
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let serving = std::thread::spawn(move || {
        let mut connection = ServerConnection::new(Arc::new(server)).unwrap();
        let mut word = [0; 5];
        let read = Stream::new(&mut connection, &mut far).read_exact(&mut word).is_ok();
        read && Stream::new(&mut connection, &mut far).write_all(&word).is_ok()
    });
    let mut connection = ClientConnection::new(Arc::new(client), ServerName::try_from(name).unwrap()).unwrap();
    let mut word = [0; 5];
    let mut stream = Stream::new(&mut connection, &mut near);
    let answered = stream.write_all(b"hello").is_ok() && stream.read_exact(&mut word).is_ok();
    drop(near);
    serving.join().unwrap() && answered && word == *b"hello"
}

#[test]
fn accepts_every_server_name_and_only_the_own_ca() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (one.path(), other.path());
    let names = ["--agent", "dut.lab", "--agent", "10.0.2.15"];
    assert!(init(one, &names).status.success());
    assert!(init(other, &[]).status.success());
    for name in ["localhost", "127.0.0.1", "::1", "dut.lab", "10.0.2.15"] {
        assert!(let_in(one, one, name), "{name}");
    }
    assert!(!let_in(one, one, "other.lab"));
    assert!(!let_in(other, other, "10.0.2.15"));
    assert!(!let_in(one, other, "localhost"), "the CAs differ");
}

//! Clients that a gate accepts or refuses, and the messages of both sides.

use std::net::SocketAddr;

use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use super::*;

const WORDS: Words = Words {
    server: "a daemon",
    client_ca: "as client_ca",
    named_by: "--server",
};

/// A server that sends "h" to each accepted client and waits until the client leaves.
struct Server {
    address: SocketAddr,
    gate: Arc<Gate>,
    files: ServerFiles,
    told: mpsc::UnboundedReceiver<String>,
    let_in: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(directory: &Path, crl: bool) -> Self {
        let files = ServerFiles {
            cert: directory.join("server.pem"),
            key: directory.join("server-key.pem"),
            client_ca: directory.join("ca.pem"),
            crl: crl.then(|| directory.join("crl.pem")),
        };
        let gate = Gate::open(&files).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let (put, let_in) = mpsc::unbounded_channel();
        let no_admin = (Known::default(), |_: &Peer| false);
        let mut connections = incoming(listener, Arc::clone(&gate), no_admin, move |line| {
            tell.send(line).unwrap_or_default()
        });
        tokio::spawn(async move {
            while let Some(Ok(mut connection)) = connections.next().await {
                let _ = put.send(tonic::transport::server::Connected::connect_info(&connection).name);
                tokio::spawn(async move {
                    let _ = connection.write_all(b"h").await;
                    let _ = connection.read(&mut [0]).await;
                });
            }
        });
        Self {
            address,
            gate,
            files,
            told,
            let_in,
        }
    }

    async fn connect(
        &self,
        directory: &Path,
        client: &str,
        name: &str,
    ) -> Result<impl AsyncReadExt + Unpin + use<>, String> {
        let files = ClientFiles {
            ca: directory.join("ca.pem"),
            cert: directory.join(format!("{client}.pem")),
            key: directory.join(format!("{client}-key.pem")),
        };
        let connector = Connector::new("127.0.0.1", self.address.port(), Some(name), &files);
        let connected = connector.map_err(|error| error.to_string())?.connect().await;
        connected.map_err(|error| error.in_words(&WORDS, &files, name))
    }
}

/// Writes the first CRL of a CA.
fn revoke(directory: &Path, issuer: &CertifiedIssuer<'static, KeyPair>, serials: &[u64]) {
    write_list(directory, issuer, serials, 1);
}

fn write_list(directory: &Path, issuer: &CertifiedIssuer<'static, KeyPair>, serials: &[u64], number: u64) {
    let now = OffsetDateTime::now_utc();
    let revoked = |serial: &u64| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: now,
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: now,
        next_update: now + Duration::days(1),
        crl_number: SerialNumber::from(number),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    fs::write(
        directory.join("crl.pem"),
        list.signed_by(issuer).unwrap().pem().unwrap(),
    )
    .unwrap();
}

/// Writes the files of a lab with the clients "alice" (serial 7), "bob", and "old", whose certificate has expired.
fn lab() -> (TempDir, CertifiedIssuer<'static, KeyPair>) {
    let directory = tempfile::tempdir().unwrap();
    let issuer = ca(directory.path(), "ca", |params| {
        params.key_usages.push(KeyUsagePurpose::CrlSign)
    });
    let client = |name: &str, change: &dyn Fn(&mut CertificateParams)| {
        leaf(
            directory.path(),
            name,
            &issuer,
            ExtendedKeyUsagePurpose::ClientAuth,
            |params| {
                params.distinguished_name.push(DnType::CommonName, name);
                change(params);
            },
        );
    };
    leaf(
        directory.path(),
        "server",
        &issuer,
        ExtendedKeyUsagePurpose::ServerAuth,
        |_| {},
    );
    client("alice", &|params| params.serial_number = Some(SerialNumber::from(7)));
    client("bob", &|_| {});
    client("old", &|params| {
        params.not_before = OffsetDateTime::now_utc() - Duration::days(9);
        params.not_after = OffsetDateTime::now_utc() - Duration::days(2);
    });
    revoke(directory.path(), &issuer, &[]);
    (directory, issuer)
}

#[tokio::test]
async fn client_is_known_by_certificate_name() {
    let (directory, _issuer) = lab();
    let mut server = Server::start(directory.path(), true).await;
    for name in ["alice", "bob"] {
        let mut stream = server.connect(directory.path(), name, "localhost").await.unwrap();
        let mut word = [0];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!((word, server.let_in.recv().await.unwrap().as_str()), (*b"h", name));
    }
}

#[tokio::test]
async fn revoked_certificate_ends_connections() {
    let (directory, issuer) = lab();
    let mut server = Server::start(directory.path(), true).await;
    let mut before = server.connect(directory.path(), "alice", "localhost").await.unwrap();
    let mut of_bob = server.connect(directory.path(), "bob", "localhost").await.unwrap();
    revoke(directory.path(), &issuer, &[7]);
    server.gate.reload(&server.files).unwrap();
    let told = server.told.recv().await.unwrap();
    assert!(told.contains("\"alice\"") && told.contains("revoked"), "{told}");
    let mut rest = Vec::new();
    let _ = before.read_to_end(&mut rest).await;
    assert_eq!(rest, b"h");
    of_bob.read_exact(&mut [0]).await.unwrap();
    let error = server
        .connect(directory.path(), "alice", "localhost")
        .await
        .err()
        .unwrap();
    assert!(error.contains("the client's certificate is revoked"), "{error}");
    let told = server.told.recv().await.unwrap();
    assert!(
        told.contains("(\"alice\") was not let in: its certificate is revoked"),
        "{told}"
    );
    server.connect(directory.path(), "bob", "localhost").await.unwrap();
}

#[tokio::test]
async fn failed_reload_keeps_the_gate() {
    let (directory, _issuer) = lab();
    let server = Server::start(directory.path(), true).await;
    fs::write(directory.path().join("crl.pem"), "").unwrap();
    let error = server.gate.reload(&server.files).unwrap_err().to_string();
    assert!(
        error.contains("list of revoked certificates") && error.contains("it is empty"),
        "{error}"
    );
    let (other, _) = lab();
    fs::copy(other.path().join("crl.pem"), directory.path().join("crl.pem")).unwrap();
    // Both labs give their CAs the same name, but not the same key.
    let error = server.gate.reload(&server.files).unwrap_err().to_string();
    assert!(error.contains("not signed with the key of the CA"), "{error}");
    server.connect(directory.path(), "bob", "localhost").await.unwrap();
}

#[tokio::test]
async fn altered_list_changes_nothing() {
    let (directory, issuer) = lab();
    write_list(directory.path(), &issuer, &[7], 2);
    let server = Server::start(directory.path(), true).await;
    // The list without the revoked serial number, under the old signature.
    let path = directory.path().join("crl.pem");
    let list = pem::parse(fs::read(&path).unwrap()).unwrap();
    let at = list.contents().windows(3).position(|bytes| bytes == [2, 1, 7]).unwrap();
    let mut altered = list.contents().to_vec();
    altered[at + 2] = 8;
    fs::write(&path, pem::encode(&pem::Pem::new("X509 CRL", altered))).unwrap();
    let error = server.gate.reload(&server.files).unwrap_err().to_string();
    assert!(error.contains("it was altered"), "{error}");
    let error = server.connect(directory.path(), "alice", "localhost").await.err();
    assert!(error.unwrap().contains("the client's certificate is revoked"));
    server.connect(directory.path(), "bob", "localhost").await.unwrap();
}

#[tokio::test]
async fn older_list_is_refused_also_after_a_restart() {
    let (directory, issuer) = lab();
    let path = directory.path().join("crl.pem");
    write_list(directory.path(), &issuer, &[], 0x0102);
    let older = fs::read(&path).unwrap();
    write_list(directory.path(), &issuer, &[7], 0x0201);
    let newer = fs::read(&path).unwrap();
    let server = Server::start(directory.path(), true).await;
    let used = server.gate.revoked();
    fs::write(&path, &older).unwrap();
    let error = server.gate.reload(&server.files).unwrap_err().to_string();
    assert!(
        error.contains("expected number 0x201") && error.contains("seen number 0x102"),
        "{error}"
    );
    let error = server.connect(directory.path(), "alice", "localhost").await.err();
    assert!(error.unwrap().contains("the client's certificate is revoked"));
    assert!(Gate::open_after(&server.files, &used).is_err());
    // The first list of a CA in a file is in force, so an older one beside the newest is refused too.
    fs::write(&path, [older, newer.clone()].concat()).unwrap();
    assert!(Gate::open(&server.files).is_err());
    fs::write(&path, newer).unwrap();
    assert!(Gate::open_after(&server.files, &used).is_ok());
    // Lists that were used without the key `crl` stay known.
    let without = ServerFiles {
        crl: None,
        ..server.files.clone()
    };
    assert_eq!(Gate::open_after(&without, &used).unwrap().revoked(), used);
}

#[tokio::test]
async fn both_sides_explain_a_refusal() {
    let (directory, _issuer) = lab();
    let (other, _) = lab();
    let mut server = Server::start(directory.path(), true).await;
    let mixed = |cert: &str| {
        let mixed = tempfile::tempdir().unwrap();
        fs::copy(directory.path().join("ca.pem"), mixed.path().join("ca.pem")).unwrap();
        for name in [format!("{cert}.pem"), format!("{cert}-key.pem")] {
            fs::copy(other.path().join(&name), mixed.path().join(&name)).unwrap();
        }
        mixed
    };
    let foreign = mixed("bob");
    let error = server.connect(foreign.path(), "bob", "localhost").await.err().unwrap();
    assert!(
        error.contains("the client's certificate was not signed by the CA that the server has as client_ca"),
        "{error}"
    );
    let told = server.told.recv().await.unwrap();
    assert!(told.contains("was not signed by the CA of the clients"), "{told}");

    let error = server.connect(directory.path(), "bob", "dut.lab").await.err().unwrap();
    assert!(
        error.contains("is not made for dut.lab") && error.contains("--server dut.lab"),
        "{error}"
    );
    let told = server.told.recv().await.unwrap();
    assert!(told.contains("does not accept the server's certificate"), "{told}");

    // Errors that the client finds before it connects.
    for (client, ours) in [("old", "expired on"), ("server", "not made for clients")] {
        let error = server
            .connect(directory.path(), client, "localhost")
            .await
            .err()
            .unwrap();
        assert!(error.contains(ours), "{error}");
    }
    for (client, theirs, log) in [
        (
            "old",
            "the client's certificate has expired, by the server's clock",
            "its certificate has expired",
        ),
        (
            "server",
            "the client's certificate is not made for clients",
            "use a client's certificate",
        ),
        (
            "",
            "name the certificate and the key of this side",
            "it shows no certificate",
        ),
    ] {
        let error = careless(&server, directory.path(), client).await;
        assert!(error.contains(theirs), "{error}");
        let told = server.told.recv().await.unwrap();
        assert!(told.contains(log), "{told}");
    }
}

/// Connects with a client that does not check its own certificate first, and returns the error.
async fn careless(server: &Server, directory: &Path, client: &str) -> String {
    let files = ClientFiles {
        ca: directory.join("ca.pem"),
        cert: directory.join("bob.pem"),
        key: directory.join("bob-key.pem"),
    };
    let (roots, _) = files::roots(Part::ServerCa, &files.ca).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = if client.is_empty() {
        config.with_no_client_auth()
    } else {
        let pem = |name: String| fs::read(directory.join(name)).unwrap();
        use rustls::pki_types::pem::PemObject;
        let cert = CertificateDer::from_pem_slice(&pem(format!("{client}.pem"))).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(&pem(format!("{client}-key.pem"))).unwrap();
        config.with_client_auth_cert(vec![cert], key).unwrap()
    };
    config.alpn_protocols = vec![HTTP_2.into()];
    let mut connector = Connector::new("127.0.0.1", server.address.port(), Some("localhost"), &files).unwrap();
    connector.set_config(Arc::new(config));
    let error = connector.connect().await.err().unwrap();
    error.in_words(&WORDS, &files, "localhost")
}

#[tokio::test]
async fn plain_text_gets_no_answer() {
    let (directory, _issuer) = lab();
    let mut server = Server::start(directory.path(), true).await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let told = server.told.recv().await.unwrap();
    assert!(told.contains("does not speak TLS"), "{told}");
}

#[tokio::test]
async fn silent_clients_block_no_others() {
    let (directory, _issuer) = lab();
    let server = Server::start(directory.path(), true).await;
    let mut silent = Vec::new();
    // A slow client that has begun to send.
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&[0x16]).await.unwrap();
    for _ in 0..300 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    server.connect(directory.path(), "bob", "localhost").await.unwrap();
    // The oldest silent connection was closed.
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0);
    let seen = slow.try_read(&mut [0]).unwrap_err();
    assert_eq!(seen.kind(), std::io::ErrorKind::WouldBlock);
}

/// A client is in the middle of its handshake, while another process opens connections that send one byte each.
#[tokio::test]
async fn flood_of_single_bytes_aborts_no_handshake() {
    let (directory, _issuer) = lab();
    let server = Server::start(directory.path(), true).await;
    let path = |name: &str| directory.path().join(name);
    let files = ClientFiles {
        ca: path("ca.pem"),
        cert: path("bob.pem"),
        key: path("bob-key.pem"),
    };
    let config = crate::client(&files).unwrap();
    let address = server.address;
    let (hello, answered) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let far_away = tokio::task::spawn_blocking(move || {
        let mut tcp = std::net::TcpStream::connect(address).unwrap();
        let mut tls = rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        tls.write_tls(&mut tcp).unwrap();
        tls.read_tls(&mut tcp).unwrap();
        tls.process_new_packets().unwrap();
        hello.send(()).unwrap();
        goes_on.recv().unwrap();
        let mut first = [0];
        std::io::Read::read_exact(&mut rustls::Stream::new(&mut tls, &mut tcp), &mut first).unwrap();
        first
    });
    answered.await.unwrap();
    let mut flood = Vec::new();
    for _ in 0..300 {
        let mut one = TcpStream::connect(address).await.unwrap();
        // The server may have closed it already.
        let _ = one.write_all(&[0x16]).await;
        flood.push(one);
    }
    // The flood evicts its own oldest connection.
    let _ = flood[0].read(&mut [0]).await;
    go_on.send(()).unwrap();
    assert_eq!(&far_away.await.unwrap(), b"h");
}

#[test]
fn name_of_needs_exactly_one_name() {
    let (directory, issuer) = lab();
    let name = |change: &dyn Fn(&mut CertificateParams)| {
        leaf(
            directory.path(),
            "x",
            &issuer,
            ExtendedKeyUsagePurpose::ClientAuth,
            |params| {
                params.distinguished_name = rcgen::DistinguishedName::new();
                params.subject_alt_names.clear();
                change(params);
            },
        );
        name_of(&files::chain(&directory.path().join("x.pem"), Use::Client).unwrap()[0])
    };
    assert!(name(&|_| {}).unwrap_err().contains("no common name"));
    let dns = |name: &str| rcgen::SanType::DnsName(name.try_into().unwrap());
    assert_eq!(
        name(&|params| params.subject_alt_names.push(dns("ci.lab"))).as_deref(),
        Ok("ci.lab")
    );
    let two = name(&|params| params.subject_alt_names.extend([dns("a.lab"), dns("b.lab")]));
    assert!(two.unwrap_err().contains("several"));
    // If the common name cannot be read, no other name replaces it.
    let common = |params: &mut CertificateParams, value: rcgen::DnValue| {
        params.distinguished_name.push(DnType::CommonName, value);
        params.subject_alt_names.push(dns("admin"));
    };
    let bmp = || rcgen::DnValue::BmpString("alice".try_into().unwrap());
    let unreadable = name(&|params| common(params, bmp()));
    assert!(
        unreadable.as_ref().is_err_and(|why| why.contains("cannot be read")),
        "{unreadable:?}"
    );
    for second in [bmp(), rcgen::DnValue::Utf8String("bob".into())] {
        let two = name(&|params| {
            common(params, rcgen::DnValue::Utf8String("alice".into()));
            params
                .distinguished_name
                .push(DnType::CustomDnType(vec![2, 5, 4, 3]), second.clone());
        });
        assert!(two.is_err(), "{two:?}");
    }
    for wrong in ["a\nb", " a", &"x".repeat(65)] {
        assert!(
            name(&|params| params.distinguished_name.push(DnType::CommonName, wrong)).is_err(),
            "{wrong:?}"
        );
    }
}

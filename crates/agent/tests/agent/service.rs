//! The service with foreign clients: other versions of TLS, clients that do not read, missing devices.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use verbatim_agent::listen::Listen;
use verbatim_agent::server::{Options, Server, ServerError};
use verbatim_proto::agent as proto;
use verbatim_proto::agent::agent_service_client::AgentServiceClient;
use verbatim_proto::agent::{SessionRequest, command};
use verbatim_tls::ServerFiles;
use verbatim_verbs::Limits;
use verbatim_verbs_fake::Strings;

/// Time limit that suffices on any machine. A passing test never waits this long.
const LONG: Duration = Duration::from_secs(20);

struct Agent {
    strings: Strings,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServerError>>,
}

async fn agent(tls: Option<ServerFiles>) -> Agent {
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        tls,
        device: "fake0".into(),
        limits: Limits::default(),
        max_sessions: 2,
    };
    let server = Server::bind(options).await.unwrap();
    let Listen::Tcp(address) = *server.address() else {
        panic!("not a TCP address")
    };
    let strings = Strings::default();
    let opens = strings.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(server.serve(move || opens.try_open(), async {
        let _ = stopped.await;
    }));
    Agent {
        strings,
        address,
        stop,
        served,
    }
}

impl Agent {
    async fn client(&self) -> AgentServiceClient<tonic::transport::Channel> {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        AgentServiceClient::new(endpoint.connect().await.unwrap()).max_decoding_message_size(64 << 20)
    }

    async fn stop(self) -> Strings {
        drop(self.stop);
        timeout(LONG, self.served).await.unwrap().unwrap().unwrap();
        self.strings
    }
}

fn request(number: u64, kind: command::Kind) -> SessionRequest {
    let command = Some(proto::Command { kind: Some(kind) });
    SessionRequest { number, command }
}

fn register(length: u32) -> command::Kind {
    command::Kind::RegisterMemory(proto::RegisterMemory { length, access: None })
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_is_throttled_and_stops() {
    const ASKED: usize = 200;
    let agent = agent(None).await;
    let (requests, taken) = mpsc::channel(3 * ASKED);
    let response = agent.client().await.session(ReceiverStream::new(taken)).await.unwrap();
    requests.send(request(0, register(1 << 20))).await.unwrap();
    let read = command::Kind::ReadMemory(proto::ReadMemory {
        from: Some(proto::Slice {
            memory: 1,
            offset: 0,
            length: 1 << 20,
        }),
    });
    // Each reply to a ReadMemory has 1 MiB, and the client does not read these replies. The device's log has no line
    // for a ReadMemory, so the test counts the log's lines for the Open commands in between.
    for _ in 0..ASKED {
        requests.send(request(1, read.clone())).await.unwrap();
        let open = command::Kind::Open(proto::Open {});
        requests.send(request(2, open)).await.unwrap();
    }
    let mut done = 0;
    let mut since = Instant::now();
    while (done == 0 && since.elapsed() < LONG) || since.elapsed() < Duration::from_secs(1) {
        let more = agent
            .strings
            .taken_log()
            .iter()
            .filter(|line| *line == "describe")
            .count();
        if more > 0 {
            done += more;
            since = Instant::now();
        }
        tokio::task::yield_now().await;
    }
    assert!(
        done > 0 && done < ASKED / 2,
        "{done} reads were done for a client that takes no answers"
    );
    let strings = agent.stop().await;
    let destroyed = strings.taken_log();
    assert!(destroyed.contains(&"destroy device".to_owned()), "{destroyed:?}");
    drop(response);
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_keep_order_until_stream_ends() {
    let agent = agent(None).await;
    let (requests, taken) = mpsc::channel(300);
    for number in 0..300 {
        let put = requests.send(request(number, command::Kind::Open(proto::Open {})));
        put.await.unwrap();
    }
    drop(requests);
    let mut answers = agent
        .client()
        .await
        .session(ReceiverStream::new(taken))
        .await
        .unwrap()
        .into_inner();
    for number in 0..300 {
        let response = answers.message().await.unwrap().unwrap();
        let Some(proto::session_response::Kind::Answer(answer)) = response.kind else {
            panic!("{response:?}");
        };
        assert_eq!(answer.number, number);
    }
    assert!(answers.message().await.unwrap().is_none());
    assert_eq!(
        agent.strings.existing(),
        [""; 0],
        "the end of the stream means that all is destroyed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_stream_destroys_its_session() {
    let agent = agent(None).await;
    let (requests, taken) = mpsc::channel(1);
    let mut answers = agent
        .client()
        .await
        .session(ReceiverStream::new(taken))
        .await
        .unwrap()
        .into_inner();
    requests.send(request(0, register(64))).await.unwrap();
    answers.message().await.unwrap().unwrap();
    assert_eq!(agent.strings.existing().len(), 2);
    // Drop the stream, but keep the connection.
    drop((answers, requests));
    let begun = Instant::now();
    while !agent.strings.existing().is_empty() {
        assert!(begun.elapsed() < LONG);
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_ends_the_session() {
    let agent = agent(None).await;
    let (requests, taken) = mpsc::channel(2);
    let mut answers = agent
        .client()
        .await
        .session(ReceiverStream::new(taken))
        .await
        .unwrap()
        .into_inner();
    requests.send(request(0, register(64))).await.unwrap();
    answers.message().await.unwrap().unwrap();
    let bytes = vec![0; 65 << 20];
    let write = proto::WriteMemory {
        memory: 1,
        offset: 0,
        bytes,
    };
    requests
        .send(request(1, command::Kind::WriteMemory(write)))
        .await
        .unwrap();
    while let Ok(Some(_)) = answers.message().await {}
    assert_eq!(agent.strings.existing(), [""; 0]);
}

/// Writes the files of a CA and a server certificate to a directory.
fn pki(directory: &Path) -> ServerFiles {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(directory.join("ca.pem"), ca.pem()).unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("server.pem"), params.signed_by(&key, &ca).unwrap().pem()).unwrap();
    fs::write(directory.join("server-key.pem"), key.serialize_pem()).unwrap();
    ServerFiles {
        cert: directory.join("server.pem"),
        key: directory.join("server-key.pem"),
        client_ca: directory.join("ca.pem"),
        crl: None,
    }
}

/// Returns a ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2). The bytes are handwritten, because rustls is built without TLS
/// 1.2.
fn hello_of_1_2() -> Vec<u8> {
    let fields: [&[u8]; 9] = [
        // The record and the handshake in it, each with its length; then version 1.2, the random, and no session.
        &[22, 3, 1, 0, 65],
        &[1, 0, 0, 61],
        &[3, 3],
        &[0x5A; 32],
        &[0],
        // ECDHE with AES-GCM, no compression; secp256r1, ECDSA with SHA-256.
        &[0, 4, 0xC0, 0x2B, 0xC0, 0x2F],
        &[1, 0],
        &[0, 16],
        &[0, 10, 0, 4, 0, 2, 0, 23, 0, 13, 0, 4, 0, 2, 4, 3],
    ];
    fields.concat()
}

/// Connects with TLS 1.2 and returns the level and description of the server's alert (RFC 8446, 6).
fn answer_to_1_2(address: SocketAddr) -> [u8; 2] {
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(LONG)).unwrap();
    tcp.write_all(&hello_of_1_2()).unwrap();
    let mut alert = [0; 7];
    tcp.read_exact(&mut alert).unwrap();
    assert_eq!(alert[0], 21, "an alert: {alert:?}");
    [alert[5], alert[6]]
}

/// Connects without a certificate and returns the outcome.
fn handshake(address: SocketAddr, ca: &Path) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".into()];
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1").unwrap()).unwrap();
    let mut tcp = TcpStream::connect(address).unwrap();
    tcp.set_read_timeout(Some(LONG)).unwrap();
    let mut stream = Stream::new(&mut connection, &mut tcp);
    let mut byte = [0];
    match stream.flush().and_then(|()| stream.read(&mut byte)) {
        Ok(read) => format!("let in, {read} bytes"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_refuses_1_2_and_missing_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let agent = agent(Some(pki(directory.path()))).await;
    let (address, ca) = (agent.address, directory.path().join("ca.pem"));
    let (old, bare) = tokio::task::spawn_blocking(move || (answer_to_1_2(address), handshake(address, &ca)))
        .await
        .unwrap();
    assert_eq!(old, [2, 70], "fatal, protocol_version");
    assert!(bare.contains("CertificateRequired"), "{bare}");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_peer_does_not_block_others() {
    let directory = tempfile::tempdir().unwrap();
    let agent = agent(Some(pki(directory.path()))).await;
    let mute: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(agent.address).unwrap()).collect();
    let (address, ca) = (agent.address, directory.path().join("ca.pem"));
    let bare = tokio::task::spawn_blocking(move || handshake(address, &ca))
        .await
        .unwrap();
    assert!(bare.contains("CertificateRequired"), "{bare}");
    drop(mute);
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verbatim-agent"))
        .args(arguments)
        .output()
        .unwrap()
}

fn error_of(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    error
}

#[test]
fn missing_device_is_named_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", directory.path().join("s").display());
    // On a host without libibverbs or without any device, the error names what is missing.
    let error = error_of(&["--listen", &listen, "--device", "no-such-device"], 3);
    assert!(
        error.contains("no-such-device") || error.contains("verbs unavailable"),
        "{error}"
    );
    assert!(!directory.path().join("s").exists());
}

#[test]
fn unsafe_command_line_is_refused() {
    let error = error_of(&["--listen", "0.0.0.0:0", "--device", "d"], 3);
    assert!(
        error.contains("--tls-cert") && error.contains("verbatim pki init"),
        "{error}"
    );
    let error = error_of(&["--listen", "10.0.0.1:1", "--device", "d", "--tls-cert", "c"], 2);
    assert!(
        error.contains("--tls-key") && error.contains("--tls-client-ca"),
        "{error}"
    );
    let all = ["--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a"];
    let error = error_of(&[&["--listen", "127.0.0.1:0", "--device", "d"], &all[..]].concat(), 3);
    assert!(error.contains("the certificate c cannot be read"), "{error}");
    let error = error_of(&[&["--listen", "unix:/x", "--device", "d"], &all[..]].concat(), 3);
    assert!(error.contains("has no TLS"), "{error}");
    let error = error_of(&["--listen", "host:1", "--device", "d"], 2);
    assert!(error.contains("expected unix:PATH or IP:PORT"), "{error}");
    for wrong in [
        ["--max-sessions", "0"],
        ["--max-qps", "0"],
        ["--max-memory", "0"],
        ["--port", "0"],
    ] {
        error_of(&[&["--listen", "unix:/x", "--device", "d"], &wrong[..]].concat(), 2);
    }
}

//! Clients accepted or refused over TLS, and the error messages of refused clients.

use std::fs;
use std::net::{IpAddr, UdpSocket};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;
use time::{Duration as Days, OffsetDateTime};
use verbatim_tls::ClientFiles;

use super::*;
use verbatim_verbs::AgentTls;

/// Files of a CA, a server certificate for given names, and a client certificate.
pub(crate) struct Pki(TempDir);

impl Pki {
    pub(crate) fn new(names: &[&str]) -> Self {
        Self::with(names, |_| {})
    }

    fn with(names: &[&str], of_client: impl FnOnce(&mut CertificateParams)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(directory.path().join("ca.pem"), ca.pem()).unwrap();
        let leaf = |name: &str, params: &CertificateParams| {
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &ca).unwrap();
            fs::write(directory.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(directory.path().join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        };
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut server = CertificateParams::new(names).unwrap();
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf("server", &server);
        let mut client = CertificateParams::default();
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        of_client(&mut client);
        leaf("client", &client);
        Self(directory)
    }

    pub(crate) fn server(&self) -> ServerFiles {
        ServerFiles {
            cert: self.0.path().join("server.pem"),
            key: self.0.path().join("server-key.pem"),
            client_ca: self.0.path().join("ca.pem"),
            crl: None,
        }
    }

    pub(crate) fn client(&self) -> AgentTls {
        AgentTls {
            files: ClientFiles {
                ca: self.0.path().join("ca.pem"),
                cert: self.0.path().join("client.pem"),
                key: self.0.path().join("client-key.pem"),
            },
            server_name: None,
        }
    }
}

pub(crate) fn try_with(agent: &Agent, tls: Option<AgentTls>) -> Result<AgentClient, String> {
    let address = AgentAddress { tls, ..agent.address() };
    AgentClient::connect(&address, LONG)
}

fn refused(agent: &Agent, tls: Option<AgentTls>) -> String {
    match try_with(agent, tls) {
        Ok(_) => panic!("let in"),
        Err(error) => error,
    }
}

#[test]
fn certified_client_connects_over_loopback() {
    let pki = Pki::new(&["127.0.0.1", "::1", "dut.lab"]);
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let agent = Agent::start(listen.parse().unwrap(), Some(pki.server()), 1);
        made_qp(&mut try_with(&agent, Some(pki.client())).unwrap());
        let named = AgentTls {
            server_name: Some("dut.lab".into()),
            ..pki.client()
        };
        made_qp(&mut try_with(&agent, Some(named)).unwrap());
        until_destroyed(&agent.strings);
    }
}

#[test]
fn missing_client_certificate_is_named() {
    let pki = Pki::new(&["127.0.0.1"]);
    let agent = Agent::start("127.0.0.1:0".parse().unwrap(), Some(pki.server()), 1);
    let error = refused(&agent, None);
    assert!(error.contains("the server requires a client certificate"), "{error}");
    assert!(error.contains(&agent.tcp().to_string()), "{error}");
}

#[test]
fn client_of_another_ca_is_refused() {
    let pki = Pki::new(&["127.0.0.1"]);
    let agent = Agent::start("127.0.0.1:0".parse().unwrap(), Some(pki.server()), 1);
    let other = Pki::new(&[]);
    let mut mixed = other.client();
    mixed.files.ca = pki.client().files.ca;
    let error = refused(&agent, Some(mixed));
    assert!(
        error.contains("the client's certificate was not signed by the CA"),
        "{error}"
    );
    assert!(error.contains("--tls-client-ca"), "{error}");
    assert_eq!(agent.strings.taken_log(), [""; 0]);
}

#[test]
fn server_of_another_ca_is_not_trusted() {
    let pki = Pki::new(&["127.0.0.1"]);
    let agent = Agent::start("127.0.0.1:0".parse().unwrap(), Some(pki.server()), 1);
    let other = Pki::new(&[]);
    let error = refused(&agent, Some(other.client()));
    assert!(
        error.contains("was not signed by the CA") && error.contains("ca.pem"),
        "{error}"
    );
}

#[test]
fn server_of_another_name_is_not_trusted() {
    let pki = Pki::new(&["10.9.9.9"]);
    let agent = Agent::start("127.0.0.1:0".parse().unwrap(), Some(pki.server()), 1);
    let error = refused(&agent, Some(pki.client()));
    assert!(error.contains("is not made for 127.0.0.1"), "{error}");
    assert!(error.contains("verbatim pki init DIR --agent 127.0.0.1"), "{error}");
}

#[test]
fn expired_certificate_is_not_sent() {
    let pki = Pki::with(&["127.0.0.1"], |params| {
        let now = OffsetDateTime::now_utc();
        params.not_before = now - Days::days(9);
        params.not_after = now - Days::days(2);
    });
    let agent = Agent::start("127.0.0.1:0".parse().unwrap(), Some(pki.server()), 1);
    let error = refused(&agent, Some(pki.client()));
    assert!(error.contains("client.pem expired on"), "{error}");
}

#[test]
fn certificates_without_tls_are_refused() {
    let pki = Pki::new(&["127.0.0.1"]);
    let plain = Agent::start("127.0.0.1:0".parse().unwrap(), None, 1);
    let error = refused(&plain, Some(pki.client()));
    assert!(error.contains("does not speak TLS"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let unix = Agent::on_unix(directory.path());
    let error = refused(&unix, Some(pki.client()));
    assert!(error.contains("a unix socket has no TLS"), "{error}");
}

/// Returns an address of this host that other hosts can reach.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Connecting a UDP socket sends nothing, but the route determines the local address.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn public_address_needs_tls_on_both_sides() {
    let Some(own) = own_address() else {
        eprintln!("skipped: this host has no address but loopback ones");
        return;
    };
    let listen = Listen::Tcp(SocketAddr::new(own, 0));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime
        .block_on(Server::bind(options(listen.clone(), None, 1)))
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("--tls-cert") && error.contains(&format!("pki init DIR --agent {own}")),
        "{error}"
    );

    let pki = Pki::new(&[&own.to_string()]);
    let agent = Agent::start(listen, Some(pki.server()), 1);
    made_qp(&mut try_with(&agent, Some(pki.client())).unwrap());
    let error = refused(&agent, None);
    assert!(error.contains("clients with certificates only"), "{error}");
}

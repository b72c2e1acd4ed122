//! Connecting to an agent, and saying in words why it did not work.
//!
//! tonic's errors are read from their causes. In TLS 1.3 a client is through with the handshake before the server has
//! looked at its certificate, so a refusal comes as an error of the first call. HTTP/2 keeps no more of it than its
//! text, and nothing when the refusal was there before the call: then it is asked once more, and after that what is
//! said names what it can have been.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error as Tls};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::address::{AgentAddress, AgentTls, Place};

/// A connection that is silent for so long is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// And is lost when none comes in this time.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects.
pub(super) async fn connect(address: &AgentAddress) -> Result<Channel, String> {
    let endpoint = endpoint(address)?
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    endpoint.connect().await.map_err(|error| not_connected(&error, address))
}

fn endpoint(address: &AgentAddress) -> Result<Endpoint, String> {
    let uri = match (&address.place, &address.tls) {
        (Place::Unix(_), Some(_)) => return Err("a unix socket has no TLS: leave the certificates out".into()),
        (Place::Unix(path), None) => match path.to_str() {
            Some(path) => format!("unix://{path}"),
            None => return Err("the socket's path is not UTF-8; move it to one that is".into()),
        },
        (Place::Tcp(address), None) if !address.ip().to_canonical().is_loopback() => {
            return Err(
                "an agent on another host takes clients with certificates only: name the CA, the certificate and the \
                 key (`verbatim pki init` makes them)"
                    .into(),
            );
        }
        (Place::Tcp(address), None) => format!("http://{address}"),
        (Place::Tcp(address), Some(_)) => format!("https://{address}"),
    };
    let endpoint = Endpoint::from_shared(uri).map_err(|error| root(&error))?;
    let Some(AgentTls { files, server_name }) = &address.tls else {
        return Ok(endpoint);
    };
    let mut config = crate::tls::client(files).map_err(|error| error.to_string())?;
    if let Some(name) = server_name {
        config = config.domain_name(name);
    }
    endpoint.tls_config(config).map_err(|error| {
        let name = server_name.as_deref().unwrap_or_default();
        format!(
            "{name:?} is no name that a certificate could be made for ({}); give a host name or an address",
            root(&error)
        )
    })
}

/// An error and what caused it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// What is at the bottom of an error.
fn root(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

fn not_connected(error: &(dyn Error + 'static), address: &AgentAddress) -> String {
    let Some(error) = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()) else {
        return format!("no connection ({}); is it an agent that listens there?", root(error));
    };
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return refused_by_us(tls, address);
    }
    let remedy = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            "nobody listens there: start `verbatim-agent --listen …`, or correct the address"
        }
        io::ErrorKind::PermissionDenied => "this user may not connect: join the group of the socket",
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if address.tls.is_some() => {
            "the TLS handshake failed: is it an agent with TLS that listens there?"
        }
        _ => "is the host up, and its port open to this one?",
    };
    format!("no connection ({error}); {remedy}")
}

/// What a handshake that fails on this side means, and what to do.
fn refused_by_us(tls: &Tls, address: &AgentAddress) -> String {
    let (name, ca) = match &address.tls {
        Some(AgentTls { files, server_name }) => (server_name.clone(), files.ca.display().to_string()),
        None => (None, "given".into()),
    };
    let name = name.unwrap_or_else(|| match &address.place {
        Place::Tcp(address) => address.ip().to_string(),
        Place::Unix(path) => path.display().to_string(),
    });
    match tls {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            format!("the server's certificate was not signed by the CA {ca}; name the ca.pem that it was made with")
        }
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            format!(
                "the server's certificate is not made for {name} ({tls}); make one with `verbatim pki init DIR --agent \
                 {name}`, or name the server as its certificate does"
            )
        }
        Tls::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            format!("the server's certificate has expired ({tls}); make new ones with `verbatim pki init`")
        }
        Tls::InvalidCertificate(_) => format!("the server's certificate is not accepted ({tls})"),
        Tls::AlertReceived(AlertDescription::ProtocolVersion) | Tls::PeerIncompatible(_) => {
            format!("the server does not speak TLS 1.3 ({tls}); is it an agent that listens there?")
        }
        Tls::InvalidMessage(_) => {
            "the server does not speak TLS; is it an agent without certificates, on a loopback address of its host?"
                .into()
        }
        _ => format!("TLS failed ({tls})"),
    }
}

/// Why a call failed. `answered`: whether this agent has answered one before.
pub(super) fn call_failed(status: &Status, address: &AgentAddress, answered: bool) -> String {
    if status.source().is_none() {
        return match status.code() {
            Code::Unimplemented => "who listens there is no agent of this version; name another address".into(),
            _ => status.message().into(),
        };
    }
    if let Some(why) = refused_by_it(status) {
        return format!("the server requires a client certificate: {why}");
    }
    let text = root(status);
    if answered {
        return format!(
            "the connection is lost ({text}): the agent was stopped or killed, or its host went down; see that its host is \
             up and start it again, then run again"
        );
    }
    let cause = match (&address.place, &address.tls) {
        (_, Some(_)) => {
            "or the server requires a client certificate that it accepts: then ours was not signed by the CA that it was \
             given with --tls-client-ca, or has expired by its clock"
        }
        (Place::Tcp(_), None) => {
            "or the server requires a client certificate: then name the CA, the certificate and the key"
        }
        (Place::Unix(_), None) => "or it is no agent that listens there",
    };
    format!("whoever listens there closed the connection without an answer ({text}): it was stopped or killed, {cause}")
}

/// What the alert means that a server ends a connection with, as far as the texts of an error tell it.
fn refused_by_it(status: &Status) -> Option<&'static str> {
    const CERTIFICATE: &str = "it does not accept ours; make new ones with `verbatim pki init`";
    const CA: &str = "ours was not signed by the CA that it was given with --tls-client-ca";
    let alerts = [
        (
            AlertDescription::CertificateRequired,
            "name the certificate and the key of this side",
        ),
        (AlertDescription::UnknownCA, CA),
        (AlertDescription::DecryptError, CA),
        (AlertDescription::CertificateExpired, "ours has expired, by its clock"),
        (AlertDescription::BadCertificate, CERTIFICATE),
        (AlertDescription::CertificateUnknown, CERTIFICATE),
    ];
    let (_, why) = alerts.into_iter().find(|(alert, _)| {
        let words = Tls::AlertReceived(*alert).to_string();
        causes(status).any(|cause| cause.to_string().contains(&words))
    })?;
    Some(why)
}

/// Whether a server may have refused our certificate without the reason having come here.
pub(super) fn may_be_a_refusal(status: &Status, address: &AgentAddress) -> bool {
    address.tls.is_some() && status.source().is_some() && refused_by_it(status).is_none()
}

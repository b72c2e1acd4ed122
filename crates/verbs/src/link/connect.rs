//! Connecting to an agent, and describing why it failed.

use core::net::SocketAddr;
use std::error::Error;
use std::io;
use std::iter::successors;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use verbatim_tls::{ConnectError, Connector, Words, refused_by_it};

use super::address::{AgentAddress, AgentTls, Place};
use super::bounds;

const WORDS: Words = Words {
    server: "an agent",
    client_ca: "from --tls-client-ca",
    named_by: "--agent",
};

/// A connection that is silent for this long is pinged.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The connection is lost if the ping is not answered within this time.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn connect(address: &AgentAddress) -> Result<Channel, String> {
    let endpoint = |uri: String| {
        let endpoint = Endpoint::from_shared(uri).map_err(|error| root(&error))?;
        Ok::<_, String>(
            endpoint
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true),
        )
    };
    let plain = match (&address.place, &address.tls) {
        (Place::Unix(_), Some(_)) => return Err("a unix socket has no TLS: leave the certificates out".into()),
        (Place::Unix(path), None) => match path.to_str() {
            Some(path) => endpoint(format!("unix://{path}"))?,
            None => return Err("the socket's path is not UTF-8; move it to one that is".into()),
        },
        (Place::Tcp(at), None) => endpoint(format!("http://{}", on_this_host(*at)?))?,
        (Place::Named { host, port }, None) => {
            // Tries each address of the name: `localhost` often has two, and the agent listens on one of them.
            let mut failed = String::new();
            for at in looked_up(host, *port).await? {
                match endpoint(format!("http://{}", on_this_host(at)?))?.connect().await {
                    Ok(channel) => return Ok(channel),
                    Err(error) => failed = not_connected(&error),
                }
            }
            return Err(failed);
        }
        (Place::Tcp(at), Some(tls)) => return with_tls(&at.ip().to_string(), at.port(), tls, endpoint).await,
        (Place::Named { host, port }, Some(tls)) => {
            // Resolves the name only for the error text: the connector resolves the name itself and tries each address.
            looked_up(host, *port).await?;
            return with_tls(host, *port, tls, endpoint).await;
        }
    };
    plain.connect().await.map_err(|error| not_connected(&error))
}

async fn with_tls(
    host: &str,
    port: u16,
    tls: &AgentTls,
    endpoint: impl Fn(String) -> Result<Endpoint, String>,
) -> Result<Channel, String> {
    let AgentTls { files, server_name } = tls;
    let connector = Connector::new(host, port, server_name.as_deref(), files).map_err(|error| error.to_string())?;
    let authority = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.into()
    };
    let connected = endpoint(format!("http://{authority}:{port}"))?
        .connect_with_connector(connector)
        .await;
    connected.map_err(|error| match ConnectError::within(&error) {
        Some(why) => why.in_words(&WORDS, files, server_name.as_deref().unwrap_or(host)),
        None => root(&error),
    })
}

/// Returns `at` if it is an address of this host, which needs no certificates; otherwise returns an error.
fn on_this_host(at: SocketAddr) -> Result<SocketAddr, String> {
    if at.ip().to_canonical().is_loopback() {
        return Ok(at);
    }
    Err(format!(
        "{at} is another host, where an agent takes clients with certificates only: name the CA, the certificate and \
         the key (`verbatim pki init` makes them)"
    ))
}

/// Resolves a name to at least one address.
async fn looked_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let said = match tokio::net::lookup_host((host, port)).await {
        Ok(found) => {
            let found: Vec<SocketAddr> = found.collect();
            if !found.is_empty() {
                return Ok(found);
            }
            "it has no address".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(format!(
        "this host does not resolve the name {host} ({said}): correct the name, add it to this host's name service \
         (check with `getent hosts {host}`), or give the address instead"
    ))
}

/// Iterates over an error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// Returns the text of the root cause of an error.
fn root(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

fn not_connected(error: &(dyn Error + 'static)) -> String {
    let Some(error) = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()) else {
        return format!("no connection ({}); does an agent listen there?", root(error));
    };
    let remedy = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            "no program listens there: start `verbatim-agent --listen …`, or correct the address"
        }
        io::ErrorKind::PermissionDenied => "this user may not connect: join the group of the socket",
        _ => "is the host up, and its port open to this one?",
    };
    format!("no connection ({error}); {remedy}")
}

/// Describes why a call failed. `answered` tells whether this agent has answered a call before.
pub(super) fn call_failed(status: &Status, address: &AgentAddress, answered: bool) -> String {
    if status.source().is_none() {
        return match status.code() {
            Code::Unimplemented => "the server there is no agent of this version; name another address".into(),
            _ => bounds::text(status.message().into()),
        };
    }
    if let Some(why) = refused_by_it(status, &WORDS) {
        return format!("the server requires a client certificate: {why}");
    }
    let text = root(status);
    if answered {
        return format!(
            "the connection is lost ({text}): the agent was stopped or killed, or its host went down; check that the \
             host is up, start the agent again, then run again"
        );
    }
    let cause = match (&address.place, &address.tls) {
        (_, Some(_)) => "or it has revoked this certificate since: its log gives the reason",
        (Place::Tcp(_) | Place::Named { .. }, None) => {
            "or the server requires a client certificate: then name the CA, the certificate and the key"
        }
        (Place::Unix(_), None) => "or it is not an agent",
    };
    format!("the server closed the connection without a response ({text}): it was stopped or killed, {cause}")
}

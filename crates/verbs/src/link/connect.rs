//! Connecting to an agent, and saying in words why it did not work.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use verbatim_tls::{ConnectError, Connector, Words, refused_by_it};

use super::address::{AgentAddress, AgentTls, Place};

const WORDS: Words = Words {
    server: "an agent",
    client_ca: "with --tls-client-ca",
    named_by: "--agent",
};

/// A connection that is silent for so long is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// And is lost when none comes in this time.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects.
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
        (Place::Tcp(address), None) if !address.ip().to_canonical().is_loopback() => {
            return Err(
                "an agent on another host takes clients with certificates only: name the CA, the certificate and the \
                 key (`verbatim pki init` makes them)"
                    .into(),
            );
        }
        (Place::Tcp(address), None) => endpoint(format!("http://{address}"))?,
        (Place::Tcp(address), Some(AgentTls { files, server_name })) => {
            let host = address.ip().to_string();
            let connector = Connector::new(&host, address.port(), server_name.as_deref(), files)
                .map_err(|error| error.to_string())?;
            let connected = endpoint(format!("http://{address}"))?
                .connect_with_connector(connector)
                .await;
            return connected.map_err(|error| match ConnectError::within(&error) {
                Some(why) => why.in_words(&WORDS, files, server_name.as_deref().unwrap_or(&host)),
                None => root(&error),
            });
        }
    };
    plain.connect().await.map_err(|error| not_connected(&error))
}

/// An error and what caused it.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// What is at the bottom of an error.
fn root(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

fn not_connected(error: &(dyn Error + 'static)) -> String {
    let Some(error) = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()) else {
        return format!("no connection ({}); is it an agent that listens there?", root(error));
    };
    let remedy = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            "nobody listens there: start `verbatim-agent --listen …`, or correct the address"
        }
        io::ErrorKind::PermissionDenied => "this user may not connect: join the group of the socket",
        _ => "is the host up, and its port open to this one?",
    };
    format!("no connection ({error}); {remedy}")
}

/// Why a call failed. `answered`: whether this agent has answered one before.
pub(super) fn call_failed(status: &Status, address: &AgentAddress, answered: bool) -> String {
    if status.source().is_none() {
        return match status.code() {
            Code::Unimplemented => "who listens there is no agent of this version; name another address".into(),
            _ => status.message().into(),
        };
    }
    if let Some(why) = refused_by_it(status, &WORDS) {
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
        (_, Some(_)) => "or ours was locked out since: its log says why",
        (Place::Tcp(_), None) => {
            "or the server requires a client certificate: then name the CA, the certificate and the key"
        }
        (Place::Unix(_), None) => "or it is no agent that listens there",
    };
    format!("whoever listens there closed the connection without an answer ({text}): it was stopped or killed, {cause}")
}

//! The handshake over TCP. Meanwhile the model responds to frames.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::greeting::{Greeting, LENGTH};
use super::station::Station;

/// Longest wait for the other side to connect, and for its greeting.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between polls of the TCP connection. The model handles frames between polls.
const SLICE: Duration = Duration::from_millis(1);

/// The TCP connection of the handshake. `stream` is `None` until the connection is established.
#[derive(Debug)]
pub(crate) struct Handshake {
    host: Option<String>,
    port: u16,
    stream: Option<TcpStream>,
}

impl Handshake {
    pub(crate) fn begin(host: Option<&str>, port: u16) -> Self {
        Self {
            host: host.map(str::to_owned),
            port,
            stream: None,
        }
    }

    /// As the client, connects to the server, which may not listen yet. As the server, waits for the client.
    pub(crate) fn connected(&mut self, station: &mut Station) -> anyhow::Result<()> {
        let stream = match &self.host {
            Some(host) => {
                let at = (host.as_str(), self.port);
                let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
                until(station, || match TcpStream::connect(at) {
                    Err(error) if refused(&error) => Ok(None),
                    done => done.map(Some),
                })
                .with_context(|| format!("connecting to {host}, TCP port {}", self.port))?
            }
            None => {
                let listener = TcpListener::bind(("0.0.0.0", self.port))
                    .with_context(|| format!("listening on TCP port {}", self.port))?;
                listener.set_nonblocking(true)?;
                until(station, || match listener.accept() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                    done => done.map(|(stream, _)| Some(stream)),
                })
                .with_context(|| format!("waiting for a client on TCP port {}", self.port))?
            }
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Receives the other side's greeting.
    pub(crate) fn hear(&mut self, station: &mut Station) -> anyhow::Result<Greeting> {
        let stream = self.stream.as_mut().context("not connected")?;
        let mut line = [0; LENGTH];
        let mut length = 0;
        until(station, || match stream.read(&mut line[length..]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => {
                length += more;
                Ok((length == LENGTH).then_some(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        })
        .context("waiting for the other side's greeting")?;
        Greeting::read(&line)
    }

    /// Sends a few bytes. They always fit into the send buffer of a new connection.
    pub(crate) fn say(&mut self, words: &[u8]) -> anyhow::Result<()> {
        let stream = self.stream.as_mut().context("not connected")?;
        stream.write_all(words).context("talking to the other side")
    }
}

/// Calls `ask` until it returns a value. Handles frames between the calls.
fn until<T>(station: &mut Station, mut ask: impl FnMut() -> io::Result<Option<T>>) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            bail!("nothing came within {PATIENCE:?}");
        }
        station.serve(SLICE)?;
    }
}

//! labgrid's coordinator under the load of [`super::house`], and a client of the coordinator.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

/// A coordinator, and the client that puts load on it.
pub(crate) struct Labgrid {
    _directory: tempfile::TempDir,
    coordinator: Child,
    client: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Number of waiting reservations. May be less than requested: the client stops before the first reservation
    /// expires.
    pub(crate) queued: usize,
}

impl Drop for Labgrid {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.coordinator] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Labgrid {
    /// Starts the coordinator with `places` acquired places, reservations that each wait for a place, and watchers of
    /// all places.
    pub(crate) fn start(environment: &Path, places: usize, queued: usize, watchers: usize) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let quiet = || Stdio::null();
        let mut coordinator = Command::new(environment.join("bin/labgrid-coordinator"))
            .args(["--listen", &address])
            .current_dir(directory.path())
            .stdout(quiet())
            .stderr(quiet())
            .spawn()
            .with_context(|| format!("{}/bin/labgrid-coordinator", environment.display()))?;
        let client = Command::new(environment.join("bin/python"))
            .args(["-c", include_str!("labgrid.py"), &address])
            .args([places, queued, watchers].map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut client = match client {
            Ok(client) => client,
            Err(error) => {
                let _ = coordinator.kill();
                return Err(error.into());
            }
        };
        let asks = client.stdin.take().context("stdin is piped")?;
        let answers = BufReader::new(client.stdout.take().context("stdout is piped")?);
        let mut labgrid = Self {
            _directory: directory,
            coordinator,
            client,
            asks,
            answers,
            queued: 0,
        };
        let ready = labgrid.line()?;
        let Some(number) = ready.strip_prefix("ready ").and_then(|rest| rest.split(' ').next()) else {
            bail!("labgrid's client said {ready:?}");
        };
        labgrid.queued = number.parse()?;
        Ok(labgrid)
    }

    /// Makes `times` reservations; returns the seconds that each took.
    pub(crate) fn reserve(&mut self, times: usize) -> anyhow::Result<Vec<f64>> {
        writeln!(self.asks, "{times}")?;
        let line = self.line()?;
        Ok(line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("labgrid's client ended: what it said is above");
        }
        Ok(line.trim_end().into())
    }
}

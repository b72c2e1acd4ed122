//! Daemons, their shared database, and the faults that the campaign injects.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use verbatim_daemon::store::{Address, SqlStore};
use verbatim_lab::{Postgres, url_at};
use verbatim_run::state::StateDirectory;

/// Number of rigs of each host whose devices are inside the daemon. These rigs share a label.
pub(crate) const RIGS: usize = 4;

/// Upper bound for the start of a sound daemon. A worker of the previous daemon may still be restoring a device.
const SERVES_WITHIN: Duration = Duration::from_secs(200);

/// State of the connection between a daemon and the database. The campaign forwards the bytes between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Cable {
    /// The connection carries all bytes.
    Whole,
    /// Connections break, and new connections are closed.
    Severed,
    /// Connections stay open, but carry no bytes.
    Silent,
}

/// One host: its daemon, and a device that outlives the daemon.
pub(crate) struct Host {
    name: String,
    directory: PathBuf,
    binaries: PathBuf,
    daemon: Option<Child>,
    model: Child,
    cable: watch::Sender<Cable>,
}

impl Drop for Host {
    fn drop(&mut self) {
        for child in self.daemon.iter_mut().chain([&mut self.model]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Host {
    /// Returns the names of the host's rigs.
    pub(crate) fn rigs(&self) -> Vec<String> {
        let own = (0..RIGS).map(|number| format!("{}{number}", self.name));
        own.chain([self.model_rig()]).collect()
    }

    /// Returns the name of the rig whose device is a separate process.
    pub(crate) fn model_rig(&self) -> String {
        format!("{}-model", self.name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("s")
    }

    pub(crate) fn rig_file(&self) -> PathBuf {
        self.directory.join("rigs.toml")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    fn open(name: &str, directory: PathBuf, binaries: &Path, database: Option<&Path>) -> anyhow::Result<Self> {
        std::fs::create_dir(&directory)?;
        let socket = directory.join("model");
        let mut model = Command::new(binaries.join("verbatimd"))
            .args(["model", "--seed", "3", "--listen"])
            .arg(&socket)
            .stderr(Stdio::piped())
            .spawn()?;
        said(&mut model, "listening on")?;
        let rig = |number| format!("[[rig]]\nname = \"{name}{number}\"\nkind = \"virtual\"\nlabels = [\"pool\"]\n");
        let rigs: String = (0..RIGS).map(rig).collect();
        let of_model = format!(
            "[[rig]]\nname = \"{name}-model\"\nkind = \"model\"\nsocket = {socket:?}\nsubnet_timeout = 8\nassign_lid = 5\n"
        );
        std::fs::write(
            directory.join("rigs.toml"),
            format!("config_version = 1\n{rigs}{of_model}"),
        )?;
        let (cable, plugged) = watch::channel(Cable::Whole);
        let mut config = String::from("config_version = 1\n");
        if let Some(database) = database {
            let near = directory.join("db");
            std::fs::create_dir(&near)?;
            let listener = UnixListener::bind(near.join(".s.PGSQL.5432"))?;
            tokio::spawn(carry(listener, database.to_path_buf(), plugged));
            config.push_str(&format!("store = \"{}\"\nhost = \"{name}\"\n", url_at(&near)));
        }
        std::fs::write(directory.join("verbatimd.toml"), config)?;
        let mut host = Self {
            name: name.into(),
            directory,
            binaries: binaries.into(),
            daemon: None,
            model,
            cable,
        };
        host.spawn()?.serving()?;
        Ok(host)
    }

    /// Starts the host's daemon without waiting for it to serve.
    fn spawn(&mut self) -> anyhow::Result<Starting> {
        let mut daemon = Command::new(self.binaries.join("verbatimd"))
            .arg("serve")
            .args([Path::new("--rig-file"), &self.rig_file()])
            .args([Path::new("--config"), &self.directory.join("verbatimd.toml")])
            .args([Path::new("--socket"), &self.socket()])
            .args([Path::new("--state"), &self.state()])
            .stderr(Stdio::piped())
            .spawn()?;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.join("log"))?;
        let stderr = daemon.stderr.take().context("stderr")?;
        let (tell, serving) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut log = log;
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = writeln!(log, "{line}");
                if line.contains(" serving ") {
                    let _ = tell.send(());
                }
            }
        });
        self.daemon = Some(daemon);
        Ok(Starting(serving))
    }

    /// Kills the daemon with SIGKILL, and starts it again.
    pub(crate) fn kill(&mut self) -> anyhow::Result<Starting> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill()?;
            daemon.wait()?;
        }
        self.spawn()
    }

    /// Ends the daemon with SIGTERM.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(daemon.id())?);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
            let status = daemon.wait()?;
            anyhow::ensure!(status.success(), "the daemon of {} ended with {status}", self.name);
        }
        Ok(())
    }

    pub(crate) fn plug(&self, cable: Cable) {
        self.cable.send_replace(cable);
    }
}

/// A started daemon, which serves once its database is available.
pub(crate) struct Starting(std::sync::mpsc::Receiver<()>);

impl Starting {
    /// Waits until the daemon serves.
    pub(crate) fn serving(self) -> anyhow::Result<()> {
        let served = self.0.recv_timeout(SERVES_WITHIN);
        served.context("a daemon ended, or does not serve; its log says more")
    }
}

type Lines = std::io::Lines<BufReader<std::process::ChildStderr>>;

/// Waits for a line on stderr that contains `words`; returns the lines after it.
fn said(child: &mut Child, words: &str) -> anyhow::Result<Lines> {
    let mut lines = BufReader::new(child.stderr.take().context("stderr")?).lines();
    let mut before = Vec::new();
    for line in lines.by_ref().map_while(Result::ok) {
        if line.contains(words) {
            return Ok(lines);
        }
        before.push(line);
    }
    bail!("it ended before it said {words:?}: {before:?}")
}

/// Forwards bytes between a daemon and the database while the cable is whole.
async fn carry(listener: UnixListener, database: PathBuf, cable: watch::Receiver<Cable>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let (database, mut cable) = (database.clone(), cable.clone());
        tokio::spawn(async move {
            if *cable.borrow() == Cable::Whole
                && let Ok(mut far) = UnixStream::connect(&database).await
            {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                    _ = cable.wait_for(|cable| *cable != Cable::Whole) => {}
                }
            }
            // Keep a silent connection open, without forwarding bytes, until the cable is whole or severed.
            let _ = cable.wait_for(|cable| *cable != Cable::Silent).await;
        });
    }
}

/// All hosts, and their database.
pub(crate) struct House {
    // Fields are dropped in order, so the hosts end before their shared database.
    pub(crate) hosts: Vec<Host>,
    pub(crate) database: Option<Postgres>,
    directory: TempDir,
}

impl House {
    /// Starts three hosts with one PostgreSQL, or one host with SQLite.
    pub(crate) fn open(binaries: &Path, shared: bool) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let database = shared.then(Postgres::start).transpose()?;
        let names: &[&str] = if shared { &["a", "b", "c"] } else { &["a"] };
        let socket = database.as_ref().map(Postgres::socket_file);
        let host = |name: &&str| Host::open(name, directory.path().join(name), binaries, socket.as_deref());
        let hosts: anyhow::Result<Vec<Host>> = names.iter().map(host).collect();
        Ok(Self {
            hosts: hosts?,
            database,
            directory,
        })
    }

    /// Opens the store as another host would, for reading.
    pub(crate) fn store(&self) -> anyhow::Result<Arc<SqlStore>> {
        let store = match &self.database {
            None => SqlStore::sqlite(&StateDirectory::at(self.hosts[0].state()))?,
            Some(database) => {
                let address = Address::new(&database.url(), false).map_err(anyhow::Error::msg)?;
                let state = StateDirectory::at(self.directory.path().join("reader"));
                SqlStore::postgres(address, "reader", "", &state, tokio::runtime::Handle::current())?
            }
        };
        Ok(Arc::new(store))
    }

    /// Ends the processes and keeps the directory for later examination; returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        let Self {
            hosts,
            database,
            directory,
        } = self;
        drop((hosts, database));
        directory.keep()
    }
}

//! The attacked daemon with all its listeners and certificates, and its use of the machine's resources.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use verbatim_client::Address;
use verbatim_tls::ClientFiles;

/// Upper bound for the start of a sound daemon.
const SERVES_WITHIN: Duration = Duration::from_secs(60);

/// A running daemon with its directory.
#[derive(Debug)]
pub(crate) struct House {
    directory: TempDir,
    binaries: PathBuf,
    daemon: Child,
    /// Address of the TLS listener.
    pub(crate) tls: SocketAddr,
    /// Address of the page.
    pub(crate) web: SocketAddr,
    /// Address of the metrics.
    pub(crate) metrics: SocketAddr,
}

/// A process's use of resources.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Takes {
    /// Resident memory in MiB.
    pub(crate) mib: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl House {
    /// Starts a daemon with two rigs. `client` (an admin), `alice`, `bob`, `viewer`, `friend` and `nobody` have
    /// certificates. `mallory` has a revoked certificate, and `foreign` is another CA.
    pub(crate) fn open(binaries: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = directory.path();
        let pki = |arguments: &[&str]| {
            let mut command = Command::new(binaries.join("verbatim"));
            command.current_dir(at).arg("pki").args(arguments);
            let output = command.output()?;
            ensure!(
                output.status.success(),
                "{command:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            anyhow::Ok(())
        };
        pki(&["init", "pki"])?;
        for name in ["alice", "bob", "viewer", "friend", "mallory", "nobody"] {
            pki(&["issue", "pki", name])?;
        }
        pki(&["revoke", "pki", "mallory"])?;
        pki(&["init", "foreign"])?;
        fs::write(
            at.join("rigs.toml"),
            "config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"virtual\"\n[[rig]]\nname = \"b\"\nkind = \"virtual\"\n",
        )?;
        let role = |role: &str, who: &str, rigs: &str| {
            format!("[[role]]\nrole = \"{role}\"\nwho = [\"{who}\"]\nrigs = [{rigs}]\n")
        };
        let config = [
            "config_version = 1\n[listen]\naddress = \"127.0.0.1:0\"\ncert = \"pki/server.pem\"\nkey = \"pki/server-key.pem\"\n".into(),
            "client_ca = \"pki/ca.pem\"\ncrl = \"pki/crl.pem\"\n[metrics]\naddress = \"127.0.0.1:0\"\n".into(),
            "[web]\naddress = \"127.0.0.1:0\"\n".into(),
            role("admin", "cert:admin", ""),
            role("operator", "cert:alice", ""),
            role("operator", "cert:bob", ""),
            role("viewer", "cert:viewer", ""),
            role("viewer", "cert:friend", ""),
            role("viewer", "web", ""),
        ]
        .concat();
        fs::write(at.join("c.toml"), config)?;
        fs::set_permissions(at, fs::Permissions::from_mode(0o700))?;
        let mut daemon = Command::new(binaries.join("verbatimd"))
            .arg("serve")
            .args(["--rig-file".as_ref(), at.join("rigs.toml").as_os_str()])
            .args(["--config".as_ref(), at.join("c.toml").as_os_str()])
            .args(["--socket".as_ref(), at.join("s").as_os_str()])
            .args(["--state".as_ref(), at.join("state").as_os_str()])
            .env("RUST_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()?;
        let mut log = BufReader::new(daemon.stderr.take().context("stderr")?).lines();
        let serving = log
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains("serving"))
            .context("the daemon did not begin to serve")?;
        // Read the log to its end: the daemon would block on a full pipe.
        let kept = at.join("log");
        thread::spawn(move || {
            let mut kept = fs::File::create(kept).ok();
            for line in log.map_while(Result::ok) {
                if let Some(kept) = &mut kept {
                    let _ = std::io::Write::write_all(kept, format!("{line}\n").as_bytes());
                }
            }
        });
        let of = |name: &str| -> anyhow::Result<SocketAddr> {
            let text = serving
                .split(&format!(" {name}="))
                .nth(1)
                .and_then(|rest| rest.split(' ').next());
            Ok(text.with_context(|| format!("{name} in {serving:?}"))?.parse()?)
        };
        Ok(Self {
            tls: of("address")?,
            web: of("web")?,
            metrics: of("metrics")?,
            binaries: binaries.into(),
            daemon,
            directory,
        })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a command for `verbatim` without a configured daemon.
    pub(crate) fn verbatim(&self) -> Command {
        let mut command = Command::new(self.binaries.join("verbatim"));
        command
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path());
        command
    }

    /// Returns a channel over the Unix socket, as this user, who owns the daemon.
    pub(crate) fn owner(&self) -> anyhow::Result<Channel> {
        Ok(Endpoint::from_shared(format!("unix:{}", self.socket().display()))?.connect_lazy())
    }

    /// Connects a client with a certificate.
    pub(crate) async fn client(&self, name: &str) -> anyhow::Result<verbatim_client::Client> {
        let at = |file: String| self.path("pki").join(file);
        let files = ClientFiles {
            ca: at("ca.pem".into()),
            cert: at(format!("{name}.pem")),
            key: at(format!("{name}-key.pem")),
        };
        let address = Address::https(&format!("https://{}", self.tls), files, None)?;
        Ok(verbatim_client::Client::connect(address).await?)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Returns whether the daemon still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.daemon.try_wait(), Ok(None))
    }

    /// Counts the panics in the daemon's log.
    pub(crate) fn panics(&self) -> usize {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("panicked at")).count()
    }

    /// Keeps the directory for later examination, and returns its path.
    pub(crate) fn keep(&mut self) -> PathBuf {
        self.directory.disable_cleanup(true);
        self.directory.path().into()
    }
}

/// Returns a process's use of resources at this moment.
pub(crate) fn takes(pid: u32) -> anyhow::Result<Takes> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = |name: &str| -> anyhow::Result<u64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("no {name}"))?;
        Ok(line.split_whitespace().next().context("no number")?.parse()?)
    };
    Ok(Takes {
        mib: number("VmRSS:")? >> 10,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
        threads: number("Threads:")?,
    })
}

/// Waits until the process has released the descriptors and threads of an attack. The returned memory is the peak
/// during the wait, because runs that the attack created still continue.
pub(crate) async fn settled(pid: u32, before: Takes, within: Duration) -> anyhow::Result<Takes> {
    let until = Instant::now() + within;
    let mut mib = 0;
    loop {
        let now = takes(pid)?;
        mib = now.mib.max(mib);
        // The margin is for the friend's own connections.
        if now.descriptors <= before.descriptors + 8 && now.threads <= before.threads + 8 || Instant::now() > until {
            return Ok(Takes { mib, ..now });
        }
        if Instant::now() > until + SERVES_WITHIN {
            bail!("the clock stands");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

//! The remote lab: a daemon with mutual TLS on one machine, and its client on another machine. The machines are two
//! network namespaces with a cable between them. The namespaces end with their processes, so no cleanup is needed.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::command::{build_binaries, catch_signals, check, prepare, run_beside};
use super::process::Process;
use crate::host::{apt_line, program};
use crate::workspace::run;

/// The daemon's address on the cable.
const DAEMON: &str = "192.0.2.1";
const CLIENT: &str = "192.0.2.2";
const PORT: u16 = 7443;
/// Longest time until a started process is ready, on a busy host.
const LIMIT: Duration = Duration::from_secs(1200);

/// A daemon with mutual TLS, a rig `model`, and a certificate for a client on another machine.
///
/// Dropping the lab ends all its processes.
#[derive(Debug)]
pub struct RemoteLab {
    // Fields are dropped in order. The daemon must end first, because it restores its device.
    daemon: Option<Process>,
    _model: Process,
    client: Process,
    _server: Process,
    directory: TempDir,
    binaries: PathBuf,
}

/// Starts a machine: a process in its own network namespace.
fn machine() -> anyhow::Result<Process> {
    let unshare = program("unshare").context("no unshare")?;
    let started = Process::start(
        |command| {
            command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null());
        },
        &unshare,
    );
    let machine = started.context("starting a process in a network namespace")?;
    let own = fs::read_link("/proc/self/ns/net")?;
    until("a network namespace", || {
        if machine.has_ended() {
            bail!("no network namespace can be made; run this as root, or under `unshare --user --map-root-user`");
        }
        let name = fs::read_link(format!("/proc/{}/ns/net", machine.pid));
        // The namespace exists when `unshare` has executed `sleep`.
        let is_sleep =
            fs::read_to_string(format!("/proc/{}/comm", machine.pid)).is_ok_and(|name| name.trim() == "sleep");
        Ok(is_sleep && name.is_ok_and(|name| name != own))
    })?;
    Ok(machine)
}

/// Waits until a condition holds.
fn until(what: &str, holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let bound = Instant::now() + LIMIT;
    while !holds()? {
        if Instant::now() > bound {
            bail!("{what} was not there within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns a command that runs in the machine's namespace.
fn on(machine: &Process, command: &[&str]) -> Command {
    let mut on = Command::new("nsenter");
    on.arg(format!("--net=/proc/{}/ns/net", machine.pid)).args(command);
    on
}

impl RemoteLab {
    /// Starts the lab with the programs in this directory.
    ///
    /// # Errors
    ///
    /// When packages are missing, this user may not make network namespaces, or the daemon does not start.
    pub fn start(binaries: &Path) -> anyhow::Result<Self> {
        let needed = ["ip", "unshare", "nsenter"];
        if needed.iter().any(|name| program(name).is_none()) {
            bail!(
                "the remote lab needs ip, unshare and nsenter: {}",
                apt_line(&["iproute2", "util-linux"])
            );
        }
        let directory = tempfile::Builder::new().prefix("verbatim-remote-").tempdir();
        let directory = directory.context("making a temporary directory")?;
        let path = |name: &str| directory.path().join(name);
        let (server, client) = (machine()?, machine()?);
        cable(&server, &client)?;
        certificates(binaries, directory.path())?;
        let rigs = "config_version = 1\n\n[[rig]]\nname = \"model\"\nkind = \"model\"\nsocket = \"model.sock\"\n";
        fs::write(path("rigs.toml"), rigs)?;
        let of_model = |command: &mut Command| {
            command
                .args(["model", "--listen"])
                .arg(path("model.sock"))
                .stdin(Stdio::null())
                .stderr(Stdio::null());
        };
        let model = Process::start(of_model, &binaries.join("verbatimd")).context("starting the model")?;
        until("the model", || Ok(path("model.sock").exists()))?;
        let log = fs::File::create(path("verbatimd.log"))?;
        let nsenter = program("nsenter").context("no nsenter")?;
        let of_daemon = |command: &mut Command| {
            command
                .arg(format!("--net=/proc/{}/ns/net", server.pid))
                .arg(binaries.join("verbatimd"))
                .args(["serve", "--config", "pki/verbatimd.toml", "--rig-file", "rigs.toml"])
                .args(["--socket", "verbatim.sock", "--state", "state"])
                .current_dir(directory.path())
                .env_remove("RUST_LOG")
                .stdin(Stdio::null())
                .stderr(log);
        };
        let daemon = Process::start(of_daemon, &nsenter).context("starting verbatimd")?;
        until("the daemon", || {
            let log = || fs::read_to_string(path("verbatimd.log")).unwrap_or_default();
            if daemon.has_ended() {
                bail!("verbatimd ended: {}", log());
            }
            Ok(log().contains(" serving "))
        })?;
        Ok(Self {
            daemon: Some(daemon),
            _model: model,
            client,
            _server: server,
            directory,
            binaries: binaries.into(),
        })
    }

    /// Returns the directory of the lab's files: `pki`, `rigs.toml`, `state`, `verbatimd.log`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command on the client's machine, with the client's certificate in the environment.
    pub fn command(&self, command: &[OsString]) -> Command {
        let file = |name: &str| self.directory.path().join("pki").join(name).into_os_string();
        let environment = [
            ("VERBATIM_SERVER", OsString::from(format!("https://{DAEMON}:{PORT}"))),
            ("VERBATIM_CA", file("ca.pem")),
            ("VERBATIM_CERT", file("client.pem")),
            ("VERBATIM_KEY", file("client-key.pem")),
            ("STATE_DIRECTORY", self.directory.path().join("client-state").into()),
        ];
        let inner = prepare(command, Some(&self.binaries), environment);
        let mut outer = on(&self.client, &[]);
        outer.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer
    }
}

impl Drop for RemoteLab {
    fn drop(&mut self) {
        let Some(daemon) = self.daemon.take() else {
            return;
        };
        // Send SIGTERM like a service manager, so that the daemon stops its runs and restores the device.
        let _ = Command::new("sh")
            .args(["-c", "kill -s TERM \"$1\"", "sh", &daemon.pid.to_string()])
            .stderr(Stdio::null())
            .status();
        let _ = until("the daemon's end", || Ok(daemon.has_ended()));
    }
}

/// Connects two machines with a veth pair.
fn cable(server: &Process, client: &Process) -> anyhow::Result<()> {
    let (near, far) = (server.pid.to_string(), client.pid.to_string());
    let add = [
        "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", &far,
    ];
    run("a cable", &mut on(server, &add)).with_context(|| format!("a cable between processes {near} and {far}"))?;
    for (machine, address) in [(server, DAEMON), (client, CLIENT)] {
        for link in ["lo", "eth0"] {
            run("a link", &mut on(machine, &["ip", "link", "set", link, "up"]))?;
        }
        let address = format!("{address}/24");
        run(
            "an address",
            &mut on(machine, &["ip", "address", "add", &address, "dev", "eth0"]),
        )?;
    }
    Ok(())
}

/// Makes certificates with `verbatim pki init`, and a configuration in which the client is the admin.
fn certificates(binaries: &Path, directory: &Path) -> anyhow::Result<()> {
    let mut init = Command::new(binaries.join("verbatim"));
    init.args(["pki", "init", "--server-host", DAEMON])
        .arg(directory.join("pki"))
        .stdout(Stdio::null());
    run("certificates", &mut init)?;
    let config = format!(
        "config_version = 1\n\n[listen]\naddress = \"{DAEMON}:{PORT}\"\ncert = \"server.pem\"\nkey = \"server-key.pem\"\n\
         client_ca = \"ca.pem\"\ncrl = \"crl.pem\"\n\n[[role]]\nrole = \"admin\"\nwho = [\"cert:admin\"]\n"
    );
    fs::write(directory.join("pki/verbatimd.toml"), config)?;
    Ok(())
}

/// Runs `command` as the client of a fresh remote lab, with Verbatim's programs first on its PATH. Returns the
/// command's exit code, as a shell does.
///
/// SIGTERM, SIGINT and SIGHUP to this process end the command, then the lab.
///
/// # Errors
///
/// When the lab does not start or the command cannot be started.
pub fn run_in_remote(command: &[OsString]) -> anyhow::Result<u8> {
    check(command, "remote")?;
    let signal = catch_signals()?;
    let lab = RemoteLab::start(&build_binaries()?)?;
    eprintln!("xtask: the daemon serves https://{DAEMON}:{PORT}; its client is on {CLIENT}");
    run_beside(lab.command(command), None, &signal)
}

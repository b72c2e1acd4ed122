//! The rxe lab: Linux's own RoCEv2 stack in a machine is the device under test. The tester is outside, at the other end
//! of the machine's data cable.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicUsize,
};

use crate::machine::{BootOptions, ChosenKernel, DUT_SCRIPT, DataSockets, Image, Machine, Share, console_log};
use anyhow::Context;
use tempfile::TempDir;

use super::{
    command::{self, Daemon},
    rig_text::{Rig, rig_file},
};
use crate::workspace::run;

/// The reset command of the rig: waits until the machine is up again after a panic of its kernel. The machine prints one
/// line `machine: ready` for each boot. If the machine has not panicked, the command fails.
const RESET: &str = r#"log() { tail -c +"$from" "$console" | grep -ac "$1"; }
panics=$(log '\] Kernel panic - not syncing')
[ "$panics" -gt 0 ] || { echo "the machine's kernel has not panicked"; exit 1; }
until [ "$(log '^machine: ready at')" -ge "$panics" ]; do
    kill -0 "$machine" || exit 1
    sleep 0.2
done
"#;

/// The agent's address in the machine.
const AGENT: &str = "10.0.2.15";

/// A machine with `rxe0` as the device under test, and a rig file with the rig `rxe`.
///
/// Dropping the lab ends the machine and removes its files, but keeps the console's log.
#[derive(Debug)]
pub struct RxeLab {
    machine: Machine,
    sockets: DataSockets,
    rig_file: Option<PathBuf>,
    directory: TempDir,
    _share: Share,
}

impl RxeLab {
    /// Boots the machine. `binaries` is the directory of `verbatim` and `verbatim-agent`. With it, the machine
    /// runs the agent, which demands client certificates (mutual TLS), and the lab has a rig file. If `binaries`
    /// is `None`, the lab has only the machine with the device.
    ///
    /// # Errors
    ///
    /// When packages are missing ([`crate::machine::MachineError::NotInstalled`], which `downcast_ref` finds), or the
    /// machine or its agent does not start.
    pub fn start(binaries: Option<&Path>) -> anyhow::Result<RxeLab> {
        RxeLab::start_with(binaries, &ChosenKernel::default(), false, None)
    }

    /// As [`RxeLab::start`], with the chosen kernel and modules. If `reboots`, the machine boots again after a panic of its
    /// kernel, and the rig has a reset command that waits for this. All frames of the data cable go to the file
    /// `capture`.
    ///
    /// # Errors
    ///
    /// As [`RxeLab::start`], and when a chosen file does not fit.
    pub fn start_with(
        binaries: Option<&Path>,
        kernel: &ChosenKernel,
        reboots: bool,
        capture: Option<&Path>,
    ) -> anyhow::Result<RxeLab> {
        if let Some(capture) = capture {
            let directory = capture.parent().filter(|parent| !parent.as_os_str().is_empty());
            anyhow::ensure!(
                directory.is_none_or(Path::is_dir),
                "cannot write {}: its directory does not exist",
                capture.display()
            );
        }
        let image = Image::of(kernel)?;
        let directory = tempfile::Builder::new().prefix("verbatim-rxe-").tempdir();
        let directory = directory.context("making a temporary directory")?;
        let share = Share::new()?;
        share.write("dut.sh", DUT_SCRIPT)?;
        let pki = directory.path().join("pki");
        if let Some(binaries) = binaries {
            put_agent(&share, binaries, &pki)?;
        }
        let capture = capture.map(std::path::absolute).transpose();
        let mut options = BootOptions::new(share.path(), "dut.sh", console_log("lab-rxe")?)
            .with_data_nic()
            .with_agent_port()
            .with_capture(capture.context("finding the directory of the capture")?);
        if reboots {
            options = options.with_reboots();
        }
        let machine = Machine::boot(&image, &options)?;
        let sockets = machine
            .data_sockets()
            .context("the machine has no data interface")?
            .clone();
        let mut lab = RxeLab {
            machine,
            sockets,
            rig_file: None,
            directory,
            _share: share,
        };
        if binaries.is_some() {
            let agent = lab
                .machine
                .agent_address()
                .context("the machine has no management interface")?;
            let text = rig_file(&Rig::Packet {
                sockets: &lab.sockets,
                agent,
                pki: &pki,
                console: lab.machine.console(),
                resets: reboots,
            });
            if reboots {
                lab.write_reset()?;
            }
            let path = lab.directory().join("rigs.toml");
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            lab.rig_file = Some(path);
        }
        Ok(lab)
    }

    /// Writes the reset command of the rig.
    fn write_reset(&self) -> anyhow::Result<()> {
        let console = self.machine.console();
        let from = fs::metadata(console)
            .with_context(|| format!("reading {}", console.display()))?
            .len()
            + 1;
        let (machine, console) = (self.machine.pid(), console.display());
        let head = format!("#!/bin/sh\nmachine={machine} from={from} console='{console}'\n");
        let path = self.directory().join("reset");
        fs::write(&path, head + RESET).with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).context("making the reset command executable")
    }

    /// Returns the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the machine, mutable, so that the caller can end it.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Returns the directory of this lab's files. Dropping the lab removes the directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of the rig file, which contains the rig `rxe`. Returns `None` if the lab was started
    /// without an agent.
    pub fn rig_file(&self) -> Option<&Path> {
        self.rig_file.as_deref()
    }

    /// Returns the environment variables of a command in this lab.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let agent = self.machine.agent_address();
        let mut all: Vec<(&'static str, OsString)> = vec![
            ("VERBATIM_LAB_RXE_CONSOLE", self.machine.console().into()),
            ("VERBATIM_LAB_RXE_PID", self.machine.pid().to_string().into()),
            ("VERBATIM_LAB_RXE_MACHINE_SOCKET", self.sockets.machine.clone().into()),
            ("VERBATIM_LAB_RXE_TESTER_SOCKET", self.sockets.tester.clone().into()),
            (
                "VERBATIM_LAB_RXE_AGENT",
                agent.map_or_else(OsString::new, |agent| agent.to_string().into()),
            ),
        ];
        if let Some(rig_file) = &self.rig_file {
            all.push(("VERBATIM_RIG_FILE", rig_file.into()));
            all.push(("VERBATIM_LAB_RXE_PKI", self.directory().join("pki").into()));
        }
        all
    }
}

/// Puts the agent into the share, with new certificates.
fn put_agent(share: &Share, binaries: &Path, pki: &Path) -> anyhow::Result<()> {
    let mut init = Command::new(binaries.join("verbatim"));
    // The certificates are for localhost, because the tester connects to the agent at localhost.
    init.args(["pki", "init"]).arg(pki).stdout(std::process::Stdio::null());
    run("making the lab's certificates", &mut init)?;
    // Keep the tester's key out of the share.
    for name in ["ca.pem", "server.pem", "server-key.pem"] {
        let path = pki.join(name);
        let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        share.write(&format!("pki/{name}"), content)?;
    }
    share.program(&binaries.join("verbatim-agent"))?;
    share.write("agent.cmd", agent_command())?;
    Ok(())
}

/// Returns the shell command that starts the agent in the machine.
fn agent_command() -> String {
    let pki = "/mnt/share/pki";
    format!(
        "exec verbatim-agent --listen {AGENT}:7000 --device rxe0 --tls-cert {pki}/server.pem \
         --tls-key {pki}/server-key.pem --tls-client-ca {pki}/ca.pem\n"
    )
}

/// Runs `command` beside a fresh machine, with Verbatim's programs first on its PATH and a daemon that has the rig
/// `rxe`. Returns the exit code as [`super::run_in_ibsim`] does. With `bare`, starts only the machine, and builds
/// nothing. The machine boots the kernel `kernel`. All frames of its data cable go to the file `capture`.
///
/// # Errors
///
/// When the lab does not start or the command cannot be started.
pub fn run_in_rxe(
    command: &[OsString],
    bare: bool,
    kernel: &ChosenKernel,
    capture: Option<&Path>,
) -> anyhow::Result<u8> {
    command::check(command, "rxe")?;
    let signal = command::catch_signals()?;
    let binaries = (!bare).then(command::build_binaries).transpose()?;
    run_on_kernel(command, binaries.as_deref(), (kernel, capture), &signal)
}

/// Runs `command` beside a fresh machine with this kernel, as [`run_in_rxe`] does.
pub(super) fn run_on_kernel(
    command: &[OsString],
    binaries: Option<&Path>,
    (kernel, capture): (&ChosenKernel, Option<&Path>),
    signal: &AtomicUsize,
) -> anyhow::Result<u8> {
    let lab = RxeLab::start_with(binaries, kernel, true, capture)?;
    eprintln!(
        "xtask: the machine runs (process {}, up in {:.1?}), its console is {}",
        lab.machine.pid(),
        lab.machine.booted_in(),
        lab.machine.console().display()
    );
    let daemon = match (binaries, lab.rig_file()) {
        (Some(binaries), Some(rig_file)) => Some(Daemon::start(binaries, lab.directory(), rig_file)?),
        _ => None,
    };
    let prepared = command::prepare(command, binaries, lab.environment());
    command::run_beside(prepared, daemon, signal)
}

#[cfg(test)]
mod tests {
    use crate::machine::MachineError;

    use super::*;

    #[test]
    fn bare_lab_cleans_up_its_sockets() {
        let lab = match RxeLab::start(None) {
            Ok(lab) => lab,
            Err(error) => {
                let missing = matches!(error.downcast_ref(), Some(MachineError::NotInstalled { .. }));
                assert!(missing && std::env::var_os("CI").is_none(), "{error:#}");
                eprintln!("skipped: {error:#}");
                return;
            }
        };
        let value = |name: &str| {
            let environment = lab.environment();
            let found = environment.into_iter().find(|(variable, _)| *variable == name);
            PathBuf::from(found.unwrap_or_else(|| panic!("{name}")).1)
        };
        let socket = value("VERBATIM_LAB_RXE_MACHINE_SOCKET");
        assert!(socket.exists() && lab.rig_file().is_none());
        let console = value("VERBATIM_LAB_RXE_CONSOLE");
        drop(lab);
        assert!(!socket.exists() && console.is_file());
    }

    #[test]
    fn agent_command_names_all_shared_files() {
        let command = agent_command();
        for name in ["ca.pem", "server.pem", "server-key.pem"] {
            assert!(command.contains(&format!("/mnt/share/pki/{name}")), "{command}");
        }
        assert!(!command.contains("client-key"), "{command}");
    }
}

//! The service lab: Debian with systemd in a machine, with Verbatim's packages.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{stderr, stdout},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;

use crate::{
    command::{self, LAB_PROFILE},
    inside::{attend, write_command},
    machine::{BootOptions, Image, Machine, MachineError, Ran, Share, console_log, debian},
    package::build_packages,
};

/// Takes the place of the machine's own system.
const FIRST_SCRIPT: &str = include_str!("../guest/service.first");
/// The lab's service in Debian.
const SYSTEM_SCRIPT: &str = include_str!("../guest/system.sh");
/// A Debian comes up in 20 s where nobody else computes.
const BOOT_WITHIN: Duration = Duration::from_secs(600);
/// It lives in memory.
const MEMORY: u32 = 1400;

/// A machine with Debian and its systemd, and our packages at `/mnt/share/debs`. Its users are `alice` and `bob`.
///
/// Dropping it ends the machine; the console's log stays.
#[derive(Debug)]
pub struct ServiceLab {
    machine: Machine,
    _share: Share,
}

impl ServiceLab {
    /// Boots the machine; the packages (files on this host) are not installed yet. What listens there on 10.0.2.15:7000 is
    /// reached from this host at [`ServiceLab::address`].
    ///
    /// # Errors
    ///
    /// When packages of the host are missing ([`MachineError::NotInstalled`], which `downcast_ref` finds), or the machine does
    /// not come up.
    pub fn start(packages: &[PathBuf]) -> anyhow::Result<Self> {
        Self::boot(packages, None)
    }

    fn boot(packages: &[PathBuf], command: Option<(&[OsString], &Path)>) -> anyhow::Result<Self> {
        let image = Image::ensure()?;
        let share = Share::new()?;
        share.write("service.first", FIRST_SCRIPT)?;
        share.write("system.sh", SYSTEM_SCRIPT)?;
        let archive = debian()?;
        let to = share.path().join("debian.tar");
        fs::hard_link(&archive, &to)
            .or_else(|_| fs::copy(&archive, &to).map(drop))
            .context("putting Debian into the share")?;
        for package in packages {
            let name = package.file_name().context("a package has a name")?;
            let content = fs::read(package).with_context(|| format!("reading {}", package.display()))?;
            share.write(&Path::new("debs").join(name).to_string_lossy(), content)?;
        }
        if let Some((command, here)) = command {
            write_command(command, "", &image, &share, here)?;
        }
        let mut options = BootOptions::new(share.path(), "service.first", console_log("lab-service")?)
            .with_agent_port()
            .with_cpus(2)
            .with_memory(MEMORY)
            .with_limit(BOOT_WITHIN);
        if command.is_some() {
            options = options.with_output();
        }
        let machine = Machine::boot(&image, &options)?;
        Ok(Self { machine, _share: share })
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Where port 7000 of the machine is reached from this host.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.machine.agent_address()
    }

    /// Runs a shell command as root.
    ///
    /// # Errors
    ///
    /// As [`Machine::run`].
    pub fn run(&self, command: &str, limit: Duration) -> Result<Ran, MachineError> {
        self.machine.run(command, limit)
    }
}

/// Runs `command` in a fresh Debian with the installed packages and a running service, as an ordinary user of the group, and
/// returns its exit code.
///
/// # Errors
///
/// When the machine does not come up.
pub fn run_in_service(command: &[OsString]) -> anyhow::Result<u8> {
    command::check(command, "service")?;
    let signal = command::catch_signals()?;
    let packages = build_packages(LAB_PROFILE, None)?;
    let here = env::current_dir().context("the working directory")?;
    let mut lab = ServiceLab::boot(&packages, Some((command, &here)))?;
    attend(&mut lab.machine, &signal, stdout(), stderr())
}

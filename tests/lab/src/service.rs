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

use anyhow::{Context, ensure};

use crate::{
    command::{self, LAB_PROFILE},
    inside::{attend, write_command},
    machine::{BootOptions, Image, Machine, MachineError, Ran, Share, adapter_module, console_log, debian},
    package::build_packages,
    vib::{FarEnds, VibOptions},
};

/// Script that replaces the machine's own system with Debian.
const FIRST_SCRIPT: &str = include_str!("../guest/service.first");
/// Script of the systemd unit `lab.service` in Debian. It serves the lab's shell and runs the lab's command.
const SYSTEM_SCRIPT: &str = include_str!("../guest/system.sh");
/// Script that starts the machine's hardware in Debian.
const HARDWARE_SCRIPT: &str = include_str!("../guest/hardware.sh");
/// Number of ports of the machine's adapter.
const PORTS: u8 = 2;
/// Longest time of a boot. Debian boots in 20 s on an idle host.
const BOOT_WITHIN: Duration = Duration::from_secs(1800);
/// Memory of the machine in MiB. Debian's files are in memory too.
const MEMORY: u32 = 1400;

/// A machine with Debian and its systemd, and our packages at `/mnt/share/debs`. Its users are `alice` and `bob`.
///
/// Dropping the lab ends the machine, but keeps the console's log.
#[derive(Debug)]
pub struct ServiceLab {
    machine: Machine,
    _share: Share,
    _far_ends: Option<FarEnds>,
}

impl ServiceLab {
    /// Boots the machine. Puts the packages, which are files on this host, into the machine without installing them.
    /// This host reaches 10.0.2.15:7000 of the machine at [`ServiceLab::address`].
    ///
    /// # Errors
    ///
    /// When this host lacks a Debian package that the machine needs ([`MachineError::NotInstalled`], which
    /// `downcast_ref` finds), or the machine does not start.
    pub fn start(packages: &[PathBuf]) -> anyhow::Result<Self> {
        Self::boot(packages, None, None)
    }

    /// Boots the machine like [`ServiceLab::start`], and gives it an emulated InfiniBand adapter and a RoCE device, as
    /// a host with rigs has. The adapter `vib0` has two ports. Each port is cabled to a device model of its own,
    /// outside the machine. The RoCE device is the kernel's `rxe0` on `veth0`, 10.0.0.1, cabled to `veth1`. `binaries`
    /// is the directory that contains `verbatimd`.
    ///
    /// # Errors
    ///
    /// The errors of [`ServiceLab::start`].
    pub fn with_hardware(packages: &[PathBuf], binaries: &Path) -> anyhow::Result<Self> {
        let options = VibOptions {
            ports: PORTS,
            ..VibOptions::default()
        };
        let lab = Self::boot(packages, None, Some(FarEnds::start(binaries, &options)?))?;
        let ran = lab.run(HARDWARE_SCRIPT, BOOT_WITHIN)?;
        ensure!(ran.status == 0, "the machine's hardware: {}", ran.text());
        Ok(lab)
    }

    fn boot(
        packages: &[PathBuf],
        command: Option<(&[OsString], &Path)>,
        far_ends: Option<FarEnds>,
    ) -> anyhow::Result<Self> {
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
            let nameless = || format!("the package path {} has no file name", package.display());
            let name = package.file_name().with_context(nameless)?;
            let content = fs::read(package).with_context(|| format!("reading {}", package.display()))?;
            share.write(&Path::new("debs").join(name).to_string_lossy(), content)?;
        }
        if let Some((command, here)) = command {
            write_command(command, "", &image, &share, here)?;
        }
        if far_ends.is_some() {
            let module = adapter_module(&image)?;
            let content = fs::read(&module).with_context(|| format!("reading {}", module.display()))?;
            share.write("vib.ko", content)?;
        }
        let mut options = BootOptions::new(share.path(), "service.first", console_log("lab-service")?)
            .with_agent_port()
            .with_cpus(1)
            .with_memory(MEMORY)
            .with_limit(BOOT_WITHIN)
            .with_cables(far_ends.as_ref().map(FarEnds::cables).unwrap_or_default());
        if command.is_some() {
            options = options.with_output();
        }
        let machine = Machine::boot(&image, &options)?;
        Ok(Self {
            machine,
            _share: share,
            _far_ends: far_ends,
        })
    }

    /// Returns the machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the address at which this host reaches port 7000 of the machine.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.machine.agent_address()
    }

    /// Runs a shell command as root.
    ///
    /// # Errors
    ///
    /// The errors of [`Machine::run`].
    pub fn run(&self, command: &str, limit: Duration) -> Result<Ran, MachineError> {
        self.machine.run(command, limit)
    }
}

/// Runs `command` in a fresh Debian with the installed packages and a running service, and returns its exit code. The
/// command runs as an ordinary user of the group `verbatim`.
///
/// # Errors
///
/// When the machine does not start.
pub fn run_in_service(command: &[OsString]) -> anyhow::Result<u8> {
    command::check(command, "service")?;
    let signal = command::catch_signals()?;
    let packages = build_packages(LAB_PROFILE, None)?;
    let here = env::current_dir().context("the working directory")?;
    let mut lab = ServiceLab::boot(&packages, Some((command, &here)), None)?;
    attend(&mut lab.machine, &signal, stdout(), stderr())
}

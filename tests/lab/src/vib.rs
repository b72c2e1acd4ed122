//! The vib lab: a machine with a native InfiniBand adapter under the kernel's own ib_mad and ib_umad. The adapter is
//! cabled to device models outside, which outlive the machine.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::AtomicUsize,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use super::{
    command,
    rig_text::{Rig, rig_file},
};
use crate::{
    cable,
    host::program,
    inside,
    machine::{
        BootOptions, ChosenKernel, Image, Machine, MachineError, Share, VIB_SCRIPT, adapter_module, console_log,
    },
    process::Process,
};

/// The daemon's socket in the machine. The machine's script waits for the socket.
const DAEMON: &str = "/run/verbatim.sock";
/// The daemon's state. The directory is outside the machine, so that a restore journal outlives the machine.
const STATE: &str = "/mnt/share/state";
/// Returns the shell command that starts OpenSM in the machine. OpenSM uses port 2 of the adapter if there is a switch,
/// otherwise port 1. OpenSM's files are in /run.
fn opensm(options: &VibOptions) -> String {
    let guid = ADAPTER_GUID + if options.has_switch { 2 } else { 1 };
    format!(
        "OSM_CACHE_DIR=/run OSM_TMP_DIR=/run exec opensm --guid {guid:#x} --log_file /run/opensm.log >/run/opensm.out 2>&1\n"
    )
}

/// The node GUID of the machine's adapter. Its ports have the next GUIDs.
pub const ADAPTER_GUID: u64 = 0x0002_c900_0000_2000;
/// Seconds from the command's start to OpenSM's start, if OpenSM starts in mid-run.
const MID_RUN: &str = "20";
/// Longest time until a model listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(480);

/// Third-party programs in the machine besides the image's.
const TOOLS: [&str; 7] = [
    "opensm",
    "ibnetdiscover",
    "smpquery",
    "perfquery",
    "ibroute",
    "saquery",
    "ibstat",
];

/// The time during which OpenSM manages the subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SubnetManager {
    /// Never.
    #[default]
    Never,
    /// From before the daemon starts.
    Before,
    /// From 20 s after the command has begun.
    During,
}

/// The parts of the lab.
#[derive(Clone, Debug)]
pub struct VibOptions {
    /// Number of ports of the adapter, 1 to 16, each cabled to its own model. Ignored if there is a switch: the adapter
    /// then has two ports, both cabled to the switch.
    pub ports: u8,
    /// Further arguments of `verbatimd model`, which describe the device at the far end.
    pub model: Vec<OsString>,
    /// The time during which OpenSM manages the subnet.
    pub subnet_manager: SubnetManager,
    /// Whether there is a switch, the program `examples/switch`. Its port 1 is cabled to the tester's port, port 1 of
    /// the adapter. Its port 2 is cabled to the device. Its port 3 is cabled to OpenSM's port, port 2 of the adapter.
    pub has_switch: bool,
    /// Further programs of this host to copy into the machine.
    pub programs: Vec<PathBuf>,
    /// The kernel of the machine. The adapter's module is built for it, from its headers.
    pub kernel: ChosenKernel,
}

impl Default for VibOptions {
    fn default() -> Self {
        Self {
            ports: 1,
            model: ["--profile", "full", "--seed", "1"].map(Into::into).into(),
            subnet_manager: SubnetManager::Never,
            has_switch: false,
            programs: Vec::new(),
            kernel: ChosenKernel::default(),
        }
    }
}

/// The far ends of the cables: device models, each a process. The models outlive the machines at the near ends.
#[derive(Debug)]
pub(crate) struct FarEnds {
    place: tempfile::TempDir,
    binaries: PathBuf,
    /// Each model with its socket.
    models: Vec<(Process, PathBuf)>,
    /// The switch, if any.
    _switch: Option<Process>,
    cables: Vec<cable::Socket>,
}

impl FarEnds {
    pub(crate) fn start(binaries: &Path, options: &VibOptions) -> anyhow::Result<Self> {
        let mut ends = Self {
            place: tempfile::Builder::new().prefix("verbatim-vib-").tempdir()?,
            binaries: binaries.to_owned(),
            models: Vec::new(),
            _switch: None,
            cables: Vec::new(),
        };
        let place = |name: String| ends.place.path().join(name);
        let models: Vec<_> = (1..=if options.has_switch { 1 } else { options.ports })
            .map(|number| place(format!("model{number}")))
            .collect();
        let far = if options.has_switch {
            [1, 3].map(|number| place(format!("switch{number}"))).into()
        } else {
            models.clone()
        };
        for socket in models {
            let model = ends.model(&socket, &options.model)?;
            ends.models.push((model, socket));
        }
        if options.has_switch {
            let (place, model) = (ends.place.path(), &ends.models[0].1);
            let prepare = |command: &mut Command| {
                command.arg(place).arg(model).stdin(Stdio::null());
            };
            let switch =
                Process::start(prepare, &binaries.join("examples/switch")).context("starting the lab's switch")?;
            far.iter()
                .try_for_each(|socket| listens("the switch", &switch, socket, None))?;
            ends._switch = Some(switch);
        }
        for (number, socket) in (1..).zip(&far) {
            let cable = ends.place.path().join(format!("cable{number}"));
            let cable = cable::Socket::new(&cable, socket).context("making the cable's socket")?;
            ends.cables.push(cable);
        }
        Ok(ends)
    }

    /// Returns the sockets to which a machine connects its cables.
    pub(crate) fn cables(&self) -> Vec<PathBuf> {
        self.cables.iter().map(|cable| cable.path().to_owned()).collect()
    }

    /// Starts a model, and returns when it listens.
    fn model(&self, socket: &Path, arguments: &[OsString]) -> anyhow::Result<Process> {
        let log = socket.with_extension("log");
        let output = fs::File::create(&log).with_context(|| format!("making {}", log.display()))?;
        let prepare = |command: &mut Command| {
            command.arg("model").arg("--listen").arg(socket).args(arguments);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        };
        let model = Process::start(prepare, &self.binaries.join("verbatimd")).context("starting `verbatimd model`")?;
        listens("`verbatimd model`", &model, socket, Some(&log))?;
        Ok(model)
    }
}

/// Waits until a process listens at a socket.
fn listens(what: &str, process: &Process, socket: &Path, log: Option<&Path>) -> anyhow::Result<()> {
    let bound = Instant::now() + LISTENS_WITHIN;
    let listens = || UnixDatagram::unbound().and_then(|probe| probe.connect(socket)).is_ok();
    while !listens() {
        if process.has_ended() || Instant::now() > bound {
            let said = log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
            bail!("{what} does not listen at {}: {}", socket.display(), said.trim());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A machine with `vib0`, the tester's adapter, and the device under test at the far end of its cable.
///
/// Dropping the lab ends machine and models, but keeps the console's log.
#[derive(Debug)]
pub struct VibLab {
    image: Image,
    machine: Machine,
    share: Share,
    ends: FarEnds,
}

impl VibLab {
    /// Starts the models and boots the machine. `binaries` is the directory of `verbatim` and `verbatimd`. The
    /// machine's daemon has the rig `vib`.
    ///
    /// # Errors
    ///
    /// When a package is missing (the error has the command line that installs it), or when a model or the machine does
    /// not start.
    pub fn start(binaries: &Path, options: VibOptions) -> anyhow::Result<Self> {
        let image = Image::ensure()?;
        let share = Share::new()?;
        fill(&share, &image, binaries, &options)?;
        let ends = FarEnds::start(binaries, &options)?;
        let machine = Machine::boot(&image, &boot_options(&share, &ends)?)?;
        Ok(Self {
            image,
            machine,
            share,
            ends,
        })
    }

    /// Returns the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Ends the machine like a power failure, and boots it again. The models and the daemon's state are unchanged.
    ///
    /// # Errors
    ///
    /// When the machine does not start.
    pub fn pull_the_plug(&mut self) -> anyhow::Result<()> {
        self.machine.kill();
        self.share.write("again", "")?;
        self.machine = Machine::boot(&self.image, &boot_options(&self.share, &self.ends)?)?;
        Ok(())
    }

    /// Replaces the model at the far end of a port's cable with a new model that has these arguments.
    ///
    /// # Errors
    ///
    /// When there is no such port, or the model does not start.
    pub fn exchange_model(&mut self, port: u8, arguments: &[OsString]) -> anyhow::Result<()> {
        let place = usize::from(port).wrapping_sub(1);
        let (former, socket) = self.ends.models.get_mut(place).context("no such port")?;
        former.kill();
        let socket = socket.clone();
        let model = self.ends.model(&socket, arguments)?;
        self.ends.models[place] = (model, socket);
        Ok(())
    }

    /// Returns shell assignments of the environment variables with which a command in the machine uses the daemon.
    pub fn environment(&self) -> String {
        environment()
    }
}

fn boot_options(share: &Share, ends: &FarEnds) -> anyhow::Result<BootOptions> {
    let boot = BootOptions::new(share.path(), "vib.sh", console_log("lab-vib")?);
    Ok(boot.with_cpus(2).with_memory(1024).with_cables(ends.cables()))
}

fn environment() -> String {
    format!("export VERBATIM_SERVER={DAEMON} STATE_DIRECTORY={STATE} VERBATIM_RIG_FILE=/mnt/share/rigs.toml\n")
}

/// Puts the module, the script, the tools, Verbatim's programs and their start commands into the share.
fn fill(share: &Share, image: &Image, binaries: &Path, options: &VibOptions) -> anyhow::Result<()> {
    let module = adapter_module(image)?;
    share.write(
        "vib.ko",
        fs::read(&module).with_context(|| format!("reading {}", module.display()))?,
    )?;
    share.write("vib.sh", VIB_SCRIPT)?;
    let ports = if options.has_switch { 2 } else { options.ports };
    share.write("ports", ports.to_string())?;
    for tool in TOOLS {
        let path = program(tool).ok_or_else(|| MachineError::NotInstalled {
            missing: format!("the program {tool}"),
            remedy: "install: sudo apt-get install -y --no-install-recommends infiniband-diags opensm".to_owned(),
        })?;
        share.program(&path)?;
    }
    for path in &options.programs {
        share.program(path)?;
    }
    for name in ["verbatim", "verbatimd"] {
        share.program(&binaries.join(name))?;
    }
    let is_shared = options.subnet_manager == SubnetManager::Before;
    let rigs = share.write(
        "rigs.toml",
        rig_file(&Rig::Native {
            ports: if options.has_switch { 1 } else { options.ports },
            route: if options.has_switch { ",2" } else { "" },
            is_shared,
        }),
    )?;
    if is_shared {
        share.write("opensm.cmd", opensm(options))?;
    }
    share.write(
        "daemon.cmd",
        format!(
            "mkdir -p {STATE}\nNO_COLOR=1 exec verbatimd serve --rig-file {} --socket {DAEMON} --state {STATE}\n",
            rigs.display()
        ),
    )?;
    Ok(())
}

/// Runs `command` inside a fresh machine, as [`super::run_in_rxe_verbs`] does.
///
/// # Errors
///
/// When the lab does not start, or the machine ends by itself.
pub fn run_in_vib(command: &[OsString], options: &VibOptions) -> anyhow::Result<u8> {
    command::check(command, "vib")?;
    let signal = command::catch_signals()?;
    let binaries = command::build_binaries()?;
    if options.has_switch {
        command::build_examples(&["switch"])?;
    }
    run_inside(command, &binaries, options, &signal, io::stdout(), io::stderr())
}

fn run_inside(
    command: &[OsString],
    binaries: &Path,
    options: &VibOptions,
    signal: &AtomicUsize,
    out: impl Write + Send + 'static,
    err: impl Write + Send + 'static,
) -> anyhow::Result<u8> {
    let image = Image::of(&options.kernel)?;
    let share = Share::new()?;
    fill(&share, &image, binaries, options)?;
    let here = env::current_dir().context("looking for the working directory")?;
    let mut start = environment();
    if options.subnet_manager == SubnetManager::During {
        start.push_str(&format!("(sleep {MID_RUN}; {}) &\n", opensm(options).trim_end()));
    }
    inside::write_command(command, &start, &image, &share, &here)?;
    let ends = FarEnds::start(binaries, options)?;
    let boot = boot_options(&share, &ends)?.with_output().with_directory(&here);
    let mut machine = Machine::boot(&image, &boot)?;
    inside::attend(&mut machine, signal, out, err)
}

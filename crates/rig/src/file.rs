//! The rig file: which rigs there are.
//!
//! TOML, version 1:
//!
//! ```toml
//! config_version = 1
//!
//! [[rig]]
//! name = "bench-3"          # letters, digits, "-", "_", "."
//! kind = "umad"             # "virtual", "umad", "model", "packet" or "verbs"
//! device = "mlx5_0"         # umad: the tester's adapter and port
//! port = 1
//! route = "0,1"             # the ports to leave by, ours first; "0" stands for the adapter itself
//! # lid = 5                 # instead of a route: the device's LID
//! m_key = "0x1234"          # the M_Key of the device, if it has one
//! shared_subnet = false     # whether a subnet manager of somebody else may be there
//! deviations = ["my.toml"]  # files of what such devices are known to do wrong, beside the built-in ones; of any kind
//! labels = ["25g", "fw=1.2"] # what it can be reserved by, beside its name and `kind=umad`; of any kind
//! window = 16               # MADs outstanding at once, 1..=64
//! subnet_timeout = 18       # 0..=20: where no subnet manager sets the port's own SubnetTimeOut
//! assign_lid = 5            # where no subnet manager gives the device a LID: the one that it gets for each test
//! write_counters = true     # umad, model: counters of the device may be written, which nothing gives back to the last packet
//! # reset = ["./power", "cycle"] # of any kind but virtual: run between tests and when the device stopped answering
//! # reset_within = 60       # seconds that it may take
//! # time_scale = 10000      # model, packet: the device's clock is that many times slower than ours
//! # time_scale_least = 2000 # and at least that many times, where its speed varies
//! # agent_within = 600      # packet: seconds that the agent may take for a command
//! # send_within = 30        # packet with a socket: seconds that a frame may wait for room
//! # dut_ack_timeout_least = 16 # virtual, packet, verbs: the least local ACK timeout that the device keeps to, as a code
//! # dut_out_of_order = true # virtual, packet, verbs: it may put data into memory ahead of its turn
//! # agent = "10.1.2.3:7000" # umad: an agent on the DUT's host, which tells of its kernel and driver; its other keys below
//! [rig.env]                 # umad: environment that the process must be started with
//! LD_PRELOAD = "/opt/a.so"
//!
//! [[rig]]
//! name = "model"
//! kind = "model"
//! socket = "/run/model"     # of `verbatimd model --listen`
//!
//! [[rig]]
//! name = "broken"
//! kind = "virtual"
//! profile = "full"          # "minimal", "full", "one-data-vl", "any", or silicon: "connectx-6",
//! # "connectx-6-conforming", "qib", "small-fpga-core"
//! seed = 7                  # another device of the same kind; "none": the profile as it is; left out: the run's seed
//! defects = ["m-key-not-kept"]
//! link_choices = ["corrupts-and-forwards", "checks-icrc-in-transit", "forwards-short-packets", "takes-grh-on-vl15"]
//! disturbance = ["loses", "swaps", "late"]
//! busy = 2                  # of 16 SMPs that many are answered with "busy", by chance
//! ipv6 = true               # frames go over IPv6
//! simulated = false         # judged by the rules that hold on hardware
//!
//! [[rig]]
//! name = "rxe"
//! kind = "packet"
//! interface = "enp3s0"      # or: socket = { local = "t.sock", remote = "m.sock" }, a frame a datagram
//! mac = "02:00:00:00:00:02" # the tester's own; left out: the interface's
//! ip = "10.0.0.2"           # the tester's own, which no kernel has
//! # dut_ip, gid_index       # the DUT's, where the first that fits is not meant
//! agent = "10.1.2.3:7000"   # or "dut-host.example:7000", or "unix:PATH"
//! agent_ca = "ca.pem"       # these three, unless the agent is on a unix socket or a loopback address
//! agent_cert = "client.pem"
//! agent_key = "client-key.pem"
//! # agent_name = "dut-host" # the name in its certificate, where it is not the address
//! # dut_device = "rxe0"     # refuse an agent with another device
//!
//! [[rig]]
//! name = "pair"
//! kind = "verbs"
//! device = "rxe1"           # the tester's own adapter and port
//! port = 1
//! # gid_index, dut_gid_index
//! agent = "unix:/run/agent.sock"
//! ```
//!
//! Relative paths count from the directory of the rig file. A rig `virtual` is always there.

mod given;
mod hint;
mod known;
mod parse;
mod peer;
mod slow;
#[cfg(test)]
mod tests;
mod virtual_rig;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use verbatim_catalog::Register;
use verbatim_catalog::deviations::DeviationsError;
use verbatim_tester::Route;
use verbatim_wire::{Lid, MKey, SubnetTimeout};

pub use given::WrongKey;
pub use known::KnownOfDut;
pub use parse::defect;
pub use peer::{AgentConfig, PacketConfig, VerbsConfig, Wire};
pub use slow::{ResetConfig, Slowness};
pub use virtual_rig::{DeviceSeed, Disturbances, ProfileName, VirtualConfig};

/// The environment variable that names the rig file.
pub const VARIABLE: &str = "VERBATIM_RIG_FILE";
/// The rig file of a machine.
pub const SYSTEM_FILE: &str = "/etc/verbatim/rigs.toml";
/// The rig that is always there.
pub const BUILT_IN: &str = "virtual";
/// MADs outstanding at once, where the rig file says nothing.
pub const DEFAULT_WINDOW: usize = 16;

/// All rigs of a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct RigFile {
    /// Where it was read from; nothing when only the built-in rig is there.
    pub path: Option<PathBuf>,
    /// The rigs, in the order of the file.
    pub rigs: Vec<RigConfig>,
}

/// Where a rig was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RigSource {
    /// A rig file that has this rig alone, for a process that needs no other; empty for a rig that no file has.
    pub toml: String,
    /// The rig file: what is relative in it is relative to its directory.
    pub path: PathBuf,
}

/// One rig.
#[derive(Clone, PartialEq, Debug)]
pub struct RigConfig {
    /// Its name: letters, digits, `-`, `_` and `.`, so that files can be called after it.
    pub name: String,
    /// What it is made of.
    pub kind: RigKind,
    /// How MADs reach the DUT.
    pub route: Route,
    /// The M_Key of the DUT, 0 for none.
    pub m_key: MKey,
    /// Whether an SM of somebody else may share the subnet.
    pub shared_subnet: bool,
    /// MADs outstanding at once, 1..=64.
    pub window: usize,
    /// SubnetTimeOut to count with, where no SM sets the port's own.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// The LID to give the DUT for each test where it has none, or no SM.
    pub assign_lid: Option<Lid>,
    /// Whether the DUT's counters may be written, which nothing gives back to the last packet. The virtual device's may be.
    pub write_counters: bool,
    /// Environment that the process must have been started with.
    pub env: BTreeMap<String, String>,
    /// What it is known by beside its name.
    pub labels: Vec<String>,
    /// How much slower than usual the device and its host are.
    pub slow: Slowness,
    /// The command that brings the device back to where it begins, if there is one.
    pub reset: Option<ResetConfig>,
    /// Files of what such devices are known to do wrong.
    pub deviation_files: Vec<PathBuf>,
    /// Known deviations of such devices; the built-in entries alone until the files were read.
    pub deviations: Register,
    /// Parameters of the device that hold in each test of its connections.
    pub known: KnownOfDut,
    /// Where it was read.
    pub source: RigSource,
}

/// What a path that stands in a file means.
fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}

impl RigConfig {
    /// What its device is, as far as the rig file tells: the same for each rig that drives it. None for a device within
    /// the process.
    ///
    /// An agent that is given by name is its name, and not the address that this leads to today: a journal or a lock of the
    /// device must be found again when the address has changed or no resolver answers. So one rig by name and one by address
    /// are two devices here; the agent, which has one session at a time, keeps them apart.
    #[must_use]
    pub fn device_identity(&self) -> Option<String> {
        match &self.kind {
            RigKind::Virtual(_) => None,
            RigKind::Umad { device, port, .. } => Some(format!("umad {device} {port} {:?} {:?}", self.route, self.env)),
            RigKind::Model { socket } => {
                // The same while the model is away.
                let socket = socket
                    .read_link()
                    .map_or_else(|_| socket.clone(), |to| beside(socket, &to));
                let canonical = |directory: &Path| Some(directory.canonicalize().ok()?.join(socket.file_name()?));
                let socket = socket.parent().and_then(canonical).unwrap_or(socket);
                Some(format!("model {}", socket.display()))
            }
            RigKind::Packet(of) => Some(format!("agent {} {:?}", of.agent.address, of.agent.device)),
            RigKind::Verbs(of) => Some(format!("agent {} {:?}", of.agent.address, of.agent.device)),
        }
    }

    /// What it can be asked for by: its labels, and its kind.
    pub fn all_labels(&self) -> impl Iterator<Item = String> {
        let kind = format!("kind={}", self.kind.name());
        self.labels.iter().cloned().chain([kind])
    }

    /// The rig that is always there, with this device.
    #[must_use]
    pub fn built_in(model: VirtualConfig) -> Self {
        Self {
            name: BUILT_IN.into(),
            route: Route::Directed(vec![1]),
            m_key: model.m_key,
            kind: RigKind::Virtual(model),
            shared_subnet: false,
            window: DEFAULT_WINDOW,
            subnet_timeout: None,
            assign_lid: None,
            write_counters: false,
            env: BTreeMap::new(),
            labels: Vec::new(),
            slow: Slowness::default(),
            reset: None,
            deviation_files: Vec::new(),
            deviations: Register::default(),
            known: KnownOfDut::default(),
            source: RigSource::default(),
        }
    }

    /// Reads its files of deviations.
    ///
    /// # Errors
    /// When one cannot be read, or something in it is wrong: with path and line.
    pub fn read_deviations(&mut self) -> Result<(), DeviationsError> {
        self.deviations = Register::default().with(&self.deviation_files)?;
        Ok(())
    }

    /// Whether the way to its device is made to lose, swap or delay what it carries.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        matches!(&self.kind, RigKind::Virtual(model) if model.disturbance != Disturbances::default())
    }

    /// The rig in a run with this seed: a virtual one without a seed of its own gets a device of its kind for each.
    #[must_use]
    pub fn in_run(&self, seed: u64) -> Self {
        let mut rig = self.clone();
        if let RigKind::Virtual(model) = &mut rig.kind
            && model.seed == DeviceSeed::OfRun
        {
            model.seed = DeviceSeed::Is(seed);
        }
        rig
    }
}

/// What a rig is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RigKind {
    /// A device model under simulated time.
    Virtual(VirtualConfig),
    /// A port of this machine, through libibumad.
    Umad {
        /// The adapter.
        device: String,
        /// Its port.
        port: u8,
        /// An agent on the DUT's host, which tells of its kernel and driver.
        agent: Option<Box<AgentConfig>>,
    },
    /// The device model of another process.
    Model {
        /// The socket that it listens on.
        socket: PathBuf,
    },
    /// Frames of our own making, and an agent on the DUT's host.
    Packet(Box<PacketConfig>),
    /// An adapter of the tester's own, and an agent on the DUT's host.
    Verbs(Box<VerbsConfig>),
}

impl RigKind {
    /// As the rig file has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Virtual(_) => "virtual",
            Self::Umad { .. } => "umad",
            Self::Model { .. } => "model",
            Self::Packet(_) => "packet",
            Self::Verbs(_) => "verbs",
        }
    }

    /// The device, or the way to it, in words.
    #[must_use]
    pub fn device(&self) -> String {
        match self {
            Self::Virtual(model) => {
                let defects = model.defect_names();
                let broken = if defects.is_empty() {
                    String::new()
                } else {
                    format!(", defects {}", defects.join(", "))
                };
                format!("device model {}{broken}", model.profile.name())
            }
            Self::Umad { device, port, .. } => format!("{device} port {port}"),
            Self::Model { socket } => format!("device model at {}", socket.display()),
            Self::Packet(of) => format!("{}, agent at {}", of.wire, of.agent.address),
            Self::Verbs(of) => format!("{} port {}, agent at {}", of.device, of.port, of.agent.address),
        }
    }
}

/// Why the rig file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RigFileError {
    /// It cannot be read.
    #[error("the rig file {} cannot be read ({source}); correct the path, or {VARIABLE}, or make the file", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may write it, and it says what is loaded into our process.
    #[error(
        "the rig file {} may be written by others (mode {mode:04o}), and rig {rig:?} has `{key}`, by which they could have \
         any {runs} run as this user; `chmod go-w` it",
        path.display()
    )]
    Others {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The rig.
        rig: String,
        /// What of it would run.
        key: &'static str,
        /// What that is.
        runs: &'static str,
    },
    /// A file of deviations cannot be used.
    #[error("{error}; rig {rig:?} of {} names it", path.display())]
    Deviations {
        /// The rig file.
        path: PathBuf,
        /// The rig.
        rig: String,
        /// The problem.
        error: DeviationsError,
    },
    /// Something in it is wrong.
    #[error("{}:{line}:{column}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1 on.
        line: usize,
        /// Column in characters, from 1 on.
        column: usize,
        /// What is wrong and what was expected.
        what: String,
    },
}

/// A rig that the rig file does not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no rig is called {name:?}{hint}; the rigs of {place} are: {}", .existing.join(", "))]
pub struct UnknownRig {
    /// The name that was asked for.
    pub name: String,
    /// Where they were looked for.
    pub place: String,
    /// The rigs that exist.
    pub existing: Vec<String>,
    hint: String,
}

impl UnknownRig {
    /// The same for somebody who may know of some rigs alone.
    #[must_use]
    pub fn among(mut self, sees: impl Fn(&str) -> bool) -> Self {
        self.existing.retain(|rig| sees(rig));
        self.hint = hint::hint(&self.name, &self.existing);
        self
    }
}

impl RigFile {
    /// Reads the rig file: `explicit`, else what [`VARIABLE`] names, else [`SYSTEM_FILE`] if there is one, else there is
    /// only the built-in rig.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it is wrong: with path, line and column.
    pub fn load(explicit: Option<&Path>) -> Result<Self, RigFileError> {
        Self::search(explicit, std::env::var_os(VARIABLE), Path::new(SYSTEM_FILE))
    }

    fn search(explicit: Option<&Path>, variable: Option<OsString>, system: &Path) -> Result<Self, RigFileError> {
        let variable = variable.filter(|value| !value.is_empty()).map(PathBuf::from);
        match explicit.map(Path::to_path_buf).or(variable) {
            Some(path) => Self::read(&path),
            None if system.exists() => Self::read(system),
            None => Ok(Self::built_in()),
        }
    }

    /// Two rigs that have one device, if there are.
    #[must_use]
    pub fn two_of_one_device(&self) -> Option<(&str, &str)> {
        let mut seen = BTreeMap::new();
        self.rigs.iter().find_map(|rig| {
            let before = seen.insert(rig.device_identity()?, rig.name.as_str())?;
            Some((before, rig.name.as_str()))
        })
    }

    /// Only the built-in rig.
    #[must_use]
    pub fn built_in() -> Self {
        let mut file = Self {
            path: None,
            rigs: Vec::new(),
        };
        file.add_built_in();
        file
    }

    /// Reads that file.
    ///
    /// # Errors
    /// As [`RigFile::load`].
    pub fn read(path: &Path) -> Result<Self, RigFileError> {
        let read = || std::path::absolute(path).and_then(|whole| Ok((std::fs::read(&whole)?, whole)));
        let (bytes, whole) = read().map_err(|source| RigFileError::Read {
            path: path.into(),
            source,
        })?;
        let mut file = Self::parse(&bytes, &whole)?;
        for rig in &mut file.rigs {
            rig.read_deviations().map_err(|error| RigFileError::Deviations {
                path: whole.clone(),
                rig: rig.name.clone(),
                error,
            })?;
        }
        let mode = std::fs::metadata(&whole).map_or(0, |file| file.permissions().mode()) & 0o777;
        // Group and others: the libraries that a rig's `env` names and the program of its `reset` run with our rights.
        let runs = |rig: &RigConfig| match () {
            () if !rig.env.is_empty() => Some(("env", "library")),
            () if rig.reset.is_some() => Some(("reset", "program")),
            () => None,
        };
        match file.rigs.iter().find_map(|rig| Some((rig, runs(rig)?))) {
            Some((rig, (key, runs))) if mode & 0o022 != 0 => Err(RigFileError::Others {
                path: whole,
                mode,
                rig: rig.name.clone(),
                key,
                runs,
            }),
            _ => Ok(file),
        }
    }

    /// Reads the bytes of a rig file, and no other file. `path` is for messages, and what a relative `socket` counts
    /// from.
    ///
    /// # Errors
    /// When something in it is wrong: with path, line and column.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, RigFileError> {
        let mut rigs = parse::rigs(bytes, path)?;
        let whole: toml::Table = String::from_utf8_lossy(bytes).parse().unwrap_or_default();
        let each = whole.get("rig").and_then(toml::Value::as_array).into_iter().flatten();
        for (rig, alone) in rigs.iter_mut().zip(each) {
            let mut file = toml::Table::new();
            file.insert("config_version".into(), 1.into());
            file.insert("rig".into(), vec![alone.clone()].into());
            rig.source = RigSource {
                toml: file.to_string(),
                path: path.into(),
            };
        }
        let mut file = Self {
            path: Some(path.into()),
            rigs,
        };
        file.add_built_in();
        Ok(file)
    }

    fn add_built_in(&mut self) {
        if self.rigs.iter().all(|rig| rig.name != BUILT_IN) {
            self.rigs.push(RigConfig::built_in(VirtualConfig::default()));
        }
    }

    /// The rig of that name.
    ///
    /// # Errors
    /// [`UnknownRig`], which names those that exist.
    pub fn find(&self, name: &str) -> Result<&RigConfig, UnknownRig> {
        self.rigs.iter().find(|rig| rig.name == name).ok_or_else(|| {
            let existing: Vec<_> = self.rigs.iter().map(|rig| rig.name.clone()).collect();
            UnknownRig {
                name: name.into(),
                place: match &self.path {
                    Some(path) => path.display().to_string(),
                    None => {
                        format!("this machine (no rig file: neither --rig-file, nor {VARIABLE}, nor {SYSTEM_FILE})")
                    }
                },
                hint: hint::hint(name, &existing),
                existing,
            }
        })
    }
}

//! The rig file: the rigs of a machine.
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
//! route = "0,1"             # output ports of the directed route, the tester's first; "0" is the adapter itself
//! # lid = 5                 # instead of a route: the device's LID
//! m_key = "0x1234"          # the M_Key of the device, if it has one
//! shared_subnet = false     # whether a foreign subnet manager may manage the subnet
//! deviations = ["my.toml"]  # any kind: files of known deviations of the device, in addition to the built-in ones
//! labels = ["25g", "fw=1.2"] # any kind: labels for reservations, in addition to the name and `kind=umad`
//! window = 16               # MADs outstanding at once, 1..=64
//! subnet_timeout = 18       # 0..=20: SubnetTimeOut to assume if no subnet manager sets that of the port
//! assign_lid = 5            # LID to give the device for each test, if no subnet manager assigns one
//! write_counters = true     # umad, model: tests may write the device's counters, which cannot be restored exactly
//! # reset = ["./power", "cycle"] # any kind but virtual: runs between tests and when the device stops responding
//! # reset_when = "silent"   # "always" (between tests), or "silent": only when the device stops responding
//! # reset_within = 60       # time limit of the reset, in seconds
//! # dut_console = "dut.log" # console of the host whose kernel is the DUT
//! # tester_console = "tester.log" # console of the tester's host
//! # time_scale = 10000      # model, packet: the device's clock is this many times slower than real time
//! # time_scale_least = 2000 # lower limit of that factor, if the device's speed varies
//! # agent_within = 600      # packet, verbs: time limit of an agent's command, in seconds
//! # send_within = 30        # packet with a socket: time limit for sending a frame, in seconds
//! # dut_ack_timeout_least = 16 # virtual, packet, verbs: code of the shortest local ACK timeout that the device honors
//! # dut_out_of_order = true # virtual, packet, verbs: the device may write data to memory out of order
//! # agent = "10.1.2.3:7000" # umad: an agent on the DUT's host, to report that host's kernel and driver
//! # verbs = true            # umad: tests also use verbs of both adapters, which are on InfiniBand; needs `agent`
//! [rig.env]                 # umad: environment variables that the process must start with
//! LD_PRELOAD = "/opt/a.so"
//!
//! [[rig]]
//! name = "model"
//! kind = "model"
//! socket = "/run/model"     # path given to `verbatimd model --listen`
//!
//! [[rig]]
//! name = "broken"
//! kind = "virtual"
//! profile = "full"          # "minimal", "full", "one-data-vl", "any", or a real device: "connectx-6",
//! # "connectx-6-conforming", "qib", "small-fpga-core"
//! seed = 7                  # variant of the device; "none": the unvaried profile; default: the run's seed
//! defects = ["m-key-not-kept"]
//! link_choices = ["corrupts-and-forwards", "checks-icrc-in-transit", "forwards-short-packets", "takes-grh-on-vl15"]
//! disturbance = ["loses", "swaps", "late"]
//! busy = 2                  # how many of 16 SMPs get a response with the status "busy", at random
//! infiniband = true         # both adapters are on InfiniBand; the rig then sends no frames
//! ipv6 = true               # frames use IPv6
//! simulated = false         # apply the rules for hardware instead of those for simulated time
//!
//! [[rig]]
//! name = "rxe"
//! kind = "packet"
//! interface = "enp3s0"      # or: socket = { local = "t.sock", remote = "m.sock" }, one frame per datagram
//! mac = "02:00:00:00:00:02" # the tester's MAC address; default: the interface's
//! ip = "10.0.0.2"           # the tester's IP address, which no host may have configured
//! # dut_ip, gid_index       # the DUT's IP address and GID index; default: the first GID that fits
//! agent = "10.1.2.3:7000"   # or "dut-host.example:7000", or "unix:PATH"
//! agent_ca = "ca.pem"       # these three are required unless the agent is on a unix socket or a loopback address
//! agent_cert = "client.pem"
//! agent_key = "client-key.pem"
//! # agent_name = "dut-host" # the name in the agent's certificate, if it differs from the address
//! # dut_device = "rxe0"     # refuse an agent that offers no such device
//! may_crash = true          # tests may crash the DUT's host
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
//! Relative paths start at the directory of the rig file. The rig `virtual` always exists. Without a daemon, the rig
//! `virtual-ib` exists too.

mod given;
mod hint;
mod known;
mod parse;
mod peer;
mod slow;
#[cfg(test)]
mod tests;
mod trust;
mod virtual_rig;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use verbatim_catalog::Register;
use verbatim_catalog::deviations::DeviationsError;
use verbatim_tester::{Need, Route};
use verbatim_wire::{Lid, MKey, SubnetTimeout};

pub use given::WrongKey;
pub use known::KnownOfDut;
pub use parse::defect;
pub use peer::{AgentConfig, PacketConfig, VerbsConfig, Wire};
pub use slow::{Consoles, ResetConfig, Slowness};
pub use virtual_rig::{DeviceSeed, Disturbances, ProfileName, VirtualConfig};

/// The environment variable that names the rig file.
pub const VARIABLE: &str = "VERBATIM_RIG_FILE";
/// The default path of the rig file.
pub const SYSTEM_FILE: &str = "/etc/verbatim/rigs.toml";
/// Name of the built-in rig, which always exists.
pub const BUILT_IN: &str = "virtual";
/// Name of the built-in rig of an InfiniBand pair. A daemon does not offer this rig.
pub const BUILT_IN_PAIR: &str = "virtual-ib";
/// LID that the tester gives the device of the built-in InfiniBand pair, if it has none.
const PAIR_LID: Lid = Lid(5);
/// Number of outstanding MADs, if the rig file does not set `window`.
pub const DEFAULT_WINDOW: usize = 16;

/// All rigs of a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct RigFile {
    /// The path that the file was read from; None for [`RigFile::built_in`].
    pub path: Option<PathBuf>,
    /// The rigs, in the order of the file.
    pub rigs: Vec<RigConfig>,
}

/// The source text of one rig.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RigSource {
    /// A rig file with this rig alone, to pass to another process; empty for a rig that is in no file.
    pub toml: String,
    /// Path of the rig file. Relative paths in `toml` start at the directory of this file.
    pub path: PathBuf,
}

/// One rig.
#[derive(Clone, PartialEq, Debug)]
pub struct RigConfig {
    /// The name, of letters, digits, `-`, `_` and `.`. It is safe as part of a file name.
    pub name: String,
    /// The kind of rig, with the settings of that kind.
    pub kind: RigKind,
    /// Route of MADs to the DUT.
    pub route: Route,
    /// The M_Key of the DUT; 0 for no key.
    pub m_key: MKey,
    /// Whether a foreign subnet manager may manage the subnet.
    pub shared_subnet: bool,
    /// Limit of outstanding MADs, 1..=64.
    pub window: usize,
    /// SubnetTimeOut to assume if no subnet manager has set that of the port.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// LID to give the DUT for each test, if it has none or if there is no subnet manager.
    pub assign_lid: Option<Lid>,
    /// Whether tests may write the DUT's counters. Counter values cannot be restored exactly. Tests may always write
    /// the counters of a virtual device.
    pub write_counters: bool,
    /// Whether tests may crash the DUT's host. Tests may always crash a virtual device.
    pub may_crash: bool,
    /// Environment variables that the process must start with.
    pub env: BTreeMap<String, String>,
    /// Labels by which a reservation selects the rig, in addition to its name.
    pub labels: Vec<String>,
    /// Slowness of the device and its host.
    pub slow: Slowness,
    /// Command that resets the device.
    pub reset: Option<ResetConfig>,
    /// Logs of the hosts' consoles.
    pub consoles: Consoles,
    /// Files of known deviations.
    pub deviation_files: Vec<PathBuf>,
    /// Known deviations of the device; only the built-in ones until [`Self::read_deviations`] has read the files.
    pub deviations: Register,
    /// Parameters of the device that apply to each test of its connections.
    pub known: KnownOfDut,
    /// Source text of the rig.
    pub source: RigSource,
}

/// Resolves a path in `file` relative to the directory of `file`.
fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}

impl RigConfig {
    /// Returns a text that identifies the rig's device, derived from the rig file. Rigs that name their device in the
    /// same way return the same text. Returns None for a device model inside the process.
    ///
    /// If the rig file gives a host name for the agent, the text contains that name and not its current IP address.
    /// Journals and locks of the device must still be found after the address has changed, or while no resolver
    /// responds. A rig with the name and a rig with the address therefore count as two devices. The lock of the device
    /// also covers the addresses, so two such rigs still cannot use the device at the same time.
    #[must_use]
    pub fn device_identity(&self) -> Option<String> {
        match &self.kind {
            RigKind::Virtual(_) => None,
            RigKind::Umad { device, port, .. } => Some(format!("umad {device} {port} {:?} {:?}", self.route, self.env)),
            RigKind::Model { socket } => {
                // Resolve a link and the directory, but do not require the socket to exist: the text must stay the same
                // while the model is stopped.
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

    /// Returns the needs that the rig fulfils according to the rig file.
    #[must_use]
    pub fn offers(&self) -> Vec<Need> {
        let mads = || {
            let own = (!self.shared_subnet).then_some(Need::OwnSubnet);
            let counters = self.write_counters || matches!(self.kind, RigKind::Virtual(_));
            let counters = counters.then_some(Need::Counters);
            [Need::Mad].into_iter().chain(own).chain(counters)
        };
        match &self.kind {
            RigKind::Virtual(model) => {
                let link = if model.infiniband {
                    Need::NativePair
                } else {
                    Need::Packets
                };
                let others = [
                    Need::AnyLid,
                    Need::Link,
                    Need::SecondPort,
                    link,
                    Need::Verbs,
                    Need::Crash,
                ];
                mads().chain(others).collect()
            }
            RigKind::Umad { verbs, .. } => {
                let verbs = [Need::Verbs, Need::NativePair].into_iter().filter(|_| *verbs);
                mads().chain([Need::AnyLid]).chain(verbs).collect()
            }
            RigKind::Model { .. } => mads().collect(),
            RigKind::Packet(_) if self.may_crash => vec![Need::Packets, Need::Crash],
            RigKind::Packet(_) => vec![Need::Packets],
            RigKind::Verbs(_) => vec![Need::Verbs],
        }
    }

    /// Returns the needs that the rig fulfils, in the words of a test's needs.
    #[must_use]
    pub fn offers_in_words(&self) -> Vec<String> {
        self.offers().iter().map(|need| need.about().to_owned()).collect()
    }

    /// Returns the labels of the rig, and `kind=KIND`.
    pub fn all_labels(&self) -> impl Iterator<Item = String> {
        let kind = format!("kind={}", self.kind.name());
        self.labels.iter().cloned().chain([kind])
    }

    /// Returns the built-in rig with this device model.
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
            may_crash: false,
            env: BTreeMap::new(),
            labels: Vec::new(),
            slow: Slowness::default(),
            reset: None,
            consoles: Consoles::default(),
            deviation_files: Vec::new(),
            deviations: Register::default(),
            known: KnownOfDut::default(),
            source: RigSource::default(),
        }
    }

    /// Returns the built-in InfiniBand pair with this device model.
    #[must_use]
    pub fn pair_of(model: VirtualConfig) -> Self {
        let model = VirtualConfig {
            infiniband: true,
            ..model
        };
        Self {
            name: BUILT_IN_PAIR.into(),
            assign_lid: Some(PAIR_LID),
            ..Self::built_in(model)
        }
    }

    /// Reads the rig's files of deviations.
    ///
    /// # Errors
    /// When a file cannot be read or is invalid; the error has its path and line.
    pub fn read_deviations(&mut self) -> Result<(), DeviationsError> {
        self.deviations = Register::default().with(&self.deviation_files)?;
        Ok(())
    }

    /// Returns whether the rig loses, swaps or delays packets on purpose.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        matches!(&self.kind, RigKind::Virtual(model) if model.disturbance != Disturbances::default())
    }

    /// Returns the rig for a run with this seed. A virtual rig without a seed of its own takes the run's seed.
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

/// The kind of a rig.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RigKind {
    /// A device model under simulated time.
    Virtual(VirtualConfig),
    /// A port of this machine, used with libibumad.
    Umad {
        /// Name of the RDMA device.
        device: String,
        /// Port number.
        port: u8,
        /// The agent on the DUT's host, which reports the host's kernel and driver.
        agent: Option<Box<AgentConfig>>,
        /// Whether tests also use verbs: of the tester's device, and of the DUT's by the agent.
        verbs: bool,
    },
    /// The device model of another process.
    Model {
        /// Path of the model's socket.
        socket: PathBuf,
    },
    /// Raw frames from the tester, and an agent on the DUT's host.
    Packet(Box<PacketConfig>),
    /// An RDMA device of the tester's host, and an agent on the DUT's host.
    Verbs(Box<VerbsConfig>),
}

impl RigKind {
    /// Returns the `kind` in the rig file.
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

    /// Describes the device or the path to it.
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
                let link = if model.infiniband { " on InfiniBand" } else { "" };
                format!("device model {}{link}{broken}", model.profile.name())
            }
            Self::Umad { device, port, .. } => format!("{device} port {port}"),
            Self::Model { socket } => format!("device model at {}", socket.display()),
            Self::Packet(of) => format!("{}, agent at {}", of.wire, of.agent.address),
            Self::Verbs(of) => format!("{} port {}, agent at {}", of.device, of.port, of.agent.address),
        }
    }
}

/// The reason why the rig file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RigFileError {
    /// The file cannot be read.
    #[error("the rig file {} cannot be read ({source}); correct the path, or {VARIABLE}, or make the file", path.display())]
    Read {
        /// Path of the rig file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Other users control the file, and it names a library or program that runs with this user's rights.
    #[error(
        "{why}; with `{key}` of rig {rig:?} in {}, other users could run any {runs} as this user: run `chmod go-w` \
         on it, or move the rig file to a directory of this user",
        path.display()
    )]
    Others {
        /// Path of the rig file.
        path: PathBuf,
        /// How other users control the file.
        why: String,
        /// Name of the rig.
        rig: String,
        /// Key of the rig that names a library or program.
        key: &'static str,
        /// "library" or "program".
        runs: &'static str,
    },
    /// A file of deviations cannot be used.
    #[error("{error}; rig {rig:?} of {} names it", path.display())]
    Deviations {
        /// Path of the rig file.
        path: PathBuf,
        /// Name of the rig.
        rig: String,
        /// Error of that file.
        error: DeviationsError,
    },
    /// The content of the file is invalid.
    #[error("{}:{line}:{column}: {what}", path.display())]
    Wrong {
        /// Path of the rig file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
        /// Error text, with the expected value.
        what: String,
    },
}

/// Error for a rig name that the rig file does not contain.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no rig is called {name:?}{hint}; the rigs of {place} are: {}", .existing.join(", "))]
pub struct UnknownRig {
    /// The unknown name.
    pub name: String,
    /// Path of the rig file, or a note that there is none.
    pub place: String,
    /// Names of the existing rigs.
    pub existing: Vec<String>,
    hint: String,
}

impl RigFile {
    /// Reads the rig file: `explicit`, else the file that [`VARIABLE`] names, else [`SYSTEM_FILE`] if it exists.
    /// Otherwise returns [`RigFile::built_in`].
    ///
    /// # Errors
    /// When the file cannot be read or is invalid; the error has path, line and column.
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

    /// Returns the names of two rigs that use the same device, if any.
    #[must_use]
    pub fn two_of_one_device(&self) -> Option<(&str, &str)> {
        let mut seen = BTreeMap::new();
        self.rigs.iter().find_map(|rig| {
            let before = seen.insert(rig.device_identity()?, rig.name.as_str())?;
            Some((before, rig.name.as_str()))
        })
    }

    /// Returns a rig file with the built-in rig alone.
    #[must_use]
    pub fn built_in() -> Self {
        let mut file = Self {
            path: None,
            rigs: Vec::new(),
        };
        file.add_built_in();
        file
    }

    /// Reads the rig file at `path`, and its files of deviations.
    ///
    /// # Errors
    /// As [`RigFile::load`].
    pub fn read(path: &Path) -> Result<Self, RigFileError> {
        let unreadable = |source| RigFileError::Read {
            path: path.into(),
            source,
        };
        let read = || {
            let whole = std::path::absolute(path)?;
            let (mut opened, mut bytes) = (File::open(&whole)?, Vec::new());
            opened.read_to_end(&mut bytes)?;
            Ok((opened, bytes, whole))
        };
        let (opened, bytes, whole) = read().map_err(unreadable)?;
        let mut file = Self::parse(&bytes, &whole)?;
        for rig in &mut file.rigs {
            rig.read_deviations().map_err(|error| RigFileError::Deviations {
                path: whole.clone(),
                rig: rig.name.clone(),
                error,
            })?;
        }
        // Other users must not choose the libraries in `env` or the program in `reset`, because these run with our
        // rights.
        let runs = |rig: &RigConfig| match () {
            () if !rig.env.is_empty() => Some(("env", "library")),
            () if rig.reset.is_some() => Some(("reset", "program")),
            () => None,
        };
        let Some((rig, (key, runs))) = file.rigs.iter().find_map(|rig| Some((rig, runs(rig)?))) else {
            return Ok(file);
        };
        match trust::others(&opened, &whole).map_err(unreadable)? {
            None => Ok(file),
            Some(why) => Err(RigFileError::Others {
                path: whole,
                why,
                rig: rig.name.clone(),
                key,
                runs,
            }),
        }
    }

    /// Parses the bytes of a rig file; reads no file. `path` appears in messages, and relative paths start at its
    /// directory.
    ///
    /// # Errors
    /// When the content is invalid; the error has path, line and column.
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

    /// Returns the rigs of the file, and the rig [`BUILT_IN_PAIR`] unless the file has a rig with this name.
    pub fn all(&self) -> impl Iterator<Item = &RigConfig> + Clone {
        static PAIR: LazyLock<RigConfig> = LazyLock::new(|| RigConfig::pair_of(VirtualConfig::default()));
        let has_own = self.rigs.iter().any(|rig| rig.name == BUILT_IN_PAIR);
        self.rigs.iter().chain((!has_own).then(|| &*PAIR))
    }

    /// Returns the rig of that name. A daemon has these rigs.
    ///
    /// # Errors
    /// [`UnknownRig`], with the names of the existing rigs.
    pub fn find(&self, name: &str) -> Result<&RigConfig, UnknownRig> {
        self.find_in(name, self.rigs.iter())
    }

    /// Returns the rig of that name for a user at a daemon. A rig that the user does not see counts as absent, and the
    /// error names neither such a rig nor the path of the rig file.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_seen(&self, name: &str, sees: impl Fn(&str) -> bool) -> Result<&RigConfig, UnknownRig> {
        let seen: Vec<&RigConfig> = self.rigs.iter().filter(|rig| sees(&rig.name)).collect();
        self.find_in(name, seen.into_iter()).map_err(|unknown| UnknownRig {
            place: "this daemon".into(),
            ..unknown
        })
    }

    /// Returns the rig of that name, which may also be [`BUILT_IN_PAIR`].
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_any(&self, name: &str) -> Result<&RigConfig, UnknownRig> {
        self.find_in(name, self.all())
    }

    fn find_in<'a>(
        &self,
        name: &str,
        mut rigs: impl Iterator<Item = &'a RigConfig> + Clone,
    ) -> Result<&'a RigConfig, UnknownRig> {
        let all = rigs.clone();
        rigs.find(|rig| rig.name == name).ok_or_else(|| {
            let existing: Vec<_> = all.map(|rig| rig.name.clone()).collect();
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

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
//! window = 16               # MADs outstanding at once, 1..=64
//! subnet_timeout = 18       # 0..=20: where no subnet manager sets the port's own SubnetTimeOut
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
//! profile = "full"          # "minimal", "full" or "one-data-vl"
//! seed = 7                  # another device of the same kind; without it, the profile as it is
//! defects = ["m-key-not-kept"]
//!
//! [[rig]]
//! name = "rxe"
//! kind = "packet"
//! interface = "enp3s0"      # or: socket = { local = "t.sock", remote = "m.sock" }, a frame a datagram
//! mac = "02:00:00:00:00:02" # the tester's own; left out: the interface's
//! ip = "10.0.0.2"           # the tester's own, which no kernel has
//! # dut_ip, gid_index       # the DUT's, where the first that fits is not meant
//! agent = "10.1.2.3:7000"   # or "unix:PATH"
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

mod nearest;
mod parse;
mod peer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use verbatim_device::link::LinkDefect;
use verbatim_device::rc::RcDefect;
use verbatim_device::{Defect, Profile};
use verbatim_record::Side;
use verbatim_sim::VirtualRig;
use verbatim_tester::Route;
use verbatim_wire::{MKey, SubnetTimeout};

pub use nearest::nearest;
pub use parse::defect;
pub use peer::{AgentConfig, PacketConfig, VerbsConfig, Wire};

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
    /// Environment that the process must have been started with.
    pub env: BTreeMap<String, String>,
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
            Self::Umad { device, port } => format!("{device} port {port}"),
            Self::Model { socket } => format!("device model at {}", socket.display()),
            Self::Packet(of) => format!("{}, agent at {}", of.wire, of.agent.address),
            Self::Verbs(of) => format!("{} port {}, agent at {}", of.device, of.port, of.agent.address),
        }
    }
}

/// Which device model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualConfig {
    /// What it can do.
    pub profile: ProfileName,
    /// Another device of the same kind; without it, the profile as it is.
    pub seed: Option<u64>,
    /// What its management agents do wrong.
    pub defects: Vec<Defect>,
    /// What its adapter does wrong.
    pub adapter_defects: Vec<RcDefect>,
    /// What the link layer of its ports does wrong.
    pub link_defects: Vec<LinkDefect>,
    /// The M_Key that it is found with.
    pub m_key: MKey,
}

impl VirtualConfig {
    /// The names of all that it does wrong.
    #[must_use]
    pub fn defect_names(&self) -> Vec<&'static str> {
        let agents = self.defects.iter().map(|defect| defect.name());
        agents
            .chain(self.adapter_defects.iter().map(|defect| defect.name()))
            .chain(self.link_defects.iter().map(|defect| defect.name()))
            .collect()
    }

    /// The rig: a device as configured, its adapter varied by the same seed.
    #[must_use]
    pub fn rig(&self) -> VirtualRig {
        let adapter = VirtualRig::adapter_profile(Side::Dut);
        let adapter = match self.seed {
            Some(seed) => adapter.vary(seed),
            None => adapter,
        };
        VirtualRig::new(self.profile(), &self.defects)
            .with_adapter(adapter, &self.adapter_defects)
            .with_link_defects(&self.link_defects)
    }

    /// The profile, varied by the seed.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let profile = match self.profile {
            ProfileName::Minimal => Profile::minimal(),
            ProfileName::Full => Profile::full(),
            ProfileName::OneDataVl => Profile::one_data_vl(),
        };
        let mut profile = match self.seed {
            Some(seed) => profile.vary(seed),
            None => profile,
        };
        profile.m_key = self.m_key;
        profile
    }
}

/// A profile of the device model, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProfileName {
    /// [`Profile::minimal`].
    Minimal,
    /// [`Profile::full`].
    #[default]
    Full,
    /// [`Profile::one_data_vl`].
    OneDataVl,
}

impl ProfileName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Minimal, Self::Full, Self::OneDataVl];

    /// As people type it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Full => "full",
            Self::OneDataVl => "one-data-vl",
        }
    }
}

impl FromStr for ProfileName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("no profile is called {name:?}{}", nearest::hint(name, &names))
        })
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
        Self::parse(&bytes, &whole)
    }

    /// Reads the bytes of a rig file. `path` is for messages, and what a relative `socket` counts from.
    ///
    /// # Errors
    /// When something in it is wrong: with path, line and column.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, RigFileError> {
        let rigs = parse::rigs(bytes, path)?;
        let mut file = Self {
            path: Some(path.into()),
            rigs,
        };
        file.add_built_in();
        Ok(file)
    }

    fn add_built_in(&mut self) {
        if self.rigs.iter().all(|rig| rig.name != BUILT_IN) {
            self.rigs.push(RigConfig {
                name: BUILT_IN.into(),
                kind: RigKind::Virtual(VirtualConfig::default()),
                route: Route::Directed(vec![1]),
                m_key: MKey(0),
                shared_subnet: false,
                window: DEFAULT_WINDOW,
                subnet_timeout: None,
                env: BTreeMap::new(),
            });
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
                hint: nearest::hint(name, &existing),
                existing,
            }
        })
    }
}

//! Rigs: the rig file, and the open rig that a run uses.
//!
//! | module | content |
//! |---|---|
//! | [`mod@file`] | the rig file: finds, parses and checks the TOML |
//! | [`mod@env`] | the environment that a rig's process must start with |
//! | `port` | common part of all ports that send MADs: spans, deadlines, cancel, loss of the port |
//! | `umad` | a port of this machine, used with libibumad |
//! | `model` | the device model in another process |
//! | `peer` | rigs without MADs, with raw frames or with verbs on the hosts of both devices |
//! | `both` | a rig with MADs and verbs |
//! | `survey` | checks of the parts that a rig needs |
//!
//! ```no_run
//! use std::sync::{Arc, atomic::AtomicBool};
//! use verbatim_rig::{RigFile, Session};
//!
//! let file = RigFile::load(None)?;
//! let config = file.find("bench-3")?;
//! verbatim_rig::env::enter(config)?; // does not return when the process has to be started again
//! let cancel = Arc::new(AtomicBool::new(false));
//! let open = verbatim_rig::open(config, cancel)?;
//! match open.session {
//!     Session::Virtual(config) => println!("{:?}", config.profile()),
//!     Session::Real(mut rig) => println!("{}", rig.now()),
//!     Session::Closed => println!("closed"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod both;
mod clock;
pub mod env;
mod error;
pub mod file;
mod fingerprint;
pub mod model;
mod node;
mod peer;
mod place;
mod port;
mod survey;
mod umad;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use verbatim_sim::VirtualRig;
use verbatim_tester::{Rig, RigInfo};

pub use ::umad::take_name as take_name_on_port;
pub use error::RigError;
pub use file::{
    Consoles, DeviceSeed, Disturbances, KnownOfDut, ProfileName, ResetConfig, RigConfig, RigFile, RigFileError,
    RigKind, RigSource, UnknownRig, VirtualConfig, WrongKey,
};
pub use fingerprint::{device as device_fingerprint, whole as whole_fingerprint};
pub use node::device_node;
pub use place::Place;
pub use survey::{Part, survey};

/// A rig that is ready for a run.
#[derive(Debug)]
pub struct OpenRig {
    /// Facts about the rig that procedures and judges use.
    pub info: RigInfo,
    /// The device model or the open port.
    pub session: Session,
    /// Description of the tester's own side: firmware, driver, kernel, link.
    pub fingerprint: serde_json::Value,
}

/// The device model or port of a run.
pub enum Session {
    /// A device model under simulated time. Each test creates a new model from this configuration.
    Virtual(VirtualConfig),
    /// A port that sends in real time. Dropping it closes the port.
    Real(Box<dyn Rig + Send>),
    /// The port was closed for a reset of the device, and is not open again. No test can run.
    Closed,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtual(config) => f.debug_tuple("Virtual").field(config).finish(),
            Self::Real(rig) => write!(f, "Real(at {})", rig.now()),
            Self::Closed => f.write_str("Closed"),
        }
    }
}

/// Opens a rig. When `cancel` becomes true, the run stops at its next wait, within 20 ms. The caller may reset `cancel`
/// for the next run.
///
/// The process must have the rig's environment, see [`env::enter()`].
///
/// # Errors
/// [`RigError`] names what is missing, and the remedy.
pub fn open(config: &RigConfig, cancel: Arc<AtomicBool>) -> Result<OpenRig, RigError> {
    match &config.kind {
        RigKind::Virtual(config_of_model) => Ok(OpenRig {
            info: info(config, Duration::ZERO),
            session: Session::Virtual(config_of_model.clone()),
            fingerprint: fingerprint::of_virtual(config_of_model),
        }),
        RigKind::Umad {
            device,
            port,
            agent,
            verbs,
        } => umad::open(config, (device, *port), (agent.as_deref(), *verbs), cancel),
        RigKind::Model { socket } => model::port::open(config, socket, cancel),
        RigKind::Packet(of) => peer::packet(config, of, cancel),
        RigKind::Verbs(of) => peer::pair(config, of, cancel),
    }
}

fn info(config: &RigConfig, host_bound: Duration) -> RigInfo {
    let (frames, simulated) = match &config.kind {
        RigKind::Virtual(model) => {
            let frames = (!model.infiniband).then(|| VirtualRig::frame_port(model.ipv6));
            (frames, !model.rules_of_hardware)
        }
        _ => (None, false),
    };
    RigInfo {
        kind: config.kind.name().into(),
        offers: config.offers(),
        route: config.route.clone(),
        key: config.m_key,
        host_bound,
        simulated,
        shared_subnet: config.shared_subnet,
        window: config.window,
        subnet_timeout: config.subnet_timeout,
        assign_lid: config.assign_lid,
        frames,
        time_scale: (config.slow.scale, config.slow.scale_least),
        gid_indices: (None, None),
        of_device: config.known.parameters(),
    }
}

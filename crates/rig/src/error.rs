//! Why a rig cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a rig cannot be opened: what is missing, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// libibumad cannot be used in this process.
    #[error("rig {rig:?} is unavailable: {source}")]
    Unavailable {
        /// The rig.
        rig: String,
        /// Why.
        source: umad::Unavailable,
    },
    /// The devices of this machine could not be listed.
    #[error("rig {rig:?} is unavailable: {source}")]
    Listing {
        /// The rig.
        rig: String,
        /// Why.
        source: umad::ListError,
    },
    /// The port could not be opened.
    #[error("rig {rig:?} is unavailable: {source}")]
    Port {
        /// The rig.
        rig: String,
        /// Why.
        source: umad::OpenError,
    },
    /// The process was not started with the rig's environment.
    #[error(
        "rig {rig:?} is unavailable: its `env` asks for {expected}, and this process has {seen}; the variable must be \
         set when the process starts: start it again with it"
    )]
    Environment {
        /// The rig.
        rig: String,
        /// The variable as the rig file has it.
        expected: String,
        /// What the process has.
        seen: String,
    },
    /// A subnet manager of somebody else manages the port's subnet.
    #[error(
        "rig {rig:?} is refused: the subnet of {device}/{port} is managed by a subnet manager at LID {sm_lid}, our own \
         LID is {lid}, and tests would disturb its subnet and be disturbed by it; stop that subnet manager, or, if the \
         subnet is yours to disturb, write `shared_subnet = true` into the rig file"
    )]
    ForeignSubnetManager {
        /// The rig.
        rig: String,
        /// Its device.
        device: String,
        /// Its port.
        port: u8,
        /// Where the master subnet manager is.
        sm_lid: u16,
        /// The port's own LID.
        lid: u16,
    },
    /// No model serves the socket.
    #[error(
        "rig {rig:?} is unavailable: no device model answers at {path} ({source}); start it with `verbatimd model \
         --listen {path}`, or correct `socket` of the rig"
    )]
    NoModel {
        /// The rig.
        rig: String,
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory of the rig's own could not be made.
    #[error(
        "rig {rig:?} is unavailable: {what} failed ({source}); check TMPDIR and the free space of the temporary directory"
    )]
    Place {
        /// The rig.
        rig: String,
        /// What was being done, with its path.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// What it says cannot be worked with where it is.
    #[error("rig {rig:?} is refused: {why}")]
    Refused {
        /// The rig.
        rig: String,
        /// Why, and the remedy.
        why: String,
    },
    /// Something that it is made of is not there, or went away while it was opened.
    #[error("rig {rig:?} is unavailable: {why}")]
    Lost {
        /// The rig.
        rig: String,
        /// Why.
        why: String,
    },
}

//! Errors of opening a rig.

use std::io;
use std::path::PathBuf;

/// The reason why a rig cannot be opened. The message names what is missing and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// libibumad cannot be used in this process.
    #[error("rig {rig:?} is unavailable: {source}")]
    Unavailable {
        /// Name of the rig.
        rig: String,
        /// Cause.
        source: umad::Unavailable,
    },
    /// The devices of this machine could not be listed.
    #[error("rig {rig:?} is unavailable: {source}")]
    Listing {
        /// Name of the rig.
        rig: String,
        /// Cause.
        source: umad::ListError,
    },
    /// The port could not be opened.
    #[error("rig {rig:?} is unavailable: {source}")]
    Port {
        /// Name of the rig.
        rig: String,
        /// Cause.
        source: umad::OpenError,
    },
    /// The process was not started with the rig's environment.
    #[error(
        "rig {rig:?} is unavailable: its `env` requires {expected}, and this process has {seen}; start the process \
         again with this variable"
    )]
    Environment {
        /// Name of the rig.
        rig: String,
        /// The variable and its value in the rig file.
        expected: String,
        /// The variable in this process.
        seen: String,
    },
    /// A foreign subnet manager manages the port's subnet.
    #[error(
        "rig {rig:?} is refused: a subnet manager at LID {sm_lid} manages the subnet of {device}/{port} (own LID \
         {lid}), and the tests and the subnet manager would disturb each other; stop that subnet manager, or, if you \
         may disturb the subnet, write `shared_subnet = true` into the rig file"
    )]
    ForeignSubnetManager {
        /// Name of the rig.
        rig: String,
        /// Name of its RDMA device.
        device: String,
        /// Number of its port.
        port: u8,
        /// LID of the master subnet manager.
        sm_lid: u16,
        /// The port's own LID.
        lid: u16,
    },
    /// No device model listens on the socket.
    #[error(
        "rig {rig:?} is unavailable: no device model answers at {path} ({source}); start it with `verbatimd model \
         --listen {path}`, or correct `socket` of the rig"
    )]
    NoModel {
        /// Name of the rig.
        rig: String,
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// A temporary directory for the rig could not be created.
    #[error(
        "rig {rig:?} is unavailable: {what} failed ({source}); check TMPDIR and the free space of the temporary directory"
    )]
    Place {
        /// Name of the rig.
        rig: String,
        /// The failed action, with its path.
        what: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// The rig's settings do not fit the device or this host.
    #[error("rig {rig:?} is refused: {why}")]
    Refused {
        /// Name of the rig.
        rig: String,
        /// Reason and remedy.
        why: String,
    },
    /// A part of the rig is missing, or disappeared while the rig was opened.
    #[error("rig {rig:?} is unavailable: {why}")]
    Lost {
        /// Name of the rig.
        rig: String,
        /// Reason.
        why: String,
    },
}

//! The service's API `verbatim.v1` and the worker's protocol `verbatim.worker.v1`, generated from `proto/`. The only
//! logic of the crate makes JSON [`document`]s from messages.

pub mod document;

/// The API `verbatim.v1` for remote clients.
#[allow(missing_docs, missing_debug_implementations, clippy::all, unreachable_pub)]
#[rustfmt::skip]
pub mod v1 {
    include!("verbatim.v1.rs");

    pub use ::verbatim_record_proto::v1::*;
}

/// The protocol `verbatim.worker.v1` between the daemon and the worker of a rig.
#[allow(missing_docs, clippy::all, unreachable_pub)]
#[rustfmt::skip]
pub mod worker {
    include!("verbatim.worker.v1.rs");
}

/// The protocol `verbatim.agent.v1`: verbs commands for the host of a device.
#[allow(missing_docs, missing_debug_implementations, clippy::all, unreachable_pub)]
#[rustfmt::skip]
pub mod agent {
    include!("verbatim.agent.v1.rs");

    pub use ::verbatim_record_proto::agent::v1::*;
    pub use ::verbatim_record_proto::agent::{OutOfRange, qp_state, remote_qpn, service};
}

/// The descriptors of `verbatim.v1` for reflection: an encoded FileDescriptorSet, with all imports.
pub const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

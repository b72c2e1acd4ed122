//! The record's schema `verbatim.record.v1`, generated from `proto/`. The crate also has the messages of
//! `verbatim.agent.v1` that records contain, and the messages of `verbatim.v1` that worker, store, API and command line
//! share. Its only logic converts these messages to values of `wire`, and enumerations to and from text.

/// Messages of `verbatim.agent.v1`, without the service: verbs commands for the host of a device.
pub mod agent {
    /// The generated messages.
    #[allow(missing_docs, clippy::all, unreachable_pub)]
    #[rustfmt::skip]
    pub mod v1 {
        include!("verbatim.agent.v1.rs");
    }

    mod values;

    pub use values::{OutOfRange, qp_state, remote_qpn, service};
}

/// Messages of `verbatim.v1`, without the services: runs, events and verdicts.
#[allow(missing_docs, clippy::all, unreachable_pub)]
#[rustfmt::skip]
pub mod v1 {
    include!("verbatim.v1.rs");
}

mod json;
mod words;

/// The path by which the generated code refers to its own package.
mod record {
    #[allow(missing_docs, clippy::all, unreachable_pub)]
    #[rustfmt::skip]
    pub mod v1 {
        include!("verbatim.record.v1.rs");
    }
}

pub use record::v1::*;

//! The record's schema `verbatim.record.v1`, as generated from `proto/`, with the messages of `verbatim.agent.v1` that
//! records keep, those of `verbatim.v1` that all who run tests speak, and what their numbers mean as values of `wire`. No
//! logic lives here.

/// `verbatim.agent.v1`: verbs on demand, without the service.
pub mod agent {
    /// The messages.
    #[allow(missing_docs, clippy::all, unreachable_pub)]
    #[rustfmt::skip]
    pub mod v1 {
        include!("verbatim.agent.v1.rs");
    }

    mod values;

    pub use values::{OutOfRange, qp_state, remote_qpn, service};
}

/// `verbatim.v1`, without the services: what is run, what happens, and what comes of it.
#[allow(missing_docs, clippy::all, unreachable_pub)]
#[rustfmt::skip]
pub mod v1 {
    include!("verbatim.v1.rs");
}

mod json;
mod words;

/// Where the generated code's own paths lead.
mod record {
    #[allow(missing_docs, clippy::all, unreachable_pub)]
    #[rustfmt::skip]
    pub mod v1 {
        include!("verbatim.record.v1.rs");
    }
}

pub use record::v1::*;

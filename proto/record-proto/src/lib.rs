//! The record's schema `verbatim.record.v1`, as generated from `proto/verbatim/record/v1/record.proto`.
//! No logic lives here.

#[allow(missing_docs, clippy::all, unreachable_pub)]
#[rustfmt::skip]
mod generated;

pub use generated::*;

//! What the end-to-end tests share.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

pub mod oracle;
pub mod pages;
pub mod product;
pub mod schema;

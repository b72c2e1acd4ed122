//! Code that the end-to-end tests share.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

pub mod axe;
pub mod browser;
pub mod judged;
pub mod oracle;
pub mod outcomes;
pub mod pages;
pub mod product;
pub mod python;
pub mod reading;
pub mod schema;

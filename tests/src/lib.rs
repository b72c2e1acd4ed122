//! What the end-to-end tests share.

pub mod oracle;
pub mod product;
pub mod schema;

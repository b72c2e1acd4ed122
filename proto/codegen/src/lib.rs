//! Makes the Rust of `proto/`. The result is committed, so that a build needs neither protoc nor its crates.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// A committed file and what it should hold.
#[derive(Debug)]
pub struct Generated {
    /// Where it is committed.
    pub path: PathBuf,
    /// What the definitions give.
    pub code: String,
}

/// The Rust of `verbatim/record/v1/record.proto`.
///
/// # Errors
/// When the definitions do not compile.
pub fn record() -> anyhow::Result<Generated> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("proto/ above codegen/")?;
    let files = protox::compile(["verbatim/record/v1/record.proto"], [proto])?;
    let mut config = prost_build::Config::new();
    config.btree_map(["."]);
    let modules = config.generate(
        files
            .file
            .into_iter()
            .map(|file| (prost_build::Module::from_protobuf_package_name(file.package()), file))
            .collect(),
    )?;
    let code = modules.into_values().collect();
    Ok(Generated {
        path: proto.join("record-proto/src/generated.rs"),
        code,
    })
}

//! Makes the Rust of `proto/`. The result is committed, so that a build needs neither protoc nor its crates.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;
use prost_build::{Config, Module};
use protox::prost_reflect::prost_types::FileDescriptorSet;

/// A committed file and what it should hold.
#[derive(Debug)]
pub struct Generated {
    /// Where it is committed.
    pub path: PathBuf,
    /// What the definitions give.
    pub content: Vec<u8>,
}

/// Every generated file of the tree.
///
/// # Errors
/// When the definitions do not compile.
pub fn all() -> anyhow::Result<Vec<Generated>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("proto/ above codegen/")?;
    let mut generated = Vec::new();

    let record = protox::compile(["verbatim/record/v1/record.proto"], [proto])?;
    let mut config = Config::new();
    // A frame is shared by who looks at it, the record in memory and the record's file.
    config.btree_map(["."]).bytes([".verbatim.record.v1.Frame.bytes"]);
    for (package, code) in code(record, &mut config)? {
        generated.push(Generated {
            path: proto.join(format!("record-proto/src/{package}.rs")),
            content: code.into(),
        });
    }

    let service = [
        "verbatim/v1/catalog.proto",
        "verbatim/v1/rig.proto",
        "verbatim/v1/run.proto",
    ];
    let descriptors = protox::compile(service, [proto])?;
    let out = proto.join("verbatim-proto/src");
    generated.push(Generated {
        path: out.join("descriptors.bin"),
        content: descriptors.encode_to_vec(),
    });
    let mut config = Config::new();
    config.btree_map(["."]);
    config.service_generator(tonic_prost_build::configure().service_generator());
    for (package, code) in code(descriptors, &mut config)? {
        if package == "verbatim.v1" {
            generated.push(Generated {
                path: out.join("verbatim.v1.rs"),
                content: code.into(),
            });
        }
    }
    let agent = protox::compile(["verbatim/agent/v1/agent.proto"], [proto])?;
    let mut config = Config::new();
    // Messages that records keep too are made once, in record-proto.
    for file in agent.file.iter().filter(|file| file.name().ends_with("/verbs.proto")) {
        let messages = file.message_type.iter().map(|message| message.name());
        for name in messages.chain(file.enum_type.iter().map(|of| of.name())) {
            config.extern_path(
                format!(".verbatim.agent.v1.{name}"),
                format!("::verbatim_record_proto::agent::v1::{name}"),
            );
        }
    }
    config.service_generator(tonic_prost_build::configure().service_generator());
    for (_, code) in code(agent, &mut config)? {
        generated.push(Generated {
            path: out.join("verbatim.agent.v1.rs"),
            content: code.into(),
        });
    }
    let worker = protox::compile(["verbatim/worker/v1/worker.proto"], [proto])?;
    for (_, code) in code(worker, Config::new().btree_map(["."]))? {
        generated.push(Generated {
            path: out.join("verbatim.worker.v1.rs"),
            content: code.into(),
        });
    }
    Ok(generated)
}

fn code(files: FileDescriptorSet, config: &mut Config) -> anyhow::Result<Vec<(String, String)>> {
    let requests = files
        .file
        .into_iter()
        .map(|file| (Module::from_protobuf_package_name(file.package()), file))
        .collect();
    let modules = config.generate(requests)?;
    Ok(modules
        .into_iter()
        .map(|(module, code)| (module.parts().collect::<Vec<_>>().join("."), code))
        .collect())
}

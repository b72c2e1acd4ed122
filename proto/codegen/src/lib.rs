//! Generates the Rust code of `proto/`. The code is committed, so that a build needs neither protoc nor the generator's
//! crates.

use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;
use prost_build::{Config, Module};
use protox::prost_reflect::prost_types::FileDescriptorSet;

/// A generated file.
#[derive(Debug)]
pub struct Generated {
    /// Path of the committed file.
    pub path: PathBuf,
    /// Content generated from the definitions.
    pub content: Vec<u8>,
}

/// A field that few replies set, and that would enlarge every reply.
const BOXED: &str = ".verbatim.agent.v1.Opened.capabilities";

/// Generates all files.
///
/// # Errors
/// When the definitions do not compile.
pub fn all() -> anyhow::Result<Vec<Generated>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("proto/ above codegen/")?;
    let mut generated = Vec::new();

    // record-proto has the shared messages of records and runs; the services refer to these.
    let words = ["verbatim/v1/verdict.proto", "verbatim/v1/event.proto"];
    let record = protox::compile([&["verbatim/record/v1/record.proto"][..], &words].concat(), [proto])?;
    let shared = externs(&record);
    let mut config = Config::new();
    // The record in memory, its file and all readers share the bytes of a frame.
    config.btree_map(["."]).bytes([".verbatim.record.v1.Frame.bytes"]);
    config.boxed(BOXED);
    as_json(&mut config);
    for (package, code) in code(record, &mut config)? {
        generated.push(Generated {
            path: proto.join(format!("record-proto/src/{package}.rs")),
            content: code.into(),
        });
    }

    let service = [
        "verbatim/v1/catalog.proto",
        "verbatim/v1/lease.proto",
        "verbatim/v1/rig.proto",
        "verbatim/v1/run.proto",
    ];
    let descriptors = protox::compile(service, [proto])?;
    let out = proto.join("verbatim-proto/src");
    generated.push(Generated {
        path: out.join("descriptors.bin"),
        content: descriptors.encode_to_vec(),
    });
    let agent = protox::compile(["verbatim/agent/v1/agent.proto"], [proto])?;
    let worker = protox::compile(["verbatim/worker/v1/worker.proto"], [proto])?;
    for (package, files) in [
        ("verbatim.v1", descriptors),
        ("verbatim.agent.v1", agent),
        ("verbatim.worker.v1", worker),
    ] {
        let mut config = Config::new();
        config.btree_map(["."]);
        config.boxed(BOXED);
        config.service_generator(
            tonic_prost_build::configure()
                .build_transport(false)
                .service_generator(),
        );
        for (message, path) in &shared {
            config.extern_path(message, path);
        }
        for (of, code) in code(files, &mut config)? {
            if of == package {
                generated.push(Generated {
                    path: out.join(format!("{package}.rs")),
                    content: code.into(),
                });
            }
        }
    }
    Ok(generated)
}

/// Returns every message and enumeration of these files, with its Rust path in record-proto.
fn externs(files: &FileDescriptorSet) -> Vec<(String, String)> {
    let mut externs = Vec::new();
    for file in &files.file {
        let place = match file.package() {
            "verbatim.record.v1" => "",
            "verbatim.agent.v1" => "agent::v1::",
            "verbatim.v1" => "v1::",
            _ => continue,
        };
        let messages = file.message_type.iter().map(|message| message.name());
        for name in messages.chain(file.enum_type.iter().map(|of| of.name())) {
            let message = format!(".{}.{name}", file.package());
            externs.push((message, format!("::verbatim_record_proto::{place}{name}")));
        }
    }
    externs
}

/// Adds serde attributes to the messages that reports and run files contain as JSON, in the form `verbatim.report.v1`.
fn as_json(config: &mut Config) {
    let of = |name: &str| format!(".verbatim.v1.{name}");
    for message in ["Check", "Measured", "Observation", "Verdict", "RunSpec", "RunInfo"].map(of) {
        config.type_attribute(message, "#[derive(serde::Serialize, serde::Deserialize)]");
    }
    config.type_attribute(
        ".verbatim.record.v1.Restored",
        "#[derive(serde::Serialize, serde::Deserialize)]",
    );
    for (field, with) in [
        ("Check.result", "check_result"),
        ("Verdict.outcome", "outcome"),
        ("Verdict.cause", "cause"),
        ("RunInfo.outcome", "outcome"),
        ("RunInfo.fingerprint", "json_text"),
    ] {
        config.field_attribute(of(field), format!("#[serde(with = \"crate::json::{with}\")]"));
    }
    // These fields are omitted if they are not set.
    config.field_attribute(
        ".verbatim.v1.RunSpec.exit_first",
        "#[serde(default, skip_serializing_if = \"core::ops::Not::not\")]",
    );
    config.field_attribute(
        of("RunInfo.rig_options"),
        "#[serde(default, skip_serializing_if = \"String::is_empty\")]",
    );
    let when_any = "#[serde(default, skip_serializing_if = \"Vec::is_empty\")]";
    for field in ["Check.frames", "Check.given", "Check.places"] {
        config.field_attribute(of(field), when_any);
    }
    config.field_attribute(
        of("Check.rule"),
        "#[serde(default, skip_serializing_if = \"String::is_empty\")]",
    );
    config.field_attribute(
        of("Check.times"),
        "#[serde(default, skip_serializing_if = \"crate::json::is_zero\")]",
    );
    let when_there = "#[serde(default, skip_serializing_if = \"Option::is_none\")]";
    for field in [
        "Check.follows_from",
        "Check.measured",
        "Measured.lower_ns",
        "Measured.upper_ns",
    ] {
        config.field_attribute(of(field), when_there);
    }
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

#[cfg(test)]
mod tests {
    #[test]
    fn committed_code_matches_the_definitions() {
        for generated in super::all().expect("the definitions compile") {
            let committed = std::fs::read(&generated.path).unwrap_or_default();
            assert!(
                committed == generated.content,
                "{} is stale: run `cargo run -p verbatim-codegen`",
                generated.path.display()
            );
        }
    }
}

//! `verbatim rigs`: what the rig file offers.

use std::path::PathBuf;
use std::process::ExitCode;

use verbatim_daemon::rig::{RigConfig, RigFile, RigFileError, RigKind};

use crate::exit::Usage;
use crate::print;

/// List the rigs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The rig file, or an error that is the operator's.
pub(crate) fn load(path: Option<&PathBuf>) -> anyhow::Result<RigFile> {
    RigFile::load(path.map(PathBuf::as_path)).map_err(|error: RigFileError| Usage(error.to_string()).into())
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let file = load(arguments.rig_file.as_ref())?;
    if arguments.json {
        let rigs: Vec<_> = file
            .rigs
            .iter()
            .map(|rig| {
                serde_json::json!({
                    "name": rig.name,
                    "kind": rig.kind.name(),
                    "device": device(rig),
                    "shared_subnet": rig.shared_subnet,
                    "window": rig.window,
                })
            })
            .collect();
        print::json(&serde_json::json!({ "rig_file": file.path, "rigs": rigs }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: String = file
        .rigs
        .iter()
        .map(|rig| format!("{:<20} {:<8} {}\n", rig.name, rig.kind.name(), device(rig)))
        .collect();
    print::text(&lines)?;
    if file.path.is_none() {
        eprintln!("no rig file: only the built-in rig; name one with --rig-file, or make /etc/verbatim/rigs.toml");
    }
    Ok(ExitCode::SUCCESS)
}

fn device(rig: &RigConfig) -> String {
    match &rig.kind {
        RigKind::Virtual(model) => {
            let defects: Vec<_> = model.defects.iter().map(ToString::to_string).collect();
            let broken = if defects.is_empty() {
                String::new()
            } else {
                format!(", defects {}", defects.join(", "))
            };
            format!("device model {}{broken}", model.profile.name())
        }
        RigKind::Umad { device, port } => format!("{device} port {port}"),
        RigKind::Model { socket } => format!("device model at {}", socket.display()),
    }
}

//! `verbatim rigs`: the rigs of the daemon or of the rig file.

mod discover;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::Subcommand;
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_client::{Address, RigName, v1};
use verbatim_record::Restored;
use verbatim_rig::{RigConfig, RigFile, RigFileError};
use verbatim_run as run;
use verbatim_run::state::StateDirectory;
use verbatim_text::Text;

use crate::exit::Usage;
use crate::server::{self, Place};
use crate::{exit, print};

/// List the rigs.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml. A daemon has its own
    #[arg(long, value_name = "FILE", global = true)]
    rig_file: Option<PathBuf>,
    /// Print each rig that changes, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print one JSON document; with --watch a line for each rig
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Restore the changes that an earlier run left on a rig's device, and lift the quarantine on success
    Restore {
        /// The rig
        rig: String,
    },
    /// Take a rig out of use: its holder keeps it, and no other user gets it
    Drain {
        /// The rig
        rig: String,
        /// The reason, for users who want the rig
        #[arg(long, value_name = "WORDS", default_value = "no reason given")]
        why: String,
    },
    /// Print a rig file for the adapters of this host
    Discover,
    /// Make the daemon read its rig file again; rigs in use are neither removed nor given another device
    Reload,
    /// Put a rig back into use
    Undrain {
        /// The rig
        rig: String,
    },
}

/// Reads the rig file. Reports an error as a [`Usage`] error.
pub(crate) fn load(path: Option<&PathBuf>) -> anyhow::Result<RigFile> {
    RigFile::load(path.map(PathBuf::as_path)).map_err(|error: RigFileError| Usage(error.to_string()).into())
}

pub(crate) fn run(arguments: &Arguments, place: impl FnOnce() -> anyhow::Result<Place>) -> anyhow::Result<ExitCode> {
    if let Some(Command::Discover) = arguments.command {
        let (text, ports) = discover::discover(Path::new("/"));
        print::text(&Text::own(&text))?;
        if ports == 0 {
            print::note("no adapter in /sys/class/infiniband; `verbatim doctor` lists the missing parts");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let place = &place()?;
    match (place, &arguments.command) {
        (Place::Server(address), command) => {
            server::refuse_rig_file(arguments.rig_file.as_ref(), address)?;
            match command {
                None if arguments.watch => watch(arguments, address),
                None => of_server(arguments, address),
                Some(Command::Drain { rig, why }) => drain(address, rig, why),
                Some(Command::Undrain { rig }) => drain(address, rig, ""),
                Some(Command::Reload) => reload(address, arguments.json),
                Some(Command::Restore { rig }) => restore_at(address, rig, arguments.json),
                Some(Command::Discover) => Ok(ExitCode::SUCCESS),
            }
        }
        (Place::Inside(_), None) if !arguments.watch => of_file(arguments),
        (Place::Inside(_), Some(Command::Restore { rig })) => restore_inside(arguments, rig),
        (Place::Inside(_), None | Some(_)) => {
            place.server("this `verbatim rigs` command")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn of_server(arguments: &Arguments, address: &Address) -> anyhow::Result<ExitCode> {
    let (rigs, leases) = server::at(address, |client| async move {
        Ok((client.list_rigs().await?, client.list_leases(false, false).await?))
    })?;
    if arguments.json {
        let documents: Vec<_> = rigs.iter().map(print::document::rig).collect();
        print::json(&serde_json::json!({ "server": address.to_string(), "rigs": documents }))?;
    } else {
        print::text(&print::tables::rigs_with(&rigs, &leases))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn watch(arguments: &Arguments, address: &Address) -> anyhow::Result<ExitCode> {
    server::at(address, |client| async move {
        let mut changes = client.watch_rigs().await?;
        while let Some(changed) = changes.next().await? {
            if arguments.json {
                changed
                    .rigs
                    .iter()
                    .map(print::document::rig)
                    .try_for_each(|rig| print::json_line(&rig))?;
            } else {
                print::text(&print::tables::rigs(&changed.rigs))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn drain(address: &Address, rig: &str, why: &str) -> anyhow::Result<ExitCode> {
    let name: RigName = rig.parse()?;
    let rig = server::at(address, |client| async move { Ok(client.drain_rig(&name, why).await?) })?;
    print::text(&print::tables::rigs(&[rig]))?;
    Ok(ExitCode::SUCCESS)
}

fn reload(address: &Address, json: bool) -> anyhow::Result<ExitCode> {
    let done = server::at(address, |client| async move { Ok(client.reload_rigs().await?) })?;
    let parts = [
        ("added", &done.added),
        ("changed", &done.changed),
        ("removed", &done.removed),
        ("leaving", &done.leaving),
    ];
    if json {
        let parts: serde_json::Map<String, serde_json::Value> = parts
            .iter()
            .map(|(what, rigs)| ((*what).into(), (*rigs).clone().into()))
            .collect();
        print::json(&parts)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = Text::new();
    for (what, rigs) in parts.iter().filter(|(_, rigs)| !rigs.is_empty()) {
        text.line(format_args!("{what:<9} {}", rigs.join(" ")));
    }
    if text.is_empty() {
        text.line("no rig changed");
    }
    print::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn restore_at(address: &Address, rig: &str, json: bool) -> anyhow::Result<ExitCode> {
    let name: RigName = rig.parse()?;
    let (answer, name) = server::at(
        address,
        |client| async move { Ok((client.restore_rig(&name).await?, name)) },
    )?;
    let after = answer.rig.unwrap_or_default();
    let quarantined = after.state() == v1::RigState::Quarantined;
    // If a restore failed before it reached the device, the list of areas is empty too.
    if !quarantined || !answer.areas.is_empty() {
        show_restored(name.id(), &answer.areas, json)?;
    }
    if quarantined {
        print::note(format_args!(
            "verbatim: {} stays quarantined: {}",
            name.id(),
            after.state_reason
        ));
    }
    let complete = !quarantined && answer.areas.iter().all(Restored::is_complete);
    Ok(ExitCode::from(if complete { 0 } else { exit::ERROR }))
}

fn restore_inside(arguments: &Arguments, rig: &str) -> anyhow::Result<ExitCode> {
    let name: RigName = rig.parse()?;
    let file = load(arguments.rig_file.as_ref())?;
    let config = file.find_any(name.id()).map_err(|error| Usage(error.to_string()))?;
    verbatim_rig::env::enter(config).context("cannot start again with the rig's environment")?;
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&cancel))?;
    }
    let mut areas = Vec::new();
    let state = StateDirectory::find().map_err(|error| Usage(error.to_string()))?;
    let outcome = run::recover_only(config, &state, cancel, &mut |event| {
        if let run::Event::RestoreEnded(ended) = event {
            areas = ended.areas;
        }
    });
    // If the rig or its journal cannot be opened, the list of areas is empty, but a change may be left.
    if outcome.is_ok() || !areas.is_empty() {
        show_restored(name.id(), &areas, arguments.json)?;
    }
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn show_restored(rig: &str, areas: &[Restored], json: bool) -> anyhow::Result<()> {
    if json {
        print::json(&print::document::restored_areas(rig, areas))
    } else {
        print::text(&print::tables::restored(rig, areas))
    }
}

fn of_file(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let file = load(arguments.rig_file.as_ref())?;
    if arguments.json {
        let rigs: Vec<_> = file
            .all()
            .map(|rig| {
                let mut document = print::document::rig(&ours(rig));
                document["shared_subnet"] = rig.shared_subnet.into();
                document["window"] = serde_json::json!(rig.window);
                document
            })
            .collect();
        print::json(&serde_json::json!({ "rig_file": file.path, "rigs": rigs }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Text = file
        .all()
        .flat_map(|rig| {
            let head = format!("{:<20} {:<8} {}", rig.name, rig.kind.name(), device(rig));
            [Text::of(head), print::tables::labels(&rig.labels)]
        })
        .collect();
    print::text(&lines)?;
    if file.path.is_none() {
        print::note(
            "no rig file: only the built-in rigs; name a file with --rig-file, or make /etc/verbatim/rigs.toml",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a rig of a rig file, in the form of a daemon.
pub(crate) fn ours(rig: &RigConfig) -> v1::Rig {
    v1::Rig {
        name: format!("rigs/{}", rig.name),
        kind: rig.kind.name().into(),
        device: device(rig),
        labels: rig.all_labels().collect(),
        offers: rig.offers_in_words(),
        ..v1::Rig::default()
    }
}

fn device(rig: &RigConfig) -> String {
    rig.kind.device()
}

//! `verbatimd`: Verbatim's daemon.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_daemon::model::Model;
use verbatim_daemon::rig::file::defect;
use verbatim_daemon::rig::{ProfileName, VirtualConfig};
use verbatim_device::Defect;
use verbatim_wire::MKey;
use verbatim_wire::values::{LeasePeriod, ProtectBits};

/// Exit code when something went wrong that is neither usage nor a verdict.
const ERROR: u8 = 3;

/// Verbatim's daemon.
#[derive(Parser)]
#[command(name = "verbatimd", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the device model in real time on a unix datagram socket.
    ///
    /// The device is cabled to whoever sends to the socket, and survives the end of it. SIGTERM and SIGINT end the
    /// model and remove the socket.
    Model(ModelArguments),
}

#[derive(clap::Args)]
struct ModelArguments {
    /// The socket to make
    #[arg(long, value_name = "PATH")]
    listen: PathBuf,
    /// What the device can do: minimal, full or one-data-vl
    #[arg(long, value_name = "P", default_value = "full")]
    profile: ProfileName,
    /// Vary the device as two of its kind may differ; without it, the profile as it is
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Let the device break one compliance statement; may be given several times
    #[arg(long = "defect", value_name = "NAME", value_parser = defect)]
    defects: Vec<Defect>,
    /// The M_Key that the device is found with
    #[arg(long, value_name = "KEY", default_value = "0", value_parser = number)]
    found_m_key: u64,
    /// The M_KeyProtectBits that the device is found with
    #[arg(long, value_name = "0..3", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=3))]
    found_protect_bits: u8,
    /// The M_KeyLeasePeriod that the device is found with
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    found_lease_period: u16,
}

fn main() -> ExitCode {
    let Command::Model(arguments) = Arguments::parse().command;
    match serve_model(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verbatimd: {error:#}");
            ExitCode::from(ERROR)
        }
    }
}

fn serve_model(arguments: ModelArguments) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("catching SIGTERM and SIGINT")?;
    }
    let config = VirtualConfig {
        profile: arguments.profile,
        seed: arguments.seed,
        defects: arguments.defects,
        m_key: MKey(arguments.found_m_key),
    };
    let mut profile = config.profile();
    profile.protect_bits = ProtectBits(arguments.found_protect_bits);
    profile.lease_period = LeasePeriod(arguments.found_lease_period);
    let model = Model {
        listen: arguments.listen,
        profile,
        defects: config.defects,
    };
    model.serve(&stop, |path| eprintln!("listening on {}", path.display()))?;
    Ok(())
}

/// A number, in hexadecimal with 0x in front or in decimal.
fn number(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|error| format!("{error}; expected 64 bits, such as 0x0123456789abcdef"))
}

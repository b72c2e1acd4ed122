//! `verbatimd`: Verbatim's daemon.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use verbatim_daemon::config::Config;
use verbatim_daemon::serve::{self, Options, Served};
use verbatim_daemon::worker::{self, WorkerArguments};
use verbatim_device::Defect;
use verbatim_report::counted;
use verbatim_rig::file::defect;
use verbatim_rig::model::Model;
use verbatim_rig::{ProfileName, RigFile};
use verbatim_text::Text;
use verbatim_wire::MKey;
use verbatim_wire::values::{LeasePeriod, ProtectBits};

/// Exit code of a failure at run time.
const ERROR: u8 = 3;

/// Exit code of a usage error, such as a wrong rig file or configuration.
const USAGE: u8 = 2;

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
    /// The process that sends to the socket is the device's link partner. The device keeps its state when that process
    /// ends. SIGTERM and SIGINT end the model and remove the socket.
    Model(ModelArguments),
    /// Serve the rigs of this machine to clients over gRPC on a unix socket.
    ///
    /// SIGTERM and SIGINT stop the daemon in order: it starts no more runs, stops running ones at their next safe
    /// point, and restores the devices. SIGHUP makes it read the rig file, the configuration and the certificates
    /// again. RUST_LOG selects the content of the log.
    Serve(ServeArguments),
    /// Check the rig file and the daemon's configuration, and print the rigs; after an error, print its place and exit
    /// with code 2.
    CheckConfig(CheckArguments),
    /// Print the systemd drop-in for the unit of a rig's worker: verbatim-worker@RIG.service.d/rig.conf.
    WorkerUnit(WorkerUnitArguments),
    /// Run tests on one rig; only the daemon starts this command.
    #[command(hide = true)]
    Worker(WorkerArguments),
    /// Print the report of a run's record as HTML; only the daemon's page starts this command.
    #[command(hide = true)]
    ReportPage {
        /// The record's directory
        directory: PathBuf,
    },
}

#[derive(clap::Args)]
struct ModelArguments {
    /// The socket to make
    #[arg(long, value_name = "PATH")]
    listen: PathBuf,
    /// Capabilities of the device: minimal, full, one-data-vl or any (drawn from the seed)
    #[arg(long, value_name = "P", default_value = "full")]
    profile: ProfileName,
    /// Vary the profile with this seed; without a seed, the profile is used unchanged
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Let the device break one compliance statement; may be given several times
    #[arg(long = "defect", value_name = "NAME", value_parser = defect)]
    defects: Vec<Defect>,
    /// The M_Key that the device has when the model starts
    #[arg(long, value_name = "KEY", default_value = "0", value_parser = number)]
    found_m_key: u64,
    /// The M_KeyProtectBits that the device has when the model starts
    #[arg(long, value_name = "0..3", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=3))]
    found_protect_bits: u8,
    /// The M_KeyLeasePeriod that the device has when the model starts
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    found_lease_period: u16,
}

#[derive(clap::Args)]
struct ServeArguments {
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
    /// The configuration, which says where to listen over a network and who may do what; else
    /// /etc/verbatim/verbatimd.toml, if there is one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The socket; else $RUNTIME_DIRECTORY/verbatim.sock, else /run/verbatim/verbatim.sock
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where journals and runs are kept; else $STATE_DIRECTORY, else $XDG_STATE_HOME/verbatim, else
    /// ~/.local/state/verbatim
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// How long a stop may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    stop_within: u64,
}

#[derive(clap::Args)]
struct CheckArguments {
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
    /// The configuration; else /etc/verbatim/verbatimd.toml, if there is one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(clap::Args)]
struct WorkerUnitArguments {
    /// The rig
    rig: String,
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(done) = verbatim_manual::asked(<Arguments as clap::CommandFactory>::command) {
        return done;
    }
    let done = match Arguments::parse().command {
        Command::Model(arguments) => serve_model(arguments),
        Command::Serve(arguments) => return serve(arguments),
        Command::CheckConfig(arguments) => return check_config(&arguments),
        Command::WorkerUnit(arguments) => return worker_unit(&arguments),
        Command::Worker(arguments) => worker::work(&arguments),
        Command::ReportPage { directory } => verbatim_daemon::api::report::print(&directory),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&verbatim_text::in_words(&*error));
            ExitCode::from(ERROR)
        }
    }
}

/// Prints a message on stderr.
fn say(words: &str) {
    verbatim_text::say(format_args!("verbatimd: {words}"));
}

/// Prints on stdout. Ignores an error, because stdout may be closed.
#[expect(clippy::disallowed_methods, reason = "a `Text` is harmless")]
fn print(text: &Text) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Loads the rig file. Returns the exit code if the file is wrong.
fn rigs(path: Option<&Path>) -> Result<RigFile, ExitCode> {
    let wrong = |what: String| {
        say(&what);
        ExitCode::from(USAGE)
    };
    let rigs = RigFile::load(path).map_err(|error| wrong(error.to_string()))?;
    match rigs.two_of_one_device() {
        Some((one, other)) => Err(wrong(format!(
            "the rigs {one:?} and {other:?} have the same device; remove one of them from the rig file"
        ))),
        None => Ok(rigs),
    }
}

/// Loads the configuration. Returns the exit code if the configuration is wrong.
fn config(path: Option<&Path>) -> Result<Config, ExitCode> {
    Config::load(path).map_err(|error| {
        say(&error.to_string());
        ExitCode::from(USAGE)
    })
}

fn serve(arguments: ServeArguments) -> ExitCode {
    let rigs = match rigs(arguments.rig_file.as_deref()) {
        Ok(rigs) => rigs,
        Err(code) => return code,
    };
    let config = match config(arguments.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let options = Options {
        rigs,
        config,
        socket: arguments.socket,
        state: arguments.state,
        stop_within: Duration::from_secs(arguments.stop_within),
    };
    match serve::serve(options) {
        Ok(Served::Stopped) => ExitCode::SUCCESS,
        Ok(Served::Unfinished(_)) => ExitCode::from(ERROR),
        Err(error) => {
            say(&verbatim_text::in_words(&*error));
            ExitCode::from(ERROR)
        }
    }
}

fn check_config(arguments: &CheckArguments) -> ExitCode {
    let rigs = match rigs(arguments.rig_file.as_deref()) {
        Ok(rigs) => rigs,
        Err(code) => return code,
    };
    let config = match config(arguments.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    if let Err(error) = config.look() {
        say(&error.to_string());
        return ExitCode::from(USAGE);
    }
    let place = rigs
        .path
        .as_ref()
        .map_or("no rig file".into(), |path| path.display().to_string());
    let mut text = Text::of(format_args!(
        "{place}: {}",
        counted(rigs.rigs.len() as u64, "rig", "rigs")
    ));
    for rig in &rigs.rigs {
        text.line(format_args!(
            "{:<20} {:<8} {}",
            rig.name,
            rig.kind.name(),
            rig.kind.device()
        ));
    }
    print(&text);
    ExitCode::SUCCESS
}

fn worker_unit(arguments: &WorkerUnitArguments) -> ExitCode {
    let rigs = match rigs(arguments.rig_file.as_deref()) {
        Ok(rigs) => rigs,
        Err(code) => return code,
    };
    let found = rigs.find(&arguments.rig).map_err(|error| error.to_string());
    match found.and_then(|rig| worker::drop_in(rig, Path::new("/sys"))) {
        Ok(text) => {
            print(&Text::own(&text));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(USAGE)
        }
    }
}

fn serve_model(arguments: ModelArguments) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("catching SIGTERM and SIGINT")?;
    }
    let mut profile = arguments.profile.profile(arguments.seed);
    profile.m_key = MKey(arguments.found_m_key);
    profile.protect_bits = ProtectBits(arguments.found_protect_bits);
    profile.lease_period = LeasePeriod(arguments.found_lease_period);
    let model = Model {
        listen: arguments.listen,
        profile,
        defects: arguments.defects,
    };
    model.serve(&stop, |path| {
        verbatim_text::say(format_args!("listening on {}", path.display()));
    })?;
    Ok(())
}

/// Parses a decimal number, or a hexadecimal number that starts with 0x.
fn number(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    value.map_err(|error| format!("{error}; expected 64 bits, such as 0x0123456789abcdef"))
}

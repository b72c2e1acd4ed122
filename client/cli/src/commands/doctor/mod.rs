//! `verbatim doctor`: checks this machine, and reports usable and missing parts, with remedies.

mod agent;
mod host;
mod settings;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use umad::Library;
use verbatim_client::v1;
use verbatim_report::fingerprint_in_words;
use verbatim_rig::{RigConfig, RigKind, Session};
use verbatim_run::state::StateDirectory;
use verbatim_text::Text;

use crate::commands::rigs;
use crate::server::{self, Place};
use crate::{exit, print};

/// Check this machine: list usable and missing parts, with remedies.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 all required parts are usable: the state directory, each rig of the rig file, and the \
    daemon if there is one; with --agent, no check failed; 2 usage; 3 a required part is missing, or a check failed. \
    Lines `note` and `unread` show settings of RDMA devices that decide verdicts. They do not change the exit code."
)]
pub(crate) struct Arguments {
    /// Check only this rig, and fail if the rig cannot be used
    #[arg(long)]
    rig: Option<String>,
    /// The rig file; else $VERBATIM_RIG_FILE, else /etc/verbatim/rigs.toml
    #[arg(long, value_name = "FILE")]
    rig_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of_agent: agent::Options,
}

#[derive(Serialize)]
struct Found {
    what: String,
    usable: bool,
    state: State,
    words: String,
}

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// A usable part or setting.
    Ok,
    /// A setting that affects verdicts. The text names the effect, and how to switch the setting off.
    Note,
    /// A setting that may affect verdicts and cannot be read. The text has the reason.
    Unread,
    /// A required part that is missing.
    Missing,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unread => "unread",
            Self::Missing => "missing",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, place: impl FnOnce() -> anyhow::Result<Place>) -> anyhow::Result<ExitCode> {
    if let Some(address) = &arguments.of_agent.agent {
        return agent::run(address, &arguments.of_agent, arguments.json);
    }
    let file = rigs::load(arguments.rig_file.as_ref())?;
    let this_host = settings::Host {
        root: Path::new("/"),
        tool: &settings::installed,
    };
    let mut found = Vec::new();
    let mut wanted: Vec<RigConfig> = file.rigs.clone();
    if let Some(name) = &arguments.rig {
        let config = file
            .find_any(name)
            .map_err(|error| exit::Usage(error.to_string()))?
            .clone();
        verbatim_rig::env::enter(&config)?;
        found.extend(settings::of_rig(&this_host, &config));
        wanted = vec![config];
    } else {
        found.push(match &file.path {
            Some(path) => good("rig file", path.display().to_string()),
            None => good(
                "rig file",
                "none: only the built-in rigs `virtual` and `virtual-ib`".into(),
            ),
        });
        found.extend(host::look(Path::new("/"), file.path.as_deref(), &file.rigs));
        found.push(libibumad());
        found.extend(settings::of_host(&this_host));
        // Without `--rig`, the daemon reports its own rigs. With `--rig`, this process checks the rig itself.
        found.extend(daemon(place));
    }
    found.push(state_directory());
    found.extend(wanted.iter().flat_map(a_rig));
    // A missing libibumad alone is no failure: a rig that needs the library reports it.
    let usable = found.iter().all(|found| found.usable || found.what == LIBRARY);
    if arguments.json {
        print::json(&serde_json::json!({ "found": found }))?;
    } else {
        let lines: Text = found
            .iter()
            .map(|found| {
                let Found { what, state, words, .. } = found;
                Text::of(format_args!("{:<7} {what:<18} {words}", state.word()))
            })
            .collect();
        print::text(&lines)?;
    }
    Ok(ExitCode::from(if usable { 0 } else { exit::ERROR }))
}

/// Name of the part that may be missing if no rig needs it.
const LIBRARY: &str = "libibumad";

/// Checks the daemon that commands would use, and lists its quarantined rigs. Returns nothing without a daemon.
fn daemon(place: impl FnOnce() -> anyhow::Result<Place>) -> Vec<Found> {
    let address = match place() {
        Ok(Place::Server(address)) => address,
        Ok(Place::Inside(_)) => return Vec::new(),
        Err(error) => return vec![bad("daemon", verbatim_text::in_words(&*error))],
    };
    let rigs = match server::at(&address, |client| async move { Ok(client.list_rigs().await?) }) {
        Ok(rigs) => rigs,
        Err(error) => return vec![bad("daemon", verbatim_text::in_words(&*error))],
    };
    let rigs_in_words = print::counted(rigs.len() as u64, "rig", "rigs");
    let words = format!("{address} answers; {rigs_in_words}");
    let mut found = vec![good("daemon", words)];
    let out_of_use = |rig: &&v1::Rig| rig.state() == v1::RigState::Quarantined;
    found.extend(
        rigs.iter()
            .filter(out_of_use)
            .map(|rig| bad(&format!("daemon: {}", rig.name), rig.state_reason.clone())),
    );
    found
}

fn found(state: State, what: &str, words: String) -> Found {
    Found {
        what: what.into(),
        usable: state != State::Missing,
        state,
        words,
    }
}

fn good(what: &str, words: String) -> Found {
    found(State::Ok, what, words)
}

fn note(what: &str, words: String) -> Found {
    found(State::Note, what, words)
}

fn unread(what: &str, words: String) -> Found {
    found(State::Unread, what, words)
}

fn bad(what: &str, words: String) -> Found {
    found(State::Missing, what, words)
}

fn libibumad() -> Found {
    let library = match Library::open() {
        Ok(library) => library,
        Err(error) => return bad(LIBRARY, error.to_string()),
    };
    match library.devices(Duration::from_secs(3)) {
        Err(error) => bad(LIBRARY, error.to_string()),
        Ok(devices) if devices.is_empty() => good(LIBRARY, "loads; no InfiniBand or RoCE device on this host".into()),
        Ok(devices) => {
            let ports: Vec<String> = devices
                .iter()
                .flat_map(|device| {
                    device
                        .ports
                        .iter()
                        .map(move |port| format!("{} port {} (firmware {})", device.name, port.number, device.firmware))
                })
                .collect();
            good(LIBRARY, format!("loads; {}", ports.join(", ")))
        }
    }
}

fn state_directory() -> Found {
    let directory = match StateDirectory::find() {
        Ok(state) => state.path().to_path_buf(),
        Err(error) => return bad("state directory", error.to_string()),
    };
    let probe = directory.join(".doctor");
    let written = std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(&probe, b""))
        .and_then(|()| std::fs::remove_file(&probe));
    match written {
        Ok(()) => good("state directory", directory.display().to_string()),
        Err(error) => bad(
            "state directory",
            format!(
                "{}: {error}; correct its permissions, or name another directory in STATE_DIRECTORY",
                directory.display()
            ),
        ),
    }
}

/// Checks the parts of a rig, then opens it.
fn a_rig(config: &RigConfig) -> Vec<Found> {
    let mut found: Vec<Found> = verbatim_rig::survey(config)
        .into_iter()
        .map(|part| {
            let state = if part.usable { State::Ok } else { State::Missing };
            self::found(state, &format!("{}: {}", config.name, part.what), part.words)
        })
        .collect();
    if let Err(error) = verbatim_run::check_consoles(config) {
        found.push(bad(&format!("{}: console", config.name), error.to_string()));
    }
    if found.iter().all(|found| found.usable) {
        found.extend(whole(config));
    }
    found
}

fn whole(config: &RigConfig) -> Vec<Found> {
    let what = format!("rig {}", config.name);
    let whole = match &config.kind {
        RigKind::Virtual(_) => good(&what, "simulated: always usable".into()),
        RigKind::Umad { .. } if !verbatim_rig::env::in_force(config) => good(
            &what,
            format!(
                "not checked: it needs its own environment; `verbatim doctor --rig {}` checks it",
                config.name
            ),
        ),
        _ => match opened(config) {
            Ok(mut open) => {
                let mut found = who_else(&config.name, &open.fingerprint);
                found.extend(device(&config.name, &mut open));
                found.push(good(
                    &what,
                    format!("opens; {}", fingerprint_in_words(&open.fingerprint.to_string())),
                ));
                return found;
            }
            Err(error) => bad(&what, error.to_string()),
        },
    };
    vec![whole]
}

/// Longest time for which [`opened`] waits for another program to release the port. The daemon, for example, opens
/// its rigs' ports briefly to check them.
const PASSING: Duration = Duration::from_secs(10);

/// Opens a rig. If another program receives the port's traps although the port has no subnet manager, retries for
/// at most [`PASSING`], because that program may use the port only briefly.
fn opened(config: &RigConfig) -> Result<verbatim_rig::OpenRig, verbatim_rig::RigError> {
    let since = Instant::now();
    loop {
        let open = verbatim_rig::open(config, Default::default())?;
        let told = &open.fingerprint;
        let stays = told["receives_traps"].as_bool() != Some(false) || told["subnet_manager"].as_str() != Some("none");
        if stays || since.elapsed() > PASSING {
            return Ok(open);
        }
        drop(open);
        thread::sleep(Duration::from_millis(200));
    }
}

/// Asks the device at a port for its NodeInfo. On other rigs, the agent described the device when the rig was opened.
fn device(rig: &str, open: &mut verbatim_rig::OpenRig) -> Option<Found> {
    let Session::Real(session) = &mut open.session else {
        return None;
    };
    let what = format!("{rig}: device");
    let told = match verbatim_rig::device_fingerprint(session.as_mut(), &open.info) {
        Ok(told) => told,
        Err(stop) => return Some(bad(&what, stop.to_entry().text)),
    };
    let node = told.get("node_info")?;
    Some(match node["NodeGUID"].as_str() {
        Some(guid) => good(&what, format!("answers; NodeGUID {guid}")),
        None => bad(
            &what,
            "no answer to SubnGet(NodeInfo): check the cable, `route` or `lid` of the rig, and `m_key` if the device \
             has an M_Key"
                .into(),
        ),
    })
}

/// Describes the subnet manager of the port, and the receiver of its traps.
fn who_else(rig: &str, opened: &serde_json::Value) -> Vec<Found> {
    let Some(manager) = opened["subnet_manager"].as_str() else {
        return Vec::new();
    };
    let traps = match opened["receives_traps"].as_bool() {
        Some(false) => "another program, such as a subnet manager, receives them: the record will have none",
        _ => "arrive here; no subnet manager can start on the port while a run has it open",
    };
    vec![
        good(&format!("{rig}: subnet manager"), manager.into()),
        good(&format!("{rig}: traps"), traps.into()),
    ]
}

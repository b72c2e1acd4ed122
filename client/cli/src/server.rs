//! The place that executes a command: a daemon, or this process.

use core::str::FromStr;
use std::future::Future;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use verbatim_client::{Address, Client, ClientFiles, Error, RunName};

use crate::exit::Usage;

/// Heading of the connection's options in the help.
const HEADING: &str = "Connection to a daemon";

/// The address of a daemon, and the certificates for it.
#[derive(clap::Args, Clone, Default, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The daemon: unix:/PATH or /PATH of its socket, or https://HOST:PORT over a network; `none` for no daemon.
    /// Default: the daemon of ~/.config/verbatim/client.toml, else the local daemon if its socket exists
    /// ($RUNTIME_DIRECTORY/verbatim.sock, else /run/verbatim/verbatim.sock), else no daemon
    #[arg(
        long,
        visible_alias = "daemon",
        global = true,
        help_heading = HEADING,
        value_name = "ADDR",
        env = "VERBATIM_SERVER",
        hide_env_values = true
    )]
    server: Option<Given>,
    /// The CA of the daemon's certificate (PEM), for https://
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "VERBATIM_CA",
        hide_env_values = true
    )]
    ca: Option<PathBuf>,
    /// This client's certificate (PEM), for https://
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "VERBATIM_CERT",
        hide_env_values = true
    )]
    cert: Option<PathBuf>,
    /// The private key of this client's certificate (PEM), for https://
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "FILE",
        env = "VERBATIM_KEY",
        hide_env_values = true
    )]
    key: Option<PathBuf>,
    /// The name in the daemon's certificate, if it differs from the host of https://
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "NAME",
        env = "VERBATIM_SERVER_NAME",
        hide_env_values = true
    )]
    server_name: Option<String>,
}

impl Arguments {
    /// Returns the arguments for `--server` alone. Ignores an invalid address.
    pub(crate) fn of_server(server: Option<String>) -> Self {
        Self {
            server: server.and_then(|server| server.parse().ok()),
            ..Self::default()
        }
    }
}

/// The value of `--server`: a daemon's address, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Given {
    /// No daemon, even if one exists.
    Inside,
    /// The daemon at this address.
    At(Address),
    /// The URL of a daemon on a network.
    Https(String),
}

impl FromStr for Given {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "none" {
            return Ok(Self::Inside);
        }
        if text.starts_with("https://") {
            return Ok(Self::Https(text.into()));
        }
        text.parse().map(Self::At)
    }
}

/// The client's configuration, with defaults for missing options.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
struct Config {
    server: Option<String>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

/// Environment variable with the path of the client's configuration.
const VARIABLE: &str = "VERBATIM_CLIENT_CONFIG";

impl Config {
    fn path() -> Option<PathBuf> {
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        variable(VARIABLE).or_else(|| {
            let home = || variable("HOME").map(|home| home.join(".config"));
            variable("XDG_CONFIG_HOME")
                .or_else(home)
                .map(|directory| directory.join("verbatim/client.toml"))
        })
    }

    /// Reads the configuration. Relative paths in it start at its directory.
    fn load() -> anyhow::Result<Self> {
        let Some(path) = Self::path() else {
            return Ok(Self::default());
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && std::env::var_os(VARIABLE).is_none() => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(Usage(format!(
                    "cannot read the client's configuration {}: {error}",
                    path.display()
                ))
                .into());
            }
        };
        let mut read: Self = toml::from_str(&text).map_err(|error| {
            let expected = "server, ca, cert, key, server_name";
            Usage(format!("{}: {error}; expected some of {expected}", path.display()))
        })?;
        let beside = path.parent().unwrap_or(Path::new("."));
        for file in [&mut read.ca, &mut read.cert, &mut read.key].into_iter().flatten() {
            *file = beside.join(&*file);
        }
        Ok(read)
    }
}

/// The place that executes a command.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// This process. The address is that of the absent local daemon; None after `--server none`.
    Inside(Option<Address>),
    /// A daemon.
    Server(Address),
}

impl Place {
    /// Returns the daemon that the command line, the environment or the configuration names. Otherwise returns the
    /// local daemon if its socket exists, else this process.
    ///
    /// An existing socket is always used. If it refuses the connection, the command fails, because the daemon owns the
    /// rigs.
    pub(crate) fn find(given: &Arguments) -> anyhow::Result<Self> {
        let config = match &given.server {
            Some(Given::Inside) => return Ok(Self::Inside(None)),
            Some(Given::At(address)) => return Ok(Self::Server(address.clone())),
            _ => Config::load()?,
        };
        let server = match (&given.server, &config.server) {
            (Some(server), _) => Some(server.clone()),
            (None, Some(text)) => Some(text.parse()?),
            (None, None) => None,
        };
        match server {
            Some(Given::At(address)) => Ok(Self::Server(address)),
            Some(Given::Inside) => Ok(Self::Inside(None)),
            Some(Given::Https(url)) => {
                let file = |given: &Option<PathBuf>, kept: Option<PathBuf>, option: &str| {
                    given.clone().or(kept).ok_or_else(|| {
                        Usage(format!(
                            "{url} takes a certificate, and {option} is missing. Give --ca FILE, --cert FILE and \
                             --key FILE, or $VERBATIM_CA, $VERBATIM_CERT and $VERBATIM_KEY, or ca, cert and key in \
                             the client's configuration (`verbatim pki issue DIR NAME` makes the files)"
                        ))
                    })
                };
                let files = ClientFiles {
                    ca: file(&given.ca, config.ca, "--ca")?,
                    cert: file(&given.cert, config.cert, "--cert")?,
                    key: file(&given.key, config.key, "--key")?,
                };
                let name = given.server_name.clone().or(config.server_name);
                Ok(Self::Server(Address::https(&url, files, name)?))
            }
            None => {
                let local = Address::local();
                Ok(if local.exists()? {
                    Self::Server(local)
                } else {
                    Self::Inside(Some(local))
                })
            }
        }
    }

    /// Returns the daemon, or an error if there is none; `purpose` is for the message.
    pub(crate) fn server(&self, purpose: &str) -> anyhow::Result<&Address> {
        match self {
            Self::Server(address) => Ok(address),
            Self::Inside(Some(local)) => Err(anyhow::anyhow!(
                "{purpose} needs a daemon, but no socket exists at {}; start a daemon (`systemctl start verbatimd`, or \
                 `verbatimd serve --socket {0}`), or name another daemon with --server",
                local.in_words()
            )),
            Self::Inside(None) => Err(Usage(format!(
                "{purpose} needs a daemon, but --server is none; name the daemon's socket"
            ))
            .into()),
        }
    }
}

/// Finds the daemon of a command, or of a run that names its daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finder<'a>(pub(crate) &'a Arguments);

impl Finder<'_> {
    /// Returns the place that [`Place::find`] chooses.
    pub(crate) fn place(self) -> anyhow::Result<Place> {
        Place::find(self.0)
    }

    /// Returns the place of a run, and the run's name there. `ADDR/runs/ID` names the daemon at that address: a socket
    /// (`unix:/PATH`), or a URL with `https://`.
    pub(crate) fn of_run(self, run: &str) -> anyhow::Result<(Place, &str)> {
        let named = ["unix:", "https://"].iter().any(|scheme| run.starts_with(scheme));
        let Some((address, id)) = run.rsplit_once("/runs/").filter(|_| named) else {
            return Ok((self.place()?, run));
        };
        let arguments = Arguments {
            server: Some(address.parse()?),
            ..self.0.clone()
        };
        Ok((Place::find(&arguments)?, id))
    }
}

/// Refuses `--rig-file` with a daemon, because the daemon has its own rig file.
pub(crate) fn refuse_rig_file(rig_file: Option<&PathBuf>, address: &Address) -> Result<(), Usage> {
    rig_file.map_or(Ok(()), |file| {
        Err(Usage(format!(
            "--rig-file {} cannot be used with the daemon at {}: it has its own rig file and holds its rigs' ports; \
             name one of its rigs (`verbatim rigs`), or work without the daemon by --server none",
            file.display(),
            address.in_words()
        )))
    })
}

/// Refuses `--rig-key` with a daemon, because the daemon's rig file sets the keys of its rigs.
pub(crate) fn refuse_rig_keys(keys: &[String], address: &Address) -> Result<(), Usage> {
    keys.first().map_or(Ok(()), |key| {
        Err(Usage(format!(
            "--rig-key {key} cannot be used with the daemon at {}: the daemon's rig file sets the keys of its rigs; \
             work without the daemon by --server none",
            address.in_words()
        )))
    })
}

/// Refuses `--deviations` with a daemon, because the daemon's rig file names the files of its rigs.
pub(crate) fn refuse_deviations(files: &[PathBuf], address: &Address) -> Result<(), Usage> {
    files.first().map_or(Ok(()), |file| {
        Err(Usage(format!(
            "--deviations {} cannot be used with the daemon at {}: write `deviations = [\"FILE\"]` into its rig file, or work \
             without the daemon by --server none",
            file.display(),
            address.in_words()
        )))
    })
}

/// Connects to a daemon and executes `what`, on this thread.
pub(crate) fn at<T, F>(address: &Address, what: impl FnOnce(Client) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime for the connection to the daemon")?;
    runtime.block_on(async { what(Client::connect(address.clone()).await?).await })
}

/// Returns the run with this name or id, or the caller's newest run for "latest" (else that of all users).
pub(crate) async fn run_named(client: &Client, given: &str) -> anyhow::Result<RunName> {
    if given != "latest" {
        return Ok(given.parse::<RunName>()?);
    }
    Ok(client.latest_run().await?.ok_or_else(|| {
        Usage(format!(
            "the daemon at {} has no runs yet; `verbatim run` makes one",
            client.address().in_words()
        ))
    })?)
}

//! Where commands are carried out: by a daemon, or inside this process.

use core::str::FromStr;
use std::future::Future;
use std::path::PathBuf;

use anyhow::Context;
use verbatim_client::{Address, Client, Error, RunName};

use crate::exit::Usage;

/// `--server`: a daemon's address, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Given {
    /// No daemon, even if there is one.
    Inside,
    /// That daemon.
    At(Address),
}

impl FromStr for Given {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "none" {
            return Ok(Self::Inside);
        }
        text.parse().map(Self::At)
    }
}

/// Who carries a command out.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// This process; the address is where a daemon was looked for, unless `--server none` said not to look.
    Inside(Option<Address>),
    /// A daemon.
    Server(Address),
}

impl Place {
    /// The daemon that was named, else the local one when its socket exists, else this process.
    ///
    /// A socket that exists is used: when it refuses, that is an error, for the rigs are the daemon's.
    pub(crate) fn find(given: Option<&Given>) -> Result<Self, Error> {
        match given {
            Some(Given::At(address)) => Ok(Self::Server(address.clone())),
            Some(Given::Inside) => Ok(Self::Inside(None)),
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

    /// The daemon, for what only a daemon can do.
    pub(crate) fn server(&self, purpose: &str) -> anyhow::Result<&Address> {
        match self {
            Self::Server(address) => Ok(address),
            Self::Inside(Some(local)) => Err(anyhow::anyhow!(
                "{purpose} needs a daemon, and there is no socket at {}; start one (`systemctl start verbatimd`, or \
                 `verbatimd serve --socket {0}`), or name another socket with --server",
                local.path().display()
            )),
            Self::Inside(None) => Err(Usage(format!(
                "{purpose} needs a daemon, and --server says none; name its socket"
            ))
            .into()),
        }
    }
}

/// The daemon has its own rig file: another one cannot be given with a command.
pub(crate) fn refuse_rig_file(rig_file: Option<&PathBuf>, address: &Address) -> Result<(), Usage> {
    rig_file.map_or(Ok(()), |file| {
        Err(Usage(format!(
            "--rig-file {} cannot be used with the daemon at {}: it has its own rig file, and holds its rigs' ports; name \
             one of its rigs (`verbatim rigs`), or work without it by --server none",
            file.display(),
            address.path().display()
        )))
    })
}

/// Nor can keys of a rig: they would be those of a rig of its.
pub(crate) fn refuse_rig_keys(keys: &[String], address: &Address) -> Result<(), Usage> {
    keys.first().map_or(Ok(()), |key| {
        Err(Usage(format!(
            "--rig-key {key} cannot be used with the daemon at {}: its rigs are as its own rig file says; work without it by \
             --server none",
            address.path().display()
        )))
    })
}

/// Connects and carries out what is to be done there, on this thread.
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

/// A run by its name, its id, or "latest".
pub(crate) async fn run_named(client: &Client, given: &str) -> anyhow::Result<RunName> {
    if given != "latest" {
        return Ok(given.parse::<RunName>()?);
    }
    Ok(client.latest_run().await?.ok_or_else(|| {
        Usage(format!(
            "the daemon at {} has no runs yet; `verbatim run` makes one",
            client.address().path().display()
        ))
    })?)
}

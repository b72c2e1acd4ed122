//! `verbatim reserve` and `verbatim leases`: rigs that are held for somebody.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use verbatim_client::v1::LeaseState;
use verbatim_client::{Client, LeaseName, fresh_id, v1};

use crate::server::{self, Place};
use crate::{exit, print};

/// Hold a rig, so that nobody else uses it.
#[derive(clap::Args)]
#[command(
    after_help = "Prints the lease's name once it has its rig. `verbatim run --lease LEASE` runs tests under it; \
    Ctrl-C while it waits leaves it in the queue."
)]
pub(crate) struct Reserve {
    /// The rig; left out, any that has the labels
    rig: Option<String>,
    /// What the rig must have: a label of the rig file, or kind=KIND; may be given several times
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// How long it is to last once it has its rig: 90s, 30m, 2h; at most 24h
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    lasts: Lasts,
    /// Who goes first among those who wait: low, normal or high, which takes an admin of the rig
    #[arg(long, value_name = "P", default_value = "normal")]
    priority: Priority,
    /// Leave at once, also when it has to wait
    #[arg(long)]
    no_wait: bool,
    /// Wait for a lease that is in the queue already
    #[arg(long, value_name = "LEASE", conflicts_with_all = ["rig", "labels", "lasts", "priority", "no_wait"])]
    attach: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// List the leases.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Also those that ended
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Let a lease last for another while
    Renew {
        /// The lease: leases/ID or ID
        lease: String,
        /// How long from now on: 90s, 30m, 2h
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        lasts: Lasts,
    },
    /// End leases: what runs under one stops at its next safe point, and the device is restored
    End {
        /// The leases: leases/ID or ID
        #[arg(required = true)]
        leases: Vec<String>,
    },
}

/// Who goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Priority {
    /// When nobody else wants the rig.
    Low,
    /// As usual.
    Normal,
    /// Before others.
    High,
}

impl From<Priority> for v1::Priority {
    fn from(of: Priority) -> Self {
        match of {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
            Priority::High => Self::High,
        }
    }
}

/// A time such as `90s`, `30m` or `2h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lasts(Duration);

impl FromStr for Lasts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a number of seconds, minutes or hours, such as 90s, 30m or 2h; seen {text:?}");
        let units = [('s', 1), ('m', 60), ('h', 3600)];
        let (number, unit) = units
            .iter()
            .find_map(|(unit, s)| Some((text.strip_suffix(*unit)?, s)))
            .ok_or_else(wrong)?;
        let seconds: Option<u64> = number.parse().ok().and_then(|number: u64| number.checked_mul(*unit));
        match seconds {
            Some(seconds) if seconds > 0 => Ok(Self(Duration::from_secs(seconds))),
            _ => Err(wrong()),
        }
    }
}

pub(crate) fn reserve(arguments: &Reserve, place: &Place) -> anyhow::Result<ExitCode> {
    let address = place.server("`verbatim reserve`")?;
    server::at(address, |client| async move {
        let lease = match &arguments.attach {
            Some(lease) => client.get_lease(&lease.parse()?).await?,
            None => {
                let request = v1::CreateLeaseRequest {
                    request_id: fresh_id(),
                    rig: arguments.rig.clone().unwrap_or_default(),
                    labels: arguments.labels.clone(),
                    lasts_s: arguments.lasts.0.as_secs(),
                    priority: v1::Priority::from(arguments.priority).into(),
                };
                client.create_lease(&request).await?
            }
        };
        let lease = if arguments.no_wait {
            lease
        } else {
            until_it_has_a_rig(&client, lease).await?
        };
        if arguments.json {
            print::json(&print::document::lease(&lease))?;
        } else {
            print::text(&print::tables::leases(std::slice::from_ref(&lease)))?;
        }
        let over = lease.state() == LeaseState::Ended;
        Ok(ExitCode::from(if over { exit::ERROR } else { 0 }))
    })
}

/// Waits, and says why each time that changes.
pub(crate) async fn until_it_has_a_rig(client: &Client, lease: v1::Lease) -> anyhow::Result<v1::Lease> {
    if lease.state() != LeaseState::Pending {
        return Ok(lease);
    }
    let name: LeaseName = lease.name.parse()?;
    let mut watch = client.watch_lease(&name).await?;
    let (mut lease, mut last) = (lease, String::new());
    while let Some(next) = watch.next().await? {
        lease = next.lease.unwrap_or(lease);
        match print::tables::news_of_waiting(&lease) {
            Some(why) if why != last => {
                eprintln!("{name} waits, {why}");
                last = why;
            }
            _ => {}
        }
        if lease.state() != LeaseState::Pending {
            break;
        }
    }
    Ok(lease)
}

pub(crate) fn run(arguments: Arguments, place: &Place) -> anyhow::Result<ExitCode> {
    let address = place.server("`verbatim leases`")?;
    server::at(address, |client| async move {
        let leases = match arguments.command {
            None => client.list_leases(arguments.all).await?,
            Some(Command::Renew { lease, lasts }) => vec![client.renew_lease(&lease.parse()?, lasts.0).await?],
            Some(Command::End { leases }) => {
                let mut ended = Vec::new();
                for lease in leases {
                    ended.push(client.end_lease(&lease.parse()?).await?);
                }
                ended
            }
        };
        if arguments.json {
            let documents: Vec<_> = leases.iter().map(print::document::lease).collect();
            print::json(&serde_json::json!({ "leases": documents }))?;
        } else {
            print::text(&print::tables::leases(&leases))?;
            if leases.is_empty() {
                eprintln!("no leases");
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_is_not_nothing() {
        let seconds = |text: &str| text.parse::<Lasts>().map(|lasts| lasts.0.as_secs());
        assert_eq!(
            (seconds("90s"), seconds("30m"), seconds("2h")),
            (Ok(90), Ok(1800), Ok(7200))
        );
        for wrong in ["", "0s", "90", "2d", "-1h", "99999999999999999999h", "h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

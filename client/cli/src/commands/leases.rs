//! `verbatim reserve` and `verbatim leases`: leases of rigs.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt as _;
use verbatim_client::v1::LeaseState;
use verbatim_client::{Client, LeaseName, fresh_id, v1};
use verbatim_text::Text;

use crate::server::{self, Place};
use crate::{exit, print};

/// Reserve a rig for exclusive use.
#[derive(clap::Args)]
#[command(
    after_help = "Waits for the rig, then prints the lease; in a pipe, prints only its name: \
    verbatim run --lease $(verbatim reserve bench-3). \
    `verbatim run` on a rig that you hold uses your lease without --lease."
)]
pub(crate) struct Reserve {
    /// The rig; without it, any rig that has the labels
    rig: Option<String>,
    /// A label that the rig must have: a label of the rig file, or kind=KIND; may be given several times
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Duration of the lease from the time it has a rig: 90s, 30m, 2h; at most 24h
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    lasts: Lasts,
    /// Priority in the queue: low, normal or high; high needs an admin of the rig
    #[arg(long, value_name = "P", default_value = "normal")]
    priority: Priority,
    /// Longest wait for the rig: 90s, 30m, 2h; then the lease leaves the queue
    #[arg(long, value_name = "TIME", conflicts_with_all = ["no_wait", "detach"])]
    wait_at_most: Option<Lasts>,
    /// Fail if no rig is free at once
    #[arg(long, conflicts_with = "detach")]
    no_wait: bool,
    /// Do not wait for the rig; the lease stays in the queue after this process ends
    #[arg(long)]
    detach: bool,
    /// Wait for a lease that is in the queue already
    #[arg(long, value_name = "LEASE", conflicts_with_all = ["rig", "labels", "lasts", "priority", "detach"])]
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
    /// Also list leases that have ended
    #[arg(long)]
    all: bool,
    /// List only your own leases
    #[arg(long)]
    mine: bool,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Renew a lease
    Renew {
        /// The lease: leases/ID or ID
        lease: String,
        /// New duration from now on: 90s, 30m, 2h
        #[arg(long = "for", value_name = "TIME", default_value = "1h")]
        lasts: Lasts,
    },
    /// End leases; a run under an ended lease stops at its next safe point and restores the device
    End {
        /// The leases: leases/ID or ID
        #[arg(required = true)]
        leases: Vec<String>,
    },
}

/// Priority in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Priority {
    /// Only when no other lease waits for the rig.
    Low,
    /// The default.
    Normal,
    /// Before other leases.
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
pub(crate) struct Lasts(Duration);

impl Lasts {
    pub(crate) const fn time(self) -> Duration {
        self.0
    }
}

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
                    attended: !arguments.detach,
                };
                client.create_lease(&request).await?
            }
        };
        let lease = if arguments.detach {
            lease
        } else {
            waited_for(&client, lease, arguments).await?
        };
        let table = print::tables::leases(std::slice::from_ref(&lease));
        if arguments.json {
            print::json(&print::document::lease(&lease))?;
        } else if print::is_terminal() {
            print::text(&table)?;
        } else {
            table.say();
            print::text(&Text::of(&lease.name))?;
        }
        let over = lease.state() == LeaseState::Ended;
        Ok(ExitCode::from(if over { exit::ERROR } else { 0 }))
    })
}

/// Waits for a rig. Ends the lease if no rig is free in time, or if a signal arrives.
async fn waited_for(client: &Client, lease: v1::Lease, arguments: &Reserve) -> anyhow::Result<v1::Lease> {
    let name: LeaseName = lease.name.parse()?;
    let at_most = wait_at_most(arguments.wait_at_most, arguments.no_wait);
    let mut interrupt = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let waited = tokio::select! {
        waited = until_it_has_a_rig(client, lease, at_most) => waited,
        _ = interrupt.next() => Err(anyhow::anyhow!("left the queue: no rig was free yet")),
    };
    if waited.is_err() && arguments.attach.is_none() {
        client.end_lease(&name).await?;
    }
    waited
}

/// Returns the time limit of the wait for a rig; None for no limit.
pub(crate) fn wait_at_most(given: Option<Lasts>, no_wait: bool) -> Option<Duration> {
    given.map(Lasts::time).or(no_wait.then_some(Duration::ZERO))
}

/// Waits until the lease has a rig. Prints the reason of the wait each time it changes.
///
/// # Errors
/// When the lease has no rig after `at_most`. The limit does not apply while the lease waits only for the check of
/// its device.
pub(crate) async fn until_it_has_a_rig(
    client: &Client,
    lease: v1::Lease,
    at_most: Option<Duration>,
) -> anyhow::Result<v1::Lease> {
    if lease.state() != LeaseState::Pending {
        return Ok(lease);
    }
    let name: LeaseName = lease.name.parse()?;
    let mut watch = client.watch_lease(&name).await?;
    let ends = at_most.map(|at_most| Instant::now() + at_most);
    let (mut lease, mut last) = (lease, String::new());
    loop {
        let about_to_begin = lease.waiting.as_ref().is_some_and(|waiting| waiting.about_to_begin);
        let next = match ends.filter(|_| !about_to_begin) {
            Some(at) => match timeout_at(at, watch.next()).await {
                Ok(next) => next?,
                Err(_) => {
                    let why = print::tables::why_it_waits(&lease).unwrap_or_default();
                    let waited = match at_most.unwrap_or_default().as_secs() {
                        0 => "--no-wait permits no wait".into(),
                        s => format!("it waited {s} s for a rig, the limit of --wait-at-most"),
                    };
                    anyhow::bail!("{name} leaves the queue: {waited}; {why}");
                }
            },
            None => watch.next().await?,
        };
        let Some(next) = next else { break };
        lease = next.lease.unwrap_or(lease);
        match print::tables::news_of_waiting(&lease) {
            Some(why) if why != last && at_most != Some(Duration::ZERO) => {
                print::note(format_args!("{name} waits, {why}"));
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
            None => client.list_leases(arguments.all, arguments.mine).await?,
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
                print::note("no leases");
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_needs_a_unit_and_is_not_zero() {
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

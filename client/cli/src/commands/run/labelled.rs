//! A run on any rig with certain labels. The client takes a lease for the run, and ends the lease after it.

use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use verbatim_client::v1::LeaseState;
use verbatim_client::{Client, Error, LeaseName, fresh_id, v1};

use super::Arguments;
use crate::commands::leases::until_it_has_a_rig;
use crate::exit::Usage;
use crate::print::{self, document::bare};

/// Duration of the lease after each renewal. The rig is free after this time if the client dies.
const LASTS: Duration = Duration::from_secs(15 * 60);
/// Interval of the renewals. Several may fail before the lease ends.
const RENEWS: Duration = Duration::from_secs(3 * 60);

/// Returns the user's own lease on a rig with the labels, if there is one.
///
/// # Errors
/// When the user has several such leases.
pub(super) async fn mine(client: &Client, arguments: &Arguments) -> anyhow::Result<Option<String>> {
    if arguments.own_lease {
        return Ok(None);
    }
    let mut leases = client.list_leases(false, true).await?;
    leases.retain(|lease| lease.state() == LeaseState::Active && lease.run.is_empty());
    if leases.is_empty() {
        return Ok(None);
    }
    let rigs = client.list_rigs().await?;
    leases.retain(|lease| {
        let rig = rigs.iter().find(|rig| bare(&rig.name) == lease.rig);
        rig.is_some_and(|rig| arguments.labels.iter().all(|label| rig.labels.contains(label)))
    });
    match leases.as_slice() {
        [] => Ok(None),
        [lease] => {
            print::note(format_args!("verbatim: {}", under(&lease.name)));
            Ok(Some(lease.name.clone()))
        }
        several => {
            let several: Vec<String> = several
                .iter()
                .map(|lease| format!("{} ({})", lease.rig, lease.name))
                .collect();
            Err(Usage(format!(
                "you hold {} rigs with these labels: {}; choose one with --rig or --lease, or queue for another with \
                 --own-lease",
                several.len(),
                several.join(", ")
            ))
            .into())
        }
    }
}

/// Returns a message that the run uses the user's own lease.
pub(super) fn under(lease: &str) -> String {
    format!("runs under your {lease}; --own-lease waits for a separate lease")
}

/// A lease for a run.
pub(super) struct Held {
    name: LeaseName,
    /// Task that renews the lease until this value is dropped.
    _renewing: JoinSet<()>,
}

impl Held {
    /// Waits for a rig with the labels. Prints the reason of the wait each time it changes.
    ///
    /// # Errors
    /// When no rig has the labels, or the lease ended before it had a rig.
    pub(super) async fn take(client: &Client, arguments: &Arguments) -> anyhow::Result<Self> {
        let request = v1::CreateLeaseRequest {
            request_id: fresh_id(),
            labels: arguments.labels.clone(),
            lasts_s: LASTS.as_secs(),
            priority: v1::Priority::from(arguments.priority).into(),
            attended: true,
            ..v1::CreateLeaseRequest::default()
        };
        let lease = client.create_lease(&request).await?;
        let name: LeaseName = lease.name.parse()?;
        let mut renewing = JoinSet::new();
        renewing.spawn(renewed(client.clone(), name.clone()));
        let held = Self {
            name,
            _renewing: renewing,
        };
        let mut interrupt = Signals::new([SIGINT]).context("cannot catch SIGINT")?;
        let waited = tokio::select! {
            waited = until_it_has_a_rig(client, lease, arguments.waits()) => waited,
            _ = interrupt.next() => Err(anyhow::anyhow!("left the queue: no rig was free yet")),
        };
        match waited {
            Ok(lease) if lease.state() != LeaseState::Ended => Ok(held),
            Ok(lease) => anyhow::bail!("{} ended before it had a rig: {}", held.name, lease.reason),
            Err(error) => {
                held.end(client).await;
                Err(error)
            }
        }
    }

    pub(super) const fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Ends the lease.
    pub(super) async fn end(self, client: &Client) {
        match client.end_lease(&self.name).await {
            // The lease may have ended already.
            Ok(_) | Err(Error::Refusal(_)) => {}
            Err(error) => print::note(format_args!(
                "verbatim: cannot end {}: {error}; it ends by itself within {} minutes",
                self.name,
                LASTS.as_secs() / 60
            )),
        }
    }
}

/// Renews a lease until the daemon refuses.
async fn renewed(client: Client, name: LeaseName) {
    loop {
        tokio::time::sleep(RENEWS).await;
        if let Err(Error::Refusal(_)) = client.renew_lease(&name, LASTS).await {
            return;
        }
    }
}

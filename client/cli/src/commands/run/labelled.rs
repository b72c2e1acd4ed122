//! A run on any rig that has some labels: a lease is taken for it, and ended with it.

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
use crate::print::document::bare;

/// How long the lease lasts from when it was last renewed: when this process dies, the rig is free after that.
const LASTS: Duration = Duration::from_secs(15 * 60);
/// How often it is renewed: several may fail before it ends.
const RENEWS: Duration = Duration::from_secs(3 * 60);

/// The lease of one's own whose rig has the labels, if there is one.
///
/// # Errors
/// When there are several.
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
            eprintln!("verbatim: {}", under(&lease.name));
            Ok(Some(lease.name.clone()))
        }
        several => {
            let several: Vec<String> = several
                .iter()
                .map(|lease| format!("{} ({})", lease.rig, lease.name))
                .collect();
            Err(Usage(format!(
                "you hold {} rigs with these labels: {}; say which with --rig or --lease, or queue for another with --own-lease",
                several.len(),
                several.join(", ")
            ))
            .into())
        }
    }
}

/// Says that a run is under a lease of one's own.
pub(super) fn under(lease: &str) -> String {
    format!("runs under your {lease}; --own-lease waits for a lease of its own")
}

/// A rig that is held for a run.
pub(super) struct Held {
    name: LeaseName,
    /// What renews it, for as long as this is.
    _renewing: JoinSet<()>,
}

impl Held {
    /// Waits for a rig that has the labels, and says why it waits each time that changes.
    ///
    /// # Errors
    /// When no rig has them, or the lease ended before it had one.
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

    /// Its name.
    pub(super) const fn name(&self) -> &LeaseName {
        &self.name
    }

    /// The rig is free for others.
    pub(super) async fn end(self, client: &Client) {
        match client.end_lease(&self.name).await {
            // It ended in the meantime.
            Ok(_) | Err(Error::Refusal(_)) => {}
            Err(error) => eprintln!(
                "verbatim: {} could not be ended: {error}; it ends by itself within {} minutes",
                self.name,
                LASTS.as_secs() / 60
            ),
        }
    }
}

/// Renews a lease for as long as it can be.
async fn renewed(client: Client, name: LeaseName) {
    loop {
        tokio::time::sleep(RENEWS).await;
        if let Err(Error::Refusal(_)) = client.renew_lease(&name, LASTS).await {
            return;
        }
    }
}

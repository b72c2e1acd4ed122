//! Restores devices that an earlier daemon left changed. This daemon is still waiting for its database, and so has
//! no scheduler yet.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::journal_owner;
use verbatim_run::state::StateDirectory;
use verbatim_tester::FileJournal;

use super::drive::log_restored;
use super::{Execute, outlives_us, takeover};
use crate::worker::text_of;
use verbatim_run::Event;

/// The pause before the next attempt of a restore.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The interval of checks whether a process still holds a rig.
const LOOKED_AT_EACH: Duration = Duration::from_millis(100);

/// Starts restores of the changed devices of these rigs. Each restore is repeated until the device is as it was
/// found. No further attempt begins once the sender of `over` is dropped, because the scheduler then takes over.
pub async fn restore_meanwhile(
    rigs: RigFile,
    state: StateDirectory,
    execute: Arc<dyn Execute>,
    over: watch::Receiver<()>,
) {
    let journals = state.journals();
    let left_over = takeover::left_over(&rigs, &journals);
    let changed = rigs.rigs.into_iter().chain(left_over).filter(outlives_us);
    for rig in changed {
        let (state, execute, mut over) = (state.clone(), Arc::clone(&execute), over.clone());
        tokio::spawn(async move {
            while let Some(wait) = once(&rig, &state, &execute).await {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    // The scheduler restores the device from here on.
                    _ = over.changed() => return,
                }
            }
        });
    }
}

/// Restores a device, if its journal lists changes. Returns the pause before the next call; `None` when nothing is
/// left to restore.
async fn once(rig: &RigConfig, state: &StateDirectory, execute: &Arc<dyn Execute>) -> Option<Duration> {
    let (journals, looked_at) = (state.journals(), rig.clone());
    let look = move || {
        let held = FileJournal::is_held(&journals, &looked_at.name);
        (held, FileJournal::look(&journals, journal_owner(&looked_at)).is_some())
    };
    match tokio::task::spawn_blocking(look).await.unwrap_or((false, false)) {
        // The worker of a dead daemon may be restoring the device.
        (true, _) => return Some(LOOKED_AT_EACH),
        (false, false) => return None,
        (false, true) => {}
    }
    tracing::warn!(rig = rig.name, "restoring a device that an earlier run left changed");
    let (events, mut happened) = mpsc::unbounded_channel();
    let (_never, stop) = watch::channel(false);
    let (execute, restored) = (Arc::clone(execute), rig.clone());
    let task = tokio::spawn(async move {
        let text = text_of(&restored);
        execute.restore(restored, text, events, stop).await
    });
    while let Some(event) = happened.recv().await {
        match event {
            Event::RestoreEnded(ended) => log_restored(&rig.name, &ended.areas),
            Event::LogLine(line) => tracing::info!(rig = rig.name, "worker: {}", line.text),
            _ => {}
        }
    }
    match task.await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::error!(rig = rig.name, error, "the restore failed: the daemon tries again"),
        Err(error) => tracing::error!(
            rig = rig.name,
            %error,
            "the restore ended with an internal error of the daemon (please report it): the daemon tries again"
        ),
    }
    // The next call reads in the journal whether the device is as it was found.
    Some(AGAIN_AFTER)
}

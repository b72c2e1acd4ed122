//! Devices that an earlier daemon left changed are restored also while the database is away, and no rig is given to anybody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use verbatim_rig::{RigConfig, RigFile};
use verbatim_run::journal_owner;
use verbatim_run::state::StateDirectory;
use verbatim_tester::FileJournal;

use super::drive::log_restored;
use super::{Execute, again, outlives_us};
use crate::worker::text_of;
use verbatim_run::Event;

/// When a restore that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How often it is looked whether a process that holds a rig has let go of it.
const LOOKED_AT_EACH: Duration = Duration::from_millis(100);

/// Restores them, each until it is as it was found, until the scheduler takes over: until the sender of `over` is dropped.
pub async fn restore_meanwhile(
    rigs: RigFile,
    state: StateDirectory,
    execute: Arc<dyn Execute>,
    over: watch::Receiver<()>,
) {
    let journals = state.journals();
    let left_over = again::left_over(&rigs, &journals);
    let changed = rigs.rigs.into_iter().chain(left_over).filter(outlives_us);
    for rig in changed {
        let (state, execute, mut over) = (state.clone(), Arc::clone(&execute), over.clone());
        tokio::spawn(async move {
            while let Some(wait) = once(&rig, &state, &execute).await {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    // The scheduler does it from here on.
                    _ = over.changed() => return,
                }
            }
        });
    }
}

/// Restores one, if there is anything to restore; how long to wait before the next time, when there is one.
async fn once(rig: &RigConfig, state: &StateDirectory, execute: &Arc<dyn Execute>) -> Option<Duration> {
    let (journals, looked_at) = (state.journals(), rig.clone());
    let look = move || {
        let held = FileJournal::is_held(&journals, &looked_at.name);
        (held, FileJournal::look(&journals, journal_owner(&looked_at)).is_some())
    };
    match tokio::task::spawn_blocking(look).await.unwrap_or((false, false)) {
        // A worker of the daemon that died is at it.
        (true, _) => return Some(LOOKED_AT_EACH),
        (false, false) => return None,
        (false, true) => {}
    }
    tracing::warn!(rig = rig.name, "restoring what an earlier run left changed");
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
        Ok(Err(error)) => tracing::error!(rig = rig.name, error, "the restore failed: it is tried again"),
        Err(error) => tracing::error!(rig = rig.name, %error, "the daemon failed within the restore"),
    }
    // Whether it is as it was found, its journal tells.
    Some(AGAIN_AFTER)
}

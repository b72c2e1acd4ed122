//! Checks whether devices can be reached, each in a worker of its own.

use std::sync::Arc;
use std::time::Duration;

use super::plan::Refusal;
use super::{Scheduler, leases};
use crate::worker::text_of;

/// How often the scheduler looks for checks that are due.
const TICK: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Checks rigs when their checks are due. Never returns.
    pub(super) async fn look_in_time(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if self.state().plan.is_look_due(leases::now()) {
                let scheduler = Arc::clone(&self);
                let look = move || scheduler.decide(|state, now| Ok::<_, Refusal>(state.plan.look(now)));
                // Ignore an error: a panic of the task was already reported.
                let _ = tokio::task::spawn_blocking(look).await;
            }
        }
    }

    /// Checks whether a rig's device can be reached, and passes the result to the plan.
    pub(super) async fn look_at(self: Arc<Self>, rig: String) {
        let found = self.rigs().find(&rig).cloned();
        let result = match found {
            Ok(found) => {
                let text = text_of(&found);
                let (execute, found) = (Arc::clone(&self.execute), found);
                // The check runs in a separate task, so that a panic counts as a failed check.
                let looked = tokio::spawn(async move { execute.look(found, text).await }).await;
                looked.unwrap_or_else(|error| {
                    Err(format!(
                        "the daemon failed during the check of the device: {error}; please report this"
                    ))
                })
            }
            Err(unknown) => Err(unknown.to_string()),
        };
        let decided = move || {
            let told = result.clone();
            let mut before = None;
            let decided = self.decide(|state, now| {
                before = state.plan.slot(&rig).map(|slot| slot.reach.away().is_some());
                Ok::<_, Refusal>(state.plan.looked(now, &rig, result))
            });
            match (before, told) {
                (Some(false), Err(why)) => tracing::warn!(rig, "the rig's device cannot be reached: {why}"),
                (Some(true), Ok(())) => tracing::info!(rig, "the rig's device can be reached again"),
                _ => {}
            }
            decided
        };
        // Ignore an error: a panic of the task was already reported.
        let _ = tokio::task::spawn_blocking(decided).await;
    }
}

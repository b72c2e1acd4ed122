//! Looking whether devices can be reached, each in a worker of its own.

use std::sync::Arc;
use std::time::Duration;

use super::plan::Refusal;
use super::{Scheduler, leases};
use crate::worker::text_of;

/// How often it is asked whether a rig's time has come.
const TICK: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Looks at rigs when their time has come, for ever.
    pub(super) async fn look_in_time(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if self.state().plan.is_look_due(leases::now()) {
                let scheduler = Arc::clone(&self);
                let look = move || scheduler.decide(|state, now| Ok::<_, Refusal>(state.plan.look(now)));
                // A panic in there was told when it happened.
                let _ = tokio::task::spawn_blocking(look).await;
            }
        }
    }

    /// Looks whether a rig's device can be reached.
    pub(super) async fn look_at(self: Arc<Self>, rig: String) {
        let found = self.rigs().find(&rig).cloned();
        let result = match found {
            Ok(found) => {
                let text = text_of(&found);
                let (execute, found) = (Arc::clone(&self.execute), found);
                // A task of its own: a panic in there is an answer too.
                let looked = tokio::spawn(async move { execute.look(found, text).await }).await;
                looked
                    .unwrap_or_else(|error| Err(format!("the daemon failed as it looked: {error}; please report this")))
            }
            Err(unknown) => Err(unknown.to_string()),
        };
        let decided = move || {
            let told = result.clone();
            let mut before = None;
            let decided = self.decide(|state, now| {
                before = state.plan.lane(&rig).map(|lane| lane.reach.away().is_some());
                Ok::<_, Refusal>(state.plan.looked(now, &rig, result))
            });
            match (before, told) {
                (Some(false), Err(why)) => tracing::warn!(rig, "the rig's device cannot be reached: {why}"),
                (Some(true), Ok(())) => tracing::info!(rig, "the rig's device can be reached again"),
                _ => {}
            }
            decided
        };
        // As above.
        let _ = tokio::task::spawn_blocking(decided).await;
    }
}

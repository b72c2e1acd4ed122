//! Exchanges state with the other hosts of a shared database: publishes the rigs of this host, and takes over waiting
//! leases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;

use super::{ELSEWHERE, Shared, blocking, view};
use crate::sched::Scheduler;
use crate::store::StoreError;

/// The interval of heartbeats to the shared database.
const BEAT: Duration = Duration::from_secs(2);

/// If the database is shared, exchanges state with the daemons of other hosts, and never returns. Otherwise returns
/// at once.
pub async fn meet(shared: Arc<Shared>) {
    if shared.scheduler.store().lab().is_none() {
        return;
    }
    let mut shown = BTreeMap::new();
    let mut beaten: Option<Instant> = None;
    let mut changes = shared.scheduler.changes();
    loop {
        let beats = beaten.is_none_or(|at| at.elapsed() >= BEAT);
        if beats {
            beaten = Some(Instant::now());
        }
        let (scheduler, before) = (Arc::clone(&shared.scheduler), shown.clone());
        let look = changes.has_changed().unwrap_or(false) || beats;
        changes.mark_unchanged();
        let done = blocking(move || turn(&scheduler, before, beats, look)).await;
        if let Ok(Ok(now)) = done {
            shown = now;
        }
        // If this turn failed, `shown` still holds the rigs as they were published last. The next heartbeat
        // compares the rigs with `shown`, and so publishes the changes again.
        tokio::time::sleep(ELSEWHERE).await;
    }
}

/// Exchanges state once. `beats` tells whether to write a heartbeat, and `look` whether to publish the rigs that
/// differ from `before`. Returns the published rigs: each rig's encoded state by its name.
fn turn(
    scheduler: &Arc<Scheduler>,
    before: BTreeMap<String, Vec<u8>>,
    beats: bool,
    look: bool,
) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    if beats {
        scheduler.beat()?;
    }
    scheduler.meet()?;
    let Some(lab) = scheduler.store().lab() else {
        return Ok(before);
    };
    if !look {
        return Ok(before);
    }
    let (mut slots, journals) = (scheduler.slots(), scheduler.all_pending());
    let show = |rig: &verbatim_rig::RigConfig| {
        let slot = slots.remove(&rig.name);
        let mut of = view::rig(rig, slot, scheduler.pending(rig, &journals).as_ref());
        of.host = lab.host().into();
        (rig.name.clone(), of.encode_to_vec())
    };
    let now: BTreeMap<String, Vec<u8>> = scheduler.rigs().rigs.iter().map(show).collect();
    let new = now.iter().filter(|(rig, body)| before.get(*rig) != Some(body));
    let new: BTreeMap<String, Vec<u8>> = new.map(|(rig, body)| (rig.clone(), body.clone())).collect();
    let gone: Vec<String> = before.keys().filter(|rig| !now.contains_key(*rig)).cloned().collect();
    if !new.is_empty() || !gone.is_empty() {
        lab.show(&new, &gone)?;
    }
    Ok(now)
}

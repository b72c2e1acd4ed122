//! A snapshot of all rigs, shared by all readers. With thousands of rigs and hundreds of watchers, a snapshot for
//! each reader would take too much time and memory.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use verbatim_proto::v1::Rig;
use verbatim_rig::RigFile;

use super::view;
use crate::sched::Scheduler;

/// At this age a snapshot is made anew even if nothing changed: some values, such as a place in the queue, change
/// with time alone.
const OLDEST: Duration = Duration::from_secs(1);

/// The rigs of this host, in the order of the rig file. An unchanged rig is shared with the previous snapshot.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The count of [`Scheduler::changes`] when the snapshot was made.
    pub(super) count: u64,
    pub(super) rigs: Vec<Arc<Rig>>,
    made: Instant,
    /// The modification time of the journals' directory.
    journals: Option<SystemTime>,
    of: Arc<RigFile>,
}

/// The last snapshot.
#[derive(Debug, Default)]
pub(super) struct Last(Mutex<Option<Arc<Snapshot>>>);

impl Last {
    /// Returns the current rigs. Blocks on the disk.
    pub(super) fn now(&self, scheduler: &Scheduler) -> Arc<Snapshot> {
        self.get(scheduler, Duration::ZERO)
    }

    /// Returns a snapshot that is younger than `moment`, or whose rigs have not changed. Blocks on the disk.
    pub(super) fn lately(&self, scheduler: &Scheduler, moment: Duration) -> Arc<Snapshot> {
        self.get(scheduler, moment)
    }

    fn get(&self, scheduler: &Scheduler, moment: Duration) -> Arc<Snapshot> {
        // Hold the lock while a snapshot is made, so that concurrent callers share one snapshot.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = scheduler.rigs();
        let count = *scheduler.changes().borrow();
        let journals = changed(scheduler.journals());
        if let Some(last) = &*last {
            let age = last.made.elapsed();
            let is_as_now = last.count == count && last.journals == journals && Arc::ptr_eq(&last.of, &of);
            if age < moment || is_as_now && age < OLDEST {
                return Arc::clone(last);
            }
        }
        let before = last.as_ref().map_or(&[][..], |last| &last.rigs[..]);
        let rigs = make(scheduler, &of, before);
        let made = Arc::new(Snapshot {
            count,
            rigs,
            made: Instant::now(),
            journals,
            of,
        });
        *last = Some(Arc::clone(&made));
        made
    }
}

fn changed(journals: &Path) -> Option<SystemTime> {
    std::fs::metadata(journals)
        .and_then(|directory| directory.modified())
        .ok()
}

fn make(scheduler: &Scheduler, of: &RigFile, before: &[Arc<Rig>]) -> Vec<Arc<Rig>> {
    let mut slots = scheduler.slots();
    let lab = scheduler.store().lab();
    let host = lab.map(|lab| lab.host().to_string()).unwrap_or_default();
    let journals = scheduler.all_pending();
    let view = |(place, rig): (usize, &verbatim_rig::RigConfig)| {
        let rig = Rig {
            host: host.clone(),
            ..view::rig(rig, slots.remove(&rig.name), scheduler.pending(rig, &journals).as_ref())
        };
        match before.get(place).filter(|before| ***before == rig) {
            Some(before) => Arc::clone(before),
            None => Arc::new(rig),
        }
    };
    of.rigs.iter().enumerate().map(view).collect()
}

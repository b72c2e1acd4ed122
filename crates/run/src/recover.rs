//! Restores the changes of an earlier run, before a run or separately.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use verbatim_record_proto::Restored;
use verbatim_record_proto::v1::RestoreEnded;
use verbatim_record_proto::v1::run_event::Event;
use verbatim_rig::{OpenRig, RigConfig, RigKind, Session};
use verbatim_tester::{FileJournal, Need, recover};

use crate::device::{Claimed, Patience, journal_owner, miss};
use crate::error::RunError;
use crate::state::StateDirectory;

/// Restores the changes that an earlier run left on a rig. Returns an empty list if there were none.
///
/// # Errors
/// When the rig or its journal cannot be opened, or an area cannot be restored.
pub fn recover_only(
    rig: &RigConfig,
    state: &StateDirectory,
    cancel: Arc<AtomicBool>,
    report: &mut dyn FnMut(Event),
) -> Result<Vec<Restored>, RunError> {
    if matches!(rig.kind, RigKind::Virtual(_)) {
        return Ok(Vec::new());
    }
    // Check the journal first: a device without changes is neither locked nor opened.
    miss(rig, &state.journals())?;
    if FileJournal::open(&state.journals(), journal_owner(rig))?
        .pending()
        .is_empty()
    {
        return Ok(Vec::new());
    }
    let patience = Patience {
        cancel: Arc::clone(&cancel),
        lease: Arc::default(),
    };
    let mut journal = Claimed::open(rig, &state.journals(), patience)?;
    let mut open = verbatim_rig::open(rig, cancel)?;
    recover_first(rig, &mut open, &mut journal, report)
}

/// Returns whether an earlier run left a rig's device changed. Also returns true if the journal cannot be read, or if
/// another process has it.
#[must_use]
pub fn is_left_changed(rig: &RigConfig, state: &StateDirectory) -> bool {
    if matches!(rig.kind, RigKind::Virtual(_)) {
        return false;
    }
    miss(rig, &state.journals()).is_err()
        || FileJournal::open(&state.journals(), journal_owner(rig))
            .map_or(true, |journal| !journal.pending().is_empty())
}

pub(crate) fn recover_first(
    rig: &RigConfig,
    open: &mut OpenRig,
    journal: &mut Claimed,
    report: &mut dyn FnMut(Event),
) -> Result<Vec<Restored>, RunError> {
    let Session::Real(session) = &mut open.session else {
        return Ok(Vec::new());
    };
    if journal.pending().is_empty() {
        return Ok(Vec::new());
    }
    let left = journal.left();
    if !open.info.offers.contains(&Need::Mad) {
        return Err(RunError::NotRestored {
            rig: rig.name.clone(),
            what: format!(
                "the journal is of a rig that sends MADs, and this one is of kind {}; give this one another name, and \
                 restore the other by its old entry in the rig file",
                open.info.kind
            ),
            journal: left.path,
        });
    }
    let mut entries = Vec::new();
    let path = left.path.clone();
    if !left.device.is_empty()
        && let Err(stop) = journal.take_by_guid(&left.device)
    {
        return Err(RunError::NotRestored {
            rig: rig.name.clone(),
            what: stop.to_entry().text,
            journal: path,
        });
    }
    let restored = recover(session.as_mut(), &open.info, &mut entries, left, journal);
    report(Event::RestoreEnded(RestoreEnded {
        areas: restored.clone(),
    }));
    let left: Vec<String> = restored
        .iter()
        .filter(|restored| !restored.is_complete())
        .map(ToString::to_string)
        .collect();
    if left.is_empty() {
        return Ok(restored);
    }
    Err(RunError::NotRestored {
        rig: rig.name.clone(),
        what: left.join(" | "),
        journal: path,
    })
}

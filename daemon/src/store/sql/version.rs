//! The version of the tables, the same for SQLite and PostgreSQL.

use std::cmp::Ordering;
use std::path::Path;

use crate::store::StoreError;

/// The version of the tables that this program creates and works with. Versions 1 to 3 are from builds before
/// release 0.1.0, and are not converted. A release that changes the tables increases the version, and converts the
/// tables of earlier releases.
pub(super) const VERSION: u64 = 4;

/// Refuses tables of another version. `anew` is the instruction for starting with an empty database.
///
/// # Errors
/// [`StoreError::OtherVersion`].
pub(super) fn check(place: &Path, found: u64, anew: &str) -> Result<(), StoreError> {
    let remedy = match found.cmp(&VERSION) {
        Ordering::Equal => return Ok(()),
        Ordering::Greater => "a later version of Verbatim made them: use that one".into(),
        Ordering::Less => format!(
            "a build from before release 0.1.0 made them, and they are not converted: {anew}. The list of runs is empty then; \
             records of runs, in runs/RIG/ID/record, can be judged on their own"
        ),
    };
    Err(StoreError::OtherVersion {
        path: place.to_path_buf(),
        found,
        known: VERSION,
        remedy,
    })
}

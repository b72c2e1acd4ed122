//! The version of the tables, the same for SQLite and PostgreSQL.

use std::cmp::Ordering;
use std::path::Path;

use crate::store::StoreError;

/// The version that this program makes and works with. Builds before release 0.1.0 made 1 to 3, and nothing converts those.
/// A release that changes the tables raises it, and converts the tables of the releases before it.
pub(super) const VERSION: u64 = 4;

/// Refuses the tables of another version. `anew` says how to start with an empty database.
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

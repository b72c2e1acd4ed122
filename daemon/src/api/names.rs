//! Resource names: `rigs/NAME`, `runs/ID`, `leases/ID`.

use tonic::Status;

use super::errors::{self, Violation};
use crate::store::LeaseId;
use verbatim_run::RunId;

/// The maximum length in characters of a rig's name, or of a label.
const LONGEST: usize = 64;

/// Returns a violation if a name is too long. Callers use this function before they look up or log a name.
pub(super) fn too_long(field: &str, name: &str) -> Option<Violation> {
    let characters = name.chars().count();
    (characters > LONGEST).then(|| {
        Violation::new(
            field,
            format!("expected at most {LONGEST} characters, seen {characters}"),
        )
    })
}

/// Parses the name of a rig.
pub(super) fn rig<'n>(field: &str, name: &'n str) -> Result<&'n str, Status> {
    match name.strip_prefix("rigs/") {
        Some(rig) if !rig.is_empty() && !rig.contains('/') => match too_long(field, rig) {
            None => Ok(rig),
            Some(wrong) => Err(errors::invalid(vec![wrong])),
        },
        _ => Err(errors::invalid_field(
            field,
            format!("expected \"rigs/NAME\", seen {name:?}; ListRigs returns the names of the rigs"),
        )),
    }
}

/// Parses the name of a run.
pub(super) fn run(field: &str, name: &str) -> Result<RunId, Status> {
    let id = name
        .strip_prefix("runs/")
        .ok_or_else(|| format!("expected \"runs/ID\", seen {name:?}; ListRuns returns the names of the runs"))
        .and_then(|id| id.parse());
    id.map_err(|what| errors::invalid_field(field, what))
}

/// Parses the name of a lease.
pub(super) fn lease(field: &str, name: &str) -> Result<LeaseId, Status> {
    let id = name
        .strip_prefix("leases/")
        .ok_or_else(|| format!("expected \"leases/ID\", seen {name:?}; ListLeases returns the names of the leases"))
        .and_then(|id| id.parse());
    id.map_err(|what| errors::invalid_field(field, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_that_could_be_paths() {
        assert_eq!(rig("name", "rigs/a.b-1").ok(), Some("a.b-1"));
        for wrong in ["", "rigs/", "rigs/../x", "runs/x", "rigs"] {
            assert!(rig("name", wrong).is_err(), "{wrong}");
        }
        assert!(rig("name", &format!("rigs/{}", "x".repeat(64))).is_ok());
        assert!(rig("name", &format!("rigs/{}", "x".repeat(65))).is_err());
        assert!(run("name", "runs/019a3c5e77d1-0000").is_ok());
        for wrong in ["", "runs/", "runs/..", "runs/../x", "019a3c5e77d1-0000"] {
            assert!(run("name", wrong).is_err(), "{wrong}");
        }
    }
}

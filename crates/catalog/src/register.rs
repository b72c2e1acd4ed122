//! The register of known deviations.

use std::path::PathBuf;
use std::sync::Arc;

use verbatim_record::Verdict;

use crate::chapters::TESTS;
use crate::deviations::{self, Deviation, DeviationsError, Known, Names, deviations};
use crate::statements::statements;

/// Known deviations of devices: the built-in entries, and the entries of a user's files.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Register {
    pub(crate) added: Arc<Vec<Deviation>>,
}

impl Register {
    /// Returns a register that also has the entries of these files.
    ///
    /// # Errors
    /// Returns an error with path and line when a file cannot be read or is invalid.
    pub fn with(&self, files: &[PathBuf]) -> Result<Self, DeviationsError> {
        let mut added = self.added.to_vec();
        for path in files {
            for entry in deviations::read(path, &names())? {
                if added.iter().chain(deviations()).any(|known| known.id == entry.id) {
                    return Err(DeviationsError::Wrong {
                        path: path.clone(),
                        line: 1,
                        what: format!("the entry {:?} exists already; rename it", entry.id),
                    });
                }
                added.push(entry);
            }
        }
        Ok(Self { added: Arc::new(added) })
    }

    /// Returns the known deviations of a run's device that the verdicts show or should have shown. `began_ns` is the
    /// start of the run in nanoseconds since 1970. An entry that expired before the start explains nothing.
    #[must_use]
    pub fn known(&self, fingerprint: &str, began_ns: u64, verdicts: &[Verdict]) -> Vec<Known> {
        let entries = deviations().iter().chain(self.added.iter());
        deviations::known(entries, (fingerprint, began_ns), verdicts)
    }
}

/// Returns the names of tests and statements that entries may refer to.
pub(crate) fn names() -> Names {
    Names {
        tests: TESTS.iter().map(|test| test.id).collect(),
        statements: statements().iter().map(|known| known.id.as_str()).collect(),
    }
}

//! The record in a journal's lock file. It shows whether a journal must exist, and of which generation: each change of
//! the journal has a greater generation. A process thereby detects that a journal was removed, or is an older copy.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Owner;

/// The first line while a journal must exist.
const PENDING: &str = "a journal is to be restored";
/// The first line after the device was restored.
const SETTLED: &str = "nothing is to be restored";

/// The record in a lock file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Witness {
    /// The generation of the journal; 0 if there has never been one.
    pub(super) generation: u64,
    /// The owner of the journal that must exist; `None` if nothing is to be restored.
    pub(super) owner: Option<Owner>,
    /// How it was found out that the journal is missing or older; empty if the journal was never missed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) missed: String,
}

impl Witness {
    /// Reads a lock file. An absent or empty file gives the default.
    ///
    /// # Errors
    /// A description of the damage.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|error| error.to_string())?,
        };
        if text.is_empty() {
            return Ok(Self::default());
        }
        // Bytes after the third line are the end of an older, longer record.
        let altered = || "its lock file was altered or damaged".to_string();
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let (Some(head), Some(body), Some(sum)) = (lines.next(), lines.next(), lines.next()) else {
            return Err(altered());
        };
        let witness: Self = serde_json::from_str(body).map_err(|_| altered())?;
        match sum == sum_of(path, body) && head == witness.head() {
            true => Ok(witness),
            false => Err(altered()),
        }
    }

    /// Writes the record to a locked lock file, and syncs it.
    pub(super) fn write(&self, mut lock: &File, path: &Path) -> io::Result<()> {
        let body = serde_json::to_string(self)?;
        let text = format!("{}\n{body}\n{}\n", self.head(), sum_of(path, &body));
        // Skip the write if the file already has this content, because a test saves the journal often.
        lock.rewind()?;
        let mut is = Vec::new();
        if lock.read_to_end(&mut is).is_ok() && is == text.as_bytes() {
            return Ok(());
        }
        lock.rewind()?;
        lock.write_all(text.as_bytes())?;
        lock.set_len(text.len() as u64)?;
        lock.sync_data()
    }

    fn head(&self) -> &'static str {
        match self.owner {
            Some(_) => PENDING,
            None => SETTLED,
        }
    }
}

/// Returns the seal of a record: SHA-256 of its content and the name of its file, in hexadecimal.
fn sum_of(path: &Path, body: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(path.file_name().unwrap_or_default().as_encoded_bytes());
    digest.update(body);
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

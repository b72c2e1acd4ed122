//! The lists of revoked certificates that the daemon has used. They survive a restart, so that the daemon then refuses
//! an older list too.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use verbatim_run::state::StateDirectory;
use verbatim_tls::{Gate, ServerFiles, TlsError};

/// The file with the newest lists, in the state directory.
#[derive(Debug)]
pub(super) struct Revoked(PathBuf);

impl Revoked {
    pub(super) fn of(state: &StateDirectory) -> Self {
        Self(state.path().join("revoked.pem"))
    }

    /// Reads the TLS files. A list that is older than one of the last daemon is an error.
    pub(super) fn open(&self, files: &ServerFiles) -> Result<Arc<Gate>, TlsError> {
        let used = fs::read_to_string(&self.0).unwrap_or_default();
        let gate = Gate::open_after(files, &used)?;
        self.keep(&gate);
        Ok(gate)
    }

    /// Stores the lists that are in use.
    pub(super) fn keep(&self, gate: &Gate) {
        let lists = gate.revoked();
        if fs::read_to_string(&self.0).is_ok_and(|kept| kept == lists) {
            return;
        }
        let directory = self.0.parent().unwrap_or(&self.0);
        let kept = tempfile::NamedTempFile::new_in(directory).and_then(|mut new| {
            new.write_all(lists.as_bytes())?;
            new.as_file().sync_all()?;
            new.persist(&self.0)?;
            Ok(())
        });
        if let Err(error) = kept {
            tracing::error!(
                path = %self.0.display(),
                %error,
                "the list of revoked certificates is in use, but after a restart the daemon would accept an older one"
            );
        }
    }
}

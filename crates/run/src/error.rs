//! Errors of a run.

use std::io;
use std::path::PathBuf;

use verbatim_record::{BundleError, Cause};
use verbatim_tester::JournalError;
use verbatim_text::quoted;

use crate::signature::SignatureError;
use crate::state::NoStateDirectory;
use verbatim_rig::RigError;

/// The reason why a run did not begin, or could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The log of a host's console cannot be read.
    #[error(
        "rig {rig}: the console log {path} cannot be read: {source}; correct `dut_console` or `tester_console` in the rig \
         file, or its permissions"
    )]
    Console {
        /// Name of the rig.
        rig: String,
        /// Path of the log.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The rig cannot be opened.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The restore journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The device cannot be reached.
    #[error("rig {rig}: {what}")]
    Unreachable {
        /// The rig.
        rig: String,
        /// The missing part, and the remedy.
        what: String,
    },
    /// Another process uses the device.
    #[error(
        "rig {rig}: another process drives its device ({device}): {who}. It is a daemon, or a run under another rig's name or \
         with another state directory: wait for it, or stop it; two at once would spoil each other's verdicts"
    )]
    DeviceBusy {
        /// The rig.
        rig: String,
        /// Description of the device.
        device: String,
        /// Description of the process and its user, from the kernel.
        who: String,
    },
    /// A run with another state directory left the device changed.
    #[error(
        "rig {rig}: a run with the state directory {state} left its device changed; its journal is {journal}. A daemon \
         with that directory restores the device by itself. Otherwise run, as a user who may read the journal, with \
         the rig file of rig {there}: `STATE_DIRECTORY={} verbatim --server none rigs restore {}`. Nothing was sent",
        quoted(&state.to_string_lossy()),
        quoted(there)
    )]
    LeftElsewhere {
        /// The rig.
        rig: String,
        /// Name of the rig in the other run.
        there: String,
        /// The other state directory.
        state: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// A run with another state directory left the device changed, and the journal of that run is missing.
    #[error(
        "rig {rig}: process {pid} left its device changed, and its journal is no longer in {journals}: restore the \
         device by hand, or reset it, then remove {lock}; nothing was sent"
    )]
    JournalGone {
        /// The rig.
        rig: String,
        /// The process that changed the device.
        pid: u32,
        /// The former directory of the journal.
        journals: PathBuf,
        /// The file that records the change.
        lock: PathBuf,
    },
    /// The lock of the device cannot be used.
    #[error(
        "rig {rig}: its device cannot be locked ({source}); correct this first: without the lock, two processes could \
         use the device and spoil each other's verdicts"
    )]
    DeviceLock {
        /// The rig.
        rig: String,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// A later lease has used the rig.
    #[error(
        "rig {rig}: the lease with token {token} is over: a lease with token {last} has used the rig since. Nothing \
         was sent; reserve the rig again"
    )]
    Fenced {
        /// The rig.
        rig: String,
        /// Token of the lease.
        token: u64,
        /// Greatest token that used the rig.
        last: u64,
    },
    /// The file with the greatest token cannot be read or written.
    #[error("{path}: {source}{}", remedy(source))]
    Fence {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The run ended early to let another lease use the rig. Its records exist, and [`resume`](crate::resume) continues
    /// the run.
    #[error("the run gave way to another lease; tests completed: {done}")]
    GaveWay {
        /// Number of tests with a complete record.
        done: u32,
    },
    /// No state directory can be determined.
    #[error(transparent)]
    State(#[from] NoStateDirectory),
    /// The bundle cannot be written or read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A bundle cannot be signed, or its signature is invalid.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The changes of an earlier run cannot be restored.
    #[error(
        "rig {rig}: an earlier run left the device changed, and the device could not be restored: {what}. No test ran. \
         The journal stays at {journal}; repair the device or its cabling and run again"
    )]
    NotRestored {
        /// The rig.
        rig: String,
        /// Description of the areas that are still changed.
        what: String,
        /// Path of the journal.
        journal: PathBuf,
    },
    /// The output file of an export exists.
    #[error("{0} exists already; name a new file, or write over it with --force")]
    FileExists(PathBuf),
    /// The export was stopped, because its client had left.
    #[error("the export was stopped: its reader has left")]
    Stopped,
    /// A pattern matches no test.
    #[error(transparent)]
    Select(#[from] verbatim_catalog::SelectError),
    /// A record does not fit the catalogue.
    #[error(transparent)]
    Judge(#[from] verbatim_catalog::JudgeError),
    /// A document of the bundle is malformed.
    #[error("{path}: {what}")]
    Document {
        /// Path of the document.
        path: PathBuf,
        /// Error text.
        what: String,
    },
}

/// Returns the remedy for an error of a disk. The message of an error of the file's content has its own remedy.
fn remedy(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::InvalidData => "",
        _ => "; free space or correct the permissions of the state directory",
    }
}

impl RunError {
    /// Returns the cause of the error: rig, operator or tester.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Rig(_)
            | Self::Unreachable { .. }
            | Self::Journal(JournalError::Busy { .. })
            | Self::DeviceBusy { .. }
            | Self::LeftElsewhere { .. }
            | Self::JournalGone { .. }
            | Self::NotRestored { .. } => Cause::Rig,
            Self::Fenced { .. }
            | Self::Console { .. }
            | Self::GaveWay { .. }
            | Self::State(_)
            | Self::Select(_)
            | Self::FileExists(_)
            | Self::Stopped
            | Self::Signature(_)
            | Self::Bundle(BundleError::Taken { .. }) => Cause::Operator,
            Self::DeviceLock { .. }
            | Self::Fence { .. }
            | Self::Journal(_)
            | Self::Bundle(_)
            | Self::Judge(_)
            | Self::Document { .. } => Cause::Tester,
        }
    }

    /// Returns whether the error means that the device is, or may be, still changed.
    #[must_use]
    pub fn left_changed(&self) -> bool {
        match self {
            Self::NotRestored { .. } | Self::LeftElsewhere { .. } | Self::JournalGone { .. } => true,
            // Another process restores its own changes. An unreadable journal may list any change.
            Self::Journal(error) => !matches!(error, JournalError::Busy { .. }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_another_user_is_a_word_of_the_command() {
        let error = RunError::LeftElsewhere {
            rig: "mine".into(),
            there: "a;b".into(),
            state: "/tmp/x; id".into(),
            journal: "/tmp/x; id/journals".into(),
        };
        let command = "`STATE_DIRECTORY='/tmp/x; id' verbatim --server none rigs restore 'a;b'`";
        assert!(error.to_string().contains(command), "{error}");
    }
}

//! Why there is no report.

use std::path::PathBuf;

use verbatim_record::{BundleError, Cause};
use verbatim_tester::JournalError;

use crate::signature::SignatureError;
use crate::state::NoStateDirectory;
use verbatim_rig::RigError;

/// Why a run did not begin, or could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The rig cannot be opened.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The restore journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its device cannot be reached.
    #[error("rig {rig}: {what}")]
    Unreachable {
        /// The rig.
        rig: String,
        /// What is missing, and the remedy.
        what: String,
    },
    /// Another process drives the device.
    #[error(
        "rig {rig}: another process drives its device ({device}): {who}. It is a daemon, or a run under another rig's name or \
         with another state directory: wait for it, or stop it; two at once would spoil each other's verdicts"
    )]
    DeviceBusy {
        /// The rig.
        rig: String,
        /// The device, in words.
        device: String,
        /// The process and its user, in words, as the kernel knows them.
        who: String,
    },
    /// A run with another state directory left the device changed.
    #[error(
        "rig {rig}: a run with the state directory {state} left its device changed; its journal is {journal}. A daemon with that \
         directory restores it by itself; else, as who may read that and with the rig file that has rig {there}: \
         `STATE_DIRECTORY={state} verbatim --server none rigs restore {there}`; nothing was sent"
    )]
    LeftElsewhere {
        /// The rig.
        rig: String,
        /// The rig's name there.
        there: String,
        /// The other state directory.
        state: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// The same, and its journal is gone.
    #[error(
        "rig {rig}: process {pid} left its device changed, and its journal is not in {journals} any more: restore the device by \
         hand, or reset it, then remove {lock}; nothing was sent"
    )]
    JournalGone {
        /// The rig.
        rig: String,
        /// The process that changed it.
        pid: u32,
        /// Where the journal was.
        journals: PathBuf,
        /// What tells of it.
        lock: PathBuf,
    },
    /// It cannot be told whether another process drives the device.
    #[error(
        "rig {rig}: its device cannot be locked ({source}); mend that: two processes at one device spoil each other's verdicts"
    )]
    DeviceLock {
        /// The rig.
        rig: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Somebody with a later lease has used the rig since.
    #[error(
        "rig {rig}: the lease with token {token} is over: one with token {last} has used the rig since. Nothing was sent; \
         reserve the rig anew"
    )]
    Fenced {
        /// The rig.
        rig: String,
        /// Of the lease.
        token: u64,
        /// The greatest that was seen.
        last: u64,
    },
    /// It cannot be told who used the rig last.
    #[error("{path}: {source}; free space or mend the permissions of the state directory")]
    Fence {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It was asked to let somebody else have the rig. What it recorded is there, and [`resume`](crate::resume) goes on.
    #[error("the run gave way after {done} tests")]
    GaveWay {
        /// Tests that have a whole record.
        done: u32,
    },
    /// There is no place for the restore journal.
    #[error(transparent)]
    State(#[from] NoStateDirectory),
    /// The bundle cannot be written or read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A bundle cannot be signed, or its signature is not true.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// What an earlier run left changed cannot be restored.
    #[error(
        "rig {rig}: an earlier run left the device changed and it could not be restored: {what}. Nothing was run. The journal stays at {journal}; mend the device or its cabling and run again"
    )]
    NotRestored {
        /// The rig.
        rig: String,
        /// What is left, area by area.
        what: String,
        /// The journal.
        journal: PathBuf,
    },
    /// There is something where a capture is to be written.
    #[error("{0} exists already; name a new file, or write over it with --force")]
    FileExists(PathBuf),
    /// A pattern names no test.
    #[error(transparent)]
    Select(#[from] verbatim_catalog::SelectError),
    /// A record does not fit the catalogue.
    #[error(transparent)]
    Judge(#[from] verbatim_catalog::JudgeError),
    /// A document of the bundle is not what it should be.
    #[error("{path}: {what}")]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl RunError {
    /// What it is due to.
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
            | Self::GaveWay { .. }
            | Self::State(_)
            | Self::Select(_)
            | Self::FileExists(_)
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

    /// Whether it says that the device is, or may be, left changed.
    #[must_use]
    pub fn left_changed(&self) -> bool {
        match self {
            Self::NotRestored { .. } | Self::LeftElsewhere { .. } | Self::JournalGone { .. } => true,
            // What another process does to the device, it restores. A journal that cannot be read may hold anything.
            Self::Journal(error) => !matches!(error, JournalError::Busy { .. }),
            _ => false,
        }
    }
}

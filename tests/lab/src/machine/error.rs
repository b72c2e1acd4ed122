//! What can go wrong with a machine.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The machine could not be made, did not come up, or did not obey.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Something that the machine is made of is not on this host.
    #[error("the machine needs {missing}, which this host does not have; {remedy}")]
    NotInstalled {
        /// What was looked for.
        missing: String,
        /// What to type.
        remedy: String,
    },
    /// A tool failed.
    #[error("{what} failed: `{command}` {status}; it says: {said}")]
    Tool {
        /// What was being done.
        what: String,
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// Its standard error.
        said: String,
    },
    /// A file is not what it should be.
    #[error("{path}: {what}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What was expected, and what seen.
        what: String,
    },
    /// The machine did not come up.
    #[error("the machine {what}; its console, kept in {console}, ends with:\n{tail}", console = console.display())]
    NotReady {
        /// What it did instead.
        what: String,
        /// The console's log.
        console: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// The machine came up and is gone now.
    #[error("the machine has ended, {doing}; its console, kept in {console}, ends with:\n{tail}", console = console.display())]
    Ended {
        /// What was being done.
        doing: String,
        /// The console's log.
        console: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// The machine is up, but something took too long.
    #[error("{what} took more than {limit:?}; the console is kept in {console}", console = console.display())]
    TooLate {
        /// What.
        what: String,
        /// How long it might have taken.
        limit: std::time::Duration,
        /// The console's log.
        console: PathBuf,
    },
    /// The system refused something.
    #[error("the machine: {what}: {source}")]
    Io {
        /// What was being done, with its path.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// For `map_err`: what was being done.
pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> MachineError {
    let what = what.into();
    move |source| MachineError::Io { what, source }
}

/// For `map_err`: what was being done to a path.
pub(crate) fn path_error(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> MachineError {
    io_error(format!("{doing} {}", path.display()))
}

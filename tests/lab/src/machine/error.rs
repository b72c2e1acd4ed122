//! The errors of a machine.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Error of making, booting or using a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The host lacks something that the machine needs.
    #[error("the machine needs {missing}, which this host does not have; {remedy}")]
    NotInstalled {
        /// The missing program or package.
        missing: String,
        /// The instruction for the installation.
        remedy: String,
    },
    /// A tool failed.
    #[error("{what} failed: `{command}` {status}; it says: {said}")]
    Tool {
        /// The purpose of the call.
        what: String,
        /// The command line.
        command: String,
        /// The tool's exit status.
        status: String,
        /// The tool's standard error.
        said: String,
    },
    /// A file is not as expected.
    #[error("{path}: {what}", path = path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The expected and the seen contents.
        what: String,
    },
    /// The machine did not start.
    #[error("the machine {what}; its console, kept in {console}, ends with:\n{tail}", console = console.display())]
    NotReady {
        /// How the start failed.
        what: String,
        /// The console's log.
        console: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The machine ended while it was in use.
    #[error(
        "the machine has ended, {doing}; its console, kept in {console}, ends with:\n{tail}",
        console = console.display()
    )]
    Ended {
        /// The operation that failed.
        doing: String,
        /// The console's log.
        console: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The machine runs, but an operation took too long.
    #[error("{what} took more than {limit:?}; the console is kept in {console}", console = console.display())]
    TooLate {
        /// The operation.
        what: String,
        /// Its time limit.
        limit: std::time::Duration,
        /// The console's log.
        console: PathBuf,
    },
    /// A system call failed.
    #[error("the machine: {what}: {source}")]
    Io {
        /// The operation, with its path.
        what: String,
        /// The error of the operation.
        source: io::Error,
    },
}

/// Makes an error of the failed operation `what`, for `map_err`.
pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> MachineError {
    let what = what.into();
    move |source| MachineError::Io { what, source }
}

/// Makes an error of a failed operation on a path, for `map_err`.
pub(crate) fn path_error(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> MachineError {
    io_error(format!("{doing} {}", path.display()))
}

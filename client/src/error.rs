//! Errors. Each message says what was expected, what was seen, and what to do next.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

mod refusal;

pub use refusal::Refusal;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the daemon is invalid.
    #[error(
        "the address {given:?} cannot be used: {why}; expected unix:/PATH or /PATH of the daemon's socket, or https://HOST:PORT"
    )]
    Address {
        /// The invalid address.
        given: String,
        /// Error text.
        why: String,
    },
    /// A resource name is invalid.
    #[error("{given:?} is not the name of a {kind}; expected {expected}")]
    Name {
        /// Kind of resource.
        kind: &'static str,
        /// The invalid name.
        given: String,
        /// Expected form.
        expected: &'static str,
    },
    /// The socket does not exist.
    #[error(
        "no daemon at {path}: the socket does not exist; start one (`systemctl start verbatimd`, or `verbatimd serve \
         --socket {path}`), or name another socket with --server"
    )]
    Absent {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The socket exists, but no process listens on it.
    #[error(
        "no daemon at {path}: the socket exists but refuses connections, so its daemon has ended; start the daemon \
         again (`systemctl start verbatimd`), or remove {path} to work without a daemon"
    )]
    Refused {
        /// Path of the socket.
        path: PathBuf,
    },
    /// This user may not use the socket.
    #[error("this user may not use {path}: {expected}")]
    Denied {
        /// Path of the socket.
        path: PathBuf,
        /// The users who may use the socket, and how to become one of them.
        expected: String,
    },
    /// The path is no socket.
    #[error("{path} is {seen}, not a socket; name the daemon's socket with --server")]
    NoSocket {
        /// The path.
        path: PathBuf,
        /// File type of the path.
        seen: &'static str,
    },
    /// The connection fails for another reason.
    #[error("cannot connect to the daemon at {at}: {source}")]
    Connect {
        /// Address of the daemon.
        at: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// The client's own certificate, key or CA cannot be used.
    #[error("{0}")]
    Certificates(String),
    /// No daemon can be reached at the address.
    #[error("no daemon at {at}: {why}")]
    Unreached {
        /// Expected address of the daemon.
        at: String,
        /// The observed error, and the remedy.
        why: String,
    },
    /// Client or daemon does not accept the other's certificate.
    #[error("no TLS session with the daemon at {at}: {why}")]
    NotLetIn {
        /// Address of the daemon.
        at: String,
        /// Reason and remedy.
        why: String,
    },
    /// The connection broke, or the listening process does not speak gRPC.
    #[error(
        "the connection to {at} broke: {seen}; if it happens again, see the daemon's log (`journalctl -u verbatimd`) \
         and check that verbatimd listens there"
    )]
    Broken {
        /// Address of the daemon.
        at: String,
        /// The observed error.
        seen: String,
    },
    /// The daemon did not respond in time.
    #[error(
        "the daemon at {at} did not answer {call} within {seconds} s; it hangs or is overloaded: see its log \
         (`journalctl -u verbatimd`)"
    )]
    Timeout {
        /// Name of the call.
        call: &'static str,
        /// Address of the daemon.
        at: String,
        /// Time limit, in seconds.
        seconds: u64,
    },
    /// The daemon does not implement the call.
    #[error(
        "the daemon at {at} has another version: it does not know {call} (it says: {said}). This client has version \
         {ours}; install the same version on both sides"
    )]
    Version {
        /// Name of the call.
        call: &'static str,
        /// Address of the daemon.
        at: String,
        /// Message of the daemon.
        said: String,
        /// Version of this client.
        ours: &'static str,
    },
    /// The request is invalid: a name, a value or a pattern.
    #[error("{0}")]
    Invalid(Box<Refusal>),
    /// The run, rig or file does not exist.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// The daemon refuses the call in its current state, or for this user.
    #[error("{0}")]
    Refusal(Box<Refusal>),
    /// The daemon is stopping or overloaded. The same call may succeed later.
    #[error("the daemon at {at} cannot serve {call} now: {refusal}")]
    Unavailable {
        /// Name of the call.
        call: &'static str,
        /// Address of the daemon.
        at: String,
        /// The daemon's refusal.
        refusal: Box<Refusal>,
    },
    /// The daemon has an internal error.
    #[error(
        "the daemon at {at} failed in {call}: {refusal}; this is a defect of the daemon: its log has more \
         (`journalctl -u verbatimd`)"
    )]
    Failed {
        /// Name of the call.
        call: &'static str,
        /// Address of the daemon.
        at: String,
        /// The daemon's refusal.
        refusal: Box<Refusal>,
    },
    /// The connection to a watched run was lost for too long.
    #[error(
        "lost the daemon after event {cursor} of {run}: no answer for {seconds} s; last error: {last}. The run may \
         continue; `verbatim runs watch {run} --cursor {cursor}` follows it again"
    )]
    Lost {
        /// Name of the run.
        run: String,
        /// Cursor of the last received event.
        cursor: u64,
        /// Duration of the attempts, in seconds.
        seconds: u64,
        /// Error of the last attempt.
        last: Box<Error>,
    },
    /// The daemon has lost events of the run.
    #[error(
        "the daemon at {at} has lost events of {run}: expected event {expected}, seen {seen}. `verbatim runs show \
         {run}` shows the stored results"
    )]
    Gap {
        /// Name of the run.
        run: String,
        /// Address of the daemon.
        at: String,
        /// Cursor of the expected event.
        expected: u64,
        /// Cursor of the received event.
        seen: u64,
    },
    /// The response lacks a required part.
    #[error(
        "the daemon at {at} answered {call} without {what}; it has another version: install the same version on both \
         sides"
    )]
    Incomplete {
        /// Name of the call.
        call: &'static str,
        /// Address of the daemon.
        at: String,
        /// The missing part.
        what: &'static str,
    },
    /// A file could not be written during the download.
    #[error("cannot write {name}: {source}")]
    Write {
        /// Name of the file.
        name: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// The size of a downloaded file differs from the announced size.
    #[error("received {seen} of {expected} bytes of {name}; download it again")]
    Cut {
        /// Name of the file.
        name: String,
        /// Announced size, in bytes.
        expected: u64,
        /// Received size, in bytes.
        seen: u64,
    },
    /// The daemon sent more of a file than it announced.
    #[error("the daemon sent more of {name} than the {most} bytes that it had announced; the file was not kept")]
    TooLong {
        /// Name of the file.
        name: String,
        /// The most bytes.
        most: u64,
    },
    /// The file's name points outside the target directory.
    #[error("the run has a file named {name:?}, which points outside the directory; the file was not written")]
    FileName {
        /// Name of the file.
        name: String,
    },
}

impl Error {
    /// Returns whether the same call may succeed soon: the daemon is stopped, starting, stopping or overloaded.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Absent { .. }
                | Self::Refused { .. }
                | Self::Unreached { .. }
                | Self::Broken { .. }
                | Self::Timeout { .. }
                | Self::Unavailable { .. }
        )
    }

    /// Converts an I/O error of a connection attempt, or of a check of the socket's path.
    #[must_use]
    pub fn from_connect(path: &Path, source: io::Error) -> Self {
        let path_buf = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Absent { path: path_buf },
            io::ErrorKind::ConnectionRefused => match what_is(path) {
                Some(seen) => Self::NoSocket { path: path_buf, seen },
                None => Self::Refused { path: path_buf },
            },
            io::ErrorKind::PermissionDenied => Self::Denied {
                path: path_buf,
                expected: who_may(path),
            },
            _ => Self::Connect {
                at: path.display().to_string(),
                source,
            },
        }
    }

    /// Converts a status from the server, or from the connection to the server.
    pub(crate) fn of_status(call: &'static str, at: String, status: &Status) -> Self {
        let refusal = Box::new(Refusal::of(status));
        match status.code() {
            // Only a status that tonic made in this process has a source: the connection failed. A server's status
            // has none.
            _ if std::error::Error::source(status).is_some() => Self::Broken {
                at,
                seen: chain(status),
            },
            Code::Unimplemented => Self::Version {
                call,
                at,
                said: status.message().into(),
                ours: env!("CARGO_PKG_VERSION"),
            },
            Code::InvalidArgument | Code::OutOfRange => Self::Invalid(refusal),
            Code::NotFound => Self::NotFound(refusal),
            // No retry helps: the disk stays full.
            Code::ResourceExhausted if refusal.reason == "DISK_FULL" => Self::Refusal(refusal),
            Code::FailedPrecondition
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::DataLoss => Self::Refusal(refusal),
            Code::Unavailable | Code::Aborted | Code::ResourceExhausted | Code::Cancelled | Code::DeadlineExceeded => {
                Self::Unavailable { call, at, refusal }
            }
            _ => Self::Failed { call, at, refusal },
        }
    }
}

/// Returns the causes of an error, without repetition.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !words.last().is_some_and(|last| last.contains(&said)) {
            words.push(said);
        }
        cause = error.source();
    }
    if words.is_empty() {
        error.to_string()
    } else {
        words.join(": ")
    }
}

/// Returns the file type of a path; None for a socket.
fn what_is(path: &Path) -> Option<&'static str> {
    let kind = path.metadata().ok()?.file_type();
    if kind.is_socket() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else {
        Some("a file")
    }
}

/// Describes who may use a socket.
fn who_may(path: &Path) -> String {
    let Ok(metadata) = path.metadata() else {
        let parent = path.parent().unwrap_or(path).display();
        return format!("this user may not enter its directory {parent}; ask the directory's owner for permission");
    };
    let mode = metadata.mode() & 0o777;
    let gid = metadata.gid();
    if mode & 0o020 == 0 {
        return format!("its mode is {mode:04o}, expected 0660; start the daemon again or `chmod 0660` it");
    }
    if gid == 0 {
        return format!(
            "its mode is {mode:04o} and its group is root; run the daemon under its own group (`Group=` in its unit) \
             and join that group, or `chgrp` the socket to one of your groups"
        );
    }
    match group_name(gid) {
        Some(group) => format!(
            "its mode is {mode:04o}, so only user id {} and members of the group {group} may use it; join the group \
             (`sudo usermod -aG {group} $USER`) and log in again",
            metadata.uid()
        ),
        None => format!(
            "its mode is {mode:04o}, so only user id {} and members of group id {gid} may use it",
            metadata.uid()
        ),
    }
}

fn group_name(gid: u32) -> Option<String> {
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_string())
    })
}

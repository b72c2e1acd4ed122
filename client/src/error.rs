//! What can go wrong, said as what was expected, what was seen, and what to do next.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

mod refusal;

pub use refusal::Refusal;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that names no daemon.
    #[error(
        "the address {given:?} cannot be used: {why}; expected unix:/PATH or /PATH of the daemon's socket, or https://HOST:PORT"
    )]
    Address {
        /// As given.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// A name that is none.
    #[error("{given:?} is no name of a {kind}; expected {expected}")]
    Name {
        /// Of what.
        kind: &'static str,
        /// As given.
        given: String,
        /// The form.
        expected: &'static str,
    },
    /// There is no socket.
    #[error(
        "no daemon at {path}: there is no such socket; start one (`systemctl start verbatimd`, or `verbatimd serve \
         --socket {path}`), or name another socket with --server"
    )]
    Absent {
        /// The socket.
        path: PathBuf,
    },
    /// A socket that nobody listens at.
    #[error(
        "no daemon at {path}: the socket is there but refuses connections, so the daemon that made it is gone; start it \
         again (`systemctl start verbatimd`), or remove {path} to work without a daemon"
    )]
    Refused {
        /// The socket.
        path: PathBuf,
    },
    /// A socket that this user may not use.
    #[error("{path} may not be used by this user: {expected}")]
    Denied {
        /// The socket.
        path: PathBuf,
        /// Who may, and how to become one of them.
        expected: String,
    },
    /// Something else under the socket's name.
    #[error("{path} is no socket but {seen}; name the daemon's socket with --server")]
    NoSocket {
        /// The path.
        path: PathBuf,
        /// What it is.
        seen: &'static str,
    },
    /// The connection cannot be made for another reason.
    #[error("cannot connect to the daemon at {at}: {source}")]
    Connect {
        /// Where the daemon listens.
        at: String,
        /// What the system says.
        source: io::Error,
    },
    /// Our own certificate, key or CA cannot be used.
    #[error("{0}")]
    Certificates(String),
    /// Nobody can be reached there.
    #[error("no daemon at {at}: {why}")]
    Unreached {
        /// Where it should listen.
        at: String,
        /// What was seen, and what to do.
        why: String,
    },
    /// One side does not accept the other.
    #[error("not let in by the daemon at {at}: {why}")]
    NotLetIn {
        /// Where it listens.
        at: String,
        /// Why, and what to do.
        why: String,
    },
    /// The connection broke, or whoever listens does not speak gRPC.
    #[error(
        "the connection to {at} broke: {seen}; if it happens again, see the daemon's log (`journalctl -u verbatimd`) \
         and make sure that it is verbatimd that listens there"
    )]
    Broken {
        /// Where the daemon listens.
        at: String,
        /// What was seen.
        seen: String,
    },
    /// No answer in time.
    #[error(
        "no answer to {call} from the daemon at {at} within {seconds} s; it listens but hangs or is overloaded: see its log (`journalctl -u verbatimd`)"
    )]
    Timeout {
        /// The call.
        call: &'static str,
        /// Where the daemon listens.
        at: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The daemon does not know the call.
    #[error(
        "the daemon at {at} is of another version: it does not know {call} (it says: {said}), this client is version \
         {ours}; install the same version on both sides"
    )]
    Version {
        /// The call.
        call: &'static str,
        /// Where the daemon listens.
        at: String,
        /// Its words.
        said: String,
        /// Our version.
        ours: &'static str,
    },
    /// What was asked for is wrong: names, values, patterns.
    #[error("{0}")]
    Invalid(Box<Refusal>),
    /// There is no such run, rig or file.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// The daemon may not or cannot do it in the state that things are in.
    #[error("{0}")]
    Refusal(Box<Refusal>),
    /// The daemon stops, or is overloaded: the same call may succeed later.
    #[error("the daemon at {at} cannot serve {call} now: {refusal}")]
    Unavailable {
        /// The call.
        call: &'static str,
        /// Where the daemon listens.
        at: String,
        /// Its words.
        refusal: Box<Refusal>,
    },
    /// The daemon failed.
    #[error(
        "the daemon at {at} failed in {call}: {refusal}; this is a defect of the daemon: its log has more \
         (`journalctl -u verbatimd`)"
    )]
    Failed {
        /// The call.
        call: &'static str,
        /// Where the daemon listens.
        at: String,
        /// Its words.
        refusal: Box<Refusal>,
    },
    /// A watched run was lost sight of.
    #[error(
        "lost sight of {run} after its event {cursor}: {seconds} s without a daemon that answers; last: {last}. Whether \
         it goes on is not known; `verbatim runs watch {run} --cursor {cursor}` goes on watching"
    )]
    Lost {
        /// The run.
        run: String,
        /// The last event seen.
        cursor: u64,
        /// How long it was tried.
        seconds: u64,
        /// The last failure.
        last: Box<Error>,
    },
    /// Events are missing at the daemon.
    #[error(
        "events of {run} are missing at the daemon at {at}: expected event {expected}, seen {seen}; its state \
         directory lost them. `verbatim runs show {run}` shows what is left"
    )]
    Gap {
        /// The run.
        run: String,
        /// Where the daemon listens.
        at: String,
        /// The cursor that follows what was seen.
        expected: u64,
        /// The cursor that came.
        seen: u64,
    },
    /// An answer without what it must contain.
    #[error(
        "the daemon at {at} answered {call} without {what}; it is of another version: install the same on both sides"
    )]
    Incomplete {
        /// The call.
        call: &'static str,
        /// Where the daemon listens.
        at: String,
        /// What is missing.
        what: &'static str,
    },
    /// A file could not be written while it was received.
    #[error("cannot write {name}: {source}")]
    Write {
        /// The file.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file arrived with another size than was announced.
    #[error("{name} arrived with {seen} bytes, {expected} were announced; download it again")]
    Cut {
        /// The file.
        name: String,
        /// Announced.
        expected: u64,
        /// Received.
        seen: u64,
    },
    /// A file whose name leads out of the directory it is to be put in.
    #[error("the run has a file named {name:?}, which leads out of the directory; nothing was written")]
    FileName {
        /// The name.
        name: String,
    },
}

impl Error {
    /// Whether the same call may succeed soon: the daemon is away, starts, stops or is overloaded.
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

    /// What a failed attempt to connect to a socket, or to look at it, means.
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

    /// What a status means that came from the server or from the connection to it.
    pub(crate) fn of_status(call: &'static str, at: String, status: &Status) -> Self {
        let refusal = Box::new(Refusal::of(status));
        match status.code() {
            // A status with a source was made on this side: no server said it.
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
            // The next attempt would find it full as well.
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

/// An error with all that it is due to, without repetition.
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

/// What lies under a socket's name, if it is no socket.
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

/// Who may use a socket, in words.
fn who_may(path: &Path) -> String {
    let Ok(metadata) = path.metadata() else {
        let parent = path.parent().unwrap_or(path).display();
        return format!("its directory {parent} may not be searched; ask its owner for the right to enter it");
    };
    let mode = metadata.mode() & 0o777;
    let gid = metadata.gid();
    if mode & 0o020 == 0 {
        return format!("its mode is {mode:04o}, expected 0660; start the daemon again or `chmod 0660` it");
    }
    if gid == 0 {
        return format!(
            "its mode is {mode:04o} and its group that of the superuser; run the daemon under a group of its own (`Group=` in \
             its unit) and join it, or `chgrp` the socket to a group of yours"
        );
    }
    match group_name(gid) {
        Some(group) => format!(
            "its mode is {mode:04o}, so only user id {} and members of the group {group} may; join the group (`sudo \
             usermod -aG {group} $USER`) and log in again",
            metadata.uid()
        ),
        None => format!(
            "its mode is {mode:04o}, so only user id {} and members of group id {gid} may",
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

//! Workers that the service manager starts, each in a unit of its own, with the privileges of its rig and no others.
//!
//! The daemon has none to pass on. It connects to the socket of the rig's unit, whose service the service manager starts: that
//! process is no child of this one. Who it is, its first message says; its end is seen by a descriptor of the process.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

/// The directory of their sockets, `RIG.sock`, in the environment of the daemon.
pub(super) const VARIABLE: &str = "VERBATIM_WORKERS";

/// Whether workers are units of their own, which are taken to be hostile to each other and to the daemon.
pub(crate) fn are_units() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Keeps other processes of this user from what /proc shows of this one: its memory, its descriptors, and the file system as it
/// sees it. All workers are of the daemon's user, and a unit hides from each what is not its rig's.
pub(crate) fn out_of_sight() {
    // It fails on no kernel that this runs on; and then a worker is what it would be without.
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// The unit of one rig's worker.
#[derive(Debug)]
pub(super) struct Unit {
    /// What the service is called.
    pub(super) name: String,
    /// The process, once it said which it is: a descriptor that is readable once it is gone.
    process: Option<Receiver>,
}

/// The socket of a rig's unit, if it has one.
pub(super) fn socket_of(directory: Option<&Path>, rig: &str) -> Option<PathBuf> {
    let path = directory?.join(format!("{rig}.sock"));
    path.exists().then_some(path)
}

impl Unit {
    /// Connects to the unit of a rig, which starts its service.
    pub(super) async fn connect(rig: &str, socket: &Path, limit: Duration) -> io::Result<(Self, UnixStream)> {
        let stream = timeout(limit, UnixStream::connect(socket)).await??;
        let unit = Self {
            name: format!("verbatim-worker@{rig}.service"),
            process: None,
        };
        Ok((unit, stream))
    }

    /// The process said which it is.
    pub(super) fn greeted(&mut self, pid: u32) -> io::Result<()> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
        let process = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // Of it no more is wanted than that it can be waited for: a pipe's end as any other.
        self.process = Some(Receiver::from_owned_fd_unchecked(process)?);
        Ok(())
    }

    /// Waits for the end of the process. One that never said which it is was told to do nothing, and holds nothing.
    pub(super) async fn ended(&self) {
        if let Some(process) = &self.process {
            let _ = process.readable().await;
        }
    }

    /// Kills the process. Its user is the daemon's: no privilege is needed.
    pub(super) fn kill(&self) {
        if let Some(process) = &self.process {
            // An error says that it has ended already.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_that_is_nobodys_child_is_seen_and_it_can_be_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut unit = Unit {
            name: "verbatim-worker@a.service".into(),
            process: None,
        };
        unit.greeted(child.id()).unwrap();
        assert!(timeout(Duration::ZERO, unit.ended()).await.is_err(), "it lives");
        unit.kill();
        unit.ended().await;
        assert!(!child.wait().unwrap().success());
        assert!(unit.greeted(0).is_err() && unit.greeted(u32::MAX).is_err());
    }

    #[test]
    fn a_rig_without_a_socket_has_no_unit() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.sock"), "").unwrap();
        let of = |rig| socket_of(Some(directory.path()), rig);
        assert!(of("a").is_some() && of("b").is_none() && socket_of(None, "a").is_none());
    }
}

//! Workers that the service manager starts, each in a unit of its own with the privileges that its rig needs.
//!
//! The daemon connects to the socket of the rig's unit, and the service manager then starts the unit's service. So
//! the process of the service is not a child of this process. The first message of the process contains its
//! process id, and a pidfd shows when the process ends.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

/// The environment variable with the directory of the sockets `RIG.sock`.
pub(super) const VARIABLE: &str = "VERBATIM_WORKERS";

/// Returns whether workers run in units of their own. The daemon treats such workers as hostile to each other and to
/// itself.
pub(crate) fn are_units() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Hides this process's memory, descriptors and file system view in /proc from other processes of the same user.
/// All workers run as the daemon's user, and a worker must not see the files of another worker's unit.
pub(crate) fn out_of_sight() {
    // Ignore an error: all supported kernels accept this setting.
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// The unit of a rig's worker.
#[derive(Debug)]
pub(super) struct Unit {
    /// The name of the service.
    pub(super) name: String,
    /// The pidfd of the process, once its id is known. The pidfd becomes readable when the process ends.
    process: Option<Receiver>,
}

/// Returns the socket of a rig's unit, if the rig has a unit.
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

    /// Opens a pidfd for the process id from the first message.
    pub(super) fn greeted(&mut self, pid: u32) -> io::Result<()> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
        let process = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // The pidfd is only polled, so wrapping it in a pipe receiver is fine.
        self.process = Some(Receiver::from_owned_fd_unchecked(process)?);
        Ok(())
    }

    /// Waits for the end of the process. A process that never sent its id got no order and holds nothing, so the
    /// wait ends at once.
    pub(super) async fn ended(&self) {
        if let Some(process) = &self.process {
            let _ = process.readable().await;
        }
    }

    /// Kills the process. This needs no privilege, because the process has the daemon's user.
    pub(super) fn kill(&self) {
        if let Some(process) = &self.process {
            // Ignore an error: the process has already ended.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn sees_end_of_process_that_is_no_child() {
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
    fn rig_without_socket_has_no_unit() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.sock"), "").unwrap();
        let of = |rig| socket_of(Some(directory.path()), rig);
        assert!(of("a").is_some() && of("b").is_none() && socket_of(None, "a").is_none());
    }
}

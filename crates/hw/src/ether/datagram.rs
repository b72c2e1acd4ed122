//! Raw frames to and from a machine that QEMU emulates, over two unix datagram sockets with one frame per datagram.

use std::{
    fmt, io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixDatagram,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::PollFlags,
    sys::socket::{MsgFlags, recv},
};
use verbatim_socket::{BindError, Bound};

use crate::wait::wait;

use super::{
    Frame,
    error::EtherError,
    interface::HEADER,
    stamp::{Stamp, now},
};

/// Default time limit of a send that waits for space in the other socket.
const SEND_BOUND: Duration = Duration::from_secs(1);
/// The longest frame that QEMU sends and receives over this kind of socket, in bytes.
const LONGEST: usize = 4096 + 65536;

/// Raw Ethernet frames over two unix datagram sockets, for QEMU's `-netdev dgram` with
/// `local.type=unix,remote.type=unix`. QEMU's `local` socket is `remote` here.
///
/// The sockets lose nothing: a full socket makes its sender wait. The kernel does not stamp these frames. The only
/// lower bound of a frame's arrival is therefore the last time when the socket was seen empty.
///
/// One thread can send while another receives.
#[derive(Debug)]
pub struct DatagramPair {
    socket: Bound<UnixDatagram>,
    remote: PathBuf,
    /// Time limit of a send that waits for space.
    send_bound: Duration,
    receiver: Mutex<Receiver>,
}

struct Receiver {
    buffer: Vec<u8>,
    /// Time when the socket was last seen empty.
    empty: Duration,
    /// Number of discarded datagrams that were longer than any frame.
    dropped: u64,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("empty", &self.empty)
            .finish_non_exhaustive()
    }
}

impl DatagramPair {
    /// Binds `local`, which receives the other side's frames. Sent frames go to `remote`, which need not exist yet.
    ///
    /// Replaces a socket that a dead process left at `local`. Dropping the pair removes the file.
    ///
    /// # Errors
    ///
    /// [`EtherError::InUse`], [`EtherError::NotASocket`], [`EtherError::Path`].
    pub fn open(local: &Path, remote: &Path) -> Result<DatagramPair, EtherError> {
        let path = |path: &Path, seen| EtherError::Path {
            path: path.to_owned(),
            seen,
        };
        if let Some(empty) = [local, remote].into_iter().find(|path| path.as_os_str().is_empty()) {
            // The kernel would bind an empty path to a name of its own choice.
            return Err(path(empty, io::ErrorKind::InvalidInput.into()));
        }
        // Checks the remote path as a send would, so that the operator sees an invalid path at once.
        std::os::unix::net::SocketAddr::from_pathname(remote).map_err(|seen| path(remote, seen))?;
        let empty = now();
        let socket = Bound::new(local, || UnixDatagram::bind(local)).map_err(|error| match error {
            BindError::InUse => EtherError::InUse { path: local.to_owned() },
            BindError::NotASocket { seen } => EtherError::NotASocket {
                path: local.to_owned(),
                seen,
            },
            BindError::System(seen) => path(local, seen),
        })?;
        let pair = DatagramPair {
            socket,
            remote: remote.to_owned(),
            send_bound: SEND_BOUND,
            receiver: Mutex::new(Receiver {
                buffer: vec![0; LONGEST],
                empty,
                dropped: 0,
            }),
        };
        let timeout = pair.socket.set_write_timeout(Some(SEND_BOUND));
        timeout.map_err(|seen| pair.system("setting a timeout", seen))?;
        Ok(pair)
    }

    /// Sets how long a send waits for space in the other socket. An emulated machine may be slow.
    ///
    /// # Errors
    ///
    /// [`EtherError::System`] when the system refuses the duration.
    pub fn with_send_bound(mut self, bound: Duration) -> Result<DatagramPair, EtherError> {
        self.send_bound = bound;
        let set = self.socket.set_write_timeout(Some(bound));
        set.map_err(|seen| self.system("setting a timeout", seen))?;
        Ok(self)
    }

    /// Returns the length of the longest frame that can be sent, in bytes including the Ethernet header. The emulated
    /// interface may accept only shorter frames.
    #[must_use]
    pub fn longest(&self) -> usize {
        LONGEST
    }

    /// Sends one frame. Waits for space in the other socket for at most 1 s, or for the time set by
    /// [`DatagramPair::with_send_bound`].
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the frame is too long or too short, the other socket is full, or no process has bound it.
    /// After an error, the frame was not sent.
    pub fn send(&self, frame: &[u8]) -> Result<Stamp, EtherError> {
        let length = frame.len();
        if length < HEADER {
            return Err(EtherError::TooShort { length });
        }
        let too_long = || EtherError::TooLong {
            length,
            most: LONGEST,
            place: self.place(),
        };
        if length > LONGEST {
            return Err(too_long());
        }
        let before = now();
        loop {
            let Err(seen) = self.socket.send_to(frame, &self.remote) else {
                return Ok(Stamp::bracket(before, now()));
            };
            return Err(match seen.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINTR) => continue,
                Some(Errno::EAGAIN) => EtherError::Full {
                    place: self.place(),
                    waited: self.send_bound,
                },
                Some(Errno::ENOENT | Errno::ECONNREFUSED | Errno::ENOTDIR) => EtherError::PeerAbsent {
                    remote: self.remote.clone(),
                    seen,
                },
                Some(Errno::EMSGSIZE) => too_long(),
                _ => self.system("sending", seen),
            });
        }
    }

    /// Returns the next frame, or `None` if no frame arrives within `timeout`. A receive does not notice the death of
    /// the other side; the next send does.
    ///
    /// # Errors
    ///
    /// [`EtherError::System`].
    pub fn receive(&self, timeout: Duration) -> Result<Option<Frame>, EtherError> {
        let start = Instant::now();
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        // With MSG_TRUNC, the result is the length of the whole datagram, even if the buffer is too short.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        loop {
            let began = now();
            let length = match recv(self.socket.as_raw_fd(), &mut receiver.buffer, flags) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => {
                    receiver.empty = began;
                    let left = timeout.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    wait(self.socket.as_fd(), PollFlags::POLLIN, left)
                        .map_err(|seen| self.system("waiting for a frame", seen))?;
                    continue;
                }
                Err(errno) => return Err(self.system("receiving", errno.into())),
            };
            if length > LONGEST {
                receiver.dropped += 1;
                continue;
            }
            let bytes = receiver.buffer[..length].to_vec();
            let stamp = Stamp::bracket(receiver.empty, now());
            return Ok(Some(Frame { bytes, stamp }));
        }
    }

    /// Returns the number of datagrams that were discarded because they were longer than any frame.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).dropped
    }

    #[cfg(test)]
    pub(super) fn socket_for_tests(&self) -> &UnixDatagram {
        &self.socket
    }

    fn place(&self) -> String {
        format!("the socket {}", self.remote.display())
    }

    fn system(&self, call: &'static str, seen: io::Error) -> EtherError {
        EtherError::System {
            call,
            place: self.place(),
            seen,
        }
    }
}

//! `verbatimd model`: the device model as a separate process, in real time, on a unix datagram socket.
//!
//! The device survives the death of its tester. Crash tests and measurements of a tester's real ports use the model.
//! The first sender to the socket is the tester, which is cabled to port 1 of the device. While the tester's own socket
//! exists, the model refuses each other sender. This holds in every container that can reach the model's socket.
//!
//! # Datagrams
//!
//! One datagram is one message, in both directions:
//!
//! | bytes | content |
//! |---|---|
//! | 2 | length of all that follows, big-endian |
//! | 1 | kind |
//! | length − 1 | body |
//!
//! | kind | body | meaning |
//! |---|---|---|
//! | 0x00 | none | a probe: the operating system reports whether the receiver exists |
//! | 0x01 | 256 bytes | a MAD |
//! | 0x02 | a native packet, LRH to VCRC | a packet as it is on the cable |
//! | 0x03 | none | from the model: another tester uses the device |
//!
//! Other kinds are reserved. The model drops a malformed datagram, and reports each kind of fault once on stderr. The
//! sender's socket must be bound to an address, or the model cannot respond.
//!
//! # The link
//!
//! A MAD has the form in which a program passes MADs to its port, or gets them from its port. A directed-route SMP
//! therefore leaves with HopPointer 0, and its response arrives with HopPointer 0. The model performs the steps of
//! the interfaces at both ends of the cable (architecture 14.2.2). It drops an SMP that has no hop and an SMP that
//! leaves through another port, because no cable would carry these SMPs to the device.
//!
//! A native packet has already left its sender's port, so the model does not change it. The packet passes through the
//! link layer of the device's port, which drops invalid packets. The device responds with a packet. The first native
//! packet of a new sender brings the link up again, so the port's state is then Initialize.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use verbatim_device::link::Arrival;
use verbatim_device::{Defect, Device, Profile, Transmit};
use verbatim_sim::{Leaves, NativeLink, packet_of};
use verbatim_socket::{BindError, Bound};
use verbatim_wire::Mad;

use super::datagram::{self, Message};
use super::link;

pub(super) const PORT: u8 = 1;
/// The longest sleep. A signal that arrives just before the sleep waits up to this long.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Interval between two tries to send to a tester with a full queue.
const RETRY: Duration = Duration::from_micros(200);
/// Time that a tester's queue may stay full before the model drops the tester's MADs.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of datagrams that the model receives before it handles the device's own sends.
const BATCH: usize = 64;
/// Limit of MADs that wait for a tester with a full queue.
const MAX_OUTBOX: usize = 4096;

/// A device model and its socket.
#[derive(Clone, Debug)]
pub struct Model {
    /// Path of the socket to create.
    pub listen: PathBuf,
    /// The device's initial state and capabilities.
    pub profile: Profile,
    /// Defects of the device.
    pub defects: Vec<Defect>,
}

/// The reason why the model does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Another process serves the socket.
    #[error(
        "{} is in use by another process, perhaps another model; end it, or listen elsewhere", path.display()
    )]
    InUse {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The path exists and is no socket.
    #[error(
        "{} exists and is {seen}, not the socket of a model that ended; remove it yourself, or listen elsewhere",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// File type of the path.
        seen: &'static str,
    },
    /// The socket cannot be created.
    #[error(
        "no socket can be made at {} ({source}); its directory must exist and be writable, and the path must have less \
         than 108 bytes",
        path.display()
    )]
    Bind {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The socket failed.
    #[error("the socket {} broke ({source}); start the model again", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

impl Model {
    /// Serves until `stop` is set, then removes the socket. Calls `ready` once, when the socket accepts datagrams.
    ///
    /// # Errors
    /// [`ModelError`] when the socket fails. Malformed datagrams and the end of a tester are no errors.
    pub fn serve(&self, stop: &AtomicBool, ready: impl FnOnce(&Path)) -> Result<(), ModelError> {
        // The default timer slack makes a sleep end up to 50 us late. If the call fails, the model only keeps time less
        // exactly.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut served = Served {
            socket: bind(&self.listen)?,
            device: Device::new(self.profile.clone(), &self.defects),
            clock: Instant::now(),
            native: NativeLink::default(),
            partner: None,
            has_packets: false,
            outbox: VecDeque::new(),
            stuck_since: None,
            reported: BTreeSet::new(),
        };
        ready(&self.listen);
        while !stop.load(Ordering::Acquire) {
            served.turn().map_err(|source| ModelError::Socket {
                path: self.listen.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

fn bind(path: &Path) -> Result<Bound<UnixDatagram>, ModelError> {
    let nonblocking = || {
        let socket = UnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    Bound::new(path, nonblocking).map_err(|error| match error {
        BindError::NotASocket { seen } => ModelError::NotASocket {
            path: path.into(),
            seen,
        },
        BindError::InUse => ModelError::InUse { path: path.into() },
        BindError::System(source) => ModelError::Bind {
            path: path.into(),
            source,
        },
    })
}

/// A device model that serves its socket.
struct Served {
    socket: Bound<UnixDatagram>,
    device: Device,
    clock: Instant,
    native: NativeLink,
    /// Address of the tester.
    partner: Option<SocketAddr>,
    /// Whether the tester sends native packets.
    has_packets: bool,
    /// Messages for a tester whose queue is full.
    outbox: VecDeque<Message>,
    stuck_since: Option<Instant>,
    /// Texts that were already reported.
    reported: BTreeSet<String>,
}

impl Served {
    /// Sends pending messages and receives datagrams. Sleeps if no datagram arrived.
    fn turn(&mut self) -> io::Result<()> {
        self.device.tick(self.clock.elapsed());
        self.collect();
        self.deliver();
        let mut taken = 0;
        while taken < BATCH && self.take_one()? {
            taken += 1;
        }
        if taken > 0 {
            return Ok(());
        }
        let mut sleep = LONGEST_SLEEP;
        if let Some(at) = self.device.poll_at() {
            sleep = sleep.min(at.saturating_sub(self.clock.elapsed()));
        }
        if !self.outbox.is_empty() {
            sleep = sleep.min(RETRY);
        }
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut socket, Some(sleep.into()), None) {
            // On a signal, return, so that the caller checks its flag.
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves the device's sends through the cabled port to the outbox.
    fn collect(&mut self) {
        while let Some(transmit) = self.device.poll_transmit() {
            if transmit.port == PORT && self.outbox.len() < MAX_OUTBOX {
                let message = self.message(&transmit);
                self.outbox.extend(message);
            }
        }
    }

    /// Returns the message for a transmit; None if its destination is not the tester.
    fn message(&mut self, transmit: &Transmit) -> Option<Message> {
        let mad = Mad::from(transmit.bytes);
        match self.native.leaves(transmit) {
            Leaves::Packet(packet) => Some(Message::Packet(packet)),
            Leaves::Mad if self.has_packets => Some(Message::Packet(packet_of(transmit.slid, transmit.dlid, &mad))),
            Leaves::Mad => Some(Message::Mad(link::arrives(&mad))),
            Leaves::Elsewhere => None,
        }
    }

    fn deliver(&mut self) {
        while let Some(message) = self.outbox.front() {
            let Some(partner) = &self.partner else {
                // The device sent a trap before a tester came.
                self.outbox.clear();
                return;
            };
            let datagram = datagram::encode(message);
            match self.socket.send_to_addr(&datagram, partner) {
                Ok(_) => {
                    self.outbox.pop_front();
                    self.stuck_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let since = *self.stuck_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < PATIENCE {
                        return;
                    }
                    self.lose("the tester does not read its full queue");
                }
                // The tester died; the device keeps running.
                Err(error) => self.lose(&format!("the tester is gone ({error})")),
            }
        }
        self.stuck_since = None;
    }

    fn lose(&mut self, why: &str) {
        self.outbox.clear();
        self.stuck_since = None;
        self.report(format!("{why}: MADs for it are lost"));
    }

    /// Receives a datagram; false if there is none.
    fn take_one(&mut self) -> io::Result<bool> {
        let mut buffer = [0; datagram::LONGEST];
        let (length, from) = match self.socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // Some systems also report a vanished tester here.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let now = self.clock.elapsed();
        match self.accept(&buffer[..length], from) {
            Ok(Message::Mad(mad)) => self.device.handle(now, PORT, mad.bytes()),
            Ok(Message::Packet(bytes)) => {
                let arrival = Arrival::good(&bytes);
                // A channel adapter forwards no packet.
                let _ = self.native.receive((&mut self.device, now), PORT, &arrival, false);
            }
            Ok(Message::Nothing | Message::InUse) => {}
            Err(what) => self.report(format!("dropped: {what}")),
        }
        Ok(true)
    }

    fn accept(&mut self, datagram: &[u8], from: SocketAddr) -> Result<Message, String> {
        let message = datagram::decode(datagram).map_err(|junk| junk.to_string())?;
        if from.is_unnamed() {
            return Err("a datagram from a socket without an address cannot be answered; bind it first".into());
        }
        if self.partner.as_ref().is_none_or(|known| !same(known, &from)) {
            if self.is_in_use() {
                let refusal = datagram::encode(&Message::InUse);
                // Ignore an error: the sender may be gone already.
                let _ = self.socket.send_to_addr(&refusal, &from);
                return Err("a datagram of a second tester, while the first one uses the device".into());
            }
            // The queued messages are for the former tester.
            self.outbox.clear();
            self.stuck_since = None;
            self.partner = Some(from);
            self.has_packets = false;
        }
        match &message {
            Message::Nothing | Message::InUse => {}
            Message::Mad(mad) => return link::leaves(mad).map(Message::Mad).map_err(str::to_owned),
            Message::Packet(_) if self.has_packets => {}
            Message::Packet(_) => {
                self.has_packets = true;
                self.device.link_up(PORT);
            }
        }
        Ok(message)
    }

    /// Returns whether the tester's socket still exists. The kernel closes it when the tester's process ends.
    fn is_in_use(&self) -> bool {
        let probe = datagram::encode(&Message::Nothing);
        let sent = self
            .partner
            .as_ref()
            .map(|partner| self.socket.send_to_addr(&probe, partner));
        match sent {
            None => false,
            Some(Ok(_)) => true,
            Some(Err(error)) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// Reports each text once.
    fn report(&mut self, what: String) {
        if self.reported.len() < 64 && !self.reported.contains(&what) {
            tell(format_args!("verbatimd model: {what}; this is not reported again"));
            self.reported.insert(what);
        }
    }
}

fn same(a: &SocketAddr, b: &SocketAddr) -> bool {
    use std::os::linux::net::SocketAddrExt;
    (a.as_pathname(), a.as_abstract_name()) == (b.as_pathname(), b.as_abstract_name())
}

/// Writes a line to stderr. Ignores errors, because the model may outlive the process that reads stderr.
fn tell(words: core::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

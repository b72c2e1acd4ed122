//! `verbatimd model`: the device model as a process of its own, in real time, behind a unix datagram socket.
//!
//! A device that survives the death of its tester: for crash tests, and for a tester's real ports to be measured
//! against. Who sends to the socket is cabled to port 1 of the device, until somebody else sends.
//!
//! # Datagrams
//!
//! One datagram is one message, in both directions:
//!
//! | bytes | what |
//! |---|---|
//! | 2 | length of all that follows, big-endian |
//! | 1 | kind |
//! | length − 1 | body |
//!
//! | kind | body | meaning |
//! |---|---|---|
//! | 0x00 | none | nothing: its sender wants to know whether somebody is there, which its system tells |
//! | 0x01 | 256 bytes | a MAD |
//! | 0x02 | a native packet, LRH to VCRC | what a port sends on its cable, as it is there |
//!
//! Other kinds are reserved. A datagram that is not of this form is reported once on stderr, by its sort of fault,
//! and dropped. The sender's socket must have an address of its own, or nobody can answer.
//!
//! # The link
//!
//! A MAD is as its sender's program hands it to its port, and as it gets it from there: a directed-route SMP leaves
//! with HopPointer 0, and its answer comes with HopPointer 0. The steps of the interfaces at both ends of the cable
//! (architecture 14.2.2) happen here. An SMP that would not have come to this device, because it has no hop or leaves
//! by another port, is dropped like a malformed datagram.
//!
//! A native packet has left its sender's port: nothing is done to it. It goes through the link layer of the device's
//! port, which drops what no port would take, and is answered by a packet. With the first one of a new sender the link
//! comes up anew: the port's state is Initialize.

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

/// The port of the device that the tester is cabled to.
pub(super) const PORT: u8 = 1;
/// The longest sleep: how late a signal may be obeyed that came just before it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// How soon a tester with a full queue is tried again.
const RETRY: Duration = Duration::from_micros(200);
/// How long a tester may leave its queue full before the MADs for it are lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Datagrams taken before the device's own answers are looked after.
const BATCH: usize = 64;
/// MADs that wait for a tester with a full queue.
const MAX_OUTBOX: usize = 4096;

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct Model {
    /// The socket to make.
    pub listen: PathBuf,
    /// The device as found.
    pub profile: Profile,
    /// What it does wrong.
    pub defects: Vec<Defect>,
}

/// Why the model does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Somebody serves that socket.
    #[error(
        "{} is in use: a process answers there, another model perhaps; end it, or listen elsewhere", path.display()
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there.
    #[error(
        "{} exists and is {seen}, not the socket of a model that ended; remove it yourself, or listen elsewhere",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// What is there.
        seen: &'static str,
    },
    /// The socket cannot be made.
    #[error(
        "no socket can be made at {} ({source}); its directory must exist and be writable, and the path must have less \
         than 108 bytes",
        path.display()
    )]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket broke.
    #[error("the socket {} broke ({source}); start the model again", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Model {
    /// Serves until `stop` is set; then the socket is removed. `ready` is called once, when the socket takes datagrams.
    ///
    /// # Errors
    /// [`ModelError`]. Nothing that arrives at the socket is an error, and the end of a tester is none.
    pub fn serve(&self, stop: &AtomicBool, ready: impl FnOnce(&Path)) -> Result<(), ModelError> {
        // Sleeps end when they should, not 50 us later. It is only this much worse where it cannot be had.
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

/// Makes the model's socket.
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

/// A device at its socket.
struct Served {
    socket: Bound<UnixDatagram>,
    device: Device,
    clock: Instant,
    native: NativeLink,
    /// Who is at the other end of the cable.
    partner: Option<SocketAddr>,
    /// Whether it sends native packets.
    has_packets: bool,
    /// What a partner whose queue is full has not got yet.
    outbox: VecDeque<Message>,
    stuck_since: Option<Instant>,
    /// What was reported, so that it is reported once.
    reported: BTreeSet<String>,
}

impl Served {
    /// Sends what is due, takes what is there, and sleeps when neither was anything.
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
            // A signal: whoever set a flag in it is asked next.
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the device sends by the port that is cabled.
    fn collect(&mut self) {
        while let Some(transmit) = self.device.poll_transmit() {
            if transmit.port == PORT && self.outbox.len() < MAX_OUTBOX {
                let message = self.message(&transmit);
                self.outbox.extend(message);
            }
        }
    }

    /// How it leaves; `None` when it goes to somebody else than the tester.
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
                // A trap, and nobody was ever there.
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
                    self.lose("the tester leaves its queue full");
                }
                // The tester died. The device does not.
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

    /// Takes a datagram, if one is there.
    fn take_one(&mut self) -> io::Result<bool> {
        let mut buffer = [0; datagram::LONGEST];
        let (length, from) = match self.socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // A partner that went away shows here too, on some systems.
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
                // A channel adapter sends nothing on.
                let _ = self.native.receive((&mut self.device, now), PORT, &arrival, false);
            }
            Ok(Message::Nothing) => {}
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
            // What waits for the former partner is not for this one.
            self.outbox.clear();
            self.stuck_since = None;
            self.partner = Some(from);
            self.has_packets = false;
        }
        match &message {
            Message::Nothing => {}
            Message::Mad(mad) => return link::leaves(mad).map(Message::Mad).map_err(str::to_owned),
            Message::Packet(_) if self.has_packets => {}
            Message::Packet(_) => {
                self.has_packets = true;
                self.device.link_up(PORT);
            }
        }
        Ok(message)
    }

    /// Once for each text.
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

/// Says something on stderr, if anybody still reads it: a device outlives whoever started it.
fn tell(words: core::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

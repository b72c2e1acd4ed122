//! Raw frames through a network interface.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::PollFlags,
    sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, TimestampingFlag, getsockopt, send, setsockopt, socket, sockopt,
    },
    time::ClockId,
};

use crate::wait::wait;

use super::{
    Frame,
    error::EtherError,
    hardware::{DRIFT, HardwareClock},
    interface::{HEADER, Interface, TAG},
    message::{Message, receive, receive_error},
    stamp::{Reading, Stamp, StampSource, now},
    sys,
};

/// Longest wait of a send for its stamp.
const STAMP_BOUND: Duration = Duration::from_millis(2);
/// After this many sends without a stamp, sends no longer wait for stamps, until one arrives by itself.
const MISSES: u32 = 3;
/// Longest wait of a send for space in the queue.
const SEND_BOUND: Duration = Duration::from_millis(100);
/// Pause between two tries while the interface's queue is full. The kernel does not announce free space there.
const PAUSE: Duration = Duration::from_micros(100);
/// Receive buffer requested from the kernel, in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;
/// The longest frame that is received whole: four times the size of a merged receive.
const LONGEST: usize = 256 << 10;

/// Raw Ethernet frames through one interface.
///
/// It receives every frame that arrives there, of all protocols and for all destinations: the interface is promiscuous
/// until this is dropped. It receives no frames that this machine sends, unless [`PacketSocket::listen`] opened it. The
/// kernel also handles the same frames, so an address of the tester must not be configured on this machine.
///
/// One thread can send while another receives.
#[derive(Debug)]
pub struct PacketSocket {
    interface: Interface,
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
    hardware: Option<HardwareClock>,
}

/// The sending socket. It receives nothing: stamps of sent frames arrive as errors and would wake the receiver.
#[derive(Debug)]
struct Sender {
    fd: OwnedFd,
    /// Key that the kernel will give to the stamp of the next frame.
    key: u32,
    misses: u32,
}

struct Receiver {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// Time when the socket was last seen empty.
    empty: Duration,
    dropped: u64,
    /// Whether frames that this machine sends are received, too.
    sees_sent: bool,
    /// Whether the kernel reported that the interface went down, which it reports only once.
    down: bool,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves out the buffer of a quarter of a megabyte.
        f.debug_struct("Receiver")
            .field("fd", &self.fd)
            .field("empty", &self.empty)
            .finish_non_exhaustive()
    }
}

impl PacketSocket {
    /// Opens `interface`, which must exist in this network namespace, be Ethernet, and be up.
    ///
    /// If the adapter has a clock and can stamp every frame, its stamping is switched on, and restored at the end.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: CAP_NET_RAW is missing, or the interface is absent, down, or not Ethernet.
    pub fn open(interface: &str) -> Result<PacketSocket, EtherError> {
        Self::open_for(interface, false)
    }

    /// Opens `interface` for a capture. The socket also receives the frames that this machine sends, and leaves the
    /// adapter's stamping unchanged.
    ///
    /// # Errors
    ///
    /// As [`PacketSocket::open`].
    pub fn listen(interface: &str) -> Result<PacketSocket, EtherError> {
        Self::open_for(interface, true)
    }

    fn open_for(interface: &str, sees_sent: bool) -> Result<PacketSocket, EtherError> {
        let socket = || {
            packet_socket().map_err(|errno| match errno {
                Errno::EPERM | Errno::EACCES => EtherError::NotPermitted {
                    interface: interface.to_owned(),
                    seen: errno.into(),
                },
                _ => EtherError::System {
                    call: "opening a packet socket",
                    place: format!("interface {interface}"),
                    seen: errno.into(),
                },
            })
        };
        let (sending, receiving) = (socket()?, socket()?);
        let interface = Interface::find(&receiving, interface)?;
        let hardware = if sees_sent {
            None
        } else {
            HardwareClock::start(&interface)
        };
        let empty = now();
        configure(&sending, &receiving, &interface, (hardware.is_some(), sees_sent))?;
        Ok(PacketSocket {
            interface,
            sender: Mutex::new(Sender {
                fd: sending,
                key: 0,
                misses: 0,
            }),
            receiver: Mutex::new(Receiver {
                fd: receiving,
                buffer: vec![0; LONGEST],
                empty,
                dropped: 0,
                sees_sent,
                down: false,
            }),
            hardware,
        })
    }

    /// Returns the name of the interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface.name
    }

    /// Returns the Ethernet address that the interface had when it was opened.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.interface.mac
    }

    /// Returns the largest payload behind the Ethernet header, in bytes, when the interface was opened.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.interface.mtu
    }

    /// Returns the best source of stamps that is available. A single frame may have a worse stamp.
    #[must_use]
    pub fn stamps(&self) -> StampSource {
        match self.hardware {
            Some(_) => StampSource::Hardware,
            None => StampSource::KernelSoftware,
        }
    }

    /// Sends one frame and waits for its stamp, at most 2 ms. If stamps keep missing, later sends no longer wait.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the frame is too long or too short, or the interface is full, down or removed. The frame was not
    /// sent then.
    pub fn send(&self, frame: &[u8]) -> Result<Stamp, EtherError> {
        let length = frame.len();
        if length < HEADER {
            return Err(EtherError::TooShort { length });
        }
        // The kernel allows extra length for this tag only, and none for the tag of provider bridges.
        let tagged = frame[12..HEADER] == [0x81, 0x00];
        let most = self.interface.mtu + HEADER + if tagged { TAG } else { 0 };
        let too_long = || EtherError::TooLong {
            length,
            most,
            place: self.place(),
        };
        if length > most {
            return Err(too_long());
        }
        let mut sender = lock(&self.sender);
        let start = Instant::now();
        loop {
            let before = now();
            let Err(errno) = send(sender.fd.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT) else {
                return Ok(self.sent(&mut sender, before));
            };
            let fd = sender.fd.as_fd();
            let room = match errno {
                _ if start.elapsed() >= SEND_BOUND => {
                    let waited = SEND_BOUND;
                    let place = self.place();
                    return Err(EtherError::Full { place, waited });
                }
                Errno::EAGAIN => wait(fd, PollFlags::POLLOUT, SEND_BOUND),
                Errno::ENOBUFS => wait(fd, PollFlags::empty(), PAUSE),
                Errno::EINTR => continue,
                // The MTU was lowered after the open.
                Errno::EMSGSIZE => return Err(too_long()),
                Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV => return Err(self.interface.lost()),
                _ => return Err(self.interface.system("sending", errno.into())),
            };
            room.map_err(|seen| self.interface.system("waiting for room", seen))?;
        }
    }

    /// Returns the stamp of the frame whose send began at `before`.
    fn sent(&self, sender: &mut Sender, before: Duration) -> Stamp {
        let bound = if sender.misses < MISSES {
            STAMP_BOUND
        } else {
            Duration::ZERO
        };
        let start = Instant::now();
        loop {
            match receive_error(&sender.fd) {
                Ok(Message {
                    key: Some(key),
                    software,
                    hardware,
                    ..
                }) => {
                    sender.misses = 0;
                    if is_before(key, sender.key) {
                        continue; // A late stamp of an earlier frame.
                    }
                    // The kernel also counts frames that it then drops, so its key may be ahead of ours.
                    sender.key = key.wrapping_add(1);
                    let known = Stamp::bracket(before, now());
                    return self
                        .convert(software, hardware)
                        .map_or(known, |(bounds, source)| known.narrowed(bounds, source));
                }
                Ok(_) => {}
                Err(Errno::EAGAIN) => {
                    let left = bound.saturating_sub(start.elapsed());
                    if left.is_zero() || wait(sender.fd.as_fd(), PollFlags::empty(), left).is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        sender.misses = sender.misses.saturating_add(1);
        sender.key = sender.key.wrapping_add(1);
        Stamp::bracket(before, now())
    }

    /// Returns the next frame, or `None` if none comes within `timeout`.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the interface went down or was removed.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Frame>, EtherError> {
        let start = Instant::now();
        let mut receiver = lock(&self.receiver);
        loop {
            let began = now();
            let Receiver { fd, buffer, .. } = &mut *receiver;
            match receive(fd, buffer) {
                Ok(message) if message.length > LONGEST => receiver.dropped += 1,
                Ok(message) if message.kind == sys::PACKET_OUTGOING && !receiver.sees_sent => {}
                Ok(message) => {
                    let bytes = with_tag(&receiver.buffer[..message.length], message.vlan);
                    let stamp = self.received(receiver.empty, began, &message);
                    return Ok(Some(Frame { bytes, stamp }));
                }
                Err(Errno::EAGAIN) => {
                    receiver.empty = began;
                    let left = timeout.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return self.nothing(&mut receiver);
                    }
                    wait(receiver.fd.as_fd(), PollFlags::POLLIN, left)
                        .map_err(|seen| self.interface.system("waiting for a frame", seen))?;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::ENETDOWN | Errno::ENXIO | Errno::ENODEV) => {
                    receiver.down = true;
                    return Err(self.interface.lost());
                }
                Err(errno) => return Err(self.interface.system("receiving", errno.into())),
            }
        }
    }

    /// Returns the number of received frames that were lost because this process did not read them in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let mut receiver = lock(&self.receiver);
        // The kernel counts since the last query.
        if let Ok(more) = getsockopt(&receiver.fd, sys::Statistics) {
            receiver.dropped += u64::from(more.tp_drops);
        }
        receiver.dropped
    }

    /// Returns `None`, or an error if the interface is down.
    fn nothing(&self, receiver: &mut Receiver) -> Result<Option<Frame>, EtherError> {
        if receiver.down && !self.interface.is_up(&receiver.fd) {
            return Err(self.interface.lost());
        }
        receiver.down = false;
        Ok(None)
    }

    /// Returns the stamp of a frame that was read by a call which began at `began`.
    fn received(&self, empty: Duration, began: Duration, message: &Message) -> Stamp {
        let converted = self.convert(message.software, message.hardware);
        let read = now();
        match converted {
            Some((bounds, source)) => Stamp::received((empty, began, read), bounds, source),
            None => Stamp::bracket(empty, read),
        }
    }

    /// Converts a stamp to the monotonic clock.
    fn convert(
        &self,
        software: Option<Duration>,
        hardware: Option<Duration>,
    ) -> Option<((Duration, Duration), StampSource)> {
        let adapter = hardware.and_then(|stamp| Some((stamp, self.hardware.as_ref()?.read()?)));
        if let Some((stamp, reading)) = adapter {
            return Some((reading.convert(stamp, DRIFT), StampSource::Hardware));
        }
        // The kernel adjusts the rate of both clocks alike, so they do not drift apart.
        let reading = Reading::take(ClockId::CLOCK_REALTIME)?;
        Some((reading.convert(software?, 0), StampSource::KernelSoftware))
    }

    fn place(&self) -> String {
        format!("interface {}", self.interface.name)
    }
}

/// Whether `key` was given before `other`. Keys wrap around.
pub(super) fn is_before(key: u32, other: u32) -> bool {
    key.wrapping_sub(other).cast_signed() < 0
}

/// Opens a packet socket that is not bound and receives nothing.
pub(super) fn packet_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Packet, SockType::Raw, flags, None)
}

/// Sets both sockets up. The last step lets the receiving socket receive.
fn configure(
    sending: &OwnedFd,
    receiving: &OwnedFd,
    interface: &Interface,
    (hardware, sees_sent): (bool, bool),
) -> Result<(), EtherError> {
    let system = |call| move |errno: Errno| interface.system(call, errno.into());
    let mut transmit = TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    let mut receive = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    if hardware {
        let raw = TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE;
        transmit |= TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE | raw;
        receive |= TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE | raw;
    }
    for (fd, flags) in [(sending, transmit), (receiving, receive)] {
        setsockopt(fd, sockopt::Timestamping, &flags).map_err(system("asking for stamps"))?;
    }
    sys::bind_packet(sending, interface.index, 0).map_err(system("binding"))?;

    // Kernels before 4.20 lack this option. With them, the type of the sender's address identifies sent frames.
    let _ = setsockopt(receiving, sys::IgnoreOutgoing, &!sees_sent);
    setsockopt(receiving, sys::Auxdata, &true).map_err(system("asking for VLAN tags"))?;
    // The first call exceeds the system's limit but needs CAP_NET_ADMIN.
    if setsockopt(receiving, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = setsockopt(receiving, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
    let promiscuous = sys::promiscuous(interface.index);
    setsockopt(receiving, sys::AddMembership, &promiscuous).map_err(system("making it promiscuous"))?;
    sys::bind_packet(receiving, interface.index, sys::ETH_P_ALL as u16).map_err(system("binding"))
}

/// Restores the frame as it was on the wire: the kernel removes a VLAN tag and delivers it separately.
pub(super) fn with_tag(frame: &[u8], vlan: Option<(u16, u16)>) -> Vec<u8> {
    let Some((protocol, control)) = vlan else {
        return frame.to_vec();
    };
    let (addresses, rest) = frame.split_at(frame.len().min(12));
    [addresses, &protocol.to_be_bytes(), &control.to_be_bytes(), rest].concat()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
/// After this many consecutive sends without a stamp, sends no longer wait for their stamps. They wait again once
/// a stamp arrives.
const MISSES: u32 = 3;
/// Longest wait of a send for space in the queue.
const SEND_BOUND: Duration = Duration::from_secs(1);
/// Pause between two tries while the interface's queue is full. The kernel does not report when this queue has space
/// again.
const PAUSE: Duration = Duration::from_micros(100);
/// Receive buffer requested from the kernel, in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Longest frame that can be received, in bytes: four times the 64 KiB of a frame merged by receive offload.
const LONGEST: usize = 256 << 10;

/// Raw Ethernet frames through one interface.
///
/// The socket receives every frame that arrives at the interface, of all protocols and for all destinations. The
/// interface is promiscuous until the socket is dropped. The socket receives frames that this machine sends only
/// if [`PacketSocket::listen`] opened it. The kernel handles the received frames too, and would respond to frames
/// for its own addresses. The tester's address must therefore not be configured on this machine.
///
/// One thread can send while another receives.
#[derive(Debug)]
pub struct PacketSocket {
    interface: Interface,
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
    hardware: Option<HardwareClock>,
}

/// The sending socket, separate from the receiving socket: stamps of sent frames arrive as errors, which would
/// wake the receiver.
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
    /// Whether the socket also receives frames that this machine sends.
    sees_sent: bool,
    /// Whether the kernel reported that the interface went down. The kernel reports this only once.
    down: bool,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("fd", &self.fd)
            .field("empty", &self.empty)
            .finish_non_exhaustive()
    }
}

impl PacketSocket {
    /// Opens `interface`, which must exist in this network namespace, be Ethernet, and be up.
    ///
    /// If the adapter has a clock and can stamp every frame, switches its stamping on until the socket is dropped.
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

    /// Returns the MTU that the interface had when it was opened, in bytes without the Ethernet header.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.interface.mtu
    }

    /// Returns the best source of stamps on this socket. The stamp of a single frame may have a worse source.
    #[must_use]
    pub fn stamps(&self) -> StampSource {
        match self.hardware {
            Some(_) => StampSource::Hardware,
            None => StampSource::KernelSoftware,
        }
    }

    /// Sends one frame and waits for its stamp, at most 2 ms. After three consecutive sends without a stamp, later
    /// sends no longer wait.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the frame is too long or too short, or the interface is full, down or removed. After an
    /// error, the frame was not sent.
    pub fn send(&self, frame: &[u8]) -> Result<Stamp, EtherError> {
        let length = frame.len();
        if length < HEADER {
            return Err(EtherError::TooShort { length });
        }
        // The kernel allows the extra length only for an 802.1Q tag, not for an 802.1ad tag.
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

    /// Waits for the stamp of the frame that was sent after `before`, and returns the bounds.
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
                    // The kernel also counts frames that it then drops, so its key may be ahead of `sender.key`.
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

    /// Returns the next frame, or `None` if no frame arrives within `timeout`.
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

    /// Returns the number of frames that were lost, because they were too long or were not read in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let mut receiver = lock(&self.receiver);
        // The kernel resets its counter at each query.
        if let Ok(more) = getsockopt(&receiver.fd, sys::Statistics) {
            receiver.dropped += u64::from(more.tp_drops);
        }
        receiver.dropped
    }

    /// Returns `None`, or an error if the interface went down and is still down.
    fn nothing(&self, receiver: &mut Receiver) -> Result<Option<Frame>, EtherError> {
        if receiver.down && !self.interface.is_up(&receiver.fd) {
            return Err(self.interface.lost());
        }
        receiver.down = false;
        Ok(None)
    }

    /// Returns the stamp of a received frame. The socket was last seen empty at `empty`, and the call that read the
    /// frame began at `began`.
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
        // The kernel adjusts the rates of CLOCK_REALTIME and CLOCK_MONOTONIC alike, so these clocks do not drift apart.
        let reading = Reading::take(ClockId::CLOCK_REALTIME)?;
        Some((reading.convert(software?, 0), StampSource::KernelSoftware))
    }

    fn place(&self) -> String {
        format!("interface {}", self.interface.name)
    }
}

/// Whether the kernel gave `key` to an earlier frame than `other`. Keys wrap around.
pub(super) fn is_before(key: u32, other: u32) -> bool {
    key.wrapping_sub(other).cast_signed() < 0
}

/// Opens a packet socket that is not bound and receives nothing.
pub(super) fn packet_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Packet, SockType::Raw, flags, None)
}

/// Configures both sockets. The last step starts the reception.
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

    // Kernels before 4.20 lack this option. On such a kernel, `PacketSocket::receive` skips sent frames by their packet
    // type.
    let _ = setsockopt(receiving, sys::IgnoreOutgoing, &!sees_sent);
    setsockopt(receiving, sys::Auxdata, &true).map_err(system("asking for VLAN tags"))?;
    // `RcvBufForce` may exceed the system's limit, but needs CAP_NET_ADMIN.
    if setsockopt(receiving, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = setsockopt(receiving, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
    let promiscuous = sys::promiscuous(interface.index);
    setsockopt(receiving, sys::AddMembership, &promiscuous).map_err(system("making it promiscuous"))?;
    sys::bind_packet(receiving, interface.index, sys::ETH_P_ALL as u16).map_err(system("binding"))
}

/// Puts the VLAN tag back into a frame, because the kernel removes the tag and delivers it separately.
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

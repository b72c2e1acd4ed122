//! Raw frames through a network interface.

use std::{
    ffi::c_int,
    fmt, io,
    os::fd::{AsRawFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::wait::wait;

use super::{
    Frame,
    error::EtherError,
    hardware::{DRIFT, HardwareClock},
    interface::{HEADER, Interface, TAG},
    stamp::{Reading, Stamp, StampSource, now},
    sys::{self, Message},
};

/// How long a send waits for its stamp.
const STAMP_BOUND: Duration = Duration::from_millis(2);
/// After so many sends without a stamp, sends wait for none, until one comes by itself.
const MISSES: u32 = 3;
/// How long a send waits for room.
const SEND_BOUND: Duration = Duration::from_millis(100);
/// Between two tries when the interface's queue is full, which nothing announces.
const PAUSE: Duration = Duration::from_micros(100);
/// Receive buffer asked of the kernel, in bytes.
const RECEIVE_BUFFER: c_int = 8 << 20;
/// The longest frame that is received whole: four times what a merged receive has.
const LONGEST: usize = 256 << 10;

/// Raw Ethernet frames through one interface.
///
/// Receives every frame that arrives there, of all protocols and for all destinations (the interface is promiscuous
/// while this lives), and none that this machine sends. The kernel goes on handling the same frames itself: an address
/// that the tester plays must not be configured on this machine.
///
/// One thread can send while another receives.
#[derive(Debug)]
pub struct PacketSocket {
    interface: Interface,
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
    hardware: Option<HardwareClock>,
}

/// Its own socket, which receives nothing: stamps of sent frames arrive as errors, and would wake the receiver.
#[derive(Debug)]
struct Sender {
    fd: OwnedFd,
    /// Number that the kernel gives to the stamp of the next frame.
    key: u32,
    misses: u32,
}

struct Receiver {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// When the socket was last seen empty.
    empty: Duration,
    dropped: u64,
    /// The kernel said that the interface went down, which it says once.
    down: bool,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not a quarter of a megabyte of buffer.
        f.debug_struct("Receiver")
            .field("fd", &self.fd)
            .field("empty", &self.empty)
            .finish_non_exhaustive()
    }
}

impl PacketSocket {
    /// Opens `interface`, which must exist in this network namespace, be Ethernet, and be up.
    ///
    /// If the adapter has a clock and can stamp every frame, its stamping is switched on, and put back at the end.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the right CAP_NET_RAW is missing, or the interface is absent, down, or not Ethernet.
    pub fn open(interface: &str) -> Result<PacketSocket, EtherError> {
        let socket = || {
            sys::packet_socket().map_err(|seen| match seen.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => EtherError::NotPermitted {
                    interface: interface.to_owned(),
                    seen,
                },
                _ => EtherError::System {
                    call: "opening a packet socket",
                    place: format!("interface {interface}"),
                    seen,
                },
            })
        };
        let (sending, receiving) = (socket()?, socket()?);
        let interface = Interface::find(&receiving, interface)?;
        let hardware = HardwareClock::start(&interface);
        let empty = now();
        configure(&sending, &receiving, &interface, hardware.is_some())?;
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
                down: false,
            }),
            hardware,
        })
    }

    /// Name of the interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface.name
    }

    /// Ethernet address of the interface, when it was opened.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.interface.mac
    }

    /// Largest payload behind the Ethernet header, when it was opened.
    #[must_use]
    pub fn mtu(&self) -> usize {
        self.interface.mtu
    }

    /// The best stamps that can be expected. A single frame may come with less.
    #[must_use]
    pub fn stamps(&self) -> StampSource {
        match self.hardware {
            Some(_) => StampSource::Hardware,
            None => StampSource::KernelSoftware,
        }
    }

    /// Sends one frame, and waits for its stamp, at most 2 ms. Where stamps do not come, it soon stops waiting.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the frame is too long or too short, the interface is full, down or gone. Nothing was sent then.
    pub fn send(&self, frame: &[u8]) -> Result<Stamp, EtherError> {
        let length = frame.len();
        if length < HEADER {
            return Err(EtherError::TooShort { length });
        }
        // The kernel adds room for this tag alone, not for that of provider bridges.
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
            let Err(seen) = sys::send(&sender.fd, frame) else {
                return Ok(self.sent(&mut sender, before));
            };
            let fd = sender.fd.as_raw_fd();
            let room = match seen.raw_os_error() {
                _ if start.elapsed() >= SEND_BOUND => {
                    let waited = SEND_BOUND;
                    let place = self.place();
                    return Err(EtherError::Full { place, waited });
                }
                Some(libc::EAGAIN) => wait(fd, libc::POLLOUT, SEND_BOUND),
                Some(libc::ENOBUFS) => wait(fd, 0, PAUSE),
                Some(libc::EINTR) => Ok(0),
                // The MTU was lowered since the open.
                Some(libc::EMSGSIZE) => return Err(too_long()),
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => return Err(self.interface.lost()),
                _ => return Err(self.interface.system("sending", seen)),
            };
            room.map_err(|seen| self.interface.system("waiting for room", seen))?;
        }
    }

    /// The stamp of the frame whose send began at `before`.
    fn sent(&self, sender: &mut Sender, before: Duration) -> Stamp {
        let bound = if sender.misses < MISSES {
            STAMP_BOUND
        } else {
            Duration::ZERO
        };
        let start = Instant::now();
        loop {
            match sys::receive(&sender.fd, &mut [], libc::MSG_ERRQUEUE) {
                Ok(Message {
                    key: Some(key),
                    software,
                    hardware,
                    ..
                }) => {
                    sender.misses = 0;
                    if is_before(key, sender.key) {
                        continue; // A late one, of an earlier frame.
                    }
                    // The kernel counts frames that it then drops, so its number may be ahead of ours.
                    sender.key = key.wrapping_add(1);
                    let known = Stamp::bracket(before, now());
                    return self
                        .convert(software, hardware)
                        .map_or(known, |(bounds, source)| known.narrowed(bounds, source));
                }
                Ok(_) => {}
                Err(seen) if seen.kind() == io::ErrorKind::WouldBlock => {
                    let left = bound.saturating_sub(start.elapsed());
                    if left.is_zero() || wait(sender.fd.as_raw_fd(), 0, left).is_err() {
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

    /// The next frame; `None` when none came within `timeout`.
    ///
    /// # Errors
    ///
    /// [`EtherError`]: the interface went down or away.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Frame>, EtherError> {
        let start = Instant::now();
        let mut receiver = lock(&self.receiver);
        loop {
            let began = now();
            let Receiver { fd, buffer, .. } = &mut *receiver;
            match sys::receive(fd, buffer, 0) {
                Ok(message) if message.length > LONGEST => receiver.dropped += 1,
                Ok(message) if message.kind == libc::PACKET_OUTGOING => {}
                Ok(message) => {
                    let bytes = with_tag(&receiver.buffer[..message.length], message.vlan);
                    let stamp = self.received(receiver.empty, began, &message);
                    return Ok(Some(Frame { bytes, stamp }));
                }
                Err(seen) => match seen.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        receiver.empty = began;
                        let left = timeout.saturating_sub(start.elapsed());
                        if left.is_zero() {
                            return self.nothing(&mut receiver);
                        }
                        wait(receiver.fd.as_raw_fd(), libc::POLLIN, left)
                            .map_err(|seen| self.interface.system("waiting for a frame", seen))?;
                    }
                    Some(libc::EINTR) => {}
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        receiver.down = true;
                        return Err(self.interface.lost());
                    }
                    _ => return Err(self.interface.system("receiving", seen)),
                },
            }
        }
    }

    /// Frames that arrived and were lost because nobody received them in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let mut receiver = lock(&self.receiver);
        let more = sys::drops(&receiver.fd).unwrap_or(0);
        receiver.dropped += u64::from(more);
        receiver.dropped
    }

    /// No frame: is that because the interface is down?
    fn nothing(&self, receiver: &mut Receiver) -> Result<Option<Frame>, EtherError> {
        if receiver.down && !self.interface.is_up(&receiver.fd) {
            return Err(self.interface.lost());
        }
        receiver.down = false;
        Ok(None)
    }

    /// The stamp of a frame that was read by a call which began at `began`.
    fn received(&self, empty: Duration, began: Duration, message: &Message) -> Stamp {
        let converted = self.convert(message.software, message.hardware);
        let read = now();
        match converted {
            Some((bounds, source)) => Stamp::received((empty, began, read), bounds, source),
            None => Stamp::bracket(empty, read),
        }
    }

    /// A stamp on the monotonic clock.
    fn convert(
        &self,
        software: Option<Duration>,
        hardware: Option<Duration>,
    ) -> Option<((Duration, Duration), StampSource)> {
        let adapter = hardware.and_then(|stamp| Some((stamp, self.hardware.as_ref()?.read()?)));
        if let Some((stamp, reading)) = adapter {
            return Some((reading.convert(stamp, DRIFT), StampSource::Hardware));
        }
        // Both clocks are steered alike, so they do not drift apart.
        let reading = Reading::take(libc::CLOCK_REALTIME)?;
        Some((reading.convert(software?, 0), StampSource::KernelSoftware))
    }

    fn place(&self) -> String {
        format!("interface {}", self.interface.name)
    }
}

/// Whether `key` was given before `other`; keys wrap.
pub(super) fn is_before(key: u32, other: u32) -> bool {
    key.wrapping_sub(other).cast_signed() < 0
}

/// Sets both sockets up; the receiving one begins to receive with the last step.
fn configure(sending: &OwnedFd, receiving: &OwnedFd, interface: &Interface, hardware: bool) -> Result<(), EtherError> {
    let system = |call| move |seen| interface.system(call, seen);
    let mut transmit = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let mut receive = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    if hardware {
        transmit |= libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        receive |= libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    }
    for (fd, flags) in [(sending, transmit), (receiving, receive)] {
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags).map_err(system("asking for stamps"))?;
    }
    sys::bind_packet(sending, interface.index, 0).map_err(system("binding"))?;

    let on: c_int = 1;
    // Kernels before 4.20 do not know it; there such frames are told by their kind.
    let _ = sys::set_option(receiving, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on);
    sys::set_option(receiving, libc::SOL_PACKET, libc::PACKET_AUXDATA, &on).map_err(system("asking for VLAN tags"))?;
    // Beyond the system's limit with CAP_NET_ADMIN, up to it without.
    if sys::set_option(receiving, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
        let _ = sys::set_option(receiving, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER);
    }
    let promiscuous = libc::packet_mreq {
        mr_ifindex: interface.index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    sys::set_option(receiving, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)
        .map_err(system("making it promiscuous"))?;
    sys::bind_packet(receiving, interface.index, libc::ETH_P_ALL as u16).map_err(system("binding"))
}

/// The frame as it was on the wire: the kernel takes a VLAN tag out and hands it over beside the frame.
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

//! An open port: sending and receiving.

use std::{
    ffi::c_void,
    io,
    ptr::NonNull,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use super::{
    destination::Destination,
    error::{OpenError, PortGone, SendError},
    ffi::Header,
    library::Library,
    open::{Helper, Opened, bounded, open},
};

/// Length of a MAD in bytes.
pub const MAD_LENGTH: usize = 256;

/// A received MAD, or a sent MAD that the kernel returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The MAD; zero beyond `length`.
    pub mad: [u8; MAD_LENGTH],
    /// Number of delivered bytes. A sent MAD that the kernel returned has only the 24 bytes of the header.
    pub length: usize,
    /// 0 for a received MAD, or the error number of a sent MAD that the kernel returned. It is 110 (ETIMEDOUT) if no
    /// response came within the timeout of the send, and 5 (EIO) if the MAD could not be sent.
    pub status: i32,
    /// LID of the sender; 0 or 0xFFFF for a directed route.
    pub slid: u16,
    /// Service level of the received MAD.
    pub sl: u8,
    /// GID of the sender, if the MAD had a GRH, as all MADs on RoCE do. For a sent MAD that the kernel returned,
    /// GID of the destination, or `None` if the kernel does not return the GID.
    pub gid: Option<[u8; 16]>,
}

/// An open port of a device, with registered management classes.
///
/// A port belongs to one thread at a time: it can be moved to another thread, but not shared. Dropping it unregisters
/// the classes and closes the port.
#[derive(Debug)]
pub struct Port {
    opened: Opened,
    buffer: Box<Buffer>,
    /// Offset of the MAD in the buffer: 64, or 56 with a kernel that does not support a P_Key index.
    offset: usize,
    device: String,
    number: u8,
    gone: Option<PortGone>,
}

/// Space for the largest header and one MAD.
#[repr(C, align(8))]
#[derive(Debug)]
struct Buffer {
    header: Header,
    mad: [u8; MAD_LENGTH],
}

impl Buffer {
    fn bytes(&mut self) -> &mut [u8; size_of::<Buffer>()] {
        let buffer: *mut Buffer = &raw mut *self;
        // SAFETY: `Buffer` is plain bytes without padding (64 + 256), and every bit pattern is valid; the borrow is
        // that of `self`.
        unsafe { &mut *buffer.cast() }
    }
}

const _: () = assert!(size_of::<Buffer>() == size_of::<Header>() + MAD_LENGTH);

impl Port {
    /// Opens `port` of `device` and registers its management classes 0x01, 0x81 and 0x04. Classes 0x01 and 0x81 are
    /// also registered for traps, unless another program has registered for them. Other classes are registered at
    /// their first send. The open fails only if the kernel refuses all three classes. If it refuses some of them,
    /// only sends of these classes fail.
    ///
    /// Gives up after `bound`. The attempt then continues in the background, and a port that it opens is closed again.
    /// Until the attempt ends, this process can neither list devices nor open another port.
    ///
    /// # Errors
    ///
    /// [`OpenError`], which names what exists and what to do.
    pub fn open(library: &Library, device: &str, port: u8, bound: Duration) -> Result<Port, OpenError> {
        let symbols = Arc::clone(&library.symbols);
        let name = device.to_owned();
        let opened = match bounded(bound, move || open(symbols, &name, port)) {
            Ok(opened) => opened?,
            Err(Helper::TimedOut) => {
                return Err(OpenError::TimedOut {
                    device: device.to_owned(),
                    port,
                    bound,
                });
            }
            Err(Helper::Busy) => return Err(OpenError::StillOpening { bound }),
            Err(Helper::Thread(source)) => return Err(OpenError::Thread(source)),
        };
        let mut buffer = Box::new(Buffer {
            header: Header::default(),
            mad: [0; MAD_LENGTH],
        });
        let base = NonNull::from(&mut *buffer).cast::<c_void>();
        // SAFETY: the call takes the address of a buffer, returns an address inside it, and reads nothing. It is valid
        // after an open, which determines the size of the header.
        let mad = unsafe { (opened.symbols.umad_get_mad)(base.as_ptr()) };
        // SAFETY: the call takes nothing.
        let size = unsafe { (opened.symbols.umad_size)() };
        let offset = mad.addr() - base.addr().get();
        if offset != size || offset > size_of::<Header>() {
            let seen = io::Error::other(format!(
                "a header of {size} bytes with the MAD at {offset}; expected at most 64 bytes"
            ));
            return Err(OpenError::Failed {
                device: device.to_owned(),
                port,
                code: 0,
                seen,
            });
        }
        Ok(Port {
            opened,
            buffer,
            offset,
            device: device.to_owned(),
            number: port,
            gone: None,
        })
    }

    /// Whether this port receives traps of subnet management. A port receives no traps if another program, such as a
    /// subnet manager, has registered for them.
    pub fn receives_traps(&self) -> bool {
        self.opened.agents.traps
    }

    /// Returns the error with which the kernel refused to register a management class. Returns `None` if the class is
    /// registered or was not used yet.
    pub fn refusal(&self, class: u8) -> Option<io::Error> {
        self.opened.agents.refusal(class).map(io::Error::from)
    }

    /// Sends one MAD. The kernel overwrites the high 32 bits of the transaction ID; all other bits are sent unchanged.
    /// The management class, byte 1, selects the agent. The kernel does not retry.
    ///
    /// `timeout` is how long the kernel waits for the response before it returns the MAD with status 110. The timeout
    /// is rounded up to milliseconds and is at least 1 ms. A MAD that is itself a response (response bit, or
    /// TrapRepress) expects no response and is sent without a timeout.
    ///
    /// # Errors
    ///
    /// [`SendError::PortGone`] is final. After other errors the port is still usable.
    pub fn send(&mut self, mad: &[u8; MAD_LENGTH], to: &Destination, timeout: Duration) -> Result<(), SendError> {
        if let Some(gone) = &self.gone {
            return Err(gone.clone().into());
        }
        let class = mad[1];
        let Opened { symbols, id, agents } = &mut self.opened;
        let agent = match agents.of(symbols, *id, class) {
            Ok(agent) => agent,
            Err(seen) => {
                let device = self.device.clone();
                return Err(SendError::ClassRefused {
                    class,
                    device,
                    port: self.number,
                    seen: seen.to_string(),
                });
            }
        };
        let timeout_ms = if awaits_answer(mad) {
            milliseconds(timeout).max(1)
        } else {
            0
        };

        let (dlid, sl, qpn, qkey, pkey_index, route) = match *to {
            Destination::DirectedRoute => (0xffff, 0, 0, 0, 0, None),
            Destination::Lid { dlid, sl } => (dlid, sl, 0, 0, 0, None),
            Destination::Gsi {
                dlid,
                sl,
                qpn,
                qkey,
                pkey_index,
            } => (dlid, sl, qpn, qkey, pkey_index, None),
            Destination::GsiGlobal {
                dlid,
                sl,
                qpn,
                qkey,
                pkey_index,
                route,
            } => (dlid, sl, qpn, qkey, pkey_index, Some(route)),
        };
        self.buffer.header = Header::default();
        if let Some(route) = route {
            route.write(&mut self.buffer.header.address);
        }
        let bytes = self.buffer.bytes();
        bytes[self.offset..self.offset + MAD_LENGTH].copy_from_slice(mad);
        let umad = bytes.as_mut_ptr().cast::<c_void>();
        // SAFETY: `umad` is the port's aligned buffer with 64 bytes of header and 256 bytes of data. No other code uses
        // it. The header has at most 64 bytes (checked at open), so header and MAD end inside. The port is open and the
        // agent is registered on it.
        let code = unsafe {
            (symbols.umad_set_addr)(umad, dlid.into(), qpn.cast_signed(), sl.into(), qkey.cast_signed());
            (symbols.umad_set_pkey)(umad, pkey_index.into());
            (symbols.umad_send)(*id, agent, umad, 256, timeout_ms, 0)
        };
        if code >= 0 {
            return Ok(());
        }
        let errno = Errno::last_raw();
        let lives = [
            Errno::EINVAL,
            Errno::ENOMEM,
            Errno::EAGAIN,
            Errno::EINTR,
            Errno::ENOBUFS,
            Errno::EACCES,
        ];
        if lives.contains(&Errno::from_raw(errno)) {
            return Err(SendError::Refused {
                device: self.device.clone(),
                port: self.number,
                seen: io::Error::from_raw_os_error(errno),
            });
        }
        Err(self.lost("sending", errno).into())
    }

    /// Waits at most `timeout` for a MAD. Returns `None` if no MAD arrives. Does not wait if `timeout` is zero;
    /// otherwise rounds the timeout up to milliseconds.
    ///
    /// # Errors
    ///
    /// [`PortGone`] when the port is lost.
    pub fn recv(&mut self, timeout: Duration) -> Result<Option<Received>, PortGone> {
        if let Some(gone) = &self.gone {
            return Err(gone.clone());
        }
        let start = Instant::now();
        let mut remaining = timeout;
        loop {
            if !remaining.is_zero() {
                self.wait(remaining)?;
            }
            if let Some(received) = self.take()? {
                return Ok(Some(received));
            }
            remaining = timeout.saturating_sub(start.elapsed());
            if remaining.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Waits until a MAD may be available or `timeout` is over. The wait may also end early without a MAD.
    fn wait(&mut self, timeout: Duration) -> Result<(), PortGone> {
        // SAFETY: the port is open.
        let code = unsafe { (self.opened.symbols.umad_poll)(self.opened.id, milliseconds(timeout)) };
        if code >= 0 || code == -(Errno::ETIMEDOUT as i32) {
            return Ok(());
        }
        let errno = Errno::last_raw();
        match Errno::from_raw(errno) {
            Errno::EINTR | Errno::EAGAIN => Ok(()),
            _ => Err(self.lost("receiving", errno)),
        }
    }

    /// Takes an available MAD, without waiting.
    fn take(&mut self) -> Result<Option<Received>, PortGone> {
        let mut length = 256; // MAD_LENGTH as a C int.
        let umad = self.buffer.bytes().as_mut_ptr().cast::<c_void>();
        // SAFETY: the buffer has space for the header (at most 64 bytes, checked at open) and the 256 bytes of
        // `length`; the port is open.
        let code = unsafe { (self.opened.symbols.umad_recv)(self.opened.id, umad, &raw mut length, 0) };
        if code < 0 {
            // The library returns the negative error number. EAGAIN means that no MAD is available.
            if let Errno::EAGAIN | Errno::ETIMEDOUT | Errno::EINTR = Errno::from_raw(code.saturating_neg()) {
                return Ok(None);
            }
            return Err(self.lost("receiving", code.saturating_neg()));
        }
        // SAFETY: the same buffer, filled by umad_recv.
        let status = unsafe { (self.opened.symbols.umad_status)(umad) };
        let length = usize::try_from(length).unwrap_or(0).min(MAD_LENGTH);
        let address = self.buffer.header.address;
        let mut mad = [0; MAD_LENGTH];
        mad[..length].copy_from_slice(&self.buffer.bytes()[self.offset..self.offset + length]);
        Ok(Some(Received {
            mad,
            length,
            status,
            slid: u16::from_be(address.lid),
            sl: address.sl,
            gid: (address.grh_present != 0).then_some(address.gid),
        }))
    }

    fn lost(&mut self, during: &'static str, errno: i32) -> PortGone {
        let gone = PortGone {
            device: self.device.clone(),
            port: self.number,
            during,
            errno,
        };
        self.gone = Some(gone.clone());
        gone
    }
}

/// Whether the kernel keeps a sent MAD until its response or its timeout: true unless the MAD is itself a response
/// (response bit, or TrapRepress).
#[must_use]
pub fn awaits_answer(mad: &[u8; MAD_LENGTH]) -> bool {
    const TRAP_REPRESS: u8 = 0x07;
    let method = mad[3];
    method & 0x80 == 0 && method != TRAP_REPRESS
}

/// Converts a duration to milliseconds for the library, rounded up.
fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

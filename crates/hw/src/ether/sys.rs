//! System calls on sockets, each with the sizes that it needs.

use std::{
    ffi::{c_int, c_uint},
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

/// Reads a clock, as the time since its zero.
pub(super) fn read_clock(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is ours.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    duration(time).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A time since zero, if it is one.
fn duration(time: libc::timespec) -> Option<Duration> {
    let nanoseconds = u32::try_from(time.tv_nsec)
        .ok()
        .filter(|value| *value < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanoseconds))
}

/// An AF_PACKET socket that is bound to nothing and receives nothing.
pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an interface. `protocol` is an Ethertype; [`libc::ETH_P_ALL`] receives all, 0 nothing.
pub(super) fn bind_packet(fd: &OwnedFd, index: c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: an address of that length.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Sets a socket option.
pub(super) fn set_option<T: Copy>(fd: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: a value of that length, which the kernel only reads.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), length) })
}

/// Frames that the kernel dropped because the socket was full, since this was asked last.
pub(super) fn drops(fd: &OwnedFd) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let place = (&raw mut statistics).cast();
    // SAFETY: a place of that length.
    let code = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            place,
            &raw mut length,
        )
    };
    check(code)?;
    Ok(statistics.tp_drops)
}

/// An `ifreq` with the name of an interface.
pub(super) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are an ifreq.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // The last byte stays 0.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// An ioctl on an interface.
///
/// # Safety
///
/// `code` takes an `ifreq`; if it uses `ifr_data`, that points to what the code expects.
pub(super) unsafe fn interface_ioctl(fd: &OwnedFd, code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the caller's promise. The type of the code differs between C libraries.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, &raw mut *request) })
}

/// Sends one frame on a bound socket, without waiting.
pub(super) fn send(fd: &OwnedFd, frame: &[u8]) -> io::Result<usize> {
    // SAFETY: the frame is read before the call returns.
    let sent = unsafe { libc::send(fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// What came with a message besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    /// Length on the wire, which may be more than what fitted.
    pub(super) length: usize,
    /// `PACKET_*` type of the sender's address.
    pub(super) kind: u8,
    /// The kernel's stamp, on CLOCK_REALTIME.
    pub(super) software: Option<Duration>,
    /// The adapter's stamp, on its own clock.
    pub(super) hardware: Option<Duration>,
    /// Tag protocol and control word that the kernel took out of the frame.
    pub(super) vlan: Option<(u16, u16)>,
    /// From the error queue: which sent frame the stamp belongs to.
    pub(super) key: Option<u32>,
}

/// Receives one message, without waiting. `flags` are those of `recvmsg` besides.
pub(super) fn receive(fd: &OwnedFd, buffer: &mut [u8], flags: c_int) -> io::Result<Message> {
    // Aligned as a cmsghdr has to be.
    let mut control = [0_u64; 64];
    // SAFETY: all-zero bytes are a sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero bytes are a msghdr.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_name = (&raw mut address).cast();
    header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: every place that the header points to is ours, with the length that it says.
    let length = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut message = Message {
        length,
        kind: address.sll_pkttype,
        ..Message::default()
    };
    // SAFETY: the kernel filled header and control messages; they are walked as CMSG_NXTHDR allows.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(entry) = next.as_ref() {
            read_control(entry, &mut message);
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    Ok(message)
}

/// # Safety
///
/// `entry` stands in a control buffer, followed by its data.
unsafe fn read_control(entry: &libc::cmsghdr, message: &mut Message) {
    // SAFETY: CMSG_DATA is an address computation.
    let data = unsafe { libc::CMSG_DATA(entry) };
    let length = entry.cmsg_len.saturating_sub(data.addr() - ptr::from_ref(entry).addr());
    macro_rules! read {
        ($type:ty) => {
            // SAFETY: that many bytes are there, as was just compared; any bytes are a value of these C structures.
            (length >= size_of::<$type>()).then(|| unsafe { data.cast::<$type>().read_unaligned() })
        };
    }
    match (entry.cmsg_level, entry.cmsg_type) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
            // Software, nothing, hardware; a zero says that there is none.
            let Some(times) = read!([libc::timespec; 3]) else {
                return;
            };
            let some = |time| duration(time).filter(|time| !time.is_zero());
            message.software = some(times[0]);
            message.hardware = some(times[2]);
        }
        (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
            let Some(data) = read!(libc::tpacket_auxdata) else {
                return;
            };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                let protocol = if known {
                    data.tp_vlan_tpid
                } else {
                    libc::ETH_P_8021Q as u16
                };
                message.vlan = Some((protocol, data.tp_vlan_tci));
            }
        }
        (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
            let Some(error) = read!(libc::sock_extended_err) else {
                return;
            };
            if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                message.key = Some(error.ee_data);
            }
        }
        _ => {}
    }
}

/// Whether an interface of this index exists.
pub(super) fn interface_exists(index: c_uint) -> bool {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: a place of the length that the function asks for.
    !unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null()
}

fn check(code: c_int) -> io::Result<()> {
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

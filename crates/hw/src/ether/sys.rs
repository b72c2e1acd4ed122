//! What `nix` has no safe call for: the address and the options of a packet socket, and the ioctls of an interface.
//!
//! Packet sockets are Linux's own: `nix` reads their addresses and cannot make one, and knows none of their options.
//! The names from `linux/if_packet.h`, `linux/sockios.h` and `linux/net_tstamp.h` come in here and nowhere else.

use std::{
    ffi::{c_int, c_ulong},
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use nix::{
    Result,
    errno::Errno,
    getsockopt_impl, libc, setsockopt_impl, sockopt_impl,
    sys::socket::{LinkAddr, SockaddrLike, bind},
};

use nix::libc::{
    AF_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_IGNORE_OUTGOING, PACKET_MR_PROMISC, PACKET_STATISTICS, SIOCETHTOOL,
    SIOCGHWTSTAMP, SIOCGIFFLAGS, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFMTU, SIOCSHWTSTAMP, ifreq, packet_mreq,
    sockaddr_ll, socklen_t, tpacket_stats,
};
pub(super) use nix::libc::{
    ARPHRD_ETHER, ARPHRD_LOOPBACK, ETH_P_8021Q, ETH_P_ALL, HWTSTAMP_FILTER_ALL, HWTSTAMP_TX_ON, IFF_UP, PACKET_AUXDATA,
    PACKET_OUTGOING, PACKET_TX_TIMESTAMP, SO_EE_ORIGIN_TIMESTAMPING, SOL_PACKET, TP_STATUS_VLAN_TPID_VALID,
    TP_STATUS_VLAN_VALID, hwtstamp_config,
};

sockopt_impl!(
    /// VLAN tags, which the kernel takes out of frames, come beside them.
    Auxdata, SetOnly, SOL_PACKET, PACKET_AUXDATA, bool
);
sockopt_impl!(
    /// Frames that this machine sends are not received.
    IgnoreOutgoing, SetOnly, SOL_PACKET, PACKET_IGNORE_OUTGOING, bool
);
sockopt_impl!(
    /// What the interface receives besides its own.
    AddMembership, SetOnly, SOL_PACKET, PACKET_ADD_MEMBERSHIP, packet_mreq
);
sockopt_impl!(
    /// What was received, and what was lost because the socket was full, since this was asked last.
    Statistics, GetOnly, SOL_PACKET, PACKET_STATISTICS, tpacket_stats
);

/// Every frame on the interface, whatever its destination.
pub(super) fn promiscuous(index: c_int) -> packet_mreq {
    packet_mreq {
        mr_ifindex: index,
        mr_type: PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    }
}

/// Binds to an interface. `protocol` is an Ethertype; [`ETH_P_ALL`] receives all, 0 nothing.
pub(super) fn bind_packet(fd: &OwnedFd, index: c_int, protocol: u16) -> Result<()> {
    let address = sockaddr_ll {
        sll_family: AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<sockaddr_ll>() as socklen_t;
    // SAFETY: an address of that length, which is copied.
    let address = unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(length)) };
    bind(fd.as_raw_fd(), &address.ok_or(Errno::EINVAL)?)
}

/// What to ask an interface for, or to set on it.
#[derive(Debug)]
pub(super) enum Ask<'a> {
    /// `int`.
    Index,
    /// `struct sockaddr` with the hardware type for its family.
    Address,
    /// `int`.
    Mtu,
    /// `short`.
    Flags,
    /// What its adapter can stamp.
    TimestampInfo(&'a mut TimestampInfo),
    /// What it stamps.
    Stamping(&'a mut hwtstamp_config),
    /// The same, set.
    SetStamping(&'a mut hwtstamp_config),
}

/// `struct ethtool_ts_info`, with the command that asks for it.
#[repr(C)]
#[derive(Debug)]
pub(super) struct TimestampInfo {
    cmd: u32,
    pub(super) so_timestamping: u32,
    pub(super) phc_index: i32,
    pub(super) tx_types: u32,
    tx_reserved: [u32; 3],
    pub(super) rx_filters: u32,
    rx_reserved: [u32; 3],
}

const _: () = assert!(size_of::<TimestampInfo>() == 44 && std::mem::offset_of!(TimestampInfo, rx_filters) == 28);

impl Default for TimestampInfo {
    fn default() -> Self {
        const ETHTOOL_GET_TS_INFO: u32 = 0x41;
        Self {
            cmd: ETHTOOL_GET_TS_INFO,
            so_timestamping: 0,
            phc_index: -1,
            tx_types: 0,
            tx_reserved: [0; 3],
            rx_filters: 0,
            rx_reserved: [0; 3],
        }
    }
}

/// `struct ifreq`: an interface's name, and the union of what can be said of it, as bytes.
#[repr(C, align(8))]
struct Request {
    name: [u8; 16],
    value: [u8; size_of::<ifreq>() - 16],
}

const _: () = assert!(size_of::<Request>() == size_of::<ifreq>());

/// Asks the interface `name`, through any socket of its network namespace. Gives the union's first bytes; what an
/// `ask` points to is filled besides.
pub(super) fn ask(fd: &OwnedFd, name: &str, ask: Ask<'_>) -> Result<[u8; 8]> {
    fn place<T>(value: &mut T) -> Option<usize> {
        Some(ptr::from_mut(value).expose_provenance())
    }
    let (code, place): (c_ulong, _) = match ask {
        Ask::Index => (SIOCGIFINDEX as _, None),
        Ask::Address => (SIOCGIFHWADDR as _, None),
        Ask::Mtu => (SIOCGIFMTU as _, None),
        Ask::Flags => (SIOCGIFFLAGS as _, None),
        Ask::TimestampInfo(info) => (SIOCETHTOOL as _, place(info)),
        Ask::Stamping(config) => (SIOCGHWTSTAMP as _, place(config)),
        Ask::SetStamping(config) => (SIOCSHWTSTAMP as _, place(config)),
    };
    let mut request = Request {
        name: [0; 16],
        value: [0; _],
    };
    // The last byte stays 0.
    if name.is_empty() || name.len() >= request.name.len() || name.contains('\0') {
        return Err(Errno::ENODEV);
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    if let Some(place) = place {
        request.value[..size_of::<usize>()].copy_from_slice(&place.to_ne_bytes());
    }
    // SAFETY: each of the codes takes an ifreq, whose length this has. Those that follow a pointer in it get the address
    // of the structure that they fill, which is borrowed from the caller.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, &raw mut request) })?;
    Ok(*request.value.first_chunk().unwrap_or(&[0; 8]))
}

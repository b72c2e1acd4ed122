//! Calls for which `nix` has no safe function: the address and options of a packet socket, and the ioctls of an
//! interface.
//!
//! Packet sockets are specific to Linux. `nix` can read the address of a packet socket but cannot make one, and it
//! lacks the options of packet sockets. Names from `linux/if_packet.h`, `linux/sockios.h` and `linux/net_tstamp.h`
//! are imported only here.

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
    /// Delivers the VLAN tag that the kernel removes from a frame, as a control message.
    Auxdata, SetOnly, SOL_PACKET, PACKET_AUXDATA, bool
);
sockopt_impl!(
    /// Excludes frames that this machine sends.
    IgnoreOutgoing, SetOnly, SOL_PACKET, PACKET_IGNORE_OUTGOING, bool
);
sockopt_impl!(
    /// Makes the interface receive further frames, for example all frames in promiscuous mode.
    AddMembership, SetOnly, SOL_PACKET, PACKET_ADD_MEMBERSHIP, packet_mreq
);
sockopt_impl!(
    /// Numbers of received frames, and of frames lost because the socket was full, since the last query.
    Statistics, GetOnly, SOL_PACKET, PACKET_STATISTICS, tpacket_stats
);

/// Returns the membership that makes the interface receive frames for any destination.
pub(super) fn promiscuous(index: c_int) -> packet_mreq {
    packet_mreq {
        mr_ifindex: index,
        mr_type: PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    }
}

/// Binds a socket to an interface. `protocol` is an Ethertype; [`ETH_P_ALL`] receives all frames, 0 none.
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
    // SAFETY: the pointer refers to an address of that length, which is copied.
    let address = unsafe { LinkAddr::from_raw((&raw const address).cast(), Some(length)) };
    bind(fd.as_raw_fd(), &address.ok_or(Errno::EINVAL)?)
}

/// A value to read from an interface, or to set on it.
#[derive(Debug)]
pub(super) enum Ask<'a> {
    /// Index, an `int`.
    Index,
    /// `struct sockaddr`, with the hardware type in place of the family.
    Address,
    /// MTU, an `int`.
    Mtu,
    /// Flags, a `short`.
    Flags,
    /// Stamping that the adapter supports.
    TimestampInfo(&'a mut TimestampInfo),
    /// Stamping that is set.
    Stamping(&'a mut hwtstamp_config),
    /// Sets the stamping.
    SetStamping(&'a mut hwtstamp_config),
}

/// `struct ethtool_ts_info`, with the command that requests it.
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

/// `struct ifreq`: an interface's name, and the union of its values as bytes.
#[repr(C, align(8))]
struct Request {
    name: [u8; 16],
    value: [u8; size_of::<ifreq>() - 16],
}

const _: () = assert!(size_of::<Request>() == size_of::<ifreq>());

/// Sends a request about interface `name`, through any socket of its network namespace. Returns the first bytes of the
/// union. Fills the structure that `ask` refers to, if any.
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
    // The last byte of the name stays 0.
    if name.is_empty() || name.len() >= request.name.len() || name.contains('\0') {
        return Err(Errno::ENODEV);
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    if let Some(place) = place {
        request.value[..size_of::<usize>()].copy_from_slice(&place.to_ne_bytes());
    }
    // SAFETY: each code takes an ifreq, and the request has its length. The codes that follow a pointer in it get the
    // address of the structure that they fill, which is borrowed from the caller.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, &raw mut request) })?;
    Ok(*request.value.first_chunk().unwrap_or(&[0; 8]))
}

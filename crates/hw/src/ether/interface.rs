//! A network interface by its name: what it is, and whether it is still there.

use std::{ffi::c_int, io, os::fd::OwnedFd};

use super::{
    error::EtherError,
    sys::{interface_exists, interface_ioctl, interface_request},
};

/// Length of an Ethernet header without a VLAN tag.
pub(super) const HEADER: usize = 14;
/// Length of a VLAN tag.
pub(super) const TAG: usize = 4;

/// An interface, as it was when opened.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: c_int,
    pub(super) mac: [u8; 6],
    pub(super) mtu: usize,
}

impl Interface {
    /// Looks the interface up, through any socket of its network namespace. It must be Ethernet, and up.
    pub(super) fn find(fd: &OwnedFd, name: &str) -> Result<Interface, EtherError> {
        let ask = |code| ask(fd, name, code);
        let absent = |seen: io::Error| match seen.raw_os_error() {
            Some(libc::ENODEV) => EtherError::NoInterface {
                interface: name.to_owned(),
                existing: existing(),
            },
            _ => system("reading the interface", name, seen),
        };
        let index = ask(libc::SIOCGIFINDEX as _).map_err(absent)?;
        let address = ask(libc::SIOCGIFHWADDR as _).map_err(absent)?;
        let mtu = ask(libc::SIOCGIFMTU as _).map_err(absent)?;
        // SAFETY: each request filled its own member of the union, and all are plain bytes.
        let (index, address, mtu) = unsafe {
            (
                index.ifr_ifru.ifru_ifindex,
                address.ifr_ifru.ifru_hwaddr,
                mtu.ifr_ifru.ifru_mtu,
            )
        };
        // The loopback interface has Ethernet headers too.
        if address.sa_family != libc::ARPHRD_ETHER && address.sa_family != libc::ARPHRD_LOOPBACK {
            return Err(EtherError::NotEthernet {
                interface: name.to_owned(),
                kind: address.sa_family,
            });
        }
        let interface = Interface {
            name: name.to_owned(),
            index,
            mac: std::array::from_fn(|byte| address.sa_data[byte] as u8),
            mtu: usize::try_from(mtu).unwrap_or(0),
        };
        match interface.is_up(fd) {
            true => Ok(interface),
            false => Err(interface.down()),
        }
    }

    /// Whether it is up. One that cannot be asked is not.
    pub(super) fn is_up(&self, fd: &OwnedFd) -> bool {
        let up = libc::IFF_UP as libc::c_short;
        // SAFETY: the request filled this member of the union.
        ask(fd, &self.name, libc::SIOCGIFFLAGS as _).is_ok_and(|flags| unsafe { flags.ifr_ifru.ifru_flags } & up != 0)
    }

    /// What became of an interface that the kernel calls down or unknown.
    pub(super) fn lost(&self) -> EtherError {
        if interface_exists(self.index.cast_unsigned()) {
            return self.down();
        }
        EtherError::InterfaceGone {
            interface: self.name.clone(),
        }
    }

    pub(super) fn system(&self, call: &'static str, seen: io::Error) -> EtherError {
        system(call, &self.name, seen)
    }

    fn down(&self) -> EtherError {
        EtherError::InterfaceDown {
            interface: self.name.clone(),
        }
    }
}

fn ask(fd: &OwnedFd, name: &str, code: libc::c_ulong) -> io::Result<libc::ifreq> {
    let mut request = interface_request(name)?;
    // SAFETY: the codes given here fill members of the ifreq itself.
    unsafe { interface_ioctl(fd, code, &mut request) }?;
    Ok(request)
}

fn system(call: &'static str, name: &str, seen: io::Error) -> EtherError {
    EtherError::System {
        call,
        place: format!("interface {name}"),
        seen,
    }
}

/// Names of the interfaces of this network namespace.
fn existing() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the array that comes back ends in an entry of index 0, has NUL-terminated names, and is given back.
    unsafe {
        let first = libc::if_nameindex();
        let mut next = first;
        while let Some(entry) = next.as_ref().filter(|entry| entry.if_index != 0) {
            names.push(std::ffi::CStr::from_ptr(entry.if_name).to_string_lossy().into_owned());
            next = next.add(1);
        }
        if !first.is_null() {
            libc::if_freenameindex(first);
        }
    }
    names
}

//! Network interfaces: lookup by name, and checks of their state.

use std::{ffi::c_int, io, os::fd::OwnedFd};

use nix::{errno::Errno, net::if_::if_nameindex};

use super::{
    error::EtherError,
    sys::{ARPHRD_ETHER, ARPHRD_LOOPBACK, Ask, IFF_UP, ask},
};

/// Length of an Ethernet header without a VLAN tag.
pub(super) const HEADER: usize = 14;
/// Length of a VLAN tag.
pub(super) const TAG: usize = 4;

/// An interface, with its properties when it was opened.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: c_int,
    pub(super) mac: [u8; 6],
    pub(super) mtu: usize,
}

impl Interface {
    /// Looks up an interface through any socket of its network namespace. The interface must be Ethernet, and up.
    pub(super) fn find(fd: &OwnedFd, name: &str) -> Result<Interface, EtherError> {
        let asked = |what| {
            ask(fd, name, what).map_err(|errno| match errno {
                Errno::ENODEV => EtherError::NoInterface {
                    interface: name.to_owned(),
                    existing: existing(),
                },
                _ => system("reading the interface", name, errno.into()),
            })
        };
        let number = |[a, b, c, d, ..]: [u8; 8]| c_int::from_ne_bytes([a, b, c, d]);
        let index = number(asked(Ask::Index)?);
        let [kind_0, kind_1, mac @ ..] = asked(Ask::Address)?;
        let kind = u16::from_ne_bytes([kind_0, kind_1]);
        let mtu = number(asked(Ask::Mtu)?);
        // The loopback interface has Ethernet headers, too.
        if ![ARPHRD_ETHER, ARPHRD_LOOPBACK].contains(&kind) {
            return Err(EtherError::NotEthernet {
                interface: name.to_owned(),
                kind,
            });
        }
        let interface = Interface {
            name: name.to_owned(),
            index,
            mac,
            mtu: usize::try_from(mtu).unwrap_or(0),
        };
        match interface.is_up(fd) {
            true => Ok(interface),
            false => Err(interface.down()),
        }
    }

    /// Whether the interface is up; false if it cannot be queried.
    pub(super) fn is_up(&self, fd: &OwnedFd) -> bool {
        let up = |[a, b, ..]: [u8; 8]| i32::from(i16::from_ne_bytes([a, b])) & IFF_UP != 0;
        ask(fd, &self.name, Ask::Flags).is_ok_and(up)
    }

    /// Returns the error for an interface that no longer works: down if the interface still exists, otherwise removed.
    pub(super) fn lost(&self) -> EtherError {
        // Does not use if_indextoname: nix 0.31.3 reports success when there is no such interface.
        let index = self.index.cast_unsigned();
        if if_nameindex().iter().flatten().any(|there| there.index() == index) {
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

fn system(call: &'static str, name: &str, seen: io::Error) -> EtherError {
    EtherError::System {
        call,
        place: format!("interface {name}"),
        seen,
    }
}

/// Returns the names of the interfaces in this network namespace.
fn existing() -> Vec<String> {
    let interfaces = if_nameindex();
    let names = interfaces.iter().flatten();
    names
        .map(|interface| interface.name().to_string_lossy().into_owned())
        .collect()
}

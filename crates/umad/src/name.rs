//! Names that one process at a time can have on a port, in all containers.
//!
//! The kernel refuses a second agent for the same class, OUI and method on one port. It does not matter through which
//! device node or in which namespace a process has opened the port.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

/// The classes for vendors, which have an OUI.
const CLASSES: std::ops::RangeInclusive<u8> = 0x30..=0x4F;
/// The method Send. No device sends it in these classes, and the kernel never responds to it.
const SEND: u32 = 0x03;

/// `ib_user_mad_reg_req` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Request {
    id: u32,
    methods: [u32; 4],
    qpn: u8,
    class: u8,
    class_version: u8,
    oui: [u8; 3],
    rmpp_version: u8,
}

nix::ioctl_readwrite!(register_agent, 0x1B, 1, Request);
nix::ioctl_none!(enable_p_key, 0x1B, 3);

/// Takes a name on the port of an open umad node, until the node is closed. Returns false if another process has the
/// name.
///
/// # Errors
/// Error of the system call: the file is no umad node, or the port has no General Service Interface.
pub fn take_name(node: &File, name: [u8; 4]) -> io::Result<bool> {
    let [class, oui @ ..] = name;
    let mut request = Request {
        methods: [1 << SEND, 0, 0, 0],
        qpn: 1,
        class: CLASSES.start() + class % 32,
        class_version: 1,
        // The kernel refuses an OUI of 0.
        oui: if oui == [0; 3] { [1; 3] } else { oui },
        ..Request::default()
    };
    // SAFETY: the call has no argument, and the descriptor is open.
    let _ = unsafe { enable_p_key(node.as_raw_fd()) };
    // SAFETY: the kernel reads and writes the request only during the call, and the request has the kernel's layout.
    match unsafe { register_agent(node.as_raw_fd(), &raw mut request) } {
        Ok(_) => Ok(true),
        Err(Errno::EINVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_kernels_layout() {
        assert_eq!(size_of::<Request>(), 28);
        assert_eq!(core::mem::offset_of!(Request, oui), 23);
    }

    #[test]
    fn other_file_has_no_names() {
        assert!(take_name(&File::open("/dev/null").unwrap(), [0; 4]).is_err());
    }
}

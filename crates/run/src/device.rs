//! One process at a time drives a device, whatever the rig is called and wherever its journal is.
//!
//! The lock is a socket in the kernel's abstract name space, called after the device: it is there for every process of
//! this host that shares its network, leaves no file behind, and ends with the process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sha2::{Digest, Sha256};
use verbatim_rig::RigConfig;

use crate::RunError;

/// A device that is ours alone until this is dropped.
#[derive(Debug)]
pub(crate) struct DeviceLock {
    _socket: Option<UnixDatagram>,
}

impl DeviceLock {
    /// Takes the device of a rig; one within this process needs no lock.
    ///
    /// # Errors
    /// When another process drives it.
    pub(crate) fn take(rig: &RigConfig) -> Result<Self, RunError> {
        let Some(device) = rig.device_identity() else {
            return Ok(Self { _socket: None });
        };
        let hash: String = Sha256::digest(&device)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let bind = || UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("verbatim-device-{hash}"))?);
        match bind() {
            Ok(socket) => Ok(Self { _socket: Some(socket) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(RunError::DeviceBusy {
                rig: rig.name.clone(),
                device: rig.kind.device(),
            }),
            Err(source) => Err(RunError::DeviceLock {
                rig: rig.name.clone(),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use verbatim_rig::RigFile;

    fn rigs(text: &str) -> RigFile {
        RigFile::parse(format!("config_version = 1\n{text}").as_bytes(), Path::new("/d/f")).unwrap()
    }

    #[test]
    fn a_device_is_driven_once_under_whatever_name() {
        let file = rigs(
            "[[rig]]\nname = \"a\"\nkind = \"model\"\nsocket = \"one-device.sock\"\n\
             [[rig]]\nname = \"b\"\nkind = \"model\"\nsocket = \"/d/one-device.sock\"\n\
             [[rig]]\nname = \"c\"\nkind = \"model\"\nsocket = \"another-device.sock\"\n",
        );
        let rig = |name: &str| file.find(name).unwrap();
        let held = DeviceLock::take(rig("a")).unwrap();
        let error = DeviceLock::take(rig("b")).unwrap_err().to_string();
        assert!(error.contains("rig b") && error.contains("another process"), "{error}");
        assert!(DeviceLock::take(rig("c")).is_ok());
        drop(held);
        assert!(DeviceLock::take(rig("b")).is_ok());
        assert!(DeviceLock::take(rig("virtual")).is_ok() && DeviceLock::take(rig("virtual")).is_ok());
        assert_eq!(file.two_of_one_device(), Some(("a", "b")));
    }
}

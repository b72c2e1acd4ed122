//! Device locks: only one process at a time uses a device, independent of rig names, journal directories and
//! containers (see [`locks`]). For containers, see the limits in `docs/daemon.md`.
//!
//! Locks of root and of this user always count. A lock of another user counts only if owner, group and mode of
//! the device file, or of the model's socket, give that user access. Access by an access control list does not count. A
//! user without access therefore cannot block the device.
//!
//! A worker in a unit of its own distrusts the workers of other rigs, which have the same user. For such a worker, a
//! socket of this user counts only under a PortGUID.

mod claim;
mod locks;

use std::fs::{self, Metadata};
use std::net::ToSocketAddrs as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist};
use verbatim_rig::{RigConfig, RigError, RigKind, device_node};
use verbatim_tester::JournalOwner;

pub(crate) use claim::{Claimed, Patience};
pub use claim::{is_older, miss};
pub use locks::prepare as prepare_locks;

use crate::RunError;

/// Returns the owner of a rig's journal. The journal belongs to the device, not to the rig's name, because tests change
/// the device.
#[must_use]
pub fn journal_owner(rig: &RigConfig) -> JournalOwner {
    JournalOwner {
        rig: rig.name.clone(),
        device: rig.device_identity().unwrap_or_default(),
        config: rig.source.toml.clone(),
        config_path: rig.source.path.display().to_string(),
    }
}

/// Exclusive use of a device. Dropping this value ends the use.
#[derive(Debug)]
enum DeviceLock {
    /// The device is a model in this process.
    Own,
    /// The lock, and the previous content of its record.
    Held(locks::Lock, locks::Holder),
}

impl DeviceLock {
    /// Locks the device of a rig. While another process has the device, calls `again`, which waits and returns whether
    /// to retry.
    ///
    /// # Errors
    /// As [`DeviceLock::take`].
    fn take_again(rig: &RigConfig, mut again: impl FnMut() -> bool) -> Result<Self, RunError> {
        loop {
            match Self::take(rig) {
                Err(RunError::DeviceBusy { .. }) if again() => {}
                taken => return taken,
            }
        }
    }

    /// Locks the device of a rig. A device model in this process needs no lock.
    ///
    /// # Errors
    /// When another process has the device, or the lock cannot be used.
    fn take(rig: &RigConfig) -> Result<Self, RunError> {
        let Some(device) = rig.device_identity() else {
            return Ok(Self::Own);
        };
        match lock(&device, rig, false) {
            Ok(Ok((lock, before))) => Ok(Self::Held(lock, before)),
            Ok(Err(who)) => Err(RunError::DeviceBusy {
                rig: rig.name.clone(),
                device: rig.kind.device(),
                who,
            }),
            Err(source) => Err(RunError::DeviceLock {
                rig: rig.name.clone(),
                source,
            }),
        }
    }
}

/// Takes the lock of the device with this name, for a rig that uses the device. The name is the device's identity, or
/// its PortGUID.
fn lock(device: &str, rig: &RigConfig, is_guid: bool) -> std::io::Result<locks::Taken> {
    let records = locks::Records::find()?;
    let (mut names, mut node) = (vec![device.to_owned()], None);
    match &rig.kind {
        RigKind::Model { socket } => names.extend(inode_of(socket)),
        RigKind::Packet(of) => names.extend(names_of(&of.agent.address.to_string())),
        RigKind::Verbs(of) => names.extend(names_of(&of.agent.address.to_string())),
        RigKind::Umad { device, port, .. } if rig.env.is_empty() => {
            let name = device_node(Path::new("/sys"), "infiniband_mad", device, Some(*port));
            node = name.map(|name| Path::new("/dev/infiniband").join(name));
        }
        _ => {}
    }
    let (me, counts_own) = (geteuid().as_raw(), is_guid || !records.are_by_rig);
    let counts = |user| match user == me {
        true => counts_own,
        false => user == 0 || may_drive(rig, user),
    };
    locks::take(&records, &rig.name, &names, node.as_deref(), counts)
}

/// Returns a name for a unix socket: links and bind mounts give it several paths, but only one inode.
fn inode_of(socket: &Path) -> Option<String> {
    let of = fs::metadata(socket).ok()?;
    Some(format!("socket {} {}", of.dev(), of.ino()))
}

/// Returns names for an agent that do not depend on how its address is written. An agent has one device.
fn names_of(agent: &str) -> Vec<String> {
    match agent.strip_prefix("unix:") {
        Some(path) => inode_of(Path::new(path)).into_iter().collect(),
        None => {
            let addresses = agent.to_socket_addrs().into_iter().flatten();
            addresses.map(|address| format!("agent at {address}")).collect()
        }
    }
}

/// Returns whether a user has access to the rig's device, as far as the permissions of its files show. Returns
/// false if the device has no file on this host: a device behind a network, or a simulated port.
fn may_drive(rig: &RigConfig, user: u32) -> bool {
    let ways: Vec<PathBuf> = match &rig.kind {
        RigKind::Model { socket } => vec![socket.clone()],
        RigKind::Umad { .. } if rig.env.is_empty() => {
            let entries = fs::read_dir("/dev/infiniband").into_iter().flatten().flatten();
            let is_umad = |path: &PathBuf| {
                path.file_name()
                    .is_some_and(|name| name.as_bytes().starts_with(b"umad"))
            };
            entries.map(|entry| entry.path()).filter(is_umad).collect()
        }
        _ => Vec::new(),
    };
    let groups = groups_of(user);
    ways.iter().any(|way| {
        let reaches = |directory: &Path| fs::metadata(directory).is_ok_and(|of| may(&of, user, &groups, 0o1));
        fs::metadata(way).is_ok_and(|of| may(&of, user, &groups, 0o2)) && way.ancestors().skip(1).all(reaches)
    })
}

fn groups_of(user: u32) -> Vec<Gid> {
    let of = |user: User| getgrouplist(&std::ffi::CString::new(user.name).ok()?, user.gid).ok();
    User::from_uid(Uid::from_raw(user))
        .ok()
        .flatten()
        .and_then(of)
        .unwrap_or_default()
}

/// Returns whether a user has a permission on a file, by a bit of the mode: 1 to enter a directory, 2 to write.
fn may(file: &Metadata, user: u32, groups: &[Gid], bit: u32) -> bool {
    let shift = if file.uid() == user {
        6
    } else if groups.contains(&Gid::from_raw(file.gid())) {
        3
    } else {
        0
    };
    file.mode() >> shift & bit != 0
}

/// Checks whether a rig's device is reachable: its port opens, and its link is up. The link is checked only if the
/// kernel or an agent reports it. Sends no management packet, because the device would count a packet with a wrong
/// M_Key, and would start its lease timer.
///
/// A device that another process uses counts as reachable and is left alone. A rig on which a run would be
/// refused, for example because of a foreign subnet manager, also counts as reachable. The next run on that rig
/// fails with the reason and the remedy.
///
/// # Errors
/// [`RunError::Rig`] or [`RunError::Unreachable`], with the missing part and the remedy.
pub fn look(rig: &RigConfig, cancel: Arc<AtomicBool>) -> Result<(), RunError> {
    let _device = match DeviceLock::take(rig) {
        Err(RunError::DeviceBusy { .. }) => return Ok(()),
        taken => taken?,
    };
    if matches!(rig.kind, RigKind::Umad { .. } | RigKind::Model { .. }) {
        match verbatim_rig::open(rig, cancel) {
            Ok(opened) => drop(opened),
            // Waiting does not help in these cases; the run reports the remedy.
            Err(RigError::ForeignSubnetManager { .. } | RigError::Refused { .. } | RigError::Environment { .. }) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    let parts = verbatim_rig::survey(rig);
    match parts.into_iter().find(|part| !part.usable) {
        None => Ok(()),
        Some(part) => Err(RunError::Unreachable {
            rig: rig.name.clone(),
            what: format!("{}: {}", part.what, part.words),
        }),
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
    fn lock_counts_by_access_to_the_device() {
        use std::os::unix::fs::PermissionsExt;
        const NOBODY: u32 = 65534;
        // A directory that all users may enter; the default temporary directory may be private.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let socket = directory.path().join("model");
        fs::write(&socket, "").unwrap();
        let file = rigs(&format!(
            "[[rig]]\nname = \"a\"\nkind = \"model\"\nsocket = {socket:?}\n"
        ));
        let rig = file.find("a").unwrap();
        for (of_directory, of_socket, expected) in [(0o755, 0o777, true), (0o755, 0o755, false), (0o700, 0o777, false)]
        {
            set(directory.path(), of_directory);
            set(&socket, of_socket);
            assert_eq!(may_drive(rig, NOBODY), expected, "{of_directory:o} {of_socket:o}");
        }
    }

    #[test]
    fn hard_link_is_the_same_device() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, link) = (directory.path().join("model"), directory.path().join("link"));
        let _model = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
        fs::hard_link(&socket, &link).unwrap();
        let rig = |name, socket| format!("[[rig]]\nname = \"{name}\"\nkind = \"model\"\nsocket = {socket:?}\n");
        let file = rigs(&[rig("a", &socket), rig("b", &link)].concat());
        let _held = DeviceLock::take(file.find("a").unwrap()).unwrap();
        let second = DeviceLock::take(file.find("b").unwrap());
        assert!(matches!(second, Err(RunError::DeviceBusy { .. })), "{second:?}");
    }

    #[test]
    fn agent_is_one_device_by_name_and_by_address() {
        let port = 20_000 + std::process::id() % 40_000;
        let rig = |name, agent| {
            format!(
                "[[rig]]\nname = \"{name}\"\nkind = \"packet\"\nip = \"10.0.0.2\"\ninterface = \"e\"\n\
                 agent = \"{agent}:{port}\"\n"
            )
        };
        let file = rigs(&[rig("a", "localhost"), rig("b", "127.0.0.1")].concat());
        let _held = DeviceLock::take(file.find("a").unwrap()).unwrap();
        let second = DeviceLock::take(file.find("b").unwrap());
        assert!(matches!(second, Err(RunError::DeviceBusy { .. })), "{second:?}");
    }

    #[test]
    fn takes_a_device_once_it_is_released() {
        let file = rigs("[[rig]]\nname = \"a\"\nkind = \"model\"\nsocket = \"looked-at.sock\"\n");
        let rig = file.find("a").unwrap();
        let mut held = Some(DeviceLock::take(rig).unwrap());
        let taken = DeviceLock::take_again(rig, || held.take().is_some()).unwrap();
        let busy = DeviceLock::take_again(rig, || false);
        assert!(matches!(busy, Err(RunError::DeviceBusy { .. })), "{busy:?}");
        drop(taken);
    }

    #[test]
    fn device_is_locked_under_any_rig_name() {
        let file = rigs(
            "[[rig]]\nname = \"a\"\nkind = \"model\"\nsocket = \"one-device.sock\"\n\
             [[rig]]\nname = \"b\"\nkind = \"model\"\nsocket = \"/d/one-device.sock\"\n\
             [[rig]]\nname = \"c\"\nkind = \"model\"\nsocket = \"another-device.sock\"\n",
        );
        let rig = |name: &str| file.find(name).unwrap();
        let held = DeviceLock::take(rig("a")).unwrap();
        let error = DeviceLock::take(rig("b")).unwrap_err().to_string();
        assert!(error.contains("rig b") && error.contains("another process"), "{error}");
        let who = format!("process {} of user {}", std::process::id(), nix::unistd::geteuid());
        assert!(error.contains(&who), "{error}");
        assert!(DeviceLock::take(rig("c")).is_ok());
        drop(held);
        assert!(DeviceLock::take(rig("b")).is_ok());
        assert!(DeviceLock::take(rig("virtual")).is_ok() && DeviceLock::take(rig("virtual")).is_ok());
        assert_eq!(file.two_of_one_device(), Some(("a", "b")));
    }
}

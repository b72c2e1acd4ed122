//! The socket of a model: made, and removed when it ends.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::ModelError;

/// A socket at a path, which is removed with it.
#[derive(Debug)]
pub(super) struct Bound {
    /// It never blocks.
    pub(super) socket: UnixDatagram,
    path: PathBuf,
    /// Which file it is, so that nobody else's is removed.
    id: Option<(u64, u64)>,
}

impl Bound {
    /// Makes the socket. One that a process left behind is replaced, one that is served is not touched.
    pub(super) fn new(path: &Path) -> Result<Self, ModelError> {
        let failed = |source| ModelError::Bind {
            path: path.into(),
            source,
        };
        let path = std::path::absolute(path).map_err(failed)?;
        let socket = match UnixDatagram::bind(&path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(&path)?;
                UnixDatagram::bind(&path).map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        socket.set_nonblocking(true).map_err(failed)?;
        let id = id_of(&path);
        Ok(Self { socket, path, id })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.id.is_some() && self.id == id_of(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    let file = path.symlink_metadata().ok()?;
    Some((file.dev(), file.ino()))
}

fn remove_stale(path: &Path) -> Result<(), ModelError> {
    let failed = |source| ModelError::Bind {
        path: path.into(),
        source,
    };
    let kind = path.symlink_metadata().map_err(failed)?.file_type();
    if !kind.is_socket() {
        return Err(ModelError::NotASocket {
            path: path.into(),
            seen: match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => "a directory".into(),
                (_, true) => "a symbolic link".into(),
                _ => "a file".into(),
            },
        });
    }
    let answer = UnixDatagram::unbound().and_then(|probe| probe.connect(path));
    match answer {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(failed),
        // Connected, or a socket of another type, or not ours to talk to: somebody's.
        _ => Err(ModelError::InUse { path: path.into() }),
    }
}

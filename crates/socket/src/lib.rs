//! Unix sockets at a path.
//!
//! A process that dies leaves its socket's file behind. A new process replaces that file, but never the socket of a
//! living process, nor a file that is not a socket.

use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Why a socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path is not a socket.
    #[error("there is {seen}, expected nothing or a socket; remove it, or name another path")]
    NotASocket {
        /// The kind of file at the path.
        seen: &'static str,
    },
    /// A living process has a socket at the path.
    #[error("another process has a socket there; stop that one, or name another path")]
    InUse,
    /// Any other error of the system.
    #[error("{0}; expected a path of at most 107 bytes in a writable directory")]
    System(#[from] io::Error),
}

/// A socket at a path, with its file.
#[derive(Debug)]
pub struct Bound<S> {
    socket: S,
    file: SocketFile,
}

/// The file of a socket. Dropping the value removes the file, unless another file has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    id: Option<(u64, u64)>,
}

impl<S> Bound<S> {
    /// Makes a socket at `path` by a call of `bind`. Replaces the socket of a dead process.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn new(path: &Path, bind: impl Fn() -> io::Result<S>) -> Result<Self, BindError> {
        let socket = match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path)?;
                bind()
            }
            made => made,
        }?;
        let path = std::path::absolute(path)?;
        let id = id_of(&path);
        let file = SocketFile { path, id };
        Ok(Self { socket, file })
    }

    /// Returns the socket and its file. Dropping the [`SocketFile`] removes the file.
    #[must_use]
    pub fn into_parts(self) -> (S, SocketFile) {
        (self.socket, self.file)
    }
}

impl<S> Deref for Bound<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl Drop for SocketFile {
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

fn remove_stale(path: &Path) -> Result<(), BindError> {
    let kind = path.symlink_metadata()?.file_type();
    if !kind.is_socket() {
        let seen = match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => "a directory",
            (_, true) => "a symbolic link",
            _ => "a file",
        };
        return Err(BindError::NotASocket { seen });
    }
    // Connecting to the socket of a dead process fails with ECONNREFUSED, for stream and datagram sockets alike.
    // The socket of a living process accepts the connection or fails with another error.
    match UnixDatagram::unbound()?.connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(std::fs::remove_file(path)?),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error.into()),
        _ => Err(BindError::InUse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn listen(path: &Path) -> Result<Bound<UnixListener>, BindError> {
        Bound::new(path, || UnixListener::bind(path))
    }

    #[test]
    fn dead_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        drop(Bound::new(&path, || UnixDatagram::bind(&path)).unwrap());
        assert!(!path.exists(), "it goes with its process");
        drop(UnixDatagram::bind(&path).unwrap());
        drop(listen(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn living_socket_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (stream, datagram) = (directory.path().join("s"), directory.path().join("d"));
        let held = (
            UnixListener::bind(&stream).unwrap(),
            UnixDatagram::bind(&datagram).unwrap(),
        );
        for path in [&stream, &datagram] {
            assert!(matches!(listen(path), Err(BindError::InUse)));
            let other = Bound::new(path, || UnixDatagram::bind(path));
            assert!(matches!(other, Err(BindError::InUse)));
            assert!(path.exists());
        }
        drop(held);
    }

    #[test]
    fn other_files_are_kept_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("f"), directory.path().join("l"));
        fs::write(&file, "mine").unwrap();
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for (path, expected) in [
            (&file, "a file"),
            (&link, "a symbolic link"),
            (&directory.path().into(), "a directory"),
        ] {
            let error = listen(path).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert_eq!(fs::read(file).unwrap(), b"mine");
        assert!(matches!(listen(Path::new("/nowhere/s")), Err(BindError::System(_))));
    }

    #[test]
    fn replaced_file_is_kept_on_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(first);
        assert!(path.exists());
    }
}

//! Unix sockets at a path.
//!
//! A process that dies leaves its socket's file behind. The next one takes its place, but never that of a process that
//! lives, nor of anything that is no socket.

use std::io;
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Why a socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Something else has the path.
    #[error("there is {seen}, expected nothing or a socket; remove it, or name another path")]
    NotASocket {
        /// What is there.
        seen: &'static str,
    },
    /// A process has a socket there.
    #[error("another process has a socket there; stop that one, or name another path")]
    InUse,
    /// The system refuses.
    #[error("{0}; expected a path of at most 107 bytes in a writable directory")]
    System(#[from] io::Error),
}

/// A socket at a path. Its file is removed with it, unless it is somebody else's by then.
#[derive(Debug)]
pub struct Bound<S> {
    socket: S,
    path: PathBuf,
    id: Option<(u64, u64)>,
}

impl<S> Bound<S> {
    /// Makes a socket at `path` by `bind`, in place of one that a dead process left there.
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
        Ok(Self { socket, path, id })
    }
}

impl<S> Deref for Bound<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S> Drop for Bound<S> {
    fn drop(&mut self) {
        if self.id.is_some() && self.id == id_of(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Which file it is.
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
    // Whatever its type, a socket that no process has refuses; one of another type than ours says so.
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
    fn a_socket_that_a_dead_process_left_is_replaced_whatever_its_type() {
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
    fn a_socket_that_a_process_has_is_left_alone_whatever_its_type() {
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
    fn what_is_no_socket_is_named_and_left_alone() {
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
    fn the_file_of_who_came_after_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(first);
        assert!(path.exists());
    }
}

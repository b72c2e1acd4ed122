//! A cable from a port of the machine's adapter to a device model outside. The cable turns messages of a stream into
//! datagrams, and back. A message has the form of `verbatimd model`: two big-endian bytes with the length of the rest,
//! then the rest.

use std::{
    io::{self, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::{UnixDatagram, UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Bytes of the length field.
const LENGTH: usize = 2;
/// Buffer size in bytes. The messages of the model are shorter.
const LONGEST: usize = 8192;

/// A socket that listens for machines. Each connection gets a cable to the model. The cable ends with the machine.
/// Messages to a model that has exited are lost, as on a cable with an unplugged far end.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    closed: Arc<AtomicBool>,
}

impl Socket {
    /// Listens at `path` for machines, and connects each machine to the model's socket. The cables' own sockets are
    /// beside `path`.
    pub(crate) fn new(path: &Path, model: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let socket = Self {
            path: path.to_owned(),
            closed: Arc::default(),
        };
        let (path, model, closed) = (path.to_owned(), model.to_owned(), Arc::clone(&socket.closed));
        thread::Builder::new().name("cables".into()).spawn(move || {
            for number in 1.. {
                let Ok((machine, _)) = listener.accept() else { return };
                if closed.load(Ordering::Acquire) {
                    return;
                }
                let own = path.with_extension(number.to_string());
                if let Err(error) = lay(machine, &model, &own) {
                    eprintln!("vib lab: the cable could not be connected: {error}");
                }
            }
        })?;
        Ok(socket)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Connect, so that the listener wakes and sees `closed`.
        let _ = UnixStream::connect(&self.path);
    }
}

/// Lays a cable. `end` is the machine's port. `own` is the path for the cable's own socket; the model distinguishes
/// cables by this path.
fn lay(end: UnixStream, model: &Path, own: &Path) -> io::Result<()> {
    let socket = UnixDatagram::bind(own)?;
    let (from, model, out) = (end.try_clone()?, PathBuf::from(model), socket.try_clone()?);
    thread::Builder::new().name("cable out".into()).spawn(move || {
        let _ = carry_out(from, &out, &model);
        // The machine has ended, so stop receiving.
        let _ = out.shutdown(Shutdown::Both);
    })?;
    thread::Builder::new().name("cable in".into()).spawn(move || {
        let _ = carry_in(&socket, end);
    })?;
    Ok(())
}

fn carry_out(mut from: UnixStream, to: &UnixDatagram, model: &Path) -> io::Result<()> {
    let mut message = [0; LENGTH + u16::MAX as usize];
    loop {
        from.read_exact(&mut message[..LENGTH])?;
        let length = LENGTH + usize::from(u16::from_be_bytes([message[0], message[1]]));
        from.read_exact(&mut message[LENGTH..length])?;
        let _ = to.send_to(&message[..length], model);
    }
}

fn carry_in(from: &UnixDatagram, mut to: UnixStream) -> io::Result<()> {
    let mut message = [0; LONGEST];
    loop {
        match from.recv(&mut message)? {
            0 => return Ok(()),
            // Drop a datagram with a wrong length field, which would shift all later messages of the stream.
            length
                if length < LENGTH || usize::from(u16::from_be_bytes([message[0], message[1]])) + LENGTH != length => {}
            length => to.write_all(&message[..length])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_messages_until_machine_ends() {
        let place = tempfile::tempdir().unwrap();
        let (model, path) = (place.path().join("model"), place.path().join("cable"));
        let far = UnixDatagram::bind(&model).unwrap();
        let socket = Socket::new(&path, &model).unwrap();
        let mut machine = UnixStream::connect(socket.path()).unwrap();
        // The first message is in two writes, and the second write also holds the next message.
        machine.write_all(&[0]).unwrap();
        machine.write_all(&[2, 2, 7, 0, 1, 0]).unwrap();
        let mut seen = [0; 16];
        let (length, own) = far.recv_from(&mut seen).unwrap();
        let own = own.as_pathname().unwrap().to_owned();
        assert_eq!(seen[..length], [0, 2, 2, 7]);
        let length = far.recv(&mut seen).unwrap();
        assert_eq!(seen[..length], [0, 1, 0]);
        far.send_to(&[0, 9, 9], &own).unwrap();
        far.send_to(&[0, 2, 2, 8], &own).unwrap();
        machine.read_exact(&mut seen[..4]).unwrap();
        assert_eq!(seen[..4], [0, 2, 2, 8], "what is no message does not come");
        drop(far);
        machine.write_all(&[0, 1, 0]).unwrap();
        machine.shutdown(Shutdown::Write).unwrap();
        assert_eq!(machine.read(&mut seen).unwrap(), 0);
    }
}

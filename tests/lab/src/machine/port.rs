//! A virtio port of the machine: bytes in both directions, through a Unix stream socket that QEMU connects to.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::process::Process;

/// The reason why reading or writing failed.
#[derive(Debug)]
pub(crate) enum PortError {
    /// The machine has ended.
    Ended,
    /// The deadline has passed.
    TooLate,
    Io(io::Error),
}

impl From<io::Error> for PortError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => PortError::TooLate,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                PortError::Ended
            }
            _ => PortError::Io(error),
        }
    }
}

/// A socket at which QEMU will connect.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Accepts QEMU's connection. QEMU connects before it runs the machine. Fails if QEMU ends first.
    pub(crate) fn accept(&self, qemu: &Process, deadline: Instant) -> Result<UnixStream, PortError> {
        loop {
            // Check the end before the accept. Otherwise QEMU could connect and end between accept and check, and
            // its connection would be lost.
            let has_ended = qemu.has_ended();
            match self.0.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if has_ended {
                return Err(PortError::Ended);
            }
            if Instant::now() > deadline {
                return Err(PortError::TooLate);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Reads lines and blocks from a port. Bytes received before a timeout stay for the next read.
#[derive(Debug)]
pub(crate) struct Port {
    stream: UnixStream,
    pending: Vec<u8>,
}

impl Port {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            pending: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), PortError> {
        self.stream.set_write_timeout(Some(remaining(deadline)?))?;
        Ok(self.stream.write_all(bytes)?)
    }

    /// Reads one line, and returns it without the line break.
    pub(crate) fn read_line(&mut self, deadline: Instant) -> Result<String, PortError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.pending[searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.take(searched + end + 1);
                return Ok(String::from_utf8_lossy(&line[..line.len() - 1]).into_owned());
            }
            searched = self.pending.len();
            self.fill(deadline)?;
        }
    }

    /// Reads `length` bytes.
    pub(crate) fn read(&mut self, length: usize, deadline: Instant) -> Result<Vec<u8>, PortError> {
        while self.pending.len() < length {
            self.fill(deadline)?;
        }
        Ok(self.take(length))
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.pending.split_off(length);
        std::mem::replace(&mut self.pending, rest)
    }

    fn fill(&mut self, deadline: Instant) -> Result<(), PortError> {
        self.stream.set_read_timeout(Some(remaining(deadline)?))?;
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(PortError::Ended),
            Ok(length) => {
                self.pending.extend(&buffer[..length]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn remaining(deadline: Instant) -> Result<Duration, PortError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(PortError::TooLate)
    } else {
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[test]
    fn timeout_keeps_received_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut port = Port::new(ours);
        (&theirs).write_all(b"hal").unwrap();
        assert!(matches!(port.read_line(soon()), Err(PortError::TooLate)));
        (&theirs).write_all(b"f\n\0\n\xff").unwrap();
        assert_eq!(port.read_line(soon()).unwrap(), "half");
        assert_eq!(port.read(3, soon()).unwrap(), b"\0\n\xff");
    }

    #[test]
    fn distinguishes_end_from_timeout() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut port = Port::new(ours);
        drop(theirs);
        assert!(matches!(port.read_line(soon()), Err(PortError::Ended)));
        assert!(matches!(port.write(b"x", soon()), Err(PortError::Ended)));
    }
}

//! A virtio port of the machine: bytes both ways, through a unix stream socket that QEMU connects to.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::process::Process;

/// Why nothing could be read or written.
#[derive(Debug)]
pub(crate) enum PortError {
    /// The machine is gone.
    Ended,
    /// The time is over.
    TooLate,
    /// Something else.
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

/// The place where QEMU will connect.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// QEMU's end. It connects before it runs anything, or ends.
    pub(crate) fn accept(&self, qemu: &Process, deadline: Instant) -> Result<UnixStream, PortError> {
        loop {
            // In this order: what ended after it had connected is seen when it is read.
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

/// Lines and blocks of a port. What came before a time-out is kept for the next reading.
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

    /// One line, without its end.
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

    /// So many bytes.
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
    fn what_came_before_a_time_out_is_kept() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut port = Port::new(ours);
        (&theirs).write_all(b"hal").unwrap();
        assert!(matches!(port.read_line(soon()), Err(PortError::TooLate)));
        (&theirs).write_all(b"f\n\0\n\xff").unwrap();
        assert_eq!(port.read_line(soon()).unwrap(), "half");
        assert_eq!(port.read(3, soon()).unwrap(), b"\0\n\xff");
    }

    #[test]
    fn the_end_is_told_from_a_time_out() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut port = Port::new(ours);
        drop(theirs);
        assert!(matches!(port.read_line(soon()), Err(PortError::Ended)));
        assert!(matches!(port.write(b"x", soon()), Err(PortError::Ended)));
    }
}

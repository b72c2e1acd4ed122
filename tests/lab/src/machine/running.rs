//! A running machine.

use std::{
    fmt::Write as _,
    io,
    net::SocketAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::PoisonError,
    time::{Duration, Instant},
};

use crate::machine::{
    BootOptions, DataSockets, Image, MachineError,
    boot::{Booted, boot, tail},
    error::path_error,
    port::PortError,
};

/// A running machine. Dropping it ends the machine and removes its sockets, but keeps the console's log. If this
/// process is killed, the kernel ends the machine.
#[derive(Debug)]
pub struct Machine {
    console: PathBuf,
    booted: Booted,
}

/// The script's output streams. The script blocks if the caller does not read them. The streams end with the machine.
#[derive(Debug)]
pub struct Output {
    /// Stream of the port `out`.
    pub out: UnixStream,
    /// Stream of the port `err`.
    pub err: UnixStream,
}

/// The result of a command in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit status, as in a shell.
    pub status: u8,
    /// Standard output and standard error together.
    pub output: Vec<u8>,
}

impl Ran {
    /// Returns the output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

impl Machine {
    /// Boots a machine, and returns when its script reports that it is ready. If the boot ends early or takes too long,
    /// tries once more; the console's log has both attempts.
    ///
    /// # Errors
    ///
    /// [`MachineError::NotReady`], with the end of the console's log, if the machine did not start.
    /// [`MachineError::File`] for a share without the script, a directory that cannot be mounted, or a socket's path
    /// that is too long.
    pub fn boot(image: &Image, options: &BootOptions) -> Result<Machine, MachineError> {
        if let Some(place) = options.console.parent() {
            std::fs::create_dir_all(place).map_err(path_error("making", place))?;
        }
        let booted = match boot(image, options) {
            Err(failure) if failure.again => boot(image, options),
            done => done,
        }
        .map_err(|failure| failure.error)?;
        let console = options.console.clone();
        Ok(Machine { console, booted })
    }

    /// Returns the duration of the boot, until the script reported that it is ready.
    #[must_use]
    pub fn booted_in(&self) -> Duration {
        self.booted.took
    }

    /// Returns the id of QEMU's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.booted.process.pid
    }

    /// Returns whether the machine still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.booted.process.has_ended()
    }

    /// Returns the path of the console's log.
    #[must_use]
    pub fn console(&self) -> &Path {
        &self.console
    }

    /// Returns the ends of the data cable, if there is one.
    #[must_use]
    pub fn data_sockets(&self) -> Option<&DataSockets> {
        self.booted.data.as_ref()
    }

    /// Returns the agent's address on this host, if the machine has a management interface.
    #[must_use]
    pub fn agent_address(&self) -> Option<SocketAddr> {
        self.booted.agent
    }

    /// Returns a directory of this machine with a short path, for sockets. The directory is removed with the machine.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.booted.place.path()
    }

    /// Returns the streams of the ports `out` and `err`. Returns `None` if the machine was booted without these ports,
    /// or if an earlier call returned the streams.
    pub fn take_output(&mut self) -> Option<Output> {
        self.booted.output.take().map(|(out, err)| Output { out, err })
    }

    /// Runs a shell command in the machine, beside its script, and waits for the command's end. Commands run one at a
    /// time, with an empty standard input, in the script's working directory.
    ///
    /// # Errors
    ///
    /// [`MachineError::TooLate`] when the command takes longer than `limit`. The command then still runs, so the
    /// machine can run no further command. [`MachineError::Ended`] when the machine has ended.
    pub fn run(&self, command: &str, limit: Duration) -> Result<Ran, MachineError> {
        let deadline = Instant::now() + limit;
        let mut line = String::with_capacity(2 * command.len() + 1);
        for byte in command.bytes() {
            let _ = write!(line, "{byte:02x}");
        }
        line.push('\n');
        let mut shell = self.booted.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let mut talk = || {
            shell.write(line.as_bytes(), deadline)?;
            let answer = shell.read_line(deadline)?;
            let (status, length) = parse_answer(&answer).ok_or_else(|| {
                let what = format!("expected \"STATUS LENGTH\" from the machine's shell, seen \"{answer}\"");
                PortError::Io(io::Error::new(io::ErrorKind::InvalidData, what))
            })?;
            let output = shell.read(length, deadline)?;
            Ok(Ran { status, output })
        };
        talk().map_err(|error| self.error(error, &format!("running `{command}`"), limit))
    }

    /// Waits until the script has ended, and returns its exit status. The machine then powers off.
    ///
    /// # Errors
    ///
    /// [`MachineError::TooLate`]: the script has not ended within `limit`. [`MachineError::Ended`]: the machine ended
    /// without reporting an exit status.
    pub fn wait_for_exit(&self, limit: Duration) -> Result<u8, MachineError> {
        let deadline = Instant::now() + limit;
        let mut events = self.booted.events.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let line = events
                .read_line(deadline)
                .map_err(|error| self.error(error, "waiting for its script", limit))?;
            if let Some(status) = line.strip_prefix("exit ").and_then(|status| status.parse().ok()) {
                return Ok(status);
            }
        }
    }

    /// Ends the machine at once, like a power failure, and returns when it has ended. The caller's streams to the
    /// machine then report an end of file.
    pub fn kill(&mut self) {
        self.booted.process.kill();
    }

    fn error(&self, error: PortError, doing: &str, limit: Duration) -> MachineError {
        match error {
            PortError::Ended => MachineError::Ended {
                doing: doing.to_owned(),
                console: self.console.clone(),
                tail: tail(&self.console),
            },
            PortError::TooLate => MachineError::TooLate {
                what: doing.to_owned(),
                limit,
                console: self.console.clone(),
            },
            PortError::Io(source) => MachineError::Io {
                what: doing.to_owned(),
                source,
            },
        }
    }
}

fn parse_answer(line: &str) -> Option<(u8, usize)> {
    let (status, length) = line.trim().split_once(' ')?;
    Some((status.parse().ok()?, length.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_shell_status_and_length() {
        assert_eq!(parse_answer("3 17"), Some((3, 17)));
        for wrong in ["", "3", "x 17", "3 -1", "300 1"] {
            assert_eq!(parse_answer(wrong), None, "{wrong}");
        }
    }
}

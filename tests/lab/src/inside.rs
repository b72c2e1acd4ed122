//! A command inside a machine: its script, its output, its exit code.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{Read as _, Write},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{
    command,
    host::program,
    machine::{Image, Machine, MachineError, Share},
};

/// Interval between checks for a signal to this process.
const SLICE: Duration = Duration::from_millis(50);
/// Longest time until the machine has powered off, which includes the daemon's restore of the device.
const POWER_OFF: Duration = Duration::from_secs(100);

/// Writes the command into the share. The machine's script runs `start`, which is shell code, and then the command. The
/// command's first word may be a program of this host, which is then copied into the machine with its libraries.
///
/// # Errors
///
/// When the program cannot be copied, or the share cannot be written.
pub(crate) fn write_command(
    command: &[OsString],
    start: &str,
    image: &Image,
    share: &Share,
    here: &Path,
) -> anyhow::Result<()> {
    let mut script = start.as_bytes().to_vec();
    script.extend(passed_on());
    script.extend(b"exec");
    let first = inside(&command[0], image, share, here)?;
    for word in std::iter::once(&first).chain(&command[1..]) {
        script.push(b' ');
        script.extend(quoted(word));
    }
    script.push(b'\n');
    share.write("command.cmd", script)?;
    Ok(())
}

/// Forwards the command's output until the machine has ended, and returns the command's exit code. Forwards a signal
/// stored in `signal` to the command.
///
/// # Errors
///
/// When the machine ends by itself.
pub(crate) fn attend(
    machine: &mut Machine,
    signal: &AtomicUsize,
    out: impl Write + Send + 'static,
    err: impl Write + Send + 'static,
) -> anyhow::Result<u8> {
    eprintln!(
        "xtask: the machine runs (process {}, up in {:.1?}), its console is {}",
        machine.pid(),
        machine.booted_in(),
        machine.console().display()
    );
    let output = machine.take_output().context("the machine has no output")?;
    let readers = [
        thread::spawn(move || pass_on(output.out, out)),
        thread::spawn(move || pass_on(output.err, err)),
    ];
    let code = wait(machine, signal)?;
    // Wait for the power-off: only then do the readers get an end of file.
    let bound = Instant::now() + POWER_OFF;
    while machine.is_running() && Instant::now() < bound {
        thread::sleep(Duration::from_millis(5));
    }
    machine.kill();
    for reader in readers {
        let _ = reader.join();
    }
    Ok(code)
}

/// Waits for the command. Forwards a signal to the command, and ends the machine if the command does not end in time.
fn wait(machine: &mut Machine, signal: &AtomicUsize) -> anyhow::Result<u8> {
    let mut told: Option<Instant> = None;
    loop {
        match machine.wait_for_exit(SLICE) {
            Ok(code) => return Ok(code),
            Err(MachineError::TooLate { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let caught = signal.load(Ordering::Relaxed);
        if caught == 0 {
            continue;
        }
        match told {
            None => {
                told = Some(Instant::now());
                // If the command has not begun yet, send the signal again later.
                let tell = format!("kill -s {caught} \"$(cat /run/command.pid 2>/dev/null || cat /tmp/command.pid)\"");
                if !machine.run(&tell, command::GRACE).is_ok_and(|ran| ran.status == 0) {
                    told = None;
                }
            }
            Some(since) if since.elapsed() > POWER_OFF => {
                machine.kill();
                bail!("the command did not end within {POWER_OFF:?} of its signal; the machine was ended");
            }
            Some(_) => {}
        }
    }
}

/// Returns the path or name of a command's program in the machine.
fn inside(word: &OsStr, image: &Image, share: &Share, here: &Path) -> anyhow::Result<OsString> {
    let path = if word.as_bytes().contains(&b'/') {
        Some(here.join(word)).filter(|path| path.is_file())
    } else {
        let name = word.to_string_lossy();
        let is_there = share.path().join("bin").join(word).is_file() || image.has_program(&name);
        if is_there { None } else { program(&name) }
    };
    let Some(path) = path else { return Ok(word.to_owned()) };
    // A script in the working directory is mounted in the machine already, with its other files.
    if path.starts_with(here) && !crate::machine::is_elf(&path)? {
        return Ok(path.into());
    }
    Ok(share.program(&path)?.into())
}

/// Returns shell code that exports the debugging variables of our environment.
fn passed_on() -> Vec<u8> {
    let mut script = Vec::new();
    for name in ["RUST_BACKTRACE", "RUST_LOG"] {
        if let Some(value) = env::var_os(name) {
            script.extend(format!("export {name}=").bytes());
            script.extend(quoted(&value));
            script.push(b'\n');
        }
    }
    script
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        if byte == b'\'' {
            quoted.extend(b"'\\''");
        } else {
            quoted.push(byte);
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Copies until the end. After a write error, continues to read, so that the command never blocks on its output.
fn pass_on(mut from: std::os::unix::net::UnixStream, mut to: impl Write) {
    let mut buffer = [0; 16384];
    let mut gone = false;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !gone {
            gone = to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn quotes_words_for_shell() {
        for word in ["plain", "two words", "it's", "$HOME `x` \"y\" \\", "", "\n"] {
            let script = [b"printf %s ".as_slice(), &quoted(OsStr::new(word))].concat();
            let script = OsString::from(OsStr::from_bytes(&script));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(output.stdout, word.as_bytes());
        }
    }

    #[test]
    fn drains_output_without_consumer() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let reader = thread::spawn(move || pass_on(ours, Closed));
        // More than the socket's buffer.
        (&theirs).write_all(&vec![b'x'; 4 << 20]).unwrap();
        drop(theirs);
        reader.join().unwrap();
    }
}

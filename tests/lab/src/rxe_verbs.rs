//! The rxe-verbs lab: two RoCEv2 devices in one machine, and in it the agent, the daemon and the command too.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read as _, Write},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use verbatim_machine::{BootOptions, Image, Machine, MachineError, PAIR_SCRIPT, Share, console_log};

use super::{
    command,
    rig_text::{Rig, rig_file},
};
use crate::workspace::program;

/// The agent's socket in the machine; the machine's script waits for it.
const AGENT: &str = "/run/agent.sock";
/// The daemon's socket in the machine, likewise.
const DAEMON: &str = "/run/verbatim.sock";
/// The daemon's state in the machine.
const STATE: &str = "/run/verbatim-state";
/// How often a signal to us is looked for.
const SLICE: Duration = Duration::from_millis(50);
/// How long the machine may take to power off, its daemon restoring the device among it.
const POWER_OFF: Duration = Duration::from_secs(100);

/// A machine with `rxe0`, the device under test, and `rxe1`, the tester's adapter, on a veth pair.
///
/// Dropping it ends the machine; the console's log stays, with what agent and daemon said.
#[derive(Debug)]
pub struct RxeVerbsLab {
    machine: Machine,
    _share: Share,
}

impl RxeVerbsLab {
    /// Boots the machine. With `binaries`, the directory of `verbatim`, `verbatimd` and `verbatim-agent`, the agent of
    /// `rxe0` and a daemon with the rig `rxe-verbs` run in it: [`Machine::run`] with `verbatim …` uses them.
    ///
    /// # Errors
    ///
    /// As [`super::RxeLab::start`].
    pub fn start(binaries: Option<&Path>) -> anyhow::Result<RxeVerbsLab> {
        let image = Image::ensure()?;
        let share = Share::new()?;
        fill(&share, binaries)?;
        let machine = Machine::boot(&image, &options(&share)?)?;
        Ok(RxeVerbsLab { machine, _share: share })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine, to end it.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// What a command in the machine needs in its environment to use the daemon, as assignments for a shell.
    pub fn environment(&self) -> String {
        environment()
    }
}

fn options(share: &Share) -> anyhow::Result<BootOptions> {
    let options = BootOptions::new(share.path(), "pair.sh", console_log("lab-rxe-verbs")?);
    Ok(options.with_cpus(2).with_memory(1024))
}

fn environment() -> String {
    format!("export VERBATIM_SERVER={DAEMON} STATE_DIRECTORY={STATE}\n")
}

/// The script, and Verbatim's programs with what starts them.
fn fill(share: &Share, binaries: Option<&Path>) -> anyhow::Result<()> {
    share.write("pair.sh", PAIR_SCRIPT)?;
    let Some(binaries) = binaries else { return Ok(()) };
    for name in ["verbatim", "verbatimd", "verbatim-agent"] {
        share.program(&binaries.join(name))?;
    }
    let rigs = share.write(
        "rigs.toml",
        rig_file(&Rig::Verbs {
            agent: Path::new(AGENT),
        }),
    )?;
    share.write(
        "agent.cmd",
        format!("exec verbatim-agent --listen unix:{AGENT} --device rxe0\n"),
    )?;
    share.write(
        "daemon.cmd",
        format!(
            "NO_COLOR=1 exec verbatimd serve --rig-file {} --socket {DAEMON} --state {STATE}\n",
            rigs.display()
        ),
    )?;
    Ok(())
}

/// Runs `command` inside a fresh machine, with its output passed on as it comes, and returns its exit code. Its first
/// word may be a program of this host: it is taken into the machine, with its libraries. The working directory is there
/// too, at the same path. `bare`: without agent and daemon, and nothing is built.
///
/// SIGTERM, SIGINT and SIGHUP to this process end the command, then the lab.
///
/// # Errors
///
/// When the lab does not come up, or the machine ends by itself.
pub fn run_in_rxe_verbs(command: &[OsString], bare: bool) -> anyhow::Result<u8> {
    command::check(command, "rxe-verbs")?;
    let signal = command::catch_signals()?;
    let binaries = (!bare).then(command::build_binaries).transpose()?;
    run_inside(command, binaries.as_deref(), &signal, io::stdout(), io::stderr())
}

fn run_inside(
    command: &[OsString],
    binaries: Option<&Path>,
    signal: &AtomicUsize,
    out: impl Write + Send + 'static,
    err: impl Write + Send + 'static,
) -> anyhow::Result<u8> {
    let image = Image::ensure()?;
    let share = Share::new()?;
    fill(&share, binaries)?;
    let here = env::current_dir().context("looking for the working directory")?;
    let mut script = environment().into_bytes();
    script.extend(passed_on());
    script.extend(b"exec");
    let first = inside(&command[0], &image, &share, &here)?;
    for word in std::iter::once(&first).chain(&command[1..]) {
        script.push(b' ');
        script.extend(quoted(word));
    }
    script.push(b'\n');
    share.write("command.cmd", script)?;

    let options = options(&share)?.with_output().with_directory(&here);
    let mut machine = Machine::boot(&image, &options)?;
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
    let code = wait(&mut machine, signal)?;
    // What is printed has left the machine; the ends of the streams come when it is gone.
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

/// Waits for the command; passes a signal on to it, and ends the machine when it does not obey.
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
                // A command that has not begun yet is told when it has.
                let tell = format!("kill -s {caught} \"$(cat /run/command.pid)\"");
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

/// The first word of the command, as it is called in the machine.
fn inside(word: &OsStr, image: &Image, share: &Share, here: &Path) -> anyhow::Result<OsString> {
    let path = if word.as_bytes().contains(&b'/') {
        Some(here.join(word)).filter(|path| path.is_file())
    } else {
        let name = word.to_string_lossy();
        let is_there = share.path().join("bin").join(word).is_file() || image.has_program(&name);
        if is_there { None } else { program(&name) }
    };
    let Some(path) = path else { return Ok(word.to_owned()) };
    // A script of the working directory is there already, beside what it may look for.
    if path.starts_with(here) && !is_elf(&path)? {
        return Ok(path.into());
    }
    Ok(share.program(&path)?.into())
}

fn is_elf(path: &Path) -> anyhow::Result<bool> {
    let mut start = Vec::new();
    let file = fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(4)
        .read_to_end(&mut start)
        .with_context(|| format!("reading {}", path.display()))?;
    Ok(start == b"\x7fELF")
}

/// The variables of our environment that the command gets too: those for whoever looks for a fault.
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

/// A word for the shell.
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

/// Copies until the end. When our own output is gone, the rest is read all the same: the command must not wait for it.
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
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What a command in a bare machine prints, and its exit code; nothing where this host lacks something and need not
    /// have it. `on_output` is called with each piece of output.
    fn ran(
        command: &[&OsStr],
        signal: &Arc<AtomicUsize>,
        on_output: impl Fn() + Send + 'static,
    ) -> Option<(u8, Vec<u8>)> {
        struct Kept<F>(Arc<Mutex<Vec<u8>>>, F);
        impl<F: Fn()> Write for Kept<F> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend(bytes);
                (self.1)();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Arc::new(Mutex::new(Vec::new()));
        let words: Vec<OsString> = command.iter().map(|&word| word.to_owned()).collect();
        let code = match run_inside(&words, None, signal, Kept(Arc::clone(&kept), on_output), io::stderr()) {
            Ok(code) => code,
            Err(error) => {
                let missing = matches!(error.downcast_ref(), Some(MachineError::NotInstalled { .. }));
                assert!(missing && env::var_os("CI").is_none(), "{error:#}");
                eprintln!("skipped: {error:#}");
                return None;
            }
        };
        let kept = kept.lock().unwrap().clone();
        Some((code, kept))
    }

    #[test]
    fn the_command_runs_beside_two_devices_in_our_directory_and_its_bytes_and_code_come_out() {
        let script = "rdma link | grep -c ACTIVE; pwd; printf '\\0\\377'; exit 43";
        let Some((code, out)) = ran(&["sh", "-c", script].map(OsStr::new), &Arc::default(), || {}) else {
            return;
        };
        let here = env::current_dir().unwrap();
        let expected = [format!("2\n{}\n", here.display()).as_bytes(), b"\0\xff"].concat();
        assert_eq!((code, out), (43, expected));
    }

    #[test]
    fn a_program_of_this_host_runs_in_the_machine() {
        let this = env::current_exe().unwrap();
        let Some((code, out)) = ran(&[this.as_os_str(), OsStr::new("--list")], &Arc::default(), || {}) else {
            return;
        };
        let text = String::from_utf8_lossy(&out);
        assert!(
            code == 0 && text.contains("a_program_of_this_host_runs_in_the_machine: test"),
            "{text}"
        );
    }

    #[test]
    fn a_signal_ends_the_command_in_the_machine() {
        let signal = Arc::new(AtomicUsize::new(0));
        let caught = Arc::clone(&signal);
        // Once it has printed something, it runs.
        let on_output = move || caught.store(15, Ordering::Relaxed);
        let script = OsStr::new("echo running; exec sleep 600");
        let Some((code, out)) = ran(&[OsStr::new("sh"), OsStr::new("-c"), script], &signal, on_output) else {
            return;
        };
        assert_eq!((code, out), (128 + 15, b"running\n".to_vec()));
    }

    #[test]
    fn a_word_is_one_word_for_the_shell() {
        for word in ["plain", "two words", "it's", "$HOME `x` \"y\" \\", "", "\n"] {
            let script = [b"printf %s ".as_slice(), &quoted(OsStr::new(word))].concat();
            let script = OsString::from(OsStr::from_bytes(&script));
            let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(output.stdout, word.as_bytes());
        }
    }

    #[test]
    fn output_is_read_to_its_end_when_nobody_takes_it() {
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
        // More than the socket holds.
        (&theirs).write_all(&vec![b'x'; 4 << 20]).unwrap();
        drop(theirs);
        reader.join().unwrap();
    }
}

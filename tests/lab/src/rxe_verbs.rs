//! The rxe-verbs lab: two RoCEv2 devices in one machine, which also runs the agent, the daemon and the command.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::AtomicUsize,
};

use crate::{
    inside,
    machine::{BootOptions, ChosenKernel, Image, Machine, PAIR_SCRIPT, Share, console_log},
};
use anyhow::{Context, bail};

use super::{
    command,
    rig_text::{Rig, rig_file},
};
/// Environment variable with the path of another build of `verbatim-agent` for the machine.
const OTHER_AGENT: &str = "VERBATIM_LAB_AGENT";
/// The agent's socket in the machine. The machine's script waits for the socket.
const AGENT: &str = "/run/agent.sock";
/// The daemon's socket in the machine. The machine's script waits for the socket.
const DAEMON: &str = "/run/verbatim.sock";
/// The directory of the daemon's state in the machine.
const STATE: &str = "/run/verbatim-state";

/// A machine with `rxe0`, the device under test, and `rxe1`, the tester's adapter, on a veth pair.
///
/// Dropping the lab ends the machine, but keeps the console's log, which has the output of agent and daemon.
#[derive(Debug)]
pub struct RxeVerbsLab {
    machine: Machine,
    _share: Share,
}

impl RxeVerbsLab {
    /// Boots the machine. `binaries` is the directory that contains `verbatim`, `verbatimd` and `verbatim-agent`. If it
    /// is given, the machine also runs the agent of `rxe0`, and a daemon with the rig `rxe-verbs`. A command
    /// `verbatim …` that [`Machine::run`] executes then uses this daemon.
    ///
    /// # Errors
    ///
    /// The errors of [`super::RxeLab::start`].
    pub fn start(binaries: Option<&Path>) -> anyhow::Result<RxeVerbsLab> {
        let image = Image::ensure()?;
        let share = Share::new()?;
        fill(&share, binaries)?;
        let machine = Machine::boot(&image, &options(&share)?)?;
        Ok(RxeVerbsLab { machine, _share: share })
    }

    /// Returns the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the machine, mutable, so that the caller can end it.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Returns shell assignments of the environment variables with which a command in the machine uses the daemon.
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

/// Puts the script, Verbatim's programs and their start commands into the share.
fn fill(share: &Share, binaries: Option<&Path>) -> anyhow::Result<()> {
    share.write("pair.sh", PAIR_SCRIPT)?;
    let Some(binaries) = binaries else { return Ok(()) };
    let agent = env::var_os(OTHER_AGENT).map_or_else(|| binaries.join("verbatim-agent"), PathBuf::from);
    if !agent.is_file() {
        bail!(
            "{} is no file: {OTHER_AGENT} names a build of verbatim-agent",
            agent.display()
        );
    }
    for program in [binaries.join("verbatim"), binaries.join("verbatimd"), agent] {
        share.program(&program)?;
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

/// Runs `command` inside a fresh machine, forwards its output, and returns its exit code. The command's first word may
/// be a program of this host, which is then copied into the machine with its libraries. The working directory is
/// mounted at the same path. With `bare`, runs no agent and no daemon, and builds nothing. The machine boots the kernel
/// `kernel`.
///
/// SIGTERM, SIGINT and SIGHUP to this process end the command, then the lab.
///
/// # Errors
///
/// When the lab does not start, or the machine ends by itself.
pub fn run_in_rxe_verbs(command: &[OsString], bare: bool, kernel: &ChosenKernel) -> anyhow::Result<u8> {
    command::check(command, "rxe-verbs")?;
    let signal = command::catch_signals()?;
    let binaries = (!bare).then(command::build_binaries).transpose()?;
    let chosen = (binaries.as_deref(), kernel);
    run_inside(command, chosen, &signal, io::stdout(), io::stderr())
}

fn run_inside(
    command: &[OsString],
    (binaries, kernel): (Option<&Path>, &ChosenKernel),
    signal: &AtomicUsize,
    out: impl Write + Send + 'static,
    err: impl Write + Send + 'static,
) -> anyhow::Result<u8> {
    let image = Image::of(kernel)?;
    let share = Share::new()?;
    fill(&share, binaries)?;
    let here = env::current_dir().context("looking for the working directory")?;
    inside::write_command(command, &environment(), &image, &share, &here)?;
    let options = options(&share)?.with_output().with_directory(&here);
    let mut machine = Machine::boot(&image, &options)?;
    inside::attend(&mut machine, signal, out, err)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::sync::{Arc, Mutex, atomic::Ordering};

    use super::*;
    use crate::machine::MachineError;

    /// Returns the exit code and the output of a command in a bare machine, or `None` if this host lacks a package and
    /// may skip the test. Calls `on_output` with each piece of output.
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
        let code = match run_inside(
            &words,
            (None, &ChosenKernel::default()),
            signal,
            Kept(Arc::clone(&kept), on_output),
            io::stderr(),
        ) {
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
    fn returns_command_output_and_exit_code() {
        let script = "rdma link | grep -c ACTIVE; pwd; printf '\\0\\377'; exit 43";
        let Some((code, out)) = ran(&["sh", "-c", script].map(OsStr::new), &Arc::default(), || {}) else {
            return;
        };
        let here = env::current_dir().unwrap();
        let expected = [format!("2\n{}\n", here.display()).as_bytes(), b"\0\xff"].concat();
        assert_eq!((code, out), (43, expected));
    }

    #[test]
    fn host_program_runs_in_machine() {
        let this = env::current_exe().unwrap();
        let Some((code, out)) = ran(&[this.as_os_str(), OsStr::new("--list")], &Arc::default(), || {}) else {
            return;
        };
        let text = String::from_utf8_lossy(&out);
        assert!(
            code == 0 && text.contains("host_program_runs_in_machine: test"),
            "{text}"
        );
    }

    #[test]
    fn signal_ends_command_in_machine() {
        let signal = Arc::new(AtomicUsize::new(0));
        let caught = Arc::clone(&signal);
        // Send the signal when the command has printed something, and therefore runs.
        let on_output = move || caught.store(15, Ordering::Relaxed);
        let script = OsStr::new("echo running; exec sleep 600");
        let Some((code, out)) = ran(&[OsStr::new("sh"), OsStr::new("-c"), script], &signal, on_output) else {
            return;
        };
        assert_eq!((code, out), (128 + 15, b"running\n".to_vec()));
    }
}

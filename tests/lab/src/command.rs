//! `cargo xtask lab LAB -- COMMAND`: runs one command inside a lab, and cleans up afterwards.

use std::{
    env,
    ffi::OsString,
    os::unix::{net::UnixStream, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::IbsimLab;
use crate::workspace::{cargo, run, say_if_build_must_wait, target_directory};

/// Longest time between a signal and the end of a command. The lab then kills the command.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// The cargo profile of labs, tests and campaigns.
pub const LAB_PROFILE: &str = "dev-fast";
/// Longest time until a daemon serves, on a busy host.
const SERVES_WITHIN: Duration = Duration::from_secs(900);

/// Builds `verbatim`, `verbatimd` and `verbatim-agent`, and returns their directory. Always builds all three, because
/// separate builds would compile shared crates with different features.
///
/// # Errors
///
/// When the build fails.
pub fn build_binaries() -> anyhow::Result<PathBuf> {
    let packages = ["-p", "verbatim", "-p", "verbatim-daemon", "-p", "verbatim-agent"];
    build_for_labs("verbatim, verbatimd and verbatim-agent", &packages)
}

/// Builds examples of the end-to-end tests, and returns their directory. Builds the whole workspace, like the tests: a
/// build of the package alone would rebuild its dependencies with fewer features.
///
/// # Errors
///
/// When the build fails.
pub fn build_examples(names: &[&str]) -> anyhow::Result<PathBuf> {
    let examples = names.iter().flat_map(|name| ["--example", name]);
    let arguments: Vec<&str> = ["--workspace"].into_iter().chain(examples).collect();
    Ok(build_for_labs(&names.join(", "), &arguments)?.join("examples"))
}

/// Builds a program in the release profile, for a bench, and returns its path.
///
/// # Errors
///
/// When the build fails.
pub fn build_released(program: &str) -> anyhow::Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "-p", program]);
    run(&format!("building {program} for release"), &mut build)?;
    Ok(target_directory()?.join("release").join(program))
}

/// Builds in the profile that labs, tests, campaigns and test authors share. A debug build is too slow for an emulated
/// machine, and a release build would compile everything again.
fn build_for_labs(what: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    say_if_build_must_wait(LAB_PROFILE);
    let mut build = cargo();
    build
        .args(["build", "--quiet", "--profile", LAB_PROFILE])
        .args(arguments);
    run(&format!("building {what}"), &mut build)?;
    Ok(target_directory()?.join(LAB_PROFILE))
}

/// Runs `command` in a fresh ibsim lab, with Verbatim's programs first on its PATH, and returns its exit code. If a
/// signal ended the command, the exit code is 128 plus the signal's number, as in a shell.
///
/// SIGTERM, SIGINT and SIGHUP to this process end the command, then the lab.
///
/// # Errors
///
/// When the lab does not come up or the command cannot be started.
pub fn run_in_ibsim(command: &[OsString]) -> anyhow::Result<u8> {
    check(command, "ibsim")?;
    let signal = catch_signals()?;
    let binaries = build_binaries()?;
    let lab = IbsimLab::start()?;
    eprintln!(
        "xtask: ibsim runs as {} (process {})",
        lab.socket_name(),
        lab.pid().unwrap_or(0)
    );
    let daemon = Daemon::start(&binaries, lab.directory(), &lab.rig_file())?;
    let command = prepare(command, Some(&binaries), lab.environment());
    run_beside(command, Some(daemon), &signal)
}

pub(super) fn check(command: &[OsString], lab: &str) -> anyhow::Result<()> {
    if command.is_empty() {
        bail!("a command is missing: `cargo xtask lab {lab} -- COMMAND…`, for example `-- verbatim run`");
    }
    Ok(())
}

/// Catches signals from now on, and stores their number. Call this function before any process starts, so that every
/// signal is handled.
pub(super) fn catch_signals() -> anyhow::Result<Arc<AtomicUsize>> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGHUP, SIGINT, SIGTERM] {
        let value = usize::try_from(number).context("a signal's number is positive")?;
        signal_hook::flag::register_usize(number, Arc::clone(&signal), value).context("catching signals")?;
    }
    Ok(signal)
}

/// Prepares the command with a lab's environment. The programs in `binaries`, if any, come first on its PATH.
pub(super) fn prepare(
    command: &[OsString],
    binaries: Option<&Path>,
    environment: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Command {
    let mut prepared = match binaries {
        None => Command::new(&command[0]),
        Some(binaries) => {
            let mut path = OsString::from(binaries);
            if let Some(rest) = env::var_os("PATH") {
                path.push(":");
                path.push(rest);
            }
            let mut prepared = Command::new(resolve(&command[0], binaries));
            prepared.env("PATH", path);
            prepared
        }
    };
    prepared.args(&command[1..]).envs(environment).env_remove("LD_PRELOAD");
    prepared
}

/// Runs the command to its end, and returns its exit code. The command's runs use the daemon, if there is one.
pub(super) fn run_beside(mut command: Command, daemon: Option<Daemon>, signal: &AtomicUsize) -> anyhow::Result<u8> {
    if let Some(daemon) = &daemon {
        // The command's runs go through the daemon. A run without the daemon (`--server none`) uses the lab's state
        // too.
        command
            .env("VERBATIM_SERVER", &daemon.socket)
            .env("STATE_DIRECTORY", &daemon.state);
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command
        .spawn()
        .with_context(|| format!("{name} could not be started; is it on the PATH?"))?;
    let status = wait(child, signal)?;
    drop(daemon);
    Ok(exit_code(status))
}

/// The lab's own daemon. The daemon has the lab's rig, and all runs go through its socket.
pub(super) struct Daemon {
    child: Child,
    socket: PathBuf,
    state: PathBuf,
}

impl Daemon {
    /// Starts `verbatimd` from `binaries`, with its socket, state and log in `directory`.
    pub(super) fn start(binaries: &Path, directory: &Path, rig_file: &Path) -> anyhow::Result<Self> {
        let (socket, state) = (directory.join("verbatim.sock"), directory.join("state"));
        let log_path = directory.join("verbatimd.log");
        let log = std::fs::File::create(&log_path).context("the daemon's log")?;
        let mut child = Command::new(binaries.join("verbatimd"))
            .arg("serve")
            .arg("--rig-file")
            .arg(rig_file)
            .arg("--socket")
            .arg(&socket)
            .arg("--state")
            .arg(&state)
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting verbatimd")?;
        let bound = Instant::now() + SERVES_WITHIN;
        // The socket exists a moment before the daemon listens.
        while UnixStream::connect(&socket).is_err() {
            if let Some(status) = child.try_wait()? {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                bail!("verbatimd ended with {status}: {log}");
            }
            if Instant::now() > bound {
                bail!("verbatimd did not serve {} within {SERVES_WITHIN:?}", socket.display());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { child, socket, state })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Send SIGTERM like a service manager, so that the daemon stops its runs and restores the device.
        tell(&self.child, SIGTERM as usize);
        let bound = Instant::now() + Duration::from_secs(90);
        while Instant::now() < bound {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of the built program, if `name` is the bare name of one of our programs.
fn resolve(name: &OsString, binaries: &Path) -> OsString {
    let built = binaries.join(name);
    if Path::new(name).components().count() == 1 && built.is_file() {
        built.into()
    } else {
        name.clone()
    }
}

/// Waits for the child. Passes a signal on to the child, and kills the child if it does not end in time.
fn wait(mut child: Child, signal: &AtomicUsize) -> anyhow::Result<ExitStatus> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().context("waiting for the command")? {
            return Ok(status);
        }
        let caught = signal.load(Ordering::Relaxed);
        if caught != 0 {
            let since = *told.get_or_insert_with(|| {
                // On Ctrl-C the terminal also signals the command; a second signal does no harm.
                tell(&child, caught);
                Instant::now()
            });
            if since.elapsed() > GRACE {
                eprintln!("xtask: the command did not end within {GRACE:?} of its signal; killing it");
                child.kill().context("killing the command")?;
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal, with the shell's own `kill`.
fn tell(child: &Child, signal: usize) {
    let _ = Command::new("sh")
        .args([
            "-c",
            "kill -s \"$1\" \"$2\"",
            "sh",
            &signal.to_string(),
            &child.id().to_string(),
        ])
        .stderr(Stdio::null())
        .status();
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().unwrap()
    }

    #[test]
    fn the_exit_code_is_that_of_the_command() {
        let none = AtomicUsize::new(0);
        assert_eq!(exit_code(wait(shell("exit 7"), &none).unwrap()), 7);
        assert_eq!(exit_code(wait(shell("kill -9 $$"), &none).unwrap()), 137);
    }

    #[test]
    fn a_signal_is_passed_on() {
        let term = AtomicUsize::new(usize::try_from(SIGTERM).unwrap());
        // A kill after the grace period would give 137.
        assert_eq!(exit_code(wait(shell("exec sleep 60"), &term).unwrap()), 143);
    }
}

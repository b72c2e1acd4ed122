//! Runs the product's programs as users do: as processes, in an environment that the test makes.

use core::fmt;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use verbatim_lab::workspace::{cargo, target_directory};

/// Longest time of a command, unless the test sets another limit.
const LIMIT: Duration = Duration::from_secs(1800);

/// The directory of the programs, built once in each test process.
static PROGRAMS: LazyLock<PathBuf> =
    LazyLock::new(|| verbatim_lab::build_binaries().unwrap_or_else(|error| panic!("{error:#}")));

/// The path of a debug build of `verbatim`, with debug assertions and overflow checks. Built once in each test
/// process.
static DEBUG: LazyLock<PathBuf> = LazyLock::new(|| {
    let status = cargo().args(["build", "--quiet", "-p", "verbatim"]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cargo build -p verbatim failed"
    );
    let target = target_directory().unwrap_or_else(|error| panic!("{error:#}"));
    target.join("debug/verbatim")
});

/// Returns the directory of `verbatim`, `verbatimd` and `verbatim-agent`.
#[must_use]
pub fn programs() -> &'static Path {
    &PROGRAMS
}

/// Returns the path of `verbatim`, `verbatimd` or `verbatim-agent`, in the profile of the labs.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    PROGRAMS.join(name)
}

/// Returns the path of the debug build of `verbatim`.
#[must_use]
pub fn debug_verbatim() -> &'static Path {
    &DEBUG
}

/// A test's own directory. The directory is the working directory and the home of the test's processes. Its
/// subdirectories `state` and `run` are their state and runtime directories.
#[derive(Debug)]
pub struct Place(TempDir);

impl Place {
    /// Makes an empty directory that any user may enter.
    ///
    /// # Panics
    /// When the directory cannot be made.
    #[must_use]
    pub fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o755);
        let directory = tempfile::Builder::new()
            .prefix("verbatim-test-")
            .permissions(readable)
            .tempdir();
        Self(directory.unwrap_or_else(|error| panic!("a temporary directory: {error}")))
    }

    /// Returns a path in the directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Returns a command of any program. The environment has only the variables that a program needs to start, and this
    /// directory.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.0.path()).stdin(Stdio::null());
        for kept in ["PATH", "TMPDIR"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command
            .env("HOME", self.0.path())
            .env("STATE_DIRECTORY", self.path("state"))
            // Without this variable, the command would find a daemon of this machine.
            .env("RUNTIME_DIRECTORY", self.path("run"));
        command
    }

    /// Returns a command of `verbatim` with these arguments, separated by blanks.
    #[must_use]
    pub fn verbatim(&self, arguments: &str) -> Command {
        let mut command = self.command(program("verbatim"));
        command.args(arguments.split_whitespace());
        command
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of a process.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit status of the process.
    pub status: ExitStatus,
    /// All output to stdout.
    pub stdout: String,
    /// All output to stderr.
    pub stderr: String,
}

impl Output {
    /// Returns the exit code.
    ///
    /// # Panics
    /// When a signal ended the process.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by signal {:?}: {self}", self.status.signal()))
    }

    /// Parses stdout as one JSON document.
    ///
    /// # Panics
    /// When stdout is anything else.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self}"))
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.stdout.chars().take(4000).collect();
        write!(f, "{}\n--- stdout\n{start}\n--- stderr\n{}", self.status, self.stderr)
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When the command cannot be started or does not end within half an hour.
pub fn run(command: &mut Command) -> Output {
    Running::start(command).end(LIMIT)
}

/// A running process. Dropping it kills the process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Heard,
    stderr: Heard,
}

impl Running {
    /// Starts a command.
    ///
    /// # Panics
    /// When the command cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        let (stdout, stderr) = (Heard::listen(child.stdout.take()), Heard::listen(child.stderr.take()));
        Self { child, stdout, stderr }
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process.
    ///
    /// # Panics
    /// When the process has already been reaped.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal)
            .unwrap_or_else(|error| panic!("{signal:?}: {error}"));
    }

    /// Sends a signal to the process, and returns when the process has received it. The kernel then does not merge a
    /// second signal of the same kind with the first.
    pub fn signal_delivered(&self, signal: Signal) {
        self.signal(signal);
        let bit = 1_u64 << (signal as i32 - 1);
        let pending = |status: &str| {
            let of = |line: &str| u64::from_str_radix(line.split_whitespace().last()?, 16).ok();
            status
                .lines()
                .filter(|line| line.starts_with("ShdPnd"))
                .any(|line| of(line).is_some_and(|set| set & bit != 0))
        };
        while fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .is_ok_and(|status: String| pending(&status))
        {
            thread::yield_now();
        }
    }

    /// Waits until the process has ended, after a signal that it cannot ignore.
    pub fn wait_until_gone(&mut self) {
        self.child.wait().expect("a child of this process");
    }

    /// Waits until stderr contains these words; returns stderr so far.
    ///
    /// # Panics
    /// When stderr does not contain them within four minutes.
    pub fn says(&self, words: &str) -> String {
        let heard = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(words);
        let so_far = self.stderr.until(heard, Duration::from_secs(240));
        assert!(
            heard(&so_far),
            "it did not say {words:?} but: {}",
            String::from_utf8_lossy(&so_far)
        );
        text(&so_far)
    }

    /// Waits until the process ends by itself.
    ///
    /// # Panics
    /// When the process does not end within this time.
    pub fn end(mut self, within: Duration) -> Output {
        let deadline = Instant::now() + within;
        let left = || deadline.saturating_duration_since(Instant::now());
        let never = |_: &[u8]| false;
        let stdout = self.stdout.until(never, left());
        let stderr = self.stderr.until(never, left());
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Output { status, stdout, stderr },
                _ if left().is_zero() => panic!("not ended after {within:?}: {stdout}\n{stderr}"),
                // Both streams are closed, so the process ends within microseconds.
                _ => thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(mut self) {
        self.end_now();
    }

    fn end_now(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_now();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("not UTF-8: {error}"))
}

/// The output of a process on one stream so far.
#[derive(Clone, Debug)]
struct Heard(Arc<(Mutex<Said>, Condvar)>);

#[derive(Debug, Default)]
struct Said {
    bytes: Vec<u8>,
    ended: bool,
}

impl Heard {
    fn listen(stream: Option<impl Read + Send + 'static>) -> Self {
        let heard = Self(Arc::default());
        let hears = heard.clone();
        thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            let mut stream = stream;
            loop {
                let read = stream.as_mut().map_or(Ok(0), |stream| stream.read(&mut buffer));
                let mut said = hears.lock();
                match read {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Ok(count) if count > 0 => said.bytes.extend_from_slice(&buffer[..count]),
                    _ => said.ended = true,
                }
                hears.0.1.notify_all();
                if said.ended {
                    return;
                }
            }
        });
        heard
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `enough` accepts the output, the stream ends, or the time is over. Returns the output so far.
    fn until(&self, enough: impl Fn(&[u8]) -> bool, within: Duration) -> Vec<u8> {
        let waits = |said: &mut Said| !said.ended && !enough(&said.bytes);
        let waited = self.0.1.wait_timeout_while(self.lock(), within, waits);
        let (said, _) = waited.unwrap_or_else(PoisonError::into_inner);
        said.bytes.clone()
    }
}

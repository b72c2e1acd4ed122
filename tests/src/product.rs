//! The product's programs, run as people run them: a process of its own, an environment that the test made.

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

/// No command of these tests takes longer, unless the test says so.
const LIMIT: Duration = Duration::from_secs(1800);

/// Where the programs are, built once in each test process.
static PROGRAMS: LazyLock<PathBuf> =
    LazyLock::new(|| verbatim_lab::build_binaries().unwrap_or_else(|error| panic!("{error:#}")));

/// The same `verbatim`, with debug assertions and overflow checks.
static DEBUG: LazyLock<PathBuf> = LazyLock::new(|| {
    let status = cargo().args(["build", "--quiet", "-p", "verbatim"]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cargo build -p verbatim failed"
    );
    let target = target_directory().unwrap_or_else(|error| panic!("{error:#}"));
    target.join("debug/verbatim")
});

/// The directory of `verbatim`, `verbatimd` and `verbatim-agent`.
#[must_use]
pub fn programs() -> &'static Path {
    &PROGRAMS
}

/// `verbatim`, `verbatimd` or `verbatim-agent`, as labs have them.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    PROGRAMS.join(name)
}

/// The debug build of `verbatim`.
#[must_use]
pub fn debug_verbatim() -> &'static Path {
    &DEBUG
}

/// A directory of a test's own: its working directory, its home, and, in `state` and `run`, its state and runtime
/// directories.
#[derive(Debug)]
pub struct Place(TempDir);

impl Place {
    /// An empty one, that any user may enter.
    ///
    /// # Panics
    /// When it cannot be made.
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

    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Any program, with nothing in its environment but what it needs to start and the directories of this place.
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
            // A daemon of this machine is not asked.
            .env("RUNTIME_DIRECTORY", self.path("run"));
        command
    }

    /// `verbatim` with these arguments, separated by blanks.
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

/// What a process came to.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// All it wrote to stdout.
    pub stdout: String,
    /// All it wrote to stderr.
    pub stderr: String,
}

impl Output {
    /// The exit code.
    ///
    /// # Panics
    /// When a signal ended it.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by signal {:?}: {self}", self.status.signal()))
    }

    /// The one JSON document on stdout.
    ///
    /// # Panics
    /// When stdout holds anything else.
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
/// When it cannot be started or does not end within ten minutes.
pub fn run(command: &mut Command) -> Output {
    Running::start(command).end(LIMIT)
}

/// A process under way. Dropping it kills it.
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
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        let (stdout, stderr) = (Heard::listen(child.stdout.take()), Heard::listen(child.stderr.take()));
        Self { child, stdout, stderr }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal)
            .unwrap_or_else(|error| panic!("{signal:?}: {error}"));
    }

    /// Sends it a signal, and returns when it has been delivered: another of the same kind is then another.
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

    /// Waits until it is gone, after a signal that it cannot refuse.
    pub fn wait_until_gone(&mut self) {
        self.child.wait().expect("a child of this process");
    }

    /// Waits until stderr holds these words; what it holds then.
    ///
    /// # Panics
    /// When it does not within four minutes.
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

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it does not in that time.
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
                // Both streams are closed: the end is a matter of microseconds.
                _ => thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// Kills it with SIGKILL and waits until it is gone.
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

/// What a process wrote to one stream so far.
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

    /// Waits until what was said is enough, the stream ends, or the time is over; returns what was said.
    fn until(&self, enough: impl Fn(&[u8]) -> bool, within: Duration) -> Vec<u8> {
        let waits = |said: &mut Said| !said.ended && !enough(&said.bytes);
        let waited = self.0.1.wait_timeout_while(self.lock(), within, waits);
        let (said, _) = waited.unwrap_or_else(PoisonError::into_inner);
        said.bytes.clone()
    }
}

//! Processes that end with the test, and their output lines.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for a line.
const LIMIT: Duration = Duration::from_secs(60);

/// The program `verbatimd`, built into the directory of the `verbatim` under test. The build has the same profile,
/// and names all packages with programs. Otherwise cargo would build shared dependencies with other features, and
/// so build them again.
static DAEMON: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_BIN_EXE_verbatim")).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--bin", "verbatimd"]);
    build.args(["-p", "verbatim", "-p", "verbatim-daemon", "-p", "verbatim-agent"]);
    // The directory of the profile `dev` is called "debug".
    let profile = directory
        .file_name()
        .filter(|name| *name != "debug")
        .unwrap_or("dev".as_ref());
    build.arg("--profile").arg(profile);
    build.arg("--target-dir").arg(directory.parent().unwrap());
    // Remove cargo's variables of the package under test: ring's build script reads them, and cargo would rebuild ring.
    for (name, _) in std::env::vars_os() {
        let of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "OUT_DIR";
        if name.to_str().is_some_and(of_package) {
            build.env_remove(&name);
        }
    }
    assert!(
        build.status().unwrap().success(),
        "cargo build -p verbatim-daemon failed"
    );
    directory.join("verbatimd")
});

/// Returns a rig file with two rigs. The device of `broken` has a defect; the device of `bench` responds in real time.
/// The built-in rig `virtual` has a conforming device.
fn rigs(model: &Path) -> String {
    format!(
        "config_version = 1\n\
         [[rig]]\nname = \"broken\"\nkind = \"virtual\"\ndefects = [\"m-key-ignored-on-get\"]\n\
         [[rig]]\nname = \"bench\"\nkind = \"model\"\nsocket = {model:?}\n"
    )
}

/// A temporary directory with the daemon's socket, state, rig file and model.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::Builder::new().prefix("verbatim-").tempdir().unwrap());
        std::fs::write(place.path("rigs.toml"), rigs(&place.path("model.sock"))).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: &Path, arguments: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.0.path())
            .env("STATE_DIRECTORY", self.path("own-state"))
            .env("RUNTIME_DIRECTORY", self.0.path())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .args(arguments.split_whitespace());
        command
    }

    /// Starts `verbatim` with this directory's local socket.
    pub(crate) fn start(&self, arguments: &str) -> Running {
        let program = env!("CARGO_BIN_EXE_verbatim");
        // A shell that starts the tests in the background makes its children ignore SIGINT, so reset the signal.
        let arguments = format!("--default-signal=INT {program} {arguments}");
        Running::start(self.command(Path::new("env"), &arguments))
    }

    /// Runs `verbatim` to its end.
    pub(crate) fn verbatim(&self, arguments: &str) -> Output {
        self.start(arguments).end()
    }

    /// Starts a daemon at this directory's socket.
    pub(crate) fn daemon(&self) -> Running {
        self.daemon_with("").0
    }

    /// Starts a daemon with further options. Also returns the daemon's log line about serving.
    pub(crate) fn daemon_with(&self, options: &str) -> (Running, String) {
        let mut daemon = self.start_daemon(options);
        let line = daemon.stderr.until("serving");
        (daemon, line)
    }

    /// Starts a daemon with further options. Does not wait until the daemon serves.
    pub(crate) fn start_daemon(&self, options: &str) -> Running {
        let arguments = format!("serve --rig-file rigs.toml --socket verbatim.sock --state state {options}");
        let mut command = self.command(&DAEMON, &arguments);
        command.env("RUST_LOG", "info");
        Running::start(command)
    }

    /// Starts the device of the rig `bench`. It responds in real time, so timeouts take real time too.
    pub(crate) fn device(&self) -> Running {
        let mut device = Running::start(self.command(&DAEMON, "model --listen model.sock"));
        device.says("listening");
        device
    }
}

/// The result of a process.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Parses the JSON document on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// A running process. Dropping it kills the process.
pub(crate) struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Waits for a line on stderr.
    pub(crate) fn says(&mut self, words: &str) {
        let _ = self.stderr.until(words);
    }

    /// Waits for a line on stdout.
    pub(crate) fn prints(&mut self, words: &str) {
        let _ = self.stdout.until(words);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Kills the process and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) fn end(mut self) -> Output {
        let stdout = self.stdout.rest();
        let stderr = self.stderr.rest();
        let status: ExitStatus = self.child.wait().unwrap();
        Output {
            code: status.code(),
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a stream.
struct Lines {
    incoming: Receiver<String>,
    seen: String,
    _reader: JoinHandle<()>,
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, incoming) = channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            incoming,
            seen: String::new(),
            _reader: reader,
        }
    }

    /// Returns the next line; None at the end of the stream.
    fn next(&mut self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match self.incoming.recv_timeout(left) {
            Ok(line) => line,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(error) => panic!("{error}; so far: {}", self.seen),
        };
        self.seen.push_str(&line);
        self.seen.push('\n');
        Some(line)
    }

    fn until(&mut self, words: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let line = self.next(deadline);
            let line = line.unwrap_or_else(|| panic!("it never said {words:?} but: {}", self.seen));
            if line.contains(words) {
                return line;
            }
        }
    }

    fn rest(&mut self) -> String {
        let deadline = Instant::now() + LIMIT;
        while self.next(deadline).is_some() {}
        std::mem::take(&mut self.seen)
    }
}

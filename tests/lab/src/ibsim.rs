//! ibsim with two adapters cabled together, and the rig file for it.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use tempfile::TempDir;

use crate::{
    c_programs::{CProgramError, build_c_program},
    host::{apt_line, library, program},
    process::Process,
    rig_text::quoted,
};

/// Topology of two adapters with one port each, cabled together.
pub const TWO_ADAPTERS: &str = "Hca 1 \"A\"\n[1] \"B\"[1]\n\nHca 1 \"B\"\n[1] \"A\"[1]\n";

/// The last socket that ibsim binds. ibsim prints "simulator ready" before it binds any socket, so the lab waits for
/// this socket.
const LAST_SOCKET: &str = "out9";
/// Longest time until the last socket is bound.
const READY_WITHIN: Duration = Duration::from_secs(240);

/// Error of the lab: a missing program, a failed start, or a failed system call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// ibsim, or its preload, is not installed.
    #[error("the lab needs {missing}, which this machine does not have; install it: {remedy}")]
    NotInstalled {
        /// The missing program or file, and where the lab looked for it.
        missing: String,
        /// The command line that installs the missing program or file.
        remedy: String,
    },
    /// The simulator did not start.
    #[error("ibsim {what} before it was ready; its log says:\n{log}")]
    NotReady {
        /// How the start failed.
        what: String,
        /// The simulator's output.
        log: String,
    },
    /// A system call failed.
    #[error("the ibsim lab: {what}: {source}")]
    Io {
        /// The operation, with its path.
        what: String,
        /// The error of the operation.
        source: io::Error,
    },
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
    let what = what.into();
    move |source| LabError::Io { what, source }
}

/// A running ibsim with a rig file for it, in its own directory.
///
/// Dropping the lab ends the simulator and removes the directory. If this process is killed, the kernel ends the
/// simulator, and only the directory remains.
///
/// ibsim has ten slots for clients. A killed client leaves its slot occupied, so [`restart`](IbsimLab::restart) the lab
/// after a few kills.
#[derive(Debug)]
pub struct IbsimLab {
    directory: TempDir,
    socket_name: String,
    program: PathBuf,
    /// The value of `LD_PRELOAD`.
    preload: OsString,
    /// The console's pipe, open for reading and writing. The simulator therefore never reads an end of file, which
    /// would make it spin.
    console: File,
    simulator: Option<Process>,
}

impl IbsimLab {
    /// Starts two adapters, `A` and `B`, cabled together. The tester is at A; B is the device under test.
    ///
    /// # Errors
    ///
    /// [`LabError::NotInstalled`] with the line that installs ibsim; other errors when ibsim does not start.
    pub fn start() -> Result<IbsimLab, LabError> {
        Self::start_with(TWO_ADAPTERS)
    }

    /// Starts a topology in ibsim's own language. The topology must have a node `A` for the tester.
    ///
    /// # Errors
    ///
    /// [`LabError::NotInstalled`] with the line that installs ibsim; other errors when ibsim does not start.
    pub fn start_with(topology: &str) -> Result<IbsimLab, LabError> {
        let program = program("ibsim").ok_or_else(|| LabError::NotInstalled {
            missing: "the program ibsim (looked for it on the PATH)".to_owned(),
            remedy: apt_line(&["ibsim-utils"]),
        })?;
        let mut preload = build_shim()?.into_os_string();
        preload.push(":");
        preload.push(find_preload()?);
        let directory = tempfile::Builder::new()
            .prefix("verbatim-ibsim-")
            .tempdir()
            .map_err(io_error("making a temporary directory"))?;
        let socket_name = unique_name();
        let console = make_fifo(&directory.path().join("console"))?;
        let mut lab = IbsimLab {
            directory,
            socket_name,
            program,
            preload,
            console,
            simulator: None,
        };
        for (name, text) in [
            ("topology.net", topology),
            ("rigs.toml", &rig_file(lab.client_environment("A"))),
        ] {
            let path = lab.directory().join(name);
            fs::write(&path, text).map_err(io_error(format!("writing {}", path.display())))?;
        }
        lab.launch()?;
        Ok(lab)
    }

    /// Returns the directory of this lab's files. Dropping the lab removes the directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of the rig file, with one rig, `ibsim`.
    pub fn rig_file(&self) -> PathBuf {
        self.directory().join("rigs.toml")
    }

    /// Returns the path of the named pipe of the simulator's console; see [`IbsimLab::console`].
    pub fn console_path(&self) -> PathBuf {
        self.directory().join("console")
    }

    /// Returns the path of the simulator's output, which includes the responses of its console.
    pub fn log_path(&self) -> PathBuf {
        self.directory().join("ibsim.log")
    }

    /// Returns this simulator's `IBSIM_SOCKNAME`, which is unique on this machine.
    pub fn socket_name(&self) -> &str {
        &self.socket_name
    }

    /// Returns the simulator's process id, while the simulator runs.
    pub fn pid(&self) -> Option<u32> {
        self.simulator.as_ref().map(|simulator| simulator.pid)
    }

    /// Returns the environment variables of a command in this lab. `LD_PRELOAD` is not among them: only a rig's worker
    /// starts with the preload, which the rig file names.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("VERBATIM_RIG_FILE", self.rig_file().into()),
            ("VERBATIM_LAB_IBSIM_CONSOLE", self.console_path().into()),
            ("VERBATIM_LAB_IBSIM_LOG", self.log_path().into()),
            (
                "VERBATIM_LAB_IBSIM_PID",
                self.pid().map_or_else(OsString::new, |pid| pid.to_string().into()),
            ),
            ("VERBATIM_LAB_IBSIM_SOCKNAME", self.socket_name.clone().into()),
            ("VERBATIM_LAB_IBSIM_PRELOAD", self.preload.clone()),
            ("VERBATIM_LAB_IBSIM_FILES", self.directory().into()),
        ]
    }

    /// Makes `command` a client of this simulator at node `host`, like a rig's worker.
    pub fn attach(&self, command: &mut Command, host: &str) {
        command.envs(self.client_environment(host));
    }

    /// Returns the environment variables of a client at node `host`. `LD_PRELOAD` names our own preload first; see
    /// `tests/c/ibsim_shim.c`.
    pub fn client_environment(&self, host: &str) -> [(&'static str, OsString); 4] {
        [
            ("LD_PRELOAD", self.preload.clone()),
            ("SIM_HOST", host.into()),
            ("IBSIM_SOCKNAME", self.socket_name.clone().into()),
            ("VERBATIM_LAB_IBSIM_FILES", self.directory().into()),
        ]
    }

    /// Types one line at the simulator's console, for example `Unlink "B"[1]`. The response appears in the log.
    ///
    /// # Errors
    ///
    /// When writing to the pipe fails.
    pub fn console(&self, line: &str) -> Result<(), LabError> {
        let mut console = &self.console;
        console
            .write_all(format!("{line}\n").as_bytes())
            .map_err(io_error("writing to the console"))
    }

    /// Ends the simulator with SIGKILL, like a device that disappears.
    pub fn kill(&mut self) {
        self.simulator = None;
    }

    /// Ends the simulator, and starts a new simulator in the initial state and under the same name. Keeps the rig file
    /// and the log.
    ///
    /// # Errors
    ///
    /// When the new simulator does not start.
    pub fn restart(&mut self) -> Result<(), LabError> {
        self.kill();
        self.launch()
    }

    fn launch(&mut self) -> Result<(), LabError> {
        let path = self.log_path();
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(io_error(format!("opening {}", path.display())))?;
        let already = log.metadata().map_or(0, |log| log.len());
        let last_socket = format!("@{}:{LAST_SOCKET}", self.socket_name);
        let clone = |file: &File| file.try_clone().map_err(io_error("duplicating a descriptor"));
        let stdin = clone(&self.console)?;
        let stdout = clone(&log)?;
        let prepare = |command: &mut Command| {
            command
                .arg("-s")
                .arg(self.directory().join("topology.net"))
                .current_dir(self.directory())
                .env("IBSIM_SOCKNAME", &self.socket_name)
                .env_remove("LD_PRELOAD")
                .stdin(stdin)
                .stdout(stdout)
                .stderr(log);
        };
        let simulator =
            Process::start(prepare, &self.program).map_err(io_error(format!("starting {}", self.program.display())))?;
        let simulator = self.simulator.insert(simulator);

        let start = Instant::now();
        loop {
            let sockets = fs::read_to_string("/proc/net/unix").map_err(io_error("reading /proc/net/unix"))?;
            if sockets.contains(&last_socket) {
                return Ok(());
            }
            let what = if simulator.has_ended() {
                "ended".to_owned()
            } else if start.elapsed() > READY_WITHIN {
                format!("took more than {READY_WITHIN:?}")
            } else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let text = fs::read(&path).unwrap_or_default();
            let text =
                String::from_utf8_lossy(&text[text.len().min(usize::try_from(already).unwrap_or(0))..]).into_owned();
            self.kill();
            return Err(LabError::NotReady { what, log: text });
        }
    }
}

/// Returns a name that no other simulator on this machine has.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    format!("verbatim-{}-{count}-{now:08x}", std::process::id())
}

/// Makes a named pipe and opens it for both directions, so that the open does not wait for the other end.
fn make_fifo(path: &Path) -> Result<File, LabError> {
    let made = Command::new("mkfifo")
        .arg("--mode=600")
        .arg(path)
        .stderr(Stdio::piped())
        .output();
    let made = made.map_err(io_error("starting mkfifo (of coreutils)"))?;
    if !made.status.success() {
        let seen = String::from_utf8_lossy(&made.stderr).trim().to_owned();
        return Err(LabError::Io {
            what: "making the console pipe".to_owned(),
            source: io::Error::other(seen),
        });
    }
    let open = OpenOptions::new().read(true).write(true).open(path);
    open.map_err(io_error(format!("opening {}", path.display())))
}

/// Returns the path of ibsim's preload.
fn find_preload() -> Result<PathBuf, LabError> {
    const FILE: &str = "umad2sim/libumad2sim.so";
    library(FILE).ok_or_else(|| LabError::NotInstalled {
        missing: format!("ibsim's preload (looked for {FILE} in /usr/lib and its like)"),
        remedy: apt_line(&["ibsim-utils"]),
    })
}

/// Builds our own preload, which precedes ibsim's.
fn build_shim() -> Result<PathBuf, LabError> {
    build_c_program("ibsim_shim").map_err(|error| match error {
        CProgramError::NoCompiler { .. } | CProgramError::Missing { .. } => LabError::NotInstalled {
            missing: format!("what its shim is built with ({error})"),
            remedy: apt_line(&["gcc", "libc6-dev"]),
        },
        other => io_error("building its shim")(io::Error::other(other)),
    })
}

/// Returns the text of the rig file. The tester is at node A, port 1; the device under test is one hop away.
fn rig_file(environment: impl IntoIterator<Item = (&'static str, OsString)>) -> String {
    let mut text = String::from(
        "config_version = 1\n\n[[rig]]\nname = \"ibsim\"\nkind = \"umad\"\ndevice = \"ibsim0\"\nport = 1\nroute = \"0,1\"\nsubnet_timeout = 18\n\n[rig.env]\n",
    );
    for (name, value) in environment {
        let _ = writeln!(text, "{name} = {}", quoted(Path::new(&value)));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    /// Starts a lab. Returns `None` and reports the skipped test if ibsim is not installed.
    fn lab() -> Option<IbsimLab> {
        match IbsimLab::start() {
            Ok(lab) => Some(lab),
            Err(error @ LabError::NotInstalled { .. }) if env::var_os("CI").is_none() => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Queries the node description with `smpquery`, an independent client, over the directed route 0,1 to node B.
    fn node_description(lab: &IbsimLab) -> Option<String> {
        let mut command = Command::new("timeout");
        command.args(["10", "smpquery", "-D", "nodedesc", "0,1"]);
        lab.attach(&mut command, "A");
        let output = command.output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn alive(pid: u32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn lab_restarts_and_cleans_up() {
        let Some(mut lab) = lab() else { return };
        let (pid, place) = (lab.pid().unwrap(), lab.directory().to_path_buf());
        if program("smpquery").is_some() {
            assert!(node_description(&lab).unwrap().contains('B'));
        }
        lab.console("Dump").unwrap();
        lab.restart().unwrap();
        let second = lab.pid().unwrap();
        assert!(!alive(pid) && alive(second));
        if program("smpquery").is_some() {
            assert!(node_description(&lab).unwrap().contains('B'));
        }
        drop(lab);
        assert!(!alive(second) && !place.exists());
    }

    #[test]
    fn labs_coexist_and_outlive_their_thread() {
        let Some(first) = lab() else { return };
        let second = thread::spawn(|| IbsimLab::start().unwrap()).join().unwrap();
        assert_ne!(first.socket_name(), second.socket_name());
        for lab in [first, second] {
            assert!(program("smpquery").is_none() || node_description(&lab).unwrap().contains('B'));
            assert!(alive(lab.pid().unwrap()));
        }
    }

    #[test]
    fn reports_broken_topology_with_log() {
        if lab().is_none() {
            return;
        }
        let error = IbsimLab::start_with("Nonsense\n").unwrap_err();
        assert!(matches!(error, LabError::NotReady { .. }), "{error}");
    }

    #[test]
    fn rig_file_contains_environment() {
        let environment = [("LD_PRELOAD", "/a/shim.so:/b/libumad2sim.so"), ("SIM_HOST", "A")];
        assert_eq!(
            rig_file(environment.map(|(name, value)| (name, value.into()))),
            "config_version = 1\n\n[[rig]]\nname = \"ibsim\"\nkind = \"umad\"\ndevice = \"ibsim0\"\nport = 1\n\
             route = \"0,1\"\nsubnet_timeout = 18\n\n[rig.env]\nLD_PRELOAD = \"/a/shim.so:/b/libumad2sim.so\"\n\
             SIM_HOST = \"A\"\n"
        );
    }

    /// Starts a client that cannot attach. Returns whether the client hangs, and its stderr.
    fn refusal(lab: &IbsimLab, host: &str) -> (bool, String) {
        let mut command = Command::new("timeout");
        command.args(["10", "ibstat", "--list_of_cas"]);
        lab.attach(&mut command, host);
        let output = command.output().unwrap();
        (
            output.status.code() == Some(124),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    #[test]
    fn unattachable_client_reports_reason() {
        let Some(mut lab) = lab() else { return };
        if program("ibstat").is_none() {
            return;
        }
        let (hung, said) = refusal(&lab, "nobody");
        assert!(!hung && said.contains("SIM_HOST=nobody names no node"), "{said}");
        lab.kill();
        let (hung, said) = refusal(&lab, "A");
        assert!(!hung && said.contains("names no simulator that runs"), "{said}");
    }
}

//! A worker's process: its start, its connection, its end.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use signal_hook::low_level::signal_name;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::Supervision;
use super::output::Output;
use super::unit::{self, Unit};
use verbatim_rig::{Place, RigConfig, env};
use verbatim_run::state::StateDirectory;
use verbatim_run::{Event, journal_owner};
use verbatim_tester::FileJournal;

/// How long to read the pipes of an ended process. A pipe may stay open, because another process may hold it too.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a worker did not complete its job, and what to do next. The cause is always the tester.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// The progress of the run; `None` while the process may still hold the rig.
    pub(super) reached: Option<Reached>,
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Reached {
    /// The number of tests that began.
    pub(super) begun: u32,
    /// The number of tests that ended.
    pub(super) ended: u32,
}

impl Failure {
    pub(super) fn new(reason: String) -> Self {
        Self { reason, reached: None }
    }
}

/// A running worker.
#[derive(Debug)]
pub(super) struct Process {
    runs: Runs,
    /// The process id; 0 until it is known.
    pub(super) pid: u32,
    pub(super) output: Output,
}

/// The parent of the process: this process or the service manager.
#[derive(Debug)]
enum Runs {
    Child(Box<Child>),
    Unit(Unit),
}

/// How a worker ended, as far as the daemon can tell.
#[derive(Debug)]
pub(super) enum End {
    /// The exit status of a child.
    Status(io::Result<ExitStatus>),
    /// The end of a unit's process. Only the service manager knows its exit status.
    OfUnit,
}

/// Starts a worker and waits for its connection.
pub(super) async fn start(
    supervision: &Supervision,
    rig: &RigConfig,
    state: &StateDirectory,
    events: mpsc::UnboundedSender<Event>,
) -> Result<(Process, UnixStream), Failure> {
    if let Some(socket) = unit::socket_of(supervision.units.as_deref(), &rig.name) {
        hand_over_places(rig, state).await?;
        return of_unit(supervision, rig, &socket, events).await;
    }
    let failed = |what: &str, error: &io::Error| {
        Failure::new(format!(
            "the worker of rig {} was not started: {what} failed ({error}); check TMPDIR, its free space and permissions, \
             the limits of processes and files, and that {} is there, then run again",
            rig.name,
            supervision.program.display()
        ))
    };
    // Only this user may enter the directory, and `connection` accepts only the started process.
    let place = tokio::task::spawn_blocking(Place::make).await;
    let place = place.unwrap_or_else(|error| Err(io::Error::other(error)));
    let place = place.map_err(|error| failed("making a directory for its socket", &error))?;
    let path = place.path().join("socket");
    let listener = UnixListener::bind(&path).map_err(|error| failed("making its socket", &error))?;
    let state = std::path::absolute(state.path()).map_err(|error| failed("naming the state directory", &error))?;
    let mut child = Command::new(&supervision.program)
        .arg0("verbatimd")
        .arg("worker")
        .arg("--connect")
        .arg(&path)
        .arg("--state")
        .arg(&state)
        .args(["--hung-after-ms", &supervision.hung_after.as_millis().to_string()])
        .envs(&rig.env)
        .env(env::MARKER, &rig.name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A process group of its own protects the worker from signals of the daemon's terminal. The daemon stops the
        // worker with a message.
        .process_group(0)
        .spawn()
        .map_err(|error| failed("starting the program", &error))?;
    let (Some(stdout), Some(stderr), Some(pid)) = (child.stdout.take(), child.stderr.take(), child.id()) else {
        return Err(failed("following its output", &io::ErrorKind::BrokenPipe.into()));
    };
    let mut process = Process {
        runs: Runs::Child(Box::new(child)),
        pid,
        output: Output::follow(stdout, stderr, events),
    };
    let who = format!("the worker of rig {} (process {pid})", rig.name);
    let failure = tokio::select! {
        stream = connection(&listener, pid) => match stream {
            Ok(stream) => return Ok((process, stream)),
            Err(error) => failed("waiting for its connection", &error),
        },
        end = end_of(&mut process.runs) => {
            process.last_words().await;
            Failure::new(process.ended(end, &format!("{who} did not connect")))
        }
        never = process.output.tell() => match never {},
        () = sleep(supervision.start_within) => Failure::new(format!(
            "{who} did not connect within {:?} and was killed; is this host overloaded, or does a library that the rig's \
             `env` preloads wait for something?",
            supervision.start_within
        )),
    };
    process.kill(supervision.grace).await;
    Err(failure)
}

/// Creates the directories for the rig's journal, locks and records, because a worker in a unit can access no other
/// directories. If the device's journal is in the directory of another rig name, moves the journal to the new
/// directory.
async fn hand_over_places(rig: &RigConfig, state: &StateDirectory) -> Result<(), Failure> {
    let (owner, name) = (journal_owner(rig), rig.name.clone());
    let (journals, runs) = (state.journals(), state.runs().join(&name));
    let prepared = tokio::task::spawn_blocking(move || {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(runs)?;
        FileJournal::prepare(&journals, &name)?;
        verbatim_run::prepare_locks(&name)?;
        if FileJournal::look(&journals, owner.clone()).is_some() {
            // `open` moves the journal. Ignore an error: the worker reports the same error.
            drop(FileJournal::open(&journals, owner));
        }
        io::Result::Ok(())
    });
    let prepared = prepared.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    prepared.map_err(|error| {
        Failure::new(format!(
            "the worker of rig {} was not started: making its directories in {} or /run failed ({error}); free space, or mend \
             the permissions there, then run again",
            rig.name,
            state.path().display()
        ))
    })
}

/// Lets the service manager start a worker.
async fn of_unit(
    supervision: &Supervision,
    rig: &RigConfig,
    socket: &Path,
    events: mpsc::UnboundedSender<Event>,
) -> Result<(Process, UnixStream), Failure> {
    let connected = Unit::connect(&rig.name, socket, supervision.start_within).await;
    let (unit, stream) = connected.map_err(|error| {
        Failure::new(format!(
            "the worker of rig {rig} was not started: connecting to {socket} failed ({error}); look at `systemctl status \
             verbatim-worker@{rig}.socket verbatim-worker@{rig}.service`, then run again",
            rig = rig.name,
            socket = socket.display()
        ))
    })?;
    let process = Process {
        runs: Runs::Unit(unit),
        pid: 0,
        // The output of the worker goes to the system's journal.
        output: Output::follow(tokio::io::empty(), tokio::io::empty(), events),
    };
    Ok((process, stream))
}

/// Waits for the end of a worker.
async fn end_of(runs: &mut Runs) -> End {
    match runs {
        Runs::Child(child) => End::Status(child.wait().await),
        Runs::Unit(unit) => {
            unit.ended().await;
            End::OfUnit
        }
    }
}

/// Accepts the connection of the process `pid`, and drops all other connections.
async fn connection(listener: &UnixListener, pid: u32) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        if stream
            .peer_cred()?
            .pid()
            .is_some_and(|peer| u32::try_from(peer) == Ok(pid))
        {
            return Ok(stream);
        }
    }
}

impl Process {
    /// Takes the process id from the worker's first message.
    pub(super) fn greeted(&mut self, pid: u32) -> io::Result<()> {
        if let Runs::Unit(unit) = &mut self.runs {
            unit.greeted(pid)?;
            self.pid = pid;
        }
        Ok(())
    }

    /// Waits for the end of the worker, and reports its output. Returns `None` if the worker doesn't end within
    /// `limit`.
    pub(super) async fn end_within(&mut self, limit: Duration) -> Option<End> {
        let status = tokio::select! {
            end = end_of(&mut self.runs) => Some(end),
            never = self.output.tell() => match never {},
            () = sleep(limit) => None,
        };
        if status.is_some() {
            self.last_words().await;
        }
        status
    }

    /// Kills the worker. Returns false if the worker doesn't end within `limit`, because it hangs in the kernel.
    pub(super) async fn kill(&mut self, limit: Duration) -> bool {
        match &mut self.runs {
            // Ignore an error: the process has already ended.
            Runs::Child(child) => drop(child.start_kill()),
            Runs::Unit(unit) => unit.kill(),
        }
        self.end_within(limit).await.is_some()
    }

    async fn last_words(&mut self) {
        let _ = timeout(LAST_WORDS, self.output.tell_to_the_end()).await;
    }

    /// Describes the end of a worker that ended by itself. `before` describes its work at that time.
    pub(super) fn ended(&self, end: End, before: &str) -> String {
        let how = match (end, &self.runs) {
            (End::Status(Ok(status)), _) => words(status),
            (End::Status(Err(error)), _) => format!("its exit status could not be read ({error})"),
            (End::OfUnit, Runs::Unit(unit)) => {
                return format!(
                    "{before}: `journalctl -u {}` shows its exit status and its output",
                    unit.name
                );
            }
            (End::OfUnit, Runs::Child(_)) => "it ended".into(),
        };
        format!(
            "{before}: {how}; {}; if it happens again, look for a crash in a library that the worker loads (a core dump, the \
             system's log)",
            self.output.quote()
        )
    }
}

/// Describes how a process ended.
fn words(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("it was ended by {name}"),
            None => format!("it was ended by signal {signal}"),
        },
        (None, Some(code)) => format!("it ended with code {code}"),
        (None, None) => format!("it ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn describes_how_a_worker_ended() {
        let process = Process {
            runs: Runs::Child(Box::new(Command::new("true").spawn().unwrap())),
            pid: 1,
            output: Output::follow(tokio::io::empty(), tokio::io::empty(), mpsc::unbounded_channel().0),
        };
        for (raw, how) in [(255 << 8, "it ended with code 255"), (6, "it was ended by SIGABRT")] {
            let end = process.ended(End::Status(Ok(ExitStatus::from_raw(raw))), "it worked");
            assert!(end.contains(how), "{end}");
        }
    }
}

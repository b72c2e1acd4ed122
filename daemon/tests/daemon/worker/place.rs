//! The environment of a test: a device model in a process, a rig file that names it, and a state directory.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use verbatim_daemon::worker::{Job, Supervision, WorkerEnd, text_of};
use verbatim_proto::v1::{Cause, RunSpec};
use verbatim_rig::{RigConfig, RigFile, Session};
use verbatim_run::state::StateDirectory;
use verbatim_run::{Event, RunId};
use verbatim_tester::{Arrival, Stimulus};
use verbatim_wire::{AttributeId, MKey, Mad, Method, PortInfo};

/// The time limit of each step of these tests, even on a busy host.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);
/// This test locks the device, lets a request with a wrong key fail, then waits. During the wait the device is
/// changed, and the journal lists the change.
pub(crate) const LONG_TEST: &str = "c14-017-lease-zero";
/// The step at which the test waits.
pub(crate) const WAITS_AT: &str = "wrong key";

pub(crate) struct Place {
    directory: PathBuf,
    /// Removes the directory on drop; `None` in a process that did not create the directory.
    _own: Option<TempDir>,
    model: Option<Child>,
    pub(crate) rig: RigConfig,
    pub(crate) rig_file: PathBuf,
    pub(crate) state: StateDirectory,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end_model();
    }
}

impl Place {
    /// Creates an environment with a running model.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("model");
        let rig = format!(
            "kind = \"model\"\nsocket = \"{}\"\nsubnet_timeout = 8\n",
            socket.display()
        );
        let mut place = Self::with_rig(directory, &rig);
        place.start_model();
        place
    }

    pub(crate) fn start_model(&mut self) {
        let mut model = verbatimd()
            .arg("model")
            .arg("--listen")
            .arg(self.path("model"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(model.stderr.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert!(ready.starts_with("listening on"), "{ready}");
        self.model = Some(model);
    }

    /// Creates an environment with a rig `r` that these lines describe, and without a model.
    pub(crate) fn of(lines: &str) -> Self {
        Self::with_rig(tempfile::tempdir().unwrap(), lines)
    }

    fn with_rig(directory: TempDir, lines: &str) -> Self {
        let rig_file = directory.path().join("rigs.toml");
        fs::write(&rig_file, format!("config_version = 1\n[[rig]]\nname = \"r\"\n{lines}")).unwrap();
        let rig = RigFile::read(&rig_file).unwrap().find("r").unwrap().clone();
        let mut place = Self::there(directory.path(), rig);
        place._own = Some(directory);
        place
    }

    /// Uses the environment that another process created.
    pub(crate) fn there(directory: &Path, rig: RigConfig) -> Self {
        Self {
            rig_file: directory.join("rigs.toml"),
            state: StateDirectory::at(directory.join("state")),
            directory: directory.into(),
            _own: None,
            model: None,
            rig,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn end_model(&mut self) {
        if let Some(mut model) = self.model.take() {
            model.kill().unwrap();
            model.wait().unwrap();
        }
    }

    /// Returns a job with these tests, which run in the order of the catalogue. On a virtual rig, this seed draws
    /// a device that accepts a Set without a LID.
    pub(crate) fn job(&self, tests: &[&str]) -> Job {
        Job {
            run: RunId::new(0, 1),
            rig: self.rig.clone(),
            text: text_of(RigFile::read(&self.rig_file).unwrap().find("r").unwrap()),
            spec: RunSpec {
                rig: "r".into(),
                patterns: tests.iter().map(ToString::to_string).collect(),
                parameters: [("wait_s".into(), 600)].into(),
                seed: 7,
                exit_first: false,
            },
            record: self.path("record"),
            lease: None,
            resume: None,
        }
    }

    /// Returns whether the device has M_Key 0 and no protect bits. A protected device either ignores a Get without
    /// a key or shows other protect bits. Returns false while another process uses the device.
    pub(crate) fn is_as_found(&self) -> bool {
        let Ok(open) = verbatim_rig::open(&self.rig, Arc::default()) else {
            return false;
        };
        let Session::Real(mut rig) = open.session else {
            panic!("not a real rig");
        };
        let get = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(0x7E57_0001);
        let sent = rig.send(Stimulus::Mad(0, &get)).unwrap();
        let until = sent.latest.after(Duration::from_secs(2));
        loop {
            match rig.wait(until) {
                // Skip a trap, or a response to another request.
                Arrival::Mad(_, _, mad)
                    if mad.method() != Method::GET_RESP || mad.transaction_id() != get.transaction_id() => {}
                Arrival::Mad(_, _, mad) => {
                    let info = mad.attribute::<PortInfo>();
                    return info.m_key() == MKey(0) && info.protect_bits().0 == 0;
                }
                _ => return false,
            }
        }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.state.journals().join("r/r.journal.json")
    }

    /// Finds the worker of this environment by its arguments.
    pub(crate) fn worker(&self) -> Worker {
        let state = self.state.path().to_string_lossy().into_owned();
        let ours = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.nth(1) == Some(b"worker") && words.any(|word| word == state.as_bytes())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Worker(Pid::from_raw(pids.find(ours).expect("no worker of this place")).unwrap())
    }
}

pub(crate) fn verbatimd() -> Command {
    Command::new(env!("CARGO_BIN_EXE_verbatimd"))
}

/// Returns the default supervision with the program under test.
pub(crate) fn supervision() -> Supervision {
    Supervision {
        program: env!("CARGO_BIN_EXE_verbatimd").into(),
        ..Supervision::default()
    }
}

pub(crate) struct Worker(Pid);

impl Worker {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
    }

    /// Returns a function that waits for the end of the process.
    pub(crate) fn end(&self) -> impl FnOnce() + Send + 'static {
        let end = pidfd_open(self.0, PidfdFlags::empty()).unwrap();
        move || {
            let limit = Timespec {
                tv_sec: 100,
                tv_nsec: 0,
            };
            let ready = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit)).unwrap();
            assert_eq!(ready, 1, "the worker does not end");
        }
    }
}

pub(crate) struct Running {
    pub(crate) job: tokio::task::JoinHandle<WorkerEnd>,
    events: mpsc::UnboundedReceiver<Event>,
    seen: Vec<Event>,
    pub(crate) cancel: watch::Sender<bool>,
}

impl Running {
    pub(crate) fn start(place: &Place, supervision: Supervision, job: Job) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let (cancel, cancelled) = watch::channel(false);
        let state = place.state.clone();
        let job = tokio::spawn(async move { supervision.run_job(job, &state, sender, cancelled).await });
        Self {
            job,
            events,
            seen: Vec::new(),
            cancel,
        }
    }

    /// Waits for an event that matches.
    pub(crate) async fn sees(&mut self, what: impl Fn(&Event) -> bool) {
        let reached = async {
            loop {
                let event = self.events.recv().await.expect("it happens before the job ends");
                let found = what(&event);
                self.seen.push(event);
                if found {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, reached).await.unwrap();
    }

    /// Waits until the procedure is at this step.
    pub(crate) async fn reaches(&mut self, step: &str) {
        self.sees(|event| matches!(event, Event::StepStarted(at) if at.step == step))
            .await;
    }

    /// Waits until this test begins.
    pub(crate) async fn begins(&mut self, test: &str) {
        self.sees(|event| matches!(event, Event::TestStarted(begun) if begun.test == test))
            .await;
    }

    /// Waits for the end of the job. Returns the end and all events.
    pub(crate) async fn end(mut self) -> (WorkerEnd, Vec<Event>) {
        let end = tokio::time::timeout(LIMIT, self.job).await.unwrap().unwrap();
        while let Ok(event) = self.events.try_recv() {
            self.seen.push(event);
        }
        (end, self.seen)
    }

    /// Waits for the failure of the job. Returns the cause, the reason, and whether the device is left changed.
    pub(crate) async fn failure(self) -> (Cause, String, bool) {
        match self.end().await.0 {
            WorkerEnd::Failed {
                cause,
                reason,
                not_restored,
            } => (cause, reason, not_restored),
            other => panic!("it did not fail: {other:?}"),
        }
    }
}

/// Restores the rig of an environment.
pub(crate) async fn restore(place: &Place) -> Result<Vec<verbatim_record::Restored>, String> {
    let (events, _told) = mpsc::unbounded_channel();
    let (_cancel, cancelled) = watch::channel(false);
    supervision()
        .restore_rig(place.rig.clone(), place.job(&[]).text, &place.state, events, cancelled)
        .await
}

/// Creates a named pipe without a reader: a process that opens it for writing hangs forever.
pub(crate) fn never_read(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

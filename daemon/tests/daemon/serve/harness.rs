//! A daemon process with its rig file, state directory and clients, and a device model as another process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use verbatim_proto::v1::catalog_service_client::CatalogServiceClient;
use verbatim_proto::v1::lease_service_client::LeaseServiceClient;
use verbatim_proto::v1::rig_service_client::RigServiceClient;
use verbatim_proto::v1::run_event::Event;
use verbatim_proto::v1::run_service_client::RunServiceClient;
use verbatim_proto::v1::{
    CreateRunRequest, GetRigRequest, GetRunRequest, LeaseState, Rig, RigState, Run, RunEvent, RunSpec, RunState,
    WatchLeaseRequest, WatchRunRequest, WatchRunResponse,
};
use verbatim_rig::{RigFile, Session};
use verbatim_tester::{Arrival, Stimulus};
use verbatim_wire::{AttributeId, MKey, Mad, Method, PortInfo};

/// The time limit of each step of these tests, even on a busy host.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);
/// This test locks the device, lets a request with a wrong key fail, then waits. During the wait the device is
/// changed, and the journal lists the change.
pub(crate) const LONG_TEST: &str = "c14-017-lease-zero";
/// The step at which the test waits.
pub(crate) const WAITS_AT: &str = "wrong key";

pub(crate) fn verbatimd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verbatimd"));
    command.env_remove("VERBATIM_RIG_FILE").env_remove("RUST_LOG");
    command
}

/// Returns the result of a future, which must complete within the limit.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

/// The directories of a test, and the device model for its rig `model`.
pub(crate) struct Bench {
    pub(crate) directory: TempDir,
    model: Option<Child>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.end_model();
    }
}

impl Bench {
    /// Creates a rig file with the rigs `model` and `virtual`. Does not start the model.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rigs = "config_version = 1\n\n[[rig]]\nname = \"model\"\nkind = \"model\"\nsocket = \"model\"\nsubnet_timeout = 8\n";
        fs::write(directory.path().join("rigs.toml"), rigs).unwrap();
        Self { directory, model: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path("state/journals/model/model.journal.json")
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
        let mut stderr = BufReader::new(model.stderr.take().unwrap());
        stderr.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("listening on"), "{ready}");
        // Keep reading the model's stderr, and show it.
        std::thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .for_each(|line| eprintln!("model: {line}"))
        });
        self.model = Some(model);
    }

    pub(crate) fn end_model(&mut self) {
        if let Some(mut model) = self.model.take() {
            model.kill().unwrap();
            model.wait().unwrap();
        }
    }

    /// Returns the M_Key and the protect bits of a device that responds without a key. Repeats an unanswered Get,
    /// so that a lost datagram does not look like a lock.
    pub(crate) fn key_of_device(&self) -> Option<(MKey, u8)> {
        (0..3).find_map(|_| self.key_within(LIMIT / 3))
    }

    /// Returns whether the device ignores a Get without a key. A device that does not respond within two seconds
    /// counts as locked.
    pub(crate) fn is_locked(&self) -> bool {
        self.key_within(Duration::from_secs(2)).is_none()
    }

    /// Asks again while a check of the daemon uses the device.
    fn key_within(&self, limit: Duration) -> Option<(MKey, u8)> {
        let until = Instant::now() + LIMIT;
        loop {
            match self.key_or_use(limit) {
                Ok(key) => return key,
                Err(why) => assert!(Instant::now() < until, "{why}"),
            }
        }
    }

    fn key_or_use(&self, limit: Duration) -> Result<Option<(MKey, u8)>, String> {
        let file = RigFile::read(&self.path("rigs.toml")).unwrap();
        let open = verbatim_rig::open(file.find("model").unwrap(), Arc::default());
        let open = open.map_err(|error| error.to_string())?;
        let Session::Real(mut rig) = open.session else {
            panic!("not a real rig");
        };
        let get = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(0x7E57_0001);
        let sent = rig.send(Stimulus::Mad(0, &get)).unwrap();
        let until = sent.latest.after(limit);
        loop {
            match rig.wait(until) {
                // Skip a trap, or a response to another request.
                Arrival::Mad(_, _, mad)
                    if mad.method() != Method::GET_RESP || mad.transaction_id() != get.transaction_id() => {}
                Arrival::Mad(_, _, mad) => {
                    let info: PortInfo = mad.attribute();
                    return Ok(Some((info.m_key(), info.protect_bits().0)));
                }
                Arrival::Stop(why) => return Err(format!("{why:?}")),
                _ => return Ok(None),
            }
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = verbatimd();
        command
            .arg("serve")
            .arg("--rig-file")
            .arg(self.path("rigs.toml"))
            .arg("--socket")
            .arg(self.path("socket"))
            .arg("--state")
            .arg(self.path("state"))
            // The records of the locks.
            .env("XDG_STATE_HOME", self.path("user"));
        command
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) fn serve(&self) -> Daemon {
        Daemon::start(&mut self.command())
    }

    pub(crate) async fn clients(&self) -> Clients {
        Clients::connect(&self.path("socket")).await
    }
}

/// A daemon process and its log.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    log: std_mpsc::Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, log) = std_mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if std::env::var_os("SHOW").is_some() {
                    eprintln!("{line}");
                }
                let _ = sender.send(line);
            }
        });
        let mut daemon = Self {
            child,
            log,
            said: Vec::new(),
        };
        daemon.says("serving");
        daemon
    }

    /// Waits for a line with these words in the log, and returns the line. Also finds lines that an earlier call
    /// read.
    pub(crate) fn says(&mut self, words: &str) -> String {
        if let Some(line) = self.said.iter().find(|line| line.contains(words)) {
            return line.clone();
        }
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.log.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("{words:?} expected, said: {:#?}", self.said));
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Kills the daemon's worker.
    pub(crate) fn kill_worker(&self) {
        let daemon = self.child.id();
        let of_daemon = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let behind_the_name = stat.rsplit(") ").next().unwrap_or_default();
            behind_the_name.split(' ').nth(1) == Some(&daemon.to_string())
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let worker = pids.find(of_daemon).expect("the daemon has a worker");
        kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    }

    /// Kills the daemon and its worker before either can restore the device.
    pub(crate) async fn end_with_worker(&mut self) {
        self.signal(Signal::STOP);
        self.kill_worker();
        self.end(Signal::KILL).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends the signal, waits for the end, and reads the rest of the log. The clients keep running meanwhile.
    pub(crate) async fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        let pid = Pid::from_child(&self.child);
        let ended = move || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        within(tokio::task::spawn_blocking(ended)).await.unwrap().unwrap();
        let status = self.child.wait().unwrap();
        while let Ok(line) = self.log.recv_timeout(LIMIT) {
            self.said.push(line);
        }
        status
    }
}

#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) catalog: CatalogServiceClient<Channel>,
    pub(crate) rigs: RigServiceClient<Channel>,
    pub(crate) leases: LeaseServiceClient<Channel>,
    pub(crate) runs: RunServiceClient<Channel>,
    pub(crate) channel: Channel,
}

impl Clients {
    pub(crate) async fn connect(socket: &std::path::Path) -> Self {
        let endpoint = Endpoint::try_from(format!("unix://{}", socket.display())).unwrap();
        let channel = within(endpoint.connect()).await.unwrap();
        Self {
            catalog: CatalogServiceClient::new(channel.clone()),
            rigs: RigServiceClient::new(channel.clone()),
            leases: LeaseServiceClient::new(channel.clone()),
            runs: RunServiceClient::new(channel.clone()),
            channel,
        }
    }

    pub(crate) async fn create(&mut self, request: CreateRunRequest) -> Run {
        let response = within(self.runs.create_run(request)).await.unwrap();
        response.into_inner().run.unwrap()
    }

    pub(crate) async fn get(&mut self, name: &str) -> Run {
        let request = GetRunRequest { name: name.into() };
        within(self.runs.get_run(request))
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap()
    }

    pub(crate) async fn rig(&mut self, name: &str) -> Rig {
        let request = GetRigRequest { name: name.into() };
        within(self.rigs.get_rig(request))
            .await
            .unwrap()
            .into_inner()
            .rig
            .unwrap()
    }

    /// Waits until a lease has its rig.
    pub(crate) async fn holds(&mut self, lease: &str) {
        let request = WatchLeaseRequest { name: lease.into() };
        let mut watch = within(self.leases.watch_lease(request)).await.unwrap().into_inner();
        while within(watch.message()).await.unwrap().unwrap().lease.unwrap().state() != LeaseState::Active {}
    }

    pub(crate) async fn watch(&mut self, name: &str, cursor: u64) -> Watch {
        let request = WatchRunRequest {
            name: name.into(),
            cursor,
        };
        Watch(within(self.runs.watch_run(request)).await.unwrap().into_inner())
    }

    /// Watches a run to its end, and returns the run.
    pub(crate) async fn ended(&mut self, name: &str) -> Run {
        self.watch(name, 0).await.rest().await;
        self.get(name).await
    }
}

pub(crate) struct Watch(pub(crate) tonic::Streaming<WatchRunResponse>);

impl Watch {
    pub(crate) async fn next(&mut self) -> Option<RunEvent> {
        let response = within(self.0.message()).await.unwrap()?;
        Some(response.event.unwrap())
    }

    /// Returns all remaining events.
    pub(crate) async fn rest(&mut self) -> Vec<RunEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Waits for a step of a procedure.
    pub(crate) async fn reaches(&mut self, step: &str) {
        loop {
            let event = self.next().await.expect("the step comes before the end").event;
            if matches!(&event, Some(Event::StepStarted(started)) if started.step == step) {
                return;
            }
        }
    }
}

/// Returns a spec of these tests on this rig.
pub(crate) fn spec(rig: &str, tests: &[&str]) -> RunSpec {
    RunSpec {
        rig: rig.into(),
        patterns: tests.iter().map(ToString::to_string).collect(),
        ..RunSpec::default()
    }
}

/// Returns a request for a run of these tests.
pub(crate) fn request(rig: &str, tests: &[&str]) -> CreateRunRequest {
    asked(spec(rig, tests))
}

/// Returns a request for a run with this spec.
pub(crate) fn asked(spec: RunSpec) -> CreateRunRequest {
    CreateRunRequest {
        spec: Some(spec),
        ..CreateRunRequest::default()
    }
}

pub(crate) fn is_ended(run: &Run) -> bool {
    run.state() == RunState::Ended
}

pub(crate) fn is_idle(rig: &Rig) -> bool {
    rig.state() == RigState::Idle
}

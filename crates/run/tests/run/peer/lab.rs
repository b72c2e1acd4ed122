//! An agent on a fake device in memory, and a socket pair over which a test acts as the emulated machine.

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use verbatim_agent::listen::Listen;
use verbatim_agent::server::{Options, Server};
use verbatim_hw::ether::DatagramPair;
use verbatim_record::{Bundle, FrameSeen, Trace, Verdict};
use verbatim_verbs::Limits;
use verbatim_verbs::device::{Device, Failure, Report};
use verbatim_verbs_fake::{FakeDevice, FakeMemory, FakePair, Strings};
use verbatim_wire::ether::MacAddress;
use verbatim_wire::verbs::{Access, Service};

use super::*;
use verbatim_rig::{OpenRig, RigConfig, RigError, RigFile};
use verbatim_run::state::StateDirectory;
use verbatim_run::{self as run, Request, RunError, RunId, RunSpec};

pub(super) const OWN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// A fake device with an active Ethernet port at 10.0.0.1.
pub(super) struct Active(pub(super) FakeDevice);

impl Device for Active {
    type Memory = FakeMemory;
    type Pair = FakePair;

    fn describe(&self) -> Result<pb::Opened, Failure> {
        let gid = "::ffff:10.0.0.1".parse::<core::net::Ipv6Addr>().unwrap();
        Ok(pb::Opened {
            firmware: "7.5".into(),
            port_state: 4,
            active_mtu: 3,
            ethernet: true,
            gids: vec![pb::Gid {
                index: 1,
                gid: gid.octets().to_vec(),
                kind: "RoCE v2".into(),
            }],
            ..self.0.describe()?
        })
    }

    fn register(&self, length: usize, access: Access) -> Result<FakeMemory, Failure> {
        self.0.register(length, access)
    }

    fn create_pair(&self, service: Service, send: u32, receive: u32) -> Result<FakePair, Failure> {
        self.0.create_pair(service, send, receive)
    }

    fn next_report(&self) -> Result<Option<Report>, Failure> {
        self.0.next_report()
    }

    fn gone(&self) -> Option<String> {
        self.0.gone()
    }
}

/// An agent in this process.
pub(super) struct Agent {
    pub(super) strings: Strings,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(socket: PathBuf) -> Self {
        let strings = Strings::default();
        let opens = strings.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (listening, listens) = sync_channel(1);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let options = Options {
                    listen: Listen::Unix(socket),
                    tls: None,
                    device: "fake0".into(),
                    limits: Limits::default(),
                    max_sessions: 2,
                };
                let server = Server::bind(options).await.unwrap();
                listening.send(()).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                server.serve(move || Ok(Active(opens.open())), stop).await.unwrap();
            });
        });
        listens.recv_timeout(LONG).unwrap();
        Self {
            strings,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(super) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A rig file, an agent and a machine, in a temporary directory.
pub(super) struct Lab {
    directory: tempfile::TempDir,
    pub(super) agent: Agent,
    pub(super) machine: Option<DatagramPair>,
}

impl Lab {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let machine = DatagramPair::open(&at("m.sock"), &at("t.sock")).unwrap();
        let agent = Agent::start(at("agent.sock"));
        Self {
            agent,
            machine: Some(machine),
            directory,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn config(&self, more: &str) -> RigConfig {
        let text = format!(
            "config_version = 1\n[[rig]]\nname = \"p\"\nkind = \"packet\"\nip = \"10.0.0.2\"\nmac = \"{OWN_MAC}\"\nsocket \
             = {{ local = \"t.sock\", remote = \"m.sock\" }}\nagent = \"unix:agent.sock\"\n{more}"
        );
        let file = self.path().join("rigs.toml");
        RigFile::parse(text.as_bytes(), &file).unwrap().rigs.remove(0)
    }

    pub(super) fn open(&self) -> OpenRig {
        verbatim_rig::open(&self.config(""), Arc::default()).unwrap()
    }

    pub(super) fn fails(&self, more: &str) -> String {
        let error = verbatim_rig::open(&self.config(more), Arc::default()).unwrap_err();
        assert!(matches!(error, RigError::Lost { .. } | RigError::Refused { .. }));
        error.to_string()
    }

    pub(super) fn machine(&self) -> &DatagramPair {
        self.machine.as_ref().unwrap()
    }

    /// Runs a test on the default rig, and returns its verdict.
    pub(super) fn run(&self, test: &str) -> Result<Verdict, RunError> {
        self.run_on(self.config(""), test)
    }

    /// Runs a test on a rig, and returns its verdict. The record is stored in the lab's directory.
    pub(super) fn run_on(&self, rig: RigConfig, test: &str) -> Result<Verdict, RunError> {
        let request = Request {
            id: RunId::of_now(),
            rig,
            spec: RunSpec {
                patterns: vec![test.into()],
                seed: 1,
                ..RunSpec::default()
            },
            record: Some(self.path().join("record")),
            cancel: Arc::default(),
            shrinks: true,
            rig_options: String::new(),
            lease: Arc::default(),
        };
        let state = StateDirectory::at(self.path().join("state"));
        run::execute_in(&request, Some(&state), &mut |_| {}).map(|mut report| report.verdicts.remove(0))
    }

    /// Returns whether each frame of the run was received, and the source of its time. Checks that the frame's text
    /// names the source.
    pub(super) fn time_sources(&self) -> Vec<(bool, TimeSource)> {
        let bundle = Bundle::open(&self.path().join("record")).unwrap();
        let trace = Trace::new(bundle.records().unwrap().remove(0)).unwrap();
        let source = |frame: &FrameSeen| {
            let source = frame.at.source.unwrap();
            let words = frame.in_words();
            assert!(words.contains(&format!(" s ({source}): ")), "{words}");
            (frame.received, source)
        };
        trace.timeline.frames.iter().map(source).collect()
    }
}

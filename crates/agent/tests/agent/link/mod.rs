//! Tests against agents with a fake device: in this process, and in another process that can be killed.

mod crowd;
mod hostile;
mod killed;
mod local;
mod session;
mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use verbatim_agent::listen::Listen;
use verbatim_agent::server::{Options, Server};
use verbatim_proto::agent as proto;
use verbatim_proto::agent::{Command, command, event, reply};
use verbatim_tls::ServerFiles;
use verbatim_verbs::Limits;
use verbatim_verbs_fake::Strings;

use verbatim_verbs::{AgentAddress, AgentClient, AgentMessage, Place, VerbsLink};

/// Time limit that suffices on any machine. A passing test never waits this long.
const LONG: Duration = Duration::from_secs(20);

/// An agent in this process.
struct Agent {
    strings: Strings,
    listen: Listen,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(listen: Listen, tls: Option<ServerFiles>, max_sessions: u32) -> Self {
        let strings = Strings::default();
        let opens = strings.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (listening, listens) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = Server::bind(options(listen, tls, max_sessions)).await.unwrap();
                listening.send(server.address().clone()).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                server.serve(move || opens.try_open(), stop).await.unwrap();
            });
        });
        Self {
            strings,
            listen: listens.recv_timeout(LONG).unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn on_unix(directory: &Path) -> Self {
        Self::start(Listen::Unix(directory.join("agent.sock")), None, 2)
    }

    fn tcp(&self) -> SocketAddr {
        match self.listen {
            Listen::Tcp(address) => address,
            Listen::Unix(_) => panic!("a unix socket"),
        }
    }

    fn address(&self) -> AgentAddress {
        let place = match &self.listen {
            Listen::Tcp(address) => Place::Tcp(*address),
            Listen::Unix(path) => Place::Unix(path.clone()),
        };
        AgentAddress { place, tls: None }
    }

    fn connect(&self) -> AgentClient {
        AgentClient::connect(&self.address(), LONG).unwrap()
    }

    fn stop(&mut self) {
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

fn options(listen: Listen, tls: Option<ServerFiles>, max_sessions: u32) -> Options {
    Options {
        listen,
        tls,
        device: "fake0".into(),
        limits: Limits::default(),
        max_sessions,
    }
}

fn command(kind: command::Kind) -> Command {
    Command { kind: Some(kind) }
}

fn create_qp() -> Command {
    command(command::Kind::CreateQp(proto::CreateQp {
        service: proto::Service::Rc.into(),
        send_depth: 8,
        receive_depth: 8,
    }))
}

fn register(length: u32) -> Command {
    command(command::Kind::RegisterMemory(proto::RegisterMemory {
        length,
        access: None,
    }))
}

fn send(qp: u32, wr_id: u64) -> Command {
    command(command::Kind::PostSend(proto::PostSend {
        qp,
        wr_id,
        operation: proto::Operation::Send.into(),
        signaled: true,
        ..Default::default()
    }))
}

/// Sends a command and receives until its reply.
fn ask(link: &mut dyn VerbsLink, number: u64, command: Command) -> (Vec<event::Kind>, reply::Kind) {
    link.send(number, command).unwrap();
    let mut events = Vec::new();
    loop {
        match link.recv(LONG).unwrap().expect("an answer in time") {
            AgentMessage::Answer(of, at, reply) => {
                assert_eq!(of, number);
                assert!(at.earliest_ns <= at.latest_ns);
                return (events, reply.kind.unwrap());
            }
            AgentMessage::Event(_, event) => events.push(event.kind.unwrap()),
        }
    }
}

fn made_qp(link: &mut dyn VerbsLink) -> proto::Qp {
    match ask(link, 1000, create_qp()).1 {
        reply::Kind::Qp(qp) => qp,
        other => panic!("{other:?}"),
    }
}

/// Receives until the end of the session and returns its reason.
fn end_of(link: &mut dyn VerbsLink) -> String {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if let Err(gone) = link.recv(LONG) {
            return gone.0;
        }
    }
    panic!("the session does not end");
}

/// Waits until all objects of the sessions are destroyed.
fn until_destroyed(strings: &Strings) {
    let begun = Instant::now();
    while !strings.existing().is_empty() {
        assert!(begun.elapsed() < LONG, "left: {:?}", strings.existing());
        std::thread::yield_now();
    }
}

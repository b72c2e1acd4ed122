//! Many clients that connect and send nothing. They do not block a tester, and they occupy neither a thread nor a
//! session.

use std::fs;
use std::net::TcpStream;

use super::killed::{again, until_ready};
use super::tls::{Pki, try_with};
use super::*;

/// Opens connections that never send anything.
fn silent(address: SocketAddr) -> Vec<TcpStream> {
    (0..200).map(|_| TcpStream::connect(address).unwrap()).collect()
}

#[test]
fn silent_connections_block_no_tester() {
    let agent = Agent::start(Listen::Tcp("127.0.0.1:0".parse().unwrap()), None, 1);
    let _silent = silent(agent.tcp());
    made_qp(&mut agent.connect());
}

#[test]
fn silent_connections_block_no_tls_tester() {
    let pki = Pki::new(&["127.0.0.1"]);
    let agent = Agent::start(Listen::Tcp("127.0.0.1:0".parse().unwrap()), Some(pki.server()), 1);
    let _silent = silent(agent.tcp());
    made_qp(&mut try_with(&agent, Some(pki.client())).unwrap());
}

/// Returns the number of threads of a process that serve a session.
fn of_sessions(process: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    threads.map(name).filter(|name| name.trim() == "session").count()
}

#[test]
fn refused_client_gets_no_thread() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    let (mut agent, mut output) = again("agent_process", &socket);
    until_ready(&mut output);
    let address = AgentAddress {
        place: Place::Unix(socket),
        tls: None,
    };
    let connect = || AgentClient::connect(&address, LONG).unwrap();
    let mut seated = connect();
    made_qp(&mut seated);
    let with_one = of_sessions(agent.id());
    let mut crowd: Vec<AgentClient> = (0..40).map(|_| connect()).collect();
    for one in &mut crowd {
        let refused = ask(one, 1, create_qp()).1;
        assert!(matches!(refused, reply::Kind::Refused(_)), "{refused:?}");
    }
    assert_eq!(of_sessions(agent.id()), with_one);
    agent.kill().unwrap();
    agent.wait().unwrap();
}

//! Sessions over a unix socket and loopback addresses.

use nix::poll::{PollFd, PollFlags, poll};
use std::os::fd::AsFd as _;

use super::*;

#[test]
fn replies_are_ordered_after_completions() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    assert_eq!(client.agent().devices, ["fake0"]);
    let opened = ask(&mut client, 1, command(command::Kind::Open(proto::Open {}))).1;
    assert!(matches!(opened, reply::Kind::Opened(opened) if opened.device == "fake0"));
    let qp = made_qp(&mut client).qp;
    agent.strings.complete_at_once();
    for n in 0..200 {
        let (events, reply) = ask(&mut client, n, send(qp, n));
        assert!(matches!(reply, reply::Kind::Done(_)), "{reply:?}");
        assert!(
            matches!(&events[..], [event::Kind::Completion(completion)] if completion.wr_id == n),
            "{events:?}"
        );
    }
}

#[test]
fn completion_wakes_a_poll() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    let qp = made_qp(&mut client);
    ask(&mut client, 1, send(qp.qp, 7));
    assert_eq!(client.recv(Duration::ZERO), Ok(None));
    agent.strings.complete(qp.qpn, 7, 12);
    let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, 20_000_u16).unwrap(), 1);
    let Ok(Some(AgentMessage::Event(_, event))) = client.recv(Duration::ZERO) else {
        panic!("no event");
    };
    assert!(matches!(event.kind, Some(event::Kind::Completion(completion)) if completion.status == 12));
}

#[test]
fn ended_session_destroys_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    made_qp(&mut client);
    ask(&mut client, 1, register(10));
    assert_eq!(agent.strings.existing().len(), 3);
    drop(client);
    assert_eq!(agent.strings.existing(), [""; 0], "the drop waited for it");

    let mut client = agent.connect();
    let qp = made_qp(&mut client);
    client.send(5, send(qp.qp, 1)).unwrap();
    let said = client.close().unwrap();
    assert!(matches!(&said[..], [AgentMessage::Answer(5, ..)]), "{said:?}");
    assert_eq!(agent.strings.existing(), [""; 0]);
}

#[test]
fn sessions_have_separate_handles() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let (mut one, mut other) = (agent.connect(), agent.connect());
    let qp = made_qp(&mut one).qp;
    let refused = ask(&mut other, 1, send(qp, 1)).1;
    assert!(matches!(refused, reply::Kind::Refused(_)), "{refused:?}");
    drop(other);
    assert!(matches!(ask(&mut one, 1, send(qp, 1)).1, reply::Kind::Done(_)));
}

#[test]
fn session_beyond_limit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let (one, _other) = (agent.connect(), agent.connect());
    let mut third = agent.connect();
    assert_eq!((third.agent().sessions, third.agent().max_sessions), (2, 2));
    let reply::Kind::Refused(refused) = ask(&mut third, 1, create_qp()).1 else {
        panic!("not refused");
    };
    assert!(refused.text.contains("has 2 of at most 2 sessions") && refused.text.contains("--max-sessions"));
    assert!(end_of(&mut third).contains("--max-sessions"));
    drop(one);
    made_qp(&mut agent.connect());
}

#[test]
fn lost_device_ends_session_with_reason() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    made_qp(&mut client);
    agent.strings.go("fake0 was unplugged");
    let end = end_of(&mut client);
    assert!(end.contains("the device fake0 is gone: fake0 was unplugged"), "{end}");
    assert_eq!(agent.strings.existing(), [""; 0]);
    assert_eq!(client.send(9, create_qp()).unwrap_err().0, end);
}

#[test]
fn fatal_device_event_precedes_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    made_qp(&mut client);
    agent.strings.report("IBV_EVENT_DEVICE_FATAL", None);
    let Ok(Some(AgentMessage::Event(_, event))) = client.recv(LONG) else {
        panic!("no event");
    };
    assert!(matches!(event.kind, Some(event::Kind::AsyncEvent(event)) if event.name == "IBV_EVENT_DEVICE_FATAL"));
    assert!(end_of(&mut client).contains("IBV_EVENT_DEVICE_FATAL"));
}

#[test]
fn device_open_failure_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    agent.strings.fail_next(19, "no such device");
    let mut client = agent.connect();
    let reply::Kind::Refused(refused) = ask(&mut client, 1, create_qp()).1 else {
        panic!("not refused");
    };
    assert_eq!((refused.errno, refused.text.as_str()), (19, "no such device"));
    assert!(end_of(&mut client).contains("no such device"));
    drop(client);
    made_qp(&mut agent.connect());
}

#[test]
fn stopped_agent_destroys_all_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    made_qp(&mut client);
    agent.stop();
    assert_eq!(agent.strings.existing(), [""; 0]);
    assert!(!directory.path().join("agent.sock").exists());
    let end = end_of(&mut client);
    assert!(end.contains("the agent was told to stop"), "{end}");
}

#[test]
fn loopback_addresses_need_no_tls() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let agent = Agent::start(listen.parse().unwrap(), None, 1);
        made_qp(&mut agent.connect());
    }
}

#[test]
fn oversized_command_is_refused_locally() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    let write = |length| {
        command(command::Kind::WriteMemory(proto::WriteMemory {
            memory: 1,
            offset: 0,
            bytes: vec![0; length],
        }))
    };
    assert!(client.send(1, write(64 << 20)).unwrap_err().0.contains("use several"));
    let reply::Kind::Refused(refused) = ask(&mut client, 2, write(20 << 20)).1 else {
        panic!("not refused");
    };
    assert!(refused.text.contains("use several"), "{}", refused.text);
    made_qp(&mut client);
}

#[test]
fn missing_listener_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let unix = AgentAddress {
        place: Place::Unix(directory.path().join("none")),
        tls: None,
    };
    let error = AgentClient::connect(&unix, LONG).unwrap_err();
    assert!(
        error.contains("none") && error.contains("no program listens there"),
        "{error}"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let tcp = AgentAddress {
        place: Place::Tcp(free),
        tls: None,
    };
    let error = AgentClient::connect(&tcp, LONG).unwrap_err();
    assert!(error.contains("no program listens there"), "{error}");
}

fn named(host: &str, port: u16) -> AgentAddress {
    AgentAddress {
        place: Place::named(&format!("{host}:{port}")).unwrap(),
        tls: None,
    }
}

#[test]
fn agent_is_reached_by_host_name() {
    let agent = Agent::start(Listen::Tcp("127.0.0.1:0".parse().unwrap()), None, 2);
    // The name `localhost` may resolve to ::1 first. No process listens there, so the client tries the next address.
    let mut client = AgentClient::connect(&named("localhost", agent.tcp().port()), LONG).unwrap();
    made_qp(&mut client);
}

#[test]
fn unresolvable_name_error_has_remedy() {
    // RFC 6761: no resolver knows a name below `.invalid`.
    let error = AgentClient::connect(&named("dut-3.invalid", 7000), LONG).unwrap_err();
    assert!(
        error.contains("does not resolve the name dut-3.invalid") && error.contains("getent hosts dut-3.invalid"),
        "{error}"
    );
}

#[test]
fn silent_or_foreign_listener_times_out() {
    // The kernel completes the connection, but no process reads from it or writes to it.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = AgentAddress {
        place: Place::Tcp(mute.local_addr().unwrap()),
        tls: None,
    };
    let error = AgentClient::connect(&address, Duration::from_millis(200)).unwrap_err();
    assert!(error.contains("no answer within 200 ms"), "{error}");

    let closing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = AgentAddress {
        place: Place::Tcp(closing.local_addr().unwrap()),
        tls: None,
    };
    let closer = std::thread::spawn(move || drop(closing.accept()));
    let error = AgentClient::connect(&address, LONG).unwrap_err();
    assert!(
        error.contains("closed the connection") || error.contains("broke"),
        "{error}"
    );
    closer.join().unwrap();
}

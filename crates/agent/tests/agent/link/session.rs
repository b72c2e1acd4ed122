//! Sessions over a unix socket and loopback addresses.

use nix::poll::{PollFd, PollFlags, poll};
use std::os::fd::AsFd as _;

use super::*;

#[test]
fn a_session_answers_in_order_with_completions_first() {
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
fn a_completion_comes_by_itself_and_wakes_a_poll() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    let qp = made_qp(&mut client);
    ask(&mut client, 1, send(qp.qp, 7));
    assert_eq!(client.recv(Duration::ZERO), Ok(None));
    agent.strings.complete(qp.qpn, 7, 12);
    let mut fds = [PollFd::new(client.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, 20_000_u16).unwrap(), 1);
    let Ok(Some(Said::Event(_, event))) = client.recv(Duration::ZERO) else {
        panic!("no event");
    };
    assert!(matches!(event.kind, Some(event::Kind::Completion(completion)) if completion.status == 12));
}

#[test]
fn what_a_session_made_is_destroyed_when_its_client_is_dropped_or_closed() {
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
    assert!(matches!(&said[..], [Said::Answer(5, ..)]), "{said:?}");
    assert_eq!(agent.strings.existing(), [""; 0]);
}

#[test]
fn sessions_do_not_see_each_others_handles() {
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
fn one_session_too_many_is_refused_in_words_and_its_seat_is_free_again_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let (one, _other) = (agent.connect(), agent.connect());
    let mut third = agent.connect();
    assert_eq!((third.agent().sessions, third.agent().max_sessions), (2, 2));
    let reply::Kind::Refused(refused) = ask(&mut third, 1, create_qp()).1 else {
        panic!("not refused");
    };
    assert!(refused.text.contains("has 2 sessions of 2") && refused.text.contains("--max-sessions"));
    assert!(end_of(&mut third).contains("--max-sessions"));
    drop(one);
    made_qp(&mut agent.connect());
}

#[test]
fn a_device_that_goes_ends_the_session_with_the_reason() {
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
fn a_device_that_fails_fatally_is_reported_before_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Agent::on_unix(directory.path());
    let mut client = agent.connect();
    made_qp(&mut client);
    agent.strings.report("IBV_EVENT_DEVICE_FATAL", None);
    let Ok(Some(Said::Event(_, event))) = client.recv(LONG) else {
        panic!("no event");
    };
    assert!(matches!(event.kind, Some(event::Kind::AsyncEvent(event)) if event.name == "IBV_EVENT_DEVICE_FATAL"));
    assert!(end_of(&mut client).contains("IBV_EVENT_DEVICE_FATAL"));
}

#[test]
fn a_device_that_cannot_be_opened_is_refused_with_its_words() {
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
fn an_agent_that_is_told_to_stop_destroys_all_and_says_so() {
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
fn both_loopback_addresses_do_without_tls() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let agent = Agent::start(listen.parse().unwrap(), None, 1);
        made_qp(&mut agent.connect());
    }
}

#[test]
fn a_command_that_is_too_large_for_the_protocol_is_refused_here_and_the_session_goes_on() {
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
fn an_address_where_nobody_listens_is_said_to_be_so() {
    let directory = tempfile::tempdir().unwrap();
    let unix = AgentAddress {
        place: Place::Unix(directory.path().join("none")),
        tls: None,
    };
    let error = AgentClient::connect(&unix, LONG).unwrap_err();
    assert!(
        error.contains("none") && error.contains("nobody listens there"),
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
    assert!(error.contains("nobody listens there"), "{error}");
}

fn named(host: &str, port: u16) -> AgentAddress {
    AgentAddress {
        place: Place::named(&format!("{host}:{port}")).unwrap(),
        tls: None,
    }
}

#[test]
fn an_agent_is_reached_by_the_name_of_its_host() {
    let agent = Agent::start(Listen::Tcp("127.0.0.1:0".parse().unwrap()), None, 2);
    // Where `localhost` is ::1 too, nobody listens there, and the next address is tried.
    let mut client = AgentClient::connect(&named("localhost", agent.tcp().port()), LONG).unwrap();
    made_qp(&mut client);
}

#[test]
fn a_name_that_leads_nowhere_is_told_with_what_to_do() {
    // RFC 6761: no resolver knows anything below `.invalid`.
    let error = AgentClient::connect(&named("dut-3.invalid", 7000), LONG).unwrap_err();
    assert!(
        error.contains("the name dut-3.invalid is not found") && error.contains("getent hosts dut-3.invalid"),
        "{error}"
    );
}

#[test]
fn somebody_who_does_not_answer_or_is_no_agent_is_given_up() {
    // Listens and never accepts: the kernel does, and nothing is ever said.
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

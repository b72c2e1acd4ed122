use std::time::{Duration, Instant as StdInstant};

use verbatim_proto::agent as proto;
use verbatim_proto::agent::{Command, command, event, reply};

use super::*;
use crate::fake::{FakeDevice, Strings};
use crate::wake::Wake;

fn session(strings: &Strings) -> Session<FakeDevice> {
    Session::new(strings.open(), Limits::default())
}

fn with_limits(strings: &Strings, memory: u64, queue_pairs: u32) -> Session<FakeDevice> {
    let limits = Limits {
        memory,
        queue_pairs,
        queue_depth: 16,
    };
    Session::new(strings.open(), limits)
}

fn command(kind: command::Kind) -> Command {
    Command { kind: Some(kind) }
}

fn ask(session: &mut Session<FakeDevice>, kind: command::Kind) -> reply::Kind {
    session.execute(&command(kind)).reply.kind.unwrap()
}

fn register(length: u32) -> command::Kind {
    command::Kind::RegisterMemory(proto::RegisterMemory { length, access: None })
}

fn create_qp(send_depth: u32, receive_depth: u32) -> command::Kind {
    command::Kind::CreateQp(proto::CreateQp {
        service: proto::Service::Rc.into(),
        send_depth,
        receive_depth,
    })
}

fn receive(qp: u32, wr_id: u64, memory: u32, offset: u32, length: u32) -> command::Kind {
    let local = Some(proto::Slice { memory, offset, length });
    command::Kind::PostReceive(proto::PostReceive { qp, wr_id, local })
}

fn send(qp: u32, wr_id: u64) -> proto::PostSend {
    proto::PostSend {
        qp,
        wr_id,
        operation: proto::Operation::Send.into(),
        signaled: true,
        ..Default::default()
    }
}

fn made_qp(session: &mut Session<FakeDevice>) -> proto::Qp {
    match ask(session, create_qp(4, 4)) {
        reply::Kind::Qp(qp) => qp,
        other => panic!("{other:?}"),
    }
}

fn made_memory(session: &mut Session<FakeDevice>, length: u32) -> u32 {
    match ask(session, register(length)) {
        reply::Kind::Memory(memory) => memory.memory,
        other => panic!("{other:?}"),
    }
}

fn refusal(session: &mut Session<FakeDevice>, kind: command::Kind) -> proto::Refused {
    match ask(session, kind) {
        reply::Kind::Refused(refused) => refused,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn done(session: &mut Session<FakeDevice>, kind: command::Kind) {
    let reply = ask(session, kind);
    assert!(matches!(reply, reply::Kind::Done(_)), "{reply:?}");
}

fn completions(happened: &[Happened]) -> Vec<(u32, u64, u32)> {
    let found = happened.iter().filter_map(|happened| match &happened.event.kind {
        Some(event::Kind::Completion(completion)) => Some((completion.qp, completion.wr_id, completion.status)),
        _ => None,
    });
    found.collect()
}

#[test]
fn dropped_session_destroys_all_in_order() {
    let strings = Strings::default();
    let mut session = session(&strings);
    made_memory(&mut session, 100);
    made_qp(&mut session);
    made_memory(&mut session, 200);
    made_qp(&mut session);
    strings.taken_log();
    drop(session);
    let destroyed = [
        "destroy pair 17",
        "destroy pair 18",
        "destroy memory of 100",
        "destroy memory of 200",
        "destroy device",
    ];
    assert_eq!(strings.taken_log(), destroyed);
}

#[test]
fn destroy_all_keeps_device_open() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let memory = made_memory(&mut session, 100);
    let qp = made_qp(&mut session);
    done(&mut session, command::Kind::DestroyAll(proto::DestroyAll {}));
    assert_eq!(strings.existing(), ["device"]);
    let query = command::Kind::QueryQp(proto::QueryQp { qp: qp.qp });
    assert_eq!(
        refusal(&mut session, query).text,
        format!("this session has no queue pair {}; it has none", qp.qp)
    );
    assert_ne!(
        made_memory(&mut session, 100),
        memory,
        "a handle is never given out twice"
    );
}

#[test]
fn unknown_handle_error_lists_existing() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let memory = made_memory(&mut session, 64);
    let qp = made_qp(&mut session).qp;
    let none = qp + 1;
    let of_qp = [
        command::Kind::ModifyQp(proto::ModifyQp {
            qp: none,
            state: proto::QpState::Init.into(),
            attributes: None,
        }),
        command::Kind::QueryQp(proto::QueryQp { qp: none }),
        command::Kind::PostSend(send(none, 1)),
        receive(none, 1, memory, 0, 1),
        command::Kind::DestroyQp(proto::DestroyQp { qp: none }),
    ];
    for kind in of_qp {
        let text = refusal(&mut session, kind).text;
        assert_eq!(text, format!("this session has no queue pair {none}; it has {qp}"));
    }
    let slice = |length| proto::Slice {
        memory: none,
        offset: 0,
        length,
    };
    let of_memory = [
        receive(qp, 1, none, 0, 1),
        command::Kind::PostSend(proto::PostSend {
            local: Some(slice(0)),
            ..send(qp, 1)
        }),
        command::Kind::ReadMemory(proto::ReadMemory { from: Some(slice(1)) }),
        command::Kind::WriteMemory(proto::WriteMemory {
            memory: none,
            offset: 0,
            bytes: vec![1],
        }),
        command::Kind::DeregisterMemory(proto::DeregisterMemory { memory: none }),
    ];
    for kind in of_memory {
        let text = refusal(&mut session, kind).text;
        assert_eq!(text, format!("this session has no memory {none}; it has {memory}"));
    }
}

#[test]
fn slice_beyond_memory_is_refused() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let memory = made_memory(&mut session, 64);
    let qp = made_qp(&mut session).qp;
    for (offset, length) in [(0, 65), (64, 1), (63, 2), (u32::MAX, u32::MAX)] {
        let end = u64::from(offset) + u64::from(length);
        let text = refusal(&mut session, receive(qp, 1, memory, offset, length)).text;
        assert_eq!(
            text,
            format!("bytes {offset}..{end} are not inside memory {memory}, which has 64 bytes")
        );
    }
    done(&mut session, receive(qp, 1, memory, 0, 64));
    done(&mut session, receive(qp, 2, memory, 64, 0));
    assert!(strings.taken_log().contains(&"post Receive of 0".to_owned()));
}

#[test]
fn transfer_is_limited_per_command() {
    let strings = Strings::default();
    let mut session = with_limits(&strings, 64 << 20, 1);
    let memory = made_memory(&mut session, MAX_TRANSFER + 2);
    done(
        &mut session,
        command::Kind::WriteMemory(proto::WriteMemory {
            memory,
            offset: 3,
            bytes: vec![7, 8],
        }),
    );
    let read = |length| {
        let from = Some(proto::Slice {
            memory,
            offset: 2,
            length,
        });
        command::Kind::ReadMemory(proto::ReadMemory { from })
    };
    let bytes = vec![0, 7, 8, 0];
    assert_eq!(ask(&mut session, read(4)), reply::Kind::Bytes(proto::Bytes { bytes }));
    assert!(
        refusal(&mut session, read(MAX_TRANSFER + 1))
            .text
            .contains("use several")
    );
    assert!(matches!(ask(&mut session, read(MAX_TRANSFER)), reply::Kind::Bytes(_)));
    let bytes = vec![0; usize::try_from(MAX_TRANSFER).unwrap() + 1];
    let write = command::Kind::WriteMemory(proto::WriteMemory {
        memory,
        offset: 0,
        bytes,
    });
    assert!(refusal(&mut session, write).text.contains("use several"));
    assert!(
        refusal(
            &mut session,
            command::Kind::ReadMemory(proto::ReadMemory { from: None })
        )
        .text
        .contains("from")
    );
}

#[test]
fn limits_are_refused_and_freed() {
    let strings = Strings::default();
    let mut session = with_limits(&strings, 8192, 1);
    let memory = made_memory(&mut session, 1);
    let text = refusal(&mut session, register(4097)).text;
    assert!(text.contains("in use: 4096") && text.contains("--max-memory"), "{text}");
    made_memory(&mut session, 4096);
    assert!(refusal(&mut session, register(1)).text.contains("in use: 8192"));
    assert!(refusal(&mut session, register(0)).text.contains("0 bytes"));
    done(
        &mut session,
        command::Kind::DeregisterMemory(proto::DeregisterMemory { memory }),
    );
    made_memory(&mut session, 4096);

    let qp = made_qp(&mut session).qp;
    let text = refusal(&mut session, create_qp(4, 4)).text;
    assert!(text.contains("(1 of 1)") && text.contains("--max-qps"), "{text}");
    done(&mut session, command::Kind::DestroyQp(proto::DestroyQp { qp }));
    for (send_depth, receive_depth, wrong) in [(0, 4, "send"), (17, 4, "send"), (4, 0, "receive"), (4, 17, "receive")] {
        let text = refusal(&mut session, create_qp(send_depth, receive_depth)).text;
        assert!(text.starts_with(wrong) && text.contains("1..=16"), "{text}");
    }
    made_qp(&mut session);
}

#[test]
fn driver_errno_is_passed_on() {
    let strings = Strings::default();
    let mut session = session(&strings);
    strings.fail_next(12, "ibv_create_qp on fake0 failed");
    let refused = refusal(&mut session, create_qp(4, 4));
    assert_eq!(
        (refused.errno, refused.text.as_str()),
        (12, "ibv_create_qp on fake0 failed")
    );
    strings.fail_next(12, "ibv_reg_mr failed");
    assert_eq!(refusal(&mut session, register(1)).errno, 12);
    assert_eq!(session.gone(), None);
    made_qp(&mut session);
}

#[test]
fn unknown_command_is_refused() {
    let mut session = session(&Strings::default());
    let done = session.execute(&Command { kind: None });
    assert!(matches!(done.reply.kind, Some(reply::Kind::Refused(_))));
}

#[test]
fn completions_come_before_the_reply() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let (a, b) = (made_qp(&mut session), made_qp(&mut session));
    strings.complete_at_once();
    let done = session.execute(&command(command::Kind::PostSend(send(b.qp, 5))));
    assert_eq!(completions(&done.before), [(b.qp, 5, 0)]);
    strings.complete(a.qpn, 6, 13);
    strings.complete(b.qpn, 7, 0);
    let done = session.execute(&command(command::Kind::QueryQp(proto::QueryQp { qp: b.qp })));
    assert_eq!(completions(&done.before), [(a.qp, 6, 13), (b.qp, 7, 0)]);
    strings.complete(a.qpn, 8, 0);
    strings.complete(b.qpn, 9, 0);
    let destroyed = session.execute(&command(command::Kind::DestroyQp(proto::DestroyQp { qp: a.qp })));
    assert_eq!(
        completions(&destroyed.before),
        [(a.qp, 8, 0), (b.qp, 9, 0)],
        "completions of a queue pair are not lost when it is destroyed"
    );
}

#[test]
fn completion_time_spans_two_polls() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let qp = made_qp(&mut session);
    let before = now_ns();
    assert!(session.events().is_empty());
    let empty = now_ns();
    strings.complete(qp.qpn, 1, 0);
    let polling = now_ns();
    let found = session.events();
    let after = now_ns();
    let at = found[0].at;
    assert!((before..=empty).contains(&at.earliest_ns), "{at:?}");
    assert!((polling..=after).contains(&at.latest_ns), "{at:?}");
    strings.complete(qp.qpn, 2, 0);
    let next = session.events()[0].at;
    assert!(
        next.earliest_ns >= at.latest_ns,
        "the queue was seen empty after the first: {next:?}"
    );
}

#[test]
fn completion_is_not_before_its_post() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let qp = made_qp(&mut session).qp;
    strings.complete_at_once();
    let before = now_ns();
    let done = session.execute(&command(command::Kind::PostSend(send(qp, 1))));
    assert!(done.before[0].at.earliest_ns >= before);
}

#[test]
fn reply_time_spans_the_call() {
    let mut session = session(&Strings::default());
    let before = now_ns();
    let at = session.execute(&command(register(1))).at;
    let after = now_ns();
    assert!(before <= at.earliest_ns && at.earliest_ns <= at.latest_ns && at.latest_ns <= after);
}

#[test]
fn memory_in_use_is_not_deregistered() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let (used, unused) = (made_memory(&mut session, 64), made_memory(&mut session, 64));
    let qp = made_qp(&mut session);
    done(&mut session, receive(qp.qp, 1, used, 0, 64));
    let deregister = |memory| command::Kind::DeregisterMemory(proto::DeregisterMemory { memory });
    assert!(
        refusal(&mut session, deregister(used))
            .text
            .contains("have not completed")
    );
    done(&mut session, deregister(unused));
    strings.complete(qp.qpn, 1, 5);
    done(&mut session, deregister(used));
}

#[test]
fn reset_qp_frees_its_memory() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let memory = made_memory(&mut session, 64);
    let qp = made_qp(&mut session).qp;
    done(&mut session, receive(qp, 1, memory, 0, 64));
    let state = proto::QpState::Reset.into();
    done(
        &mut session,
        command::Kind::ModifyQp(proto::ModifyQp {
            qp,
            state,
            attributes: None,
        }),
    );
    done(
        &mut session,
        command::Kind::DeregisterMemory(proto::DeregisterMemory { memory }),
    );
}

#[test]
fn event_names_qp_by_handle() {
    let strings = Strings::default();
    let mut session = session(&strings);
    made_qp(&mut session);
    let second = made_qp(&mut session);
    strings.report("IBV_EVENT_QP_FATAL", Some(second.qpn));
    strings.report("IBV_EVENT_PORT_ERR", None);
    let seen: Vec<_> = session
        .events()
        .into_iter()
        .map(|happened| happened.event.kind.unwrap())
        .collect();
    let report = |name: &str, qp| {
        let name = name.into();
        event::Kind::AsyncEvent(proto::AsyncEvent { name, qp })
    };
    assert_eq!(
        seen,
        [report("IBV_EVENT_QP_FATAL", second.qp), report("IBV_EVENT_PORT_ERR", 0)]
    );
    assert_eq!(session.gone(), None);
}

#[test]
fn fatal_device_event_ends_session() {
    let strings = Strings::default();
    let mut session = session(&strings);
    strings.report(DEVICE_FATAL, None);
    assert_eq!(session.events().len(), 1, "the client reads it first");
    assert!(session.gone().unwrap().contains(DEVICE_FATAL));
    assert!(
        refusal(&mut session, register(1))
            .text
            .starts_with("the device is gone")
    );
}

#[test]
fn removed_device_is_noticed() {
    let strings = Strings::default();
    let mut failing = session(&strings);
    strings.go("removed");
    strings.fail_next(5, "EIO");
    assert_eq!(refusal(&mut failing, register(1)).errno, 5);
    assert_eq!(failing.gone(), Some("removed"));

    let mut waiting = session(&strings);
    let wake = Wake::new().unwrap();
    let begun = StdInstant::now();
    while waiting.gone().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        waiting.wait(&wake, Duration::from_secs(1));
    }
}

#[test]
fn wait_is_short_while_requests_are_posted() {
    let strings = Strings::default();
    let mut session = session(&strings);
    let wake = Wake::new().unwrap();
    wake.wake();
    let shortest = (0..20).map(|_| {
        let begun = StdInstant::now();
        session.wait(&wake, Duration::from_secs(60));
        begun.elapsed()
    });
    assert!(shortest.min().unwrap() < IDLE_LOOK);
    wake.clear();

    let memory = made_memory(&mut session, 64);
    let qp = made_qp(&mut session).qp;
    done(&mut session, receive(qp, 1, memory, 0, 64));
    // Compares the median of many waits, because the machine may be busy.
    let waits = |session: &mut Session<_>| {
        let wait = |_| {
            let begun = StdInstant::now();
            session.wait(&wake, Duration::from_secs(60));
            begun.elapsed()
        };
        let mut waited: Vec<Duration> = (0..101).map(wait).collect();
        waited.sort();
        waited
    };
    let waited = waits(&mut session);
    assert!(waited[0] >= LOOK && waited[50] < IDLE_LOOK, "{waited:?}");
    session.active_ns = 0;
    let waited = waits(&mut session);
    assert!(waited[0] >= SLOWEST_LOOK && waited[50] < IDLE_LOOK, "{waited:?}");
}

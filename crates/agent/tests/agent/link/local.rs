//! A session on a device of this host.

use verbatim_verbs::device::Failure;
use verbatim_verbs_fake::FakeDevice;

use super::*;
use verbatim_verbs::LocalVerbs;

fn local(strings: &Strings) -> LocalVerbs {
    let opens = strings.clone();
    LocalVerbs::with(Limits::default(), move || Ok(opens.open())).unwrap()
}

#[test]
fn local_session_works_like_an_agent() {
    let strings = Strings::default();
    strings.complete_at_once();
    let mut local = local(&strings);
    let qp = made_qp(&mut local).qp;
    let (events, reply) = ask(&mut local, 1, send(qp, 5));
    assert!(matches!(reply, reply::Kind::Done(_)));
    assert!(matches!(&events[..], [event::Kind::Completion(completion)] if completion.wr_id == 5));
    drop(local);
    assert_eq!(strings.existing(), [""; 0]);
}

#[test]
fn lost_local_device_ends_session() {
    let strings = Strings::default();
    let mut local = local(&strings);
    strings.go("unplugged");
    assert_eq!(end_of(&mut local), "the tester's device is gone: unplugged");
    assert!(local.send(1, create_qp()).is_err());
}

#[test]
fn local_open_failure_names_the_reason() {
    let error = LocalVerbs::with(Limits::default(), || {
        Err::<FakeDevice, _>(Failure::refused("no such device"))
    });
    assert_eq!(error.unwrap_err(), "no such device");
    let error = LocalVerbs::open("no-such-device", 1, Limits::default()).unwrap_err();
    assert!(error.starts_with("the tester's device: "), "{error}");
}

#[test]
fn dropping_session_with_full_inbox_ends() {
    let strings = Strings::default();
    let mut local = local(&strings);
    let qp = made_qp(&mut local);
    // More events than the inbox holds.
    for n in 0..10_000 {
        strings.complete(qp.qpn, n, 0);
    }
    ask_nothing_until_full(&mut local);
    drop(local);
    assert_eq!(strings.existing(), [""; 0]);
}

/// Waits until an event has arrived. The session's thread then fills the inbox and waits for room.
fn ask_nothing_until_full(local: &mut LocalVerbs) {
    assert!(local.recv(LONG).unwrap().is_some());
}

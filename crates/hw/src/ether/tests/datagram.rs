use std::{
    os::unix::net::UnixDatagram,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::ether::{DatagramPair, EtherError, StampSource, now};

use super::frame;

const BOUND: Duration = Duration::from_secs(5);

fn pairs(directory: &Path) -> (DatagramPair, DatagramPair) {
    let (a, b) = (directory.join("a"), directory.join("b"));
    (DatagramPair::open(&a, &b).unwrap(), DatagramPair::open(&b, &a).unwrap())
}

#[test]
fn frames_arrive_whole_and_in_order() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = pairs(place.path());
    for (mark, length) in [(1, 14), (2, 1514), (3, a.longest())] {
        a.send(&frame(length, mark)).unwrap();
    }
    for (mark, length) in [(1, 14), (2, 1514), (3, a.longest())] {
        assert_eq!(b.receive(BOUND).unwrap().unwrap().bytes, frame(length, mark));
    }
    b.send(&frame(60, 4)).unwrap();
    assert_eq!(a.receive(BOUND).unwrap().unwrap().bytes, frame(60, 4));
    assert_eq!((a.dropped(), b.dropped()), (0, 0));
}

#[test]
fn stamp_begins_when_socket_was_empty() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = pairs(place.path());
    let first = now();
    assert_eq!(b.receive(Duration::ZERO).unwrap(), None);
    let seen_empty = now();
    let sent = a.send(&frame(60, 1)).unwrap();
    a.send(&frame(60, 2)).unwrap();
    let read = now();
    let (one, two) = (b.receive(BOUND).unwrap().unwrap(), b.receive(BOUND).unwrap().unwrap());
    for stamp in [one.stamp, two.stamp] {
        assert_eq!(stamp.source, StampSource::Bracket);
        // The socket was not seen empty between the two frames, so both have the same lower bound.
        assert!(first <= stamp.earliest && stamp.earliest <= seen_empty, "{stamp:?}");
        assert!(read <= stamp.latest && stamp.latest <= now(), "{stamp:?}");
    }
    assert!(seen_empty <= sent.earliest && sent.earliest <= sent.latest && sent.latest <= read);
}

#[test]
fn wait_ends_at_timeout_or_frame() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = pairs(place.path());
    let start = Instant::now();
    assert_eq!(b.receive(Duration::from_millis(20)).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(20));
    let receiver = thread::spawn(move || b.receive(BOUND).unwrap());
    a.send(&frame(60, 1)).unwrap();
    assert_eq!(receiver.join().unwrap().unwrap().bytes, frame(60, 1));
    assert!(start.elapsed() < BOUND);
}

#[test]
fn absent_machine_is_named_as_cause() {
    let place = tempfile::tempdir().unwrap();
    let (local, remote) = (place.path().join("a"), place.path().join("b"));
    let a = DatagramPair::open(&local, &remote).unwrap();
    let error = a.send(&frame(60, 1)).unwrap_err();
    assert!(matches!(error, EtherError::PeerAbsent { .. }), "{error:?}");
    assert!(error.to_string().contains("the machine is not running"), "{error}");
    // The machine existed and died; its socket file remains.
    drop(UnixDatagram::bind(&remote).unwrap());
    assert!(matches!(a.send(&frame(60, 1)), Err(EtherError::PeerAbsent { .. })));
    // The machine starts, and the first side need not be reopened.
    let b = DatagramPair::open(&remote, &local).unwrap();
    a.send(&frame(60, 2)).unwrap();
    assert_eq!(b.receive(BOUND).unwrap().unwrap().bytes, frame(60, 2));
}

#[test]
fn send_to_stopped_reader_ends_at_bound() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = pairs(place.path());
    let mut sent = 0;
    let start = Instant::now();
    let error = loop {
        match a.send(&frame(60, 1)) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, EtherError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("the other side does not read"), "{error}");
    assert!(start.elapsed() >= Duration::from_secs(1) && start.elapsed() < BOUND);
    let mut received = 0;
    while b.receive(Duration::ZERO).unwrap().is_some() {
        received += 1;
    }
    assert_eq!(
        received, sent,
        "what was refused was not sent, and what was sent is there"
    );
}

#[test]
fn refuses_frame_of_invalid_length() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = pairs(place.path());
    let error = a.send(&frame(a.longest() + 1, 1)).unwrap_err();
    assert!(matches!(error, EtherError::TooLong { .. }), "{error:?}");
    assert!(matches!(a.send(&[0; 13]), Err(EtherError::TooShort { length: 13 })));
    assert_eq!(b.receive(Duration::ZERO).unwrap(), None);
}

#[test]
fn overlong_datagram_is_counted_and_skipped() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = pairs(place.path());
    a.socket_for_tests()
        .send_to(&vec![0; a.longest() + 1], place.path().join("b"))
        .unwrap();
    a.send(&frame(60, 1)).unwrap();
    assert_eq!(b.receive(BOUND).unwrap().unwrap().bytes, frame(60, 1));
    assert_eq!(b.dropped(), 1);
}

#[test]
fn socket_in_use_is_not_replaced() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    let first = DatagramPair::open(&a, &b).unwrap();
    let error = DatagramPair::open(&a, &b).unwrap_err();
    assert!(matches!(error, EtherError::InUse { .. }), "{error:?}");
    drop(first);
    assert!(!a.exists(), "the file is removed at the end");
    std::fs::write(&a, "precious").unwrap();
    let error = DatagramPair::open(&a, &b).unwrap_err();
    assert!(matches!(error, EtherError::NotASocket { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&a).unwrap(), "precious");
}

#[test]
fn dead_socket_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    drop(UnixDatagram::bind(&a).unwrap());
    assert!(a.exists());
    DatagramPair::open(&a, &b).unwrap();
}

#[test]
fn invalid_path_error_names_the_limit() {
    let long = "x".repeat(200);
    for (local, remote) in [
        ("/no/such/directory/a", "b"),
        (&long, "b"),
        ("a", &long),
        ("", "b"),
        ("a", ""),
    ] {
        let place = tempfile::tempdir().unwrap();
        let local = match local {
            "a" => place.path().join("a"),
            other => other.into(),
        };
        let error = DatagramPair::open(&local, Path::new(remote)).unwrap_err();
        assert!(error.to_string().contains("1 to 107 bytes"), "{error}");
    }
}

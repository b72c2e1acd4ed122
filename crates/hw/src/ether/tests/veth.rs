//! Frames through a veth pair. Each test enters a network namespace of its own in a thread. The namespace ends with the
//! thread and its sockets.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::sched::{CloneFlags, unshare};

use crate::ether::{EtherError, Frame, PacketSocket, StampSource, now};

use super::{OURS, frame};

const BOUND: Duration = Duration::from_secs(5);

/// Runs `body` in a new network namespace with the pair `va`, `vb`, both up. If privileges or the program `ip` are
/// missing, the test prints the reason and passes, but fails in CI.
fn with_pair(body: impl FnOnce() + Send + 'static) {
    let inside = move || {
        // Moves only this thread into a new namespace.
        if let Err(seen) = unshare(CloneFlags::CLONE_NEWNET) {
            assert!(
                std::env::var_os("CI").is_none(),
                "a network namespace is needed: {seen}"
            );
            eprintln!("SKIPPED: the right to make a network namespace is missing ({seen}); run the tests as root");
            return;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            assert!(
                std::env::var_os("CI").is_none(),
                "`ip` is needed: apt-get install iproute2"
            );
            eprintln!("SKIPPED: `ip` is missing; install it: apt-get install iproute2");
            return;
        }
        ip("link add va type veth peer name vb");
        ip("link set va up");
        ip("link set vb up");
        wake("va", "vb");
        wake("vb", "va");
        body();
    };
    let result = thread::spawn(inside).join();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// Prints why a test is skipped. In CI, fails the test instead.
fn skipped(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "{what}");
    eprintln!("SKIPPED: {what}");
}

fn ip(arguments: &str) {
    if let Err(seen) = try_ip(arguments) {
        panic!("ip {arguments}: {seen}");
    }
}

/// Runs `ip`. A child process inherits the namespace of the thread that starts it.
fn try_ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Sends until a frame arrives: an interface's queue starts some time after its link is up, and loses earlier frames.
fn wake(from: &str, to: &str) {
    let (from, to) = (PacketSocket::open(from).unwrap(), PacketSocket::open(to).unwrap());
    let mut first = frame(60, 0);
    first[5] = 0x78; // `ours` ignores frames to this address.
    let start = Instant::now();
    while start.elapsed() < BOUND {
        from.send(&first).unwrap();
        while let Some(frame) = to.receive(Duration::from_millis(10)).unwrap() {
            if frame.bytes == first {
                return;
            }
        }
    }
    panic!(
        "no frame from {} to {} within {BOUND:?}",
        from.interface(),
        to.interface()
    );
}

/// Returns the next frame of the test; the kernel sends other frames, too.
fn ours(socket: &PacketSocket, timeout: Duration) -> Option<Frame> {
    let start = Instant::now();
    loop {
        let frame = socket.receive(timeout.saturating_sub(start.elapsed())).unwrap()?;
        if frame.bytes[0] == 0x02 && frame.bytes[5] == 0x77 {
            return Some(frame);
        }
    }
}

/// Receives until the socket returns an error, and returns the error.
fn end(socket: &PacketSocket) -> EtherError {
    let start = Instant::now();
    loop {
        match socket.receive(Duration::from_millis(10)) {
            Err(error) => return error,
            Ok(frame) => assert!(frame.is_some() && start.elapsed() < BOUND, "{frame:?}"),
        }
    }
}

#[test]
fn frame_arrives_unchanged_with_ordered_stamps() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        assert_eq!(a.stamps(), StampSource::KernelSoftware);
        // The kernel begins to stamp some time after the request.
        let start = Instant::now();
        loop {
            let before = now();
            let sent = a.send(&frame(100, 9)).unwrap();
            let received = ours(&b, BOUND).unwrap();
            let after = now();
            assert_eq!(received.bytes, frame(100, 9));
            assert!(before <= sent.earliest && sent.earliest <= sent.latest && sent.latest <= after);
            assert!(sent.earliest <= received.stamp.latest && received.stamp.latest <= after);
            assert_eq!(sent.source, StampSource::KernelSoftware);
            if received.stamp.source == StampSource::KernelSoftware {
                assert!(before <= received.stamp.earliest);
                break;
            }
            assert!(start.elapsed() < BOUND, "no kernel stamp within {BOUND:?}");
        }
    });
}

#[test]
fn each_stamp_belongs_to_its_frame() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        let mut last = Duration::ZERO;
        for mark in 0..50 {
            let sent = a.send(&frame(60, mark)).unwrap();
            assert_eq!(sent.source, StampSource::KernelSoftware, "{mark}");
            assert!(sent.earliest >= last, "{mark}");
            last = now();
            assert!(sent.latest <= last);
            assert_eq!(ours(&b, BOUND).unwrap().bytes[20], mark);
        }
        assert_eq!(b.dropped(), 0);
    });
}

/// A bridge interface does not stamp the frames that it sends.
#[test]
fn sends_stop_waiting_for_missing_stamps() {
    const BOUND_OF_A_STAMP: Duration = Duration::from_millis(2);
    with_pair(|| {
        if let Err(seen) = try_ip("link add name bridge0 type bridge") {
            return skipped(&format!("this kernel makes no bridge ({seen}): modprobe bridge"));
        }
        ip("link set bridge0 up");
        let bridge = PacketSocket::open("bridge0").unwrap();
        let widths: Vec<Duration> = (0..30)
            .map(|mark| {
                let sent = bridge.send(&frame(60, mark)).unwrap();
                assert_eq!(sent.source, StampSource::Bracket);
                sent.latest - sent.earliest
            })
            .collect();
        assert!(widths[..3].iter().all(|width| *width >= BOUND_OF_A_STAMP), "{widths:?}");
        assert!(widths[3..].iter().any(|width| *width < BOUND_OF_A_STAMP), "{widths:?}");
    });
}

#[test]
fn sent_frames_are_not_received() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        let second = PacketSocket::open("va").unwrap();
        a.send(&frame(60, 1)).unwrap();
        assert!(ours(&b, BOUND).is_some());
        assert_eq!(ours(&a, Duration::from_millis(20)), None);
        assert_eq!(ours(&second, Duration::from_millis(20)), None, "nor by another socket");
    });
}

#[test]
fn vlan_tag_arrives_in_its_place() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        // Frames of the largest length, with an 802.1Q tag and with an 802.1ad tag.
        for (protocol, most) in [([0x81, 0x00], a.mtu() + 18), ([0x88, 0xa8], a.mtu() + 14)] {
            let mut tagged = frame(most, 5);
            tagged[12..18].copy_from_slice(&[protocol[0], protocol[1], 0x60, 0x07, OURS[0], OURS[1]]);
            a.send(&tagged).unwrap();
            assert_eq!(ours(&b, BOUND).unwrap().bytes, tagged);
        }
    });
}

#[test]
fn frame_above_mtu_is_refused() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        assert_eq!((a.mtu(), a.interface()), (1500, "va"));
        a.send(&frame(1514, 1)).unwrap();
        let error = a.send(&frame(1515, 2)).unwrap_err();
        assert!(
            matches!(
                error,
                EtherError::TooLong {
                    length: 1515,
                    most: 1514,
                    ..
                }
            ),
            "{error:?}"
        );
        ip("link set va mtu 1000");
        let error = a.send(&frame(1514, 3)).unwrap_err();
        assert!(matches!(error, EtherError::TooLong { .. }), "{error:?}");
        assert!(matches!(a.send(&[0; 13]), Err(EtherError::TooShort { length: 13 })));
        assert_eq!(ours(&b, BOUND).unwrap().bytes[20], 1);
        assert_eq!(ours(&b, Duration::from_millis(20)), None);
    });
}

#[test]
fn mac_is_the_interface_address() {
    with_pair(|| {
        ip("link set va address 02:11:22:33:44:55");
        assert_eq!(
            PacketSocket::open("va").unwrap().mac(),
            [0x02, 0x11, 0x22, 0x33, 0x44, 0x55]
        );
    });
}

#[test]
fn interface_down_is_an_error_until_up() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        ip("link set va down");
        for _ in 0..2 {
            let error = end(&a);
            assert_eq!(
                error.to_string(),
                "interface va is down: `ip link set va up`, and check its link with `ip link show`"
            );
            assert!(matches!(a.send(&frame(60, 1)), Err(EtherError::InterfaceDown { .. })));
        }
        assert!(matches!(
            PacketSocket::open("va"),
            Err(EtherError::InterfaceDown { .. })
        ));
        ip("link set va up");
        assert_eq!(ours(&a, Duration::from_millis(10)), None);
        wake("vb", "va");
        wake("va", "vb");
        b.send(&frame(60, 2)).unwrap();
        assert_eq!(ours(&a, BOUND).unwrap().bytes[20], 2);
        a.send(&frame(60, 3)).unwrap();
        assert_eq!(ours(&b, BOUND).unwrap().bytes[20], 3);
    });
}

#[test]
fn removed_interface_stays_gone() {
    with_pair(|| {
        let a = PacketSocket::open("va").unwrap();
        ip("link del va");
        for _ in 0..2 {
            let error = end(&a);
            assert!(matches!(error, EtherError::InterfaceGone { .. }), "{error:?}");
            assert!(matches!(a.send(&frame(60, 1)), Err(EtherError::InterfaceGone { .. })));
        }
    });
}

#[test]
fn waiting_receiver_notices_removal() {
    with_pair(|| {
        let a = PacketSocket::open("va").unwrap();
        let start = Instant::now();
        let receiver = thread::spawn(move || {
            loop {
                match a.receive(BOUND) {
                    Ok(Some(_)) => {}
                    other => return other,
                }
            }
        });
        ip("link del va");
        let end = receiver.join().unwrap();
        assert!(
            matches!(
                end,
                Err(EtherError::InterfaceGone { .. } | EtherError::InterfaceDown { .. })
            ),
            "{end:?}"
        );
        assert!(start.elapsed() < BOUND);
    });
}

#[test]
fn unread_frames_are_counted_as_dropped() {
    with_pair(|| {
        let (a, b) = (PacketSocket::open("va").unwrap(), PacketSocket::open("vb").unwrap());
        let mut sent = 0;
        let start = Instant::now();
        while b.dropped() == 0 {
            assert!(start.elapsed() < 4 * BOUND, "{sent} frames, and none was dropped");
            for _ in 0..1000 {
                a.send(&frame(1514, 1)).unwrap();
                sent += 1;
            }
        }
        let mut received = 0;
        while ours(&b, Duration::ZERO).is_some() {
            received += 1;
        }
        let dropped = b.dropped();
        assert!(
            received < sent && received + dropped >= sent,
            "{sent} sent, {received} received, {dropped} dropped"
        );
        assert_eq!(b.dropped(), dropped, "asking again does not forget");
    });
}

#[test]
fn absent_interface_error_lists_existing() {
    with_pair(|| {
        for name in ["eth77", "", "a name that is much too long", "nul\0"] {
            let error = PacketSocket::open(name).unwrap_err();
            assert!(matches!(error, EtherError::NoInterface { .. }), "{error:?}");
            assert!(
                error.to_string().contains("vb, va") || error.to_string().contains("va, vb"),
                "{error}"
            );
        }
        // The loopback interface of a new namespace.
        assert!(matches!(
            PacketSocket::open("lo"),
            Err(EtherError::InterfaceDown { .. })
        ));
    });
}

#[test]
fn refuses_interface_without_ethernet() {
    with_pair(|| {
        ip("tuntap add dev tun7 mode tun");
        ip("link set tun7 up");
        let error = PacketSocket::open("tun7").unwrap_err();
        assert!(
            matches!(error, EtherError::NotEthernet { kind: 0xfffe, .. }),
            "{error:?}"
        );
    });
}

#[test]
fn missing_capability_is_named() {
    with_pair(|| {
        // nix can change the user only for all threads of the process. rustix changes it only for this thread, which
        // ends with the test.
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(None, nobody, None).unwrap();
        let error = PacketSocket::open("va").unwrap_err();
        assert!(error.to_string().contains("need CAP_NET_RAW"), "{error}");
    });
}

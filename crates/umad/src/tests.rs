//! Tests with fakes of the library's functions: no hardware, no simulator.

mod fake;

use std::{
    ffi::OsStr,
    sync::Arc,
    time::{Duration, Instant},
};

use fake::{Poll, World, library, one_at_a_time, register_general_only, register_none, slow, symbols, world};

use nix::errno::Errno;

use super::{
    Destination, GlobalRoute, Library, MAD_LENGTH, OpenError, Port, SendError, Unavailable, awaits_answer, ffi::Symbols,
};

const BOUND: Duration = Duration::from_secs(5);

fn opened() -> Port {
    let _one = one_at_a_time();
    world(|world| *world = World::default());
    Port::open(&library(), "sound", 1, BOUND).unwrap()
}

fn refusal(device: &str, port: u8) -> OpenError {
    let _one = one_at_a_time();
    Port::open(&library(), device, port, BOUND).unwrap_err()
}

fn get(class: u8) -> [u8; MAD_LENGTH] {
    let mut mad = [0; MAD_LENGTH];
    mad[..4].copy_from_slice(&[1, class, 1, 1]);
    mad[255] = 0xa5;
    mad
}

#[test]
fn absent_library_error_names_package() {
    let error = Library::load(OsStr::new("/nonexistent/libibumad.so.3")).unwrap_err();
    assert!(matches!(error, Unavailable::Library { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("umad unavailable: the library /nonexistent/libibumad.so.3 could not be loaded ("),
        "{text}"
    );
    assert!(text.contains("cannot open shared object file"), "{text}");
    assert!(text.contains("apt-get install libibumad3"), "{text}");
}

#[test]
fn wrong_library_error_names_function() {
    let error = Library::load(OsStr::new("libc.so.6")).unwrap_err();
    assert!(
        matches!(
            error,
            Unavailable::Symbol {
                symbol: "umad_init",
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("has no function umad_init"), "{error}");
}

#[test]
fn devices_list_ports_and_firmware() {
    let _one = one_at_a_time();
    let devices = library().devices(BOUND).unwrap();
    assert_eq!(devices.len(), 6);
    assert_eq!(
        (devices[0].name.as_str(), devices[0].firmware.as_str()),
        ("sound", "1.2.3")
    );
    assert_eq!(devices[0].node_guid, 0x0102);
    assert_eq!(
        (
            devices[0].ports[0].number,
            devices[0].ports[0].lid,
            devices[0].ports[0].state
        ),
        (1, 7, 4)
    );
}

#[test]
fn absent_device_error_lists_existing() {
    for device in ["mlx5_0", "", "nul\0inside"] {
        let error = refusal(device, 1);
        assert!(matches!(error, OpenError::NoDevice { .. }), "{error:?}");
        assert!(error.to_string().contains("these exist: sound, refused,"), "{error}");
    }
}

#[test]
fn absent_port_error_lists_existing() {
    let error = refusal("sound", 2);
    assert!(
        matches!(&error, OpenError::NoPort { existing, .. } if existing == &[1]),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "umad device \"sound\" has no port 2; its ports are 1: name one of them"
    );
}

#[test]
fn port_without_umad_names_kernel_module() {
    let error = refusal("no_module", 1);
    assert!(matches!(error, OpenError::NoKernelModule { .. }), "{error:?}");
    assert!(error.to_string().contains("modprobe ib_umad"), "{error}");
}

#[test]
fn refused_device_file_names_remedy() {
    let error = refusal("refused", 1);
    assert!(matches!(error, OpenError::NotPermitted { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("/dev/infiniband/umad3") && text.contains("udev rule"),
        "{text}"
    );
}

#[test]
fn port_without_any_class_does_not_open() {
    let _one = one_at_a_time();
    let library = Library {
        symbols: Arc::new(Symbols {
            umad_register: register_none,
            ..symbols()
        }),
    };
    let error = Port::open(&library, "no_classes", 1, BOUND).unwrap_err();
    assert!(matches!(error, OpenError::ClassesRefused { .. }), "{error:?}");
    assert!(error.to_string().contains("Invalid argument"), "{error}");
}

#[test]
fn roce_port_refuses_subnet_management() {
    let _one = one_at_a_time();
    let library = Library {
        symbols: Arc::new(Symbols {
            umad_register: register_general_only,
            ..symbols()
        }),
    };
    let mut port = Port::open(&library, "roce", 1, BOUND).unwrap();
    assert!(!port.receives_traps());
    assert!(port.refusal(0x81).is_some() && port.refusal(0x04).is_none());
    let error = port.send(&get(0x81), &Destination::DirectedRoute, BOUND).unwrap_err();
    assert!(
        matches!(error, SendError::ClassRefused { class: 0x81, .. }),
        "{error:?}"
    );
    let to = Destination::Gsi {
        dlid: 5,
        sl: 2,
        qpn: 1,
        qkey: 0x8001_0000,
        pkey_index: 3,
    };
    port.send(&get(0x04), &to, BOUND).unwrap();
    let header = world(|world| world.sent.pop().unwrap().2);
    assert_eq!((header.address.lid, header.address.qpn), (5_u16.to_be(), 1_u32.to_be()));
    assert_eq!(
        (header.address.qkey, header.address.pkey_index),
        (0x8001_0000_u32.to_be(), 3)
    );
    assert_eq!(header.address.sl, 2);
}

#[test]
fn global_route_is_written_with_gid_index() {
    let mut port = opened();
    let dgid = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let to = Destination::GsiGlobal {
        dlid: 5,
        sl: 2,
        qpn: 1,
        qkey: 0x8001_0000,
        pkey_index: 3,
        route: GlobalRoute {
            dgid,
            sgid_index: 4,
            hop_limit: 64,
            traffic_class: 7,
            flow_label: 0xfff1_2345, // Only 20 bits are valid.
        },
    };
    port.send(&get(0x04), &to, BOUND).unwrap();
    let address = world(|world| world.sent.pop().unwrap().2).address;
    assert_eq!((address.grh_present, address.gid_index), (1, 4));
    assert_eq!((address.hop_limit, address.traffic_class), (64, 7));
    assert_eq!((address.gid, address.flow_label), (dgid, 0x0001_2345_u32.to_be()));
    assert_eq!(
        (address.lid, address.qpn, address.sl),
        (5_u16.to_be(), 1_u32.to_be(), 2)
    );
    // A later send without a route does not contain the earlier route.
    port.send(&get(0x81), &Destination::DirectedRoute, BOUND).unwrap();
    let address = world(|world| world.sent.pop().unwrap().2).address;
    assert_eq!((address.grh_present, address.gid), (0, [0; 16]));
}

#[test]
fn received_gid_needs_a_global_route() {
    let mut port = opened();
    for gid in [None, Some([7; 16])] {
        world(|world| {
            world.polls = [Poll::Data].into();
            world.arrivals = [(0, 0, get(0x04))].into();
            world.gid = gid;
        });
        assert_eq!(port.recv(BOUND).unwrap().unwrap().gid, gid);
    }
}

#[test]
fn stuck_open_times_out_and_blocks_others() {
    let _one = one_at_a_time();
    let library = library();
    let stuck = slow();
    let first = Port::open(&library, "slow", 1, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(first, OpenError::TimedOut { .. }), "{first:?}");
    assert!(first.to_string().contains("did not end within 50ms"), "{first}");
    let second = Port::open(&library, "sound", 1, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(second, OpenError::StillOpening { .. }), "{second:?}");
    drop(stuck);
    // The next open waits until the stuck call returns, and succeeds.
    Port::open(&library, "sound", 1, BOUND).unwrap();
}

#[test]
fn class_picks_agent_and_destination_address() {
    let mut port = opened();
    assert!(port.receives_traps());
    port.send(&get(0x81), &Destination::DirectedRoute, Duration::from_micros(1))
        .unwrap();
    port.send(
        &get(0x01),
        &Destination::Lid { dlid: 9, sl: 1 },
        Duration::from_micros(1500),
    )
    .unwrap();
    let sent = world(|world| std::mem::take(&mut world.sent));
    let (agent, timeout, header, mad) = sent[0];
    assert_eq!((agent, timeout, header.address.lid, mad), (0x81, 1, 0xffff, get(0x81)));
    let (agent, timeout, header, _) = sent[1];
    assert_eq!(
        (agent, timeout, header.address.lid, header.address.sl),
        (0x01, 2, 9_u16.to_be(), 1)
    );
}

#[test]
fn response_is_sent_without_timeout() {
    let mut port = opened();
    let mut mad = get(0x01);
    mad[3] = 0x81;
    port.send(&mad, &Destination::Lid { dlid: 9, sl: 0 }, BOUND).unwrap();
    mad[3] = 0x07;
    port.send(&mad, &Destination::Lid { dlid: 9, sl: 0 }, BOUND).unwrap();
    assert_eq!(
        world(|world| world.sent.iter().map(|sent| sent.1).collect::<Vec<_>>()),
        [0, 0]
    );
}

#[test]
fn other_classes_register_at_first_send() {
    let mut port = opened();
    let to = Destination::Gsi {
        dlid: 1,
        sl: 0,
        qpn: 1,
        qkey: 0,
        pkey_index: 0,
    };
    port.send(&get(0x03), &to, Duration::ZERO).unwrap();
    let (agent, timeout, ..) = world(|world| world.sent.pop().unwrap());
    assert_eq!((agent, timeout), (3, 1));
    for class in [0x0a, 0x30] {
        let error = port.send(&get(class), &to, BOUND).unwrap_err();
        assert!(
            matches!(error, SendError::ClassRefused { class: refused, .. } if refused == class),
            "{error:?}"
        );
    }
}

#[test]
fn received_mad_is_delivered_whole() {
    let mut port = opened();
    world(|world| {
        world.polls = [Poll::Data].into();
        world.arrivals = [(0, 0x1234, get(0x81))].into();
    });
    let received = port.recv(BOUND).unwrap().unwrap();
    assert_eq!(
        (received.length, received.status, received.slid, received.mad),
        (256, 0, 0x1234, get(0x81))
    );
}

#[test]
fn returned_send_has_status_and_header_only() {
    let mut port = opened();
    port.send(&get(0x81), &Destination::DirectedRoute, BOUND).unwrap();
    world(|world| {
        world.polls = [Poll::Data].into();
        world.arrivals = [(110, 0, get(0x81))].into();
    });
    let received = port.recv(BOUND).unwrap().unwrap();
    assert_eq!(
        (received.length, received.status, received.mad[1], received.mad[255]),
        (24, 110, 0x81, 0)
    );
}

#[test]
fn spurious_wakeups_do_not_end_recv() {
    let mut port = opened();
    world(|world| {
        world.polls = [
            Poll::Errno(Errno::EAGAIN as i32),
            Poll::Errno(Errno::EINTR as i32),
            Poll::Data,
            Poll::Data,
        ]
        .into();
    });
    assert_eq!(port.recv(Duration::from_millis(20)).unwrap(), None);
    world(|world| {
        world.polls = [Poll::Errno(Errno::EINTR as i32), Poll::Data].into();
        world.arrivals = [(0, 0, get(0x81))].into();
    });
    assert!(port.recv(BOUND).unwrap().is_some());
}

#[test]
fn recv_ends_at_its_timeout() {
    let mut port = opened();
    let start = Instant::now();
    assert_eq!(port.recv(Duration::ZERO).unwrap(), None);
    assert_eq!(port.recv(Duration::from_micros(100)).unwrap(), None);
    assert_eq!(port.recv(Duration::from_millis(20)).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn lost_port_stays_lost() {
    let mut port = opened();
    world(|world| world.send_errno = Some(Errno::ECONNREFUSED as i32));
    let error = port.send(&get(0x81), &Destination::DirectedRoute, BOUND).unwrap_err();
    let SendError::PortGone(gone) = error else {
        panic!("{error:?}")
    };
    assert_eq!((gone.during, gone.errno), ("sending", Errno::ECONNREFUSED as i32));
    assert!(
        gone.to_string()
            .contains("umad port sound/1 went away while sending (Connection refused"),
        "{gone}"
    );
    world(|world| world.send_errno = None);
    assert_eq!(port.recv(BOUND).unwrap_err(), gone);
    assert!(matches!(
        port.send(&get(0x81), &Destination::DirectedRoute, BOUND),
        Err(SendError::PortGone(_))
    ));
}

#[test]
fn port_lost_while_receiving_is_an_error() {
    let mut port = opened();
    world(|world| {
        world.polls = [Poll::Data].into();
        world.recv_errno = Some(Errno::EIO as i32);
    });
    assert_eq!(port.recv(BOUND).unwrap_err().errno, Errno::EIO as i32);
    let mut port = opened();
    world(|world| world.polls = [Poll::Errno(Errno::EBADF as i32)].into());
    assert_eq!(port.recv(BOUND).unwrap_err().errno, Errno::EBADF as i32);
}

#[test]
fn overlong_mad_is_named_as_cause() {
    for (errno, is_long) in [(Errno::ENOSPC, true), (Errno::EINVAL, true), (Errno::EIO, false)] {
        let mut port = opened();
        world(|world| {
            world.polls = [Poll::Data].into();
            world.recv_errno = Some(errno as i32);
        });
        let said = port.recv(BOUND).unwrap_err().to_string();
        assert_eq!(said.contains("more than 256 bytes"), is_long, "{said}");
    }
}

#[test]
fn only_requests_await_an_answer() {
    let with_method = |method| {
        let mut mad = get(0x81);
        mad[3] = method;
        awaits_answer(&mad)
    };
    assert!([0x01, 0x02, 0x05].into_iter().all(with_method));
    assert!(![0x81, 0x07, 0x86].into_iter().any(with_method));
}

#[test]
fn refused_mad_leaves_port_usable() {
    let mut port = opened();
    world(|world| world.send_errno = Some(Errno::EINVAL as i32));
    let error = port.send(&get(0x81), &Destination::DirectedRoute, BOUND).unwrap_err();
    assert!(matches!(error, SendError::Refused { .. }), "{error:?}");
    world(|world| world.send_errno = None);
    port.send(&get(0x81), &Destination::DirectedRoute, BOUND).unwrap();
}

#[test]
fn port_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Port>();
    assert_send::<Library>();
}

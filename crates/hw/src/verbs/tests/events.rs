//! Events of the device.

use verbatim_wire::{
    Qpn,
    verbs::{EventKind, Service},
};

use crate::verbs::{c::ibv_async_event, ffi::Zeroed};

use super::{
    bench,
    fake::{make_readable, opened, world},
};

fn event(kind: EventKind, fill: impl FnOnce(&mut ibv_async_event)) {
    let mut event = ibv_async_event::zeroed();
    // SAFETY: the field has the size of a u32.
    unsafe { (&raw mut event.event_type).cast::<u32>().write(kind.0) };
    fill(&mut event);
    world(|world| {
        world.async_events.push_back(event);
        make_readable(&mut world.async_end);
    });
}

#[test]
fn event_names_its_queue_pair() {
    let bench = bench(Service::Rc);
    event(EventKind::PORT_ACTIVE, |event| event.element.port_num = 1);
    event(EventKind::QP_ACCESS_ERR, |event| {
        event.element.qp = world(|world| world.qps[0])
    });
    event(EventKind(99), |_| ());
    let seen: Vec<_> = std::iter::from_fn(|| bench.context.next_event().unwrap()).collect();
    assert_eq!(
        seen.iter().map(|event| (event.kind, event.qpn)).collect::<Vec<_>>(),
        [
            (EventKind::PORT_ACTIVE, None),
            (EventKind::QP_ACCESS_ERR, Some(Qpn(bench.qp.qpn()))),
            (EventKind(99), None)
        ]
    );
    assert_eq!(world(|world| world.acknowledged), 3);
}

#[test]
fn removed_device_is_an_error() {
    let context = opened();
    assert_eq!(context.next_event().unwrap(), None);
    // Makes the descriptor readable without an event: the fake returns EIO, as the kernel does for a removed device.
    world(|world| make_readable(&mut world.async_end));
    let error = context.next_event().unwrap_err();
    assert!(error.to_string().contains("the device went away"), "{error}");
}

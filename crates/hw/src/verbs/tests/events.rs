//! Waiting for events of the device and of completion queues.

use std::time::{Duration, Instant};

use crate::verbs::{
    EventKind, EventSubject, QpType,
    ffi::Zeroed,
    generated::{ibv_async_event, ibv_event_type},
};

use super::{
    bench,
    fake::{make_readable, opened, world},
};

const BOUND: Duration = Duration::from_secs(5);

fn event(kind: EventKind, fill: impl FnOnce(&mut ibv_async_event)) {
    let mut event = ibv_async_event::zeroed();
    event.event_type = ibv_event_type(kind.0);
    fill(&mut event);
    world(|world| {
        world.async_events.push_back(event);
        make_readable(&mut world.async_end);
    });
}

#[test]
fn an_event_tells_what_it_is_about_and_is_acknowledged() {
    let bench = bench(QpType::RC);
    event(EventKind::PORT_ACTIVE, |event| event.element.port_num = 1);
    event(EventKind::QP_ACCESS_ERR, |event| {
        event.element.qp = world(|world| world.qps[0])
    });
    event(EventKind::CQ_ERR, |event| {
        event.element.cq = world(|world| world.cqs[0])
    });
    event(EventKind(99), |_| ());
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(bench.context.next_event(BOUND).unwrap().unwrap());
    }
    assert_eq!(
        seen.iter().map(|event| event.subject).collect::<Vec<_>>(),
        [
            EventSubject::Port(1),
            EventSubject::QueuePair(bench.qp.qpn()),
            EventSubject::CompletionQueue(bench.cq.id()),
            EventSubject::Device
        ]
    );
    assert_eq!(seen[1].kind.to_string(), "IBV_EVENT_QP_ACCESS_ERR");
    assert_eq!(world(|world| world.acknowledged), 4);
}

#[test]
fn without_an_event_the_wait_ends_at_its_timeout() {
    let context = opened();
    let start = Instant::now();
    assert_eq!(context.next_event(Duration::ZERO).unwrap(), None);
    assert_eq!(context.next_event(Duration::from_millis(20)).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_device_that_went_away_is_an_error_and_not_a_timeout() {
    let context = opened();
    // Readable without an event: the stand-in answers EIO, as the kernel does for a device that was removed.
    world(|world| make_readable(&mut world.async_end));
    let error = context.next_event(BOUND).unwrap_err();
    assert!(error.to_string().contains("the device went away"), "{error}");
}

#[test]
fn an_event_that_another_thread_took_is_not_an_error() {
    let context = opened();
    world(|world| world.async_vanishes = 1);
    world(|world| make_readable(&mut world.async_end));
    assert_eq!(context.next_event(Duration::from_millis(20)).unwrap(), None);
}

#[test]
fn a_channel_tells_which_queue_has_a_completion() {
    let bench = bench(QpType::RC);
    let other = bench.context.create_completion_queue(4, Some(&bench.channel)).unwrap();
    assert_ne!(other.id(), bench.cq.id());
    assert_eq!(bench.channel.wait(Duration::from_millis(1)).unwrap(), None);
    other.request_notify(false).unwrap();
    bench.cq.request_notify(true).unwrap();
    assert_eq!(world(|world| world.notifications.clone()), [0, 1]);
    world(|world| {
        world.cq_events.push_back(1);
        make_readable(&mut world.channel_end);
    });
    assert_eq!(bench.channel.wait(BOUND).unwrap(), Some(other.id()));
    assert_eq!(world(|world| world.acknowledged), 1);
}

#[test]
fn a_refused_request_for_an_announcement_is_an_error() {
    let bench = bench(QpType::RC);
    world(|world| world.fails.push(("notify", libc::EINVAL)));
    assert_eq!(bench.cq.request_notify(false).unwrap_err().errno(), Some(libc::EINVAL));
}

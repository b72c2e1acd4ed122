//! On fakes; with a real agent: `crates/run/tests/run/peer`.

mod fakes;

use super::*;
use fakes::{FakeHost, FakeLink, now, stamp};
use host::{DEVICE_FATAL, Signs};
use std::sync::atomic::Ordering;
use std::thread;
use verbatim_record::TimeSource;
use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_verbs::{Limits, LocalVerbs};
use verbatim_verbs_fake::Strings;
use verbatim_wire::Mad;

const MS: Duration = Duration::from_millis(1);
/// Nothing waits so long when all is well.
const LONG: Duration = Duration::from_secs(20);

/// Of a device that is as fast as its tester.
const PACE: Pace = Pace {
    scale: 1,
    agent_within: None,
};

struct Fixture {
    link: FakeLink,
    host: FakeHost,
    rig: PeerRig,
}

fn fixture() -> Fixture {
    let (link, host) = (FakeLink::default(), FakeHost::new());
    let hosts: Vec<(Side, Box<dyn VerbsLink>)> = vec![(Side::Dut, Box::new(host.clone()))];
    let rig = PeerRig::new(Some(Box::new(link.clone())), hosts, PACE, Arc::default());
    Fixture { link, host, rig }
}

impl Fixture {
    fn ask(&mut self, number: u32) -> Step<Span> {
        let ask = Command::QueryQp(pb::QueryQp { qp: 1 });
        self.rig.send(Stimulus::Verbs(Side::Dut, number, &ask))
    }

    fn wait(&mut self) -> Arrival {
        let until = self.rig.now().after(LONG);
        self.rig.wait(until)
    }
}

fn completion(wr_id: u64) -> Event {
    Event::Completion(pb::Completion {
        wr_id,
        ..pb::Completion::default()
    })
}

fn refused(errno: i32, text: &str) -> Reply {
    Reply::Refused(pb::Refused {
        errno,
        text: text.into(),
    })
}

/// What an arrival is, in a word.
fn word(arrival: &Arrival) -> String {
    match arrival {
        Arrival::Frame(0, _, frame) => format!("frame {}", frame[0]),
        Arrival::Told(Side::Dut, _, _, Event::Completion(completion)) => format!("completion {}", completion.wr_id),
        Arrival::Told(_, _, _, Event::AsyncEvent(event)) => event.name.clone(),
        Arrival::Verbs(Side::Dut, number, ..) => format!("answer {number}"),
        Arrival::Deadline => "deadline".into(),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_lies_there_is_handed_over_in_the_order_of_the_latest_instants_and_each_source_in_its_own() {
    let mut of = fixture();
    of.ask(7).unwrap();
    let past = now();
    // Stamped in this order by a clock that was set back: the order of arrival stays.
    of.link.arrive(1, (past, now()));
    of.link.arrive(2, (past, past));
    of.host.tell(completion(5));
    of.host.answer(1, Reply::Done(pb::Done {}));
    let future = now() + Duration::from_secs(1000);
    of.link.arrive(3, (past, future));
    let order: Vec<String> = (0..5).map(|_| word(&of.wait())).collect();
    assert_eq!(order, ["frame 1", "frame 2", "completion 5", "answer 7", "frame 3"]);
}

#[test]
fn a_frame_has_the_span_of_its_stamp_and_what_a_host_says_one_since_it_was_seen_silent() {
    let mut of = fixture();
    let origin = of.rig.clock;
    let (earliest, latest) = (now(), now() + 3 * MS);
    of.link.arrive(1, (earliest, latest));
    let Arrival::Frame(0, at, frame) = of.wait() else {
        panic!("no frame");
    };
    assert_eq!((at, frame), (origin.span(stamp(earliest, latest)), vec![1]));
    let silent = of.rig.hosts[0].empty_at;
    let before = of.rig.now();
    of.host.tell(completion(1));
    let Arrival::Told(Side::Dut, at, host_at, _) = of.wait() else {
        panic!("not told");
    };
    assert!(at.earliest >= silent && at.earliest <= before, "{at:?}");
    assert!(at.latest >= before && at.latest <= of.rig.now(), "{at:?}");
    assert_eq!(at.source, Some(TimeSource::OwnClock));
    assert_eq!(
        host_at,
        Span::between(Time(1_000), Time(2_000)).with_source(TimeSource::OwnClock),
        "on the host's own clock"
    );
}

#[test]
fn an_arrival_in_the_middle_of_a_wait_ends_it() {
    let mut of = fixture();
    let (link, host) = (of.link.clone(), of.host.clone());
    let other = thread::spawn(move || {
        thread::sleep(30 * MS);
        link.arrive(1, (now(), now()));
        link.until_taken();
        host.tell(completion(2));
    });
    assert_eq!(word(&of.wait()), "frame 1");
    assert_eq!(word(&of.wait()), "completion 2");
    other.join().unwrap();
}

#[test]
fn a_deadline_comes_when_all_sources_were_seen_empty_after_it() {
    let mut of = fixture();
    let until = of.rig.now().after(30 * MS);
    assert_eq!(of.rig.wait(until), Arrival::Deadline);
    assert!(of.rig.complete_until() >= until);
    of.link.arrive(1, (now(), now()));
    assert_eq!(word(&of.rig.wait(Time(0))), "frame 1", "what lies there comes first");
    assert_eq!(of.rig.wait(Time(0)), Arrival::Deadline);
    of.link.arrive(2, (now(), now()));
    assert_eq!(word(&of.rig.wait(Time(0))), "frame 2", "a new wait looks anew");
}

#[test]
fn a_flood_of_frames_keeps_no_deadline() {
    let mut of = fixture();
    of.link.flood();
    let until = of.rig.now().after(30 * MS);
    let mut frames = 0;
    loop {
        match of.rig.wait(until) {
            Arrival::Frame(..) => frames += 1,
            Arrival::Deadline => break,
            other => panic!("{other:?}"),
        }
        assert!(of.rig.now() < until.after(LONG), "{frames} frames");
    }
    assert!(frames > 0 && of.rig.now() >= until);
}

#[test]
fn a_frame_for_others_is_passed_over() {
    let mut of = fixture();
    of.link.pass(stamp(now(), now()));
    of.link.arrive(2, (now(), now()));
    assert_eq!(word(&of.wait()), "frame 2");
}

#[test]
fn a_cancel_is_seen_in_the_middle_of_a_wait_and_told_once() {
    let mut of = fixture();
    let cancel = Arc::clone(&of.rig.end.cancel);
    let canceller = thread::spawn(move || {
        thread::sleep(30 * MS);
        cancel.store(true, Ordering::Release);
    });
    assert_eq!(of.wait(), Arrival::Stop(Stop::Cancelled));
    canceller.join().unwrap();
    assert_eq!(of.rig.wait(Time(0)), Arrival::Deadline);
    of.rig.end.cancel.store(false, Ordering::Release);
    assert_eq!(of.rig.wait(Time(0)), Arrival::Deadline);
    of.rig.end.cancel.store(true, Ordering::Release);
    of.link.arrive(1, (now(), now()));
    assert_eq!(of.wait(), Arrival::Stop(Stop::Cancelled), "before anything else");
}

#[test]
fn what_a_host_said_before_its_end_is_handed_over_then_the_rig_is_gone_for_good() {
    let mut of = fixture();
    of.host.tell(completion(1));
    of.host.go("agent at x: killed");
    assert_eq!(word(&of.wait()), "completion 1");
    let gone = Stop::RigGone("agent at x: killed".into());
    for _ in 0..2 {
        assert_eq!(of.wait(), Arrival::Stop(gone.clone()));
    }
    assert_eq!(of.ask(1), Err(gone.clone()));
    assert_eq!(of.rig.send(Stimulus::Frame(0, &[0; 60])), Err(gone));
    assert!(of.link.sent().is_empty());
}

#[test]
fn a_command_to_a_host_that_is_gone_loses_the_rig() {
    let mut of = fixture();
    of.host.go("gone");
    assert_eq!(of.ask(1), Err(Stop::RigGone("gone".into())));
}

#[test]
fn a_machine_that_dies_silently_is_found_by_a_probe() {
    let mut of = fixture();
    of.link.die_at_probe("the machine is gone");
    assert_eq!(of.wait(), Arrival::Stop(Stop::RigGone("the machine is gone".into())));
    assert!(of.rig.now() >= Time(0).after(PROBE_AFTER));
}

#[test]
fn a_link_that_dies_in_a_wait_or_at_a_send_loses_the_rig() {
    let mut of = fixture();
    of.link.die("down");
    assert_eq!(of.wait(), Arrival::Stop(Stop::RigGone("down".into())));
    let mut of = fixture();
    of.link.refuse(NotSent::Gone("gone".into()));
    let gone = Stop::RigGone("gone".into());
    assert_eq!(of.rig.send(Stimulus::Frame(0, &[0; 60])), Err(gone.clone()));
    assert_eq!(of.wait(), Arrival::Stop(gone));
}

#[test]
fn a_frame_that_cannot_be_sent_stops_the_test_and_leaves_the_link() {
    let mut of = fixture();
    of.link.refuse(NotSent::Refused("too long".into()));
    assert_eq!(
        of.rig.send(Stimulus::Frame(0, &[0; 60])),
        Err(Stop::Tester("too long".into()))
    );
    of.link.refuse(NotSent::NoRoom("no room".into()));
    assert_eq!(
        of.rig.send(Stimulus::Frame(0, &[0; 60])),
        Err(Stop::Stalled("no room".into()))
    );
    let at = of.rig.send(Stimulus::Frame(0, &[7; 60])).unwrap();
    assert!(at.earliest <= at.latest && at.latest <= of.rig.now());
    assert_eq!(of.link.sent(), [vec![7; 60]]);
}

#[test]
fn lost_frames_stop_the_test_each_time_some_are_lost() {
    let mut of = fixture();
    of.link.lose(3);
    let Arrival::Stop(Stop::Stalled(text)) = of.wait() else {
        panic!("not stopped");
    };
    assert!(
        text.starts_with("3 frames") && text.contains("judges nothing"),
        "{text}"
    );
    assert_eq!(of.rig.wait(Time(0)), Arrival::Deadline, "told once");
    of.link.lose(1);
    assert!(matches!(of.wait(), Arrival::Stop(Stop::Stalled(text)) if text.starts_with("1 frames")));
}

#[test]
fn what_a_rig_does_not_have_is_the_testers_mistake() {
    let mut of = fixture();
    let tester = |sent: Step<Span>, words: &str| match sent {
        Err(Stop::Tester(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    };
    tester(of.rig.send(Stimulus::Mad(0, &Mad::default())), "sends no MADs");
    tester(of.rig.send(Stimulus::Frame(1, &[0; 60])), "port 0 alone");
    let open = Command::Open(pb::Open {});
    tester(
        of.rig.send(Stimulus::Verbs(Side::Tester, 1, &open)),
        "to the tester's host",
    );
    let hosts: Vec<(Side, Box<dyn VerbsLink>)> = vec![(Side::Dut, Box::new(of.host.clone()))];
    let mut verbs = PeerRig::new(None, hosts, PACE, Arc::default());
    tester(verbs.send(Stimulus::Frame(0, &[0; 60])), "none for frames");
}

#[test]
fn a_rig_without_frames_waits_for_its_hosts_alone() {
    let (dut, tester) = (FakeHost::new(), FakeHost::new());
    let hosts: Vec<(Side, Box<dyn VerbsLink>)> = vec![
        (Side::Dut, Box::new(dut.clone())),
        (Side::Tester, Box::new(tester.clone())),
    ];
    let mut rig = PeerRig::new(None, hosts, PACE, Arc::default());
    let until = rig.now().after(20 * MS);
    assert_eq!(rig.wait(until), Arrival::Deadline);
    let other = tester.clone();
    let teller = thread::spawn(move || other.tell(completion(3)));
    let until = rig.now().after(LONG);
    assert!(matches!(rig.wait(until), Arrival::Told(Side::Tester, ..)));
    teller.join().unwrap();
    tester.go("driver hangs");
    assert_eq!(rig.wait(until), Arrival::Stop(Stop::RigGone("driver hangs".into())));
}

#[test]
fn a_refusal_of_a_device_that_is_gone_is_no_answer_of_a_device() {
    for of_the_gone in [
        refused(5, "modify: Input/output error"),
        refused(0, "the device is gone: removed"),
    ] {
        let mut of = fixture();
        of.ask(1).unwrap();
        of.host.answer(1, of_the_gone);
        let host = of.host.clone();
        let later = thread::spawn(move || {
            thread::sleep(50 * MS);
            host.go("agent at x: the device rxe0 is gone");
        });
        let Arrival::Stop(Stop::RigGone(why)) = of.wait() else {
            panic!("taken for an answer");
        };
        assert!(
            why.starts_with("agent at x: the device rxe0 is gone (before that: "),
            "{why}"
        );
        later.join().unwrap();
    }
}

#[test]
fn a_refusal_is_an_answer_where_the_host_goes_on() {
    let mut of = fixture();
    of.ask(1).unwrap();
    of.ask(2).unwrap();
    of.host.answer(1, refused(5, "odd"));
    of.host.answer(2, refused(22, "EINVAL"));
    assert_eq!(word(&of.wait()), "answer 1");
    assert_eq!(word(&of.wait()), "answer 2");
    of.ask(3).unwrap();
    of.host.answer(3, refused(19, "and nothing after it"));
    assert_eq!(word(&of.wait()), "answer 3");
}

#[test]
fn a_device_that_reports_its_end_loses_the_rig() {
    let mut of = fixture();
    of.host.tell(Event::AsyncEvent(pb::AsyncEvent {
        name: DEVICE_FATAL.into(),
        qp: 0,
    }));
    assert_eq!(word(&of.wait()), DEVICE_FATAL);
    assert!(matches!(of.wait(), Arrival::Stop(Stop::RigGone(why)) if why.contains("the DUT's device is gone")));
}

#[test]
fn an_answer_that_comes_too_late_is_not_taken_for_that_of_another_test() {
    let mut of = fixture();
    of.ask(1).unwrap();
    // The next test counts from 1 again.
    of.ask(1).unwrap();
    of.host.answer(1, Reply::Done(pb::Done {}));
    of.host.answer(2, refused(22, "of the second"));
    let Arrival::Verbs(Side::Dut, 1, _, _, Reply::Refused(reply)) = of.wait() else {
        panic!("the first answer");
    };
    assert_eq!(reply.text, "of the second");
}

#[test]
fn an_answer_to_nothing_and_one_without_a_kind_lose_the_rig() {
    let mut of = fixture();
    of.host.answer(1, Reply::Done(pb::Done {}));
    assert!(matches!(of.wait(), Arrival::Stop(Stop::RigGone(why)) if why.contains("command 1 of 0")));
    let mut of = fixture();
    of.ask(1).unwrap();
    of.host.answer_nothing(1);
    assert!(matches!(of.wait(), Arrival::Stop(Stop::RigGone(why)) if why.contains("of the same version")));
}

#[test]
fn no_deadline_is_met_while_a_host_that_was_silent_for_long_owes_a_sign_of_life() {
    let mut of = fixture();
    of.rig.hosts[0].signs = Signs {
        after: 20 * MS,
        within: 100 * MS,
    };
    let until = of.rig.now().after(60 * MS);
    assert_eq!(of.rig.wait(until), Arrival::Deadline, "it gives signs when asked");
    assert!(of.host.asked_for_signs() >= 1);
    of.host.fall_silent();
    let until = of.rig.now().after(60 * MS);
    let Arrival::Stop(Stop::RigGone(why)) = of.rig.wait(until) else {
        panic!("silence was taken for silence of the device");
    };
    assert!(why.contains("no sign of life"), "{why}");
}

#[test]
fn the_host_bound_is_at_least_ten_milliseconds() {
    assert!(fixture().rig.measure_host_bound() >= 10 * MS);
}

#[test]
fn a_device_of_the_testers_own_is_a_host_like_another() {
    let strings = Strings::default();
    let opens = strings.clone();
    let own = LocalVerbs::with(Limits::default(), move || Ok(opens.open())).unwrap();
    let dut = FakeHost::new();
    let hosts: Vec<(Side, Box<dyn VerbsLink>)> = vec![(Side::Dut, Box::new(dut)), (Side::Tester, Box::new(own))];
    let mut rig = PeerRig::new(None, hosts, PACE, Arc::default());
    let open = Command::Open(pb::Open {});
    rig.send(Stimulus::Verbs(Side::Tester, 1, &open)).unwrap();
    let until = rig.now().after(LONG);
    let arrival = rig.wait(until);
    let Arrival::Verbs(Side::Tester, 1, at, host_at, Reply::Opened(opened)) = arrival else {
        panic!("{arrival:?}");
    };
    assert_eq!(opened.device, "fake0");
    assert!(at.earliest <= at.latest && host_at.earliest <= host_at.latest);
    drop(rig);
    assert_eq!(strings.existing(), Vec::<String>::new());
}

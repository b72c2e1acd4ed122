//! Tests with a fake link and a fake host. Tests with a real agent are in `crates/run/tests/run/peer`.

mod fakes;

use super::*;
use fakes::{FakeHost, FakeLink, now, stamp};
use host::{DEVICE_FATAL, Signs};
use std::sync::atomic::Ordering;
use std::thread;
use verbatim_proto::agent as proto;
use verbatim_record::TimeSource;
use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_verbs::{AgentMessage, Limits, LocalVerbs};
use verbatim_verbs_fake::Strings;
use verbatim_wire::Mad;

const MS: Duration = Duration::from_millis(1);
/// Longer than any wait of a passing test.
const LONG: Duration = Duration::from_secs(20);

/// Pace of a device that is as fast as the tester.
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
fn sorts_arrivals_by_latest_time() {
    let mut of = fixture();
    of.ask(7).unwrap();
    let past = now();
    // The second stamp is earlier than the first, as if the clock had been set back. The order of arrival stays.
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
fn frame_keeps_stamp_and_report_has_span() {
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
fn arrival_ends_a_wait() {
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
fn deadline_waits_until_all_sources_are_empty() {
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
fn flood_does_not_delay_a_deadline() {
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
fn skips_frames_for_other_stations() {
    let mut of = fixture();
    of.link.pass(stamp(now(), now()));
    of.link.arrive(2, (now(), now()));
    assert_eq!(word(&of.wait()), "frame 2");
}

#[test]
fn cancel_interrupts_wait_and_is_reported_once() {
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
fn reports_before_a_hosts_end_come_first() {
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
fn command_to_a_lost_host_loses_the_rig() {
    let mut of = fixture();
    of.host.go("gone");
    assert_eq!(of.ask(1), Err(Stop::RigGone("gone".into())));
}

#[test]
fn probe_finds_a_silently_lost_machine() {
    let mut of = fixture();
    of.link.die_at_probe("the machine is gone");
    assert_eq!(of.wait(), Arrival::Stop(Stop::RigGone("the machine is gone".into())));
    assert!(of.rig.now() >= Time(0).after(PROBE_AFTER));
}

#[test]
fn link_loss_in_wait_or_send_loses_the_rig() {
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
fn refused_frame_leaves_link_usable() {
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
fn lost_frames_stop_the_test() {
    let mut of = fixture();
    of.link.lose(3);
    let Arrival::Stop(Stop::Stalled(text)) = of.wait() else {
        panic!("not stopped");
    };
    assert!(
        text.contains("on this host: 3;") && text.contains("cannot be judged"),
        "{text}"
    );
    assert_eq!(of.rig.wait(Time(0)), Arrival::Deadline, "told once");
    of.link.lose(1);
    assert!(matches!(of.wait(), Arrival::Stop(Stop::Stalled(text)) if text.contains("on this host: 1;")));
}

#[test]
fn unsupported_stimulus_is_a_tester_error() {
    let mut of = fixture();
    let tester = |sent: Step<Span>, words: &str| match sent {
        Err(Stop::Tester(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    };
    tester(of.rig.send(Stimulus::Mad(0, &Mad::default())), "sends no MADs");
    tester(of.rig.send(Stimulus::Frame(1, &[0; 60])), "only port 0");
    let open = Command::Open(pb::Open {});
    tester(
        of.rig.send(Stimulus::Verbs(Side::Tester, 1, &open)),
        "to the tester's host",
    );
    let hosts: Vec<(Side, Box<dyn VerbsLink>)> = vec![(Side::Dut, Box::new(of.host.clone()))];
    let mut verbs = PeerRig::new(None, hosts, PACE, Arc::default());
    tester(verbs.send(Stimulus::Frame(0, &[0; 60])), "no port for frames");
}

#[test]
fn rig_without_link_waits_for_hosts() {
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
fn refusal_before_removal_is_no_response() {
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
fn refusal_of_a_live_host_is_a_response() {
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
fn fatal_device_event_loses_the_rig() {
    let mut of = fixture();
    of.host.tell(Event::AsyncEvent(pb::AsyncEvent {
        name: DEVICE_FATAL.into(),
        qp: 0,
    }));
    assert_eq!(word(&of.wait()), DEVICE_FATAL);
    assert!(matches!(of.wait(), Arrival::Stop(Stop::RigGone(why)) if why.contains("the DUT's device is gone")));
}

#[test]
fn late_response_is_not_for_the_next_test() {
    let mut of = fixture();
    of.ask(1).unwrap();
    // The next test also starts at number 1.
    of.ask(1).unwrap();
    of.host.answer(1, Reply::Done(pb::Done {}));
    of.host.answer(2, refused(22, "of the second"));
    let Arrival::Verbs(Side::Dut, 1, _, _, Reply::Refused(reply)) = of.wait() else {
        panic!("the first answer");
    };
    assert_eq!(reply.text, "of the second");
}

#[test]
fn unexpected_or_unknown_response_loses_the_rig() {
    let mut of = fixture();
    of.host.answer(1, Reply::Done(pb::Done {}));
    assert!(matches!(of.wait(), Arrival::Stop(Stop::RigGone(why)) if why.contains("not outstanding")));
    let mut of = fixture();
    of.ask(1).unwrap();
    of.host.answer_nothing(1);
    assert!(matches!(of.wait(), Arrival::Stop(Stop::RigGone(why)) if why.contains("of the same version")));
}

#[test]
fn second_response_to_a_command_loses_the_rig() {
    let mut of = fixture();
    of.ask(1).unwrap();
    let done = || Reply::Done(pb::Done {});
    of.host.answer(1, done());
    assert_eq!(word(&of.wait()), "answer 1");
    of.host.answer(1, done());
    let Arrival::Stop(Stop::RigGone(why)) = of.wait() else {
        panic!("taken for an answer");
    };
    let words = "the agent of the DUT's device answered command 1, which is not outstanding: the tester sent 1";
    assert!(why.starts_with(words), "{why}");
}

#[test]
fn reversed_time_of_an_agent_loses_the_rig() {
    let at = proto::Instant {
        earliest_ns: 2_001,
        latest_ns: 2_000,
    };
    let answer = |of: &FakeHost| {
        let kind = Some(Reply::Done(pb::Done {}));
        of.say(AgentMessage::Answer(1, at, proto::Reply { kind }));
    };
    let event = |of: &FakeHost| {
        let kind = Some(completion(1));
        of.say(AgentMessage::Event(at, proto::Event { kind }));
    };
    for say in [&answer as &dyn Fn(&FakeHost), &event] {
        let mut of = fixture();
        of.ask(1).unwrap();
        say(&of.host);
        let Arrival::Stop(Stop::RigGone(why)) = of.wait() else {
            panic!("taken for a report of the device");
        };
        assert!(why.contains("earliest_ns 2001 is after its latest_ns 2000"), "{why}");
    }
}

#[test]
fn silent_host_must_respond_before_a_deadline() {
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
    assert!(why.contains("did not answer a probe"), "{why}");
}

#[test]
fn host_bound_is_at_least_10_ms() {
    assert!(fixture().rig.measure_host_bound() >= 10 * MS);
}

#[test]
fn local_device_is_a_host() {
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

//! Small devices (one queue pair, fixed timers, memory at address 0, one message at a time) and hosts that refuse
//! commands. No test may fail because of such a limit or refusal. However, a test must report a fault that occurred
//! before a refusal.

use verbatim_catalog::TESTS;
use verbatim_device::Profile;
use verbatim_device::rc::{AdapterProfile, RcDefect};
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Outcome, Side, Span, Time, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Arrival, Need, Rig, RigInfo, Step, Stimulus, Test};
use verbatim_tests::judged::{judged, test};
use verbatim_wire::MKey;

fn tests() -> impl Iterator<Item = &'static Test> {
    let of_packets =
        |test: &&Test| test.id.starts_with("c09-") && (test.needs == [Need::Packets] || test.needs == [Need::Verbs]);
    TESTS.iter().copied().filter(of_packets)
}

fn info(simulated: bool) -> RigInfo {
    RigInfo {
        offers: vec![Need::Packets, Need::Verbs],
        simulated,
        ..VirtualRig::info(MKey(0))
    }
}

fn small(change: impl Fn(&mut AdapterProfile)) -> AdapterProfile {
    let mut adapter = VirtualRig::adapter_profile(Side::Dut);
    change(&mut adapter);
    adapter
}

type Limit = (&'static str, &'static [Outcome], fn(&mut AdapterProfile));

const DECIDED: &[Outcome] = &[Outcome::Pass, Outcome::NotApplicable];
/// Outcomes under a limit that makes some tests inconclusive. With only a short or only a long ACK timeout, the device
/// cannot switch its timeout off. An unanswered request is then retransmitted, and completes with an error. With one
/// packet of one message, two requests are never outstanding together.
const OPEN: &[Outcome] = &[Outcome::Pass, Outcome::NotApplicable, Outcome::Inconclusive];

const NO_READS: Limit = ("no READs and atomics", DECIDED, |of| {
    (of.max_rd_atomic, of.max_dest_rd_atomic, of.atomics) = (0, 0, false);
});

/// Each limit, and the outcomes that it permits.
const LIMITS: [Limit; 9] = [
    ("one queue pair", &[Outcome::Pass], |of| of.max_qps = 1),
    ("one ACK timeout or none", DECIDED, |of| of.timeouts = vec![0, 14]),
    ("a short ACK timeout", OPEN, |of| of.timeouts = vec![10]),
    ("a long ACK timeout", OPEN, |of| of.timeouts = vec![17]),
    ("one RNR timer", DECIDED, |of| of.min_rnr_timers = vec![16]),
    ("memory at address 0", &[Outcome::Pass], |of| of.first_address = 0),
    ("one packet of one message", OPEN, |of| {
        (of.choices.one_message_at_a_time, of.choices.window) = (true, 1);
    }),
    ("no SQD", DECIDED, |of| of.sqd = false),
    NO_READS,
];

/// Words in the reason of a test that needs several queue pairs at a time. Such a test is not applicable to a device
/// with one queue pair.
const SEVERAL: &str = "queue pairs at a time, as its agent says, and the test needs";

fn not_as_expected(name: &str, adapter: &AdapterProfile, may: &[Outcome]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (test, simulated) in tests().flat_map(|test| [(test, true), (test, false)]) {
        let mut rig = VirtualRig::new(Profile::full(), &[]).with_adapter(adapter.clone(), &[]);
        let verdict = judged(&mut rig, &info(simulated), test, 1, &[]).verdict;
        if !may.contains(&verdict.outcome()) && !verdict.reason.contains(SEVERAL) {
            wrong.push(format!(
                "{name}, simulated {simulated}: {} {} {}",
                test.id,
                verdict.outcome(),
                verdict.reason
            ));
        }
    }
    wrong
}

#[test]
fn device_without_reads_is_tested() {
    for id in [
        "c09-060-send",
        "c09-060-write-responder",
        "c09-142-ack-timeout",
        "c09-modify-steps",
        "c09-rnr-nak",
    ] {
        let mut rig = VirtualRig::new(Profile::full(), &[]).with_adapter(small(NO_READS.2), &[]);
        let verdict = judged(&mut rig, &info(true), test(id), 1, &[]).verdict;
        assert_eq!(verdict.outcome(), Outcome::Pass, "{id}: {}", verdict.reason);
    }
    let mut rig = VirtualRig::new(Profile::full(), &[]).with_adapter(small(NO_READS.2), &[]);
    let verdict = judged(&mut rig, &info(true), test("c09-060-read"), 1, &[]).verdict;
    assert_eq!(verdict.outcome(), Outcome::NotApplicable, "{}", verdict.reason);
    assert!(verdict.reason.contains("has no READ"), "{}", verdict.reason);
}

#[test]
fn failed_walk_shows_values_in_force() {
    let adapter = small(|of| of.max_rd_atomic = 1);
    let defect = RcDefect::ALL
        .iter()
        .find(|defect| defect.name() == "bad-icrc-accepted")
        .unwrap();
    let mut told = Vec::new();
    for seed in 1..=8 {
        let mut rig = VirtualRig::new(Profile::full(), &[]).with_adapter(adapter.clone(), &[*defect]);
        let verdict = judged(&mut rig, &info(true), test("c09-walk"), seed, &[]).verdict;
        told.extend(verdict.observations.into_iter().map(|observation| observation.text));
    }
    told.retain(|text| text.contains("max_rd_atomic"));
    assert!(!told.is_empty());
    assert!(told.iter().all(|text| text.contains("max_rd_atomic 1,")), "{told:?}");
}

#[test]
fn small_devices_fail_no_test() {
    let mut wrong = Vec::new();
    for (name, may, limit) in LIMITS {
        wrong.extend(not_as_expected(name, &small(limit), may));
    }
    let all = small(|of| LIMITS.iter().for_each(|(_, _, limit)| limit(of)));
    wrong.extend(not_as_expected("all of them", &all, OPEN));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The model behind a host that refuses some commands.
struct Refusing {
    model: VirtualRig,
    refuses: fn(&Command, u32) -> bool,
    errno: i32,
    /// Commands so far; the refusal may depend on this count.
    count: u32,
    refused: Option<u32>,
}

impl Refusing {
    fn new(defects: &[RcDefect], refuses: fn(&Command, u32) -> bool, errno: i32) -> Self {
        Self {
            model: VirtualRig::new(Profile::full(), &[]).with_adapter(VirtualRig::adapter_profile(Side::Dut), defects),
            refuses,
            errno,
            count: 0,
            refused: None,
        }
    }
}

impl Rig for Refusing {
    fn now(&self) -> Time {
        self.model.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        if let Stimulus::Verbs(Side::Dut, number, command) = &what {
            self.count += 1;
            if (self.refuses)(command, self.count) {
                self.refused = Some(*number);
                return Ok(Span::exactly(self.model.now()));
            }
        }
        self.model.send(what)
    }

    fn wait(&mut self, until: Time) -> Arrival {
        if let Some(number) = self.refused.take() {
            let at = Span::exactly(self.model.now());
            let refused = pb::Refused {
                errno: self.errno,
                text: "not here".into(),
            };
            return Arrival::Verbs(Side::Dut, number, at, at, Reply::Refused(refused));
        }
        self.model.wait(until)
    }
}

fn on_refusing(test: &Test, defects: &[RcDefect], refuses: fn(&Command, u32) -> bool, errno: i32) -> Verdict {
    judged(&mut Refusing::new(defects, refuses, errno), &info(false), test, 1, &[]).verdict
}

type Refuses = (&'static str, fn(&Command, u32) -> bool);

fn posts(command: &Command, operation: pb::Operation) -> bool {
    matches!(command, Command::PostSend(post) if post.operation() == operation)
}

fn is_made(command: &Command) -> bool {
    !matches!(command, Command::Open(_) | Command::DestroyAll(_))
}

const REFUSES: [Refuses; 17] = [
    ("SEND", |command, _| posts(command, pb::Operation::Send)),
    ("SEND_IMM", |command, _| posts(command, pb::Operation::SendImm)),
    ("WRITE", |command, _| posts(command, pb::Operation::Write)),
    ("READ", |command, _| posts(command, pb::Operation::Read)),
    ("FetchAdd", |command, _| posts(command, pb::Operation::FetchAdd)),
    ("receives", |command, _| matches!(command, Command::PostReceive(_))),
    ("queue pairs", |command, _| matches!(command, Command::CreateQp(_))),
    ("later queue pairs", |command, count| {
        count > 30 && matches!(command, Command::CreateQp(_))
    }),
    ("memory", |command, _| matches!(command, Command::RegisterMemory(_))),
    ("later memory", |command, count| {
        count > 30 && matches!(command, Command::RegisterMemory(_))
    }),
    (
        "SQD",
        |command, _| matches!(command, Command::ModifyQp(of) if of.state() == pb::QpState::Sqd),
    ),
    (
        "ERR",
        |command, _| matches!(command, Command::ModifyQp(of) if of.state() == pb::QpState::Err),
    ),
    (
        "RESET",
        |command, _| matches!(command, Command::ModifyQp(of) if of.state() == pb::QpState::Reset),
    ),
    ("destroying", |command, _| matches!(command, Command::DestroyQp(_))),
    ("every 7th", |command, count| is_made(command) && count % 7 == 0),
    ("every 11th", |command, count| is_made(command) && count % 11 == 5),
    ("all but the first 20", |command, count| is_made(command) && count > 20),
];

#[test]
fn refusals_fail_no_test() {
    let mut wrong = Vec::new();
    for (kind, ((name, refuses), errno)) in REFUSES.into_iter().zip([95, 22, 12].into_iter().cycle()).enumerate() {
        // To save time, try only half of the tests with each kind of refusal: the even ones with one kind, the odd ones
        // with the next.
        for test in tests().skip(kind % 2).step_by(2) {
            let verdict = on_refusing(test, &[], refuses, errno);
            let ends =
                verdict.outcome() == Outcome::Inconclusive && verdict.findings.is_empty() && verdict.passed.is_empty();
            if matches!(verdict.outcome(), Outcome::Fail | Outcome::Error) || ends {
                wrong.push(format!("{name}: {} {} {}", test.id, verdict.outcome(), verdict.reason));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn finds_wrong_nak_before_refusal() {
    let late: fn(&Command, u32) -> bool = |command, count| count > 30 && matches!(command, Command::CreateQp(_));
    for (id, defect) in [
        ("c09-nak-invalid-request", "qp-right-wrong-nak"),
        ("c09-nak-remote-access", "fatal-nak-with-wrong-psn"),
    ] {
        let defect = RcDefect::ALL.iter().find(|of| of.name() == defect).unwrap();
        let verdict = on_refusing(test(id), &[*defect], late, 12);
        assert_eq!(verdict.outcome(), Outcome::Fail, "{id}: {}", verdict.reason);
        let naks = verdict.findings.iter().any(|check| check.to_string().contains("NAK"));
        assert!(naks, "{:#?}", verdict.findings);
    }
}

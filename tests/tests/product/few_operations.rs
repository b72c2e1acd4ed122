//! A device with SENDs and WRITEs only, whose agent declares this limit. A test must judge everything that these
//! operations allow.

use std::collections::BTreeSet;

use verbatim_catalog::{TESTS, judge};
use verbatim_device::Profile;
use verbatim_device::rc::RcDefect;
use verbatim_record::verbs::Reply;
use verbatim_record::verbs::pb::{Capabilities, Operation, QpState, Service};
use verbatim_record::{Entry, Outcome, Side, Span, Time};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Arrival, Need, Rig, RigInfo, Step, Stimulus, Test};
use verbatim_tests::judged::{Judged, judged, test};
use verbatim_wire::MKey;
use verbatim_wire::packet::{Medium, Packet};

fn few() -> Capabilities {
    let operations = [
        Operation::Send,
        Operation::SendImm,
        Operation::Write,
        Operation::WriteImm,
    ];
    let states = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Err];
    Capabilities {
        operations: operations.map(Into::into).to_vec(),
        answers: operations.map(Into::into).to_vec(),
        services: vec![Service::Rc.into()],
        qp_states: states.map(Into::into).to_vec(),
        ..Capabilities::default()
    }
}

/// The model as a device with few operations. The agent declares the operations.
struct Core {
    model: VirtualRig,
    says: Capabilities,
}

impl Core {
    fn new(defects: &[RcDefect]) -> Self {
        let mut adapter = VirtualRig::adapter_profile(Side::Dut);
        adapter.atomics = false;
        Self {
            model: VirtualRig::new(Profile::full(), &[]).with_adapter(adapter, defects),
            says: few(),
        }
    }

    /// Returns a device with all operations except these.
    fn without(lacks: &[Operation]) -> Self {
        let all = (1..).map_while(|number| Operation::try_from(number).ok());
        let has: Vec<i32> = all.filter(|of| !lacks.contains(of)).map(Into::into).collect();
        Self {
            model: VirtualRig::new(Profile::full(), &[]),
            says: Capabilities {
                operations: has.clone(),
                answers: has,
                ..Capabilities::default()
            },
        }
    }
}

impl Rig for Core {
    fn now(&self) -> Time {
        self.model.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        self.model.send(what)
    }

    fn wait(&mut self, until: Time) -> Arrival {
        let mut arrival = self.model.wait(until);
        if let Arrival::Verbs(Side::Dut, _, _, _, Reply::Opened(opened)) = &mut arrival {
            opened.capabilities = Some(Box::new(self.says.clone()));
        }
        arrival
    }
}

fn run(test: &Test, defects: &[RcDefect], seed: u64, parameters: &[(&str, u64)]) -> Judged {
    on(&mut Core::new(defects), test, seed, parameters)
}

fn on(core: &mut Core, test: &Test, seed: u64, parameters: &[(&str, u64)]) -> Judged {
    let info = RigInfo {
        offers: vec![Need::Packets],
        ..VirtualRig::info(MKey(0))
    };
    judged(core, &info, test, seed, parameters)
}

fn tests() -> impl Iterator<Item = &'static Test> {
    let of_packets = |test: &&Test| test.id.starts_with("c09-") && test.needs == [Need::Packets];
    TESTS.iter().copied().filter(of_packets)
}

/// Returns whether the record has packets of a connection.
fn exchanges(entries: &[Entry]) -> bool {
    let is_packet = |entry: &Entry| match entry {
        Entry::Frame(frame) => Packet::parse(Medium::Ethernet, &frame.bytes).is_ok(),
        _ => false,
    };
    entries.iter().any(is_packet)
}

#[test]
fn tests_within_capabilities_pass() {
    for test in tests() {
        let Judged { verdict, entries, .. } = run(test, &[], 1, &[]);
        let (id, reason) = (test.id, &verdict.reason);
        match verdict.outcome() {
            Outcome::NotApplicable => {
                let says = ["as its agent says", "the device says that it has no"];
                assert!(says.iter().any(|words| reason.contains(words)), "{id}: {reason}");
                assert!(
                    !GO_WITHOUT.contains(&id),
                    "{id} has cases that need nothing of it: {reason}"
                );
                let sent = |entry: &&Entry| matches!(entry, Entry::Frame(frame) if !frame.received && frame.label != 0);
                assert_eq!(entries.iter().filter(sent).count(), 0, "{id}: packets for nothing");
            }
            outcome => {
                assert_eq!(outcome, Outcome::Pass, "{id}: {reason}");
                assert!(exchanges(&entries), "{id}: it passed without a packet");
            }
        }
    }
}

#[test]
fn core_without_immediate_data_is_tested() {
    for id in [
        "c09-060-send-responder",
        "c09-060-write-responder",
        "c09-long-messages",
        "c09-rnr-nak",
    ] {
        let mut core = Core::without(&[Operation::SendImm, Operation::WriteImm]);
        let verdict = on(&mut core, test(id), 1, &[]).verdict;
        assert_eq!(verdict.outcome(), Outcome::Pass, "{id}: {}", verdict.reason);
    }
}

#[test]
fn walk_skips_unsupported_steps() {
    let verdict = run(test("c09-walk"), &[], 3, &[("steps", 400)]).verdict;
    assert_eq!(verdict.outcome(), Outcome::Pass, "{}", verdict.reason);
}

#[test]
fn rows_without_a_packet_do_not_pass() {
    let mut outcomes = BTreeSet::new();
    for row in (1..=200).step_by(5) {
        // Keep only the first two conditions of the row, its error and its operation.
        let parameters = [("row", row), ("keep", 3)];
        let Judged { verdict, entries, .. } = run(test("c09-matrix-refused"), &[], 3, &parameters);
        let outcome = verdict.outcome();
        assert_eq!(
            exchanges(&entries),
            outcome == Outcome::Pass,
            "row {row}: {}",
            verdict.reason
        );
        outcomes.insert(outcome);
    }
    assert_eq!(outcomes, [Outcome::Pass, Outcome::NotApplicable].into());
}

/// Words in the descriptions of defects that the device can hide. The defects concern READs, atomics, SEND with
/// Invalidate, datagrams or SQD, which the device lacks, or the flow label, which IPv4 lacks.
const LACKS: [&str; 11] = [
    "READ",
    "atomic",
    "CmpSwap",
    "FetchAdd",
    "sqd",
    "drained",
    "datagram",
    "Q_Key",
    "nvalidate",
    "flow label",
    "local-fault",
];

/// Returns whether the device may hide a defect. Such a defect concerns a missing operation, or a step through SQD
/// (`timeout-clears-retry-cnt`).
fn may_be_hidden(defect: RcDefect) -> bool {
    let speaks_of = |word: &&str| defect.about().contains(*word) || defect.name().contains(*word);
    LACKS.iter().any(speaks_of) || defect.name() == "timeout-clears-retry-cnt"
}

#[test]
fn finds_defects_in_supported_operations() {
    let is_found = |defect: RcDefect| {
        let mut of_it = tests().filter(|test| test.statements.contains(&defect.statement()));
        of_it.any(|test| run(test, &[defect], 3, &[]).verdict.outcome() == Outcome::Fail)
    };
    // Try a sample. The sample depends on names only, so that new defects do not change it. `qualify` tries all
    // defects on a device with all operations.
    let is_asked = |defect: &RcDefect| defect.name().bytes().map(u32::from).sum::<u32>() % 3 == 0;
    let wanted = RcDefect::ALL.iter().copied().filter(|defect| !may_be_hidden(*defect));
    let hidden: Vec<&str> = wanted
        .filter(is_asked)
        .filter(|defect| !is_found(*defect))
        .map(RcDefect::name)
        .collect();
    assert_eq!(hidden, [""; 0], "a defect of what the core lacks says so in its words");
}

/// Tests that leave out cases on a device with few operations. If the agent does not declare the limit, the judge must
/// notice the missing cases.
const GO_WITHOUT: &[&str] = &[
    "c09-142-ack-timeout",
    "c09-142-timer-restart",
    "c09-address-vector",
    "c09-duplicates",
    "c09-events",
    "c09-local-errors",
    "c09-modify-attributes",
    "c09-modify-steps",
    "c09-nak-fatal",
    "c09-nak-invalid-request",
    "c09-nak-remote-access",
    "c09-psn-regions",
    "c09-requests",
    "c09-reserved-bits",
    "c09-reset-again",
];

#[test]
fn undeclared_gaps_never_pass() {
    let all = Core::without(&[]).says;
    let says = [None, Some(Box::new(all))];
    for (id, says) in GO_WITHOUT.iter().flat_map(|id| says.iter().map(move |says| (id, says))) {
        let mut entries = run(test(id), &[], 3, &[]).entries;
        for entry in &mut entries {
            if let Entry::VerbsAnswered(answered) = entry
                && let Reply::Opened(opened) = &mut answered.reply
            {
                opened.capabilities.clone_from(says);
                opened.atomics = true;
            }
        }
        let outcome = judge(entries).unwrap().outcome();
        assert!(
            !matches!(outcome, Outcome::Pass | Outcome::NotApplicable),
            "{id}: {outcome}"
        );
    }
}

#[test]
fn lacking_operations_fail_no_test() {
    use Operation::{CompareSwap, FetchAdd, Read, Send, SendImm, SendInvalidate, Write, WriteImm};
    let cores: [&[Operation]; 10] = [
        &[],
        &[Send],
        &[SendImm],
        &[SendInvalidate],
        &[Write],
        &[WriteImm],
        &[Read],
        &[CompareSwap],
        &[FetchAdd],
        &[Read, CompareSwap],
    ];
    let mut wrong = Vec::new();
    for lacks in cores {
        for test in tests() {
            let verdict = on(&mut Core::without(lacks), test, 1, &[]).verdict;
            if !matches!(verdict.outcome(), Outcome::Pass | Outcome::NotApplicable) {
                wrong.push(format!(
                    "{lacks:?}: {} {}: {}",
                    test.id,
                    verdict.outcome(),
                    verdict.reason
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

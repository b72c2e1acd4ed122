//! A core with SENDs and WRITEs alone, whose agent says so: what a test can judge without the rest, it judges.

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

/// Tests that nothing is left of without READs, atomics, SEND with Invalidate and datagrams.
const NOTHING_LEFT: &[&str] = &[
    "c09-027-atomic-after-reads",
    "c09-027-send-after-reads",
    "c09-027-write-after-reads",
    "c09-027-reads-after-atomic",
    "c09-060-ack-of-read",
    "c09-060-fetch-add-responder",
    "c09-060-compare-swap-responder",
    "c09-060-read",
    "c09-060-fetch-add",
    "c09-060-compare-swap",
    "c09-060-read-responder",
    "c09-atomic-replay",
    "c09-datagram-limits",
    "c09-datagrams",
    "c09-datagrams-dropped",
    "c09-nak-implied",
    "c09-nak-max-dest-rd-atomic",
    "c09-q-key",
    "c09-read-response",
    "c09-requests-in-flight",
    "c09-send-invalidate",
    "c09-send-queue-drain",
    "c09-send-queue-error",
];

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

/// The model as a core that has few operations: its host says so.
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

    /// A core that has all operations but these.
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

/// Whether packets of a connection went either way.
fn exchanges(entries: &[Entry]) -> bool {
    let is_packet = |entry: &Entry| match entry {
        Entry::Frame(frame) => Packet::parse(Medium::Ethernet, &frame.bytes).is_ok(),
        _ => false,
    };
    entries.iter().any(is_packet)
}

#[test]
fn only_tests_of_what_a_core_lacks_do_not_apply_to_it_and_all_others_pass() {
    let mut not_applicable = Vec::new();
    for test in tests() {
        let Judged { verdict, entries, .. } = run(test, &[], 1, &[]);
        match verdict.outcome() {
            Outcome::NotApplicable => {
                let sent = |entry: &&Entry| matches!(entry, Entry::Frame(frame) if !frame.received && frame.label != 0);
                assert_eq!(
                    entries.iter().filter(sent).count(),
                    0,
                    "{}: packets for nothing",
                    test.id
                );
                not_applicable.push(test.id);
            }
            outcome => {
                assert_eq!(outcome, Outcome::Pass, "{}: {}", test.id, verdict.reason);
                assert!(exchanges(&entries), "{}: it passed without a packet", test.id);
            }
        }
    }
    let mut expected = NOTHING_LEFT.to_vec();
    expected.sort_unstable();
    not_applicable.sort_unstable();
    assert_eq!(not_applicable, expected);
}

#[test]
fn a_long_walk_passes_over_steps_that_a_core_cannot_take() {
    let verdict = run(test("c09-walk"), &[], 3, &[("steps", 400)]).verdict;
    assert_eq!(verdict.outcome(), Outcome::Pass, "{}", verdict.reason);
}

/// Defects in what the core lacks: READs and what waits for them, atomics, SEND with Invalidate, datagrams, SQD. Over IPv4 there is no
/// flow label.
const NOT_SHOWN: &[&str] = &[
    "rnr-retry-missing-in-sqd",
    "rnr-nak-of-read-ignored",
    "read-completes-on-transmit",
    "atomic-completes-on-transmit",
    "read-completes-at-first",
    "read-completes-next",
    "atomic-ack-completes-next",
    "read-accepts-ack",
    "atomic-accepts-ack",
    "read-data-index-8-bits",
    "atomic-result-little-endian",
    "atomic-result-not-written",
    "atomic-result-misplaced",
    "atomic-result-low-32-bits",
    "read-data-misplaced",
    "read-data-not-written",
    "read-gap-ignored",
    "stale-read-response-stored",
    "read-length-ignored",
    "part-of-read-stops-timer",
    "timeout-clears-retry-cnt",
    "implied-nak-ignored",
    "retry-lifts-max-rd-atomic",
    "fence-looks-one-back",
    "read-resumed-twice-too-long",
    "fence-passes-atomics",
    "read-retry-va-carry-lost",
    "timeout-retry-without-compare",
    "read-reserves-one-psn",
    "max-rd-atomic-ignored",
    "fence-forgets-empty",
    "fence-ends-at-first-response",
    "fence-ignored",
    "flow-label-ignored",
    "datagram-icrc-wrong",
    "zero-length-read-fails",
    "local-fault-wrong-status",
    "local-fault-sent",
    "local-fault-at-once",
    "datagram-psn-constant",
    "datagram-without-header",
    "datagram-icrc-ignored",
    "q-key-ignored-with-immediate",
    "datagram-tail-lost",
    "datagram-in-init",
    "datagram-beyond-mtu",
    "sqe-stops-receives",
    "datagram-receive-vanishes",
    "datagram-stored-anyway",
    "drained-before-reads",
    "drained-reported-once",
    "sqd-sends",
    "sqd-deaf",
    "old-q-key-opens",
    "q-key-bit-31-not-compared",
    "q-key-ignored",
    "dropped-datagram-written",
    "atomic-overtakes-reads",
    "ack-overtakes-reads",
    "reads-answered-in-reverse",
    "read-response-syndrome-reserved",
    "read-without-ack-req-unanswered",
    "read-response-short",
    "read-response-wrong-data",
    "read-response-psn-constant",
    "read-response-psn-skips-at-wrap",
    "read-response-psn-loses-bit-23",
    "read-response-psn-8-bits",
    "read-response-middle-only",
    "atomic-not-executed",
    "atomic-original-is-new",
    "atomic-original-little-endian",
    "atomic-original-zero",
    "compare-ignored",
    "compare-low-32-bits",
    "swap-of-0-lost",
    "swap-never",
    "fetch-add-low-32-bits",
    "fetch-add-stores",
    "kept-by-max-rd-atomic",
    "read-kept-twice",
    "atomic-replayed-once",
    "atomic-replay-newest-only",
    "compare-swap-executed-again",
    "duplicate-atomic-executed",
    "duplicate-atomic-shows-memory",
    "duplicate-atomic-dropped",
    "duplicate-read-dropped",
    "duplicate-atomic-other-executed",
    "reset-keeps-atomics",
    "duplicate-atomic-of-any-qp",
    "duplicate-read-error-naked",
    "read-behind-gap-answered",
    "fetch-add-behind-gap-executed",
    "gap-after-read-ignored",
    "rights-of-reads-not-withdrawn",
    "max-dest-rd-atomic-0-answers",
    "unaligned-atomic-accepted",
    "unaligned-atomic-wrong-nak",
    "invalidates-before-rnr-nak",
    "invalidate-spares-reads",
    "invalidate-ignored",
];

#[test]
fn defects_in_what_a_core_has_are_found_on_it() {
    let all: Vec<&Test> = tests().filter(|test| !NOTHING_LEFT.contains(&test.id)).collect();
    let is_found = |defect: &RcDefect| {
        let mut of_it = all.iter().filter(|test| test.statements.contains(&defect.statement()));
        of_it.any(|test| run(test, &[*defect], 3, &[]).verdict.outcome() == Outcome::Fail)
    };
    // A sample: `qualify` asks for all of them on a core that has everything.
    let sample: Vec<_> = RcDefect::ALL.iter().step_by(3).collect();
    let hidden: Vec<&str> = sample.iter().filter(|of| !is_found(of)).map(|of| of.name()).collect();
    let expected: Vec<&str> = sample
        .iter()
        .map(|of| of.name())
        .filter(|of| NOT_SHOWN.contains(of))
        .collect();
    assert_eq!(hidden, expected);
}

/// Of these records the judge must see that something is missing, when the device had it after all.
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
fn what_is_missing_and_not_said_to_be_lacking_never_passes() {
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
fn whatever_operation_a_core_lacks_no_test_fails_it_or_leaves_it_open() {
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

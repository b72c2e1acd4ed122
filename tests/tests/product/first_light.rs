//! Runs every test on every sound model, and checks the verdicts on disturbed input.

use core::time::Duration;

use verbatim_catalog::TESTS;
use verbatim_device::{Defect, Profile};
use verbatim_record::{Cause, Entry, Outcome, Time, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::{MemoryJournal, RigInfo, Stop};
use verbatim_tests::judged::{Judged, judged, judged_with, test};
use verbatim_wire::MKey;

fn execute(id: &str, mut rig: VirtualRig, seed: u64) -> Judged {
    let parameters = [("illegal_parts", 64), ("violations", 300)];
    judged(&mut rig, &VirtualRig::info(MKey(0)), test(id), seed, &parameters)
}

fn verdict(id: &str, rig: VirtualRig) -> Verdict {
    execute(id, rig, 1).verdict
}

#[test]
fn sound_models_fail_no_test() {
    // Three seeds suffice here; `verbatim qualify` runs hundreds.
    for seed in 0..3 {
        for profile in [Profile::minimal(), Profile::full(), Profile::one_data_vl()] {
            for test in TESTS {
                let verdict = execute(test.id, VirtualRig::new(profile.clone().vary(seed), &[]), seed).verdict;
                assert!(
                    matches!(verdict.outcome(), Outcome::Pass | Outcome::NotApplicable),
                    "seed {seed}, {}: {verdict:#?}",
                    profile.node_description
                );
            }
        }
    }
}

#[test]
fn same_seed_gives_same_record() {
    for test in TESTS {
        let rig = || VirtualRig::new(Profile::full().vary(3), &[]);
        assert_eq!(
            execute(test.id, rig(), 3).entries,
            execute(test.id, rig(), 3).entries,
            "{}",
            test.id
        );
    }
}

#[test]
fn ignored_key_fails_with_evidence() {
    let verdict = verdict(
        "c14-016-get-protect-2",
        VirtualRig::new(Profile::full(), &[Defect::MKeyIgnoredOnGet]),
    );
    assert_eq!((verdict.outcome(), verdict.cause()), (Outcome::Fail, Cause::Dut));
    assert!(verdict.fails("C14-16"), "{verdict:#?}");
    assert!(
        verdict.findings[0].evidence[0].contains("SubnGet(PortInfo)"),
        "{verdict:#?}"
    );
}

#[test]
fn dead_port_is_rig_error() {
    let rig = VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(|_| Vec::new()));
    let verdict = verdict("c14-016-get-protect-2", rig);
    assert_eq!(
        (verdict.outcome(), verdict.cause()),
        (Outcome::Error, Cause::Rig),
        "{verdict:#?}"
    );
}

#[test]
fn mismatched_responses_answer_nothing() {
    for byte in [1, 3, 15, 17, 23] {
        let rig = VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(move |mad| {
            let mut mad = *mad;
            mad.bytes_mut()[byte] ^= if byte == 1 { 0x80 } else { 0x40 };
            vec![(Duration::ZERO, mad)]
        }));
        let Judged { verdict, entries, .. } = execute("c13-013-resp-time-value", rig, 1);
        // A response with a changed field may break a rule of the header, which is a FAIL.
        let came = (verdict.outcome(), verdict.cause());
        let told = [(Outcome::Error, Cause::Rig), (Outcome::Fail, Cause::Dut)];
        assert!(told.contains(&came), "byte {byte}: {verdict:#?}");
        let arrived = entries
            .iter()
            .filter(|entry| matches!(entry, Entry::Arrived(_)))
            .count();
        assert_eq!(arrived, 3, "byte {byte}: nothing that came in is lost");
    }
}

/// A rig that duplicates the first `times` responses.
fn answering_twice(times: u32) -> VirtualRig {
    let mut left = times;
    VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(move |mad| {
        let mut both = vec![(Duration::ZERO, *mad), (Duration::from_micros(3), *mad)];
        both.truncate(if left == 0 { 1 } else { 2 });
        left = left.saturating_sub(1);
        both
    }))
}

#[test]
fn second_response_fails_in_simulation() {
    let verdict = verdict("c14-024-node-info", answering_twice(1));
    assert!(verdict.fails("13.4.2 MAD header"), "{verdict:#?}");
}

#[test]
fn hardware_may_duplicate_some_frames() {
    let hardware = RigInfo {
        simulated: false,
        ..VirtualRig::info(MKey(0))
    };
    for (times, outcome) in [(2, Outcome::Pass), (u32::MAX, Outcome::Fail)] {
        let test = test("c14-024-node-info");
        let Judged { verdict, .. } = judged(&mut answering_twice(times), &hardware, test, 1, &[]);
        assert_eq!(verdict.outcome(), outcome, "{verdict:#?}");
        let told = verdict.observations.iter().any(|of| of.text.contains("further answer"));
        assert!(told, "{verdict:#?}");
    }
}

#[test]
fn late_forbidden_response_still_fails() {
    // Delay the second response to Get(NodeInfo). Its request has a wrong key, so at level 2 the device must not
    // respond.
    let mut answered = 0;
    let rig = VirtualRig::new(Profile::full(), &[Defect::GetAnsweredAtLevel2]).with_tamper(Box::new(move |mad| {
        answered += u32::from(mad.attribute_id() == verbatim_wire::AttributeId::NODE_INFO);
        let late = answered == 2 && mad.attribute_id() == verbatim_wire::AttributeId::NODE_INFO;
        vec![(if late { Duration::from_secs(9) } else { Duration::ZERO }, *mad)]
    }));
    let verdict = verdict("c14-016-get-protect-2", rig);
    assert!(verdict.fails("C14-16"), "{verdict:#?}");
}

#[test]
fn cancel_and_lease_end_restore_device() {
    for stop in [Stop::Cancelled, Stop::LeaseEnded] {
        for at in (0..60_000).step_by(617) {
            let profile = Profile::full().vary(5);
            let mut rig = VirtualRig::new(profile, &[]).with_stop_at(Time(at * 1_000_000), stop.clone());
            let (mut journal, info) = (MemoryJournal::default(), VirtualRig::info(MKey(0)));
            let test = test("c14-016-set-protect-2");
            let Judged { verdict, ran, .. } = judged_with(&mut journal, &mut rig, &info, test, at, &[]);
            assert!(ran.restored.iter().all(|r| r.is_complete()), "at {at} ms: {ran:#?}");
            assert!(journal.pending().is_empty(), "at {at} ms");
            if ran.stopped.is_some() {
                assert_eq!((verdict.outcome(), verdict.cause()), (Outcome::Error, Cause::Operator));
            }
        }
    }
}

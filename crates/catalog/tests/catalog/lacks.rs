//! Verdicts of tests that stopped because the device lacks a feature: earlier violations still count.

use verbatim_archives::golden;
use verbatim_catalog::judge;
use verbatim_record::{Cause, Entry, Outcome, StopReason, Stopped};

/// The maximum number of places at which the test cuts a record.
const CUTS: usize = 60;

/// Returns the names of chapter 9's golden records, of a conforming device or of a device with a defect.
fn records(with_defect: bool) -> Vec<String> {
    let mut names = golden::names();
    names.retain(|name| name.starts_with("c09-") && name.contains('@') == with_defect);
    names
}

/// Returns whether the entry is a sent frame or a command to a host. A missing feature may end the procedure at such an
/// entry.
fn acts(entry: &Entry) -> bool {
    match entry {
        Entry::Frame(frame) => !frame.received,
        Entry::VerbsAsked(_) => true,
        _ => false,
    }
}

/// Judges the record as if the device lacked the feature needed at `place`.
fn cut(mut entries: Vec<Entry>, place: usize) -> (Outcome, String) {
    entries.truncate(place);
    entries.push(Entry::Stopped(Stopped {
        reason: StopReason::NotOffered,
        text: "the DUT's device fpga0 has no READ, as its agent says".into(),
    }));
    let verdict = judge(entries).unwrap();
    (verdict.outcome(), verdict.reason)
}

#[test]
fn missing_feature_never_fails_sound_device() {
    for name in records(false) {
        let entries = golden::entries(&name);
        if judge(entries.clone()).unwrap().outcome() != Outcome::Pass {
            continue;
        }
        let places: Vec<usize> = (0..entries.len()).filter(|at| acts(&entries[*at])).collect();
        for place in places.iter().step_by(places.len().div_ceil(CUTS)) {
            let (outcome, reason) = cut(entries.clone(), *place);
            assert_eq!(outcome, Outcome::NotApplicable, "{name} at entry {place}: {reason}");
        }
    }
}

#[test]
fn violation_before_missing_feature_fails() {
    let mut failed = 0;
    for name in records(true) {
        let entries = golden::entries(&name);
        if judge(entries.clone()).unwrap().outcome() != Outcome::Fail {
            continue;
        }
        let last = (0..entries.len()).rev().find(|at| acts(&entries[*at])).unwrap();
        failed += usize::from(cut(entries, last).0 == Outcome::Fail);
    }
    // Not every cut record fails: some defects violate a rule only in the part that is cut off.
    assert!(failed > 30, "{failed}");
}

#[test]
fn tester_stall_is_inconclusive() {
    let mut entries = golden::entries("c09-long-messages");
    let last = (0..entries.len()).rev().find(|at| acts(&entries[*at])).unwrap();
    entries.truncate(last);
    entries.push(Entry::Stopped(Stopped {
        reason: StopReason::Stalled,
        text: "eth0 took no frame for 100ms".into(),
    }));
    let verdict = judge(entries).unwrap();
    assert_eq!(
        (verdict.outcome(), verdict.cause()),
        (Outcome::Inconclusive, Cause::Tester)
    );
}

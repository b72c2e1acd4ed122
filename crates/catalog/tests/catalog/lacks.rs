//! A test that came to something which the device has not, as its host said: what was seen before that is judged all the same.

use verbatim_archives::golden;
use verbatim_catalog::judge;
use verbatim_record::{Cause, Entry, Outcome, StopReason, Stopped};

/// Places of a record at which it is cut.
const CUTS: usize = 60;

/// The golden records of chapter 9: of a sound device, or of one with a defect.
fn records(with_defect: bool) -> Vec<String> {
    let mut names = golden::names();
    names.retain(|name| name.starts_with("c09-") && name.contains('@') == with_defect);
    names
}

/// Whether the procedure acts here: it sends, or asks a host for something. There it may come to what the device has not.
fn acts(entry: &Entry) -> bool {
    match entry {
        Entry::Frame(frame) => !frame.received,
        Entry::VerbsAsked(_) => true,
        _ => false,
    }
}

/// What the record comes to when the device lacks what stands at `place`.
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
fn a_sound_device_is_not_failed_wherever_a_test_comes_to_what_it_lacks() {
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
fn what_a_device_broke_before_a_test_came_to_what_it_lacks_is_a_fail() {
    let mut failed = 0;
    for name in records(true) {
        let entries = golden::entries(&name);
        if judge(entries.clone()).unwrap().outcome() != Outcome::Fail {
            continue;
        }
        let last = (0..entries.len()).rev().find(|at| acts(&entries[*at])).unwrap();
        failed += usize::from(cut(entries, last).0 == Outcome::Fail);
    }
    // Not all: some break a rule only by what they do, or leave undone, at the very end.
    assert!(failed > 30, "{failed}");
}

#[test]
fn a_stall_of_the_tester_is_inconclusive_by_its_own_fault() {
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

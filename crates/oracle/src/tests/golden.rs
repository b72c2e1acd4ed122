//! Applies the rules to every golden record of a conforming device. The record is unchanged, or frames of the device
//! are lost, repeated or swapped on their way to the tester.

use verbatim_archives::golden;
use verbatim_record::{Entry, Findings, Passed, Trace};

use super::super::judge;

/// Fate of the device's frames.
#[derive(Clone, Copy, Debug)]
enum Way {
    Straight,
    Loses,
    Repeats,
    Swaps,
}

/// Marks a record as recorded on hardware, where no rule blames the device for frames lost, repeated or swapped on
/// their way.
fn on_hardware(mut entries: Vec<Entry>) -> Vec<Entry> {
    for entry in &mut entries {
        if let Entry::Begin(begin) = entry {
            begin.simulated = false;
        }
    }
    entries
}

/// Applies `way` to every `each`th frame of the device, counted from `first`.
fn travelled(entries: &[Entry], way: Way, first: usize, each: usize) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::new();
    let (mut seen, mut last) = (0, None);
    for entry in entries {
        let hit = match entry {
            Entry::Frame(frame) if frame.received => {
                seen += 1;
                (seen + first).is_multiple_of(each)
            }
            _ => false,
        };
        match (way, hit) {
            (Way::Loses, true) => continue,
            (Way::Repeats, true) => out.push(entry.clone()),
            _ => {}
        }
        out.push(entry.clone());
        let now = matches!(entry, Entry::Frame(frame) if frame.received).then(|| out.len() - 1);
        // Swap a frame only with the frame directly before it, not across an event of host or tester.
        if let (Way::Swaps, true, Some(before), Some(now)) = (way, hit, last, now)
            && before + 1 == now
        {
            out.swap(before, now);
        }
        last = now.or(last);
    }
    let mut number = 0;
    for entry in &mut out {
        if let Entry::Frame(frame) = entry {
            number += 1;
            frame.number = number;
        }
    }
    out
}

fn failed(entries: Vec<Entry>) -> Vec<String> {
    let trace = Trace::new(entries).unwrap();
    let mut findings = Findings::new(&trace);
    findings.exercises_any();
    judge(&trace, &mut findings, &[]);
    let failed = findings.checks.iter().filter(|check| check.result() == Passed::Fail);
    failed.map(ToString::to_string).collect()
}

#[test]
fn conforming_device_is_never_blamed() {
    let mut connections = 0;
    for name in golden::names().into_iter().filter(|name| !name.contains('@')) {
        let entries = golden::entries(&name);
        connections += super::super::record::connections(&Trace::new(entries.clone()).unwrap()).len();
        for way in [Way::Straight, Way::Loses, Way::Repeats, Way::Swaps] {
            for first in 0..7 {
                let entries = travelled(&entries, way, first, 7);
                let failed = failed(match way {
                    Way::Straight => entries,
                    _ => on_hardware(entries),
                });
                assert!(failed.is_empty(), "{name} {way:?} from {first}: {failed:#?}");
            }
        }
    }
    assert!(connections > 100, "{connections} connections were looked at");
}

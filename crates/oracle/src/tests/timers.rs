//! Restart of the local ACK timeout, on the golden record of its test with changed responses and retries.

use core::time::Duration;

use verbatim_record::{Entry, Frame};
use verbatim_wire::packet::{Aeth, Bth, Medium, Opcode, Packet, Psn};
use verbatim_wire::{Layout, NakCode, edit, mend_icrc};

use super::answers::{is_ack, is_nak};
use super::verbs::{broken, renumber};

const GOLDEN: &str = "c09-142-timer-restart";

/// Returns the indices of the frames for which `is_it` is true.
fn places(entries: &[Entry], received: bool, is_it: impl Fn(&Packet<'_>) -> bool) -> Vec<usize> {
    let of_it = |entry: &Entry| match entry {
        Entry::Frame(frame) if frame.received == received => {
            Packet::parse(Medium::Ethernet, &frame.bytes).is_ok_and(|packet| is_it(&packet))
        }
        _ => false,
    };
    (0..entries.len()).filter(|at| of_it(&entries[*at])).collect()
}

fn frame(entries: &mut [Entry], at: usize) -> &mut Frame {
    match &mut entries[at] {
        Entry::Frame(frame) => frame,
        other => panic!("a frame, not {other:?}"),
    }
}

fn psn(entries: &[Entry], at: usize) -> Psn {
    match &entries[at] {
        Entry::Frame(frame) => Packet::parse(Medium::Ethernet, &frame.bytes).unwrap().bth().psn(),
        other => panic!("a frame, not {other:?}"),
    }
}

/// Returns the repeated ACKs of a completed request, and the retry of the request that still waits for a response, two
/// PSNs later.
fn old_acks(entries: &[Entry]) -> (Vec<usize>, usize) {
    let acks = places(entries, false, is_ack);
    let of = |at: usize| {
        acks.iter()
            .copied()
            .filter(move |ack| psn(entries, *ack) == psn(entries, at))
    };
    let first = acks.iter().copied().find(|at| of(*at).count() > 5);
    let old: Vec<usize> = of(first.expect("an ACK that comes again and again")).collect();
    let waits = psn(entries, old[0]).plus(2);
    let sent = places(entries, true, |packet| packet.bth().psn() == waits);
    (old, sent[1])
}

fn later(entries: &mut [Entry], at: usize, by: Duration) {
    let frame = frame(entries, at);
    frame.at.earliest = frame.at.earliest.after(by);
    frame.at.latest = frame.at.latest.after(by);
}

#[test]
fn old_ack_does_not_restart_the_timer() {
    let late = Duration::from_secs(1);
    let after_old = |entries: &mut Vec<Entry>| {
        let (_, retry) = old_acks(entries);
        later(entries, retry, late);
    };
    let found = broken(GOLDEN, after_old);
    assert!(found.contains(&"ack-timeout"), "{found:?}");
    let after_the_last = |entries: &mut Vec<Entry>| {
        let (old, retry) = old_acks(entries);
        for at in old {
            let frame = frame(entries, at);
            let mut bytes = frame.bytes.to_vec();
            let bth = Packet::parse(Medium::Ethernet, &bytes).unwrap().offsets().bth;
            edit::<Bth>(&mut bytes, bth, |bth| bth.with_psn(bth.psn().next()));
            edit::<Aeth>(&mut bytes, bth + Bth::SIZE, |aeth| aeth.with_msn(aeth.msn() + 1));
            mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
            frame.bytes = bytes.into();
        }
        later(entries, retry, late);
    };
    let found = broken(GOLDEN, after_the_last);
    assert!(!found.contains(&"ack-timeout"), "{found:?}");
}

#[test]
fn either_of_two_naks_may_cause_a_retry() {
    let twice = |naks: usize| {
        move |entries: &mut Vec<Entry>| {
            let nak = places(entries, false, |packet| is_nak(packet, NakCode::PSN_SEQUENCE_ERROR))[0];
            let missing = psn(entries, nak);
            let is_it = |packet: &Packet<'_>| packet.bth().psn() == missing && packet.opcode() == Opcode::RC_SEND_ONLY;
            let retry = places(entries, true, is_it).into_iter().find(|at| *at > nak).unwrap();
            // Repeat the retry at once, with or without a second NAK.
            let (again, asked) = (entries[retry].clone(), entries[nak].clone());
            entries.insert(retry + 1, again);
            if naks == 2 {
                entries.insert(nak + 1, asked);
            }
            renumber(entries);
        }
    };
    let found = broken(GOLDEN, twice(2));
    assert!(!found.contains(&"timer-restarts"), "{found:?}");
    let found = broken(GOLDEN, twice(1));
    assert!(found.contains(&"timer-restarts"), "{found:?}");
}

//! Captures of Linux rxe against itself: `ib_send_bw` and similar tools in the lab `rxe-verbs`, with and without netem.
//! Tests alter, lose, repeat or move one packet of a capture. The findings name that packet, and blame no other packet.

use std::fs;
use std::path::Path;

use verbatim_wire::packet::{mend_icrc, mend_ip_checksum};
use verbatim_wire::{Medium, Packet};

use super::super::{Ended, Loss};
use super::altered::is_listed;
use super::judged as judged_by;

type Frames = Vec<(u64, Vec<u8>)>;

/// Captures without loss.
const SOUND: [&str; 6] = ["atomic", "read", "send", "send-both-ways", "send-ipv6", "write"];
/// Captures with lost or repeated packets.
const DISTURBED: [&str; 5] = [
    "atomic-with-loss",
    "atomic-with-repeats",
    "read-with-loss",
    "read-with-repeats",
    "write-with-loss",
];

/// Returns the frames of a capture, with nanoseconds since the first.
fn frames(name: &str) -> Frames {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let bytes = fs::read(captures.join(format!("{name}.pcap"))).unwrap();
    let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    assert!([0xA1B2_C3D4, 0xA1B2_3C4D].contains(&number(0)), "{name}: a pcap file");
    let fraction = if number(0) == 0xA1B2_3C4D { 1 } else { 1000 };
    let (mut at, mut frames, mut begin) = (24, Vec::new(), None);
    while at < bytes.len() {
        let time = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)) * fraction;
        let end = at + 16 + number(at + 8) as usize;
        let since = time.saturating_sub(*begin.get_or_insert(time));
        frames.push((since, bytes[at + 16..end].to_vec()));
        at = end;
    }
    frames
}

/// Returns the findings: their packets, whether they are excused, and their words.
fn found(frames: &[(u64, Vec<u8>)]) -> Vec<(Vec<u64>, bool, String)> {
    let all: Vec<Ended> = judged_by(Loss::Possible, frames);
    let findings = all.iter().flat_map(|ended| &ended.connection.findings);
    findings
        .map(|finding| (finding.packets.clone(), finding.unless.is_some(), finding.to_string()))
        .collect()
}

/// Returns the findings without an excuse.
fn violations(frames: &[(u64, Vec<u8>)]) -> Vec<(Vec<u64>, String)> {
    let found = found(frames).into_iter();
    found
        .filter(|(_, is_excused, _)| !is_excused)
        .map(|(packets, _, words)| (packets, words))
        .collect()
}

fn assert_blameless(what: &str, frames: &[(u64, Vec<u8>)]) {
    let violations = violations(frames);
    assert!(violations.is_empty(), "{what}: {violations:#?}");
}

#[test]
fn capture_of_rxe_breaks_no_rule() {
    for name in SOUND {
        assert_eq!(found(&frames(name)), [], "{name}");
    }
    for name in DISTURBED {
        let frames = frames(name);
        assert_blameless(name, &frames);
        assert!(!found(&frames).is_empty(), "{name}: something was lost or repeated");
    }
}

#[test]
fn loss_repetition_and_order_are_excused() {
    for name in SOUND.into_iter().chain(DISTURBED) {
        let whole = frames(name);
        for at in 0..whole.len() {
            let without = [&whole[..at], &whole[at + 1..]].concat();
            assert_blameless(&format!("{name} without #{}", at + 1), &without);
            let mut short = whole.clone();
            short[at].1.truncate(60);
            assert_blameless(&format!("{name}, #{} cut short", at + 1), &short);
            for later in [1, 2, 3, 10] {
                let to = (at + later).min(whole.len());
                let mut twice = whole.clone();
                twice.insert(to, (whole[to - 1].0, whole[at].1.clone()));
                assert_blameless(&format!("{name}, #{} again {later} later", at + 1), &twice);
                if to < whole.len() {
                    let mut moved = without.clone();
                    moved.insert(to, (whole[to].0, whole[at].1.clone()));
                    assert_blameless(&format!("{name}, #{} {later} later", at + 1), &moved);
                }
            }
        }
    }
}

#[test]
fn partial_capture_breaks_no_rule() {
    for name in SOUND.into_iter().chain(DISTURBED) {
        let whole = frames(name);
        for at in 0..whole.len() {
            assert_blameless(&format!("{name} from #{} on", at + 1), &whole[at..]);
            assert_blameless(&format!("{name} before #{}", at + 1), &whole[..at]);
        }
        // Keep only the packets to one of the two ends: those with the same destination MAC address.
        let to = |frame: &[u8]| {
            Packet::parse(Medium::Ethernet, frame)
                .unwrap()
                .ethernet()
                .unwrap()
                .dst()
        };
        let first = to(&whole[0].1);
        for is_first in [true, false] {
            let one = whole.iter().filter(|(_, frame)| (to(frame) == first) == is_first);
            let one: Frames = one.cloned().collect();
            assert_blameless(&format!("{name}, one direction"), &one);
        }
    }
}

#[test]
fn vlan_tag_changes_nothing() {
    for name in SOUND.into_iter().chain(DISTURBED) {
        let whole = frames(name);
        let mut tagged = whole.clone();
        for (_, frame) in &mut tagged {
            frame.splice(12..12, [0x81, 0, 0x20, 5]);
        }
        assert_eq!(found(&tagged), found(&whole), "{name}");
    }
}

#[test]
fn only_the_damaged_packet_is_blamed() {
    for name in SOUND {
        let whole = frames(name);
        for at in (0..whole.len()).step_by(3) {
            let end = headers(&whole[at].1);
            for bit in 8 * 14..8 * end {
                let mut altered = whole.clone();
                altered[at].1[bit / 8] ^= 0x80 >> (bit % 8);
                let number = at as u64 + 1;
                for (packets, words) in violations(&altered) {
                    assert!(
                        packets.contains(&number),
                        "{name}, bit {bit} of #{number}: {packets:?} {words}"
                    );
                }
            }
        }
    }
}

#[test]
fn altered_field_is_found_or_listed() {
    let mut wrong = Vec::new();
    for name in SOUND {
        let whole = frames(name);
        for at in 0..whole.len() {
            let packet = Packet::parse(Medium::Ethernet, &whole[at].1).unwrap();
            let (begin, end, number) = (packet.offsets().bth, headers(&whole[at].1), at as u64 + 1);
            for bit in 8 * 14..8 * end {
                let mut altered = whole.clone();
                let frame = &mut altered[at].1;
                frame[bit / 8] ^= 0x80 >> (bit % 8);
                if bit / 8 < begin && mend_ip_checksum(Medium::Ethernet, frame).is_err()
                    || mend_icrc(Medium::Ethernet, frame).is_err()
                {
                    continue;
                }
                let found = found(&altered);
                for (packets, is_excused, words) in &found {
                    if !is_excused && !packets.contains(&number) {
                        wrong.push(format!("{name}, bit {bit} of #{number}: {packets:?} {words}"));
                    }
                }
                // Two kinds of changes may pass: the network may change fields before the BTH, and at the beginning
                // and end of a capture, the neighbours that would show an error are missing.
                let is_amid = (4..whole.len() - 6).contains(&at);
                if bit / 8 >= begin && is_amid && found.is_empty() {
                    let is_listed = is_listed(&packet, bit);
                    wrong.extend((!is_listed).then(|| format!("{name}: bit {bit} of #{number} passes")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the offset of the first byte that the tests do not alter. Two payload bytes stand for the whole payload.
fn headers(frame: &[u8]) -> usize {
    let offsets = Packet::parse(Medium::Ethernet, frame).unwrap().offsets();
    offsets.icrc.unwrap().min(offsets.payload + 2)
}

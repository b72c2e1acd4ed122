//! A capture of 2 GiB: every packet is judged, and the memory in use does not grow.

use std::io::{Read, Write};
use std::process::Stdio;

use verbatim_tests::product::Place;

use crate::inspect::kinds::roce;
use crate::inspect::{pcap_header, pcap_packet};

const ALL: usize = 2 << 30;
/// Limit of the process's peak memory, in KiB.
const MOST_KIB: u64 = 32 << 10;

#[test]
fn judges_two_gib_in_little_memory() {
    let place = Place::new();
    let mut broken = roce(1024)[0].clone();
    broken[500] ^= 4;
    let packets = 1000;
    let sound = pcap_packet(&roce(1024)[0]);
    let chunk = [sound.repeat(packets - 1), pcap_packet(&broken)].concat();
    let chunks = ALL.div_ceil(chunk.len());

    let mut command = place.verbatim("inspect - --json --only not-judged");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut into = child.stdin.take().unwrap();
    into.write_all(&pcap_header(1)).unwrap();
    for _ in 0..chunks {
        into.write_all(&chunk).unwrap();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    drop(into);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));

    let summary: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(summary["summary"]["packets"], chunks * packets);
    assert_eq!(summary["summary"]["discarded"], chunks);
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(peak < MOST_KIB, "{peak} KiB at most");
}

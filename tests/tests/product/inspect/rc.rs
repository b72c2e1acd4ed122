//! `verbatim inspect --rc` on the documentation's capture, whole and altered.

use std::fs;

use serde_json::Value;
use verbatim_tests::product::{Output, Place, run};

use crate::inspect::example::root;

fn capture() -> Vec<u8> {
    fs::read(root().join("docs/examples/rc.pcap")).unwrap()
}

/// Returns the capture without packet `number`.
fn without(number: usize) -> Vec<u8> {
    let whole = capture();
    let mut at = 24;
    for _ in 1..number {
        at += 16 + length(&whole, at);
    }
    let end = at + 16 + length(&whole, at);
    [&whole[..at], &whole[end..]].concat()
}

fn length(capture: &[u8], at: usize) -> usize {
    u32::from_le_bytes(*capture[at + 8..].first_chunk().unwrap()) as usize
}

fn inspected(capture: &[u8], options: &str) -> Output {
    let place = Place::new();
    place.write("rc.pcap", capture);
    run(&mut place.verbatim(&format!("inspect {options} rc.pcap")))
}

fn first(output: &Output) -> Value {
    serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap()
}

#[test]
fn altered_msn_is_responder_violation() {
    let output = inspected(&capture(), "--rc --json");
    assert_eq!(output.code(), 1, "{output}");
    let connection = first(&output);
    assert_eq!(connection["packets"], 30);
    assert_eq!(connection["violations"].as_array().unwrap().len(), 1);
    assert_eq!(connection["violations"][0]["rule"], "msn");
    assert_eq!(connection["violations"][0]["by"], "10.0.0.1");
    assert_eq!(connection["or_lost_in_all"], 0);
}

#[test]
fn capture_without_altered_packet_is_sound() {
    let output = inspected(&without(20), "--rc");
    assert_eq!(output.code(), 0, "{output}");
    assert!(output.stdout.contains("0 violations, 0 more"), "{output}");
}

#[test]
fn lost_request_is_violation_if_lossless() {
    let output = inspected(&without(22), "--rc --json");
    let rules = |output: &Output, list: &str| -> Vec<Value> {
        let connection = first(output);
        let found = connection[list].as_array().unwrap().iter();
        found.map(|finding| finding["rule"].clone()).collect()
    };
    assert_eq!(rules(&output, "violations"), ["msn"]);
    assert_eq!(rules(&output, "or_lost"), ["psn"]);
    let output = inspected(&without(22), "--rc --json --lossless");
    assert_eq!(rules(&output, "violations"), ["msn", "psn"]);
}

#[test]
fn half_capture_exits_3() {
    let whole = capture();
    let output = inspected(&whole[..whole.len() / 2], "--rc");
    assert_eq!(output.code(), 3, "{output}");
    assert!(output.stdout.contains("QP 0x000011"), "{output}");
}

#[test]
fn capture_without_rc_exits_4() {
    let output = inspected(&capture()[..24], "--rc");
    assert_eq!(output.code(), 4, "{output}");
}

#[test]
fn refuses_options_for_single_packets() {
    assert_eq!(inspected(&capture(), "--rc --lid 8").code(), 2);
    assert_eq!(inspected(&capture(), "--lossless").code(), 2);
}

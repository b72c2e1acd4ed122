//! Compares the results of each check alone and of each pair of checks with the checker's own table.

use serde_json::{Value, json};
use verbatim_capture::pcapng::LinkType;
use verbatim_tests::product::{Place, run};

use crate::inspect::damage::{failing, port, sound};
use crate::inspect::link::{Action, Check, Kind, check};
use crate::inspect::{PORT, documents, pcap_header, pcap_packet, pcapng};

/// The checker's table. Each line has the form `first second certainty counter switch`.
const TABLE: &str = include_str!("../../../../crates/oracle/src/packet_check/tests/pairs.txt");

/// The expectation for a packet: its failed checks in order, the certainty, the counter, and the action of a switch on
/// the way.
struct Expected {
    checks: Vec<Check>,
    certainty: &'static str,
    counter: &'static str,
    switch: &'static str,
}

/// Returns the rows of checks that a capture can show. A capture has no delimiters and no port state.
fn expected() -> Vec<Expected> {
    let named = |name: &str| Check::ALL.into_iter().find(|check| check.name() == name).unwrap();
    let shown = |check: &Check| !matches!(check, Check::Delimiter | Check::PortState);
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [first, second, certainty, counter, switch] => Expected {
                checks: vec![named(first), named(second)],
                certainty,
                counter,
                switch,
            },
            _ => panic!("{line}"),
        })
        .filter(|expected| expected.checks.iter().all(shown))
        .collect()
}

fn captures(packets: &[Vec<u8>]) -> [Vec<u8>; 2] {
    let bare: Vec<Vec<u8>> = packets.iter().map(|packet| pcap_packet(packet)).collect();
    [
        pcapng(LinkType::InfiniBand, packets.iter().map(|packet| &packet[..])),
        [pcap_header(247), bare.concat()].concat(),
    ]
}

fn names(checks: &[Check]) -> Value {
    checks.iter().map(|check| check.name()).collect()
}

#[test]
fn failure_pairs_match_table() {
    let expected = expected();
    assert_eq!(expected.len(), 11 * 10 / 2);
    let ca = port(Kind::Ca, true);
    let packets: Vec<Vec<u8>> = expected
        .iter()
        .map(|row| failing(&row.checks, ca.clone()).bytes)
        .collect();
    let place = Place::new();
    for (number, capture) in captures(&packets).into_iter().enumerate() {
        let file = place.write(&format!("{number}.cap"), capture);
        let output = run(&mut place.verbatim(&format!("inspect {} --json {PORT}", file.display())));
        assert_eq!(output.code(), 1, "{output}");
        let (lines, summary) = documents(&output);
        assert_eq!(lines.len(), expected.len());
        assert_eq!(summary["discarded"], json!(expected.len()));
        for (line, row) in lines.iter().zip(&expected) {
            assert_eq!(line["failed"], names(&row.checks), "{line}");
            assert_eq!(line["first"], row.checks[0].name(), "{line}");
            assert_eq!(line["certainty"], row.certainty, "{line}");
            assert_eq!(line["verdict"], "discard", "{line}");
            assert_eq!(line["counter"].as_str().unwrap_or("-"), row.counter, "{line}");
            assert_eq!(line["not_in_this_capture"], json!(["delimiter"]), "{line}");
        }

        let output = run(&mut place.verbatim(&format!(
            "inspect {} --json --kind switch --not-destination {PORT}",
            file.display()
        )));
        let (lines, _) = documents(&output);
        for (line, row) in lines.iter().zip(&expected) {
            let verdict = match row.switch {
                "accept" => "accept",
                "any" | "spoil" => "discard or forward",
                "discard" => "discard",
                _ => "not judged",
            };
            assert_eq!(line["verdict"], verdict, "{line}");
        }
    }
}

#[test]
fn single_failures_are_certain() {
    let ca = port(Kind::Ca, true);
    let alone: Vec<Check> = crate::inspect::damage::native()
        .filter(|check| !matches!(check, Check::Delimiter | Check::PortState))
        .collect();
    let arrivals: Vec<_> = alone.iter().map(|check| failing(&[*check], ca.clone())).collect();
    let packets: Vec<Vec<u8>> = arrivals.iter().map(|arrival| arrival.bytes.clone()).collect();
    let place = Place::new();
    for capture in captures(&packets) {
        let file = place.write("alone.cap", capture);
        let (lines, _) = documents(&run(
            &mut place.verbatim(&format!("inspect {} --json {PORT}", file.display()))
        ));
        assert_eq!(lines.len(), alone.len());
        for ((line, what), arrival) in lines.iter().zip(&alone).zip(&arrivals) {
            assert_eq!(line["failed"], names(&[*what]), "{line}");
            assert_eq!(line["certainty"], "certain", "{line}");
            assert_eq!(line["verdict"], "discard", "{line}");
            let judgement = check(&arrival.port, &arrival.received());
            assert_eq!(judgement.action, Action::Discard);
            assert_eq!(
                line["counter"].as_str(),
                judgement.counter.map(|counter| counter.name()),
                "{line}"
            );
        }
    }
}

#[test]
fn sound_packets_are_accepted() {
    use verbatim_wire::Form;
    let place = Place::new();
    let packets = [sound(Form::InfiniBandLocal), sound(Form::InfiniBandGlobal)];
    for capture in captures(&packets) {
        let file = place.write("sound.cap", capture);
        let output = run(&mut place.verbatim(&format!("inspect {} --json {PORT}", file.display())));
        assert_eq!(output.code(), 0, "{output}");
        assert_eq!(documents(&output).1["accepted"], 2);
    }
}

//! Each check alone and each pair, against the table that stands beside the checker.

use serde_json::{Value, json};
use verbatim_capture::pcapng::LinkType;
use verbatim_tests::product::{Place, run};

use crate::inspect::damage::{failing, port, sound};
use crate::inspect::link::{Action, Check, Kind, check};
use crate::inspect::{PORT, documents, pcap_header, pcap_packet, pcapng};

/// `first second certainty counter switch`, a line each.
const TABLE: &str = include_str!("../../../../crates/oracle/src/packet_check/tests/pairs.txt");

/// What is expected of a packet: its failures, the first, the certainty, the counter, and what a switch on the way does.
struct Expected {
    checks: Vec<Check>,
    certainty: &'static str,
    counter: &'static str,
    switch: &'static str,
}

/// What a capture can show: no delimiters, and no state of the port.
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
fn each_pair_of_failures_is_told_as_the_table_has_it() {
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
fn each_failure_alone_is_told_with_certainty_and_the_judge_says_the_same() {
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
fn sound_packets_of_a_capture_are_accepted() {
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

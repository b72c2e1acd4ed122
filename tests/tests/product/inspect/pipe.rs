//! A capture that arrives through a pipe, packet by packet.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use verbatim_tests::product::Place;

use crate::inspect::kinds::roce;
use crate::inspect::{pcap_header, pcap_packet};

#[test]
fn packet_is_shown_at_once() {
    let place = Place::new();
    let mut command = place.verbatim("inspect - --json");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut into = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    into.write_all(&pcap_header(1)).unwrap();
    for number in 1..=3 {
        // Write the next packet only after the line of this packet.
        into.write_all(&pcap_packet(&roce(64)[0])).unwrap();
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(&format!("\"packet\":{number},")), "{line}");
        assert!(line.contains("\"verdict\":\"accept\""), "{line}");
    }
    drop(into);
    assert!(lines.next().unwrap().unwrap().contains("\"summary\""));
    assert!(lines.next().is_none());
    assert!(child.wait().unwrap().success());
}

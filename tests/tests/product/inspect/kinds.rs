//! Link types, options, and packets that `verbatim inspect` leaves unjudged.

use serde_json::json;
use verbatim_capture::pcapng::LinkType;
use verbatim_tests::product::{Place, run};
use verbatim_wire::{Bth, Form, MacAddress, Network, Opcode, PKey, Qpn, Station, Transport, packet::packet};

use crate::inspect::damage::{failing, port, sound};
use crate::inspect::link::{Check, Kind};
use crate::inspect::{PORT, documents, pcap_header, pcap_packet, pcapng};

fn station(last: u8, v6: bool) -> Station {
    let ip = if v6 {
        std::net::IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, last.into()])
    } else {
        std::net::IpAddr::from([10, 0, 0, last])
    };
    Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip,
        udp_port: 0xC001,
    }
}

/// Returns a sound RoCE packet of each form: RoCEv2 over IPv4, RoCEv2 over IPv6, RoCEv1.
pub(crate) fn roce(payload: usize) -> [Vec<u8>; 3] {
    let transport = Transport {
        bth: Bth::default()
            .with_opcode(Opcode::RC_SEND_ONLY)
            .with_dest_qp(Qpn(0x11))
            .with_p_key(PKey(0xFFFF)),
        payload: (0..payload).map(|at| at.to_le_bytes()[0]).collect(),
        ..Transport::default()
    };
    [
        Network::roce_v2(&station(1, false), &station(2, false)),
        Network::roce_v2(&station(1, true), &station(2, true)),
        Network::roce_v1(&station(1, true), &station(2, true)),
    ]
    .map(|network| packet(&network, &transport))
}

#[test]
fn judges_every_form_of_roce() {
    let place = Place::new();
    let mut packets = roce(100).to_vec();
    for frame in roce(100) {
        let mut spoilt = frame;
        let last = spoilt.len() - 1;
        spoilt[last] ^= 1;
        packets.push(spoilt);
    }
    let file = place.write(
        "roce.pcapng",
        pcapng(LinkType::Ethernet, packets.iter().map(|packet| &packet[..])),
    );
    let output = run(&mut place.verbatim(&format!("inspect {} --json", file.display())));
    assert_eq!(output.code(), 1, "{output}");
    let (lines, summary) = documents(&output);
    let verdicts: Vec<_> = lines.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    assert_eq!(
        verdicts,
        ["accept", "accept", "accept", "discard", "discard", "discard"]
    );
    assert!(lines[..3].iter().all(|line| line["not_in_this_capture"] == json!([])));
    assert_eq!(
        lines[0]["what"],
        "10.0.0.1 > 10.0.0.2 RC SEND Only DestQP 0x000011 PSN 0, 100 bytes"
    );
    assert_eq!(summary["discarded_by_first_failure"], json!({ "icrc": 3 }));
    assert_eq!(summary["not_told"], json!(["p-key"]));
}

#[test]
fn lengths_reveal_missing_vcrcs() {
    let place = Place::new();
    let whole = sound(Form::InfiniBandLocal);
    let file = place.write(
        "novcrc.pcap",
        [pcap_header(247), pcap_packet(&whole[..whole.len() - 2])].concat(),
    );
    let (lines, summary) = documents(&run(
        &mut place.verbatim(&format!("inspect {} --json {PORT}", file.display()))
    ));
    assert_eq!(lines[0]["verdict"], "accept");
    assert_eq!(summary["not_in_this_capture"], json!(["delimiter", "vcrc"]));

    let mut zeros = whole;
    let end = zeros.len();
    zeros[end - 2..].fill(0);
    let file = place.write("zeros.pcap", [pcap_header(247), pcap_packet(&zeros)].concat());
    let command = format!("inspect {} --json {PORT}", file.display());
    assert_eq!(
        documents(&run(&mut place.verbatim(&command))).0[0]["failed"],
        json!(["vcrc"])
    );
    let (lines, _) = documents(&run(&mut place.verbatim(&format!("{command} --ignore-vcrc"))));
    assert_eq!(lines[0]["verdict"], "accept", "{lines:?}");
}

#[test]
fn skips_truncated_and_foreign_packets() {
    let place = Place::new();
    let mut cut = pcap_packet(&roce(100)[0][..60]);
    cut[12..16].copy_from_slice(&160_u32.to_le_bytes());
    let mut arp = roce(100)[0].clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let file = place.write("cut.pcap", [pcap_header(1), cut, pcap_packet(&arp)].concat());
    let output = run(&mut place.verbatim(&format!("inspect {} --json", file.display())));
    assert_eq!(output.code(), 4, "nothing was judged: {output}");
    let (lines, summary) = documents(&output);
    assert!(
        lines
            .iter()
            .all(|line| line["verdict"] == "not judged" && line["failed"].is_null())
    );
    assert_eq!(lines[0]["reason"], "the capture holds only part of the packet");
    assert_eq!(summary["not_judged"], 2);

    let file = place.write("usb.pcap", [pcap_header(220), pcap_packet(&[1, 2, 3])].concat());
    let output = run(&mut place.verbatim(&format!("inspect {}", file.display())));
    assert_eq!(output.code(), 4);
    assert!(output.stdout.contains("link type 220, which is not read"), "{output}");
}

#[test]
fn only_filters_lines_not_counts() {
    let place = Place::new();
    let broken = failing(&[Check::Icrc], port(Kind::Ca, true)).bytes;
    let whole = sound(Form::InfiniBandGlobal);
    let packets = [&whole[..], &broken, &whole];
    let file = place.write("some.pcapng", pcapng(LinkType::InfiniBand, packets));
    for (only, numbers, code) in [
        ("discarded", vec![2], 1),
        ("accepted", vec![1, 3], 1),
        ("not-judged", vec![], 1),
    ] {
        let command = format!("inspect {} --json --only {only} {PORT}", file.display());
        let output = run(&mut place.verbatim(&command));
        let (lines, summary) = documents(&output);
        let seen: Vec<u64> = lines.iter().map(|line| line["packet"].as_u64().unwrap()).collect();
        assert_eq!((seen, output.code()), (numbers, code), "{only}");
        assert_eq!(summary["packets"], 3);
    }
    let output = run(&mut place.verbatim(&format!("inspect {} --only discarded {PORT}", file.display())));
    assert!(
        output
            .stdout
            .contains("     2     0.000001000 LID 0x0003 > 0x000a RC SEND Only"),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("PortRcvErrors               icrc: expected ICRC "),
        "{output}"
    );
}

//! Checks that scapy computes the same ICRC as we do, over IPv4 and IPv6, and reads our values in BTH and AETH.
//!
//! The tests go in both directions: scapy reads our packets, and we read scapy's packets. Of the headers after the BTH,
//! scapy knows only the AETH of an acknowledgement. scapy computes no ICRC for RoCEv1.

mod python;

use python::answers;
use verbatim_tests::oracle::{Random, hex};
use verbatim_wire::packet::packet;
use verbatim_wire::{
    Aeth, Bth, Ethernet, Form, Ipv4, Ipv6, Layout, Link, Medium, Network, Opcode, Packet, Transport, Udp, Value, Vlan,
};

const ROUNDS: usize = 400;

/// One response of the oracle: words `name=value`, with numbers in decimal.
struct Answer<'a>(&'a str);

impl<'a> Answer<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        let value = |part: &'a str| part.split_once('=').filter(|(have, _)| *have == name);
        self.0.split(' ').find_map(value).map(|(_, value)| value)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let digits = self.text(name).unwrap();
        let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(pair).collect()
    }
}

/// Returns our frames over IPv4 and IPv6, with random headers and every opcode in turn.
fn frames() -> Vec<Vec<u8>> {
    let mut random = Random(0x5CA9);
    let opcodes: Vec<Opcode> = (0..=255).map(Opcode).filter(|opcode| opcode.name().is_some()).collect();
    let each = opcodes.iter().cycle().take(ROUNDS);
    each.enumerate()
        .map(|(round, &opcode)| {
            let link = Link {
                ethernet: Ethernet::from_bytes(&random.bytes(Ethernet::SIZE)),
                vlan: (round % 5 == 0).then(|| Vlan::from_bytes(&random.bytes(Vlan::SIZE))),
            };
            let udp = Udp::from_bytes(&random.bytes(Udp::SIZE));
            let network = if round % 2 == 0 {
                let ip = Ipv4::from_bytes(&random.bytes(Ipv4::SIZE));
                Network::RoceV2Ipv4 { link, ip, udp }
            } else {
                let ip = Ipv6::from_bytes(&random.bytes(Ipv6::SIZE));
                Network::RoceV2Ipv6 { link, ip, udp }
            };
            let headers = opcode.headers();
            let length = headers.length() + if headers.payload_allowed() { round * 3 } else { 0 };
            let aeth = (opcode == Opcode::RC_ACKNOWLEDGE).then(|| Aeth::from_bytes(&random.bytes(Aeth::SIZE)));
            let transport = Transport {
                bth: Bth::from_bytes(&random.bytes(Bth::SIZE)).with_opcode(opcode),
                aeth,
                // Further headers are part of the random payload.
                payload: random.bytes(if aeth.is_some() { 0 } else { length }),
                ..Transport::default()
            };
            packet(&network, &transport)
        })
        .collect()
}

/// Returns the differences between scapy's values and ours.
fn disagreements(frame: &[u8], answer: &Answer<'_>) -> Vec<String> {
    let seen = Packet::parse(Medium::Ethernet, frame).unwrap();
    let bth = seen.bth();
    let mut ours = vec![
        ("opcode", bth.opcode().to_bits()),
        ("solicited", bth.solicited_event().to_bits()),
        ("migreq", bth.migrated().to_bits()),
        ("padcount", bth.pad_count().to_bits()),
        ("version", bth.tver().to_bits()),
        ("pkey", bth.p_key().to_bits()),
        ("fecn", bth.fecn().to_bits()),
        ("becn", bth.becn().to_bits()),
        ("resv6", bth.reserved_34().to_bits()),
        ("dqpn", bth.dest_qp().to_bits()),
        ("ackreq", bth.ack_request().to_bits()),
        ("resv7", bth.reserved_65().to_bits()),
        ("psn", bth.psn().to_bits()),
    ];
    if let Some(aeth) = seen.aeth().filter(|_| bth.opcode() == Opcode::RC_ACKNOWLEDGE) {
        ours.push(("syndrome", aeth.syndrome().to_bits()));
        ours.push(("msn", aeth.msn().to_bits()));
    }
    let mut found: Vec<String> = ours
        .into_iter()
        .filter(|(name, value)| answer.text(name) != Some(&value.to_string()))
        .map(|(name, value)| format!("{name}: scapy {:?}, ours {value}", answer.text(name)))
        .collect();
    if !seen.icrc_is_right() || answer.bytes("rebuilt") != frame {
        let ours = seen.computed_icrc().map(|icrc| hex(&icrc));
        found.push(format!(
            "scapy rebuilds {}, our ICRC is {ours:?}",
            answer.text("rebuilt").unwrap()
        ));
    }
    if !found.is_empty() {
        found.push(format!("in {seen}: {}", hex(frame)));
    }
    found
}

#[test]
fn scapy_agrees_on_our_packets() {
    let frames = frames();
    let questions: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
    let Some(answers) = answers(&["read"], &(questions.join("\n") + "\n")) else {
        return;
    };
    assert_eq!(answers.lines().count(), frames.len());
    let all = frames.iter().zip(answers.lines());
    let found: Vec<String> = all
        .flat_map(|(frame, line)| disagreements(frame, &Answer(line)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn we_agree_on_scapys_packets() {
    let Some(answers) = answers(&["make", "400", "7"], "") else {
        return;
    };
    let mut forms = Vec::new();
    let mut found = Vec::new();
    for line in answers.lines() {
        let frame = Answer(line).bytes("frame");
        forms.push(Packet::parse(Medium::Ethernet, &frame).unwrap().form());
        found.extend(disagreements(&frame, &Answer(line)));
    }
    assert_eq!(forms.len(), 400);
    assert!(forms.contains(&Form::RoceV2Ipv4) && forms.contains(&Form::RoceV2Ipv6));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn notices_icrc_wrong_by_one_bit() {
    let mut frame = frames().swap_remove(0);
    *frame.last_mut().unwrap() ^= 1;
    let Some(answers) = answers(&["read"], &(hex(&frame) + "\n")) else {
        return;
    };
    assert_eq!(disagreements(&frame, &Answer(answers.trim_end())).len(), 2);
}

//! Checks that Wireshark shows our values in the fields of RoCE and InfiniBand packets of every form and opcode.
//!
//! Packets with random field values go through the capture writer and tshark. The tests compare each field that tshark
//! shows, and no packet may be malformed. tshark verifies IPv4's checksum. The scapy tests cover the ICRC, which tshark
//! does not verify.

mod cases;
mod names;

use std::net::Ipv4Addr;
use std::process::Command;

use crate::tshark_agrees::pdml::{self, Dissection};
use cases::{Case, Object, cases};
use verbatim_capture::pcapng::{LinkType, Packet as Captured, Section, Writer};
use verbatim_tests::oracle::{available, elements};
use verbatim_wire::{Field, Medium, Opcode, Packet, Style};

const INSTALL: &str = "apt-get install tshark";

/// Returns a capture of all packets, on an interface of each kind.
fn capture<'a>(packets: impl Iterator<Item = (Medium, &'a [u8])>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let ethernet = writer.interface(LinkType::Ethernet, "eth", "").unwrap();
    let infiniband = writer.interface(LinkType::InfiniBand, "ib", "").unwrap();
    for (medium, bytes) in packets {
        let packet = Captured {
            interface: if medium == Medium::Ethernet {
                ethernet
            } else {
                infiniband
            },
            nanoseconds: 0,
            direction: None,
            bytes,
            original_length: bytes.len(),
            comments: &[],
        };
        writer.packet(&packet).unwrap();
    }
    writer.into_inner()
}

fn tshark(capture: &[u8]) -> Vec<Dissection> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), capture).unwrap();
    let output = Command::new("tshark")
        .args(["-n", "-T", "pdml", "-o", "ip.check_checksum:TRUE"])
        .args(names::GUESSES.iter().flat_map(|guess| ["--disable-protocol", *guess]))
        .arg("-r")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    pdml::read(&String::from_utf8(output.stdout).unwrap())
}

/// Returns a value as bytes without leading zeros, so that numbers and addresses compare alike.
fn canonical(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|&byte| byte == 0).collect()
}

/// Parses a text that tshark shows as a value.
fn shown_value(shown: &str) -> Option<Vec<u8>> {
    if let Some(number) = pdml::number(shown) {
        return Some(canonical(&number.to_be_bytes()));
    }
    if let Ok(address) = shown.parse::<Ipv4Addr>() {
        return Some(canonical(&address.octets()));
    }
    let octets: Option<Vec<u8>> = pdml::octets(shown)?
        .into_iter()
        .map(|octet| u8::try_from(octet).ok())
        .collect();
    Some(canonical(&octets?))
}

fn our_value(field: &Field, bytes: &[u8]) -> Vec<u8> {
    let all = elements(field, bytes);
    match field.style {
        Style::Octets => canonical(&all.iter().map(|octet| octet.to_be_bytes()[7]).collect::<Vec<_>>()),
        _ => canonical(&all[0].to_be_bytes()),
    }
}

/// Returns the fields that tshark shows with another value, or does not show.
fn disagreements(case: &Case, dissection: &Dissection) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |theirs: &str, ours: Vec<u8>| {
        let shown = dissection.shown(theirs);
        // tshark shows some fields twice: as a tree, and as the tree's only branch.
        let same = |show: &&str| shown_value(show).as_ref() == Some(&ours);
        if shown.is_empty() || !shown.iter().all(same) {
            found.push(format!("{theirs}: tshark {shown:?}, ours {ours:02x?}"));
        }
    };
    let understood = names::not_understood(case.opcode).is_none();
    let behind: &[Object] = if understood {
        &case.from_bth
    } else {
        &case.from_bth[..1]
    };
    for object in case.before_bth.iter().chain(behind) {
        let names = names::NAMES.iter().find(|names| names.object == object.name);
        let names = names.unwrap_or_else(|| panic!("no names for {}", object.name));
        for field in object.fields {
            if let Some(theirs) = names.theirs(field) {
                compare(&theirs, our_value(field, &object.bytes));
            }
        }
    }
    let seen = Packet::parse(case.medium, &case.bytes).unwrap();
    if seen.ipv4().is_some() {
        compare("ip.checksum.status", vec![1]); // 1 means good
    }
    if understood {
        compare("infiniband.invariant.crc", canonical(&seen.icrc().unwrap()));
        if let Some(vcrc) = seen.vcrc() {
            compare("infiniband.variant.crc", canonical(&vcrc));
        }
    }
    if understood && dissection.is_malformed() {
        found.push("malformed".into());
    }
    found
}

#[test]
fn tshark_agrees_on_every_header() {
    if !available("tshark", INSTALL) {
        return;
    }
    let cases = cases();
    let dissections = tshark(&capture(cases.iter().map(|case| (case.medium, case.bytes.as_slice()))));
    assert_eq!(dissections.len(), cases.len());
    let mut report = Vec::new();
    for (case, dissection) in cases.iter().zip(&dissections) {
        let seen = Packet::parse(case.medium, &case.bytes).unwrap();
        let found = disagreements(case, dissection);
        report.extend(found.into_iter().map(|line| format!("{}, {seen}: {line}", seen.form())));
    }
    let total = report.len();
    report.truncate(40);
    assert!(report.is_empty(), "{total} disagreements:\n{}", report.join("\n"));
}

#[test]
fn notices_any_wrong_header_bit() {
    if !available("tshark", INSTALL) {
        return;
    }
    for (medium, opcode) in [
        (Medium::Ethernet, Opcode::RC_READ_RESPONSE_ONLY),
        (Medium::InfiniBand, Opcode::RC_COMPARE_SWAP),
    ] {
        let sound = cases()
            .into_iter()
            .find(|case| (case.medium, case.opcode) == (medium, opcode))
            .unwrap();
        let headers = Packet::parse(medium, &sound.bytes).unwrap();
        let offsets = headers.offsets();
        // Flip each bit from the byte after the BTH's opcode to the payload. The opcode determines the headers.
        let bits = 8 * (offsets.bth + 1)..8 * offsets.payload;
        let broken: Vec<Vec<u8>> = bits
            .clone()
            .map(|bit| {
                let mut bytes = sound.bytes.clone();
                bytes[bit / 8] ^= 0x80 >> (bit % 8);
                bytes
            })
            .collect();
        let dissections = tshark(&capture(broken.iter().map(|bytes| (medium, bytes.as_slice()))));
        let unnoticed: Vec<usize> = bits
            .zip(&dissections)
            .filter(|(_, dissection)| disagreements(&sound, dissection).is_empty())
            .map(|(bit, _)| bit - 8 * offsets.bth)
            .collect();
        // The unnoticed bits are FECN, BECN and the reserved bits beside them.
        assert_eq!(unnoticed, (32..40).collect::<Vec<_>>(), "{opcode}");
    }
}

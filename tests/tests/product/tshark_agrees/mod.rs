//! Checks that Wireshark reads our captures, and shows our values in our fields.
//!
//! Packets with random field values, reserved bits included, go through the capture writer and tshark. The tests
//! compare each field that tshark shows. tshark does not verify the ICRC, so the tests only check the place of its
//! bytes.

mod cases;
mod names;
pub(crate) mod pdml;

use std::process::Command;

use cases::{Case, Object, cases};
use pdml::Dissection;
use verbatim_capture::pcapng::{Direction, LinkType, Packet, Section, Writer};
use verbatim_tests::oracle::{available, elements};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{AttributeId, Bth, Deth, Layout, Lid, Lrh, Mad, MadHeaders, Method, PortInfo, Style, mad_packet};

const INSTALL: &str = "apt-get install tshark";

/// Returns a capture of native InfiniBand packets.
fn capture<'a>(packets: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let interface = writer.interface(LinkType::InfiniBand, "port", "").unwrap();
    for bytes in packets {
        let packet = Packet {
            interface,
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
        .args(["-n", "-T", "pdml", "-r"])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    pdml::read(&String::from_utf8(output.stdout).unwrap())
}

/// Returns the fields that tshark shows with another value, or does not show.
fn disagreements(case: &Case, dissection: &Dissection) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |theirs: &str, style: Style, ours: Vec<u64>| {
        let shown = dissection.shown(theirs);
        if shown.is_empty() && dissection.is_malformed() {
            return; // tshark stopped before this field; the caller checks whether this case is known as malformed
        }
        let read: Option<Vec<u64>> = match style {
            Style::Octets => shown.first().and_then(|show| pdml::octets(show)),
            Style::Text => shown.first().map(|show| show.bytes().map(u64::from).collect()),
            _ => shown.iter().map(|show| pdml::number(show)).collect(),
        };
        if read.as_ref() != Some(&ours) {
            found.push(format!("{theirs}: tshark {shown:?}, ours {ours:x?}"));
        }
    };
    for object in &case.objects {
        for field in object.fields {
            let ours = elements(field, &object.bytes);
            let mut others = object
                .names
                .others
                .iter()
                .filter(|(name, ..)| *name == field.name)
                .peekable();
            let skipped =
                field.style == Style::Reserved || object.names.not_shown.iter().any(|(name, _)| *name == field.name);
            if others.peek().is_none() && !skipped {
                let theirs = format!("{}{}", object.names.prefix, field.name.to_lowercase());
                compare(&theirs, field.style, ours);
            } else {
                for (_, theirs, part) in others {
                    compare(theirs, field.style, part.of(&ours));
                }
            }
        }
    }
    let without_crcs = |object: &Object| names::WITHOUT_CRCS.contains(&object.names.object);
    if !case.objects.iter().any(without_crcs) {
        let end = case.packet.len();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let (icrc, vcrc) = (&case.packet[end - 6..end - 2], &case.packet[end - 2..]);
        compare("infiniband.invariant.crc", Style::Value, vec![number(icrc)]);
        compare("infiniband.variant.crc", Style::Value, vec![number(vcrc)]);
    }
    found
}

#[test]
fn tshark_agrees_on_every_field() {
    if !available("tshark", INSTALL) {
        return;
    }
    let cases = cases();
    let packets = cases.iter().map(|case| case.packet.as_slice());
    let dissections = tshark(&capture(packets));
    assert_eq!(dissections.len(), cases.len());

    let mut report = Vec::new();
    for (case, dissection) in cases.iter().zip(&dissections) {
        let mut found = disagreements(case, dissection);
        if dissection.is_malformed() && !case.known_malformed {
            found.push("malformed".into());
        }
        report.extend(found.into_iter().map(|line| format!("{}: {line}", case.what)));
    }
    let total = report.len();
    report.truncate(40);
    assert!(report.is_empty(), "{total} disagreements:\n{}", report.join("\n"));
}

#[test]
fn notices_any_wrong_bit_tshark_shows() {
    if !available("tshark", INSTALL) {
        return;
    }
    let sound = cases()
        .into_iter()
        .find(|case| case.what.starts_with("SubnGet(PortInfo") && case.packet[1] & 3 == 2)
        .unwrap();
    let data = Lrh::SIZE + Bth::SIZE + Deth::SIZE + 64;
    let packets: Vec<Vec<u8>> = (0..PortInfo::SIZE * 8)
        .map(|bit| {
            let mut packet = sound.packet.clone();
            packet[data + bit / 8] ^= 0x80 >> (bit % 8);
            packet
        })
        .collect();
    let dissections = tshark(&capture(packets.iter().map(Vec::as_slice)));
    for (bit, dissection) in dissections.iter().enumerate() {
        let field = PortInfo::FIELDS
            .iter()
            .find(|field| (field.offset..field.offset + field.width).contains(&bit))
            .unwrap();
        let shown = field.style != Style::Reserved
            && !names::ATTRIBUTES
                .iter()
                .flat_map(|names| names.not_shown)
                .any(|(name, _)| *name == field.name);
        let found = disagreements(&sound, dissection);
        assert_eq!(!found.is_empty(), shown, "{} {found:?}", field.name);
    }
}

#[test]
fn tshark_agrees_on_capability_names() {
    if !available("tshark", INSTALL) {
        return;
    }
    let headers = MadHeaders::subnet_management(Lid(1), Lid(2));
    let packets: Vec<Vec<u8>> = (0..32)
        .map(|bit| {
            let info = PortInfo::default().with_capability_mask(CapabilityMask(1 << bit));
            let mad = Mad::lid_routed(Method::GET_RESP, AttributeId::PORT_INFO, 0);
            mad_packet(&headers, &mad.with_data(info.bytes()))
        })
        .collect();
    let dissections = tshark(&capture(packets.iter().map(Vec::as_slice)));
    let prefix = "infiniband.portinfo.capabilitymask.";
    let mut named = 0;
    for (bit, dissection) in (0..32).zip(dissections) {
        let set: Vec<&str> = dissection
            .fields
            .iter()
            .filter(|(name, show)| name.starts_with(prefix) && pdml::number(show) == Some(1))
            .map(|(name, _)| {
                let name = name[prefix.len()..].trim_start_matches("is");
                let name = name.trim_end_matches("supported");
                let other = names::CAPABILITIES.iter().find(|(theirs, _)| *theirs == name);
                other.map_or(name, |(_, ours)| ours)
            })
            .collect();
        let words = CapabilityMask(1 << bit).to_string().to_lowercase().replace('_', "");
        let ours = words.split(['(', ')']).nth(1);
        if let [theirs] = set[..] {
            assert_eq!(ours, Some(theirs), "bit {bit}");
            named += 1;
        } else {
            assert!(set.is_empty(), "bit {bit} has several names: {set:?}");
        }
    }
    assert!(named >= 24, "tshark 4.0 names 24 bits, this one {named}");
}

#[test]
fn tshark_shows_packet_metadata() {
    if !available("tshark", INSTALL) {
        return;
    }
    let section = Section {
        hardware: "a rig",
        application: "verbatim",
        comments: &["the whole run".to_string()],
        ..Section::default()
    };
    let mut writer = Writer::new(Vec::new(), &section).unwrap();
    let ethernet = writer.interface(LinkType::Ethernet, "eth0", "").unwrap();
    let port = writer.interface(LinkType::InfiniBand, "mlx5_0/1", "").unwrap();
    let mad = Mad::lid_routed(Method::GET, AttributeId::NODE_INFO, 0);
    let headers = MadHeaders::subnet_management(Lid(1), Lid(2));
    let smp = mad_packet(&headers, &mad);
    let comments = ["C14-16: step 3".to_string(), "LRH, BTH: <reconstructed>".to_string()];
    for (interface, bytes, direction) in [
        (port, &smp[..], Direction::Out),
        (ethernet, &[0xFF; 60][..], Direction::In),
    ] {
        let packet = Packet {
            interface,
            nanoseconds: 1_700_000_000_123_456_789,
            direction: Some(direction),
            bytes,
            original_length: bytes.len(),
            comments: &comments,
        };
        writer.packet(&packet).unwrap();
    }
    let dissections = tshark(&writer.into_inner());
    for (dissection, name, direction, length) in [
        (&dissections[0], "mlx5_0/1", 2, smp.len()),
        (&dissections[1], "eth0", 1, 60),
    ] {
        assert_eq!(dissection.shown("frame.comment"), comments);
        assert_eq!(dissection.shown("frame.interface_name"), [name]);
        assert_eq!(dissection.shown("frame.len"), [length.to_string()]);
        assert!(
            dissection.shown("frame.time_epoch")[0].ends_with("1700000000.123456789")
                || dissection.shown("frame.time_epoch")[0].contains(":20.123456789"),
            "{:?}",
            dissection.shown("frame.time_epoch")
        );
        let flags = dissection.shown("frame.packet_flags_direction");
        assert_eq!(
            flags.iter().map(|show| pdml::number(show)).collect::<Vec<_>>(),
            [Some(direction)]
        );
    }
}

#[test]
fn exceptions_name_our_fields() {
    for case in cases() {
        for object in case.objects {
            let known = |name: &str| object.fields.iter().any(|field| field.name == name);
            let others = object.names.others.iter().map(|(name, ..)| name);
            for name in others.chain(object.names.not_shown.iter().map(|(name, _)| name)) {
                assert!(known(name), "{} has no field {name}", object.names.object);
            }
        }
    }
}

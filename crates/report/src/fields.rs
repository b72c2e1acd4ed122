//! The fields and bytes of a packet.

use std::fmt::Display;

use verbatim_record::{Entry, Frame};
use verbatim_wire::packet::{Medium, Packet};

use crate::counted::counted;

/// Returns the fields and bytes of a MAD or frame, or the output of a reset. Other entries have no detail.
pub(crate) fn detail(entry: &Entry) -> String {
    match bytes(entry) {
        Some(bytes) => format!("{}\n{}", fields(entry), hex(bytes)),
        None => fields(entry),
    }
}

/// Returns the bytes of a MAD or frame, in lines with offsets. Other entries have none.
pub(crate) fn dump(entry: &Entry) -> String {
    bytes(entry).map_or_else(String::new, hex)
}

fn bytes(entry: &Entry) -> Option<&[u8]> {
    match entry {
        Entry::Sent(sent) => Some(sent.mad.bytes()),
        Entry::Arrived(arrived) => Some(arrived.mad.bytes()),
        Entry::Frame(frame) => Some(&frame.bytes),
        _ => None,
    }
}

/// Returns the fields of a MAD or frame, or the output of a reset. Other entries have no fields.
pub(crate) fn fields(entry: &Entry) -> String {
    match entry {
        Entry::Sent(sent) => format!("{:?}\n", sent.mad),
        Entry::Arrived(arrived) => format!("{:?}\n", arrived.mad),
        Entry::Frame(frame) => frame_fields(frame),
        Entry::KernelReport(report) => format!("{}\n", report.text),
        Entry::Reset(reset) => {
            let line = |name: &str, text: &str| match text {
                "" => String::new(),
                text => format!("{name}: {text}\n"),
            };
            let before = line("before the reset", &reset.silent);
            format!(
                "{before}{}{}",
                line("after the reset", &reset.after),
                line("output", &reset.output)
            )
        }
        _ => String::new(),
    }
}

/// Returns the medium of a frame. Only frames of native InfiniBand have a delimiter.
pub(crate) const fn medium(frame: &Frame) -> Medium {
    match frame.delimiter {
        Some(_) => Medium::InfiniBand,
        None => Medium::Ethernet,
    }
}

/// Lists the headers of a frame in the order of the packet.
fn frame_fields(frame: &Frame) -> String {
    let packet = match Packet::parse(medium(frame), &frame.bytes) {
        Ok(packet) => packet,
        Err(error) => return format!("{error}\n"),
    };
    let mut out = String::new();
    add(&mut out, packet.ethernet());
    add(&mut out, packet.vlan());
    add(&mut out, packet.lrh());
    add(&mut out, packet.ipv4());
    add(&mut out, packet.ipv6());
    add(&mut out, packet.grh());
    add(&mut out, packet.udp());
    add(&mut out, Some(packet.bth()));
    add(&mut out, packet.rdeth());
    add(&mut out, packet.deth());
    add(&mut out, packet.xrceth());
    add(&mut out, packet.feth());
    add(&mut out, packet.reth());
    add(&mut out, packet.atomic());
    add(&mut out, packet.aeth());
    add(&mut out, packet.atomic_ack());
    add(&mut out, packet.imm());
    add(&mut out, packet.ieth());
    out.push_str(&format!(
        "payload: {}\n",
        counted(packet.payload().len() as u64, "byte", "bytes")
    ));
    if let Some(icrc) = packet.icrc() {
        let is = if packet.icrc_is_right() { "right" } else { "wrong" };
        out.push_str(&format!("ICRC: {} ({is})\n", octets(&icrc)));
    }
    if let (Some(vcrc), Some(is_right)) = (packet.vcrc(), packet.vcrc_is_right()) {
        let is = if is_right { "right" } else { "wrong" };
        out.push_str(&format!("VCRC: {} ({is})\n", octets(&vcrc)));
    }
    out
}

fn add(out: &mut String, header: Option<impl Display>) {
    if let Some(header) = header {
        out.push_str(&format!("{header}\n"));
    }
}

fn octets(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats bytes as lines of 16, each after its offset.
fn hex(bytes: &[u8]) -> String {
    let line = |(number, line): (usize, &[u8])| {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", number * 16, bytes.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

//! `verbatim inspect` on generated captures. The tests cover every check alone and in pairs, every link type, and files
//! that are not captures.

#[path = "../../../../crates/oracle/src/packet_check/tests/damage.rs"]
mod damage;

mod cases;
mod ends;
mod example;
mod generated;
mod kinds;
mod large;
mod live;
mod pairs;
mod pipe;
mod rc;

use serde_json::Value;
use verbatim_capture::pcapng::{LinkType, Packet, Section, Writer};
use verbatim_oracle::packet_check as link;
use verbatim_tests::product::Output;

/// The options that describe the port of `damage::port`.
const PORT: &str = "--lid 8 --lmc 2 --mtu-cap 256 --vls 8 --p-keys 0x8001";

/// Returns a pcapng capture with these packets, a microsecond apart.
fn pcapng<'a>(link_type: LinkType, packets: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let interface = writer.interface(link_type, "port", "").unwrap();
    for (number, bytes) in packets.into_iter().enumerate() {
        let packet = Packet {
            interface,
            nanoseconds: number as u64 * 1000,
            direction: None,
            bytes,
            original_length: bytes.len(),
            comments: &[],
        };
        writer.packet(&packet).unwrap();
    }
    writer.into_inner()
}

/// Returns the header of a pcap file: little-endian, microseconds.
fn pcap_header(link_type: u32) -> Vec<u8> {
    let mut header = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0];
    header.extend([0; 8]);
    header.extend(262_144_u32.to_le_bytes());
    header.extend(link_type.to_le_bytes());
    header
}

/// Returns a packet's record in a pcap file.
fn pcap_packet(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&[0; 8], &length[..], &length[..], bytes].concat()
}

/// Returns the documents of the packets, and the summary from the last document.
fn documents(output: &Output) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        .collect();
    let last = lines.pop().unwrap_or_else(|| panic!("nothing on stdout: {output}"));
    (lines, last["summary"].clone())
}

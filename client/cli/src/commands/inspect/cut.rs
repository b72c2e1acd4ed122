//! Packets whose payload the capture truncated, as with `tcpdump -s 128`.

use verbatim_wire::packet::{Medium, Packet, mend_icrc};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const UDP: usize = 8;

/// Copies a truncated RoCEv2 packet into `whole` and completes the copy: missing payload is 0, the UDP checksum is
/// absent, and the ICRC is correct. Returns false if the packet is not truncated, or if headers are missing too.
pub(super) fn complete(captured: &[u8], whole: &mut Vec<u8>) -> bool {
    let Some(frame) = length(captured) else {
        return false;
    };
    if frame.end <= captured.len() {
        return false;
    }
    whole.clear();
    whole.extend_from_slice(captured);
    whole.resize(frame.end, 0);
    if let Some(checksum) = whole.get_mut(frame.udp + UDP - 2..frame.udp + UDP) {
        checksum.fill(0);
    }
    let headers = match Packet::parse(Medium::Ethernet, whole) {
        Ok(packet) => packet.offsets().padding - packet.payload().len(),
        Err(_) => return false,
    };
    headers <= captured.len() && mend_icrc(Medium::Ethernet, whole).is_ok()
}

struct Frame {
    /// Offset of the UDP header.
    udp: usize,
    /// End of the packet, from the length in its IP header.
    end: usize,
}

fn length(bytes: &[u8]) -> Option<Frame> {
    let number = |at: usize| {
        let two = bytes.get(at..at + 2)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*two))
    };
    let mut ip = ETHERNET;
    while matches!(number(ip - 2)?, 0x8100 | 0x88A8) {
        ip += TAG;
    }
    match number(ip - 2)? {
        0x0800 => Some(Frame {
            udp: ip + usize::from(bytes.get(ip)? & 0xF) * 4,
            end: ip + usize::from(number(ip + 2)?),
        }),
        0x86DD => Some(Frame {
            udp: ip + 40,
            end: ip + 40 + usize::from(number(ip + 4)?),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_wire::packet::{Network, Opcode, Station, Transport, packet};

    fn frame(payload: usize) -> Vec<u8> {
        let station = |last: u8| Station {
            mac: verbatim_wire::MacAddress([2, 0, 0, 0, 0, last]),
            ip: std::net::Ipv4Addr::new(10, 0, 0, last).into(),
            udp_port: 0xC000,
        };
        let mut transport = Transport {
            payload: (0..payload).map(|at| at as u8 | 1).collect(),
            ..Transport::default()
        };
        transport.bth = transport.bth.with_opcode(Opcode::RC_SEND_ONLY);
        packet(&Network::roce_v2(&station(1), &station(2)), &transport)
    }

    #[test]
    fn completes_packets_truncated_in_the_payload() {
        let sent = frame(256);
        let headers = ETHERNET + 20 + UDP + 12;
        let mut whole = Vec::new();
        for cut in headers..sent.len() {
            assert!(complete(&sent[..cut], &mut whole), "cut after {cut} bytes");
            let packet = Packet::parse(Medium::Ethernet, &whole).unwrap();
            assert!(
                packet.icrc_is_right() && whole.len() == sent.len(),
                "cut after {cut} bytes"
            );
            assert_eq!(packet.payload().len(), 256);
        }
    }

    #[test]
    fn completes_packets_with_two_vlan_tags() {
        let mut sent = frame(256);
        sent.splice(12..12, [0x88, 0xA8, 0, 10, 0x81, 0, 0, 11]);
        let mut whole = Vec::new();
        assert!(complete(&sent[..sent.len() - 100], &mut whole));
        let packet = Packet::parse(Medium::Ethernet, &whole).unwrap();
        assert!(packet.icrc_is_right() && whole.len() == sent.len());
    }

    #[test]
    fn needs_all_headers_to_complete_a_packet() {
        let sent = frame(256);
        let mut whole = Vec::new();
        for cut in 0..ETHERNET + 20 + UDP + 12 {
            assert!(!complete(&sent[..cut], &mut whole), "cut after {cut} bytes");
        }
        assert!(!complete(&sent, &mut whole), "nothing is missing");
    }
}

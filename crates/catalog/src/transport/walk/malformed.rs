//! Malformed packets: sound packets with altered headers, lengths or bytes.
//!
//! Each packet has the right ICRC, unless its row says otherwise: most devices drop a packet with a wrong ICRC before
//! they read the altered field.

use verbatim_tester::Tester;
use verbatim_tester::peer::Channel;
use verbatim_wire::Layout;
use verbatim_wire::packet::{
    Aeth, AtomicAckEth, Bth, Deth, Medium, Offsets, Opcode, Packet, Psn, QKey, Qpn, Syndrome, Transport, edit,
    mend_ip_checksum, mend_lengths,
};
use verbatim_wire::values::Hex64;
use verbatim_wire::{Ipv4, Ipv6, Udp};

use crate::transport::c09_header_validation::no_qp;
use crate::transport::rc::ask::{self, Message, mtu};

/// Length of the ICRC in bytes.
const ICRC: usize = 4;

/// A packet, and the ways in which it is broken. The texts are the values of the rows' conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed {
    pub(super) packet: &'static str,
    /// Length of the payload in bytes. For a READ, the length that it asks for.
    pub(super) length: u32,
    /// Opcode instead of the packet's own. The headers stay.
    pub(super) opcode: Option<Opcode>,
    /// PadCnt instead of the right one. The bytes stay.
    pub(super) padding: Option<u8>,
    pub(super) cut: &'static str,
    pub(super) headers: &'static str,
    pub(super) lengths: &'static str,
    pub(super) dma_len: &'static str,
    pub(super) address: &'static str,
    pub(super) tver: u8,
    pub(super) psn: &'static str,
    pub(super) to: &'static str,
    pub(super) asks_for_ack: bool,
    pub(super) has_right_icrc: bool,
    /// Whether the packet comes after the First of a WRITE.
    pub(super) is_inside: bool,
    /// Whether a receive is posted.
    pub(super) has_receive: bool,
}

/// The state of the connection on which a malformed packet is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct On<'a> {
    pub(super) channel: &'a Channel,
    /// PSN of the peer's next request.
    pub(super) next: Psn,
    /// Last PSN of the DUT's newest request.
    pub(super) answered: Psn,
    /// Offset in the DUT's memory that the packet accesses.
    pub(super) place: u32,
}

impl Malformed {
    /// Returns whether the packet is a response, which the DUT gets as requester.
    pub(super) fn is_response(packet: &str) -> bool {
        matches!(packet, "ACK" | "READ response" | "ATOMIC response")
    }

    /// Returns whether the packet has extended headers.
    pub(super) fn has_headers(packet: &str) -> bool {
        packet != "SEND"
    }

    /// Builds the frame.
    pub(super) fn frame(&self, t: &Tester<'_>, on: On<'_>) -> Vec<u8> {
        let channel = on.channel;
        let mut packet = self.sound(t, on);
        let (region, length) = (channel.memory.address, u64::from(channel.memory.length));
        let va = match self.address {
            "the region's last 4 bytes" => Some(region.wrapping_add(length - 4)),
            "behind the region" => Some(region.wrapping_add(length)),
            "0" => Some(0),
            "the last 4 addresses" => Some(u64::MAX - 3),
            _ => None,
        };
        if let Some(va) = va {
            packet.reth = packet.reth.map(|reth| reth.with_va(Hex64(va)));
            packet.atomic = packet.atomic.map(|atomic| atomic.with_va(Hex64(va)));
        }
        packet.reth = packet.reth.map(|reth| match self.dma_len {
            "0" => reth.with_dma_len(0),
            "a byte more" => reth.with_dma_len(reth.dma_len().wrapping_add(1)),
            "2 GiB" => reth.with_dma_len(1 << 31),
            "4 GiB less 1" => reth.with_dma_len(u32::MAX),
            _ => reth,
        });
        packet.bth = packet.bth.with_tver(self.tver).with_ack_request(self.asks_for_ack);
        packet.bth = match self.to {
            "QP 0" => packet.bth.with_dest_qp(Qpn(0)),
            "QP 1" => packet.bth.with_dest_qp(Qpn(1)),
            "the multicast QP" => packet.bth.with_dest_qp(Qpn(0x00FF_FFFF)),
            "no queue pair" => packet.bth.with_dest_qp(no_qp(channel)),
            _ => packet.bth,
        };
        self.broken(channel.frame(&packet))
    }

    /// Builds the packet before it is broken.
    fn sound(&self, t: &Tester<'_>, on: On<'_>) -> Transport {
        let On {
            channel,
            next: psn,
            answered,
            place,
        } = on;
        let psn = match self.psn {
            "of the last request" => psn.minus(1),
            "2 ahead" => psn.plus(2),
            _ => psn,
        };
        let bytes = |length: u32| ask::random_bytes(t, "malformed", length);
        let response = |opcode: Opcode, payload: Vec<u8>| Transport {
            aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK)),
            payload,
            ..channel.transport(opcode, answered)
        };
        let message = match self.packet {
            "SEND with Immediate" => Message::send(channel, psn, &bytes(self.length)).with_imm(0x0BAD_0BAD),
            "WRITE" => Message::write(channel, psn, place, &bytes(self.length)),
            "WRITE with Immediate" => Message::write(channel, psn, place, &bytes(self.length)).with_imm(0x0BAD_0BAD),
            "WRITE First" => Message::write(channel, psn, place, &bytes(mtu(channel) + 8)),
            "READ" => Message::read(channel, psn, place, self.length),
            "CmpSwap" => Message::compare_swap(channel, psn, place, (0, 1)),
            "FetchAdd" => Message::fetch_add(channel, psn, place, 1),
            "ACK" => return response(Opcode::RC_ACKNOWLEDGE, Vec::new()),
            "READ response" => return response(Opcode::RC_READ_RESPONSE_ONLY, bytes(self.length)),
            "ATOMIC response" => {
                let packet = response(Opcode::RC_ATOMIC_ACKNOWLEDGE, Vec::new());
                let atomic_ack = Some(AtomicAckEth::default());
                return Transport { atomic_ack, ..packet };
            }
            "UD SEND" => {
                let deth = Deth::default()
                    .with_q_key(QKey(0x1111_1111))
                    .with_src_qp(channel.own_qpn);
                return Transport {
                    deth: Some(deth),
                    payload: bytes(self.length),
                    ..channel.transport(Opcode::UD_SEND_ONLY, psn)
                };
            }
            _ => Message::send(channel, psn, &bytes(self.length)),
        };
        message.packets.into_iter().next().unwrap_or_default()
    }

    /// Breaks the bytes of a frame, and then mends its lengths, its IPv4 checksum and its ICRC, where the row does not
    /// break them.
    fn broken(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let Ok(offsets) = Packet::parse(Medium::Ethernet, &frame).map(|packet| packet.offsets()) else {
            return frame;
        };
        let headers = offsets.bth + Bth::SIZE..offsets.payload;
        frame.truncate(frame.len() - ICRC);
        match self.headers {
            "missing" => drop(frame.drain(headers.clone())),
            "twice" => {
                let copy = frame[headers.clone()].to_vec();
                drop(frame.splice(headers.start..headers.start, copy));
            }
            _ => {}
        }
        let has_icrc = match self.cut {
            "the ICRC" => false,
            "within the BTH" => {
                frame.truncate(offsets.bth + 8);
                false
            }
            "behind the BTH" => {
                frame.truncate(headers.start);
                true
            }
            "within the extended headers" => {
                frame.truncate(headers.start + headers.len() / 2);
                true
            }
            "the extended headers' last 4 bytes" => {
                frame.truncate(headers.end - 4);
                true
            }
            "the last byte" => {
                frame.truncate(frame.len() - 1);
                true
            }
            _ => true,
        };
        if has_icrc {
            frame.extend([0; ICRC]);
        }
        edit(&mut frame, offsets.bth, |bth: Bth| {
            let bth = bth.with_pad_count(self.padding.unwrap_or(bth.pad_count()));
            bth.with_opcode(self.opcode.unwrap_or(bth.opcode()))
        });
        let _ = mend_lengths(Medium::Ethernet, &mut frame);
        let udp = |length: fn(u16) -> u16| move |udp: Udp| udp.with_length(length(udp.length()));
        let at_udp = offsets.udp.unwrap_or(usize::MAX);
        let ip = |frame: &mut Vec<u8>, by: i16| {
            let [ipv4, ipv6] = [offsets.ipv4, offsets.ipv6].map(|at| at.unwrap_or(usize::MAX));
            edit(frame, ipv4, |ip: Ipv4| {
                ip.with_total_length(ip.total_length().wrapping_add_signed(by))
            });
            edit(frame, ipv6, |ip: Ipv6| {
                ip.with_payload_length(ip.payload_length().wrapping_add_signed(by))
            });
        };
        match self.lengths {
            "UDP 4 more" => edit(&mut frame, at_udp, udp(|length| length + 4)),
            "UDP 4 fewer" => edit(&mut frame, at_udp, udp(|length| length - 4)),
            "UDP of no bytes" => edit(&mut frame, at_udp, udp(|_| 0)),
            "UDP of its header" => edit(&mut frame, at_udp, udp(|_| 8)),
            "IP 4 more" => ip(&mut frame, 4),
            "IP 4 fewer" => ip(&mut frame, -4),
            _ => {}
        }
        let _ = mend_ip_checksum(Medium::Ethernet, &mut frame);
        let icrc = has_icrc.then(|| frame.len() - ICRC);
        Offsets { icrc, ..offsets }.mend_icrc(&mut frame);
        if let Some(last) = frame.last_mut().filter(|_| !self.has_right_icrc) {
            *last ^= 1;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use verbatim_wire::packet::{Network, Reth, Station, packet};

    use super::*;

    const SOUND: Malformed = Malformed {
        packet: "WRITE",
        length: 8,
        opcode: None,
        padding: None,
        cut: "nothing",
        headers: "once",
        lengths: "right",
        dma_len: "right",
        address: "right",
        tver: 0,
        psn: "the expected PSN",
        to: "the queue pair",
        asks_for_ack: true,
        has_right_icrc: true,
        is_inside: false,
        has_receive: true,
    };

    /// Returns the frame of a WRITE of 8 bytes.
    fn write() -> Vec<u8> {
        let station = Station {
            mac: Default::default(),
            ip: [10, 0, 0, 1].into(),
            udp_port: 50_000,
        };
        let transport = Transport {
            bth: Bth::default().with_opcode(Opcode::RC_WRITE_ONLY),
            reth: Some(Reth::default().with_dma_len(8)),
            payload: vec![1; 8],
            ..Transport::default()
        };
        packet(&Network::roce_v2(&station, &station), &transport)
    }

    #[test]
    fn breaks_only_what_the_row_names() {
        let whole = write();
        assert_eq!(SOUND.broken(whole.clone()), whole);
        let of = |malformed: Malformed| malformed.broken(whole.clone());
        let icrc_is_right = |frame: &[u8]| Packet::parse(Medium::Ethernet, frame).unwrap().icrc_is_right();
        let missing = |frame: &[u8]| Packet::parse(Medium::Ethernet, frame).unwrap().missing_header();
        let padded = of(Malformed {
            padding: Some(3),
            ..SOUND
        });
        assert_eq!(Packet::parse(Medium::Ethernet, &padded).unwrap().bth().pad_count(), 3);
        assert!(icrc_is_right(&padded) && padded.len() == whole.len());
        let cut = |cut: &'static str| of(Malformed { cut, ..SOUND });
        let half = cut("within the extended headers");
        assert!(icrc_is_right(&half) && missing(&half) == Some("RETH"));
        assert!(!icrc_is_right(&cut("the ICRC")));
        let twice = of(Malformed {
            headers: "twice",
            ..SOUND
        });
        assert!(icrc_is_right(&twice) && twice.len() == whole.len() + 16);
        let long = of(Malformed {
            lengths: "IP 4 more",
            ..SOUND
        });
        assert!(Packet::parse(Medium::Ethernet, &long).is_err());
        let wrong = of(Malformed {
            has_right_icrc: false,
            ..SOUND
        });
        assert!(!icrc_is_right(&wrong));
    }
}

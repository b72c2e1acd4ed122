//! Generates and writes a capture of sound reliable connections. The connections take turns. Each turn has a SEND and
//! an RDMA WRITE of several packets, an RDMA READ and a FetchAdd, each with its response.

use std::io::{self, Write};

use verbatim_wire::packet::packet;
use verbatim_wire::values::Hex64;
use verbatim_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, MacAddress, Network, Opcode, PKey, Psn, Qpn, RKey, Reth, Station, Syndrome,
    Transport,
};

/// Path MTU in bytes. Each packet with a payload has this size of payload.
const PMTU: usize = 1024;
const CONNECTIONS: u32 = 64;

/// Generates the packets of a pcap file with nanosecond timestamps.
pub(crate) struct Traffic {
    forth: Network,
    back: Network,
    /// Packets written so far.
    packets: u32,
    round: u32,
}

impl Traffic {
    pub(crate) fn begin(out: &mut impl Write) -> io::Result<Self> {
        let station = |last| Station {
            mac: MacAddress([2, 0, 0, 0, 0, last]),
            ip: std::net::IpAddr::from([10, 0, 0, last]),
            udp_port: 0xC001,
        };
        let header: [u32; 6] = [0xA1B2_3C4D, 0x0004_0002, 0, 0, 262_144, 1];
        out.write_all(&header.map(u32::to_le_bytes).concat())?;
        Ok(Self {
            forth: Network::roce_v2(&station(1), &station(2)),
            back: Network::roce_v2(&station(2), &station(1)),
            packets: 0,
            round: 0,
        })
    }

    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Writes four messages on each connection.
    pub(crate) fn round(&mut self, out: &mut impl Write) -> io::Result<()> {
        for connection in 0..CONNECTIONS {
            for (is_request, transport) in exchange(connection, self.round) {
                let network = if is_request { &self.forth } else { &self.back };
                let frame = packet(network, &transport);
                let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
                // One packet in each microsecond.
                let record: [u32; 4] = [
                    self.packets / 1_000_000,
                    self.packets % 1_000_000 * 1000,
                    length,
                    length,
                ];
                out.write_all(&record.map(u32::to_le_bytes).concat())?;
                out.write_all(&frame)?;
                self.packets += 1;
            }
        }
        self.round += 1;
        Ok(())
    }
}

/// Returns the packets of a connection in one round. The flag is true for the requester's packets.
fn exchange(connection: u32, round: u32) -> Vec<(bool, Transport)> {
    let (first_psn, msn) = (round * 8, round * 4 + 1);
    let payload = |of: u32| (0..PMTU).map(|at| (at as u32 ^ of).to_le_bytes()[0]).collect();
    let request = |opcode, psn: u32, asks| Transport {
        bth: bth(0x200 + connection, opcode, first_psn + psn).with_ack_request(asks),
        ..Transport::default()
    };
    let answer = |opcode, psn: u32, msn: u32| Transport {
        bth: bth(0x100 + connection, opcode, first_psn + psn),
        aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK).with_msn(msn & 0xFF_FFFF)),
        ..Transport::default()
    };
    let filled = |transport, of| Transport {
        payload: payload(of),
        ..transport
    };
    let r_key = RKey(0x1000 + connection);
    let reth = Reth::default()
        .with_va(Hex64(0x10_0000))
        .with_r_key(r_key)
        .with_dma_len(2 * PMTU as u32);
    let atomic = AtomicEth::default()
        .with_va(Hex64(0x20_0000))
        .with_r_key(r_key)
        .with_swap_add(Hex64(1));
    vec![
        (true, filled(request(Opcode::RC_SEND_FIRST, 0, false), round)),
        (true, filled(request(Opcode::RC_SEND_MIDDLE, 1, false), round + 1)),
        (true, filled(request(Opcode::RC_SEND_LAST, 2, true), round + 2)),
        (false, answer(Opcode::RC_ACKNOWLEDGE, 2, msn)),
        (
            true,
            Transport {
                reth: Some(reth),
                ..filled(request(Opcode::RC_WRITE_FIRST, 3, false), round)
            },
        ),
        (true, filled(request(Opcode::RC_WRITE_LAST, 4, true), round + 1)),
        (false, answer(Opcode::RC_ACKNOWLEDGE, 4, msn + 1)),
        (
            true,
            Transport {
                reth: Some(reth),
                ..request(Opcode::RC_READ_REQUEST, 5, true)
            },
        ),
        // The READ returns the bytes that the WRITE wrote.
        (false, filled(answer(Opcode::RC_READ_RESPONSE_FIRST, 5, msn + 2), round)),
        (
            false,
            filled(answer(Opcode::RC_READ_RESPONSE_LAST, 6, msn + 2), round + 1),
        ),
        (
            true,
            Transport {
                atomic: Some(atomic),
                ..request(Opcode::RC_FETCH_ADD, 7, true)
            },
        ),
        (
            false,
            Transport {
                atomic_ack: Some(AtomicAckEth::default().with_original(Hex64(round.into()))),
                ..answer(Opcode::RC_ATOMIC_ACKNOWLEDGE, 7, msn + 3)
            },
        ),
    ]
}

fn bth(dest_qp: u32, opcode: Opcode, psn: u32) -> Bth {
    Bth::default()
        .with_opcode(opcode)
        .with_p_key(PKey(0xFFFF))
        .with_dest_qp(Qpn(dest_qp))
        .with_psn(Psn::new(psn & 0xFF_FFFF))
}

//! Conversations between two queue pairs, packet by packet.

use std::net::IpAddr;

use verbatim_wire::packet::{Syndrome, packet};
use verbatim_wire::values::{Hex32, Hex64};
use verbatim_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, ImmDt, MacAddress, Network, Opcode, PKey, Psn, Qpn, RKey, Reth, RnrTimer,
    Station, Transport,
};

/// Path MTU of these conversations, in bytes.
pub(super) const PMTU: usize = 256;
/// Nanoseconds from one packet to the next.
const STEP: u64 = 1_000;

/// Frames in the order of a capture, each with its time in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct QpTrace {
    pub(super) frames: Vec<(u64, Vec<u8>)>,
    pub(super) now: u64,
    /// P_Key of both ends.
    pub(super) p_key: PKey,
}

impl Default for QpTrace {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            now: 0,
            p_key: PKey(0xFFFF),
        }
    }
}

/// End that sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender {
    A,
    B,
}
use Sender::{A, B};

fn station(last: u8) -> Station {
    Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip: IpAddr::from([10, 0, 0, last]),
        udp_port: 0xC001,
    }
}

/// First PSN of A's requests, which wrap around 2^24.
const A_PSN: Psn = Psn(0xFF_FFFC);
/// First PSN of B's requests.
const B_PSN: Psn = Psn(0x100);

impl QpTrace {
    /// Adds a packet.
    pub(super) fn says(&mut self, from: Sender, opcode: Opcode, psn: Psn, rest: Transport) {
        let (network, qpn) = match from {
            A => (Network::roce_v2(&station(1), &station(2)), Qpn(0x22)),
            B => (Network::roce_v2(&station(2), &station(1)), Qpn(0x11)),
        };
        let bth = rest
            .bth
            .with_opcode(opcode)
            .with_psn(psn)
            .with_dest_qp(qpn)
            .with_migrated(true)
            .with_p_key(self.p_key);
        self.now += STEP;
        self.frames
            .push((self.now, packet(&network, &Transport { bth, ..rest })));
    }

    pub(super) fn wait(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
    }

    /// Adds A's request with PSN offset `n`.
    pub(super) fn asks(&mut self, opcode: Opcode, n: u32, rest: Transport) {
        self.says(A, opcode, A_PSN.plus(n), rest);
    }

    /// Adds B's response to A's request with PSN offset `n`.
    pub(super) fn answers(&mut self, opcode: Opcode, n: u32, syndrome: Syndrome, msn: u32, rest: Transport) {
        let aeth =
            (opcode != Opcode::RC_READ_RESPONSE_MIDDLE).then(|| Aeth::default().with_syndrome(syndrome).with_msn(msn));
        self.says(B, opcode, A_PSN.plus(n), Transport { aeth, ..rest });
    }

    pub(super) fn ack(&mut self, n: u32, msn: u32) {
        self.answers(Opcode::RC_ACKNOWLEDGE, n, Syndrome::ACK, msn, Transport::default());
    }

    /// Adds A's acknowledgement of B's request with that PSN.
    pub(super) fn ack_of_a(&mut self, psn: Psn, msn: u32) {
        let aeth = Aeth::default().with_syndrome(Syndrome::ACK).with_msn(msn);
        let ack = Transport {
            aeth: Some(aeth),
            ..Transport::default()
        };
        self.says(A, Opcode::RC_ACKNOWLEDGE, psn, ack);
    }

    pub(super) fn nak(&mut self, n: u32, syndrome: Syndrome, msn: u32) {
        self.answers(Opcode::RC_ACKNOWLEDGE, n, syndrome, msn, Transport::default());
    }

    pub(super) fn send(&mut self, n: u32) {
        self.asks(Opcode::RC_SEND_ONLY, n, asking(bytes(64, n)));
    }

    /// Returns nearly all kinds of packets that two conforming ends may send.
    pub(super) fn of_everything() -> Self {
        let mut qp = Self::default();
        // A SEND of 2 1/2 packets, with immediate data and a solicited event.
        qp.asks(Opcode::RC_SEND_FIRST, 0, bytes(PMTU, 1));
        qp.asks(Opcode::RC_SEND_MIDDLE, 1, bytes(PMTU, 2));
        let last = asking(with_imm(bytes(101, 3)));
        let bth = last.bth.with_solicited_event(true);
        qp.asks(Opcode::RC_SEND_LAST_IMM, 2, Transport { bth, ..last });
        qp.ack(2, 1);
        // A WRITE of nearly the same length.
        qp.asks(
            Opcode::RC_WRITE_FIRST,
            3,
            Transport {
                reth: reth(0, 2 * PMTU + 10),
                ..bytes(PMTU, 4)
            },
        );
        qp.asks(Opcode::RC_WRITE_MIDDLE, 4, bytes(PMTU, 5));
        qp.asks(Opcode::RC_WRITE_LAST, 5, asking(bytes(10, 6)));
        qp.ack(5, 2);
        // A READ and an atomic.
        qp.asks(Opcode::RC_READ_REQUEST, 6, read_of(2 * PMTU + 10));
        qp.asks(Opcode::RC_FETCH_ADD, 9, asking(atomic()));
        qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 6, Syndrome::ACK, 3, bytes(PMTU, 7));
        qp.answers(Opcode::RC_READ_RESPONSE_MIDDLE, 7, Syndrome::ACK, 3, bytes(PMTU, 8));
        qp.answers(Opcode::RC_READ_RESPONSE_LAST, 8, Syndrome::ACK, 3, bytes(10, 9));
        qp.answers(Opcode::RC_ATOMIC_ACKNOWLEDGE, 9, Syndrome::ACK, 4, result(5));
        // End A repeats the unanswered part of a READ, then repeats an atomic. End B responds to each request.
        qp.asks(Opcode::RC_READ_REQUEST, 10, read_of(3 * PMTU));
        qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 10, Syndrome::ACK, 5, bytes(PMTU, 7));
        qp.wait(10_000_000);
        qp.asks(
            Opcode::RC_READ_REQUEST,
            11,
            asking(Transport {
                reth: reth(PMTU, 2 * PMTU),
                ..Transport::default()
            }),
        );
        qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 11, Syndrome::ACK, 5, bytes(PMTU, 7));
        qp.answers(Opcode::RC_READ_RESPONSE_LAST, 12, Syndrome::ACK, 5, bytes(PMTU, 7));
        qp.asks(Opcode::RC_COMPARE_SWAP, 13, asking(atomic()));
        qp.asks(Opcode::RC_COMPARE_SWAP, 13, asking(atomic()));
        qp.answers(Opcode::RC_ATOMIC_ACKNOWLEDGE, 13, Syndrome::ACK, 6, result(5));
        qp.answers(Opcode::RC_ATOMIC_ACKNOWLEDGE, 13, Syndrome::ACK, 6, result(5));
        // A SEND, and a SEND whose receive is missing at first.
        qp.send(14);
        qp.ack(14, 7);
        qp.send(15);
        qp.nak(15, Syndrome::rnr_nak(RnrTimer(12)), 7);
        qp.wait(640_000);
        qp.send(15);
        qp.ack(15, 8);
        // B sends a request, too.
        qp.says(B, Opcode::RC_SEND_ONLY, B_PSN, asking(bytes(0, 0)));
        qp.ack_of_a(B_PSN, 1);
        qp
    }
}

pub(super) fn bytes(length: usize, first: u32) -> Transport {
    let payload = (0..length).map(|at| (at as u32 + first).to_le_bytes()[0]).collect();
    Transport {
        payload,
        ..Transport::default()
    }
}

/// Returns a READ of that many bytes.
pub(super) fn read_of(bytes: usize) -> Transport {
    asking(Transport {
        reth: reth(0, bytes),
        ..Transport::default()
    })
}

/// Sets AckReq.
pub(super) fn asking(transport: Transport) -> Transport {
    let bth = Bth::default().with_ack_request(true);
    Transport { bth, ..transport }
}

fn with_imm(transport: Transport) -> Transport {
    let imm = Some(ImmDt::default().with_data(Hex32(0xABCD)));
    Transport { imm, ..transport }
}

pub(super) fn reth(offset: usize, length: usize) -> Option<Reth> {
    let va = Hex64(0x7F00_0000_0000 + offset as u64);
    let length = u32::try_from(length).unwrap();
    Some(
        Reth::default()
            .with_va(va)
            .with_r_key(RKey(0x1234))
            .with_dma_len(length),
    )
}

pub(super) fn atomic() -> Transport {
    let header = AtomicEth::default()
        .with_va(Hex64(0x7F00_0000_1000))
        .with_r_key(RKey(0x1234));
    Transport {
        atomic: Some(header.with_swap_add(Hex64(7)).with_compare(Hex64(5))),
        ..Transport::default()
    }
}

pub(super) fn result(original: u64) -> Transport {
    Transport {
        atomic_ack: Some(AtomicAckEth::default().with_original(Hex64(original))),
        ..Transport::default()
    }
}

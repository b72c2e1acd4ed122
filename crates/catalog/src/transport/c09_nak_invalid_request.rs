//! `c09-nak-invalid-request`: a queue pair sends NAK 0x61 for a request that it cannot accept, and does not execute it.
//!
//! Each case has its own connection. The DUT acknowledges a valid SEND, then answers the case with one NAK 0x61. The
//! NAK has the PSN of the wrong packet, and its MSN is still 1. Then the queue pair is in error, accepts no further
//! request, and the DUT's memory is unchanged.
//!
//! `c09-nak-max-dest-rd-atomic`: a queue pair with max_dest_rd_atomic 0 refuses READs and atomics in the same
//! manner.
//!
//! Reading: a length above 2^31 lies outside every region too, so NAK 0x62 also conforms. Data of packets before the
//! wrong packet may be in memory. `c09-nak-reserved-opcode` tries reserved opcodes.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Test};
use verbatim_wire::packet::{ImmDt, NakCode, Opcode, Psn, Transport};
use verbatim_wire::values::Hex32;

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{Message, mtu};
use crate::transport::rc::refusal::{self, ERRORS, Refusal, TARGET};

pub(super) const INVALID: &str = "9.7.5.2.4 invalid request";

pub(super) const CODE: &[NakCode] = &[NakCode::INVALID_REQUEST];
const EITHER: &[NakCode] = &[NakCode::INVALID_REQUEST, NakCode::REMOTE_ACCESS];
/// One byte more than the longest message that the architecture allows.
const TOO_LONG: u32 = (1 << 31) + 1;

/// Offset of the last 64 bytes of the DUT's memory, fewer bytes than any path MTU.
const LAST_BYTES: u32 = ChannelOptions::MEMORY - 64;

/// Offset of a request that interrupts a message, apart from the message's own data.
const BEHIND: u32 = TARGET + 16 * 1024;
const IMMEDIATE: u32 = 0xC0DE_0061;

static CASES: &[Refusal] = &[
    // Access rights of the queue pair.
    Refusal::new("WRITE on a queue pair without that right", CODE, |c, psn| {
        write(c, psn, 64)
    })
    .on(|options| options.qp_access.remote_write = false),
    Refusal::new("READ on a queue pair without that right", CODE, |c, psn| {
        Message::read(c, psn, TARGET, 64).packets
    })
    .on(|options| options.qp_access.remote_read = false),
    Refusal::new("FetchAdd on a queue pair without that right", CODE, |c, psn| {
        Message::fetch_add(c, psn, TARGET, 1).packets
    })
    .on(|options| options.qp_access.remote_atomic = false)
    .atomic(),
    Refusal::new("CmpSwap on a queue pair without that right", CODE, |c, psn| {
        Message::compare_swap(c, psn, TARGET, (0, 1)).packets
    })
    .on(|options| options.qp_access.remote_atomic = false)
    .atomic(),
    Refusal::new(
        "WRITE with Immediate on a queue pair without that right",
        CODE,
        |c, psn| Message::write(c, psn, TARGET, &pattern(64)).with_imm(IMMEDIATE).packets,
    )
    .on(|options| options.qp_access.remote_write = false),
    Refusal::new("WRITE First on a queue pair without that right", CODE, |c, psn| {
        first(c, psn)
    })
    .on(|options| options.qp_access.remote_write = false),
    // Atomics.
    Refusal::new("FetchAdd on an address that is no multiple of 8", CODE, |c, psn| {
        Message::fetch_add(c, psn, TARGET + 4, 1).packets
    })
    .atomic(),
    Refusal::new("CmpSwap on an address that is no multiple of 8", CODE, |c, psn| {
        Message::compare_swap(c, psn, TARGET + 1, (0, 1)).packets
    })
    .atomic(),
    // The order of First, Middle, Last.
    Refusal::new("SEND Middle without a First", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_MIDDLE, mtu(c))])
    }),
    Refusal::new("SEND Last without a First", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_LAST, 64)])
    }),
    Refusal::new("WRITE Middle without a First", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_WRITE_MIDDLE, mtu(c))])
    }),
    Refusal::new("WRITE Last without a First", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_WRITE_LAST, 64)])
    }),
    Refusal::new("SEND First within a SEND", CODE, |c, psn| {
        data(
            c,
            psn,
            &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_FIRST, mtu(c))],
        )
    })
    .at_second(),
    Refusal::new("WRITE Last within a SEND", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_WRITE_LAST, 64)])
    })
    .at_second(),
    Refusal::new("SEND Only within a SEND", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_ONLY, 64)])
    })
    .at_second(),
    Refusal::new("SEND Only with Immediate within a SEND", CODE, |c, psn| {
        let mut packets = data(
            c,
            psn,
            &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_ONLY_IMM, 64)],
        );
        packets[1].imm = Some(ImmDt::default().with_data(Hex32(IMMEDIATE)));
        packets
    })
    .at_second(),
    Refusal::new("WRITE Only within a SEND", CODE, |c, psn| {
        let write = Message::write(c, psn.next(), BEHIND, &pattern(64)).packets;
        behind(data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c))]), write)
    })
    .at_second(),
    Refusal::new("READ within a SEND", CODE, |c, psn| {
        let read = Message::read(c, psn.next(), TARGET, 64).packets;
        behind(data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c))]), read)
    })
    .at_second(),
    Refusal::new("WRITE First within a WRITE", CODE, |c, psn| {
        let mut others = Message::write(c, psn.next(), BEHIND, &pattern(3 * mtu(c))).packets;
        others.truncate(1);
        behind(first(c, psn), others)
    })
    .at_second(),
    Refusal::new("WRITE Only within a WRITE", CODE, |c, psn| {
        let write = Message::write(c, psn.next(), BEHIND, &pattern(64)).packets;
        behind(first(c, psn), write)
    })
    .at_second(),
    Refusal::new("SEND Last within a WRITE", CODE, |c, psn| {
        behind(first(c, psn), data(c, psn.next(), &[(Opcode::RC_SEND_LAST, 64)]))
    })
    .at_second(),
    Refusal::new("SEND Only within a WRITE", CODE, |c, psn| {
        behind(first(c, psn), data(c, psn.next(), &[(Opcode::RC_SEND_ONLY, 64)]))
    })
    .at_second(),
    Refusal::new("READ within a WRITE", CODE, |c, psn| {
        behind(first(c, psn), Message::read(c, psn.next(), TARGET, 64).packets)
    })
    .at_second(),
    Refusal::new("FetchAdd within a WRITE", CODE, |c, psn| {
        behind(first(c, psn), Message::fetch_add(c, psn.next(), BEHIND, 1).packets)
    })
    .at_second()
    .atomic(),
    Refusal::new("SEND Last with Immediate without a First", CODE, |c, psn| {
        let mut packets = data(c, psn, &[(Opcode::RC_SEND_LAST_IMM, 64)]);
        packets[0].imm = Some(ImmDt::default().with_data(Hex32(IMMEDIATE)));
        packets
    }),
    Refusal::new("WRITE Last with Immediate without a First", CODE, |c, psn| {
        let mut packets = data(c, psn, &[(Opcode::RC_WRITE_LAST_IMM, 64)]);
        packets[0].imm = Some(ImmDt::default().with_data(Hex32(IMMEDIATE)));
        packets
    }),
    // Lengths.
    Refusal::new("SEND longer than the receive", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_ONLY, 128)])
    })
    .with_receive(64),
    Refusal::new("SEND of two packets longer than the receive", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_LAST, 128)])
    })
    .with_receive(64),
    Refusal::new("SEND a byte longer than the receive", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_ONLY, 65)])
    })
    .with_receive(64),
    // An adapter that moves four bytes at a time could store the extra byte.
    Refusal::new("SEND a byte longer than a receive of 61 bytes", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_ONLY, 62)])
    })
    .with_receive(61),
    Refusal::new("SEND of two packets a byte longer than the receive", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_LAST, 65)])
    })
    .on(|options| options.mtu = verbatim_wire::Mtu(1))
    .with_receive(256 + 64)
    .at_second(),
    Refusal::new("SEND First shorter than the path MTU", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c) - 4)])
    }),
    Refusal::new("SEND Middle shorter than the path MTU", CODE, |c, psn| {
        data(
            c,
            psn,
            &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_MIDDLE, mtu(c) - 4)],
        )
    })
    .at_second(),
    Refusal::new("WRITE First shorter than the path MTU", CODE, |c, psn| {
        Message::write(c, psn, TARGET, &pattern(2 * mtu(c)))
            .changed(|packets| {
                packets.truncate(1);
                packets[0].payload.truncate(mtu(c) as usize - 4);
            })
            .packets
    }),
    Refusal::new("SEND Only longer than the path MTU", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_ONLY, mtu(c) + 4)])
    }),
    Refusal::new("SEND First longer than the path MTU", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c) + 4)])
    }),
    Refusal::new("SEND Middle longer than the path MTU", CODE, |c, psn| {
        data(
            c,
            psn,
            &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_MIDDLE, mtu(c) + 4)],
        )
    })
    .at_second(),
    Refusal::new("SEND Last longer than the path MTU", CODE, |c, psn| {
        data(
            c,
            psn,
            &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_LAST, mtu(c) + 4)],
        )
    })
    .at_second(),
    Refusal::new("WRITE Only longer than the path MTU", CODE, |c, psn| {
        let mut packets = of_length(write(c, psn, 64), mtu(c) + 4);
        packets[0].payload = pattern(mtu(c) + 4);
        packets
    }),
    Refusal::new("WRITE First longer than the path MTU", CODE, |c, psn| {
        let mut packets = first(c, psn);
        packets[0].payload = pattern(mtu(c) + 4);
        packets
    }),
    Refusal::new("WRITE Middle shorter than the path MTU", CODE, |c, psn| {
        let mut packets = write(c, psn, 3 * mtu(c));
        packets.truncate(2);
        packets[1].payload.truncate(mtu(c) as usize - 4);
        packets
    })
    .at_second(),
    Refusal::new("WRITE Last longer than the path MTU", CODE, |c, psn| {
        let mut packets = of_length(write(c, psn, mtu(c) + 64), 2 * mtu(c) + 4);
        packets[1].payload = pattern(mtu(c) + 4);
        packets
    })
    .at_second(),
    Refusal::new("WRITE Last without data", CODE, |c, psn| {
        let mut packets = of_length(write(c, psn, mtu(c) + 64), mtu(c) + 1);
        packets[1].payload.clear();
        packets
    })
    .at_second(),
    // A message whose length is a multiple of the path MTU must end with a full packet.
    Refusal::new("WRITE Last without data where DMALen is reached", CODE, |c, psn| {
        let mut packets = of_length(write(c, psn, mtu(c) + 64), mtu(c));
        packets[1].payload.clear();
        packets
    })
    .at_second(),
    Refusal::new("SEND Last without data", CODE, |c, psn| {
        data(c, psn, &[(Opcode::RC_SEND_FIRST, mtu(c)), (Opcode::RC_SEND_LAST, 0)])
    })
    .at_second(),
    // Requests that carry no data.
    Refusal::new("READ request with data", CODE, |c, psn| {
        with_data(Message::read(c, psn, TARGET, 64).packets)
    }),
    Refusal::new("FetchAdd with data", CODE, |c, psn| {
        with_data(Message::fetch_add(c, psn, TARGET, 1).packets)
    })
    .atomic(),
    // RETH:DMALen.
    Refusal::new("WRITE Only with less data than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, 64), 68)
    }),
    Refusal::new("WRITE Only with more data than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, 64), 60)
    }),
    Refusal::new("WRITE Only with a byte more than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, 64), 63)
    }),
    Refusal::new("WRITE Only without data and DMALen 1", CODE, |c, psn| {
        of_length(write(c, psn, 0), 1)
    }),
    Refusal::new(
        "WRITE Only with Immediate with a byte less than DMALen",
        CODE,
        |c, psn| of_length(Message::write(c, psn, TARGET, &pattern(64)).with_imm(7).packets, 65),
    ),
    Refusal::new("WRITE First with more data than DMALen", CODE, |c, psn| {
        of_length(first(c, psn), mtu(c) - 1)
    }),
    Refusal::new("WRITE Middle with more data than is left of DMALen", CODE, |c, psn| {
        let mut packets = of_length(write(c, psn, 3 * mtu(c)), 2 * mtu(c) - 1);
        packets.truncate(2);
        packets
    })
    .at_second(),
    Refusal::new("WRITE of two packets with less data than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, mtu(c) + 64), mtu(c) + 68)
    })
    .at_second(),
    Refusal::new("WRITE of two packets with more data than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, mtu(c) + 64), mtu(c) + 60)
    })
    .at_second(),
    Refusal::new("WRITE of two packets with a byte less than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, mtu(c) + 63), mtu(c) + 64)
    })
    .at_second(),
    Refusal::new("WRITE of two packets with a byte more than DMALen", CODE, |c, psn| {
        of_length(write(c, psn, mtu(c) + 64), mtu(c) + 63)
    })
    .at_second(),
    // The READ begins at the last bytes of the region, so that not even the first response lies within the region.
    Refusal::new("READ of more than 2^31 bytes", EITHER, |c, psn| {
        of_length(Message::read(c, psn, LAST_BYTES, 64).packets, TOO_LONG)
    }),
    Refusal::new("WRITE First of more than 2^31 bytes", EITHER, |c, psn| {
        of_length(write(c, psn, mtu(c) + 64), TOO_LONG)[..1].to_vec()
    }),
];

/// Requests that a queue pair with max_dest_rd_atomic 0 refuses.
static RESOURCES: &[Refusal] = &[
    Refusal::new("READ on a queue pair that answers none", CODE, |c, psn| {
        Message::read(c, psn, TARGET, 64).packets
    })
    .on(|options| options.max_dest_rd_atomic = 0),
    Refusal::new("FetchAdd on a queue pair that answers none", CODE, |c, psn| {
        Message::fetch_add(c, psn, TARGET, 1).packets
    })
    .on(|options| options.max_dest_rd_atomic = 0)
    .atomic(),
];

pub(super) static NO_RESOURCES: Test = Test {
    id: "c09-nak-max-dest-rd-atomic",
    aliases: &[],
    revision: 1,
    about: "A queue pair with max_dest_rd_atomic 0 refuses READs and atomics as invalid requests.",
    reading: "As in c09-nak-invalid-request: one NAK 0x61, then ERR, silence, and the memory as it was.",
    statements: &[INVALID, ERRORS, ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: |t| refusal::procedure(t, RESOURCES),
    judge: |t, f| refusal::judge(t, f, INVALID, RESOURCES, has_atomics(t)),
};

pub(super) static TEST: Test = Test {
    id: "c09-nak-invalid-request",
    aliases: &[],
    revision: 7,
    about: "A request that a queue pair cannot accept gets one NAK 0x61, is not executed, and moves the queue pair to \
        error.",
    reading: "Each case on a connection of its own, behind a sound SEND: one NAK 0x61 with the PSN of the wrong packet \
        and MSN 1; then ERR, silence, and the memory as it was. A length above 2^31 may be an access error as well. If \
        no answer comes, the test tries again, three times in all.",
    statements: &[INVALID, ERRORS, ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: |t| refusal::procedure(t, CASES),
    judge,
};

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    refusal::judge(t, f, INVALID, CASES, has_atomics(t))
}

/// Returns bytes without a 0, so that a wrongly executed request shows in memory.
fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 + 1).collect()
}

/// Builds the first packet of a WRITE of three packets.
fn first(channel: &Channel, psn: Psn) -> Vec<Transport> {
    let mut packets = write(channel, psn, 3 * mtu(channel));
    packets.truncate(1);
    packets
}

/// Returns the packets, followed by the packets of `others`.
fn behind(mut packets: Vec<Transport>, others: Vec<Transport>) -> Vec<Transport> {
    packets.extend(others);
    packets
}

fn write(channel: &Channel, psn: Psn, length: u32) -> Vec<Transport> {
    Message::write(channel, psn, TARGET, &pattern(length)).packets
}

/// Gives the first packet four bytes of payload.
fn with_data(mut packets: Vec<Transport>) -> Vec<Transport> {
    packets[0].payload = pattern(4);
    packets
}

/// Sets RETH:DMALen of the first packet.
fn of_length(mut packets: Vec<Transport>, length: u32) -> Vec<Transport> {
    packets[0].reth = packets[0].reth.map(|reth| reth.with_dma_len(length));
    packets
}

/// Builds consecutive packets with these opcodes and lengths. The last packet requests an acknowledgement.
pub(super) fn data(channel: &Channel, psn: Psn, parts: &[(Opcode, u32)]) -> Vec<Transport> {
    let last = parts.len() as u32 - 1;
    (0u32..)
        .zip(parts)
        .map(|(at, (opcode, length))| {
            let mut packet = Transport {
                payload: pattern(*length),
                ..channel.transport(*opcode, psn.plus(at))
            };
            packet.bth = packet.bth.with_ack_request(at == last);
            packet
        })
        .collect()
}

//! Packets without an effect, and requests that the DUT must refuse.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_tester::Tester;
use verbatim_tester::peer::Channel;
use verbatim_wire::PKey;
use verbatim_wire::packet::{Aeth, Medium, NakCode, Opcode, Packet, RKey, RnrTimer, Syndrome, Transport};
use verbatim_wire::values::Hex64;

use super::peer::{Peer, TARGET, labels};
use super::step::{Alteration, Illegal, Stray};
use crate::transport::c09_header_validation::{elsewhere, no_qp};
use crate::transport::rc::ask::{self, Message};

/// Offset in the DUT's memory that these packets would access.
const PLACE: u32 = TARGET + 64;
const LENGTH: u32 = 64;
/// Length in bytes of a receive that is too short for a SEND.
pub(super) const SHORT: u32 = 32;

/// Sends a packet without an effect.
pub(super) fn send(t: &mut Tester<'_>, peer: &Peer, stray: Stray) -> verbatim_tester::Step {
    let frame = frame(t, peer, stray);
    if !t.executes_frame(&frame) {
        return Ok(());
    }
    t.send_frame(labels::STRAY, &frame)?;
    Ok(())
}

fn frame(t: &Tester<'_>, peer: &Peer, stray: Stray) -> Vec<u8> {
    let channel = &peer.requester.channel;
    let payload = ask::random_bytes(t, "without effect", LENGTH);
    let mut write = Message::write(channel, peer.next, PLACE, &payload).packets.remove(0);
    let (end, settled) = (peer.answering.end(), peer.answering.settled);
    let ack = |psn, syndrome| channel.acknowledge(psn, syndrome, 0);
    let sequence = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
    match stray {
        Stray::BadIcrc(bit) => {
            let mut frame = channel.frame(&write);
            if let Ok(offsets) = Packet::parse(Medium::Ethernet, &frame).map(|packet| packet.offsets()) {
                let payload = offsets.bth + 12 + 16;
                frame[payload + bit as usize / 8] ^= 1 << (bit % 8);
            }
            return frame;
        }
        Stray::Altered(alteration) => return altered(channel, &write, alteration),
        Stray::Ahead(by) => write.bth = write.bth.with_psn(peer.next.plus(by)),
        Stray::Behind(by) => {
            let send = Message::send(channel, peer.next.minus(by), &payload[..8]);
            return channel.frame(&send.packets[0]);
        }
        Stray::GhostAck(by) => return ack(end.plus(by - 1), Syndrome::ACK),
        Stray::StaleAck(by) => return ack(settled.minus(by), Syndrome::ACK),
        Stray::GhostNak(by) => return ack(end.plus(by), sequence),
        Stray::StaleNak(by) => return ack(settled.minus(by), sequence),
        Stray::StaleRnr(by) => return ack(settled.minus(by), Syndrome::rnr_nak(RnrTimer(1))),
        Stray::StaleFatal(code, by) => return ack(settled.minus(by), Syndrome::nak(code)),
        Stray::StaleRead(by) => {
            return channel.frame(&Transport {
                aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK)),
                payload: payload[..8].to_vec(),
                ..channel.transport(Opcode::RC_READ_RESPONSE_LAST, settled.minus(by))
            });
        }
        Stray::GhostRnr(by) => return ack(end.plus(by), Syndrome::rnr_nak(RnrTimer(1))),
        Stray::GhostRead(by) => {
            return channel.frame(&Transport {
                aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK)),
                payload: payload[..8].to_vec(),
                ..channel.transport(Opcode::RC_READ_RESPONSE_ONLY, end.plus(by - 1))
            });
        }
        Stray::Cnp => return ask::cnp(channel),
    }
    channel.frame(&write)
}

/// Builds a packet, altered so that it does not belong to the connection.
pub(super) fn altered(channel: &Channel, packet: &Transport, alteration: Alteration) -> Vec<u8> {
    let mut packet = packet.clone();
    let bth = packet.bth;
    packet.bth = match alteration {
        Alteration::OtherSource => return elsewhere(channel).frame(&packet),
        Alteration::TVer(tver) => bth.with_tver(tver),
        Alteration::PKey(bit) => bth.with_p_key(PKey(0xFFFF ^ 1 << bit)),
        Alteration::OtherService => bth.with_opcode(Opcode(bth.opcode().0 | 0x20)),
        Alteration::OtherQp => bth.with_dest_qp(no_qp(channel)),
    };
    channel.frame(&packet)
}

/// Builds a request that the DUT must refuse, with the PSN that the DUT expects.
pub(super) fn illegal(t: &Tester<'_>, peer: &Peer, illegal: Illegal, name: &str) -> Message {
    let (channel, psn, mtu) = (&peer.requester.channel, peer.next, peer.requester.mtu);
    let bytes = |length: u32| ask::random_bytes(t, name, length);
    let of = |operation: O| match operation {
        O::Read => Message::read(channel, psn, PLACE, LENGTH),
        O::FetchAdd => Message::fetch_add(channel, psn, PLACE, 1),
        O::CompareSwap => Message::compare_swap(channel, psn, PLACE, (0, 1)),
        _ => Message::write(channel, psn, PLACE, &bytes(LENGTH)),
    };
    let moved = |operation: O, va: u64| {
        of(operation).changed(|packets| {
            let packet = &mut packets[0];
            packet.reth = packet.reth.map(|reth| reth.with_va(Hex64(va)));
            packet.atomic = packet.atomic.map(|atomic| atomic.with_va(Hex64(va)));
        })
    };
    // The address of an atomic stays a multiple of 8, like the region's address.
    let outside = |operation: O| match operation {
        O::CompareSwap | O::FetchAdd => (8, 8),
        _ => (LENGTH, 1),
    };
    let region = channel.memory.address;
    match illegal {
        Illegal::Overlong(by) => Message::send(channel, psn, &bytes(SHORT + by)),
        Illegal::Right(O::WriteImm) => of(O::Write).with_imm(0x0BAD_0BAD),
        Illegal::Right(operation) => of(operation),
        Illegal::RKey(operation, bit) => of(operation).changed(|packets| {
            let other = |key: RKey| RKey(key.0 ^ 1 << bit);
            let packet = &mut packets[0];
            packet.reth = packet.reth.map(|reth| reth.with_r_key(other(reth.r_key())));
            packet.atomic = packet.atomic.map(|atomic| atomic.with_r_key(other(atomic.r_key())));
        }),
        Illegal::Beyond(operation) => {
            let (length, by) = outside(operation);
            moved(
                operation,
                region.wrapping_add((channel.memory.length - length + by).into()),
            )
        }
        Illegal::Before(operation) => moved(operation, region.wrapping_sub(outside(operation).1.into())),
        Illegal::Around(operation) => moved(operation, u64::MAX - 31),
        Illegal::Address(operation, bit) => moved(operation, region.wrapping_add(PLACE.into()) ^ 1 << bit),
        Illegal::TooLong(operation, by) => {
            let payload = bytes(mtu + by);
            let only = match operation {
                O::Send => Transport {
                    payload,
                    ..channel.transport(Opcode::RC_SEND_ONLY, psn)
                },
                _ => {
                    let mut packet = Message::write(channel, psn, PLACE, &[]).packets.remove(0);
                    packet.reth = packet.reth.map(|reth| reth.with_dma_len(mtu + by));
                    Transport { payload, ..packet }
                }
            };
            Message::one(only, 1)
        }
        Illegal::Unaligned(by) => Message::fetch_add(channel, psn, PLACE + by, 1),
        Illegal::NoFirst => {
            let middle = Transport {
                payload: bytes(mtu),
                ..channel.transport(Opcode::RC_WRITE_MIDDLE, psn)
            };
            Message::one(middle, 1)
        }
        Illegal::ShortFirst(by) => {
            let mut first = Message::write(channel, psn, PLACE, &bytes(mtu + 8)).packets.remove(0);
            first.payload.truncate((mtu - by) as usize);
            Message::one(first, 1)
        }
        Illegal::DmaLen => of(O::Write).changed(|packets| {
            packets[0].payload.pop();
        }),
    }
}

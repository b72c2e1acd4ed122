//! The adapter answers: what it takes, what it does, what it says to that.

use std::time::Duration;

use verbatim_device::rc::{Access, QpAttributes, QpState, ReceiveRequest, Service};
use verbatim_wire::values::Hex64;
use verbatim_wire::{Deth, Opcode, PKey, Psn, QKey, Qpn, RKey, Reth};

use super::patient;
use crate::adapters::{MEMORY, Setup};
use crate::peer::Peer;

pub fn headers_validated(peer: &mut Peer) {
    peer.fresh(&patient());
    peer.post_receive(1, 0, 1000);
    peer.post_receive(2, 0, 1000);
    let sound = peer.ask(Opcode::RC_SEND_ONLY, 0, &[1, 2, 3, 4, 5]);
    let mut bad_icrc = peer.frame(&sound);
    let end = bad_icrc.len() - 1;
    bad_icrc[end] ^= 1;
    peer.send_frame(&bad_icrc);
    peer.note();
    for bth in [
        sound.bth.with_tver(1),
        sound.bth.with_p_key(PKey(0x8001)),
        sound.bth.with_dest_qp(Qpn(0x99)),
        sound.bth.with_opcode(Opcode::UC_SEND_ONLY),
    ] {
        let mut odd = sound.clone();
        odd.bth = bth;
        peer.put(&odd);
        peer.note();
    }
    let stranger = peer.frame_from([10, 0, 0, 77].into(), &sound);
    peer.send_frame(&stranger);
    peer.note();
    peer.put(&sound);
    peer.note();
    datagrams(peer);
}

/// A datagram with the right Q_Key and one with another.
fn datagrams(peer: &mut Peer) {
    let (qp, qpn) = peer.adapter.create_qp(Service::Ud, 4, 4).unwrap();
    let init = QpAttributes {
        pkey_index: Some(0),
        port: Some(1),
        qkey: Some(QKey(5)),
        ..QpAttributes::default()
    };
    peer.adapter.modify(qp, QpState::Init, &init).unwrap();
    peer.adapter.modify(qp, QpState::Rtr, &QpAttributes::default()).unwrap();
    for wr_id in [7, 8] {
        let local = peer.slice(2048, 100);
        let receive = ReceiveRequest { wr_id, local };
        peer.adapter.post_receive(peer.now, qp, &receive).unwrap();
    }
    for q_key in [5, 6] {
        let mut datagram = peer.ask(Opcode::UD_SEND_ONLY, 0, &[9; 10]);
        datagram.bth = datagram.bth.with_dest_qp(qpn);
        datagram.deth = Some(Deth::default().with_q_key(QKey(q_key)));
        peer.put(&datagram);
        // A host may be told of a receive somewhat later.
        peer.run(Duration::from_millis(1));
        peer.note();
    }
}

pub fn responses_in_order(peer: &mut Peer) {
    peer.fresh(&patient());
    peer.post_receive(1, 0, 1000);
    for packet in [
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, 600, &[]),
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 3, 1000, 600, &[]),
        peer.ask(Opcode::RC_SEND_ONLY, 6, &[1; 10]),
        peer.ask_atomic(Opcode::RC_FETCH_ADD, 7, 4096, 1, 0),
    ] {
        peer.send(&packet);
    }
    peer.run(Duration::from_millis(10));
    peer.note();
}

pub fn acknowledgements(peer: &mut Peer) {
    peer.fresh(&patient());
    peer.put(&peer.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 40, 4, &[1; 4]));
    peer.note();
    peer.post_receive(1, 0, 1000);
    peer.post_receive(2, 1000, 1000);
    peer.post_receive(3, 2000, 1000);
    for packet in [
        peer.ask(Opcode::RC_SEND_FIRST, 1, &[2; 256]),
        peer.ask(Opcode::RC_SEND_MIDDLE, 2, &[3; 256]),
        peer.ask(Opcode::RC_SEND_LAST_IMM, 3, &[4; 7]),
        peer.ask_rdma(Opcode::RC_WRITE_FIRST, 4, 3000, 257, &[5; 256]),
        peer.ask(Opcode::RC_WRITE_LAST, 5, &[6; 1]),
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 6, 3000, 700, &[]),
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 9, 0, 0, &[]),
        peer.ask_rdma(Opcode::RC_WRITE_ONLY_IMM, 10, 3000, 4, &[7; 4]),
        peer.ask(Opcode::RC_SEND_ONLY, 11, &[8; 3]),
    ] {
        peer.put(&packet);
        peer.note();
    }
}

pub fn zero_length(peer: &mut Peer) {
    for opcode in [Opcode::RC_WRITE_ONLY, Opcode::RC_READ_REQUEST] {
        peer.fresh(&patient());
        let mut packet = peer.ask_rdma(opcode, 0, 0, 0, &[]);
        packet.reth = packet.reth.map(|reth| reth.with_r_key(RKey(1)));
        peer.put(&packet);
        peer.note();
    }
}

pub fn not_ready(peer: &mut Peer) {
    peer.fresh(&patient());
    peer.put(&peer.ask(Opcode::RC_SEND_ONLY, 0, &[1; 10]));
    peer.put(&peer.ask(Opcode::RC_SEND_ONLY, 1, &[2; 10]));
    peer.note();
    peer.post_receive(1, 0, 100);
    peer.post_receive(2, 100, 100);
    peer.put(&peer.ask(Opcode::RC_SEND_ONLY, 0, &[1; 10]));
    peer.put(&peer.ask(Opcode::RC_SEND_ONLY, 1, &[2; 10]));
    peer.note();
}

pub fn atomics_done(peer: &mut Peer) {
    peer.fresh(&patient());
    for (at, (opcode, swap_add, compare)) in [
        (Opcode::RC_FETCH_ADD, 1, 0),
        (Opcode::RC_FETCH_ADD, 0xFFFF_FFFF, 0),
        (Opcode::RC_COMPARE_SWAP, 77, 0x1_0000_0005),
        (Opcode::RC_COMPARE_SWAP, 78, 6),
        (Opcode::RC_COMPARE_SWAP, 79, 77),
        (Opcode::RC_COMPARE_SWAP, 80, 78),
    ]
    .into_iter()
    .enumerate()
    {
        if at == 0 {
            peer.set_number(4096, 0x0000_0000_0000_0005);
        }
        if at == 2 {
            peer.set_number(4096, 0x0000_0001_0000_0005);
        }
        peer.put(&peer.ask_atomic(opcode, at as u32, 4096, swap_add, compare));
        peer.note();
    }
    peer.put(&peer.ask_atomic(Opcode::RC_COMPARE_SWAP, 6, 4096, 81, 0x5_0000_004F));
    peer.note();
}

pub fn duplicates(peer: &mut Peer) {
    peer.fresh(&patient());
    for wr_id in 0..4 {
        peer.post_receive(wr_id, 100 * wr_id as u32, 100);
    }
    peer.set_number(4096, 5);
    let script = [
        peer.ask(Opcode::RC_SEND_ONLY, 0, &[1; 10]),
        peer.ask_rdma(Opcode::RC_WRITE_ONLY, 1, 1000, 4, &[2; 4]),
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 2, 1000, 600, &[]),
        peer.ask_atomic(Opcode::RC_FETCH_ADD, 5, 4096, 3, 0),
    ];
    for packet in &script {
        peer.put(packet);
    }
    peer.note();
    peer.adapter.write_memory(peer.memory.handle, 1000, &[9; 4]).unwrap();
    for packet in &script {
        peer.put(packet);
        peer.note();
    }
    peer.put(&peer.ask(Opcode::RC_SEND_ONLY, 6, &[1; 10]));
    peer.note();
}

/// Two atomics whose results are kept come again, each with its original value.
pub fn kept_atomics(peer: &mut Peer) {
    peer.fresh(&patient());
    peer.set_number(4096, 5);
    let script = [
        peer.ask_atomic(Opcode::RC_FETCH_ADD, 0, 4096, 3, 0),
        peer.ask_atomic(Opcode::RC_COMPARE_SWAP, 1, 4096, 9, 8),
    ];
    for packet in script.iter().chain(&script) {
        peer.put(packet);
        peer.note();
    }
}

/// The last byte of a region, the lowest bit of its R_Key, a high bit of its address; READ responses across the wrap of the PSN.
pub fn edges(peer: &mut Peer) {
    for case in 0..4 {
        // Three responses: the first PSNs of both sides lie before the wrap.
        let last = Psn(0xFF_FFFF);
        peer.fresh(&Setup {
            psn: [last, last],
            ..patient()
        });
        let mut request = peer.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 0, 4, &[1; 4]);
        match case {
            0 => request = peer.ask_rdma(Opcode::RC_WRITE_ONLY, 0, MEMORY - 3, 4, &[1; 4]),
            1 => request.reth = request.reth.map(|reth| reth.with_r_key(RKey(reth.r_key().0 ^ 1))),
            2 => request.reth = request.reth.map(|reth| reth.with_va(Hex64(reth.va().0 ^ 1 << 40))),
            _ => request = peer.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, 600, &[]),
        }
        peer.put(&request);
        peer.note();
    }
}

pub fn gaps(peer: &mut Peer) {
    peer.fresh(&patient());
    for wr_id in 0..6 {
        peer.post_receive(wr_id, 100 * wr_id as u32, 100);
    }
    for psn in [0, 2, 3, 4, 1, 2, 3] {
        peer.put(&peer.ask(Opcode::RC_SEND_ONLY, psn, &[psn as u8; 10]));
        peer.note();
    }
}

/// Requests that are refused, each on a fresh queue pair.
pub fn refusals(peer: &mut Peer) {
    let read_only = peer
        .adapter
        .register(
            4096,
            Access {
                local_write: true,
                ..Access::default()
            },
        )
        .unwrap();
    let full = [7; 256];
    for case in 0..14 {
        peer.fresh(&Setup {
            access: if case == 2 { Access::LOCAL } else { Access::ALL },
            ..patient()
        });
        if case != 13 {
            peer.post_receive(1, 0, 300);
            peer.post_receive(2, 0, 300);
        }
        let write = peer.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 0, 4, &[1; 4]);
        let with_reth = |change: &dyn Fn(Reth) -> Reth| {
            let mut changed = write.clone();
            changed.reth = changed.reth.map(change);
            changed
        };
        let packets = match case {
            0 => vec![with_reth(&|reth| reth.with_r_key(RKey(9)))],
            1 => vec![peer.ask_rdma(Opcode::RC_WRITE_ONLY, 0, MEMORY - 2, 4, &[1; 4])],
            2 => vec![write],
            3 => vec![with_reth(&|reth| {
                reth.with_r_key(read_only.r_key).with_va(Hex64(read_only.address))
            })],
            4 => vec![peer.ask_atomic(Opcode::RC_FETCH_ADD, 0, 4, 1, 0)],
            5 => vec![peer.ask(Opcode::RC_SEND_MIDDLE, 0, &full)],
            6 => vec![
                peer.ask(Opcode::RC_SEND_FIRST, 0, &full),
                peer.ask(Opcode::RC_SEND_LAST, 1, &full),
            ],
            7 => vec![peer.ask(Opcode(0x15), 0, &[1; 4])],
            8 => vec![
                peer.ask(Opcode::RC_SEND_FIRST, 0, &full[..100]),
                peer.ask(Opcode::RC_SEND_LAST, 1, &full[..100]),
            ],
            9 => vec![with_reth(&|reth| reth.with_dma_len(8))],
            10 => vec![with_reth(&|reth| reth.with_dma_len(2))],
            11 => vec![peer.ask(Opcode::RC_SEND_LAST, 0, &full[..8])],
            12 => vec![peer.ask_rdma(Opcode::RC_READ_REQUEST, 0, MEMORY - 2, 4, &[])],
            _ => vec![peer.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 0, 4, &[1; 4])],
        };
        let count = packets.len() as u32;
        for packet in packets {
            peer.put(&packet);
            peer.note();
        }
        peer.put(&peer.ask(Opcode::RC_SEND_ONLY, count, &[1; 4]));
        peer.note();
    }
}

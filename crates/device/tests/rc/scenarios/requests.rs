//! The adapter asks: what it sends, what completes, what it sends again.

use std::time::Duration;

use verbatim_device::rc::{Operation, SendRequest, Service};
use verbatim_wire::{AckTimeout, NakCode, Opcode, Psn, RnrTimer, Syndrome};

use super::patient;
use crate::adapters::Setup;
use crate::peer::{PEER_QPN, Peer};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The first PSN of the adapter's queue pair, and those behind it.
fn own(peer: &Peer, count: u32) -> Psn {
    peer.setup.psn[0].plus(count)
}

pub fn rnr_intervals(peer: &mut Peer) {
    for code in [31, 0, 1, 12, 13, 20] {
        peer.fresh(&patient());
        peer.post(1, Operation::Send, 100);
        for _ in 0..3 {
            let psn = own(peer, 0);
            peer.answer(psn, Syndrome::rnr_nak(RnrTimer(code)));
            peer.run(ms(1000));
        }
        peer.note();
    }
}

pub fn rnr_with_timeout(peer: &mut Peer) {
    peer.fresh(&Setup {
        timeout: AckTimeout(12),
        ..patient()
    });
    peer.post(1, Operation::Send, 100);
    let psn = own(peer, 0);
    peer.answer(psn, Syndrome::rnr_nak(RnrTimer(31)));
    peer.run(ms(480));
    peer.note();
}

pub fn rnr_retries(peer: &mut Peer) {
    for (rnr_retry, naks) in [(0, 2), (2, 5), (7, 12)] {
        peer.fresh(&Setup {
            rnr_retry,
            retry_cnt: 1,
            ..patient()
        });
        peer.post(1, Operation::Send, 100);
        peer.post(2, Operation::Send, 100);
        for _ in 0..naks {
            let psn = own(peer, 0);
            peer.answer(psn, Syndrome::rnr_nak(RnrTimer(1)));
            peer.run(ms(1));
        }
        peer.note();
    }
    // Progress between two requests that are not ready each.
    peer.fresh(&patient());
    for at in 0..2 {
        peer.post(u64::from(at), Operation::Send, 100);
        for _ in 0..2 {
            let psn = own(peer, at);
            peer.answer(psn, Syndrome::rnr_nak(RnrTimer(1)));
            peer.run(ms(1));
        }
        let psn = own(peer, at);
        peer.answer(psn, Syndrome::ACK);
    }
    peer.note();
}

pub fn messages_completed(peer: &mut Peer) {
    for operation in [Operation::Send, Operation::Write] {
        peer.fresh(&patient());
        for wr_id in 0..4 {
            peer.post(wr_id, operation, 2 * 256);
        }
        peer.run(ms(10));
        for psn in [0, 1, 100, 2] {
            let psn = own(peer, psn);
            peer.answer(psn, Syndrome::ACK);
            peer.run(ms(1));
        }
        // One ACK for two messages; then a syndrome without a meaning for the last.
        let psn = own(peer, 5);
        peer.answer(psn, Syndrome::ACK);
        peer.note();
        let psn = own(peer, 7);
        peer.answer(psn, Syndrome(0x40));
        peer.note();
    }
}

pub fn reads_completed(peer: &mut Peer) {
    let data: Vec<u8> = (0..=255).collect();
    let responses = [
        (Opcode::RC_READ_RESPONSE_FIRST, 0),
        (Opcode::RC_READ_RESPONSE_MIDDLE, 1),
        (Opcode::RC_READ_RESPONSE_LAST, 2),
    ];
    peer.fresh(&patient());
    peer.post(1, Operation::Read, 3 * 256);
    peer.post(2, Operation::Read, 3 * 256);
    peer.run(ms(10));
    for (opcode, at) in responses {
        let psn = own(peer, at);
        peer.read_response(opcode, psn, &data);
        peer.note();
    }
    // An ACK is no answer to a READ, nor is a response behind a gap, nor one of the wrong length.
    let psn = own(peer, 5);
    peer.answer(psn, Syndrome::ACK);
    peer.note();
    peer.fresh(&patient());
    peer.post(1, Operation::Read, 3 * 256);
    for (opcode, at) in [responses[0], responses[2]] {
        let psn = own(peer, at);
        peer.read_response(opcode, psn, &data);
        peer.note();
    }
    peer.fresh(&patient());
    peer.post(1, Operation::Read, 3 * 256);
    for (opcode, at) in responses {
        let psn = own(peer, at);
        peer.read_response(opcode, psn, &data[..200]);
        peer.note();
    }
}

pub fn atomics_completed(peer: &mut Peer) {
    for operation in [Operation::CompareSwap, Operation::FetchAdd] {
        peer.fresh(&patient());
        peer.post(1, operation, 8);
        peer.post(2, operation, 8);
        peer.run(ms(10));
        let psn = own(peer, 0);
        peer.atomic_ack(psn, 0xFF2D_B500_1E58_B3E7);
        peer.note();
        let psn = own(peer, 1);
        peer.answer(psn, Syndrome::ACK);
        peer.note();
    }
}

pub fn naks_received(peer: &mut Peer) {
    for (psn, code) in [(1, 0), (1, 1), (1, 2), (1, 3), (3, 0)] {
        peer.fresh(&patient());
        for wr_id in 0..4 {
            peer.post(wr_id, Operation::Send, 200);
        }
        for _ in 0..5 {
            let psn = own(peer, psn);
            peer.answer(psn, Syndrome::nak(NakCode(code)));
            peer.run(ms(1));
        }
        peer.post(9, Operation::Send, 10);
        peer.note();
    }
    // An ACK behind a READ says that the READ was lost.
    peer.fresh(&patient());
    peer.post(1, Operation::Read, 100);
    peer.post(2, Operation::Send, 100);
    let psn = own(peer, 1);
    peer.answer(psn, Syndrome::ACK);
    peer.note();
}

pub fn time_outs(peer: &mut Peer) {
    for (timeout, retry_cnt) in [(12, 2), (12, 0), (8, 7), (0, 2)] {
        for operation in [Operation::Read, Operation::Send] {
            peer.fresh(&Setup {
                timeout: AckTimeout(timeout),
                retry_cnt,
                ..patient()
            });
            peer.post(1, operation, 100);
            peer.post(2, operation, 100);
            peer.run(ms(1500));
            peer.post(3, Operation::Send, 10);
            peer.note();
        }
    }
}

pub fn time_outs_with_progress(peer: &mut Peer) {
    peer.fresh(&Setup {
        timeout: AckTimeout(12),
        retry_cnt: 5,
        ..patient()
    });
    for at in 0..7 {
        peer.post(u64::from(at), Operation::Send, 100);
        peer.run(ms(80));
        let psn = own(peer, at);
        peer.answer(psn, Syndrome::ACK);
    }
    peer.note();
    // The second of two requests waits anew once the first is acknowledged.
    peer.post(8, Operation::Send, 100);
    peer.post(9, Operation::Send, 100);
    peer.run(ms(15));
    let psn = own(peer, 7);
    peer.answer(psn, Syndrome::ACK);
    peer.run(ms(100));
    peer.note();
}

pub fn requests_sent(peer: &mut Peer) {
    peer.fresh(&patient());
    let with = |request: SendRequest, solicited, fence| SendRequest {
        solicited,
        fence,
        imm: 0x0102_0304,
        ..request
    };
    for (at, (operation, length)) in [
        (Operation::Read, 2 * 256),
        (Operation::Send, 0),
        (Operation::SendImm, 1),
        (Operation::Send, 3 * 256 + 1),
        (Operation::Write, 3 * 256 + 2),
        (Operation::WriteImm, 3),
        (Operation::SendInvalidate, 255),
        (Operation::Read, 3 * 256),
        (Operation::Write, 5),
        (Operation::FetchAdd, 8),
        (Operation::CompareSwap, 8),
    ]
    .into_iter()
    .enumerate()
    {
        let request = peer.request(at as u64, operation, length);
        peer.post_request(&with(request, true, false));
    }
    peer.note();
    peer.fresh(&patient());
    for wr_id in 0..6 {
        peer.post(wr_id, Operation::Read, 10);
    }
    let fenced = with(peer.request(7, Operation::Write, 10), false, true);
    peer.post_request(&fenced);
    peer.note();
    peer.fresh(&patient());
    peer.post(1, Operation::Read, 10);
    peer.post_request(&fenced);
    peer.note();
}

/// A packet with a traffic class, which the ICRC leaves out.
pub fn traffic_class(peer: &mut Peer) {
    let (qp, _) = peer.adapter.create_qp(Service::Rc, 4, 4).unwrap();
    for (state, mut attributes) in patient().steps(0, PEER_QPN) {
        if let Some(address) = &mut attributes.address {
            address.traffic_class = 0x20;
        }
        peer.adapter.modify(qp, state, &attributes).unwrap();
    }
    let request = peer.request(1, Operation::Send, 5);
    peer.adapter.post_send(peer.now, qp, &request).unwrap();
    peer.note();
}

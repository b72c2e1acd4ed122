//! Tests of every operation, size and path MTU, over IPv4 and IPv6.

use std::time::Duration;

use verbatim_device::rc::{Operation, QpState, WcOpcode, WcStatus};
use verbatim_wire::{Mtu, Opcode, Psn};

use super::adapters::{A, B, Pair, Setup, profile};

/// Returns sizes around the packet boundaries.
fn sizes(mtu: u32) -> Vec<u32> {
    let mut sizes = vec![0, 1, 2, 3, 4, 5, 7, 8];
    for packets in 1..=3 {
        sizes.extend([packets * mtu - 1, packets * mtu, packets * mtu + 1]);
    }
    sizes
}

fn every_setup(check: impl Fn(&Setup, u32)) {
    for v6 in [false, true] {
        for code in 1..=5 {
            let mtu = Mtu(code);
            let setup = Setup {
                v6,
                mtu,
                ..Setup::default()
            };
            for size in sizes(mtu.bytes().unwrap()) {
                check(&setup, size);
            }
        }
    }
}

/// Runs one request of A to completion.
fn one(setup: &Setup, operation: Operation, size: u32) -> Pair {
    let mut pair = Pair::new(setup);
    pair.fill(A, 0x5A);
    pair.fill(B, 0xC3);
    let mut request = pair.request(9, operation, 100, 300, size);
    request.imm = 0x0102_0304;
    pair.post_receive(1, 300, 20_000);
    pair.post(&request);
    pair.run_until_completions(1);
    let done = pair.completions[A][0];
    assert_eq!((done.wr_id, done.status), (9, WcStatus::SUCCESS), "{size}");
    assert_eq!(pair.completions[A].len(), 1);
    pair
}

#[test]
fn send_delivers_every_size() {
    every_setup(|setup, size| {
        for (operation, imm) in [(Operation::Send, None), (Operation::SendImm, Some(0x0102_0304))] {
            let pair = one(setup, operation, size);
            let got = pair.completions[B][0];
            assert_eq!(
                (got.wr_id, got.status, got.opcode, got.byte_len, got.imm),
                (1, WcStatus::SUCCESS, WcOpcode::RECV, size, imm)
            );
            assert_eq!(pair.bytes(B, 300, size), pair.bytes(A, 100, size));
            let behind = pair.bytes(B, 300 + size, 16);
            let mut other = Pair::new(setup);
            other.fill(B, 0xC3);
            assert_eq!(behind, other.bytes(B, 300 + size, 16), "nothing behind it was touched");
        }
    });
}

#[test]
fn write_consumes_no_receive() {
    every_setup(|setup, size| {
        let pair = one(setup, Operation::Write, size);
        assert_eq!(pair.bytes(B, 300, size), pair.bytes(A, 100, size));
        assert!(pair.completions[B].is_empty());
    });
}

#[test]
fn write_imm_completes_a_receive() {
    every_setup(|setup, size| {
        let pair = one(setup, Operation::WriteImm, size);
        assert_eq!(pair.bytes(B, 300, size), pair.bytes(A, 100, size));
        let got = pair.completions[B][0];
        assert_eq!(
            (got.opcode, got.byte_len, got.imm),
            (WcOpcode::RECV_RDMA_WITH_IMM, size, Some(0x0102_0304))
        );
    });
}

#[test]
fn read_fetches_remote_bytes() {
    every_setup(|setup, size| {
        let pair = one(setup, Operation::Read, size);
        assert_eq!(pair.bytes(A, 100, size), pair.bytes(B, 300, size));
        assert_eq!(pair.completions[A][0].byte_len, size);
        assert!(pair.completions[B].is_empty());
    });
}

#[test]
fn atomics_return_original_value() {
    for v6 in [false, true] {
        let mut pair = Pair::new(&Setup { v6, ..Setup::default() });
        let handle = pair.memory[B].handle;
        pair.ends[B].write_memory(handle, 304, &7u64.to_le_bytes()).unwrap();
        let number = |pair: &Pair, end, at| u64::from_le_bytes(pair.bytes(end, at, 8).try_into().unwrap());

        let mut add = pair.request(1, Operation::FetchAdd, 0, 304, 8);
        add.swap_add = u64::MAX;
        pair.post(&add);
        let mut swap = pair.request(2, Operation::CompareSwap, 8, 304, 8);
        (swap.compare, swap.swap_add) = (6, 0x1122_3344_5566_7788);
        pair.post(&swap);
        let mut no_swap = pair.request(3, Operation::CompareSwap, 16, 304, 8);
        (no_swap.compare, no_swap.swap_add) = (6, 1);
        pair.post(&no_swap);
        pair.run_until_completions(3);
        assert_eq!(
            pair.completions[A].iter().map(|c| c.wr_id).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert_eq!(number(&pair, A, 0), 7);
        assert_eq!(number(&pair, A, 8), 6);
        assert_eq!(number(&pair, A, 16), 0x1122_3344_5566_7788);
        assert_eq!(number(&pair, B, 304), 0x1122_3344_5566_7788);
    }
}

#[test]
fn requests_complete_in_posting_order() {
    let mut pair = Pair::new(&Setup::default());
    pair.fill(A, 1);
    let kinds = [
        Operation::Send,
        Operation::Read,
        Operation::Write,
        Operation::FetchAdd,
        Operation::SendImm,
        Operation::CompareSwap,
        Operation::Read,
        Operation::WriteImm,
    ];
    for wr_id in 0..40 {
        pair.post_receive(wr_id, 0, 8192);
    }
    for wr_id in 0..40u32 {
        let operation = kinds[wr_id as usize % kinds.len()];
        let size = if operation.is_atomic() { 8 } else { wr_id * 97 };
        let request = pair.request(wr_id.into(), operation, 8 * wr_id, 8192 + 8 * wr_id, size);
        pair.post(&request);
    }
    pair.run_until_completions(40);
    let order: Vec<_> = pair.completions[A].iter().map(|done| done.wr_id).collect();
    assert_eq!(order, (0..40).collect::<Vec<_>>());
    assert!(pair.completions[A].iter().all(|done| done.status == WcStatus::SUCCESS));
}

#[test]
fn unsignaled_success_is_not_reported() {
    let mut pair = Pair::new(&Setup::default());
    let mut quiet = pair.request(1, Operation::Write, 0, 0, 10);
    quiet.signaled = false;
    pair.post(&quiet);
    let loud = pair.request(2, Operation::Write, 0, 0, 10);
    pair.post(&loud);
    pair.run_until_completions(1);
    assert_eq!(pair.completions[A][0].wr_id, 2);
    assert_eq!(pair.completions[A].len(), 1);
}

#[test]
fn send_with_invalidate_revokes_r_key() {
    let mut pair = Pair::new(&Setup::default());
    pair.post_receive(1, 0, 100);
    let request = pair.request(1, Operation::SendInvalidate, 0, 0, 10);
    pair.post(&request);
    let write = pair.request(2, Operation::Write, 0, 0, 10);
    pair.post(&write);
    pair.run_until_completions(2);
    assert_eq!(pair.completions[A][0].status, WcStatus::SUCCESS);
    assert_eq!(pair.completions[A][1].status, WcStatus::REM_ACCESS_ERR);
}

#[test]
fn psns_count_packets_and_wrap() {
    let mut pair = Pair::new(&Setup::default());
    pair.post_receive(1, 0, 100);
    let read = pair.request(1, Operation::Read, 0, 0, 3 * 1024 + 1);
    pair.post(&read);
    let write = pair.request(2, Operation::Write, 0, 0, 1025);
    pair.post(&write);
    let send = pair.request(3, Operation::Send, 0, 0, 1);
    pair.post(&send);
    pair.run_until_completions(3);
    let sent: Vec<_> = pair
        .packets(A)
        .iter()
        .map(|(_, p)| (p.opcode(), p.bth().psn()))
        .collect();
    assert_eq!(
        sent,
        [
            (Opcode::RC_READ_REQUEST, Psn(0xFF_FFFE)),
            (Opcode::RC_WRITE_FIRST, Psn(2)),
            (Opcode::RC_WRITE_LAST, Psn(3)),
            (Opcode::RC_SEND_ONLY, Psn(4)),
        ]
    );
    let answers: Vec<_> = pair.packets(B).iter().map(|(_, p)| p.bth().psn().0).collect();
    assert_eq!(answers, [0xFF_FFFE, 0xFF_FFFF, 0, 1, 3, 4]);
    assert_eq!(pair.ends[A].query(pair.qps[A]).unwrap().sq_psn, Psn(5));
    assert_eq!(pair.ends[B].query(pair.qps[B]).unwrap().rq_psn, Psn(5));
}

#[test]
fn msn_counts_messages() {
    let mut pair = Pair::new(&Setup::default());
    for wr_id in 0..2 {
        pair.post_receive(wr_id, 0, 8192);
    }
    for (wr_id, operation, size) in [
        (1, Operation::Send, 3000),
        (2, Operation::Write, 10),
        (3, Operation::Read, 3000),
        (4, Operation::FetchAdd, 8),
        (5, Operation::Send, 0),
    ] {
        let request = pair.request(wr_id, operation, 0, 0, size);
        pair.post(&request);
        pair.run_until_completions(wr_id as usize);
    }
    let msns: Vec<_> = pair
        .packets(B)
        .iter()
        .filter_map(|(_, p)| Some(p.aeth()?.msn()))
        .collect();
    assert_eq!(msns, [1, 2, 2, 3, 4, 5], "a READ counts with its last response");
}

#[test]
fn max_rd_atomic_and_fence_hold_requests() {
    let mut pair = Pair::new(&Setup {
        max_rd_atomic: 2,
        ..Setup::default()
    });
    pair.fate = Box::new(|_, _, _| vec![Duration::from_millis(1)]);
    for wr_id in 0..5 {
        let read = pair.request(wr_id, Operation::Read, 0, 0, 10);
        pair.post(&read);
    }
    let mut fenced = pair.request(5, Operation::Write, 0, 0, 10);
    fenced.fence = true;
    pair.post(&fenced);
    pair.run_until_completions(6);
    let mut in_flight = 0;
    for (_, from, frame) in &pair.sent {
        let Ok(packet) = verbatim_wire::Packet::parse(verbatim_wire::Medium::Ethernet, frame) else {
            continue;
        };
        match (*from, packet.opcode()) {
            (A, Opcode::RC_READ_REQUEST) => in_flight += 1,
            (A, Opcode::RC_WRITE_ONLY) => assert_eq!(in_flight, 0, "the fence waits"),
            (B, Opcode::RC_READ_RESPONSE_ONLY) => in_flight -= 1,
            _ => {}
        }
        assert!(in_flight <= 2);
    }
    assert_eq!(pair.completions[A].len(), 6);
}

#[test]
fn small_window_carries_long_message() {
    let mut profiles = [profile(A), profile(B)];
    profiles[A].choices.window = 1;
    let setup = Setup {
        mtu: Mtu::B256,
        ..Setup::default()
    };
    let mut pair = Pair::of(profiles, [&[], &[]], &setup);
    pair.fill(A, 3);
    let write = pair.request(1, Operation::Write, 0, 0, 5000);
    pair.post(&write);
    pair.run_until_completions(1);
    assert_eq!(pair.bytes(A, 0, 5000), pair.bytes(B, 0, 5000));
    assert!(pair.packets(A).iter().all(|(_, packet)| packet.bth().ack_request()));
}

#[test]
fn sqd_drains_and_rts_resumes() {
    let mut pair = Pair::new(&Setup::default());
    let first = pair.request(1, Operation::Write, 0, 0, 10);
    pair.post(&first);
    pair.ends[A]
        .modify(pair.qps[A], QpState::Sqd, &Default::default())
        .unwrap();
    let second = pair.request(2, Operation::Write, 0, 0, 10);
    pair.post(&second);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.completions[A].len(), 1);
    assert_eq!(pair.events[A][0].kind.to_string(), "IBV_EVENT_SQ_DRAINED");
    pair.ends[A]
        .modify(pair.qps[A], QpState::Rts, &Default::default())
        .unwrap();
    pair.run_until_completions(2);
    assert_eq!(pair.completions[A][1].wr_id, 2);
}

#[test]
fn runs_are_deterministic() {
    let run = || {
        let mut pair = Pair::of([profile(A).vary(3), profile(B).vary(4)], [&[], &[]], &Setup::default());
        let read = pair.request(1, Operation::Read, 0, 0, 5000);
        pair.post(&read);
        pair.run_until_completions(1);
        pair.sent
    };
    assert_eq!(run(), run());
}

//! Tests of refused verbs and their messages, and of unreliable datagrams.

use std::time::Duration;

use verbatim_device::rc::{
    Access, Adapter, AddressVector, EventKind, Gid, MemoryHandle, Operation, QpAttributes, QpHandle, QpState,
    ReceiveRequest, Refusal, SendRequest, Service, Slice,
};
use verbatim_wire::{AckTimeout, Mtu, Psn, QKey, Qpn, RnrTimer};

use super::adapters::{A, B, Pair, Setup, address, profile};

const PEER: Qpn = Qpn(0x1234);

fn adapter() -> (Adapter, QpHandle) {
    let mut adapter = Adapter::new(profile(A), &[]);
    let (qp, _) = adapter.create_qp(Service::Rc, 2, 2).unwrap();
    (adapter, qp)
}

fn says(refusal: Result<(), Refusal>, errno: i32, words: &str) {
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.errno, errno, "{refusal}");
    assert!(refusal.text.contains(words), "{refusal}");
    assert!(refusal.text.starts_with("expected "), "{refusal}");
}

#[test]
fn transition_rejects_wrong_attributes() {
    let (mut adapter, qp) = adapter();
    for (state, attributes) in Setup::default().steps(A, PEER) {
        let from = adapter.query(qp).unwrap().state;
        says(
            adapter.modify(qp, state, &QpAttributes::default()),
            22,
            "expected these attributes too: ",
        );
        let more = QpAttributes {
            qkey: Some(QKey(1)),
            ..attributes
        };
        says(
            adapter.modify(qp, state, &more),
            22,
            "expected none of these attributes: qkey",
        );
        assert_eq!(adapter.query(qp).unwrap().state, from, "nothing has changed");
        adapter.modify(qp, state, &attributes).unwrap();
    }
    assert_eq!(adapter.query(qp).unwrap().state, QpState::Rts);
    says(
        adapter.modify(qp, QpState::Rtr, &QpAttributes::default()),
        22,
        "none from RTS to RTR",
    );
    adapter.modify(qp, QpState::Reset, &QpAttributes::default()).unwrap();
    assert_eq!(adapter.query(qp).unwrap().sq_psn, Psn(0));
}

#[test]
fn rejects_out_of_range_attributes() {
    let [(_, init), (_, rtr), (_, rts)] = Setup::default().steps(A, PEER);
    let far = AddressVector {
        dgid: Some(Gid::from(address(B, true))),
        sgid_index: 0,
        ..AddressVector::default()
    };
    type Change = fn(&mut QpAttributes);
    let with = |base: QpAttributes, change: Change| {
        let mut changed = base;
        change(&mut changed);
        changed
    };
    for (step, attributes, words) in [
        (0, with(init, |a| a.pkey_index = Some(1)), "pkey_index below 1, not 1"),
        (0, with(init, |a| a.port = Some(2)), "port 1"),
        (1, with(rtr, |a| a.path_mtu = Some(Mtu(6))), "code of 1 to 5"),
        (1, with(rtr, |a| a.path_mtu = Some(Mtu(0))), "code of 1 to 5"),
        (1, with(rtr, |a| a.rq_psn = Some(Psn(1 << 24))), "rq_psn below 16777216"),
        (
            1,
            with(rtr, |a| a.min_rnr_timer = Some(RnrTimer(32))),
            "min_rnr_timer below 32",
        ),
        (
            1,
            with(rtr, |a| a.max_dest_rd_atomic = Some(17)),
            "max_dest_rd_atomic below 17",
        ),
        (
            1,
            with(rtr, |a| a.address = Some(AddressVector::default())),
            "with a DGID",
        ),
        (
            1,
            QpAttributes {
                address: Some(far),
                ..rtr
            },
            "choose another sgid_index",
        ),
        (2, with(rts, |a| a.timeout = Some(AckTimeout(32))), "timeout below 32"),
        (2, with(rts, |a| a.retry_cnt = Some(8)), "retry_cnt below 8"),
        (2, with(rts, |a| a.rnr_retry = Some(8)), "rnr_retry below 8"),
        (
            2,
            with(rts, |a| a.max_rd_atomic = Some(u8::MAX)),
            "max_rd_atomic below 17",
        ),
    ] {
        let (mut adapter, qp) = adapter();
        let steps = Setup::default().steps(A, PEER);
        for (state, sound) in &steps[..step] {
            adapter.modify(qp, *state, sound).unwrap();
        }
        says(adapter.modify(qp, steps[step].0, &attributes), 22, words);
    }
}

#[test]
fn rejects_unknown_handles() {
    let (mut adapter, qp) = adapter();
    let nothing = QpHandle(77);
    let request = SendRequest::new(1, Operation::Send, Slice::default());
    let receive = ReceiveRequest {
        wr_id: 1,
        local: Slice::default(),
    };
    says(
        adapter.modify(nothing, QpState::Err, &QpAttributes::default()),
        2,
        "handle 77",
    );
    says(adapter.query(nothing).map(|_| ()), 2, "queue pair");
    says(adapter.post_send(Duration::ZERO, nothing, &request), 2, "handle 77");
    says(adapter.post_receive(Duration::ZERO, nothing, &receive), 2, "handle 77");
    says(adapter.destroy(nothing), 2, "handle 77");
    says(adapter.deregister(MemoryHandle(5)), 2, "memory");
    adapter.destroy(qp).unwrap();
    says(adapter.destroy(qp), 2, "queue pair");
}

#[test]
fn rejects_access_beyond_memory() {
    let (mut adapter, _) = adapter();
    for (length, access) in [
        (0, Access::ALL),
        (u32::MAX, Access::ALL),
        (
            8,
            Access {
                remote_write: true,
                ..Access::default()
            },
        ),
    ] {
        assert_eq!(adapter.register(length, access).unwrap_err().errno, 22);
    }
    let memory = adapter.register(16, Access::ALL).unwrap().handle;
    adapter.write_memory(memory, 12, &[1; 4]).unwrap();
    says(adapter.write_memory(memory, 13, &[1; 4]), 22, "it ends at byte 17");
    let beyond = Slice {
        memory,
        offset: u32::MAX,
        length: u32::MAX,
    };
    says(adapter.read_memory(beyond).map(|_| ()), 22, "within the 16 bytes");
}

#[test]
fn queues_reject_excess_and_unsupported() {
    let (mut adapter, qp) = adapter();
    let now = Duration::ZERO;
    let send = SendRequest::new(1, Operation::Send, Slice::default());
    let receive = ReceiveRequest {
        wr_id: 1,
        local: Slice::default(),
    };
    says(adapter.post_receive(now, qp, &receive), 22, "RESET");
    says(adapter.post_send(now, qp, &send), 22, "in RTS");
    Setup::default().connect(&mut adapter, qp, A, PEER);
    for _ in 0..2 {
        adapter.post_receive(now, qp, &receive).unwrap();
        adapter.post_send(now, qp, &send).unwrap();
    }
    says(
        adapter.post_receive(now, qp, &receive),
        12,
        "at most 2 receive requests",
    );
    says(adapter.post_send(now, qp, &send), 12, "at most 2 send requests");
    adapter.destroy_all();
    let mut plain = profile(A);
    (plain.atomics, plain.invalidate, plain.max_qps) = (false, false, 1);
    let mut adapter = Adapter::new(plain, &[]);
    let memory = adapter.register(8, Access::ALL).unwrap().handle;
    let (qp, _) = adapter.create_qp(Service::Rc, 2, 2).unwrap();
    assert_eq!(adapter.create_qp(Service::Rc, 2, 2).unwrap_err().errno, 12);
    assert_eq!(adapter.create_qp(Service::Rc, 0, 2).unwrap_err().errno, 22);
    Setup::default().connect(&mut adapter, qp, A, PEER);
    let local = |length| Slice {
        memory,
        offset: 0,
        length,
    };
    for (operation, length, words) in [
        (Operation::FetchAdd, 8, "no atomics"),
        (Operation::SendInvalidate, 8, "no SEND with Invalidate"),
        (Operation::Send, 9, "within the 8 bytes"),
    ] {
        let request = SendRequest::new(1, operation, local(length));
        says(adapter.post_send(now, qp, &request), 22, words);
    }
}

#[test]
fn first_packet_in_rtr_is_reported_once() {
    let mut pair = Pair::new(&Setup::default());
    let (qp, qpn) = pair.ends[B].create_qp(Service::Rc, 2, 2).unwrap();
    let (peer, peer_qpn) = pair.ends[A].create_qp(Service::Rc, 2, 2).unwrap();
    Setup::default().connect(&mut pair.ends[A], peer, A, qpn);
    for (state, attributes) in &Setup::default().steps(B, peer_qpn)[..2] {
        pair.ends[B].modify(qp, *state, attributes).unwrap();
    }
    pair.qps[A] = peer;
    for wr_id in 0..2 {
        let request = pair.request(wr_id, Operation::Write, 0, 0, 10);
        pair.post(&request);
    }
    pair.run_until_completions(2);
    let kinds: Vec<_> = pair.events[B].iter().map(|event| (event.kind, event.qp)).collect();
    assert_eq!(kinds, [(EventKind::COMM_EST, qp)]);
}

#[test]
fn datagram_follows_40_byte_header() {
    for v6 in [false, true] {
        let mut pair = Pair::new(&Setup::default());
        pair.fill(A, 9);
        let made = [A, B].map(|end| pair.ends[end].create_qp(Service::Ud, 8, 8).unwrap());
        for (end, (qp, _)) in made.iter().enumerate() {
            let init = QpAttributes {
                pkey_index: Some(0),
                port: Some(1),
                qkey: Some(QKey(0x11)),
                ..QpAttributes::default()
            };
            let rts = QpAttributes {
                sq_psn: Some(Psn(3)),
                ..QpAttributes::default()
            };
            let adapter = &mut pair.ends[end];
            adapter.modify(*qp, QpState::Init, &init).unwrap();
            adapter.modify(*qp, QpState::Rtr, &QpAttributes::default()).unwrap();
            adapter.modify(*qp, QpState::Rts, &rts).unwrap();
        }
        let (to, to_number) = made[B];
        let mut request = SendRequest::new(1, Operation::SendImm, pair.slice(A, 0, 100));
        request.address = AddressVector {
            dgid: Some(Gid::from(address(B, v6))),
            sgid_index: v6.into(),
            ..AddressVector::default()
        };
        (request.remote_qpn, request.remote_qkey, request.imm) = (to_number, QKey(0x11), 5);
        pair.qps = [made[A].0, to];
        pair.post(&request); // lost: no receive
        pair.run_for(Duration::from_millis(1));
        pair.post_receive(7, 1000, 140);
        pair.post_receive(8, 2000, 139);
        pair.post(&SendRequest {
            remote_qkey: QKey(0x12),
            ..request
        });
        pair.post(&request);
        pair.run_for(Duration::from_millis(1));
        let got: Vec<_> = pair.completions[B]
            .iter()
            .map(|c| (c.wr_id, c.byte_len, c.imm))
            .collect();
        assert_eq!(got, [(7, 140, Some(5))]);
        assert_eq!(pair.bytes(B, 1040, 100), pair.bytes(A, 0, 100));
        let version = pair.bytes(B, if v6 { 1000 } else { 1020 }, 1)[0] >> 4;
        assert_eq!(version, if v6 { 6 } else { 4 });
        assert_eq!(pair.completions[A].len(), 3, "a datagram is done when it was sent");
    }
}

#[test]
fn seed_determines_adapter() {
    let varied = profile(A).vary(1);
    assert_eq!(varied, profile(A).vary(1));
    assert_ne!(varied, profile(A).vary(2));
    assert_eq!(varied.gids(), profile(A).gids());
    assert_eq!(varied.gids()[0].ip(), address(A, false));
    for seed in 0..200 {
        let mut adapter = Adapter::new(profile(A).vary(seed), &[]);
        let (_, first) = adapter.create_qp(Service::Rc, 1, 1).unwrap();
        let (_, second) = adapter.create_qp(Service::Rc, 1, 1).unwrap();
        assert!(first != second && first.0 > 1 && first.0 < 0x00FF_FFFF);
    }
}

#[test]
fn small_adapter_rejects_unsupported() {
    let mut small = profile(A);
    (small.sqd, small.first_address) = (false, 0);
    (small.timeouts, small.min_rnr_timers) = (vec![14], vec![16]);
    let mut adapter = Adapter::new(small, &[]);
    assert_eq!(adapter.register(8, Access::ALL).unwrap().address, 0);
    let (qp, _) = adapter.create_qp(Service::Rc, 2, 2).unwrap();
    let setup = Setup {
        min_rnr_timer: RnrTimer(16),
        ..Setup::default()
    };
    let other = Setup {
        timeout: AckTimeout(15),
        ..Setup::default()
    };
    let ([init, rtr, rts], [_, other_rtr, other_rts]) = (setup.steps(A, PEER), other.steps(A, PEER));
    adapter.modify(qp, init.0, &init.1).unwrap();
    says(adapter.modify(qp, other_rtr.0, &other_rtr.1), 22, "min_rnr_timer");
    adapter.modify(qp, rtr.0, &rtr.1).unwrap();
    says(adapter.modify(qp, other_rts.0, &other_rts.1), 22, "timeout");
    adapter.modify(qp, rts.0, &rts.1).unwrap();
    says(adapter.modify(qp, QpState::Sqd, &QpAttributes::default()), 95, "no SQD");
}

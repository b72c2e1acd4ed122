//! Posting and polling, and the objects that posted requests keep alive.

use nix::errno::Errno;
use verbatim_wire::{
    QKey, Qpn,
    verbs::{Access, AddressVector, Operation, QpAttributes, QpState, Service, WcOpcode, WcStatus},
};

use crate::verbs::{
    Completion, Destination, ReceiveRequest, SendRequest, VerbsError,
    c::{self, ibv_wc, ibv_wc_flags, ibv_wr_opcode},
    ffi::Zeroed,
};

use super::{Bench, bench, fake::world, request};

/// Queues a completion for the next poll.
fn complete(bench: &Bench, wr_id: u64, status: WcStatus, opcode: WcOpcode, fill: impl FnOnce(&mut ibv_wc)) {
    let mut completion = ibv_wc::zeroed();
    completion.wr_id = wr_id;
    completion.status = status.0;
    completion.opcode = opcode.0;
    completion.qp_num = bench.qp.qpn();
    fill(&mut completion);
    world(|world| world.completions.push_back(completion));
}

fn poll(bench: &Bench) -> Vec<Completion> {
    let mut completions = Vec::new();
    assert_eq!(bench.cq.poll(&mut completions).unwrap().taken, completions.len());
    completions
}

fn read(wr_id: u64) -> SendRequest {
    request(wr_id, Operation::Read)
}

#[test]
fn operations_match_header_encoding() {
    let bench = bench(Service::Rc);
    let region = bench.pd.register(4096, Access::ALL).unwrap();
    let operations = [
        (Operation::Send, ibv_wr_opcode::IBV_WR_SEND),
        (Operation::SendImm, ibv_wr_opcode::IBV_WR_SEND_WITH_IMM),
        (Operation::SendInvalidate, ibv_wr_opcode::IBV_WR_SEND_WITH_INV),
        (Operation::Write, ibv_wr_opcode::IBV_WR_RDMA_WRITE),
        (Operation::WriteImm, ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM),
        (Operation::Read, ibv_wr_opcode::IBV_WR_RDMA_READ),
        (Operation::CompareSwap, ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP),
        (Operation::FetchAdd, ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD),
    ];
    for (index, (operation, _)) in operations.iter().enumerate() {
        let request = SendRequest {
            data: Some(region.segment(index * 8, 8)),
            ..request(index as u64, *operation)
        };
        bench.qp.post_send(request).unwrap();
    }
    let sends = world(|world| std::mem::take(&mut world.sends));
    let (remote_address, rkey) = (0x1111_2222_3333_4440, 0x99);
    for (index, ((request, list), (operation, opcode))) in sends.iter().zip(&operations).enumerate() {
        assert_eq!((request.wr_id, request.opcode), (index as u64, *opcode));
        assert_eq!(request.send_flags, 2, "signaled and nothing else");
        assert_eq!((list[0].addr, list[0].length), (region.addr() + index as u64 * 8, 8));
        assert_eq!((list.len(), list[0].lkey), (1, region.lkey()));
        // SAFETY: each operation fills these members; all are plain numbers.
        unsafe {
            let (atomic, rdma) = (request.wr.atomic, request.wr.rdma);
            match operation {
                Operation::Send => {}
                Operation::SendImm => assert_eq!(c::word!(request).imm_data, 0x0102_0304_u32.to_be()),
                Operation::SendInvalidate => assert_eq!(c::word!(request).imm_data, rkey),
                Operation::CompareSwap => {
                    assert_eq!((atomic.remote_addr, atomic.rkey), (remote_address, rkey));
                    assert_eq!((atomic.compare_add, atomic.swap), (5, 6));
                }
                Operation::FetchAdd => {
                    assert_eq!((atomic.remote_addr, atomic.rkey), (remote_address, rkey));
                    assert_eq!((atomic.compare_add, atomic.swap), (6, 0));
                }
                _ => assert_eq!((rdma.remote_addr, rdma.rkey), (remote_address, rkey)),
            }
            if *operation == Operation::WriteImm {
                assert_eq!(c::word!(request).imm_data, 0x0102_0304_u32.to_be());
            }
        }
    }
}

#[test]
fn flags_reach_the_driver() {
    let bench = bench(Service::Rc);
    let request = SendRequest {
        signaled: false,
        solicited: true,
        fence: true,
        ..request(1, Operation::Send)
    };
    bench.qp.post_send(request.clone()).unwrap();
    assert_eq!(world(|world| world.sends[0].0.send_flags), 1 | 4);
}

#[test]
fn only_ud_requests_have_destination() {
    let datagrams = bench(Service::Ud);
    let address = datagrams
        .pd
        .create_address_handle(&AddressVector::default(), 1)
        .unwrap();
    let destination = Destination {
        address,
        qpn: Qpn(0x123),
        qkey: QKey(0x1111_1111),
    };
    let sound = SendRequest {
        destination: Some(destination.clone()),
        ..request(1, Operation::SendImm)
    };
    datagrams.qp.post_send(sound.clone()).unwrap();
    let sent = world(|world| world.sends.pop().unwrap().0);
    // SAFETY: a datagram fills this member.
    let ud = unsafe { sent.wr.ud };
    assert_eq!(
        (ud.ah, ud.remote_qpn, ud.remote_qkey),
        (destination.address.pointer(), 0x123, 0x1111_1111)
    );

    let lost = request(2, Operation::Send);
    let write = SendRequest {
        destination: Some(destination.clone()),
        ..read(3)
    };
    for (request, part) in [(lost, "needs a destination"), (write, "takes only SENDs")] {
        let error = datagrams.qp.post_send(request.clone()).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let connected = bench(Service::Rc);
    let error = connected.qp.post_send(sound.clone()).unwrap_err();
    assert!(
        error.to_string().contains("only a UD queue pair takes a destination"),
        "{error}"
    );
    let others = bench(Service::Ud);
    let error = others.qp.post_send(sound.clone()).unwrap_err();
    assert!(
        error.to_string().contains("address handle belongs to another context"),
        "{error}"
    );
    assert_eq!(world(|world| world.sends.len()), 0, "none of these reached the driver");
}

#[test]
fn segment_outside_region_is_not_posted() {
    let bench = bench(Service::Rc);
    let region = bench.pd.register(16, Access::ALL).unwrap();
    let error = bench
        .qp
        .post_send(SendRequest {
            data: Some(region.segment(8, 9)),
            ..read(1)
        })
        .unwrap_err();
    assert!(
        matches!(
            error,
            VerbsError::OutOfRegion {
                offset: 8,
                length: 9,
                ..
            }
        ),
        "{error:?}"
    );
    let receive = ReceiveRequest {
        wr_id: 1,
        data: Some(region.segment(usize::MAX, 1)),
    };
    assert!(matches!(
        bench.qp.post_receive(receive.clone()),
        Err(VerbsError::OutOfRegion { .. })
    ));
    assert_eq!(world(|world| (world.sends.len(), world.receives.len())), (0, 0));
}

#[test]
fn refused_post_keeps_nothing_in_flight() {
    let bench = bench(Service::Rc);
    let region = bench.pd.register(16, Access::ALL).unwrap();
    world(|world| world.fails = vec![("post_send", Errno::ENOMEM), ("post_recv", Errno::EINVAL)]);
    let error = bench
        .qp
        .post_send(SendRequest {
            data: Some(region.segment(0, 8)),
            ..read(1)
        })
        .unwrap_err();
    assert!(
        error.to_string().contains("fake0 (QP 0x11)") && error.to_string().contains("queue is full"),
        "{error}"
    );
    let data = Some(region.segment(0, 8));
    let error = bench.qp.post_receive(ReceiveRequest { wr_id: 2, data }).unwrap_err();
    assert!(error.to_string().contains("the state of the queue pair"), "{error}");
    assert_eq!(bench.qp.in_flight(), (0, 0));
}

#[test]
fn missing_driver_operation_is_an_error() {
    let bench = bench(Service::Rc);
    // SAFETY: the context is the fake's, and no other code uses it at this time.
    unsafe {
        let ops = &mut (*bench.context.pointer()).ops;
        (ops.post_send, ops.post_recv, ops.poll_cq) = (None, None, None);
    }
    let receive = ReceiveRequest { wr_id: 0, data: None };
    let errors = [
        bench.qp.post_send(read(1)).map(drop),
        bench.qp.post_receive(receive.clone()).map(drop),
        bench.cq.poll(&mut Vec::new()).map(drop),
    ];
    for error in errors {
        assert!(matches!(error, Err(VerbsError::NotOffered { .. })), "{error:?}");
    }
    assert_eq!(bench.qp.in_flight(), (0, 0));
}

#[test]
fn memory_stays_registered_until_completion() {
    let bench = bench(Service::Rc);
    let region = bench.pd.register(16, Access::ALL).unwrap();
    let data = Some(region.segment(0, 16));
    bench.qp.post_receive(ReceiveRequest { wr_id: 5, data }).unwrap();
    let gone = || world(|world| world.log.contains(&"-mr"));
    drop(region);
    assert!(!gone());
    complete(&bench, 5, WcStatus::SUCCESS, WcOpcode::SEND, |_| ());
    poll(&bench);
    assert!(!gone(), "that was a send of the same name");
    complete(&bench, 5, WcStatus::SUCCESS, WcOpcode::RECV, |_| ());
    poll(&bench);
    assert!(gone());
}

#[test]
fn completion_releases_earlier_unsignaled() {
    let bench = bench(Service::Rc);
    for wr_id in [1, 2, 3] {
        bench.qp.post_send(read(wr_id)).unwrap();
    }
    complete(&bench, 2, WcStatus::SUCCESS, WcOpcode::RDMA_READ, |_| ());
    poll(&bench);
    assert_eq!(bench.qp.in_flight(), (1, 0));
    // The opcode of a failed request is meaningless.
    complete(&bench, 3, WcStatus::WR_FLUSH_ERR, WcOpcode::RECV, |_| ());
    poll(&bench);
    assert_eq!(bench.qp.in_flight(), (0, 0));
}

#[test]
fn ambiguous_failure_releases_nothing() {
    let bench = bench(Service::Rc);
    bench.qp.post_send(read(1)).unwrap();
    let data = None;
    bench.qp.post_receive(ReceiveRequest { wr_id: 1, data }).unwrap();
    complete(&bench, 1, WcStatus::WR_FLUSH_ERR, WcOpcode::SEND, |_| ());
    poll(&bench);
    assert_eq!(bench.qp.in_flight(), (1, 1));
    bench.qp.modify(QpState::Reset, &QpAttributes::default()).unwrap();
    assert_eq!(bench.qp.in_flight(), (0, 0));
}

#[test]
fn unsignaled_requests_do_not_pile_up() {
    let bench = bench(Service::Rc);
    for wr_id in 0..1000 {
        bench.qp.post_send(read(wr_id)).unwrap();
    }
    // The test requested a depth of 2 and the fake granted 3. The limit is 8, twice the next power of two.
    assert_eq!(bench.qp.in_flight(), (8, 0));
}

#[test]
fn destroyed_qp_releases_its_memory() {
    let bench = bench(Service::Rc);
    let region = bench.pd.register(16, Access::ALL).unwrap();
    bench
        .qp
        .post_send(SendRequest {
            data: Some(region.segment(0, 8)),
            ..read(1)
        })
        .unwrap();
    drop(region);
    world(|world| world.log.clear());
    let Bench { qp, cq, .. } = bench;
    drop(qp);
    assert_eq!(world(|world| world.log[..2].to_vec()), ["-qp", "-mr"]);
    // A completion of a destroyed queue pair is still delivered.
    let mut stray = ibv_wc::zeroed();
    stray.qp_num = 0x11;
    world(|world| world.completions.push_back(stray));
    assert_eq!(cq.poll(&mut Vec::new()).unwrap().taken, 1);
}

#[test]
fn completions_keep_order_and_fields() {
    let bench = bench(Service::Rc);
    complete(&bench, 1, WcStatus::SUCCESS, WcOpcode::RECV, |wc| {
        wc.byte_len = 77;
        wc.wc_flags = ibv_wc_flags::IBV_WC_WITH_IMM.0;
        c::word!(wc).imm_data = 0x0102_0304_u32.to_be();
    });
    complete(&bench, 2, WcStatus::SUCCESS, WcOpcode::RECV, |wc| {
        wc.wc_flags = ibv_wc_flags::IBV_WC_WITH_INV.0;
        c::word!(wc).imm_data = 0x55; // An R_Key, not immediate data.
    });
    complete(&bench, 3, WcStatus::REM_ACCESS_ERR, WcOpcode::SEND, |wc| {
        wc.vendor_err = 0x88;
        wc.wc_flags = 0xffff_ffff; // Meaningless on a failure.
    });
    complete(&bench, 4, WcStatus::SUCCESS, WcOpcode::SEND, |wc| {
        wc.wc_flags = ibv_wc_flags::IBV_WC_WITH_IMM.0; // Some drivers set this flag for sent data.
    });
    let seen = poll(&bench);
    assert_eq!(seen.iter().map(|seen| seen.wr_id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!((seen[0].imm, seen[0].byte_len), (Some(0x0102_0304), 77));
    assert_eq!((seen[1].imm, seen[2].imm, seen[3].imm), (None, None, None));
    assert_eq!(seen[2].vendor_err, 0x88);
    assert_eq!(
        (seen[2].status, seen[2].qp_num),
        (WcStatus::REM_ACCESS_ERR, bench.qp.qpn())
    );
}

#[test]
fn poll_takes_at_most_queue_size() {
    let bench = bench(Service::Rc);
    for wr_id in 0..40 {
        complete(&bench, wr_id, WcStatus::SUCCESS, WcOpcode::SEND, |_| ());
    }
    assert_eq!(bench.cq.entries(), 16);
    assert_eq!(
        (poll(&bench).len(), poll(&bench).len(), poll(&bench).len()),
        (16, 16, 8)
    );
    assert_eq!(poll(&bench), []);
    world(|world| world.fails.push(("poll", Errno::EIO)));
    assert_eq!(
        bench.cq.poll(&mut Vec::new()).unwrap_err().errno(),
        Some(Errno::EIO as i32)
    );
}

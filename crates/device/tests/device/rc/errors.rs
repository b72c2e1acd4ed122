//! Tests with two adapters: every error completion that one adapter can cause in the other.

use std::time::Duration;

use verbatim_device::rc::{Access, Operation, QpAttributes, QpState, RcDefect, ReceiveRequest, SendRequest, WcStatus};
use verbatim_wire::{AckTimeout, RKey};

use super::adapters::{A, B, Pair, Setup, profile};

fn statuses(pair: &Pair, end: usize) -> Vec<WcStatus> {
    pair.completions[end].iter().map(|done| done.status).collect()
}

/// Posts two requests, and checks that the first fails with `status` and the second is flushed.
fn fails(pair: &mut Pair, request: &SendRequest, status: WcStatus) {
    pair.post(request);
    let behind = pair.request(99, Operation::Send, 0, 0, 1);
    pair.post(&behind);
    pair.run_until_completions(2);
    assert_eq!(statuses(pair, A), [status, WcStatus::WR_FLUSH_ERR], "{request:?}");
    assert_eq!(pair.ends[A].query(pair.qps[A]).unwrap().state, QpState::Err);
}

#[test]
fn wrong_r_key_is_remote_access_error() {
    for operation in [
        Operation::Write,
        Operation::Read,
        Operation::CompareSwap,
        Operation::FetchAdd,
    ] {
        let mut pair = Pair::new(&Setup::default());
        let request = pair.request(1, operation, 0, 0, 8);
        let wrong_key = SendRequest {
            r_key: RKey(request.r_key.0 + 1),
            ..request
        };
        fails(&mut pair, &wrong_key, WcStatus::REM_ACCESS_ERR);
        assert_eq!(pair.ends[B].query(pair.qps[B]).unwrap().state, QpState::Err);
    }
}

#[test]
fn missing_qp_right_is_invalid_request() {
    let mut pair = Pair::new(&Setup {
        access: Access::LOCAL,
        ..Setup::default()
    });
    let request = pair.request(1, Operation::Write, 0, 0, 8);
    fails(&mut pair, &request, WcStatus::REM_INV_REQ_ERR);
}

#[test]
fn overlong_send_fails_at_both_ends() {
    let mut pair = Pair::new(&Setup::default());
    pair.post_receive(1, 0, 2000);
    pair.post_receive(2, 0, 2000);
    let request = pair.request(1, Operation::Send, 0, 0, 2001);
    fails(&mut pair, &request, WcStatus::REM_INV_REQ_ERR);
    assert_eq!(statuses(&pair, B), [WcStatus::LOC_LEN_ERR, WcStatus::WR_FLUSH_ERR]);
}

#[test]
fn unwritable_receive_is_operational_error() {
    let mut pair = Pair::new(&Setup::default());
    let memory = pair.ends[B].register(100, Access::default()).unwrap();
    let local = verbatim_device::rc::Slice {
        memory: memory.handle,
        offset: 0,
        length: 100,
    };
    let receive = ReceiveRequest { wr_id: 1, local };
    pair.ends[B].post_receive(pair.now, pair.qps[B], &receive).unwrap();
    let request = pair.request(1, Operation::Send, 0, 0, 10);
    fails(&mut pair, &request, WcStatus::REM_OP_ERR);
    assert_eq!(statuses(&pair, B), [WcStatus::LOC_PROT_ERR]);
}

#[test]
fn local_fault_completes_in_order() {
    for operation in [Operation::Write, Operation::Read] {
        let mut pair = Pair::new(&Setup::default());
        let memory = pair.ends[A].register(100, Access::LOCAL).unwrap();
        let sound = pair.request(1, Operation::Write, 0, 0, 10);
        // The fence keeps the request pending until its memory is deregistered.
        let read = pair.request(2, Operation::Read, 0, 0, 10);
        let mut doomed = pair.request(3, operation, 0, 0, 10);
        doomed.local.memory = memory.handle;
        doomed.fence = true;
        for request in [&sound, &read, &doomed] {
            pair.post(request);
        }
        pair.ends[A].deregister(memory.handle).unwrap();
        pair.run_until_completions(3);
        assert_eq!(
            statuses(&pair, A),
            [WcStatus::SUCCESS, WcStatus::SUCCESS, WcStatus::LOC_PROT_ERR]
        );
    }
    let mut pair = Pair::new(&Setup::default());
    let memory = pair.ends[A].register(100, Access::default()).unwrap();
    let mut read = pair.request(1, Operation::Read, 0, 0, 10);
    read.local.memory = memory.handle;
    fails(&mut pair, &read, WcStatus::LOC_PROT_ERR);
}

#[test]
fn atomic_without_resources_fails_locally() {
    let mut pair = Pair::new(&Setup {
        max_rd_atomic: 0,
        ..Setup::default()
    });
    let request = pair.request(1, Operation::FetchAdd, 0, 0, 8);
    fails(&mut pair, &request, WcStatus::LOC_QP_OP_ERR);
}

#[test]
fn timeout_and_rnr_have_own_statuses() {
    let mut pair = Pair::new(&Setup {
        timeout: AckTimeout(10),
        ..Setup::default()
    });
    pair.ends[B]
        .modify(pair.qps[B], QpState::Err, &QpAttributes::default())
        .unwrap();
    let request = pair.request(1, Operation::Send, 0, 0, 10);
    fails(&mut pair, &request, WcStatus::RETRY_EXC_ERR);

    let mut pair = Pair::new(&Setup::default());
    let request = pair.request(1, Operation::Send, 0, 0, 10);
    fails(&mut pair, &request, WcStatus::RNR_RETRY_EXC_ERR);
}

#[test]
fn malformed_read_response_fails_read() {
    let defective = |defect: &'static [RcDefect]| Pair::of([profile(A), profile(B)], [&[], defect], &Setup::default());
    let mut pair = defective(&[RcDefect::ReadResponseShort]);
    let request = pair.request(1, Operation::Read, 0, 0, 3000);
    fails(&mut pair, &request, WcStatus::LOC_LEN_ERR);
    let mut pair = defective(&[RcDefect::ReadResponseMiddleOnly]);
    let request = pair.request(1, Operation::Read, 0, 0, 3000);
    fails(&mut pair, &request, WcStatus::BAD_RESP_ERR);
}

#[test]
fn error_state_flushes_queues_in_order() {
    let mut pair = Pair::new(&Setup::default());
    pair.fate = Box::new(|_, _, _| vec![]);
    for wr_id in 0..5 {
        pair.post_receive(10 + wr_id, 0, 10);
        let request = pair.request(wr_id, Operation::Send, 0, 0, 10);
        pair.post(&request);
    }
    for end in [A, B] {
        pair.ends[end]
            .modify(pair.qps[end], QpState::Err, &QpAttributes::default())
            .unwrap();
    }
    pair.run_for(Duration::from_secs(1));
    let order = |end: usize| pair.completions[end].iter().map(|done| done.wr_id).collect::<Vec<_>>();
    assert_eq!(order(A), [0, 1, 2, 3, 4]);
    assert_eq!(order(B), [10, 11, 12, 13, 14]);
    assert!(
        statuses(&pair, A)
            .iter()
            .all(|status| *status == WcStatus::WR_FLUSH_ERR)
    );
}

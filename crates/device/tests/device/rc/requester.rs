//! Tests of a conforming requester, with and without responses.

use std::time::Duration;

use verbatim_device::rc::{AdapterChoices, Operation, QpState, WcStatus};
use verbatim_wire::{AckTimeout, CreditCode, Mtu, NakCode, Opcode, Psn, RnrTimer, Syndrome};

use super::adapters::{A, Setup, profile};
use super::peer::Peer;

fn setup() -> Setup {
    Setup {
        timeout: AckTimeout::OFF,
        mtu: Mtu::B256,
        psn: [Psn(100), Psn(7)],
        ..Setup::default()
    }
}

fn peer() -> Peer {
    Peer::new(&setup())
}

fn with_choices(setup: &Setup, change: impl Fn(&mut AdapterChoices)) -> Peer {
    let mut profile = profile(A);
    change(&mut profile.choices);
    Peer::of(profile, &[], setup)
}

fn done(peer: &Peer) -> Vec<(u64, WcStatus)> {
    peer.completions.iter().map(|done| (done.wr_id, done.status)).collect()
}

/// Returns the opcode and PSN of each packet that the adapter sent since the last call.
fn sent(peer: &mut Peer) -> Vec<(Opcode, u32)> {
    let new = peer.take();
    new.iter().map(|p| (p.bth.opcode(), p.bth.psn().0)).collect()
}

#[test]
fn rnr_nak_delays_identical_retry() {
    for code in 0..32 {
        let mut peer = Peer::new(&Setup {
            rnr_retry: 1,
            ..setup()
        });
        peer.post(1, Operation::Send, 100);
        let nak_at = peer.now;
        peer.answer(Psn(100), Syndrome::rnr_nak(RnrTimer(code)));
        peer.run(Duration::from_secs(2));
        assert_eq!(peer.seen.len(), 2, "code {code}");
        let (again_at, again) = &peer.seen[1];
        assert_eq!(*again, peer.seen[0].1);
        assert!(*again_at - nak_at >= RnrTimer(code).duration());
        assert!(done(&peer).is_empty());
        peer.answer(Psn(100), Syndrome::rnr_nak(RnrTimer(code)));
        peer.run(Duration::from_secs(2));
        assert_eq!(peer.seen.len(), 2);
        assert_eq!(done(&peer), [(1, WcStatus::RNR_RETRY_EXC_ERR)]);
        assert_eq!(peer.state(), QpState::Err);
    }
}

#[test]
fn ack_timeout_does_not_end_rnr_wait() {
    let mut peer = Peer::new(&Setup {
        timeout: AckTimeout(8),
        ..setup()
    });
    peer.post(1, Operation::Send, 100);
    peer.answer(Psn(100), Syndrome::rnr_nak(RnrTimer(31)));
    peer.run(Duration::from_millis(491));
    assert_eq!(peer.seen.len(), 1);
    peer.run(Duration::from_millis(1));
    assert_eq!(peer.seen.len(), 2);
}

#[test]
fn timer_fires_at_1_to_4_times_timeout() {
    for quarters in [4, 9, 16] {
        let timeout = AckTimeout(12).duration().unwrap();
        let mut peer = with_choices(
            &Setup {
                timeout: AckTimeout(12),
                retry_cnt: 2,
                ..setup()
            },
            |choices| choices.timeout_quarters = quarters,
        );
        peer.post(1, Operation::Read, 100);
        peer.run(Duration::from_secs(2));
        let times: Vec<_> = peer.seen.iter().map(|(at, _)| *at).collect();
        assert_eq!(times.len(), 3);
        for pair in times.windows(2) {
            let gap = pair[1] - pair[0];
            assert!(gap >= timeout && gap <= timeout * 4, "{gap:?}");
        }
        assert!(peer.seen.iter().all(|(_, packet)| *packet == peer.seen[0].1));
        assert_eq!(done(&peer), [(1, WcStatus::RETRY_EXC_ERR)]);
        assert_eq!(peer.state(), QpState::Err);
    }
}

#[test]
fn timeout_0_never_fires() {
    let mut peer = peer();
    peer.post(1, Operation::Send, 100);
    peer.run(Duration::from_secs(100_000));
    assert_eq!(peer.seen.len(), 1);
    assert!(done(&peer).is_empty());
    assert_eq!(peer.adapter.poll_at(), None);
}

#[test]
fn ack_completes_only_earlier_requests() {
    let mut peer = peer();
    for wr_id in 1..4 {
        peer.post(wr_id, Operation::Send, 600);
    }
    assert!(done(&peer).is_empty());
    peer.answer(Psn(101), Syndrome::ACK);
    assert!(done(&peer).is_empty(), "the message has a third packet");
    peer.answer(Psn(105), Syndrome::ACK);
    assert_eq!(done(&peer), [(1, WcStatus::SUCCESS), (2, WcStatus::SUCCESS)]);
    peer.answer(Psn(108), Syndrome::ACK);
    assert_eq!(done(&peer).len(), 3);
}

#[test]
fn ignores_stale_and_unsent_psns() {
    let mut peer = peer();
    peer.post(1, Operation::Send, 100);
    peer.answer(Psn(100), Syndrome::ACK);
    peer.post(2, Operation::Send, 100);
    peer.take();
    for psn in [99, 100, 102, 0x80_0000] {
        for syndrome in [
            Syndrome::ACK,
            Syndrome::rnr_nak(RnrTimer(1)),
            Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR),
            Syndrome::nak(NakCode::REMOTE_ACCESS),
        ] {
            peer.answer(Psn(psn), syndrome);
        }
        peer.read_response(Opcode::RC_READ_RESPONSE_ONLY, Psn(psn), &[]);
        peer.atomic_ack(Psn(psn), 1);
    }
    peer.run(Duration::from_secs(1));
    assert!(peer.take().is_empty(), "nothing is retried");
    assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
    assert_eq!(peer.state(), QpState::Rts);
}

#[test]
fn sequence_nak_resends_from_its_psn() {
    let mut peer = peer();
    for wr_id in 1..4 {
        peer.post(wr_id, Operation::Send, 100);
    }
    peer.take();
    peer.answer(Psn(101), Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR));
    assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
    assert_eq!(
        sent(&mut peer),
        [(Opcode::RC_SEND_ONLY, 101), (Opcode::RC_SEND_ONLY, 102)]
    );
    for _ in 0..3 {
        peer.answer(Psn(101), Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR));
    }
    assert_eq!(
        done(&peer),
        [
            (1, WcStatus::SUCCESS),
            (2, WcStatus::RETRY_EXC_ERR),
            (3, WcStatus::WR_FLUSH_ERR)
        ],
        "progress had loaded the counter again: three retries, then the error"
    );
}

#[test]
fn fatal_nak_fails_its_request() {
    for (code, status) in [
        (NakCode::INVALID_REQUEST, WcStatus::REM_INV_REQ_ERR),
        (NakCode::REMOTE_ACCESS, WcStatus::REM_ACCESS_ERR),
        (NakCode::REMOTE_OPERATIONAL, WcStatus::REM_OP_ERR),
    ] {
        for operation in [
            Operation::Send,
            Operation::Write,
            Operation::Read,
            Operation::CompareSwap,
            Operation::FetchAdd,
        ] {
            let mut peer = peer();
            peer.post(1, Operation::Send, 100);
            peer.post(2, operation, 100);
            peer.post(3, Operation::Write, 100);
            peer.answer(Psn(101), Syndrome::nak(code));
            assert_eq!(
                done(&peer),
                [(1, WcStatus::SUCCESS), (2, status), (3, WcStatus::WR_FLUSH_ERR)],
                "{operation:?}"
            );
            assert_eq!(peer.state(), QpState::Err);
        }
    }
}

#[test]
fn reserved_syndrome_never_succeeds() {
    for syndrome in [0x40, 0x5F, 0x64, 0x65, 0x7F, 0x80, 0xFF] {
        for fails in [false, true] {
            let mut peer = with_choices(&setup(), |choices| choices.reserved_syndrome_fails = fails);
            peer.post(1, Operation::Send, 100);
            peer.answer(Psn(100), Syndrome(syndrome));
            let wanted: &[_] = if fails { &[(1, WcStatus::BAD_RESP_ERR)] } else { &[] };
            assert_eq!(done(&peer), wanted, "{syndrome:#x}");
        }
    }
}

#[test]
fn read_completes_with_last_response() {
    let mut peer = peer();
    peer.post(1, Operation::Read, 600);
    peer.post(2, Operation::Read, 600);
    assert_eq!(
        sent(&mut peer),
        [(Opcode::RC_READ_REQUEST, 100), (Opcode::RC_READ_REQUEST, 103)]
    );
    peer.read_response(Opcode::RC_READ_RESPONSE_FIRST, Psn(100), &[1; 256]);
    peer.read_response(Opcode::RC_READ_RESPONSE_MIDDLE, Psn(101), &[2; 256]);
    assert!(done(&peer).is_empty());
    peer.read_response(Opcode::RC_READ_RESPONSE_LAST, Psn(102), &[3; 88]);
    assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
    assert_eq!(
        peer.bytes(256, 600),
        [[1; 256].as_slice(), &[2; 256], &[3; 88]].concat()
    );
}

#[test]
fn retries_read_with_missing_response() {
    for resumes in [true, false] {
        let mut peer = with_choices(&setup(), |choices| choices.read_retry_resumes = resumes);
        peer.post(1, Operation::Read, 600);
        peer.take();
        peer.read_response(Opcode::RC_READ_RESPONSE_FIRST, Psn(100), &[1; 256]);
        peer.read_response(Opcode::RC_READ_RESPONSE_LAST, Psn(102), &[3; 88]);
        let again = peer.take();
        assert_eq!(again.len(), 1);
        let reth = again[0].reth.unwrap();
        if resumes {
            assert_eq!(
                (again[0].bth.psn(), reth.va().0, reth.dma_len()),
                (Psn(101), 0x1_0100, 344)
            );
            peer.read_response(Opcode::RC_READ_RESPONSE_FIRST, Psn(101), &[2; 256]);
        } else {
            assert_eq!(
                (again[0].bth.psn(), reth.va().0, reth.dma_len()),
                (Psn(100), 0x1_0000, 600)
            );
            peer.read_response(Opcode::RC_READ_RESPONSE_FIRST, Psn(100), &[1; 256]);
            peer.read_response(Opcode::RC_READ_RESPONSE_MIDDLE, Psn(101), &[2; 256]);
        }
        peer.read_response(Opcode::RC_READ_RESPONSE_LAST, Psn(102), &[3; 88]);
        assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
        assert_eq!(
            peer.bytes(256, 600),
            [[1; 256].as_slice(), &[2; 256], &[3; 88]].concat()
        );
    }
}

#[test]
fn wrong_response_fails_request() {
    for (opcode, payload, status) in [
        (Opcode::RC_READ_RESPONSE_FIRST, 252, WcStatus::LOC_LEN_ERR),
        (Opcode::RC_READ_RESPONSE_ONLY, 256, WcStatus::BAD_RESP_ERR),
        (Opcode::RC_READ_RESPONSE_LAST, 88, WcStatus::BAD_RESP_ERR),
        (Opcode::RC_READ_RESPONSE_MIDDLE, 256, WcStatus::BAD_RESP_ERR),
    ] {
        let mut peer = peer();
        peer.post(1, Operation::Read, 600);
        peer.read_response(opcode, Psn(100), &vec![0; payload]);
        assert_eq!(done(&peer), [(1, status)], "{opcode}");
        assert_eq!(peer.state(), QpState::Err);
    }
    let mut peer = peer();
    peer.post(1, Operation::Send, 10);
    peer.atomic_ack(Psn(100), 1);
    assert_eq!(done(&peer), [(1, WcStatus::BAD_RESP_ERR)]);
}

#[test]
fn ack_beyond_read_retries_read() {
    for operation in [Operation::Read, Operation::FetchAdd] {
        let mut peer = peer();
        peer.post(1, Operation::Send, 10);
        peer.post(2, operation, 10);
        peer.post(3, Operation::Send, 10);
        let first = sent(&mut peer);
        peer.answer(Psn(102), Syndrome::ACK);
        peer.answer(Psn(102), Syndrome::ACK);
        assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
        assert_eq!(sent(&mut peer), first[1..], "once, however often it is said");
    }
}

#[test]
fn atomic_result_is_stored_natively() {
    for operation in [Operation::CompareSwap, Operation::FetchAdd] {
        let mut peer = peer();
        peer.post(1, operation, 8);
        peer.post(2, operation, 8);
        peer.atomic_ack(Psn(100), 0xFF2D_B500_1E58_B3E7);
        assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
        assert_eq!(peer.number(256), 0xFF2D_B500_1E58_B3E7);
        peer.answer(Psn(101), Syndrome::ACK);
        assert_eq!(done(&peer).len(), 1, "an ACK is no ATOMIC ACKNOWLEDGE");
    }
}

#[test]
fn progress_resets_retry_counters() {
    let mut peer = Peer::new(&Setup {
        timeout: AckTimeout(10),
        retry_cnt: 1,
        rnr_retry: 1,
        ..setup()
    });
    for at in 0..20 {
        let psn = Psn(100 + at);
        peer.post(at.into(), Operation::Send, 10);
        peer.run(Duration::from_millis(6));
        peer.answer(psn, Syndrome::rnr_nak(RnrTimer(1)));
        peer.run(Duration::from_millis(1));
        peer.answer(psn, Syndrome::ACK);
    }
    assert_eq!(done(&peer).len(), 20);
    assert!(done(&peer).iter().all(|(_, status)| *status == WcStatus::SUCCESS));
}

#[test]
fn only_ack_ends_rnr_wait() {
    let mut peer = peer();
    peer.post(1, Operation::Send, 10);
    peer.post(2, Operation::Send, 10);
    peer.take();
    peer.answer(Psn(100), Syndrome::rnr_nak(RnrTimer(31)));
    peer.answer(Psn(100), Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR));
    peer.answer(Psn(99), Syndrome::ACK);
    peer.post(3, Operation::Send, 10);
    peer.run(Duration::from_millis(490));
    assert!(peer.take().is_empty());
    // The ACK arrives after all, so the requester sends the later requests.
    peer.answer(Psn(100), Syndrome::ACK);
    assert_eq!(
        sent(&mut peer),
        [(Opcode::RC_SEND_ONLY, 101), (Opcode::RC_SEND_ONLY, 102)]
    );
    assert_eq!(done(&peer), [(1, WcStatus::SUCCESS)]);
}

#[test]
fn no_credit_limits_sends_to_one_packet() {
    let mut peer = with_choices(&setup(), |choices| choices.obeys_credits = true);
    peer.post(1, Operation::Send, 10);
    peer.answer(Psn(100), Syndrome::ack(CreditCode(0)));
    peer.take();
    peer.post(2, Operation::Write, 600);
    peer.answer(Psn(103), Syndrome::ack(CreditCode(0)));
    assert_eq!(peer.take().len(), 3);
    peer.post(3, Operation::Send, 600);
    peer.post(4, Operation::Send, 10);
    for psn in 104..108 {
        let new = peer.take();
        assert_eq!(new.len(), 1);
        assert_eq!((new[0].bth.psn(), new[0].bth.ack_request()), (Psn(psn), true));
        peer.answer(Psn(psn), Syndrome::ack(CreditCode(0)));
    }
    assert_eq!(done(&peer).len(), 4);
    peer.post(5, Operation::Send, 600);
    peer.take();
    peer.answer(Psn(108), Syndrome::ACK);
    assert_eq!(peer.take().len(), 2, "a limit that is taken back");
}

#[test]
fn clock_jump_fires_timer_once() {
    let mut peer = Peer::new(&Setup {
        timeout: AckTimeout(1),
        retry_cnt: 7,
        ..setup()
    });
    peer.post_request(&peer.request(1, Operation::Send, 10));
    let before = peer.seen.len();
    peer.now += Duration::from_secs(1_000_000);
    peer.adapter.tick(peer.now);
    peer.run(Duration::ZERO);
    assert!(peer.seen.len() <= before + 1);
}

#[test]
fn error_flushes_requests_in_order() {
    let mut peer = peer();
    peer.post_receive(50, 0, 10);
    peer.post(1, Operation::Send, 10);
    let unsignalled = verbatim_device::rc::SendRequest {
        signaled: false,
        ..peer.request(2, Operation::Send, 10)
    };
    peer.post_request(&unsignalled);
    peer.answer(Psn(100), Syndrome::nak(NakCode::REMOTE_ACCESS));
    peer.post(3, Operation::Send, 10);
    peer.post_receive(51, 0, 10);
    assert_eq!(
        done(&peer),
        [
            (1, WcStatus::REM_ACCESS_ERR),
            (2, WcStatus::WR_FLUSH_ERR),
            (50, WcStatus::WR_FLUSH_ERR),
            (3, WcStatus::WR_FLUSH_ERR),
            (51, WcStatus::WR_FLUSH_ERR)
        ]
    );
    let before = peer.seen.len();
    peer.run(Duration::from_secs(10));
    assert_eq!(peer.seen.len(), before);
}

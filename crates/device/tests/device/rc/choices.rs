//! Tests of the implementer's choices, observed from both ends.

use std::time::Duration;

use verbatim_device::rc::{AdapterChoices, Operation, QpState};
use verbatim_wire::verbs::QpAttributes;
use verbatim_wire::{Opcode, Psn};

use super::adapters::{A, B, Pair, Setup, profile};

const LATE: Duration = Duration::from_micros(200);

/// Creates two connected adapters. The adapter at `end` has these choices.
fn pair(end: usize, choices: AdapterChoices) -> Pair {
    let mut profiles = [profile(A), profile(B)];
    profiles[end].choices = choices;
    Pair::of(profiles, [&[], &[]], &Setup::default())
}

fn opcodes(pair: &Pair, end: usize) -> Vec<Opcode> {
    pair.packets(end).iter().map(|(_, packet)| packet.opcode()).collect()
}

#[test]
fn write_data_may_appear_late() {
    let choices = AdapterChoices {
        write_delay: LATE,
        ..AdapterChoices::default()
    };
    let mut pair = pair(B, choices);
    pair.fill(A, 1);
    let (before, after) = (pair.bytes(B, 100, 64), pair.bytes(A, 0, 64));
    pair.post(&pair.request(1, Operation::Write, 0, 100, 64));
    pair.run_until_completions(1);
    assert_eq!(pair.bytes(B, 100, 64), before, "right after the ACK");
    // A later READ already returns the data.
    pair.post(&pair.request(2, Operation::Read, 200, 100, 64));
    pair.run_until_completions(2);
    assert_eq!(pair.bytes(A, 200, 64), after);
    pair.run_for(LATE);
    assert_eq!(pair.bytes(B, 100, 64), after);

    pair.post_receive(7, 4096, 0);
    pair.post(&pair.request(3, Operation::Write, 0, 300, 64));
    pair.post(&pair.request(4, Operation::WriteImm, 64, 400, 64));
    pair.run_until_completions(4);
    assert_eq!(pair.bytes(B, 300, 64), after);
}

#[test]
fn send_completion_may_be_late() {
    let choices = AdapterChoices {
        send_delay: LATE,
        ..AdapterChoices::default()
    };
    let mut pair = pair(A, choices);
    pair.post(&pair.request(1, Operation::Write, 0, 0, 64));
    pair.run_until_completions(1);
    let (acked, _) = pair.packets(B)[0];
    assert!(pair.completions[A][0].at >= acked + LATE);
}

#[test]
fn may_send_one_message_at_a_time() {
    let choices = AdapterChoices {
        one_message_at_a_time: true,
        ..AdapterChoices::default()
    };
    let mut pair = pair(A, choices);
    for wr_id in 0..3 {
        pair.post(&pair.request(wr_id, Operation::Write, 0, 0, 64));
    }
    pair.run_until_completions(3);
    let (asked, answered) = (pair.packets(A), pair.packets(B));
    for (next, answer) in asked[1..].iter().zip(&answered) {
        assert!(next.0 >= answer.0);
    }
}

#[test]
fn queued_frames_leave_after_error() {
    let choices = AdapterChoices {
        port_gap: Duration::from_millis(1),
        ..AdapterChoices::default()
    };
    let mut pair = pair(A, choices);
    let mut refused = pair.request(0, Operation::Write, 0, 0, 64);
    refused.r_key.0 ^= 1;
    pair.post(&refused);
    for wr_id in 1..4 {
        pair.post(&pair.request(wr_id, Operation::Write, 0, 0, 64));
    }
    pair.run_until_completions(4);
    let told = pair.completions[A][0].at;
    pair.run_for(Duration::from_millis(10));
    let sent: Vec<Duration> = pair.packets(A).iter().map(|(at, _)| *at).collect();
    assert_eq!(sent.len(), 4);
    assert!(
        sent[0] < told && sent[1..].iter().all(|at| *at > told),
        "{told:?}: {sent:?}"
    );
}

#[test]
fn ca_ack_delay_covers_response_time() {
    let told = |delay| {
        let mut profile = profile(A);
        profile.choices.ack_delay = delay;
        profile.local_ca_ack_delay()
    };
    assert_eq!(told(Duration::ZERO), 15);
    assert_eq!(told(Duration::from_millis(150)), 16);
    assert_eq!(told(Duration::from_secs(1)), 18);
}

#[test]
fn responder_may_delay_reads_once() {
    let choices = AdapterChoices {
        puts_reads_off: true,
        ..AdapterChoices::default()
    };
    let mut pair = pair(B, choices);
    pair.post(&pair.request(1, Operation::Read, 0, 0, 64));
    pair.post(&pair.request(2, Operation::FetchAdd, 0, 0, 8));
    pair.run_until_completions(2);
    let ack = Opcode::RC_ACKNOWLEDGE;
    let seen = [ack, Opcode::RC_READ_RESPONSE_ONLY, ack, Opcode::RC_ATOMIC_ACKNOWLEDGE];
    assert_eq!(opcodes(&pair, B), seen);
}

#[test]
fn query_in_err_may_return_zero_psns() {
    for (psns_gone_in_err, is_shown) in [(true, false), (false, true)] {
        let choices = AdapterChoices {
            psns_gone_in_err,
            ..AdapterChoices::default()
        };
        let mut pair = pair(A, choices);
        let qp = pair.qps[A];
        pair.post(&pair.request(1, Operation::Write, 0, 0, 64));
        pair.run_until_completions(1);
        let shown = pair.ends[A].query(qp).unwrap();
        pair.ends[A].modify(qp, QpState::Err, &QpAttributes::default()).unwrap();
        let after = pair.ends[A].query(qp).unwrap();
        assert_eq!((shown.sq_psn, shown.rq_psn) == (after.sq_psn, after.rq_psn), is_shown);
        assert_eq!(after.sq_psn == Psn::default(), !is_shown);
    }
}

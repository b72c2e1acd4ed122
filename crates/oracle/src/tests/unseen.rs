//! What a capture does not show: the size of a READ, what came before it began, whose packets are no connection's. None of it makes a
//! violation.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::{Opcode, PKey, Psn};

use super::super::Loss;
use super::super::responses::Responses;
use super::broken;
use super::qp_trace::{PMTU, QpTrace, asking, atomic, bytes, read_of};

#[test]
fn a_read_of_unknown_size_and_a_lost_request_behind_it_make_no_violation() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(32 * PMTU));
    qp.send(9);
    qp.send(10);
    assert_eq!(broken(Loss::Possible, &qp), ["#2 psn?"]);
}

#[test]
fn what_follows_a_read_of_unknown_size_does_not_tell_it_for_certain() {
    // 300 bytes are one response, or two of 256; the request behind it is lost, so that it looks like two.
    let qp = |bytes_at_once: &[(Opcode, usize)], total: usize, next: u32, msn: u32| {
        let mut qp = QpTrace::default();
        qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(total));
        qp.send(next);
        for (n, (opcode, size)) in bytes_at_once.iter().enumerate() {
            let n = u32::try_from(n).unwrap();
            qp.answers(*opcode, n, Syndrome::ACK, 1, bytes(*size, n));
        }
        qp.ack(next, msn);
        qp
    };
    let only = [(Opcode::RC_READ_RESPONSE_ONLY, 300)];
    let one = broken(Loss::Possible, &qp(&only, 300, 2, 3));
    assert_eq!(one, ["#3 read-response-opcode?"]);
    let two = [
        (Opcode::RC_READ_RESPONSE_FIRST, 1024),
        (Opcode::RC_READ_RESPONSE_LAST, 1024),
    ];
    let shorter = broken(Loss::Possible, &qp(&two, 2048, 4, 4));
    assert_eq!(shorter, [""; 0]);
    // Where nothing was lost, it tells.
    let cut_short = broken(Loss::Possible, &qp(&only[..1], 3000, 6, 2));
    assert!(
        cut_short.contains(&"#3 read-response-length?".to_owned()),
        "{cut_short:?}"
    );
}

#[test]
fn a_request_of_no_partition_of_the_connection_takes_no_psn() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.ack(0, 1);
    qp.p_key = PKey(0xFFBF);
    qp.send(1);
    qp.p_key = PKey(0xFFFF);
    qp.asks(Opcode::RC_READ_REQUEST, 1, read_of(8));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 1, Syndrome::ACK, 2, bytes(8, 0));
    assert_eq!(broken(Loss::Possible, &qp), ["#3 p-key?"]);
}

#[test]
fn what_was_answered_before_it_was_seen_counts_no_more() {
    let mut qp = QpTrace::default();
    (0..3).for_each(|n| qp.send(n));
    qp.ack(2, 3);
    qp.asks(Opcode::RC_READ_REQUEST, 3, read_of(8));
    // The READ behind it is not in the capture; both are answered, and come again.
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 3, Syndrome::ACK, 4, bytes(8, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 4, Syndrome::ACK, 5, bytes(8, 0));
    qp.asks(Opcode::RC_READ_REQUEST, 4, read_of(8));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 4, Syndrome::ACK, 5, bytes(8, 0));
    qp.send(5);
    qp.ack(5, 6);
    let found = broken(Loss::Possible, &qp);
    assert_eq!(found, ["#7 answers-a-request?"]);
}

#[test]
fn a_capture_may_begin_among_requests_that_come_again() {
    let begun = |last: u32| {
        let mut qp = QpTrace::default();
        qp.asks(Opcode::RC_READ_REQUEST, 2, read_of(8));
        qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 2, Syndrome::ACK, 7, bytes(8, 0));
        qp.send(3);
        qp.ack(3, 7);
        qp.send(4);
        qp.ack(4, 8);
        qp.send(5);
        qp.ack(5, last);
        broken(Loss::Possible, &qp)
    };
    assert_eq!(begun(9), ["#4 msn?"]);
    // Once two of them agree that they are new nothing of the kind excuses anything.
    assert_eq!(begun(8), ["#4 msn?", "#8 msn"]);
}

#[test]
fn reads_that_come_again_where_a_capture_begins_count_what_came_before_it() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_READ_REQUEST, 2, read_of(8));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 2, Syndrome::ACK, 19, bytes(8, 0));
    // The first of its responses may have been counted or not: that agrees with whatever was counted before it.
    qp.asks(Opcode::RC_READ_REQUEST, 3, read_of(2 * PMTU + 8));
    qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 3, Syndrome::ACK, 19, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_MIDDLE, 4, Syndrome::ACK, 19, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_LAST, 5, Syndrome::ACK, 19, bytes(8, 0));
    assert_eq!(broken(Loss::Possible, &qp), ["#6 msn?"]);
}

#[test]
fn a_response_behind_a_read_of_unknown_size_may_be_that_of_a_read_that_was_not_seen() {
    // Among the first packets, and when it is known which queue pairs are connected.
    for known in [0, 4] {
        let begun = || {
            let mut qp = QpTrace::default();
            for n in 0..known {
                qp.send(n);
                qp.ack(n, n + 1);
            }
            qp.asks(Opcode::RC_READ_REQUEST, known, read_of(4 * PMTU));
            qp
        };
        let (next, msn) = (known + 1, known + 2);
        // The response was seen before its request.
        let mut qp = begun();
        qp.answers(Opcode::RC_READ_RESPONSE_ONLY, next, Syndrome::ACK, msn, bytes(8, 0));
        qp.asks(Opcode::RC_READ_REQUEST, next, read_of(8));
        qp.answers(Opcode::RC_READ_RESPONSE_ONLY, next, Syndrome::ACK, msn, bytes(8, 0));
        let found = broken(Loss::Possible, &qp);
        assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
        // Its own response and the request behind it were lost.
        let mut qp = begun();
        qp.answers(
            Opcode::RC_READ_RESPONSE_FIRST,
            next,
            Syndrome::ACK,
            msn,
            bytes(4 * PMTU, 0),
        );
        let found = broken(Loss::Possible, &qp);
        assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
    }
}

#[test]
fn the_last_response_of_a_read_of_unknown_size_ends_it_though_the_first_was_lost() {
    let mut qp = QpTrace::default();
    for n in 0..4 {
        qp.send(n);
        qp.ack(n, n + 1);
    }
    qp.asks(Opcode::RC_READ_REQUEST, 4, read_of(PMTU + 1));
    // What was sent between them was lost; the MSN has counted it.
    qp.send(7);
    qp.answers(Opcode::RC_READ_RESPONSE_LAST, 5, Syndrome::ACK, 5, bytes(1, 0));
    qp.ack(7, 7);
    let found = broken(Loss::Possible, &qp);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
}

#[test]
fn a_read_of_unknown_size_excuses_what_may_stand_behind_it() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(2 * PMTU));
    qp.asks(Opcode::RC_SEND_LAST, 2, asking(bytes(8, 1)));
    assert_eq!(broken(Loss::Possible, &qp), ["#2 opcode-order?"]);
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(3 * PMTU));
    qp.send(3);
    qp.asks(Opcode::RC_COMPARE_SWAP, 2, asking(atomic()));
    assert_eq!(broken(Loss::Possible, &qp), ["#3 same-again?"]);
}

#[test]
fn what_lies_behind_all_that_was_answered_unseen_is_new_for_ever() {
    let answered = Psn(0xFF_FFFE);
    let mut responses = Responses {
        answered_unseen: Some(answered),
        ..Responses::default()
    };
    assert!(responses.was_answered_unseen(answered.minus(1)) && responses.was_answered_unseen(answered));
    assert!(!responses.was_answered_unseen(answered.next()));
    // Half of all PSNs later it would look like one before it.
    assert!(!responses.was_answered_unseen(answered.plus(Psn::COUNT / 2 + 1)));
}

#[test]
fn one_p_key_among_others_is_no_change_of_the_partition() {
    let p_keys = |keys: &[u16]| {
        let mut qp = QpTrace::default();
        for (psn, key) in (0..).zip(keys) {
            qp.p_key = PKey(*key);
            qp.send(psn);
        }
        broken(Loss::Possible, &qp)
    };
    // Another partition, and another membership.
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0xFFFF, 0xFFFF]), ["#3 p-key"]);
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x7FFF, 0xFFFF, 0xFFFF]), ["#3 p-key"]);
    // With one packet behind it the network may have put it before the change.
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0xFFFF]), ["#3 p-key?"]);
    assert_eq!(
        p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0xFFFF, 0x8001, 0x8001]),
        ["#3 p-key?", "#5 p-key?"]
    );
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0x8001]), ["#3 p-key?"]);
}

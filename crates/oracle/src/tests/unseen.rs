//! Facts that a capture does not show: the size of a READ, earlier packets, and packets that belong to no connection.
//! These facts cause no violation.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::{Opcode, PKey, Psn};

use super::super::Loss;
use super::super::responses::Responses;
use super::broken;
use super::qp_trace::{PMTU, QpTrace, asking, atomic, bytes, read_of};

#[test]
fn open_read_with_a_loss_is_no_violation() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(32 * PMTU));
    qp.send(9);
    qp.send(10);
    assert_eq!(broken(Loss::Possible, &qp), ["#2 psn?"]);
}

#[test]
fn next_request_does_not_fix_a_read_s_size() {
    // A READ of 300 bytes has one response, or two with a path MTU of 256. The request after the READ is lost, so that
    // the READ seems to have two responses.
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
    // Without a loss, the next request determines the size.
    let cut_short = broken(Loss::Possible, &qp(&only[..1], 3000, 6, 2));
    assert!(
        cut_short.contains(&"#3 read-response-length?".to_owned()),
        "{cut_short:?}"
    );
}

#[test]
fn request_of_other_partition_takes_no_psn() {
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
fn unseen_answered_request_is_not_counted() {
    let mut qp = QpTrace::default();
    (0..3).for_each(|n| qp.send(n));
    qp.ack(2, 3);
    qp.asks(Opcode::RC_READ_REQUEST, 3, read_of(8));
    // The capture lacks the next READ. Both READs are answered, and the requester repeats the next READ.
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
fn capture_may_begin_with_duplicates() {
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
    // After two responses agree on the count, the excuse no longer applies.
    assert_eq!(begun(8), ["#4 msn?", "#8 msn"]);
}

#[test]
fn first_reads_may_be_counted_before() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_READ_REQUEST, 2, read_of(8));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 2, Syndrome::ACK, 19, bytes(8, 0));
    // The MSN of a READ's first response may or may not count the READ, so it agrees with the earlier count. The MSN of
    // the last response must count the READ.
    qp.asks(Opcode::RC_READ_REQUEST, 3, read_of(2 * PMTU + 8));
    qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 3, Syndrome::ACK, 19, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_MIDDLE, 4, Syndrome::ACK, 19, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_LAST, 5, Syndrome::ACK, 19, bytes(8, 0));
    assert_eq!(broken(Loss::Possible, &qp), ["#6 msn?"]);
}

#[test]
fn response_may_belong_to_an_unseen_read() {
    // `known`: number of acknowledged SENDs before the READ. With 0, the READ is the first packet of the capture.
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
        // The capture shows a READ's response before the READ.
        let mut qp = begun();
        qp.answers(Opcode::RC_READ_RESPONSE_ONLY, next, Syndrome::ACK, msn, bytes(8, 0));
        qp.asks(Opcode::RC_READ_REQUEST, next, read_of(8));
        qp.answers(Opcode::RC_READ_RESPONSE_ONLY, next, Syndrome::ACK, msn, bytes(8, 0));
        let found = broken(Loss::Possible, &qp);
        assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
        // The READ's own response and the next request are lost.
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
fn last_response_ends_an_open_read() {
    let mut qp = QpTrace::default();
    for n in 0..4 {
        qp.send(n);
        qp.ack(n, n + 1);
    }
    qp.asks(Opcode::RC_READ_REQUEST, 4, read_of(PMTU + 1));
    // The capture lacks a request between the READ and this SEND, but the MSN counts that request.
    qp.send(7);
    qp.answers(Opcode::RC_READ_RESPONSE_LAST, 5, Syndrome::ACK, 5, bytes(1, 0));
    qp.ack(7, 7);
    let found = broken(Loss::Possible, &qp);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
}

#[test]
fn open_read_excuses_later_requests() {
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
fn psn_behind_unseen_answers_stays_new() {
    let answered = Psn(0xFF_FFFE);
    let mut responses = Responses {
        answered_unseen: Some(answered),
        ..Responses::default()
    };
    assert!(responses.was_answered_unseen(answered.minus(1)) && responses.was_answered_unseen(answered));
    assert!(!responses.was_answered_unseen(answered.next()));
    // If a PSN is more than half of all PSNs later, it seems to be earlier.
    assert!(!responses.was_answered_unseen(answered.plus(Psn::COUNT / 2 + 1)));
}

#[test]
fn single_p_key_is_no_partition_change() {
    let p_keys = |keys: &[u16]| {
        let mut qp = QpTrace::default();
        for (psn, key) in (0..).zip(keys) {
            qp.p_key = PKey(*key);
            qp.send(psn);
        }
        broken(Loss::Possible, &qp)
    };
    // The single P_Key belongs to another partition, or has another membership bit.
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0xFFFF, 0xFFFF]), ["#3 p-key"]);
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x7FFF, 0xFFFF, 0xFFFF]), ["#3 p-key"]);
    // If only one packet with the old P_Key follows, the network may have moved that packet past a change of the
    // partition.
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0xFFFF]), ["#3 p-key?"]);
    assert_eq!(
        p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0xFFFF, 0x8001, 0x8001]),
        ["#3 p-key?", "#5 p-key?"]
    );
    assert_eq!(p_keys(&[0xFFFF, 0xFFFF, 0x8001, 0x8001]), ["#3 p-key?"]);
}

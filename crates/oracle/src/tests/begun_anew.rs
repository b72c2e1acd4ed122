//! Reused queue pairs: a packet that contradicts the earlier connection belongs to a new connection.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::{Opcode, Psn, Transport};

use super::super::Loss;
use super::qp_trace::{PMTU, QpTrace, Sender, asking, bytes, read_of, result};
use super::{broken, judged};

#[test]
fn far_psn_begins_another_connection() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.ack(0, 1);
    qp.send(0x40_0000);
    qp.ack(0x40_0000, 1);
    assert_eq!(broken(Loss::Possible, &qp), ["#3 psn?"]);
    assert_eq!(broken(Loss::Excluded, &qp), ["#3 psn"]);
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), 2);
}

#[test]
fn same_psns_may_begin_another_connection() {
    // Cases: the same or other bytes, from the same or a later PSN, after a complete or partial acknowledgement.
    for (bytes_from, first, acknowledged) in [(0, 0, 4), (7, 0, 4), (0, 2, 4), (7, 2, 4), (7, 0, 2)] {
        let mut qp = QpTrace::default();
        (0..4).for_each(|n| qp.send(n));
        qp.ack(acknowledged - 2, acknowledged - 1);
        qp.ack(acknowledged - 1, acknowledged);
        for n in 0..6 {
            qp.asks(
                Opcode::RC_SEND_ONLY,
                first + n,
                asking(bytes(64, first + n + bytes_from)),
            );
            qp.ack(first + n, n + 1);
        }
        let shown = (bytes_from, first, acknowledged);
        let found = broken(Loss::Possible, &qp);
        assert!(found.iter().all(|name| name.ends_with('?')), "{shown:?}: {found:?}");
        // If all requests repeat from the first PSN with the same bytes, they may be retransmissions within one
        // connection.
        let connections = if shown == (0, 0, 4) { 1 } else { 2 };
        assert_eq!(judged(Loss::Possible, &qp.frames).len(), connections, "{shown:?}");
        let last = qp.frames.len();
        qp.ack(first + 5, 9);
        assert_eq!(
            broken(Loss::Possible, &qp).last(),
            Some(&format!("#{} msn", last + 1)),
            "{shown:?}"
        );
    }
}

#[test]
fn other_connection_may_have_another_result() {
    let mut qp = QpTrace::default();
    let atomic = || {
        let header = verbatim_wire::AtomicEth::default().with_r_key(verbatim_wire::RKey(1));
        asking(Transport {
            atomic: Some(header),
            ..Transport::default()
        })
    };
    for original in [1, 5] {
        for n in 0..2 {
            qp.asks(Opcode::RC_FETCH_ADD, n, atomic());
            qp.answers(
                Opcode::RC_ATOMIC_ACKNOWLEDGE,
                n,
                Syndrome::ACK,
                n + 1,
                result(original + u64::from(n)),
            );
        }
    }
    let found = broken(Loss::Possible, &qp);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
}

#[test]
fn both_ends_may_restart_a_queue_pair() {
    let mut qp = QpTrace::default();
    for n in 0..4 {
        qp.send(n);
        qp.ack(n, n + 1);
    }
    for n in 0..6 {
        let of_b = Psn(0xFF_FFFC).plus(n);
        qp.asks(Opcode::RC_READ_REQUEST, n, read_of(8));
        qp.says(Sender::B, Opcode::RC_SEND_ONLY, of_b, asking(bytes(8, n)));
        qp.answers(Opcode::RC_READ_RESPONSE_ONLY, n, Syndrome::ACK, n + 1, bytes(8, n));
        qp.ack_of_a(of_b, n + 1);
    }
    let found = broken(Loss::Possible, &qp);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), 2);
}

/// Asserts that every violation is excused, and that there are `connections` connections.
fn is_excused(qp: &QpTrace, connections: usize) {
    let found = broken(Loss::Possible, qp);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), connections, "{found:?}");
}

#[test]
fn second_request_may_match_old_next_psn() {
    let mut qp = QpTrace::default();
    for n in 0..3 {
        qp.send(n);
        qp.ack(n, n + 1);
    }
    qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(2 * PMTU + 8));
    qp.asks(Opcode::RC_READ_REQUEST, 3, read_of(8));
    qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 0, Syndrome::ACK, 1, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_MIDDLE, 1, Syndrome::ACK, 1, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_LAST, 2, Syndrome::ACK, 1, bytes(8, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 3, Syndrome::ACK, 2, bytes(8, 0));
    is_excused(&qp, 2);
}

#[test]
fn counts_of_the_ends_are_independent() {
    let mut qp = QpTrace::default();
    for n in 0..3 {
        qp.send(n);
        qp.ack(n, n + 1);
    }
    let of_b = Psn(0x100);
    (0..4).for_each(|n| qp.says(Sender::B, Opcode::RC_SEND_ONLY, of_b.plus(n), asking(bytes(8, n))));
    qp.asks(Opcode::RC_SEND_FIRST, 0, asking(bytes(PMTU, 9)));
    (2..4).for_each(|n| qp.ack_of_a(of_b.plus(n), n + 1));
    qp.ack(0, 0);
    qp.asks(Opcode::RC_SEND_LAST, 1, asking(bytes(8, 9)));
    qp.ack(1, 1);
    is_excused(&qp, 2);
}

#[test]
fn other_path_mtu_begins_another_connection() {
    // `None`: the other end sends its first requests. `Some(n)`: the same end continues, `n` PSNs after its next PSN.
    for ahead in [None, Some(0), Some(14)] {
        let mut qp = QpTrace::default();
        qp.asks(Opcode::RC_SEND_FIRST, 0, bytes(PMTU, 1));
        qp.asks(Opcode::RC_SEND_LAST, 1, asking(bytes(8, 1)));
        qp.ack(1, 1);
        let (by, first) = match ahead {
            None => (Sender::B, Psn(0x100)),
            Some(ahead) => (Sender::A, Psn(0xFF_FFFC).plus(2 + ahead)),
        };
        qp.says(by, Opcode::RC_SEND_FIRST, first, bytes(4 * PMTU, 2));
        qp.says(by, Opcode::RC_SEND_MIDDLE, first.plus(1), bytes(4 * PMTU, 3));
        qp.says(by, Opcode::RC_SEND_LAST, first.plus(2), asking(bytes(8, 4)));
        match ahead {
            // A packet in sequence belongs to the same connection.
            Some(0) => assert!(broken(Loss::Possible, &qp).contains(&"#4 payload-length".to_owned())),
            _ => is_excused(&qp, 2),
        }
    }
}

#[test]
fn duplicates_do_not_hide_a_new_connection() {
    let mut qp = QpTrace::default();
    for _ in 0..2 {
        for n in 0..3 {
            qp.send(n);
            qp.ack(n, n + 1);
        }
    }
    qp.asks(Opcode::RC_READ_REQUEST, 0, read_of(2 * PMTU + 8));
    qp.answers(Opcode::RC_READ_RESPONSE_FIRST, 0, Syndrome::ACK, 0, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_MIDDLE, 1, Syndrome::ACK, 0, bytes(PMTU, 0));
    qp.answers(Opcode::RC_READ_RESPONSE_LAST, 2, Syndrome::ACK, 1, bytes(8, 0));
    is_excused(&qp, 2);
}

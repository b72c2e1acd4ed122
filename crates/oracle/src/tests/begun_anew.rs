//! Queue pairs that are used again: what contradicts the connection before is of another one.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::{Opcode, Psn, Transport};

use super::super::Loss;
use super::qp_trace::{PMTU, QpTrace, Sender, asking, bytes, read_of, result};
use super::{broken, judged};

#[test]
fn a_queue_pair_number_that_is_used_again_is_another_connection() {
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
fn a_queue_pair_that_begins_again_with_the_same_psns_is_another_connection() {
    // The same bytes and others, from the same PSN and a later one, after all was acknowledged and not.
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
        // The same bytes with the same counts could be those of one connection.
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
fn an_atomic_of_another_connection_may_have_another_result() {
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
fn both_ends_of_a_queue_pair_that_begins_again_may_ask() {
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

/// All is excused, in so many connections.
fn is_excused(qp: &QpTrace, connections: usize) {
    let found = broken(Loss::Possible, qp);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), connections, "{found:?}");
}

#[test]
fn the_second_request_of_another_connection_may_have_the_psn_that_would_have_gone_on() {
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
fn what_an_end_has_counted_of_the_other_one_says_nothing_of_what_the_other_one_counts() {
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
fn another_path_mtu_where_nothing_goes_on_is_that_of_another_connection() {
    // By the end that has not asked before, or so many PSNs ahead.
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
            // What goes on at once is of the same connection.
            Some(0) => assert!(broken(Loss::Possible, &qp).contains(&"#4 payload-length".to_owned())),
            _ => is_excused(&qp, 2),
        }
    }
}

#[test]
fn what_came_twice_before_another_connection_began_does_not_hide_that_it_began() {
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

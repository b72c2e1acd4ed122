//! Queue pairs that are used again: what contradicts the connection before is of another one.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::{Aeth, Opcode, Psn, Transport};

use super::super::Loss;
use super::talk::{Sender, Talk, asking, bytes, result, reth};
use super::{broken, judged};

#[test]
fn a_queue_pair_number_that_is_used_again_is_another_connection() {
    let mut talk = Talk::default();
    talk.send(0);
    talk.ack(0, 1);
    talk.send(0x40_0000);
    talk.ack(0x40_0000, 1);
    assert_eq!(broken(Loss::Possible, &talk), ["#3 psn?"]);
    assert_eq!(broken(Loss::Excluded, &talk), ["#3 psn"]);
    assert_eq!(judged(Loss::Possible, &talk.frames).len(), 2);
}

#[test]
fn a_queue_pair_that_begins_again_with_the_same_psns_is_another_connection() {
    // The same bytes and others, from the same PSN and a later one, after all was acknowledged and not.
    for (bytes_from, first, acknowledged) in [(0, 0, 4), (7, 0, 4), (0, 2, 4), (7, 2, 4), (7, 0, 2)] {
        let mut talk = Talk::default();
        (0..4).for_each(|n| talk.send(n));
        talk.ack(acknowledged - 2, acknowledged - 1);
        talk.ack(acknowledged - 1, acknowledged);
        for n in 0..6 {
            talk.asks(
                Opcode::RC_SEND_ONLY,
                first + n,
                asking(bytes(64, first + n + bytes_from)),
            );
            talk.ack(first + n, n + 1);
        }
        let shown = (bytes_from, first, acknowledged);
        let found = broken(Loss::Possible, &talk);
        assert!(found.iter().all(|name| name.ends_with('?')), "{shown:?}: {found:?}");
        // The same bytes with the same counts could be those of one connection.
        let connections = if shown == (0, 0, 4) { 1 } else { 2 };
        assert_eq!(judged(Loss::Possible, &talk.frames).len(), connections, "{shown:?}");
        let last = talk.frames.len();
        talk.ack(first + 5, 9);
        assert_eq!(
            broken(Loss::Possible, &talk).last(),
            Some(&format!("#{} msn", last + 1)),
            "{shown:?}"
        );
    }
}

#[test]
fn an_atomic_of_another_connection_may_have_another_result() {
    let mut talk = Talk::default();
    let atomic = || {
        let header = verbatim_wire::AtomicEth::default().with_r_key(verbatim_wire::RKey(1));
        asking(Transport {
            atomic: Some(header),
            ..Transport::default()
        })
    };
    for original in [1, 5] {
        for n in 0..2 {
            talk.asks(Opcode::RC_FETCH_ADD, n, atomic());
            talk.answers(
                Opcode::RC_ATOMIC_ACKNOWLEDGE,
                n,
                Syndrome::ACK,
                n + 1,
                result(original + u64::from(n)),
            );
        }
    }
    let found = broken(Loss::Possible, &talk);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
}

#[test]
fn both_ends_of_a_queue_pair_that_begins_again_may_ask() {
    let mut talk = Talk::default();
    for n in 0..4 {
        talk.send(n);
        talk.ack(n, n + 1);
    }
    for n in 0..6 {
        let read = Transport {
            reth: reth(0, 8),
            ..Transport::default()
        };
        let of_b = Psn(0xFF_FFFC).plus(n);
        talk.asks(Opcode::RC_READ_REQUEST, n, asking(read));
        talk.says(Sender::B, Opcode::RC_SEND_ONLY, of_b, asking(bytes(8, n)));
        talk.answers(Opcode::RC_READ_RESPONSE_ONLY, n, Syndrome::ACK, n + 1, bytes(8, n));
        let aeth = Aeth::default().with_syndrome(Syndrome::ACK).with_msn(n + 1);
        let ack = Transport {
            aeth: Some(aeth),
            ..Transport::default()
        };
        talk.says(Sender::A, Opcode::RC_ACKNOWLEDGE, of_b, ack);
    }
    let found = broken(Loss::Possible, &talk);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
    assert_eq!(judged(Loss::Possible, &talk.frames).len(), 2);
}

//! What a capture does not show: the size of a READ, what came before it began, whose packets are no connection's. None of it makes a
//! violation.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::{Opcode, PKey, Psn};

use super::super::Loss;
use super::super::responses::Responses;
use super::broken;
use super::talk::{PMTU, Talk, asking, atomic, bytes, read_of};

#[test]
fn a_read_of_unknown_size_and_a_lost_request_behind_it_make_no_violation() {
    let mut talk = Talk::default();
    talk.asks(Opcode::RC_READ_REQUEST, 0, read_of(32 * PMTU));
    talk.send(9);
    talk.send(10);
    assert_eq!(broken(Loss::Possible, &talk), ["#2 psn?"]);
}

#[test]
fn what_follows_a_read_of_unknown_size_does_not_tell_it_for_certain() {
    // 300 bytes are one response, or two of 256; the request behind it is lost, so that it looks like two.
    let talk = |bytes_at_once: &[(Opcode, usize)], total: usize, next: u32, msn: u32| {
        let mut talk = Talk::default();
        talk.asks(Opcode::RC_READ_REQUEST, 0, read_of(total));
        talk.send(next);
        for (n, (opcode, size)) in bytes_at_once.iter().enumerate() {
            let n = u32::try_from(n).unwrap();
            talk.answers(*opcode, n, Syndrome::ACK, 1, bytes(*size, n));
        }
        talk.ack(next, msn);
        talk
    };
    let only = [(Opcode::RC_READ_RESPONSE_ONLY, 300)];
    let one = broken(Loss::Possible, &talk(&only, 300, 2, 3));
    assert_eq!(one, ["#3 read-response-opcode?"]);
    let two = [
        (Opcode::RC_READ_RESPONSE_FIRST, 1024),
        (Opcode::RC_READ_RESPONSE_LAST, 1024),
    ];
    let shorter = broken(Loss::Possible, &talk(&two, 2048, 4, 4));
    assert_eq!(shorter, [""; 0]);
    // Where nothing was lost, it tells.
    let cut_short = broken(Loss::Possible, &talk(&only[..1], 3000, 6, 2));
    assert!(
        cut_short.contains(&"#3 read-response-length?".to_owned()),
        "{cut_short:?}"
    );
}

#[test]
fn a_request_of_no_partition_of_the_connection_takes_no_psn() {
    let mut talk = Talk::default();
    talk.send(0);
    talk.ack(0, 1);
    talk.p_key = PKey(0xFFBF);
    talk.send(1);
    talk.p_key = PKey(0xFFFF);
    talk.asks(Opcode::RC_READ_REQUEST, 1, read_of(8));
    talk.answers(Opcode::RC_READ_RESPONSE_ONLY, 1, Syndrome::ACK, 2, bytes(8, 0));
    assert_eq!(broken(Loss::Possible, &talk), ["#3 p-key?"]);
}

#[test]
fn what_was_answered_before_it_was_seen_counts_no_more() {
    let mut talk = Talk::default();
    (0..3).for_each(|n| talk.send(n));
    talk.ack(2, 3);
    talk.asks(Opcode::RC_READ_REQUEST, 3, read_of(8));
    // The READ behind it is not in the capture; both are answered, and come again.
    talk.answers(Opcode::RC_READ_RESPONSE_ONLY, 3, Syndrome::ACK, 4, bytes(8, 0));
    talk.answers(Opcode::RC_READ_RESPONSE_ONLY, 4, Syndrome::ACK, 5, bytes(8, 0));
    talk.asks(Opcode::RC_READ_REQUEST, 4, read_of(8));
    talk.answers(Opcode::RC_READ_RESPONSE_ONLY, 4, Syndrome::ACK, 5, bytes(8, 0));
    talk.send(5);
    talk.ack(5, 6);
    let found = broken(Loss::Possible, &talk);
    assert_eq!(found, ["#7 answers-a-request?"]);
}

#[test]
fn a_capture_may_begin_among_requests_that_come_again() {
    let begun = |last: u32| {
        let mut talk = Talk::default();
        talk.asks(Opcode::RC_READ_REQUEST, 2, read_of(8));
        talk.answers(Opcode::RC_READ_RESPONSE_ONLY, 2, Syndrome::ACK, 7, bytes(8, 0));
        talk.send(3);
        talk.ack(3, 7);
        talk.send(4);
        talk.ack(4, 8);
        talk.send(5);
        talk.ack(5, last);
        broken(Loss::Possible, &talk)
    };
    assert_eq!(begun(9), ["#4 msn?"]);
    // Once two of them agree that they are new nothing of the kind excuses anything.
    assert_eq!(begun(8), ["#4 msn?", "#8 msn"]);
}

#[test]
fn reads_that_come_again_where_a_capture_begins_count_what_came_before_it() {
    let mut talk = Talk::default();
    talk.asks(Opcode::RC_READ_REQUEST, 2, read_of(8));
    talk.answers(Opcode::RC_READ_RESPONSE_ONLY, 2, Syndrome::ACK, 19, bytes(8, 0));
    // The first of its responses may have been counted or not: that agrees with whatever was counted before it.
    talk.asks(Opcode::RC_READ_REQUEST, 3, read_of(2 * PMTU + 8));
    talk.answers(Opcode::RC_READ_RESPONSE_FIRST, 3, Syndrome::ACK, 19, bytes(PMTU, 0));
    talk.answers(Opcode::RC_READ_RESPONSE_MIDDLE, 4, Syndrome::ACK, 19, bytes(PMTU, 0));
    talk.answers(Opcode::RC_READ_RESPONSE_LAST, 5, Syndrome::ACK, 19, bytes(8, 0));
    assert_eq!(broken(Loss::Possible, &talk), ["#6 msn?"]);
}

#[test]
fn a_response_behind_a_read_of_unknown_size_may_be_that_of_a_read_that_was_not_seen() {
    // Among the first packets, and when it is known who talks to whom.
    for known in [0, 4] {
        let begun = || {
            let mut talk = Talk::default();
            for n in 0..known {
                talk.send(n);
                talk.ack(n, n + 1);
            }
            talk.asks(Opcode::RC_READ_REQUEST, known, read_of(4 * PMTU));
            talk
        };
        let (next, msn) = (known + 1, known + 2);
        // The response was seen before its request.
        let mut talk = begun();
        talk.answers(Opcode::RC_READ_RESPONSE_ONLY, next, Syndrome::ACK, msn, bytes(8, 0));
        talk.asks(Opcode::RC_READ_REQUEST, next, read_of(8));
        talk.answers(Opcode::RC_READ_RESPONSE_ONLY, next, Syndrome::ACK, msn, bytes(8, 0));
        let found = broken(Loss::Possible, &talk);
        assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
        // Its own response and the request behind it were lost.
        let mut talk = begun();
        talk.answers(
            Opcode::RC_READ_RESPONSE_FIRST,
            next,
            Syndrome::ACK,
            msn,
            bytes(4 * PMTU, 0),
        );
        let found = broken(Loss::Possible, &talk);
        assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
    }
}

#[test]
fn the_last_response_of_a_read_of_unknown_size_ends_it_though_the_first_was_lost() {
    let mut talk = Talk::default();
    for n in 0..4 {
        talk.send(n);
        talk.ack(n, n + 1);
    }
    talk.asks(Opcode::RC_READ_REQUEST, 4, read_of(PMTU + 1));
    // What was sent between them was lost; the MSN has counted it.
    talk.send(7);
    talk.answers(Opcode::RC_READ_RESPONSE_LAST, 5, Syndrome::ACK, 5, bytes(1, 0));
    talk.ack(7, 7);
    let found = broken(Loss::Possible, &talk);
    assert!(found.iter().all(|name| name.ends_with('?')), "{found:?}");
}

#[test]
fn a_read_of_unknown_size_excuses_what_may_stand_behind_it() {
    let mut talk = Talk::default();
    talk.asks(Opcode::RC_READ_REQUEST, 0, read_of(2 * PMTU));
    talk.asks(Opcode::RC_SEND_LAST, 2, asking(bytes(8, 1)));
    assert_eq!(broken(Loss::Possible, &talk), ["#2 opcode-order?"]);
    let mut talk = Talk::default();
    talk.asks(Opcode::RC_READ_REQUEST, 0, read_of(3 * PMTU));
    talk.send(3);
    talk.asks(Opcode::RC_COMPARE_SWAP, 2, asking(atomic()));
    assert_eq!(broken(Loss::Possible, &talk), ["#3 same-again?"]);
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
        let mut talk = Talk::default();
        for (psn, key) in (0..).zip(keys) {
            talk.p_key = PKey(*key);
            talk.send(psn);
        }
        broken(Loss::Possible, &talk)
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

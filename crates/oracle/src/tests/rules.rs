//! Rules that a valid conversation without loss does not exercise, and the texts of their findings.

use verbatim_wire::packet::Syndrome;
use verbatim_wire::values::Hex64;
use verbatim_wire::{Medium, NakCode, Opcode, PKey, Packet, Psn, RnrTimer, Transport};

use super::super::{Connections, Event, Loss};
use super::qp_trace::{PMTU, QpTrace, Sender, asking, atomic, bytes, read_of, result, reth};
use super::{broken, judged};

const SEQUENCE: Syndrome = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);

/// Returns four SENDs, the second of which is lost after the capture point. End A goes back as the NAK requires.
fn gone_back() -> QpTrace {
    let mut qp = QpTrace::default();
    (0..4).for_each(|n| qp.send(n));
    qp.ack(0, 1);
    qp.nak(1, SEQUENCE, 1);
    (1..4).for_each(|n| qp.send(n));
    qp.ack(3, 4);
    qp
}

#[test]
fn loss_behind_the_capture_excuses_the_nak() {
    assert_eq!(broken(Loss::Possible, &gone_back()), ["#6 sequence-nak?"]);
    assert_eq!(broken(Loss::Excluded, &gone_back()), ["#6 sequence-nak"]);
}

#[test]
fn loss_before_the_capture_is_a_gap() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.send(2);
    qp.ack(0, 1);
    qp.nak(1, SEQUENCE, 1);
    (1..4).for_each(|n| qp.send(n));
    qp.ack(3, 4);
    assert_eq!(broken(Loss::Possible, &qp), ["#2 psn?", "#5 psn?"]);
}

#[test]
fn gap_gets_one_nak() {
    let mut qp = gone_back();
    let nak = qp.frames[5].clone();
    qp.frames.insert(6, nak);
    assert_eq!(
        broken(Loss::Excluded, &qp),
        ["#6 sequence-nak", "#7 sequence-nak", "#7 sequence-nak-once"]
    );
}

#[test]
fn retransmission_continues_in_order() {
    let mut qp = gone_back();
    qp.frames.remove(7);
    assert_eq!(broken(Loss::Excluded, &qp)[1..], ["#8 go-back"]);
}

#[test]
fn sequence_nak_needs_a_later_request() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.nak(0, SEQUENCE, 0);
    assert_eq!(broken(Loss::Excluded, &qp), ["#2 sequence-nak"]);
}

/// Returns the violations of the sequence NAK rules if no packet can be lost.
fn wrong_naks(qp: &QpTrace) -> Vec<String> {
    let mut found = broken(Loss::Excluded, qp);
    found.retain(|finding| finding.contains("sequence-nak"));
    found
}

#[test]
fn far_request_allows_one_nak_of_the_gap() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.ack(0, 1);
    qp.send(0x40_0000);
    qp.send(1);
    qp.nak(1, SEQUENCE, 1);
    qp.send(1);
    assert_eq!(wrong_naks(&qp), [""; 0]);
    qp.nak(1, SEQUENCE, 1);
    assert_eq!(wrong_naks(&qp), ["#7 sequence-nak", "#7 sequence-nak-once"]);
}

#[test]
fn request_behind_a_gap_stays_missing() {
    let after_the_first = |again: &[u32]| {
        let mut qp = QpTrace::default();
        qp.send(0);
        qp.send(2);
        qp.ack(0, 1);
        qp.nak(1, SEQUENCE, 1);
        again.iter().for_each(|n| qp.send(*n));
        qp.nak(2, SEQUENCE, 2);
        qp
    };
    assert_eq!(wrong_naks(&after_the_first(&[1, 3])), [""; 0]);
    assert_eq!(wrong_naks(&after_the_first(&[1, 2, 3])), ["#8 sequence-nak"]);
}

#[test]
fn request_after_an_rnr_nak_is_not_missing() {
    // Returns whether the wrong sequence NAK is a violation in a test's record from hardware.
    let is_found = |before: &[u32], after: &[u32]| {
        let mut qp = QpTrace::default();
        qp.send(0);
        qp.ack(0, 1);
        before.iter().for_each(|n| qp.send(*n));
        qp.nak(1, Syndrome::rnr_nak(RnrTimer(1)), 1);
        after.iter().for_each(|n| qp.send(*n));
        qp.nak(1, SEQUENCE, 1);
        let ended = judged(Loss::Possible, &qp.frames);
        let mut found = ended.iter().flat_map(|ended| &ended.connection.findings);
        found.any(|finding| {
            let is_excused = finding
                .unless
                .is_some_and(|excuse| !excuse.is_excluded_in_record(false));
            finding.rule.name() == "sequence-nak" && !is_excused
        })
    };
    assert!(is_found(&[1], &[2]));
    // The sequence NAK may be right: the second transmission of PSN 1 may be lost, or request 2 or a request far ahead
    // may have arrived before PSN 1.
    assert!(!is_found(&[1], &[1, 2]));
    assert!(!is_found(&[1, 2], &[]));
    assert!(!is_found(&[0x40_0000, 1], &[]));
}

#[test]
fn rnr_nak_needs_a_retry_before_an_ack() {
    let put_off = |qp: &mut QpTrace, n: u32| qp.nak(n, Syndrome::rnr_nak(RnrTimer(1)), n);
    let found = |qp: &QpTrace| {
        let mut found = broken(Loss::Excluded, qp);
        found.retain(|finding| finding.contains("retry-before-ack"));
        found
    };
    // The retransmission after the sequence NAK does not count as the retry after the RNR NAK.
    let mut qp = QpTrace::default();
    qp.send(1);
    qp.nak(0, SEQUENCE, 0);
    qp.send(0);
    put_off(&mut qp, 0);
    qp.ack(0, 1);
    assert_eq!(found(&qp), ["#5 retry-before-ack"]);
    // Like an ACK, a NAK acknowledges all requests before its PSN.
    for behind in [SEQUENCE, Syndrome::nak(NakCode::INVALID_REQUEST)] {
        let mut qp = QpTrace::default();
        qp.send(0);
        put_off(&mut qp, 0);
        qp.send(1);
        qp.send(2);
        qp.nak(1, behind, 1);
        assert_eq!(found(&qp), ["#5 retry-before-ack"]);
    }
    let mut qp = QpTrace::default();
    qp.send(0);
    put_off(&mut qp, 0);
    qp.wait(100_000);
    qp.send(0);
    qp.send(2);
    qp.nak(1, SEQUENCE, 1);
    assert_eq!(found(&qp), [""; 0]);
}

#[test]
fn early_retry_after_rnr_nak_is_found() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_SEND_FIRST, 0, bytes(PMTU, 0));
    qp.asks(Opcode::RC_SEND_LAST, 1, asking(bytes(9, 0)));
    qp.nak(1, Syndrome::rnr_nak(RnrTimer(12)), 0);
    qp.wait(600_000);
    qp.asks(Opcode::RC_SEND_LAST, 1, asking(bytes(9, 0)));
    assert_eq!(broken(Loss::Excluded, &qp), ["#4 rnr-interval"]);
    let all = judged(Loss::Possible, &qp.frames);
    let finding = &all[0].connection.findings[0];
    assert_eq!(
        finding.to_string(),
        "rnr-interval: expected at least 640.00 us, seen 601.00 us; unless a packet was lost after the capture \
         point, or had not arrived yet"
    );
    assert_eq!(
        (finding.packets.as_slice(), finding.rule.statement()),
        (&[3, 4][..], "C9-130")
    );
}

#[test]
fn response_after_a_fatal_nak_is_found() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.nak(0, Syndrome::nak(NakCode::INVALID_REQUEST), 0);
    qp.ack(0, 1);
    assert_eq!(broken(Loss::Excluded, &qp), ["#3 after-refusal"]);
}

#[test]
fn request_after_refusal_gets_no_ack() {
    let refused = |before: bool| {
        let mut qp = QpTrace::default();
        for n in 0..4 {
            qp.send(n);
            qp.ack(n, n + 1);
        }
        qp.send(4);
        if before {
            qp.send(5);
        }
        qp.nak(4, Syndrome::nak(NakCode::REMOTE_ACCESS), 4);
        if !before {
            qp.send(5);
        }
        qp.ack(5, 6);
        broken(Loss::Possible, &qp)
    };
    let names = |is_told: &str| format!("#12 after-refusal{is_told}");
    assert!(refused(false).contains(&names("")), "{:?}", refused(false));
    // If the later request was sent before the NAK, its ACK may also have left before the NAK.
    assert!(refused(true).contains(&names("?")), "{:?}", refused(true));
}

/// Returns a FetchAdd at an address `behind` bytes after a multiple of 8.
fn fetch_add(behind: u64) -> Transport {
    let whole = atomic();
    let atomic = whole.atomic.map(|atomic| atomic.with_va(Hex64(atomic.va().0 + behind)));
    asking(Transport { atomic, ..whole })
}

#[test]
fn unaligned_atomic_is_never_executed() {
    for (behind, expected) in [(0, &[][..]), (1, &["#6 invalid-request"]), (4, &["#6 invalid-request"])] {
        let mut qp = QpTrace::default();
        for n in 0..2 {
            qp.send(n);
            qp.ack(n, n + 1);
        }
        qp.asks(Opcode::RC_FETCH_ADD, 2, fetch_add(behind));
        qp.answers(Opcode::RC_ATOMIC_ACKNOWLEDGE, 2, Syndrome::ACK, 3, result(5));
        assert_eq!(broken(Loss::Possible, &qp), expected, "{behind}");
    }
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_FETCH_ADD, 0, fetch_add(4));
    qp.nak(0, Syndrome::nak(NakCode::INVALID_REQUEST), 0);
    assert_eq!(broken(Loss::Excluded, &qp), [""; 0]);
    qp.frames.pop();
    qp.nak(0, Syndrome::nak(NakCode::REMOTE_ACCESS), 0);
    assert_eq!(broken(Loss::Excluded, &qp), ["#2 nak-code"]);
}

#[test]
fn broken_message_is_not_acknowledged() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_SEND_FIRST, 0, bytes(PMTU, 1));
    qp.send(1);
    qp.ack(1, 1);
    assert_eq!(broken(Loss::Excluded, &qp), ["#2 opcode-order", "#3 invalid-request"]);
    // With loss, the responder is excused: the request may have been altered before it was captured.
    assert_eq!(
        broken(Loss::Possible, &qp)[..2],
        ["#2 opcode-order", "#3 invalid-request?"]
    );
}

#[test]
fn changed_retry_is_judged_anew() {
    let mut qp = QpTrace::default();
    qp.asks(Opcode::RC_SEND_FIRST, 0, bytes(PMTU, 1));
    qp.send(1);
    qp.nak(0, Syndrome::rnr_nak(RnrTimer(1)), 0);
    qp.wait(600_000);
    qp.send(0);
    qp.send(1);
    qp.ack(1, 2);
    assert_eq!(broken(Loss::Excluded, &qp), ["#2 opcode-order", "#4 same-again"]);
}

/// Flips a bit of packet `at`, counted from 0, at an offset from the BTH, and leaves the ICRC unchanged.
fn damage(qp: &mut QpTrace, at: usize, byte: usize) {
    let bytes = &mut qp.frames[at].1;
    let bth = Packet::parse(Medium::Ethernet, bytes).unwrap().offsets().bth;
    bytes[bth + byte] ^= 1;
}

#[test]
fn damage_is_a_violation_only_without_loss() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.send(1);
    damage(&mut qp, 1, 20);
    qp.ack(1, 2);
    assert_eq!(broken(Loss::Possible, &qp), ["#2 icrc?", "#3 damaged-request?"]);
    assert_eq!(broken(Loss::Excluded, &qp), ["#2 icrc", "#3 damaged-request"]);
}

/// Makes the ICRC of packet `at`, counted from 0, wrong.
fn spoil_icrc(qp: &mut QpTrace, at: usize) {
    *qp.frames[at].1.last_mut().unwrap() ^= 0x55;
}

fn acknowledged_sends(count: u32) -> QpTrace {
    let mut qp = QpTrace::default();
    for n in 0..count {
        qp.send(n);
        qp.ack(n, n + 1);
    }
    qp
}

#[test]
fn end_with_only_wrong_icrcs_is_blamed() {
    for count in [3, 4, 9] {
        for ends in [[true, false], [false, true], [true, true]] {
            let mut qp = acknowledged_sends(count);
            let spoilt: Vec<usize> = (0..qp.frames.len()).filter(|at| ends[at % 2]).collect();
            for at in &spoilt {
                spoil_icrc(&mut qp, *at);
            }
            let all = judged(Loss::Possible, &qp.frames);
            assert_eq!(all.len(), 1, "{ends:?}");
            assert_eq!(all[0].connection.packets, [u64::from(count); 2], "{ends:?}");
            assert_eq!(all[0].connection.totals().0, spoilt.len() as u64, "{ends:?}");
            let findings = &all[0].connection.findings;
            let wrong = findings.iter().filter(|finding| finding.unless.is_none());
            assert!(wrong.clone().count() > 0 && wrong.clone().all(|finding| finding.rule.name() == "icrc"));
        }
    }
}

#[test]
fn one_right_icrc_makes_the_others_damage() {
    for sound in 0..4 {
        let mut qp = acknowledged_sends(4);
        for at in (0..8).filter(|at| at % 2 == 1 && at / 2 != sound) {
            spoil_icrc(&mut qp, at);
        }
        let all = judged(Loss::Possible, &qp.frames);
        assert_eq!((all.len(), all[0].connection.totals()), (1, (0, 3)), "{sound}");
    }
}

#[test]
fn first_packet_with_wrong_icrc_is_shown() {
    let mut qp = acknowledged_sends(3);
    spoil_icrc(&mut qp, 0);
    assert_eq!(broken(Loss::Possible, &qp), ["#1 icrc?", "#2 damaged-request?"]);
    assert_eq!(broken(Loss::Excluded, &qp), ["#1 icrc", "#2 damaged-request"]);
}

#[test]
fn inverted_icrc_is_the_sender_s_fault() {
    let mistakes: [fn([u8; 4]) -> [u8; 4]; 2] = [|[a, b, c, d]| [d, c, b, a], |icrc| icrc.map(|byte| !byte)];
    for mistake in mistakes {
        let mut qp = acknowledged_sends(3);
        let icrc = qp.frames[2].1.last_chunk_mut::<4>().unwrap();
        *icrc = mistake(*icrc);
        assert_eq!(broken(Loss::Possible, &qp), ["#3 icrc", "#4 damaged-request?"]);
    }
}

#[test]
fn sole_response_with_wrong_icrc_is_shown() {
    let mut qp = acknowledged_sends(1);
    spoil_icrc(&mut qp, 1);
    assert_eq!(broken(Loss::Possible, &qp), ["#2 icrc?"]);
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), 1);
}

#[test]
fn lone_packet_with_wrong_icrc_is_unclaimed() {
    let mut qp = QpTrace::default();
    qp.send(0);
    spoil_icrc(&mut qp, 0);
    let packet = Packet::parse(Medium::Ethernet, &qp.frames[0].1).unwrap();
    let mut connections = Connections::new(Loss::Possible);
    let event = Event {
        number: 7,
        at: None,
        packet,
        is_cut: false,
    };
    connections.take(&event, |_| panic!("no connection ends"));
    let unclaimed = connections.finish(|_| panic!("there is no connection"));
    assert_eq!((unclaimed.packets, &unclaimed.numbers[..]), (1, &[7][..]));
}

#[test]
fn damaged_packet_does_not_define_its_retry() {
    // Index of the damaged packet, and the damaged byte: of the opcode, the P_Key or the payload.
    for (first, byte) in [(0, 0), (0, 3), (0, 20), (1, 0), (1, 3), (1, 20)] {
        let mut qp = QpTrace::default();
        (0..4).for_each(|n| qp.send(n));
        damage(&mut qp, first, byte);
        if first > 0 {
            qp.ack(0, 1);
        }
        qp.nak(u32::try_from(first).unwrap(), SEQUENCE, u32::try_from(first).unwrap());
        (u32::try_from(first).unwrap()..4).for_each(|n| qp.send(n));
        qp.ack(3, 4);
        let violations: Vec<_> = broken(Loss::Possible, &qp);
        assert!(
            violations.iter().all(|name| name.ends_with('?')),
            "packet {first}, byte {byte}: {violations:?}"
        );
        qp.send(4);
        qp.ack(4, 5);
        qp.ack(4, 6);
        assert_eq!(
            broken(Loss::Possible, &qp).last().map(String::as_str),
            Some(format!("#{} msn", qp.frames.len()).as_str()),
            "packet {first}, byte {byte}"
        );
    }
}

#[test]
fn flush_is_answered_like_an_empty_read() {
    for opcode in [0x1C, 0x1D] {
        for (length, expected) in [(0, vec![]), (8, vec!["#4 response-kind".to_owned()])] {
            let mut qp = QpTrace::default();
            qp.send(0);
            qp.ack(0, 1);
            qp.asks(
                Opcode(opcode),
                1,
                asking(Transport {
                    feth: (opcode == 0x1C).then(Default::default),
                    reth: reth(0, 8),
                    ..Transport::default()
                }),
            );
            qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 1, Syndrome::ACK, 2, bytes(length, 0));
            let mut broken = broken(Loss::Excluded, &qp);
            broken.retain(|name| name.starts_with("#4"));
            assert_eq!(broken, expected, "{opcode:#x}");
        }
    }
}

#[test]
fn count_is_open_behind_a_gap() {
    let mut qp = QpTrace::default();
    let read = || {
        asking(Transport {
            reth: reth(0, 8),
            ..Transport::default()
        })
    };
    qp.send(0);
    qp.ack(0, 1);
    qp.asks(Opcode::RC_READ_REQUEST, 1, read());
    // The capture lacks a READ with PSN 2. The responder may have accepted that READ before it answered the first READ.
    qp.asks(Opcode::RC_READ_REQUEST, 3, read());
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 1, Syndrome::ACK, 4, bytes(8, 0));
    assert_eq!(broken(Loss::Possible, &qp), ["#4 psn?"]);
}

#[test]
fn repeated_atomic_has_the_same_result() {
    let mut qp = QpTrace::of_everything();
    let again = qp.frames.len();
    let atomic = qp.frames[19].clone();
    qp.frames.push(atomic);
    qp.answers(Opcode::RC_ATOMIC_ACKNOWLEDGE, 13, Syndrome::ACK, 8, result(12));
    assert_eq!(
        broken(Loss::Possible, &qp),
        [
            format!("#{} acknowledged-again?", again + 1),
            format!("#{} atomic-again", again + 2)
        ]
    );
    let told = format!("#{} acknowledged-again", again + 1);
    assert!(broken(Loss::Excluded, &qp).contains(&told));
}

#[test]
fn write_carries_dma_len_bytes() {
    for (length, expected) in [(9, vec!["#2 dma-length"]), (10, vec![]), (11, vec!["#2 dma-length"])] {
        let mut qp = QpTrace::default();
        qp.asks(
            Opcode::RC_WRITE_FIRST,
            0,
            Transport {
                reth: reth(0, PMTU + 10),
                ..bytes(PMTU, 4)
            },
        );
        qp.asks(Opcode::RC_WRITE_LAST, 1, asking(bytes(length, 6)));
        assert_eq!(broken(Loss::Possible, &qp), expected, "{length}");
    }
}

#[test]
fn one_altered_retry_is_a_violation() {
    let mut qp = QpTrace::default();
    (0..4).for_each(|n| qp.send(n));
    qp.ack(0, 1);
    qp.nak(1, SEQUENCE, 1);
    qp.asks(Opcode::RC_SEND_ONLY, 1, asking(bytes(64, 77)));
    (2..6).for_each(|n| qp.send(n));
    qp.ack(5, 6);
    assert_eq!(broken(Loss::Possible, &qp), ["#6 sequence-nak?", "#7 same-again?"]);
    assert_eq!(broken(Loss::Excluded, &qp)[1..], ["#7 same-again"]);
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), 1);
}

#[test]
fn only_a_retry_s_payload_may_change() {
    let mut qp = QpTrace::default();
    (0..4).for_each(|n| qp.send(n));
    qp.ack(0, 1);
    qp.nak(1, SEQUENCE, 1);
    qp.asks(Opcode::RC_SEND_ONLY, 1, asking(bytes(60, 1)));
    (2..6).for_each(|n| qp.send(n));
    qp.ack(5, 6);
    assert_eq!(broken(Loss::Possible, &qp), ["#6 sequence-nak?", "#7 same-again"]);
}

#[test]
fn capture_excuses_a_changed_partition() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.ack(0, 1);
    qp.p_key = PKey(0x8001);
    qp.send(1);
    qp.ack(1, 2);
    qp.send(2);
    qp.ack(2, 3);
    assert_eq!(
        broken(Loss::Possible, &qp),
        ["#3 p-key?", "#4 p-key?", "#6 damaged-request?"]
    );
    assert_eq!(broken(Loss::Excluded, &qp), ["#3 p-key", "#4 p-key"]);
}

#[test]
fn stray_psn_ends_no_connection() {
    let mut qp = QpTrace::default();
    (0..2).for_each(|n| qp.send(n));
    qp.ack(1, 2);
    qp.send(0x40_0000);
    (2..4).for_each(|n| qp.send(n));
    qp.ack(3, 4);
    assert_eq!(broken(Loss::Possible, &qp), ["#4 psn?"]);
    assert_eq!(broken(Loss::Excluded, &qp), ["#4 psn"]);
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), 1);
}

/// Returns three acknowledged SENDs, `times` repetitions of the last SEND, and two more acknowledged SENDs. The ACK of
/// each repetition has an MSN one too high.
fn msn_of_duplicates(times: usize) -> QpTrace {
    let mut qp = QpTrace::default();
    let mut send = |n, msn| {
        qp.send(n);
        qp.ack(n, msn);
    };
    (0..3).for_each(|n| send(n, n + 1));
    (0..times).for_each(|_| send(2, 4));
    (3..5).for_each(|n| send(n, n + 1));
    qp
}

#[test]
fn wrong_msn_accuses_no_later_response() {
    for (times, wrong) in [(1, &["#8 msn"][..]), (2, &["#8 msn", "#10 msn"])] {
        let qp = msn_of_duplicates(times);
        for loss in [Loss::Possible, Loss::Excluded] {
            let mut found = broken(loss, &qp);
            // If no packet can be lost, the repetitions themselves are violations.
            found.retain(|found| !found.contains("acknowledged-again"));
            assert_eq!(found, wrong);
            assert_eq!(judged(loss, &qp.frames).len(), 1);
        }
    }
}

#[test]
fn ack_of_a_duplicate_counts_later_requests() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.ack(0, 1);
    qp.asks(Opcode::RC_READ_REQUEST, 1, read_of(8));
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 1, Syndrome::ACK, 2, bytes(8, 0));
    qp.send(0);
    qp.ack(0, 2);
    // An ACK of an older PSN is out of order, but its MSN is right: it also counts the READ.
    let expected = ["#5 acknowledged-again", "#6 acknowledgement-order"];
    assert_eq!(broken(Loss::Excluded, &qp), expected);
    qp.send(0);
    qp.ack(0, 3);
    assert!(broken(Loss::Excluded, &qp).contains(&"#8 msn".into()));
}

#[test]
fn both_ends_may_send_before_an_answer() {
    let mut qp = QpTrace::default();
    let b = |qp: &mut QpTrace, n| qp.says(Sender::B, Opcode::RC_SEND_ONLY, Psn(0x100 + n), asking(bytes(8, n)));
    (0..2).for_each(|n| qp.send(n));
    (0..2).for_each(|n| b(&mut qp, n));
    qp.ack(0, 1);
    qp.ack(1, 2);
    qp.send(2);
    qp.ack(2, 4);
    assert_eq!(broken(Loss::Possible, &qp), ["#8 msn"]);
    assert_eq!(judged(Loss::Possible, &qp.frames).len(), 1);
}

#[test]
fn unpaired_response_accuses_no_end() {
    let mut qp = QpTrace::default();
    qp.send(0);
    qp.answers(Opcode::RC_READ_RESPONSE_ONLY, 0, Syndrome::ACK, 1, bytes(8, 0));
    qp.send(1);
    assert_eq!(broken(Loss::Possible, &qp), ["#2 response-kind?"]);
    assert_eq!(broken(Loss::Excluded, &qp), ["#2 response-kind"]);
}

#[test]
fn other_services_begin_no_connection() {
    let mut qp = QpTrace::default();
    qp.says(Sender::A, Opcode(0x81), Psn(0), Transport::default());
    qp.says(Sender::A, Opcode(0x24), Psn(0), bytes(8, 0));
    qp.send(0);
    *qp.frames[2].1.last_mut().unwrap() ^= 1;
    assert!(judged(Loss::Possible, &qp.frames).is_empty());
}

#[test]
fn first_without_rest_may_be_accepted() {
    let qp = |last: usize, code: Option<Syndrome>| {
        let mut qp = QpTrace::default();
        let first = Transport {
            reth: reth(0, PMTU),
            ..bytes(PMTU, 1)
        };
        qp.asks(Opcode::RC_WRITE_FIRST, 0, asking(first));
        match code {
            Some(code) => qp.nak(0, code, 0),
            None => qp.ack(0, 0),
        }
        qp.asks(Opcode::RC_WRITE_LAST, 1, asking(bytes(last, 2)));
        if code.is_none() {
            qp.ack(1, 1);
        }
        broken(Loss::Excluded, &qp)
    };
    let taken = ["#1 dma-length", "#3 payload-length", "#4 invalid-request"];
    assert_eq!(qp(0, None), taken);
    assert_eq!(qp(4, None), ["#1 dma-length", "#3 dma-length", "#4 invalid-request"]);
    let refused = qp(4, Some(Syndrome::nak(NakCode::INVALID_REQUEST)));
    assert_eq!(refused, ["#1 dma-length", "#3 dma-length"]);
}

proptest::proptest! {
    #[test]
    fn any_packets_are_judged_without_panic(
        packets in proptest::collection::vec((0..2_u8, 0..0x20_u8, 0..12_u32, 0..4_usize, proptest::prelude::any::<u8>()), 0..200)
    ) {
        let mut qp = QpTrace::default();
        for (by, opcode, psn, size, bits) in packets {
            let opcode = Opcode(opcode);
            let headers = opcode.headers();
            let rest = Transport {
                reth: reth(0, size * PMTU + usize::from(bits)).filter(|_| headers.reth()),
                aeth: headers.aeth().then(|| verbatim_wire::Aeth::default().with_syndrome(Syndrome(bits)).with_msn(psn)),
                atomic_ack: result(bits.into()).atomic_ack.filter(|_| headers.atomic_ack()),
                ..bytes([0, 7, PMTU, 2 * PMTU][size], 0)
            };
            let sender = if by == 0 { Sender::A } else { Sender::B };
            qp.says(sender, opcode, Psn(psn), rest);
        }
        for loss in [Loss::Possible, Loss::Excluded] {
            judged(loss, &qp.frames);
        }
    }
}

#[test]
fn memory_of_open_requests_is_bounded() {
    let mut qp = QpTrace::default();
    (0..10_000).for_each(|n| qp.send(n));
    let all = judged(Loss::Possible, &qp.frames);
    assert!(all[0].connection.has_requests(0));
    assert!(all[0].connection.remembered() <= 8192);
}

#[test]
fn replaced_connections_are_all_reported() {
    const COUNT: u32 = (1 << 16) + 100;
    let mut connections = Connections::new(Loss::Possible);
    let mut one = QpTrace::default();
    one.send(0);
    let (_, bytes) = &mut one.frames[0];
    let bth = Packet::parse(Medium::Ethernet, bytes).unwrap().offsets().bth;
    let mut ended = 0;
    for qpn in 0..COUNT {
        bytes[bth + 5..bth + 8].copy_from_slice(&(qpn + 0x100).to_be_bytes()[1..]);
        verbatim_wire::packet::mend_icrc(Medium::Ethernet, bytes).unwrap();
        let packet = Packet::parse(Medium::Ethernet, bytes).unwrap();
        let event = Event {
            number: u64::from(qpn) + 1,
            at: None,
            packet,
            is_cut: false,
        };
        connections.take(&event, |_| ended += 1);
    }
    assert_eq!(ended, 100);
    connections.finish(|_| ended += 1);
    assert_eq!(ended, COUNT);
}

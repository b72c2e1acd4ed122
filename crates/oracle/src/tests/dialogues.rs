//! Generated dialogues of each service, with either end as the requester. A legal dialogue breaks no rule, even if
//! packets are lost, reordered or mirrored, or if its queue pairs are used again. In an illegal dialogue, the checks
//! name the packet that breaks the rule.

use verbatim_wire::packet::{Syndrome, edit, mend_icrc};
use verbatim_wire::values::Hex64;
use verbatim_wire::{
    Aeth, AtomicEth, Bth, Ieth, ImmDt, Medium, NakCode, Opcode, PKey, Packet, Psn, RnrTimer, Transport,
};

use super::super::Loss;
use super::qp_trace::{PMTU, QpTrace, Sender, asking, atomic, bytes, read_of, result, reth};
use super::{broken, judged};

const SEQUENCE: Syndrome = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
/// First PSN of the requests, which wrap around 2^24.
const FIRST: Psn = Psn(0xFF_FFFC);
/// Interval of RNR timer 12, in nanoseconds.
const RNR: u64 = 640_000;

/// Packet of a dialogue.
#[derive(Clone)]
struct Step {
    is_request: bool,
    opcode: Opcode,
    /// PSN, counted from the first request.
    n: u32,
    rest: Transport,
    /// Nanoseconds to wait before the packet.
    wait: u64,
    /// Change of the BTH, before the ICRC is computed.
    bth: fn(Bth) -> Bth,
    has_wrong_icrc: bool,
}

fn ask(opcode: Opcode, n: u32, rest: Transport) -> Step {
    Step {
        is_request: true,
        opcode,
        n,
        rest,
        wait: 0,
        bth: |bth| bth,
        has_wrong_icrc: false,
    }
}

fn answer(opcode: Opcode, n: u32, (syndrome, msn): (Syndrome, u32), rest: Transport) -> Step {
    let aeth = Aeth::default().with_syndrome(syndrome).with_msn(msn);
    let aeth = (opcode != Opcode::RC_READ_RESPONSE_MIDDLE).then_some(aeth);
    Step {
        is_request: false,
        ..ask(opcode, n, Transport { aeth, ..rest })
    }
}

fn send(n: u32) -> Step {
    ask(Opcode::RC_SEND_ONLY, n, asking(bytes(64, n)))
}

fn refuse(n: u32, syndrome: Syndrome, msn: u32) -> Step {
    answer(Opcode::RC_ACKNOWLEDGE, n, (syndrome, msn), Transport::default())
}

fn ack(n: u32, msn: u32) -> Step {
    refuse(n, Syndrome::ACK, msn)
}

fn sends_from(first: u32, count: u32) -> Vec<Step> {
    (first..first + count).flat_map(|n| [send(n), ack(n, n + 1)]).collect()
}

fn immediate(rest: Transport) -> Transport {
    let imm = Some(ImmDt::default());
    Transport { imm, ..rest }
}

fn invalidates(rest: Transport) -> Transport {
    let ieth = Some(Ieth::default());
    Transport { ieth, ..rest }
}

fn writes_to(length: usize, rest: Transport) -> Transport {
    let reth = reth(0, length);
    Transport { reth, ..rest }
}

fn sends() -> Vec<Step> {
    sends_from(0, 4)
}

fn messages() -> Vec<Step> {
    let message = |m: u32| {
        let n = 3 * m;
        [
            ask(Opcode::RC_SEND_FIRST, n, bytes(PMTU, n)),
            ask(Opcode::RC_SEND_MIDDLE, n + 1, bytes(PMTU, n)),
            ask(Opcode::RC_SEND_LAST_IMM, n + 2, asking(immediate(bytes(101, n)))),
            ack(n + 2, m + 1),
        ]
    };
    (0..3).flat_map(message).collect()
}

fn invalidating_sends() -> Vec<Step> {
    vec![
        ask(Opcode::RC_SEND_ONLY_INVALIDATE, 0, asking(invalidates(bytes(9, 0)))),
        ack(0, 1),
        ask(Opcode::RC_SEND_FIRST, 1, bytes(PMTU, 1)),
        ask(Opcode::RC_SEND_LAST_INVALIDATE, 2, asking(invalidates(bytes(8, 2)))),
        ack(2, 2),
        ask(Opcode::RC_SEND_ONLY_IMM, 3, asking(immediate(bytes(7, 3)))),
        ack(3, 3),
    ]
}

fn writes() -> Vec<Step> {
    vec![
        ask(Opcode::RC_WRITE_FIRST, 0, writes_to(2 * PMTU + 10, bytes(PMTU, 0))),
        ask(Opcode::RC_WRITE_MIDDLE, 1, bytes(PMTU, 1)),
        ask(Opcode::RC_WRITE_LAST, 2, asking(bytes(10, 2))),
        ack(2, 1),
        ask(Opcode::RC_WRITE_ONLY, 3, writes_to(40, asking(bytes(40, 3)))),
        ack(3, 2),
        ask(
            Opcode::RC_WRITE_ONLY_IMM,
            4,
            writes_to(40, asking(immediate(bytes(40, 4)))),
        ),
        ack(4, 3),
        ask(Opcode::RC_WRITE_FIRST, 5, writes_to(PMTU + 1, bytes(PMTU, 5))),
        ask(Opcode::RC_WRITE_LAST_IMM, 6, asking(immediate(bytes(1, 6)))),
        ack(6, 4),
    ]
}

fn read(n: u32, responses: u32, last: usize, msn: u32) -> Vec<Step> {
    let total = (responses as usize - 1) * PMTU + last;
    let mut steps = vec![ask(Opcode::RC_READ_REQUEST, n, read_of(total))];
    steps.extend((0..responses).map(|at| {
        let (opcode, length) = match at {
            0 if responses == 1 => (Opcode::RC_READ_RESPONSE_ONLY, last),
            0 => (Opcode::RC_READ_RESPONSE_FIRST, PMTU),
            at if at + 1 == responses => (Opcode::RC_READ_RESPONSE_LAST, last),
            _ => (Opcode::RC_READ_RESPONSE_MIDDLE, PMTU),
        };
        answer(opcode, n + at, (Syndrome::ACK, msn), bytes(length, at))
    }));
    steps
}

fn reads() -> Vec<Step> {
    [read(0, 3, 10, 1), read(3, 1, 8, 2), read(4, 3, PMTU, 3)].concat()
}

fn atomics() -> Vec<Step> {
    let both = |n: u32| {
        let opcode = if n == 0 {
            Opcode::RC_COMPARE_SWAP
        } else {
            Opcode::RC_FETCH_ADD
        };
        let answered = answer(
            Opcode::RC_ATOMIC_ACKNOWLEDGE,
            n,
            (Syndrome::ACK, n + 1),
            result(n.into()),
        );
        [ask(opcode, n, asking(atomic())), answered]
    };
    (0..4).flat_map(both).collect()
}

fn empty_messages() -> Vec<Step> {
    let mut steps = vec![
        ask(Opcode::RC_SEND_ONLY, 0, asking(bytes(0, 0))),
        ack(0, 1),
        ask(Opcode::RC_WRITE_ONLY, 1, writes_to(0, asking(bytes(0, 0)))),
        ack(1, 2),
    ];
    steps.extend(read(2, 1, 0, 3));
    steps.extend([send(3), ack(3, 4)]);
    steps
}

/// Returns a dialogue in which each ACK acknowledges several requests.
fn coalesced() -> Vec<Step> {
    let some = |first: u32| {
        let asked = (first..first + 5).map(|n| ask(Opcode::RC_SEND_ONLY, n, bytes(64, n)));
        asked
            .chain([send(first + 5), ack(first + 5, first + 6)])
            .collect::<Vec<_>>()
    };
    [some(0), some(6), some(12)].concat()
}

/// Returns a dialogue in which several kinds of requests are outstanding at the same time.
fn pipelined() -> Vec<Step> {
    let some = |n: u32, msn: u32| {
        let read = read(n + 2, 2, 9, msn + 3);
        vec![
            send(n),
            ask(Opcode::RC_WRITE_ONLY, n + 1, writes_to(40, asking(bytes(40, 3)))),
            read[0].clone(),
            ask(Opcode::RC_FETCH_ADD, n + 4, asking(atomic())),
            send(n + 5),
            ack(n + 1, msn + 2),
            read[1].clone(),
            read[2].clone(),
            answer(
                Opcode::RC_ATOMIC_ACKNOWLEDGE,
                n + 4,
                (Syndrome::ACK, msn + 4),
                result(5),
            ),
            ack(n + 5, msn + 5),
        ]
    };
    [some(0, 0), some(6, 5)].concat()
}

/// Returns four SENDs, the second of which is lost after the capture point.
fn lost_behind() -> Vec<Step> {
    let mut steps: Vec<Step> = (0..4).map(send).collect();
    steps.extend([ack(0, 1), refuse(1, SEQUENCE, 1)]);
    steps.extend((1..4).map(send));
    steps.push(ack(3, 4));
    steps.extend(sends_from(4, 2));
    steps
}

/// Returns three SENDs, the second of which is lost before the capture point.
fn lost_before() -> Vec<Step> {
    let mut steps = vec![
        send(0),
        send(2),
        ack(0, 1),
        refuse(1, SEQUENCE, 1),
        send(1),
        send(2),
        ack(2, 3),
    ];
    steps.extend(sends_from(3, 2));
    steps
}

/// Returns a dialogue whose acknowledgement is lost after the capture point, so that the requester repeats the request.
fn repeated() -> Vec<Step> {
    let again = Step {
        wait: 4_000_000,
        ..send(2)
    };
    [sends_from(0, 3), vec![again, ack(2, 3)], sends_from(3, 2)].concat()
}

/// Returns a dialogue with a missing receive.
fn put_off() -> Vec<Step> {
    let refused = refuse(1, Syndrome::rnr_nak(RnrTimer(12)), 1);
    let again = Step { wait: RNR, ..send(1) };
    let first = [sends_from(0, 1), vec![send(1), refused, again, ack(1, 2)]].concat();
    [first, sends_from(2, 2)].concat()
}

/// Returns a dialogue whose last request gets a NAK that ends the connection.
fn refused() -> Vec<Step> {
    let last = [
        ask(Opcode::RC_WRITE_ONLY, 3, writes_to(40, asking(bytes(40, 3)))),
        refuse(3, Syndrome::nak(NakCode::REMOTE_ACCESS), 3),
    ];
    [sends_from(0, 3), last.to_vec()].concat()
}

type Service = (&'static str, fn() -> Vec<Step>);

const SERVICES: [Service; 14] = [
    ("SEND", sends),
    ("SEND of several packets", messages),
    ("SEND that invalidates", invalidating_sends),
    ("WRITE", writes),
    ("READ", reads),
    ("atomics", atomics),
    ("empty messages", empty_messages),
    ("coalesced acknowledgements", coalesced),
    ("several outstanding", pipelined),
    ("a request lost behind the capture", lost_behind),
    ("a request lost before the capture", lost_before),
    ("a lost acknowledgement", repeated),
    ("a missing receive", put_off),
    ("a refusal for good", refused),
];

/// Appends the dialogue to `qp`. `asks` is the requester, and `moved` is added to all PSNs.
fn render(qp: &mut QpTrace, steps: &[Step], asks: Sender, moved: u32) {
    let answers = match asks {
        Sender::A => Sender::B,
        Sender::B => Sender::A,
    };
    for step in steps {
        qp.wait(step.wait);
        let from = if step.is_request { asks } else { answers };
        qp.says(from, step.opcode, FIRST.plus(step.n + moved), step.rest.clone());
        let Some((_, frame)) = qp.frames.last_mut() else {
            continue;
        };
        let at = Packet::parse(Medium::Ethernet, frame).unwrap().offsets().bth;
        edit::<Bth>(frame, at, step.bth);
        mend_icrc(Medium::Ethernet, frame).unwrap();
        if step.has_wrong_icrc {
            *frame.last_mut().unwrap() ^= 1;
        }
    }
}

fn rendered(steps: &[Step], asks: Sender) -> QpTrace {
    let mut qp = QpTrace::default();
    render(&mut qp, steps, asks, 0);
    qp
}

/// Returns the captures that a legal dialogue may lead to, each with a name.
fn ways(steps: &[Step], asks: Sender) -> Vec<(String, QpTrace)> {
    let whole = rendered(steps, asks);
    let count = whole.frames.len();
    let mut all = vec![("whole".to_owned(), whole.clone())];
    let mut add = |name: String, change: &dyn Fn(&mut QpTrace)| {
        let mut qp = whole.clone();
        change(&mut qp);
        all.push((name, qp));
    };
    for at in 0..count {
        add(format!("without #{}", at + 1), &|qp| drop(qp.frames.remove(at)));
    }
    for at in 1..count {
        add(format!("#{at} and #{} in the other order", at + 1), &|qp| {
            let (first, second) = qp.frames.split_at_mut(at);
            core::mem::swap(&mut first[at - 1].1, &mut second[0].1);
        });
    }
    add("mirrored".to_owned(), &|qp| {
        qp.frames = qp
            .frames
            .iter()
            .flat_map(|frame| [frame.clone(), frame.clone()])
            .collect();
    });
    add("of a queue pair used again".to_owned(), &|qp| {
        render(qp, steps, asks, 0x40_0000)
    });
    add("of both ends in turn".to_owned(), &|qp| {
        render(
            qp,
            steps,
            if matches!(asks, Sender::A) {
                Sender::B
            } else {
                Sender::A
            },
            0x1_0000,
        );
    });
    all
}

#[test]
fn legal_dialogues_break_no_rule() {
    let mut wrong = Vec::new();
    for (service, steps) in SERVICES {
        for asks in [Sender::A, Sender::B] {
            for (way, qp) in ways(&steps(), asks) {
                let mut found = broken(Loss::Possible, &qp);
                found.retain(|name| !name.ends_with('?'));
                if !found.is_empty() {
                    wrong.push(format!("{service}, asked by {asks:?}, {way}: {found:?}"));
                }
                if ["whole", "mirrored", "of both ends in turn"].contains(&way.as_str()) {
                    assert_eq!(
                        judged(Loss::Possible, &qp.frames).len(),
                        1,
                        "{service}, {asks:?}, {way}"
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn dialogue_without_loss_breaks_no_rule() {
    for (service, steps) in SERVICES {
        if service.contains("lost") {
            continue;
        }
        for asks in [Sender::A, Sender::B] {
            assert_eq!(
                broken(Loss::Excluded, &rendered(&steps(), asks)),
                [""; 0],
                "{service}, {asks:?}"
            );
        }
    }
}

/// Illegal dialogue: a legal dialogue, the change that makes it illegal, the number of the packet that breaks a
/// rule, and the name of the rule.
type Row = (fn() -> Vec<Step>, fn(&mut Vec<Step>), usize, &'static str);

fn shift(steps: &mut [Step], from: usize) {
    steps.iter_mut().skip(from).for_each(|step| step.n += 1);
}

fn again(steps: &mut Vec<Step>, at: usize) {
    steps.insert(at + 1, steps[at].clone());
}

fn set_msn(step: &mut Step, msn: u32) {
    step.rest.aeth = step.rest.aeth.map(|aeth| aeth.with_msn(msn));
}

fn set_syndrome(step: &mut Step, syndrome: Syndrome) {
    step.rest.aeth = step.rest.aeth.map(|aeth| aeth.with_syndrome(syndrome));
}

fn set_length(step: &mut Step, length: usize) {
    step.rest.payload.resize(length, 0);
}

const ILLEGAL: &[Row] = &[
    // Rules for every packet.
    (sends, |s| s[4].has_wrong_icrc = true, 5, "icrc"),
    (sends, |s| s[5].has_wrong_icrc = true, 6, "icrc"),
    (sends, |s| s[4].bth = |bth| bth.with_tver(1), 5, "tver"),
    (sends, |s| s[4].opcode = Opcode(0x1F), 5, "opcode"),
    (sends, |s| s[4].bth = |bth| bth.with_p_key(PKey(0x8001)), 5, "p-key"),
    (
        sends,
        |s| s[3].bth = |bth| bth.with_ack_request(true),
        4,
        "ack-request-of-response",
    ),
    (
        sends,
        |s| s[3].bth = |bth| bth.with_solicited_event(true),
        4,
        "solicited-event",
    ),
    (
        messages,
        |s| s[5].bth = |bth| bth.with_solicited_event(true),
        6,
        "solicited-event",
    ),
    (sends, |s| set_syndrome(&mut s[3], Syndrome(0x45)), 4, "syndrome"),
    (sends, |s| set_syndrome(&mut s[3], Syndrome(0x7F)), 4, "syndrome"),
    (atomics, |s| set_syndrome(&mut s[3], SEQUENCE), 4, "syndrome"),
    (messages, |s| s[5].bth = |bth| bth.with_pad_count(1), 6, "padding"),
    (reads, |s| set_length(&mut s[4], 4), 5, "format"),
    (sends, |s| set_length(&mut s[5], 8), 6, "format"),
    // Rules for the requester.
    (sends, |s| shift(s, 4), 5, "psn"),
    (reads, |s| shift(s, 4), 5, "psn"),
    (lost_behind, |s| drop(s.remove(7)), 8, "go-back"),
    (sends, |s| s.insert(4, send(1)), 5, "acknowledged-again"),
    (
        sends,
        |s| {
            again(s, 2);
            s[3].rest.payload[0] ^= 1;
        },
        4,
        "same-again",
    ),
    (
        writes,
        |s| {
            again(s, 4);
            s[5].rest.reth = reth(8, 40);
        },
        6,
        "same-again",
    ),
    (messages, |s| s[1].opcode = Opcode::RC_SEND_ONLY, 2, "opcode-order"),
    (messages, |s| s[5].opcode = Opcode::RC_SEND_FIRST, 6, "opcode-order"),
    (messages, |s| s[4].opcode = Opcode::RC_SEND_MIDDLE, 5, "opcode-order"),
    (messages, |s| s[5].opcode = Opcode::RC_WRITE_MIDDLE, 6, "opcode-order"),
    (messages, |s| set_length(&mut s[4], PMTU - 8), 5, "payload-length"),
    (messages, |s| set_length(&mut s[5], PMTU - 4), 6, "payload-length"),
    (messages, |s| set_length(&mut s[6], 0), 7, "payload-length"),
    (messages, |s| set_length(&mut s[6], PMTU + 4), 7, "payload-length"),
    (writes, |s| s[0].rest.reth = reth(0, 2 * PMTU + 20), 3, "dma-length"),
    (writes, |s| s[0].rest.reth = reth(0, PMTU + 4), 2, "dma-length"),
    (writes, |s| s[4].rest.reth = reth(0, 44), 5, "dma-length"),
    (put_off, |s| s[4].wait = 0, 5, "rnr-interval"),
    // Rules for the responder.
    (sends, |s| s[3].n = 9, 4, "answers-a-request"),
    (
        writes,
        |s| s[5].opcode = Opcode::RC_READ_RESPONSE_ONLY,
        6,
        "response-kind",
    ),
    (
        atomics,
        |s| s[3].opcode = Opcode::RC_READ_RESPONSE_ONLY,
        4,
        "response-kind",
    ),
    (reads, |s| drop(s.remove(8)), 9, "responses-in-order"),
    (reads, |s| again(s, 3), 5, "responses-in-order"),
    (
        reads,
        |s| s[7].opcode = Opcode::RC_READ_RESPONSE_ONLY,
        8,
        "read-response-opcode",
    ),
    (
        reads,
        |s| s[8].opcode = Opcode::RC_READ_RESPONSE_FIRST,
        9,
        "read-response-opcode",
    ),
    (reads, |s| set_length(&mut s[8], PMTU - 4), 9, "read-response-length"),
    (reads, |s| set_length(&mut s[9], PMTU - 4), 10, "read-response-length"),
    (
        atomics,
        |s| {
            let (asked, mut answered) = (s[2].clone(), s[3].clone());
            answered.rest.atomic_ack = result(77).atomic_ack;
            s.insert(3, asked);
            s.insert(5, answered);
        },
        6,
        "atomic-again",
    ),
    (
        atomics,
        |s| s[4].rest.atomic = Some(AtomicEth::default().with_va(Hex64(0x7F00_0000_1004))),
        6,
        "invalid-request",
    ),
    (sends, |s| s.insert(6, ack(0, 3)), 7, "acknowledgement-order"),
    (sends, |s| set_msn(&mut s[5], 4), 6, "msn"),
    (sends, |s| set_msn(&mut s[7], 3), 8, "msn"),
    (messages, |s| s.insert(6, ack(4, 2)), 7, "msn"),
    (reads, |s| set_msn(&mut s[5], 3), 6, "msn"),
    (atomics, |s| set_msn(&mut s[5], 9), 6, "msn"),
    (repeated, |s| set_msn(&mut s[7], 4), 8, "msn"),
    (sends, |s| set_syndrome(&mut s[3], SEQUENCE), 4, "sequence-nak"),
    (lost_behind, |s| again(s, 5), 7, "sequence-nak-once"),
    (lost_behind, |s| s.insert(6, ack(3, 4)), 7, "retry-before-ack"),
    (lost_behind, |s| drop(s.remove(6)), 9, "retry-before-ack"),
    (put_off, |s| drop(s.remove(4)), 5, "retry-before-ack"),
    (
        sends,
        |s| s[3] = refuse(1, Syndrome::nak(NakCode::INVALID_REQUEST), 1),
        6,
        "after-refusal",
    ),
];

/// Returns the packets that break rules, each with a rule.
fn found(loss: Loss, qp: &QpTrace) -> Vec<(usize, String)> {
    let named = broken(loss, qp);
    let mut found: Vec<(usize, String)> = named
        .iter()
        .filter_map(|name| {
            let (packet, rule) = name.strip_prefix('#')?.split_once(' ')?;
            Some((packet.parse().ok()?, rule.trim_end_matches('?').to_owned()))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn names_the_packet_that_breaks_the_rule() {
    let mut wrong = Vec::new();
    for (row, (legal, alter, packet, rule)) in ILLEGAL.iter().enumerate() {
        let mut steps = legal();
        alter(&mut steps);
        for asks in [Sender::A, Sender::B] {
            let qp = rendered(&steps, asks);
            let before = found(Loss::Excluded, &rendered(&legal(), asks));
            let is_news = |found: &(usize, String)| !before.contains(found);
            for loss in [Loss::Excluded, Loss::Possible] {
                let found = found(loss, &qp);
                let first = found
                    .iter()
                    .filter(|found| is_news(found))
                    .map(|(packet, _)| *packet)
                    .next();
                if first != Some(*packet) || !found.contains(&(*packet, (*rule).to_owned())) {
                    wrong.push(format!(
                        "row {row}, asked by {asks:?}, {loss:?}: #{packet} {rule}, found {found:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

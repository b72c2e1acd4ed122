//! Several connections between the same two ports. All begin with the same PSNs, because some libraries always begin
//! with PSN 0.

use verbatim_wire::packet::{edit, mend_icrc};
use verbatim_wire::{Bth, Medium, Opcode, Packet, Qpn, Transport};

use super::qp_trace::{PMTU, QpTrace, asking, bytes, reth};
use super::{Loss, judged};

/// Returns `count` SENDs, with an ACK after every `burst` SENDs.
fn sends(burst: u32, count: u32) -> QpTrace {
    let mut qp = QpTrace::default();
    for n in 0..count {
        qp.send(n);
        if n % burst == burst - 1 {
            qp.ack(n, n + 1);
        }
    }
    qp
}

/// Returns `count` READs with three responses each. At most `ahead` READs are outstanding at a time.
fn reads(ahead: u32, count: u32) -> QpTrace {
    let mut qp = QpTrace::default();
    let ask = |qp: &mut QpTrace, n: u32| {
        let read = Transport {
            reth: reth(0, 2 * PMTU + 10),
            ..Transport::default()
        };
        qp.asks(Opcode::RC_READ_REQUEST, 3 * n, asking(read));
    };
    (0..ahead).for_each(|n| ask(&mut qp, n));
    for n in 0..count {
        let parts = [
            (Opcode::RC_READ_RESPONSE_FIRST, PMTU),
            (Opcode::RC_READ_RESPONSE_MIDDLE, PMTU),
            (Opcode::RC_READ_RESPONSE_LAST, 10),
        ];
        for (part, (opcode, length)) in (0..).zip(parts) {
            let syndrome = verbatim_wire::Syndrome::ACK;
            qp.answers(opcode, 3 * n + part, syndrome, n + 1, bytes(length, n));
        }
        if n + ahead < count {
            ask(&mut qp, n + ahead);
        }
    }
    qp
}

/// Returns the frames of `qp`, moved to other queue pairs: each destination QPN is larger by 0x100 * `pair`.
fn of_pair(qp: &QpTrace, pair: u32) -> Vec<(u64, Vec<u8>)> {
    let mut frames = qp.frames.clone();
    for (_, frame) in &mut frames {
        let at = Packet::parse(Medium::Ethernet, frame).unwrap().offsets().bth;
        edit::<Bth>(frame, at, |bth| bth.with_dest_qp(Qpn(bth.dest_qp().0 + 0x100 * pair)));
        mend_icrc(Medium::Ethernet, frame).unwrap();
    }
    frames
}

/// Judges the frames, except the frame at index `without`, and returns the findings that loss does not excuse.
fn found(frames: &[(u64, Vec<u8>)], without: Option<usize>) -> Vec<String> {
    let kept = frames.iter().enumerate().filter(|(at, _)| Some(*at) != without);
    let all = judged(Loss::Possible, kept.map(|(_, frame)| frame));
    let findings = all.iter().flat_map(|ended| &ended.connection.findings);
    findings
        .filter(|finding| finding.unless.is_none())
        .map(|finding| {
            format!(
                "{} {:?}: {} / {}",
                finding.rule.name(),
                finding.packets,
                finding.expected,
                finding.seen
            )
        })
        .collect()
}

#[test]
fn equal_first_psns_cause_no_violation() {
    let kinds = [
        QpTrace::of_everything(),
        sends(1, 24),
        sends(4, 24),
        sends(8, 24),
        reads(1, 8),
        reads(3, 8),
    ];
    let (mut wrong, mut case) = (Vec::new(), 0);
    for (one, first) in kinds.iter().enumerate() {
        for (other, second) in kinds.iter().enumerate() {
            for (third, shift) in [(0, 300), (1, 300), (2, 1_700), (3, 5_100), (4, 14_300), (1, 40_000)] {
                let mut frames = Vec::new();
                for (pair, qp) in (0..).zip([first, second, &kinds[third]]) {
                    let of_it = of_pair(qp, pair);
                    frames.extend(
                        of_it
                            .into_iter()
                            .map(|(at, frame)| (at + u64::from(pair) * shift, frame)),
                    );
                }
                frames.sort_by_key(|(at, _)| *at);
                let lost = (0..frames.len()).skip(case % 9).step_by(9).map(Some);
                case += 1;
                for without in [None].into_iter().chain(lost) {
                    for finding in found(&frames, without) {
                        wrong.push(format!("{one} {other} {third} {shift}, without {without:?}: {finding}"));
                    }
                }
            }
        }
    }
    let some: Vec<_> = wrong.iter().take(12).collect();
    assert!(wrong.is_empty(), "{} findings: {some:#?}", wrong.len());
}

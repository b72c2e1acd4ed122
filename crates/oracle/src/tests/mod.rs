//! Tests of the rules on generated conversations: valid conversations break no rule, and altered, lost or moved packets
//! are found.

mod altered;
mod answers;
mod begun_anew;
mod dialogues;
mod golden;
mod managed;
mod mirrored;
mod qp_trace;
mod real;
mod refused;
mod rules;
mod several;
mod states;
mod timers;
mod unseen;
pub(super) mod verbs;

use super::{Connections, Ended, Event, Loss};
use qp_trace::QpTrace;
use verbatim_record::Time;
use verbatim_wire::{Medium, Packet};

/// Returns the connections in the frames. Each frame has its time in nanoseconds.
fn judged<'f>(loss: Loss, frames: impl IntoIterator<Item = &'f (u64, Vec<u8>)>) -> Vec<Ended> {
    let mut connections = Connections::new(loss);
    let mut all = Vec::new();
    for (number, (at, bytes)) in frames.into_iter().enumerate() {
        let Ok(packet) = Packet::parse(Medium::Ethernet, bytes) else {
            continue;
        };
        let event = Event {
            number: number as u64 + 1,
            at: Some(Time(*at)),
            packet,
            is_cut: false,
        };
        connections.take(&event, |ended| all.push(ended));
    }
    connections.finish(|ended| all.push(ended));
    all
}

/// Returns the broken rules, each with its last packet; `?` marks an excused violation.
fn broken(loss: Loss, qp: &QpTrace) -> Vec<String> {
    let all = judged(loss, &qp.frames);
    let findings = all.iter().flat_map(|ended| &ended.connection.findings);
    findings
        .map(|finding| {
            let excused = if finding.unless.is_some() { "?" } else { "" };
            format!("#{} {}{excused}", finding.packets.last().unwrap(), finding.rule.name())
        })
        .collect()
}

#[test]
fn valid_conversation_breaks_no_rule() {
    let qp = QpTrace::of_everything();
    for loss in [Loss::Possible, Loss::Excluded] {
        assert_eq!(broken(loss, &qp), [""; 0]);
    }
    let all = judged(Loss::Excluded, &qp.frames);
    assert_eq!(all.len(), 1, "both directions are one connection");
    let connection = &all[0].connection;
    assert_eq!(connection.path_mtu(), Some(256));
    let unasked: Vec<&str> = connection
        .counts()
        .filter(|(_, count)| count.asked == 0)
        .map(|(rule, _)| rule.name())
        .collect();
    // The conversation exercises none of these rules: they need loss, the end of a connection, or native InfiniBand.
    assert_eq!(
        unasked,
        [
            "vcrc",
            "go-back",
            "invalid-request",
            "remote-access",
            "nak-code",
            "refusal-reason",
            "access-reason",
            "sequence-nak",
            "sequence-nak-once",
            "after-refusal"
        ]
    );
}

#[test]
fn capture_may_begin_anywhere() {
    let qp = QpTrace::of_everything();
    for from in 0..qp.frames.len() {
        let part = QpTrace {
            frames: qp.frames[from..].to_vec(),
            ..QpTrace::default()
        };
        let violations: Vec<String> = broken(Loss::Possible, &part);
        let violations: Vec<&String> = violations.iter().filter(|name| !name.ends_with('?')).collect();
        assert!(violations.is_empty(), "from packet {}: {violations:?}", from + 1);
    }
}

#[test]
fn rule_names_are_unique() {
    let mut names: Vec<&str> = super::rules().map(|rule| rule.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), super::rules().count());
}

//! Rules of expected responses, required waiting and events, on golden records with one change each.

use core::time::Duration;

use verbatim_archives::golden;
use verbatim_record::verbs::{Command, Event, pb};
use verbatim_record::{Entry, Trace};
use verbatim_wire::packet::{Aeth, Bth, Medium, Opcode, Packet, Psn, RnrTimer, Syndrome, SyndromeKind};
use verbatim_wire::{Layout, NakCode, edit, mend_icrc};

use super::verbs::{broken, renumber};
use crate::record::connections;
use crate::rule::Finding;

/// Returns whether the entry is a packet of the device for which `is_it` is true.
pub(super) fn is_of_dut(entry: &Entry, is_it: &impl Fn(&Packet<'_>) -> bool) -> bool {
    match entry {
        Entry::Frame(frame) if frame.received => {
            Packet::parse(Medium::Ethernet, &frame.bytes).is_ok_and(|packet| is_it(&packet))
        }
        _ => false,
    }
}

/// Returns a change that removes the device's packets for which `is_it` is true, as if it had never sent them.
fn unheard(is_it: impl Fn(&Packet<'_>) -> bool) -> impl FnOnce(&mut Vec<Entry>) {
    move |entries| {
        let before = entries.len();
        entries.retain(|entry| !is_of_dut(entry, &is_it));
        assert!(entries.len() < before, "the record has such a packet");
        renumber(entries);
    }
}

pub(super) fn is_ack(packet: &Packet<'_>) -> bool {
    packet.opcode() == Opcode::RC_ACKNOWLEDGE
        && matches!(
            packet.aeth().map(|aeth| aeth.syndrome().kind()),
            Some(SyndromeKind::Ack(_))
        )
}

pub(super) fn is_nak(packet: &Packet<'_>, code: NakCode) -> bool {
    packet.aeth().is_some_and(|aeth| aeth.syndrome() == Syndrome::nak(code))
}

#[test]
fn request_that_needs_an_answer_gets_one() {
    let found = broken("c09-060-write-responder", unheard(is_ack));
    assert!(found.contains(&"request-answered"), "{found:?}");
    let is_last = |packet: &Packet<'_>| packet.opcode() == Opcode::RC_READ_RESPONSE_LAST;
    let found = broken("c09-060-read-responder", unheard(is_last));
    assert!(found.contains(&"request-answered"), "{found:?}");
    let is_atomic = |packet: &Packet<'_>| packet.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE;
    let found = broken("c09-060-fetch-add-responder", unheard(is_atomic));
    assert!(found.contains(&"request-answered"), "{found:?}");
    // The NAK answers a refused request.
    let found = broken(
        "c09-nak-remote-access",
        unheard(|packet| is_nak(packet, NakCode::REMOTE_ACCESS)),
    );
    assert!(found.contains(&"request-answered"), "{found:?}");
}

/// Replaces each response whose opcode and PSN an earlier response had, or drops it if `becomes` returns `None`.
fn again(entries: &mut Vec<Entry>, mut becomes: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
    let mut seen: Vec<(Opcode, Psn)> = Vec::new();
    entries.retain_mut(|entry| {
        if !is_of_dut(entry, &|packet| packet.opcode().is_response()) {
            return true;
        }
        let Entry::Frame(frame) = entry else { return true };
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes).unwrap();
        let which = (packet.opcode(), packet.bth().psn());
        if !seen.contains(&which) {
            seen.push(which);
            return true;
        }
        let becomes = becomes(&frame.bytes);
        let is_there = becomes.is_some();
        frame.bytes = becomes.unwrap_or_default().into();
        is_there
    });
    renumber(entries);
}

/// Returns a packet with another PSN and syndrome.
fn altered(bytes: &[u8], psn: impl Fn(Psn) -> Psn, syndrome: Syndrome) -> Vec<u8> {
    let offsets = Packet::parse(Medium::Ethernet, bytes).unwrap().offsets();
    let mut bytes = bytes.to_vec();
    edit::<Bth>(&mut bytes, offsets.bth, |bth| bth.with_psn(psn(bth.psn())));
    edit::<Aeth>(&mut bytes, offsets.bth + Bth::SIZE, |aeth| aeth.with_syndrome(syndrome));
    mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
    bytes
}

#[test]
fn executed_duplicate_is_answered_again() {
    assert_eq!(broken("c09-duplicates", |_| ()), [""; 0]);
    let is_missed = |becomes: &dyn Fn(&[u8]) -> Option<Vec<u8>>| {
        broken("c09-duplicates", |entries| again(entries, becomes)).contains(&"duplicate-answered")
    };
    assert!(!is_missed(&|bytes| Some(bytes.to_vec())));
    assert!(is_missed(&|_| None), "no answer");
    let nak = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
    assert!(
        is_missed(&|bytes| Some(altered(bytes, Psn::next, nak))),
        "the NAK of a gap is no answer"
    );
    assert!(
        is_missed(&|bytes| Some(altered(bytes, |psn| psn.minus(2), Syndrome::ACK))),
        "nor is the acknowledgement of what lies before it"
    );
}

#[test]
fn gap_gets_a_sequence_nak() {
    assert_eq!(broken("c09-psn-sequence", |_| ()), [""; 0]);
    let found = broken("c09-psn-sequence@gap-not-naked", |_| ());
    assert!(found.contains(&"gap-answered"), "{found:?}");
}

#[test]
fn request_waits_after_an_rnr_nak() {
    assert_eq!(broken("c09-130-rnr-interval", |_| ()), [""; 0]);
    // Move the RNR NAKs to a later time, which shortens the wait before each retry.
    let late = |entries: &mut Vec<Entry>| {
        for entry in entries {
            let Entry::Frame(frame) = entry else { continue };
            let is_rnr = Packet::parse(Medium::Ethernet, &frame.bytes).is_ok_and(|packet| {
                let kind = packet.aeth().map(|aeth| aeth.syndrome().kind());
                matches!(kind, Some(SyndromeKind::RnrNak(_)))
            });
            if is_rnr {
                frame.at.earliest = frame.at.earliest.after(Duration::from_millis(400));
                frame.at.latest = frame.at.latest.after(Duration::from_millis(400));
            }
        }
    };
    assert_eq!(broken("c09-130-rnr-interval", late), ["rnr-wait"]);
}

#[test]
fn work_posted_in_sqd_waits_for_rts() {
    assert_eq!(broken("c09-send-queue-drain", |_| ()), [""; 0]);
    // Turn the step that ends SQD into another step to SQD, so that the queue pair stays in SQD longer.
    let later = |entries: &mut Vec<Entry>| {
        let is_step = |entry: &Entry, state: pb::QpState| matches!(entry, Entry::VerbsAsked(asked) if matches!(&asked.command, Command::ModifyQp(of) if of.state() == state));
        let drains = entries
            .iter()
            .position(|entry| is_step(entry, pb::QpState::Sqd))
            .unwrap();
        let goes_on = entries[drains..]
            .iter()
            .position(|entry| is_step(entry, pb::QpState::Rts))
            .unwrap()
            + drains;
        if let Entry::VerbsAsked(asked) = &mut entries[goes_on]
            && let Command::ModifyQp(of) = &mut asked.command
        {
            of.set_state(pb::QpState::Sqd);
        }
    };
    let found = broken("c09-send-queue-drain", later);
    assert!(found.contains(&"drained"), "{found:?}");
}

#[test]
fn send_longer_than_receive_is_invalid() {
    let shorten = |by: u32| {
        move |entries: &mut Vec<Entry>| {
            for entry in entries {
                if let Entry::VerbsAsked(asked) = entry
                    && let Command::PostReceive(post) = &mut asked.command
                    && let Some(local) = &mut post.local
                {
                    local.length -= local.length.min(by);
                }
            }
        }
    };
    assert_eq!(broken("c09-060-send-responder", shorten(0)), [""; 0]);
    let found = broken("c09-060-send-responder", shorten(4096));
    assert!(found.contains(&"receive-fits"), "{found:?}");
}

#[test]
fn send_one_byte_too_long_is_invalid() {
    let shorten = |entries: &mut Vec<Entry>| {
        for entry in entries {
            if let Entry::VerbsAsked(asked) = entry
                && let Command::PostReceive(post) = &mut asked.command
                && let Some(local) = &mut post.local
                && (1..4096).contains(&local.length)
            {
                local.length -= 1;
            }
        }
    };
    assert!(broken("c09-receives", shorten).contains(&"receive-fits"));
}

#[test]
fn send_into_closed_memory_is_an_error() {
    let close = |entries: &mut Vec<Entry>| {
        for entry in entries {
            if let Entry::VerbsAsked(asked) = entry
                && let Command::RegisterMemory(of) = &mut asked.command
                && let Some(access) = &mut of.access
            {
                access.local_write = false;
            }
        }
    };
    assert!(broken("c09-060-send-responder", close).contains(&"receive-fault"));
    assert_eq!(broken("c09-nak-operational", |_| ()), [""; 0]);
}

#[test]
fn event_names_the_error_of_the_nak() {
    let other = |entries: &mut Vec<Entry>| {
        for entry in entries {
            if let Entry::VerbsTold(told) = entry
                && let Event::AsyncEvent(event) = &mut told.event
            {
                event.name = event.name.replace("ACCESS_ERR", "REQ_ERR");
            }
        }
    };
    assert_eq!(broken("c09-events", |_| ()), [""; 0]);
    assert_eq!(broken("c09-events", other), ["event-as-nak"]);
}

#[test]
fn comm_est_may_be_late_but_comes_once() {
    let as_host = |entries: &mut Vec<Entry>| {
        for entry in entries {
            if let Entry::Begin(begin) = entry {
                begin.simulated = false;
            }
        }
    };
    // Move the first event right before the second, which ends the queue pair.
    let late = |entries: &mut Vec<Entry>| {
        let is_event =
            |entry: &Entry| matches!(entry, Entry::VerbsTold(told) if matches!(told.event, Event::AsyncEvent(_)));
        let events: Vec<usize> = (0..entries.len()).filter(|at| is_event(&entries[*at])).collect();
        let first = entries.remove(events[0]);
        entries.insert(events[1] - 1, first);
    };
    assert_eq!(broken("c09-events", late), [""; 0]);
    let late_on_host = |entries: &mut Vec<Entry>| {
        late(entries);
        as_host(entries);
    };
    assert_eq!(broken("c09-events", late_on_host), [""; 0]);
    assert_eq!(broken("c09-events@comm-est-always", as_host), ["event-reason"]);
    assert_eq!(broken("c09-events@comm-est-always", |_| ()), ["event-reason"]);
}

#[test]
fn rnr_nak_needs_a_missing_receive() {
    assert_eq!(broken("c09-rnr-nak", |_| ()), [""; 0]);
    // Turn the SENDs into WRITEs, which take no receive, and remove the receives.
    let as_writes = |entries: &mut Vec<Entry>| {
        for entry in entries {
            if let Entry::VerbsAsked(asked) = entry
                && let Command::PostReceive(post) = &mut asked.command
            {
                post.qp ^= 0x100;
            }
            let Entry::Frame(frame) = entry else { continue };
            let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
                continue;
            };
            if !frame.received && packet.opcode() == Opcode::RC_SEND_ONLY {
                let at = packet.offsets().bth;
                let mut bytes = frame.bytes.to_vec();
                edit::<Bth>(&mut bytes, at, |bth| bth.with_opcode(Opcode::RC_WRITE_MIDDLE));
                mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
                frame.bytes = bytes.into();
            }
        }
    };
    let found = broken("c09-rnr-nak", as_writes);
    assert!(found.contains(&"rnr-reason"), "a WRITE: {found:?}");
    // Turn the ACKs into RNR NAKs, although all receives are posted.
    let refused = |entries: &mut Vec<Entry>| {
        for entry in entries.iter_mut().filter(|entry| is_of_dut(entry, &is_ack)) {
            if let Entry::Frame(frame) = entry {
                frame.bytes = altered(&frame.bytes, |psn| psn, Syndrome::rnr_nak(RnrTimer(1))).into();
            }
        }
    };
    let found = broken("c09-060-send-responder", refused);
    assert!(found.contains(&"rnr-reason"), "with a receive: {found:?}");
}

#[test]
fn data_response_precedes_later_responses() {
    assert_eq!(broken("c09-027-send-after-reads", |_| ()), [""; 0]);
    // Move the last READ response after the ACK of the SEND.
    let behind = |entries: &mut Vec<Entry>| {
        let is_ack_of = |entry: &Entry| is_of_dut(entry, &is_ack);
        let is_last = |entry: &Entry| is_of_dut(entry, &|packet| packet.opcode() == Opcode::RC_READ_RESPONSE_LAST);
        let ack = entries.iter().rposition(is_ack_of).unwrap();
        let last = entries[..ack].iter().rposition(is_last).unwrap();
        entries.swap(last, ack);
        renumber(entries);
    };
    let found = broken("c09-027-send-after-reads", behind);
    assert!(found.contains(&"never-back"), "{found:?}");
}

#[test]
fn acknowledged_message_completes_a_receive() {
    let untold = |entries: &mut Vec<Entry>| {
        let is_it =
            |entry: &Entry| matches!(entry, Entry::VerbsTold(told) if matches!(told.event, Event::Completion(_)));
        let at = entries.iter().rposition(is_it).unwrap();
        entries.remove(at);
    };
    let found = broken("c09-060-send-responder", untold);
    assert!(found.contains(&"receive-completes"), "{found:?}");
}

/// Returns the findings of a golden record after some responses of the device got another syndrome.
fn with_syndrome(record: &str, is_it: impl Fn(&Packet<'_>) -> bool, syndrome: Syndrome) -> Vec<Finding> {
    let mut entries = golden::entries(record);
    for entry in entries.iter_mut().filter(|entry| is_of_dut(entry, &is_it)) {
        if let Entry::Frame(frame) = entry {
            frame.bytes = altered(&frame.bytes, |psn| psn, syndrome).into();
        }
    }
    let trace = Trace::new(entries).unwrap();
    connections(&trace)
        .into_iter()
        .flat_map(|connection| connection.findings)
        .collect()
}

#[test]
fn deregistered_memory_allows_nothing() {
    let is_refused = |packet: &Packet<'_>| is_nak(packet, NakCode::REMOTE_ACCESS);
    let found = with_syndrome("c09-nak-remote-access", is_refused, Syndrome::ACK);
    let is_it =
        |finding: &&Finding| finding.rule.name() == "remote-access" && finding.expected.contains("deregistered");
    assert!(found.iter().any(|finding| is_it(&finding)), "{found:?}");
}

#[test]
fn sequence_nak_of_newest_request_is_wrong() {
    let nak = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
    let found = with_syndrome("c09-060-write-responder", is_ack, nak);
    let of_rule = found.iter().find(|finding| finding.rule.name() == "sequence-nak");
    let excuse = of_rule.and_then(|finding| finding.unless);
    assert!(
        excuse.is_some_and(|excuse| excuse.is_excluded_in_record(false)),
        "{of_rule:?}"
    );
}

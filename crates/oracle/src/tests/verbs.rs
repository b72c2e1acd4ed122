//! Each rule of the host's events, on golden records with one change each.

use core::cell::Cell;
use core::time::Duration;

use verbatim_archives::golden;
use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{Entry, Passed, Span, TimeSource, Trace, WcStatus};
use verbatim_wire::packet::{Bth, Medium, Opcode, Packet};
use verbatim_wire::verbs::WcOpcode;
use verbatim_wire::{edit, mend_icrc};

use crate::verbs;

/// Returns the rules that an altered record breaks.
pub(crate) fn broken(record: &str, alter: impl FnOnce(&mut Vec<Entry>)) -> Vec<&'static str> {
    let mut entries = golden::entries(record);
    alter(&mut entries);
    let trace = Trace::new(entries).unwrap();
    let said = verbs::rule(&trace).said;
    let mut names: Vec<&str> = said
        .iter()
        .filter(|said| said.result == Passed::Fail)
        .map(|said| said.rule.name())
        .collect();
    names.dedup();
    names
}

fn completions(entries: &mut [Entry]) -> Vec<&mut pb::Completion> {
    let told = entries.iter_mut().filter_map(|entry| match entry {
        Entry::VerbsTold(told) => Some(&mut told.event),
        _ => None,
    });
    told.filter_map(|event| match event {
        Event::Completion(completion) => Some(completion),
        Event::AsyncEvent(_) => None,
    })
    .collect()
}

fn posts(entries: &mut [Entry]) -> Vec<&mut pb::PostSend> {
    let asked = entries.iter_mut().filter_map(|entry| match entry {
        Entry::VerbsAsked(asked) => Some(&mut asked.command),
        _ => None,
    });
    asked
        .filter_map(|command| match command {
            Command::PostSend(post) => Some(post),
            _ => None,
        })
        .collect()
}

/// Returns the index of the nth entry for which `is_it` is true.
fn nth(entries: &[Entry], number: usize, is_it: impl Fn(&Entry) -> bool) -> usize {
    entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| is_it(entry))
        .nth(number)
        .unwrap()
        .0
}

fn is_completion(entry: &Entry) -> bool {
    matches!(entry, Entry::VerbsTold(told) if matches!(told.event, Event::Completion(_)))
}

/// Removes a frame of the tester, as if it had never been sent.
fn unsend(entries: &mut Vec<Entry>, number: usize) {
    let at = nth(
        entries,
        number,
        |entry| matches!(entry, Entry::Frame(frame) if !frame.received && frame.label != 0),
    );
    entries.remove(at);
    renumber(entries);
}

pub(crate) fn renumber(entries: &mut [Entry]) {
    let mut number = 0;
    for entry in entries {
        if let Entry::Frame(frame) = entry {
            number += 1;
            frame.number = number;
        }
    }
}

#[test]
fn conforming_record_breaks_no_rule() {
    assert_eq!(broken("c09-requests", |_| ()), Vec::<&str>::new());
}

#[test]
fn completion_needs_its_answer() {
    let names = broken("c09-060-send", |entries| unsend(entries, 0));
    assert!(names.contains(&"completed-by"), "{names:?}");
    let names = broken("c09-060-fetch-add", |entries| unsend(entries, 0));
    assert!(names.contains(&"completed-by"), "{names:?}");
    let names = broken("c09-060-read", |entries| unsend(entries, 1));
    assert!(
        names.contains(&"completed-by") && names.contains(&"responses-missing"),
        "{names:?}"
    );
}

#[test]
fn answered_request_completes() {
    let names = broken("c09-060-send", |entries| {
        let at = nth(entries, 0, is_completion);
        entries.remove(at);
    });
    assert!(names.contains(&"answered-completes"), "{names:?}");
}

#[test]
fn late_error_states_deadline_and_delay() {
    let mut entries = golden::entries("c09-143-retry-count");
    let at = nth(&entries, 0, is_completion);
    let Entry::VerbsTold(told) = &mut entries[at] else {
        panic!("no completion")
    };
    let later = |of: Span| {
        Span::between(
            of.earliest.after(Duration::from_secs(3)),
            of.latest.after(Duration::from_secs(3)),
        )
    };
    told.at = later(told.at).with_source(TimeSource::OwnClock);
    let (on_time, place) = (told.clone(), at);
    told.host_at = later(told.host_at);
    let mut came_late = entries.clone();
    came_late[place] = Entry::VerbsTold(on_time);
    let came_late = Trace::new(came_late).unwrap();
    let said = verbs::rule(&came_late).said;
    assert!(
        said.iter().all(|said| said.rule.name() != "retry-fails"),
        "the host saw it in time"
    );
    let trace = Trace::new(entries).unwrap();
    let said = verbs::rule(&trace).said;
    let late = said.iter().find(|said| said.rule.name() == "retry-fails").unwrap();
    assert_eq!(
        late.expected,
        "one completion, with IBV_WC_RETRY_EXC_ERR, within 2.001 s of its first packet"
    );
    let after = late.seen.strip_prefix("wr_id 1 with IBV_WC_RETRY_EXC_ERR, 3.");
    assert!(after.is_some_and(|rest| rest.ends_with(" s after it")), "{}", late.seen);
}

#[test]
fn destroy_explains_a_flush() {
    let flushed = |behind: bool| {
        broken("c09-credits", |entries| {
            let at = nth(entries, 0, is_completion);
            let mut flush = entries[at].clone();
            if let Entry::VerbsTold(told) = &mut flush
                && let Event::Completion(completion) = &mut told.event
            {
                completion.status = WcStatus::WR_FLUSH_ERR.0;
            }
            let is_it = |entry: &Entry| matches!(entry, Entry::VerbsAsked(asked) if matches!(asked.command, Command::DestroyQp(_)));
            let destroyed = nth(entries, 0, is_it);
            entries.insert(destroyed + usize::from(behind), flush);
        })
    };
    assert!(flushed(false).contains(&"flush-status"), "{:?}", flushed(false));
    assert!(!flushed(true).contains(&"flush-status"), "{:?}", flushed(true));
}

#[test]
fn queue_drains_when_requests_are_answered() {
    assert_eq!(broken("c09-send-queue-drain", |_| ()), [""; 0]);
    // Move the event for the drained send queue right after the step to SQD.
    let early = broken("c09-send-queue-drain", |entries| {
        let is_event =
            |entry: &Entry| matches!(entry, Entry::VerbsTold(told) if matches!(told.event, Event::AsyncEvent(_)));
        let is_sqd = |entry: &Entry| {
            matches!(entry, Entry::VerbsAsked(asked)
                if matches!(&asked.command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Sqd))
        };
        let event = entries.iter().rposition(is_event).expect("an event");
        let event = entries.remove(event);
        let sqd = entries.iter().rposition(is_sqd).expect("a step to SQD");
        entries.insert(sqd + 1, event);
    });
    assert_eq!(early, ["drained-when-done"]);
}

#[test]
fn queue_continues_after_acknowledgement() {
    assert_eq!(broken("c09-credits", |_| ()), [""; 0]);
    let stopped = broken("c09-credits@limited-message-stops", |_| ());
    assert_eq!(stopped, ["goes-on", "outstanding-ends"]);
}

#[test]
fn requests_complete_once_and_in_order() {
    let names = broken("c09-requests", |entries| {
        let at = nth(entries, 3, is_completion);
        entries.insert(at, entries[at].clone());
    });
    assert_eq!(names, ["completion-order"]);
    let names = broken("c09-nak-fatal", |entries| {
        let mut done = completions(entries);
        let (third, fourth) = (done[2].wr_id, done[3].wr_id);
        (done[2].wr_id, done[3].wr_id) = (fourth, third);
    });
    assert_eq!(names, ["completion-order", "flush-order"]);
}

#[test]
fn completion_names_its_operation() {
    let names = broken("c09-requests", |entries| completions(entries)[0].opcode = 1);
    assert_eq!(names, ["completion-fields"]);
    let names = broken("c09-060-read", |entries| completions(entries)[0].byte_len += 1);
    assert_eq!(names, ["completion-fields"]);
}

#[test]
fn read_needs_responses_with_right_opcodes() {
    let names = broken("c09-060-read", |entries| {
        for entry in entries {
            if let Entry::Frame(frame) = entry
                && let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes)
                && let opcode @ (Opcode::RC_READ_RESPONSE_ONLY | Opcode::RC_READ_RESPONSE_LAST) = packet.opcode()
            {
                let other = match opcode {
                    Opcode::RC_READ_RESPONSE_ONLY => Opcode::RC_READ_RESPONSE_LAST,
                    _ => Opcode::RC_READ_RESPONSE_ONLY,
                };
                let at = packet.offsets().bth;
                let mut bytes = frame.bytes.to_vec();
                edit::<Bth>(&mut bytes, at, |bth| bth.with_opcode(other));
                mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
                frame.bytes = bytes.into();
            }
        }
    });
    assert_eq!(names, ["responses-odd"]);
}

#[test]
fn error_needs_a_reason() {
    let status = |record, number: usize, status: WcStatus| {
        broken(record, move |entries| completions(entries)[number].status = status.0)
    };
    assert!(status("c09-060-send", 0, WcStatus::WR_FLUSH_ERR).contains(&"flush-status"));
    assert!(status("c09-060-send", 0, WcStatus::RETRY_EXC_ERR).contains(&"retry-error"));
    assert!(status("c09-060-send", 0, WcStatus::RNR_RETRY_EXC_ERR).contains(&"rnr-error"));
    assert!(status("c09-060-send", 0, WcStatus::REM_OP_ERR).contains(&"refusal-status"));
    assert!(status("c09-nak-fatal", 1, WcStatus::REM_OP_ERR).contains(&"refusal-fails"));
    for odd in [
        WcStatus::LOC_LEN_ERR,
        WcStatus::BAD_RESP_ERR,
        WcStatus::LOC_PROT_ERR,
        WcStatus::GENERAL_ERR,
    ] {
        assert!(status("c09-060-read", 0, odd).contains(&"local-error"), "{odd}");
    }
    let names = status("c09-nak-fatal", 3, WcStatus::GENERAL_ERR);
    assert!(
        names.contains(&"local-error") && names.contains(&"flushed"),
        "{names:?}"
    );
}

#[test]
fn packets_match_the_posted_requests() {
    let names = broken("c09-requests", |entries| posts(entries)[7].imm ^= 1);
    assert_eq!(names, ["posted"]);
    let names = broken("c09-requests", |entries| {
        for entry in entries {
            if let Entry::VerbsAsked(asked) = entry
                && let Command::WriteMemory(write) = &mut asked.command
            {
                let mut bytes = write.bytes.to_vec();
                bytes[0] ^= 1;
                write.bytes = bytes;
            }
        }
    });
    assert!(
        names.contains(&"posted") && names.contains(&"response-data"),
        "{names:?}"
    );
}

#[test]
fn in_flight_limit_and_fence_hold() {
    let names = broken("c09-requests-in-flight", |entries| {
        for entry in entries {
            if let Entry::VerbsAsked(asked) = entry
                && let Command::ModifyQp(modify) = &mut asked.command
                && let Some(attributes) = &mut modify.attributes
                && attributes.max_rd_atomic == Some(2)
            {
                attributes.max_rd_atomic = Some(1);
            }
        }
    });
    assert_eq!(names, ["in-flight"]);
    let names = broken("c09-nak-implied", |entries| posts(entries)[1].fence = true);
    assert_eq!(names, ["fence"]);
}

#[test]
fn memory_holds_response_data() {
    let names = broken("c09-060-read", |entries| {
        for entry in entries {
            if let Entry::VerbsAnswered(answered) = entry
                && let Reply::Bytes(found) = &mut answered.reply
            {
                let mut bytes = found.bytes.to_vec();
                bytes[33 * 1024] ^= 1;
                found.bytes = bytes;
            }
        }
    });
    assert_eq!(names, ["response-data"]);
}

#[test]
fn failed_request_flushes_the_rest() {
    let names = broken("c09-nak-fatal", |entries| {
        for entry in &mut *entries {
            if let Entry::VerbsAnswered(answered) = entry
                && let Reply::Status(status) = &mut answered.reply
            {
                status.state = pb::QpState::Rts.into();
            }
        }
        let at = nth(entries, 3, is_completion);
        entries.remove(at);
    });
    assert_eq!(names, ["flushed", "error-state"]);
}

#[test]
fn retries_have_a_limit_and_a_cause() {
    let set = |record, name: fn(&mut pb::QpAttributes) -> &mut Option<u32>, value: u32| {
        broken(record, move |entries| {
            for entry in entries {
                if let Entry::VerbsAsked(asked) = entry
                    && let Command::ModifyQp(modify) = &mut asked.command
                    && let Some(attributes) = &mut modify.attributes
                    && name(attributes).is_some()
                {
                    *name(attributes) = Some(value);
                }
            }
        })
    };
    let names = set("c09-142-ack-timeout", |of| &mut of.timeout, 0);
    assert!(
        names.contains(&"timeout-off") && names.contains(&"unasked-retry"),
        "{names:?}"
    );
    let names = set("c09-142-ack-timeout", |of| &mut of.retry_cnt, 1);
    assert!(names.contains(&"retry-count"), "{names:?}");
    let names = set("c09-142-ack-timeout", |of| &mut of.retry_cnt, 5);
    assert!(names.contains(&"retry-error"), "{names:?}");
    let names = set("c09-142-ack-timeout", |of| &mut of.timeout, 10);
    assert!(names.contains(&"ack-timeout"), "{names:?}");
    let names = set("c09-rnr-retry", |of| &mut of.rnr_retry, 0);
    assert!(names.contains(&"rnr-count"), "{names:?}");
}

/// Flips a bit of the bytes that the host read from memory.
fn flip(entries: &mut [Entry], at: usize) {
    for entry in entries {
        if let Entry::VerbsAnswered(answered) = entry
            && let Reply::Bytes(found) = &mut answered.reply
        {
            found.bytes[at] ^= 1;
        }
    }
}

#[test]
fn receives_complete_in_order_with_fields() {
    assert_eq!(broken("c09-receives", |_| ()), Vec::<&str>::new());
    let of_write = |entries: &mut Vec<Entry>| completions(entries)[0].opcode ^= 1;
    assert_eq!(broken("c09-receives", of_write), ["receive-fields"]);
    let longer = |entries: &mut Vec<Entry>| completions(entries)[4].byte_len += 1;
    assert_eq!(broken("c09-receives", longer), ["receive-fields"]);
    let other = |entries: &mut Vec<Entry>| completions(entries)[2].imm = Some(0x0403_0201);
    assert_eq!(broken("c09-receives", other), ["receive-fields"]);
    let swapped = |entries: &mut Vec<Entry>| completions(entries)[1].wr_id = 3;
    assert_eq!(broken("c09-receives", swapped), ["receive-order"]);
    let twice = |entries: &mut Vec<Entry>| {
        let at = nth(entries, 8, is_completion);
        entries.insert(at, entries[at].clone());
    };
    let found = broken("c09-receives", twice);
    assert_eq!(found, ["receive-order", "receive-fields", "receive-last"]);
}

#[test]
fn unused_memory_stays_unchanged() {
    // Flip three bytes: one right after the receive buffers, one just below the target of a WRITE, and the last one of
    // the memory.
    for at in [9 * 4096, 40 * 1024 - 1, 64 * 1024 - 1] {
        assert_eq!(
            broken("c09-receives", |entries| flip(entries, at)),
            ["memory-content"],
            "{at}"
        );
    }
    let beside = broken("c09-datagrams", |entries| flip(entries, 8191));
    assert_eq!(beside, ["memory-content"], "beside the receives of another queue pair");
}

/// Changes the facts of the port that the host reported.
fn open_otherwise(entries: &mut [Entry], alter: impl Fn(&mut pb::Opened)) {
    for entry in entries {
        if let Entry::VerbsAnswered(answered) = entry
            && let Reply::Opened(facts) = &mut answered.reply
        {
            alter(facts);
        }
    }
}

#[test]
fn unknown_facts_break_no_datagram_rule() {
    let mtu = |all: &mut Vec<Entry>| open_otherwise(all, |facts| facts.active_mtu = 0);
    assert_eq!(broken("c09-datagrams", mtu), Vec::<&str>::new(), "unknown MTU");
    let gids = |all: &mut Vec<Entry>| open_otherwise(all, |facts| facts.gids.clear());
    assert_eq!(broken("c09-datagrams", gids), Vec::<&str>::new(), "unknown GIDs");
}

#[test]
fn datagram_completion_needs_a_request() {
    let one_more = |all: &mut Vec<Entry>| {
        let at = nth(all, 0, is_completion);
        let mut other = all[at].clone();
        if let Entry::VerbsTold(told) = &mut other
            && let Event::Completion(completion) = &mut told.event
        {
            completion.wr_id = 999;
        }
        all.insert(at, other);
        renumber(all);
    };
    assert_eq!(broken("c09-datagrams", one_more), ["datagram-done"]);
}

fn on_hardware(entries: &mut [Entry]) {
    for entry in entries {
        if let Entry::Begin(begin) = entry {
            begin.simulated = false;
        }
    }
}

/// Returns the completions of receives that hold datagrams.
fn received(entries: &mut [Entry]) -> Vec<&mut pb::Completion> {
    let all = completions(entries).into_iter();
    all.filter(|of| of.opcode == WcOpcode::RECV.0 && of.status == WcStatus::SUCCESS.0)
        .collect()
}

#[test]
fn overtaken_datagram_breaks_no_rule_on_hardware() {
    let exchange = |all: &mut Vec<Entry>| {
        // Send the second datagram directly after the first one, before the completion of the first.
        let is_sent = |entry: &Entry| matches!(entry, Entry::Frame(frame) if !frame.received && frame.label != 0);
        let [first, second] = [nth(all, 0, is_sent), nth(all, 1, is_sent)];
        let moved = all.remove(second);
        all.insert(first + 1, moved);
        renumber(all);
        let mut of = received(all);
        let [first, second] = [(of[0].byte_len, of[0].imm), (of[1].byte_len, of[1].imm)];
        assert_ne!(first, second);
        (of[0].byte_len, of[0].imm) = second;
        (of[1].byte_len, of[1].imm) = first;
    };
    let names = broken("c09-datagrams", exchange);
    assert!(names.contains(&"datagram-received"), "{names:?}");
    let late = |all: &mut Vec<Entry>| {
        exchange(all);
        on_hardware(all);
    };
    let names = broken("c09-datagrams", late);
    assert!(!names.contains(&"datagram-received"), "{names:?}");
}

#[test]
fn short_datagrams_must_arrive_on_hardware() {
    let is_receive = |entry: &Entry| match entry {
        Entry::VerbsTold(told) => matches!(&told.event, Event::Completion(of) if of.opcode == WcOpcode::RECV.0),
        _ => false,
    };
    let names = broken("c09-datagrams", |all| {
        all.retain(|entry| !is_receive(entry));
        on_hardware(all);
    });
    assert_eq!(names, ["datagram-received"]);
}

#[test]
fn memory_and_responses_match_requests() {
    // A WRITE with Immediate takes the receive at offset 0 but leaves its buffer unchanged. The rule for this buffer is
    // therefore `memory-content`, not `send-content`.
    for (at, rule) in [(0, "memory-content"), (3 * 4096, "send-content")] {
        let names = broken("c09-receives", |entries| flip(entries, at));
        assert_eq!(names, [rule], "the receive at {at} holds something else");
    }
    for (record, rules) in [
        ("c09-060-write-responder", &["write-content"][..]),
        ("c09-060-fetch-add-responder", &["atomic-content"]),
        ("c09-duplicates", &["send-content", "atomic-content"]),
    ] {
        assert_eq!(broken(record, |_| ()), Vec::<&str>::new(), "{record}");
        // Flip the first byte that a WRITE or an atomic changed.
        let names = broken(record, |entries| flip(entries, 64));
        assert_eq!(names, rules, "{record}");
    }
    let of_read = |seen: &Packet<'_>| seen.opcode() == Opcode::RC_READ_RESPONSE_LAST;
    assert_eq!(
        broken("c09-060-read-responder", |all| answers_otherwise(all, of_read)),
        ["read-content"]
    );
    let of_atomic = |seen: &Packet<'_>| seen.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE;
    let names = broken("c09-060-compare-swap-responder", |all| {
        answers_otherwise(all, of_atomic)
    });
    assert!(names.contains(&"atomic-original"), "{names:?}");
}

#[test]
fn wrong_original_accuses_no_later_one() {
    let mut entries = golden::entries("c09-060-fetch-add-responder");
    let seen = Cell::new(0);
    // Alter an atomic that is neither the first nor the last at its address.
    answers_otherwise(&mut entries, |packet| {
        seen.set(seen.get() + usize::from(packet.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE));
        packet.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE && seen.get() == 20
    });
    let trace = Trace::new(entries).unwrap();
    let said = verbs::rule(&trace).said;
    let names: Vec<&str> = said.iter().map(|said| said.rule.name()).collect();
    assert_eq!(names, ["atomic-original"]);
}

#[test]
fn unexpected_nak_leaves_memory_right() {
    let names = broken("c09-psn-sequence", |entries| {
        let mut last = None;
        for entry in entries {
            let Entry::Frame(frame) = entry else { continue };
            let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
                continue;
            };
            if !frame.received {
                last = Some(packet.bth().psn());
            } else if let (Some(last), Some(0x60)) = (last, packet.aeth().map(|aeth| aeth.syndrome().0)) {
                // The NAK names the PSN that the device still expects. Replace it with the PSN of the packet that came
                // too early.
                let at = packet.offsets().bth;
                let mut bytes = frame.bytes.to_vec();
                edit::<Bth>(&mut bytes, at, |bth| bth.with_psn(last));
                mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
                frame.bytes = bytes.into();
            }
        }
    });
    assert!(!names.contains(&"memory-content"), "{names:?}");
}

#[test]
fn refused_request_leaves_memory_unchanged() {
    let record = "c09-nak-invalid-request";
    assert_eq!(broken(record, |_| ()), Vec::<&str>::new());
    assert_eq!(broken(record, |entries| executes_refused(entries)), ["refused-content"]);
}

/// Alters the record as if the device had executed the first WRITE whose DMALen is wrong: copies the WRITE's payload
/// into the bytes that the host later read from memory.
fn executes_refused(entries: &mut [Entry]) {
    let mut regions = Vec::new();
    let mut written = None;
    for entry in entries {
        match entry {
            Entry::VerbsAnswered(answered) => match (&mut answered.reply, &written) {
                (Reply::Memory(made), _) => regions.push(made.address),
                (Reply::Bytes(found), Some((va, payload))) => {
                    let base = regions.last().unwrap();
                    let at = usize::try_from(va - base).unwrap();
                    let payload: &Vec<u8> = payload;
                    found.bytes[at..at + payload.len()].copy_from_slice(payload);
                    return;
                }
                _ => {}
            },
            Entry::Frame(frame) if !frame.received && written.is_none() => {
                let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
                    continue;
                };
                if let (Opcode::RC_WRITE_ONLY, Some(reth)) = (packet.opcode(), packet.reth())
                    && reth.dma_len() as usize != packet.payload().len()
                    && !packet.payload().is_empty()
                {
                    written = Some((reth.va().0, packet.payload().to_vec()));
                }
            }
            _ => {}
        }
    }
    panic!("no memory was read after such a WRITE");
}

/// Alters the last byte of the device's first packet for which `is_it` is true.
fn answers_otherwise(entries: &mut [Entry], is_it: impl Fn(&Packet<'_>) -> bool) {
    for entry in entries {
        let Entry::Frame(frame) = entry else { continue };
        let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
            continue;
        };
        let last = packet.offsets().padding - 1;
        if frame.received && is_it(&packet) {
            let mut bytes = frame.bytes.to_vec();
            bytes[last] ^= 1;
            mend_icrc(Medium::Ethernet, &mut bytes).unwrap();
            frame.bytes = bytes.into();
            return;
        }
    }
}

#[test]
fn frame_has_the_addresses_of_both_ends() {
    let change = |change: fn(&mut Vec<u8>)| {
        broken("c09-receives", move |entries| {
            let is_of_dut = |entry: &Entry| matches!(entry, Entry::Frame(frame) if frame.received);
            let at = nth(entries, 3, is_of_dut);
            if let Entry::Frame(frame) = &mut entries[at] {
                let mut bytes = frame.bytes.to_vec();
                change(&mut bytes);
                frame.bytes = bytes.into();
            }
        })
    };
    assert_eq!(change(|bytes| bytes.extend([0; 4])), ["frame"]);
    assert_eq!(
        change(|bytes| bytes[5] ^= 1),
        ["frame"],
        "another destination on Ethernet"
    );
    // The ICRC covers the IP addresses. Recompute it, so that only the address is wrong.
    let elsewhere = change(|bytes| {
        bytes[29] ^= 0x80;
        mend_icrc(Medium::Ethernet, bytes).unwrap();
    });
    assert_eq!(elsewhere, ["frame"], "another source address");
    let migrates = change(|bytes| {
        bytes[43] ^= 0x40;
        mend_icrc(Medium::Ethernet, bytes).unwrap();
    });
    assert_eq!(migrates, ["migration-state"]);
}

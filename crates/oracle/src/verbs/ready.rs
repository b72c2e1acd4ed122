//! Rules for messages that take a receive. The device accepts such a message only if a receive is posted. An RNR
//! NAK carries the interval that the host has set, or a longer one.
//!
//! Source: architecture 9.7.5.2.8 (RNR NAK), 9.4.1 (SEND), 9.4.3 (WRITE with Immediate). The rules depend only on
//! earlier posts and packets, so that they hold on every link. The exception is `rnr-reason`: on hardware a resource
//! may be missing for a moment.

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, TRIES, VerbsDone, duration_words};
use verbatim_wire::packet::{Opcode, Psn, RnrTimer, SyndromeKind};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::{Asked, EVENT_WAIT, QpTrace, qp_traces};
use super::received::{commands, posted};
use super::requester_deadlines::after;
use super::target::takes_receive;
use crate::parsed::{Parsed, RequestKind};
use crate::rc::HALF;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;
use crate::words::counted;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::ReceiveThere, receive_there),
    (Rule::RnrTimer, rnr_timer),
    (Rule::ReceiveCompletes, receive_completes),
    (Rule::RnrReason, rnr_reason),
];

/// Returns the PSNs whose packets take a receive, counted from the first PSN that the device expects. Also returns
/// a limit: from that PSN on, it is unknown which packets take a receive. The limit is the first PSN with packets
/// that disagree on this, or with a packet that takes a receive although the PSN belongs to a READ.
pub(super) fn takers(qp: &QpTrace<'_>, asked: &[Asked<'_>]) -> (BTreeSet<u32>, u32) {
    let mut takes: BTreeMap<u32, bool> = BTreeMap::new();
    let (mut until, mut of_reads) = (HALF, Vec::new());
    for (offset, parsed, _) in asked {
        let (offset, is_taker) = (*offset, takes_receive(parsed));
        if *takes.entry(offset).or_insert(is_taker) != is_taker {
            until = until.min(offset);
        }
        if RequestKind::of(parsed.opcode) == RequestKind::Read {
            of_reads.push(offset..offset.saturating_add(qp.psns(parsed)));
        }
    }
    let takers: BTreeSet<u32> = takes
        .into_iter()
        .filter(|(_, takes)| *takes)
        .map(|(at, _)| at)
        .collect();
    let within = of_reads.into_iter().filter_map(|of_read| takers.range(of_read).next());
    let until = within.fold(until, |until, at| until.min(*at));
    (takers, until)
}

fn receive_there<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(commands), Some(first)) = (commands(qp), qp.first()) else {
        return;
    };
    let posted = posted(qp, &commands);
    let (takers, until) = takers(qp, &qp.asked().collect::<Vec<_>>());
    for (parsed, frame) in qp.responses() {
        let offset = parsed.psn.since(first);
        let is_done = match ResponseKind::of(&parsed) {
            ResponseKind::Ack => 0..offset.saturating_add(1),
            // A NAK acknowledges all requests before it.
            ResponseKind::Read(_)
            | ResponseKind::Atomic
            | ResponseKind::Rnr
            | ResponseKind::Sequence
            | ResponseKind::Fatal => 0..offset,
            _ => continue,
        };
        if offset >= until {
            continue;
        }
        let taken = takers.range(is_done).count();
        if taken == 0 {
            continue;
        }
        let there = posted.partition_point(|(done, _)| done.place < frame.place);
        asking.must(taken <= there, [Evidence::from(frame)], || {
            (
                format!("{} PSN {}", parsed.opcode, parsed.psn),
                format!(
                    "acknowledgement of at most {}, one for each posted receive",
                    counted(there, "message")
                ),
                format!("acknowledgement of {}", counted(taken, "message")),
            )
        });
    }
}

fn rnr_timer<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let handle = qp.dialogue.handle;
    let given = |of: &pb::ModifyQp| {
        let code = of.attributes.as_ref()?.min_rnr_timer?;
        Some(RnrTimer(u8::try_from(code).ok()?))
    };
    let within = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    // Returns the place from which on a step applies. A refused step never applies.
    let answered = |done: &VerbsDone| match &done.answer {
        Some((.., Reply::Refused(_), _)) | None => usize::MAX,
        Some((.., place)) => *place,
    };
    let set: Vec<(usize, usize, RnrTimer)> = within
        .filter_map(|done| match &done.command {
            Command::ModifyQp(of) if of.qp == handle => Some((done.place, answered(done), given(of)?)),
            _ => None,
        })
        .collect();
    for seen in qp.dialogue.of_dut() {
        let timer = match seen.packet.aeth().map(|aeth| aeth.syndrome().kind()) {
            Some(SyndromeKind::RnrNak(timer)) => timer,
            _ => continue,
        };
        // Use the last value that applied when the request came. During a change, either value is legal.
        let of_it = |asked: &Asked<'_>| asked.1.psn == seen.psn() && asked.2.place < seen.place;
        let came = qp.asked().filter(of_it).map(|asked| asked.2.place).min();
        let holds = set
            .iter()
            .rposition(|(_, answered, _)| came.is_some_and(|came| *answered < came));
        let before = set[holds.unwrap_or(0)..]
            .iter()
            .filter(|(place, ..)| *place < seen.place);
        let Some((.., least)) = before.min_by_key(|(.., timer)| timer.duration()) else {
            continue;
        };
        asking.must(
            timer.duration() >= least.duration(),
            [Evidence::from(seen.frame)],
            || {
                (
                    format!("RNR NAK PSN {}", seen.psn()),
                    format!("{least}, or longer"),
                    timer.to_string(),
                )
            },
        );
    }
}

fn rnr_reason<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(commands), Some(first)) = (commands(qp), qp.first()) else {
        return;
    };
    if !qp.is_lossless() {
        return always_put_off(qp, first, asking);
    }
    let posted = posted(qp, &commands);
    let asked: Vec<Asked<'_>> = qp.asked().collect();
    let (takers, until) = takers(qp, &asked);
    for (parsed, frame) in qp
        .responses()
        .filter(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Rnr)
    {
        let offset = parsed.psn.since(first);
        let is_it = |asked: &&Asked<'_>| asked.0 == offset && asked.2.place < frame.place;
        let of_it: Vec<&Asked<'_>> = asked.iter().filter(is_it).collect();
        let Some((_, request, sent)) = of_it.first() else {
            continue;
        };
        let is_taker = of_it.iter().any(|(_, parsed, _)| {
            takes_receive(parsed) || matches!(RequestKind::of(parsed.opcode), RequestKind::Send(_))
        });
        // While the device is busy with earlier READs and atomics, it may put off a further one.
        let returns_data = |parsed: &Parsed<'_>| RequestKind::of(parsed.opcode).returns_data();
        if returns_data(request) && is_answering(qp, &asked, (offset, frame.place)) {
            continue;
        }
        // The device may lack a resource for a moment, and answer the request later.
        let is_served = |(parsed, later): (Parsed<'_>, &FrameSeen)| {
            later.place > frame.place
                && parsed.psn.since(first) == offset
                && ResponseKind::of(&parsed) != ResponseKind::Rnr
        };
        if returns_data(request) && qp.responses().any(is_served) {
            continue;
        }
        // Count only receives that were certainly posted before the first transmission.
        let was_there = |(_, _, _, place): &(_, _, _, usize)| *place < sent.place;
        let there = posted
            .iter()
            .filter(|(done, _)| done.answer.as_ref().is_some_and(was_there));
        let is_there = offset < until && there.count() > takers.range(..offset).count();
        asking.must(is_taker && !is_there, [Evidence::from(frame)], || {
            let why = if is_taker {
                "a receive is posted"
            } else {
                "the request takes no receive"
            };
            let expected = format!("no RNR NAK: {why}");
            (request.opcode.to_string(), expected, parsed.packet.to_string())
        });
    }
}

/// Returns whether, before the place, an earlier READ or atomic was requested but not completely answered.
fn is_answering(qp: &QpTrace<'_>, asked: &[Asked<'_>], (offset, place): (u32, usize)) -> bool {
    let Some(first) = qp.first() else { return false };
    let answered: BTreeSet<u32> = qp
        .responses()
        .filter(|(parsed, frame)| {
            frame.place < place && matches!(ResponseKind::of(parsed), ResponseKind::Read(_) | ResponseKind::Atomic)
        })
        .map(|(parsed, _)| parsed.psn.since(first))
        .collect();
    let mut before = asked.iter().filter(|(at, parsed, frame)| {
        *at < offset && frame.place < place && RequestKind::of(parsed.opcode).returns_data()
    });
    before.any(|(at, parsed, _)| !answered.contains(&(at + qp.psns(parsed) - 1)))
}

/// Reports WRITEs that take no receive and always got an RNR NAK: at least three times on each of at least three
/// connections.
fn always_put_off<'t>(qp: &QpTrace<'t>, first: Psn, asking: &mut Asking<'_, 't>) {
    let put_off = |qp: &QpTrace<'t>, at: u32, label: &str| -> Vec<&'t FrameSeen> {
        let Some(first) = qp.first() else {
            return Vec::new();
        };
        let is_it = |(of, parsed, frame): &Asked<'_>| *of == at && frame.label == label && !takes_receive(parsed);
        let times = qp.asked().filter(is_it).count();
        let naks: Vec<_> = qp
            .responses()
            .filter(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Rnr && parsed.psn.since(first) == at)
            .map(|(_, frame)| frame)
            .collect();
        if times >= TRIES as usize && naks.len() >= times {
            naks
        } else {
            Vec::new()
        }
    };
    let naks = qp
        .responses()
        .filter(|(parsed, _)| ResponseKind::of(parsed) == ResponseKind::Rnr);
    let put_off_here: BTreeSet<u32> = naks.map(|(parsed, _)| parsed.psn.since(first)).collect();
    let mut asked_here: Vec<(u32, &str, Opcode)> = qp
        .asked()
        .filter(|(at, ..)| put_off_here.contains(at))
        .filter(|(_, parsed, _)| {
            matches!(RequestKind::of(parsed.opcode), RequestKind::Write(_)) && !takes_receive(parsed)
        })
        .map(|(at, parsed, frame)| (at, frame.label.as_str(), parsed.opcode))
        .collect();
    asked_here.dedup();
    for (at, label, opcode) in asked_here {
        let naks = put_off(qp, at, label);
        if naks.is_empty() {
            continue;
        }
        let on = qp_traces(qp.trace)
            .iter()
            .filter(|qp| !put_off(qp, at, label).is_empty())
            .count();
        if on < TRIES as usize {
            continue;
        }
        let evidence = naks.iter().map(|frame| Evidence::from(*frame));
        asking.must(false, evidence, || {
            let expected = format!("execution of PSN {}, which takes no receive", first.plus(at));
            let seen = format!("an RNR NAK for each transmission, on {on} connections");
            (opcode.to_string(), expected, seen)
        });
    }
}

fn receive_completes<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(_), Some(first)) = (commands(qp), qp.first()) else {
        return;
    };
    let (takers, until) = takers(qp, &qp.asked().collect::<Vec<_>>());
    for (nth, taker) in takers.range(..until).enumerate() {
        let acknowledged = qp.responses().find(|(parsed, _)| {
            let of = parsed.psn.since(first);
            let end = match ResponseKind::of(parsed) {
                ResponseKind::Ack => of + 1,
                ResponseKind::Read(_) | ResponseKind::Atomic => of,
                _ => 0,
            };
            of < HALF && *taker < end
        });
        let Some((parsed, frame)) = acknowledged else {
            return;
        };
        let since = frame.at.latest;
        let came = qp.received.get(nth).map(|done| done.event.at.earliest);
        asking.owes(qp.owed(since, EVENT_WAIT, came), true, [Evidence::from(frame)], || {
            let of = format!("{} PSN {}", parsed.opcode, parsed.psn);
            let expected = format!(
                "{} within {} of {of}",
                counted(nth + 1, "completed receive"),
                duration_words(EVENT_WAIT)
            );
            (
                String::new(),
                expected,
                format!("{}{}", qp.received.len(), after(since, came, EVENT_WAIT)),
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use verbatim_record::Entry;

    use super::*;
    use crate::tests::verbs::broken;

    fn commands(entries: &mut [Entry]) -> impl Iterator<Item = &mut Command> {
        entries.iter_mut().filter_map(|entry| match entry {
            Entry::VerbsAsked(asked) => Some(&mut asked.command),
            _ => None,
        })
    }

    #[test]
    fn message_needs_a_receive() {
        for record in ["c09-060-send-responder", "c09-060-write-responder", "c09-rnr-nak"] {
            assert_eq!(broken(record, |_| ()), [""; 0], "{record}");
        }
        // Move all receives except the first to another queue pair.
        let first_alone = |entries: &mut Vec<Entry>| {
            let posts = commands(entries).filter_map(|command| match command {
                Command::PostReceive(post) => Some(post),
                _ => None,
            });
            posts.skip(1).for_each(|post| post.qp ^= 0x100);
        };
        for record in ["c09-060-send-responder", "c09-060-write-responder"] {
            assert!(broken(record, first_alone).contains(&"receive-there"), "{record}");
        }
        // A WRITE without Immediate takes no receive.
        assert!(!broken("c09-icrc", first_alone).contains(&"receive-there"));
    }

    #[test]
    fn rnr_nak_has_at_least_the_set_interval() {
        let set = |code: u32| {
            move |entries: &mut Vec<Entry>| {
                for command in commands(entries) {
                    if let Command::ModifyQp(modify) = command
                        && let Some(given) = &mut modify.attributes
                        && let Some(timer) = &mut given.min_rnr_timer
                    {
                        *timer = code;
                    }
                }
            }
        };
        // Code 1 is the shortest interval (10 us), and code 0 is the longest (655.36 ms).
        assert_eq!(broken("c09-rnr-nak", set(1)), [""; 0]);
        assert_eq!(broken("c09-rnr-nak", set(0)), ["rnr-timer"]);
    }
}

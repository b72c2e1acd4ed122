//! Rules of what takes a receive: it is taken when one is there, and an RNR NAK asks for the time that the host has set.
//!
//! Source: architecture 9.7.5.2.8 (RNR NAK), 9.4.1 (SEND), 9.4.3 (WRITE with Immediate). They rest on what had been posted and
//! sent before, so they hold on every link.

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, duration_words};
use verbatim_wire::packet::{NakCode, Psn, RnrTimer, Syndrome, SyndromeKind};

use super::owed::after;
use super::received::{asked, commands, posted};
use super::talk::{SOON, Talk};
use super::target::takes_receive;
use super::{Asking, VerbsRule};
use crate::oracle::heard::{Asks, Heard, Part};
use crate::oracle::rule::Rule;
use crate::oracle::rules::responder::Says;
use crate::oracle::rules::rule;
use crate::transport::rc::ask::HALF;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (
        rule!(
            "receive-there",
            "9.7.5.2.8 RNR NAK",
            "A SEND, or a WRITE with Immediate, is acknowledged only when a receive was posted for it."
        ),
        receive_there,
    ),
    (
        rule!(
            "rnr-timer",
            "9.7.5.2.8 RNR NAK",
            "An RNR NAK asks for the interval of min_rnr_timer, or a longer one."
        ),
        rnr_timer,
    ),
    (
        rule!(
            "receive-fits",
            "9.7.5.2.4 invalid request",
            "A SEND that is longer than its receive gets a NAK that says invalid request."
        ),
        receive_fits,
    ),
    (
        rule!(
            "receive-fault",
            "9.9.3 responder errors",
            "A SEND whose receive is memory that the device may not write gets a NAK that says remote operational error."
        ),
        receive_fault,
    ),
    (
        rule!(
            "receive-completes",
            "9.4.1 SEND and immediate",
            "When a message that takes a receive is acknowledged, a receive completes."
        ),
        receive_completes,
    ),
    (
        rule!(
            "rnr-reason",
            "9.7.5.2.8 RNR NAK",
            "An RNR NAK refuses a message that takes a receive, and for which none is there. On hardware another resource may be \
             lacking for a moment."
        ),
        rnr_reason,
    ),
];

/// A request packet of the peer: its PSN, counted from the first that the device expects, and its frame.
type Asked<'t> = (u32, Heard<'t>, &'t FrameSeen);

/// PSNs, counted from the first that the device expects, whose packet takes a receive; and the first with which packets came
/// that differ in that: from there on it is not known which the device took. A READ has all PSNs of its responses.
fn takers(asked: &[Asked<'_>], mtu: u32) -> (BTreeSet<u32>, u32) {
    let mut takes: BTreeMap<u32, bool> = BTreeMap::new();
    let (mut until, mut of_reads) = (HALF, Vec::new());
    for (offset, heard, _) in asked {
        let (offset, is_taker) = (*offset, takes_receive(heard));
        if *takes.entry(offset).or_insert(is_taker) != is_taker {
            until = until.min(offset);
        }
        if let (Asks::Read, Some(reth)) = (Asks::of(heard.opcode), heard.reth()) {
            let end = offset.saturating_add(reth.dma_len().div_ceil(mtu));
            if offset < end {
                of_reads.push(offset..end);
            }
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

fn receive_there<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(commands), Some(first)) = (commands(talk), talk.dialogue.attributes.rq_psn) else {
        return;
    };
    let posted = posted(talk, &commands);
    let (takers, until) = takers(&asked(talk), talk.mtu);
    for (heard, frame) in talk.responses() {
        let offset = heard.psn.since(Psn::new(first));
        let is_done = match Says::of(&heard) {
            Says::Ack => 0..offset.saturating_add(1),
            Says::Read(_) | Says::Atomic => 0..offset,
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
                format!("{} PSN {}", heard.opcode, heard.psn),
                format!("at most {there} messages that take a receive: so many were posted"),
                format!("it acknowledges {taken}"),
            )
        });
    }
}

fn rnr_timer<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let handle = talk.dialogue.handle;
    let given = |of: &pb::ModifyQp| {
        let code = of.attributes.as_ref()?.min_rnr_timer?;
        Some(RnrTimer(u8::try_from(code).ok()?))
    };
    let within = talk.trace.timeline.commands_between(talk.dialogue.places).iter();
    let set: Vec<(usize, RnrTimer)> = within
        .filter_map(|done| match &done.command {
            Command::ModifyQp(of) if of.qp == handle => Some((done.place, given(of)?)),
            _ => None,
        })
        .collect();
    for seen in talk.dialogue.of_dut() {
        let timer = match seen.packet.aeth().map(|aeth| aeth.syndrome().kind()) {
            Some(SyndromeKind::RnrNak(timer)) => timer,
            _ => continue,
        };
        // While it is altered, either may hold.
        let before = set.iter().filter(|(place, _)| *place < seen.place);
        let Some((_, least)) = before.min_by_key(|(_, timer)| timer.duration()) else {
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

/// What is wrong with the receive that a SEND takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// It is too short.
    Short,
    /// The device may not write there.
    Closed,
}

/// What is wrong with the receive of the SEND that ends with that PSN, as far as all that takes one before it is known; in words,
/// what it is. A receive that is too short and closed is nobody's matter.
fn wrong_receive(talk: &Talk<'_>, asked: &[Asked<'_>], offset: u32) -> Option<(Wrong, String)> {
    let (takers, until) = takers(asked, talk.mtu);
    let nth = takers.range(..offset).count();
    let is_known = offset < until && takers.contains(&offset);
    let slice = posted(talk, &commands(talk)?).get(nth).filter(|_| is_known)?.1.local?;
    // One packet alone with each of its PSNs, from its first on.
    let only = |of: u32| {
        let mut kinds = asked
            .iter()
            .filter(|(other, ..)| *other == of)
            .map(|(_, heard, _)| heard);
        let first = kinds.next()?;
        let is_alone = kinds.all(|other| (other.opcode, other.digests()) == (first.opcode, first.digests()));
        is_alone.then_some(first)
    };
    let (mut at, last) = (offset, only(offset)?);
    let (mut part, mut length) = (Asks::of(last.opcode), last.length);
    while matches!(part, Asks::Send(Part::Middle | Part::Last)) {
        at = at.checked_sub(1)?;
        let before = only(at)?;
        length += before.length;
        part = match Asks::of(before.opcode) {
            Asks::Send(Part::First) => Asks::Send(Part::Only),
            other => other,
        };
    }
    let made = talk.memory.iter().find_map(|done| match (&done.command, &done.answer) {
        (Command::RegisterMemory(of), Some((_, _, Reply::Memory(made), _))) if made.memory == slice.memory => Some(of),
        _ => None,
    });
    let is_closed = length > 0 && made.and_then(|of| of.access).is_some_and(|access| !access.local_write);
    let wrong = match (length > slice.length, is_closed) {
        (true, false) => Wrong::Short,
        (false, true) => Wrong::Closed,
        _ => return None,
    };
    let words = format!(
        "{} PSN {}, {length} bytes into a receive of {}",
        last.opcode, last.psn, slice.length
    );
    (part == Asks::Send(Part::Only)).then_some((wrong, words))
}

fn receive_fits<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    is_refused(talk, asking, Wrong::Short, NakCode::INVALID_REQUEST);
}

fn receive_fault<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    is_refused(talk, asking, Wrong::Closed, NakCode::REMOTE_OPERATIONAL);
}

/// What is said of such SENDs is that code, and they are never acknowledged.
fn is_refused<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>, wrong: Wrong, code: NakCode) {
    let Some(first) = talk.dialogue.attributes.rq_psn.map(Psn::new) else {
        return;
    };
    let all = asked(talk);
    for (heard, frame) in talk.responses() {
        let of = heard.psn.since(first);
        let says = Says::of(&heard);
        if !matches!(says, Says::Fatal | Says::Ack) || of >= HALF {
            continue;
        }
        let before: Vec<Asked<'_>> = all
            .iter()
            .filter(|(.., sent)| sent.place < frame.place)
            .copied()
            .collect();
        let Some((_, of_send)) = wrong_receive(talk, &before, of).filter(|(is, _)| *is == wrong) else {
            continue;
        };
        let expected = Syndrome::nak(code);
        asking.must(heard.syndrome() == Some(expected), [Evidence::from(frame)], || {
            let syndrome = heard.syndrome().map(|syndrome| syndrome.to_string());
            let expected = format!("{expected}, of {of_send}");
            (String::new(), expected, syndrome.unwrap_or_default())
        });
    }
}

fn rnr_reason<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(commands), Some(first), true) = (
        commands(talk),
        talk.dialogue.attributes.rq_psn.map(Psn::new),
        talk.is_lossless(),
    ) else {
        return;
    };
    let (posted, asked) = (posted(talk, &commands), asked(talk));
    let (takers, until) = takers(&asked, talk.mtu);
    for (heard, frame) in talk.responses().filter(|(heard, _)| Says::of(heard) == Says::Rnr) {
        let offset = heard.psn.since(first);
        let of_it = asked
            .iter()
            .filter(|(of, _, sent)| *of == offset && sent.place < frame.place);
        let may_take =
            |(_, heard, _): &&Asked<'_>| takes_receive(heard) || matches!(Asks::of(heard.opcode), Asks::Send(_));
        let mut of_it = of_it.peekable();
        let Some((_, request, _)) = of_it.peek().copied() else {
            continue;
        };
        let is_taker = of_it.any(|asked| may_take(&asked));
        // Those that were there when it was sent first are there still.
        let sent = asked
            .iter()
            .filter(|(of, _, sent)| *of == offset && sent.place < frame.place);
        let sent = sent.map(|(.., sent)| sent.place).min().unwrap_or(0);
        let there = posted
            .iter()
            .filter(|(done, _)| done.answer.as_ref().is_some_and(|(.., place)| *place < sent));
        let is_there = offset < until && there.count() > takers.range(..offset).count();
        asking.must(is_taker && !is_there, [Evidence::from(frame)], || {
            let expected = if is_taker {
                "no RNR NAK: a receive is there"
            } else {
                "no RNR NAK: it takes no receive"
            };
            (request.opcode.to_string(), expected.into(), heard.packet.to_string())
        });
    }
}

fn receive_completes<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let (Some(_), Some(first)) = (commands(talk), talk.dialogue.attributes.rq_psn.map(Psn::new)) else {
        return;
    };
    let (takers, until) = takers(&asked(talk), talk.mtu);
    for (nth, taker) in takers.range(..until).enumerate() {
        let acknowledged = talk.responses().find(|(heard, _)| {
            let of = heard.psn.since(first);
            let end = match Says::of(heard) {
                Says::Ack => of + 1,
                Says::Read(_) | Says::Atomic => of,
                _ => 0,
            };
            of < HALF && *taker < end
        });
        let Some((heard, frame)) = acknowledged else {
            return;
        };
        let since = frame.at.latest;
        let came = talk.received.get(nth).map(|done| done.told.at.earliest);
        asking.owes(talk.owed(since, SOON, came), true, [Evidence::from(frame)], || {
            let words = (nth + 1, duration_words(SOON), heard.opcode, heard.psn);
            let expected = format!(
                "{} receives completed within {} of {} PSN {}",
                words.0, words.1, words.2, words.3
            );
            (
                String::new(),
                expected,
                format!("{}{}", talk.received.len(), after(since, came)),
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use verbatim_record::Entry;

    use super::*;
    use crate::oracle::tests::verbs::broken;

    fn commands(entries: &mut [Entry]) -> impl Iterator<Item = &mut Command> {
        entries.iter_mut().filter_map(|entry| match entry {
            Entry::VerbsAsked(asked) => Some(&mut asked.command),
            _ => None,
        })
    }

    #[test]
    fn what_takes_a_receive_is_not_acknowledged_without_one() {
        for record in ["c09-060-send-responder", "c09-060-write-responder", "c09-rnr-nak"] {
            assert_eq!(broken(record, |_| ()), [""; 0], "{record}");
        }
        // Each receive but the first is another queue pair's.
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
        // A WRITE without Immediate takes none.
        assert!(!broken("c09-icrc", first_alone).contains(&"receive-there"));
    }

    #[test]
    fn an_rnr_nak_asks_for_no_less_than_the_host_has_set() {
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
        // 10 us is the shortest, and code 0 the longest.
        assert_eq!(broken("c09-rnr-nak", set(1)), [""; 0]);
        assert_eq!(broken("c09-rnr-nak", set(0)), ["rnr-timer"]);
    }
}

//! Rules of a SEND with whose receive something is wrong: it is too short, or memory that the device may not write.
//!
//! Source: architecture 9.7.5.2.4 (invalid request), 9.7.5.2.6 (remote operational error), 9.9.3. They rest on what had been posted
//! and sent before, so they hold on every link.

use verbatim_record::Evidence;
use verbatim_record::verbs::{Command, Reply};
use verbatim_wire::packet::{NakCode, Syndrome};

use super::ready::takers;
use super::received::{commands, posted};
use super::talk::{Asked, Talk};
use super::{Asking, VerbsRule};
use crate::oracle::heard::{Asks, Heard, Part};
use crate::oracle::rule::Rule;
use crate::oracle::rules::responder::Says;
use crate::oracle::rules::rule;
use crate::transport::rc::ask::HALF;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
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
];

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
    let (takers, until) = takers(talk, asked);
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
    let Some(first) = talk.first() else { return };
    let is_send = |heard: &Heard<'_>| matches!(Asks::of(heard.opcode), Asks::Send(_));
    for (heard, frame) in talk.responses() {
        let of = heard.psn.since(first);
        if !matches!(Says::of(&heard), Says::Fatal | Says::Ack) || of >= HALF {
            continue;
        }
        let before: Vec<Asked<'_>> = talk.asked().filter(|(.., sent)| sent.place < frame.place).collect();
        if !before.iter().any(|(offset, heard, _)| *offset == of && is_send(heard)) {
            continue;
        }
        let Some((_, of_send)) = wrong_receive(talk, &before, of).filter(|(is, _)| *is == wrong) else {
            continue;
        };
        let nak = Syndrome::nak(code);
        asking.must(heard.syndrome() == Some(nak), [Evidence::from(frame)], || {
            let seen = heard.syndrome().map(|syndrome| syndrome.to_string());
            (String::new(), format!("{nak}, of {of_send}"), seen.unwrap_or_default())
        });
    }
}

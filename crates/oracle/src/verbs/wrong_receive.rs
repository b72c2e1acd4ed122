//! Rules of a SEND and its receive: one that is too short, or memory that the device may not write, refuses it; one that is
//! missing puts it off; nothing else of a sound SEND does either.
//!
//! Source: architecture 9.7.5.2.4 (invalid request), 9.7.5.2.6 (remote operational error), 9.7.5.2.8 (RNR NAK), 9.9.3. They rest on
//! what had been posted and sent before, so they hold on every link.

use std::collections::BTreeSet;

use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Evidence, VerbsDone};
use verbatim_wire::packet::{NakCode, Opcode, Syndrome};

use super::asking::{Asking, VerbsRule};
use super::qp_trace::{Asked, QpTrace};
use super::ready::takers;
use super::received::{commands, posted};
use crate::parsed::{Parsed, Part, RequestKind};
use crate::rc::HALF;
use crate::rule::Rule;
use crate::rules::responder::ResponseKind;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::ReceiveFits, receive_fits),
    (Rule::ReceiveFault, receive_fault),
    (Rule::PutOff, put_off),
    (Rule::SendRefused, send_refused),
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
fn wrong_receive(qp: &QpTrace<'_>, asked: &[Asked<'_>], offset: u32) -> Option<(Wrong, String)> {
    let (takers, until) = takers(qp, asked);
    let nth = takers.range(..offset).count();
    let is_known = offset < until && takers.contains(&offset);
    let slice = posted(qp, &commands(qp)?).get(nth).filter(|_| is_known)?.1.local?;
    let (last, packets) = (only(asked, offset)?, send_until(asked, offset)?);
    let length: u32 = packets.iter().map(|packet| packet.length).sum();
    let wrong = match (length > slice.length, length > 0 && is_closed(qp, slice.memory)) {
        (true, false) => Wrong::Short,
        (false, true) => Wrong::Closed,
        _ => return None,
    };
    let words = format!(
        "{} PSN {}, {length} bytes into a receive of {}",
        last.opcode, last.psn, slice.length
    );
    Some((wrong, words))
}

fn is_send(parsed: &Parsed<'_>) -> bool {
    matches!(RequestKind::of(parsed.opcode), RequestKind::Send(_))
}

/// PSNs, counted from the first that the device expects, with which a part of a SEND came.
fn sends(qp: &QpTrace<'_>) -> BTreeSet<u32> {
    let sends = qp.asked().filter(|(at, parsed, _)| *at < HALF && is_send(parsed));
    sends.map(|(at, ..)| at).collect()
}

/// The packet with that PSN, if nothing else was sent with it.
fn only<'a, 't>(asked: &'a [Asked<'t>], of: u32) -> Option<&'a Parsed<'t>> {
    let mut kinds = asked
        .iter()
        .filter(|(other, ..)| *other == of)
        .map(|(_, parsed, _)| parsed);
    let first = kinds.next()?;
    let is_alone = kinds.all(|other| (other.opcode, other.digests()) == (first.opcode, first.digests()));
    is_alone.then_some(first)
}

/// The packets of a SEND up to that PSN, from there back to its First or Only.
fn send_until<'a, 't>(asked: &'a [Asked<'t>], offset: u32) -> Option<Vec<&'a Parsed<'t>>> {
    let mut packets = Vec::new();
    for at in (0..=offset).rev() {
        let packet = only(asked, at)?;
        let is_within = |part| packets.is_empty() || matches!(part, Part::First | Part::Middle);
        let RequestKind::Send(part) = RequestKind::of(packet.opcode) else {
            return None;
        };
        if !is_within(part) {
            return None;
        }
        packets.push(packet);
        if matches!(part, Part::First | Part::Only) {
            return Some(packets);
        }
    }
    None
}

/// Whether the device may not write to that memory.
fn is_closed(qp: &QpTrace<'_>, memory: u32) -> bool {
    let made = qp.memory.iter().find_map(|done| match (&done.command, &done.answer) {
        (Command::RegisterMemory(of), Some((_, _, Reply::Memory(made), _))) if made.memory == memory => Some(of),
        _ => None,
    });
    made.and_then(|of| of.access).is_some_and(|access| !access.local_write)
}

/// The receive of the sound SEND to which the packet with that PSN belongs, or that there is none; nothing where the SEND is not
/// sound, too long for it, or may not be written there.
fn receive_of<'t>(qp: &QpTrace<'t>, asked: &[Asked<'t>], offset: u32, place: usize) -> Option<Option<&'t VerbsDone>> {
    let (takers, until) = takers(qp, asked);
    let packets = send_until(asked, offset).filter(|_| offset < until)?;
    let first = offset + 1 - u32::try_from(packets.len()).ok()?;
    let mut before = asked.iter().filter(|(at, parsed, _)| at + qp.psns(parsed) == first);
    let ends = |parsed: &Parsed<'_>| match RequestKind::of(parsed.opcode) {
        RequestKind::Send(part) | RequestKind::Write(part) => matches!(part, Part::Last | Part::Only),
        asks => asks.has_response(),
    };
    let is_begun = first == 0 || before.clone().next().is_some() && before.all(|(_, parsed, _)| ends(parsed));
    let has_its_length = |packet: &&Parsed<'_>| match RequestKind::of(packet.opcode) {
        RequestKind::Send(Part::First | Part::Middle) => packet.length == qp.mtu,
        RequestKind::Send(Part::Last) => (1..=qp.mtu).contains(&packet.length),
        _ => packet.length <= qp.mtu,
    };
    // Rights to what it names are another matter.
    let is_plain = |packet: &&Parsed<'_>| {
        !matches!(
            packet.opcode,
            Opcode::RC_SEND_ONLY_INVALIDATE | Opcode::RC_SEND_LAST_INVALIDATE
        )
    };
    if !is_begun || !packets.iter().all(|packet| has_its_length(packet) && is_plain(packet)) {
        return None;
    }
    let posted = posted(qp, &commands(qp)?);
    let there = posted
        .get(takers.range(..first).count())
        .filter(|(done, _)| done.place < place);
    let Some((done, receive)) = there else {
        return Some(None);
    };
    let slice = receive.local?;
    let length: u32 = packets.iter().map(|packet| packet.length).sum();
    (length <= slice.length && !is_closed(qp, slice.memory)).then_some(Some(*done))
}

fn put_off<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    refused(qp, asking, false);
}

fn send_refused<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    refused(qp, asking, true);
}

/// The NAK that ends a connection is not that of a sound SEND, with a receive or without; nor is it put off with one, as other
/// rules have it.
fn refused<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, has_receive: bool) {
    let Some(first) = qp.first() else { return };
    let (mut has_held, sends) = (false, sends(qp));
    for (parsed, frame) in qp.responses() {
        let of = parsed.psn.since(first);
        // What a sound device says of it.
        let usual = if has_receive {
            ResponseKind::Ack
        } else {
            ResponseKind::Rnr
        };
        if !sends.contains(&of) || ![usual, ResponseKind::Fatal].contains(&ResponseKind::of(&parsed)) {
            continue;
        }
        // One shows that the rule was asked.
        if has_held && ResponseKind::of(&parsed) == usual {
            continue;
        }
        let asked: Vec<Asked<'t>> = qp.asked().filter(|(.., sent)| sent.place < frame.place).collect();
        let Some(receive) = receive_of(qp, &asked, of, frame.place).filter(|of| of.is_some() == has_receive) else {
            continue;
        };
        has_held |= ResponseKind::of(&parsed) == usual;
        let is_wrong = [NakCode::INVALID_REQUEST, NakCode::REMOTE_ACCESS].map(|code| Some(Syndrome::nak(code)));
        let evidence = [Some(Evidence::from(frame)), receive.map(Evidence::from)];
        asking.must(
            !is_wrong.contains(&parsed.syndrome()),
            evidence.into_iter().flatten(),
            || {
                let expected = match has_receive {
                    true => format!("PSN {} is executed: its receive is there, and long enough", parsed.psn),
                    false => format!("an RNR NAK of PSN {}: no receive is there", parsed.psn),
                };
                let seen = parsed.syndrome().map(|syndrome| syndrome.to_string());
                (String::new(), expected, seen.unwrap_or_default())
            },
        );
    }
}

fn receive_fits<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    is_refused(qp, asking, Wrong::Short, NakCode::INVALID_REQUEST);
}

fn receive_fault<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    is_refused(qp, asking, Wrong::Closed, NakCode::REMOTE_OPERATIONAL);
}

/// What is said of such SENDs is that code, and they are never acknowledged.
fn is_refused<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, wrong: Wrong, code: NakCode) {
    let Some(first) = qp.first() else { return };
    let sends = sends(qp);
    for (parsed, frame) in qp.responses() {
        let of = parsed.psn.since(first);
        if !matches!(ResponseKind::of(&parsed), ResponseKind::Fatal | ResponseKind::Ack) || !sends.contains(&of) {
            continue;
        }
        let before: Vec<Asked<'_>> = qp.asked().filter(|(.., sent)| sent.place < frame.place).collect();
        if !before
            .iter()
            .any(|(offset, parsed, _)| *offset == of && is_send(parsed))
        {
            continue;
        }
        let Some((_, of_send)) = wrong_receive(qp, &before, of).filter(|(is, _)| *is == wrong) else {
            continue;
        };
        let nak = Syndrome::nak(code);
        asking.must(parsed.syndrome() == Some(nak), [Evidence::from(frame)], || {
            let seen = parsed.syndrome().map(|syndrome| syndrome.to_string());
            (String::new(), format!("{nak}, of {of_send}"), seen.unwrap_or_default())
        });
    }
}

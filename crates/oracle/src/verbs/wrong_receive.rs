//! Rules for a SEND and its receive. The responder sends a NAK that ends the connection if the receive is too short
//! or not writable. It sends an RNR NAK if the receive is missing. A valid SEND with a suitable receive gets
//! neither NAK.
//!
//! Source: architecture 9.7.5.2.4 (invalid request), 9.7.5.2.6 (remote operational error), 9.7.5.2.8 (RNR NAK),
//! 9.9.3. The rules depend only on earlier posts and packets, so that they hold on every link.

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

/// Fault of the receive that a SEND takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    /// The receive is too short.
    Short,
    /// The receive's memory is not writable for the device.
    Closed,
}

/// For the SEND whose last packet has the PSN `offset`, returns the fault of its receive, and a description. `None`
/// if the receive is unknown, or if it has no fault or both faults.
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

/// Returns the PSNs of SEND packets, counted from the first PSN that the device expects.
fn sends(qp: &QpTrace<'_>) -> BTreeSet<u32> {
    let sends = qp.asked().filter(|(at, parsed, _)| *at < HALF && is_send(parsed));
    sends.map(|(at, ..)| at).collect()
}

/// Returns the packet with that PSN, if no different packet has it.
fn only<'a, 't>(asked: &'a [Asked<'t>], of: u32) -> Option<&'a Parsed<'t>> {
    let mut kinds = asked
        .iter()
        .filter(|(other, ..)| *other == of)
        .map(|(_, parsed, _)| parsed);
    let first = kinds.next()?;
    let is_alone = kinds.all(|other| (other.opcode, other.digests()) == (first.opcode, first.digests()));
    is_alone.then_some(first)
}

/// Returns the packets of a SEND from that PSN back to its First or Only.
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

/// Returns whether that memory is not writable for the device.
fn is_closed(qp: &QpTrace<'_>, memory: u32) -> bool {
    let made = qp.memory.iter().find_map(|done| match (&done.command, &done.answer) {
        (Command::RegisterMemory(of), Some((_, _, Reply::Memory(made), _))) if made.memory == memory => Some(of),
        _ => None,
    });
    made.and_then(|of| of.access).is_some_and(|access| !access.local_write)
}

/// Returns the receive of the SEND that the packet with this PSN belongs to; `Some(None)` if no receive was posted.
/// `None` if the SEND is not valid, or if the receive is too short or not writable.
fn receive_of<'t>(qp: &QpTrace<'t>, asked: &[Asked<'t>], offset: u32, place: usize) -> Option<Option<&'t VerbsDone>> {
    let (takers, until) = takers(qp, asked);
    let packets = send_until(asked, offset).filter(|_| offset < until)?;
    let first = offset + 1 - u32::try_from(packets.len()).ok()?;
    let mut before = asked.iter().filter(|(at, parsed, _)| at + qp.psns(parsed) == first);
    let ends = |parsed: &Parsed<'_>| match RequestKind::of(parsed.opcode) {
        RequestKind::Send(part) | RequestKind::Write(part) => matches!(part, Part::Last | Part::Only),
        asks => asks.returns_data(),
    };
    let is_begun = first == 0 || before.clone().next().is_some() && before.all(|(_, parsed, _)| ends(parsed));
    let has_its_length = |packet: &&Parsed<'_>| match RequestKind::of(packet.opcode) {
        RequestKind::Send(Part::First | Part::Middle) => packet.length == qp.mtu,
        RequestKind::Send(Part::Last) => (1..=qp.mtu).contains(&packet.length),
        _ => packet.length <= qp.mtu,
    };
    // A SEND with Invalidate may also be refused for its R_Key.
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

/// Checks that a valid SEND gets no NAK that ends the connection, with or without a receive. The rule `rnr-reason`
/// covers an RNR NAK of a SEND that has a receive.
fn refused<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>, has_receive: bool) {
    let Some(first) = qp.first() else { return };
    let (mut has_held, sends) = (false, sends(qp));
    for (parsed, frame) in qp.responses() {
        let of = parsed.psn.since(first);
        // Response of a conforming device.
        let usual = if has_receive {
            ResponseKind::Ack
        } else {
            ResponseKind::Rnr
        };
        if !sends.contains(&of) || ![usual, ResponseKind::Fatal].contains(&ResponseKind::of(&parsed)) {
            continue;
        }
        // One such response is enough to show that the rule held.
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
                    true => format!(
                        "execution of PSN {}: its receive is posted, and long enough",
                        parsed.psn
                    ),
                    false => format!("an RNR NAK of PSN {}: no receive is posted", parsed.psn),
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

/// Checks that a SEND whose receive has the fault `wrong` gets the NAK `code` and no ACK.
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
            (String::new(), format!("{nak} of {of_send}"), seen.unwrap_or_default())
        });
    }
}

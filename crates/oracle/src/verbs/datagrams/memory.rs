//! Rule for the memory of receives: each completed receive holds the addresses and the payload of its datagram, and
//! nothing else changed.

use core::ops::Range;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Side, VerbsDone};
use verbatim_wire::packet::Packet;

use super::super::asking::Asking;
use super::super::qp_history::QpHistory;
use super::received::{Fate, Reception};
use super::{HEADER, Image, frames, image, is_seen};

/// Compares each memory that the host read with the datagrams in its receives.
pub(super) fn datagram_stored<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if !is_seen(history) {
        return;
    }
    // The requests of a connection may write into the same memory.
    let writes = |packet: &Packet<'_>| packet.reth().is_some() || packet.atomic().is_some();
    if frames(history, false).any(|(_, packet)| writes(&packet)) {
        return;
    }
    let reception = Reception::of(history);
    let commands = history
        .trace
        .timeline
        .commands_between((history.begin, history.end))
        .iter();
    let until = if reception.is_broken() {
        reception.until
    } else {
        usize::MAX
    };
    for read in commands.filter(|done| done.side == Side::Dut && done.place < until) {
        if let (Command::ReadMemory(of), Some((_, _, Reply::Bytes(found), _))) = (&read.command, &read.answer) {
            stored(
                history,
                asking,
                &reception,
                (read, of.from.unwrap_or_default(), &found.bytes),
            );
        }
    }
}

fn stored<'t>(
    history: &QpHistory<'t>,
    asking: &mut Asking<'_, 't>,
    reception: &Reception<'_, 't>,
    (read, of, found): (&'t VerbsDone, pb::Slice, &[u8]),
) {
    let its = reception.receives.iter().filter(|receive| {
        receive.done.place < read.place && receive.post.local.is_some_and(|local| local.memory == of.memory)
    });
    let its: Vec<_> = its.collect();
    let Some(first) = its.first() else { return };
    let writes = |done: &VerbsDone| matches!(&done.command, Command::WriteMemory(write) if write.memory == of.memory);
    let between = history
        .trace
        .timeline
        .commands_between((first.done.place, read.place))
        .iter();
    if between.into_iter().any(writes) {
        return;
    }
    let before = image(history.trace, of.memory, Some(history.handle), read.place);
    // Other rules compare the rest of the memory.
    let mut image: Image = vec![None; before.len()];
    for receive in &its {
        let slot = range(receive.post.local.unwrap_or_default());
        if let (Some(slot), Some(before)) = (image.get_mut(slot.clone()), before.get(slot)) {
            slot.copy_from_slice(before);
        }
    }
    let is_open = reception
        .datagrams
        .iter()
        .any(|datagram| datagram.may_fill() && !datagram.is_over && datagram.frame.place < read.place);
    let mut evidence: Vec<Evidence<'t>> = Vec::new();
    for receive in its {
        let local = receive.post.local.unwrap_or_default();
        let slot = range(local);
        match &receive.fate {
            Fate::Filled { at, by } if *at < read.place => {
                let place = (local.offset + HEADER) as usize;
                let lies = |index: &&usize| {
                    let payload = reception.datagrams[**index].packet.payload();
                    place
                        .checked_sub(of.offset as usize)
                        .is_some_and(|at| found.get(at..at + payload.len()) == Some(payload))
                };
                let Some(by) = by.iter().find(lies).or(by.first()) else {
                    continue;
                };
                let datagram = &reception.datagrams[*by];
                evidence.push(datagram.frame.into());
                put(&mut image, local.offset as usize, header(&datagram.packet));
                put(&mut image, place, datagram.packet.payload().iter().copied().map(Some));
            }
            _ if !receive.is_writable => {}
            Fate::Waiting if !is_open => {}
            _ => {
                if let Some(slot) = image.get_mut(slot) {
                    slot.fill(None);
                }
            }
        }
    }
    let from = of.offset as usize;
    let expected = image.get(from..).unwrap_or_default();
    let is_wrong = |(known, found): (&Option<u8>, &u8)| known.is_some_and(|known| known != *found);
    let wrong = expected.iter().zip(found).position(is_wrong);
    evidence.truncate(2);
    evidence.push(read.into());
    asking.must(wrong.is_none(), evidence, || {
        let at = wrong.unwrap_or(0);
        let known: Vec<u8> = expected[at..].iter().take(8).map_while(|byte| *byte).collect();
        let end = (at + known.len()).min(found.len());
        let words = |bytes: &[u8]| format!("{bytes:02x?} at byte {}", from + at);
        ("memory of the receives".into(), words(&known), words(&found[at..end]))
    });
}

/// Returns the places of a slice in its memory.
const fn range(of: pb::Slice) -> Range<usize> {
    of.offset as usize..of.offset as usize + of.length as usize
}

/// Returns the bytes before the payload: the addresses of the datagram. A device may fill the rest with any bytes.
fn header(packet: &Packet<'_>) -> Image {
    let known = |bytes: &[u8]| bytes.iter().copied().map(Some).collect::<Image>();
    let addresses = match (packet.ipv4(), packet.ipv6()) {
        (Some(ip), _) => known(&[ip.src().octets(), ip.dst().octets()].concat()),
        (_, Some(ip)) => known(&[ip.src().octets(), ip.dst().octets()].concat()),
        _ => Image::new(),
    };
    let mut header = vec![None; HEADER as usize - addresses.len()];
    header.extend(addresses);
    header
}

fn put(image: &mut Image, offset: usize, bytes: impl IntoIterator<Item = Option<u8>>) {
    for (place, byte) in image.iter_mut().skip(offset).zip(bytes) {
        *place = byte;
    }
}

//! Rules for the device's own memory: the data of its READs and atomics is stored in the requested place, and no
//! other byte changes.
//!
//! Source: architecture 9.7.6.1.1 (response data), 9.4.4 (READ), 9.4.5 (atomics). The original value of an atomic
//! is stored in the host's byte order. The check assumes little-endian, as on x86 and most Arm hosts.

use std::collections::BTreeMap;
use std::ops::Range;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Side, VerbsDone};
use verbatim_wire::packet::Medium;
use verbatim_wire::packet::Packet;

use super::asking::{Asking, VerbsRule};
use super::next::fits;
use super::qp_trace::{PeerResponse, QpTrace, WorkRequest};
use crate::rule::Rule;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[(Rule::ResponseData, response_data)];

/// Known bytes of a memory; `None` for a byte that may have any value.
type Image = Vec<Option<u8>>;

fn put(image: &mut Image, offset: u32, bytes: impl IntoIterator<Item = Option<u8>>) {
    let places = image.get_mut(offset as usize..).unwrap_or_default();
    for (place, byte) in places.iter_mut().zip(bytes) {
        *place = byte;
    }
}

fn response_data<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let is_of_peer = qp.dialogue.packets.iter().any(|seen| !seen.frame.received);
    // The rule `memory-content` covers memory that only the peer may have changed.
    if qp.posts.is_empty() && is_of_peer {
        return;
    }
    let mut images: BTreeMap<u32, Image> = BTreeMap::new();
    let commands = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    for done in commands.filter(|done| done.side == Side::Dut) {
        match &done.command {
            Command::WriteMemory(write) => {
                let image = images.entry(write.memory).or_default();
                let end = write.offset as usize + write.bytes.len();
                image.resize(image.len().max(end), None);
                put(image, write.offset, write.bytes.iter().copied().map(Some));
            }
            Command::ReadMemory(read) => {
                let from = read.from.unwrap_or_default();
                let image = images.get(&from.memory).cloned().unwrap_or_default();
                compare(qp, asking, (done, from), image);
            }
            _ => {}
        }
    }
}

/// Returns the ranges of the memory at the address `base` that requests of any peer may write, even requests that
/// do not conform. The rule does not check these ranges.
fn of_peer<'k>(qp: &'k QpTrace<'_>, (memory, base): (u32, u64)) -> impl Iterator<Item = Range<u32>> + 'k {
    let frames = qp.trace.timeline.frames_between(qp.dialogue.places).iter();
    let sent = frames.filter(|frame| !frame.received);
    let by_address = sent.filter_map(move |frame| {
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
        let (va, length) = match (packet.reth(), packet.atomic()) {
            (Some(reth), _) => (reth.va().0, reth.dma_len().max(packet.payload().len() as u32)),
            (None, Some(atomic)) => (atomic.va().0, 8),
            (None, None) => return None,
        };
        let begin = u32::try_from(va.checked_sub(base)?).ok()?;
        Some(begin..begin.saturating_add(length))
    });
    let before = qp.trace.timeline.commands_between((0, qp.dialogue.places.1)).iter();
    let receives = before.filter_map(move |done| match &done.command {
        Command::PostReceive(post) => {
            let local = post.local.filter(|local| local.memory == memory)?;
            Some(local.offset..local.offset.saturating_add(local.length))
        }
        _ => None,
    });
    by_address.chain(receives)
}

/// Checks that the bytes read from memory are the bytes that the host wrote, or the data of responses.
fn compare<'t>(
    qp: &QpTrace<'t>,
    asking: &mut Asking<'_, 't>,
    (read, of): (&'t VerbsDone, pb::Slice),
    mut image: Image,
) {
    let made = qp.memory.iter().find_map(|done| match &done.answer {
        Some((_, _, Reply::Memory(made), _)) if made.memory == of.memory => Some(made.address),
        _ => None,
    });
    let (Some((_, _, Reply::Bytes(found), _)), Some(base)) = (&read.answer, made) else {
        return;
    };
    for (at, post) in qp.posts.iter().enumerate() {
        let local = post.posted.post.local.filter(|local| local.memory == of.memory);
        let Some(local) = local.filter(|_| post.posted.has_response_data()) else {
            continue;
        };
        let mut completion = qp
            .completions_of(at)
            .filter(|completion| completion.is_success() && completion.place() < read.place);
        let brought = match completion.next() {
            // A response after the completion stores no data.
            Some(done) => brought(qp, post, (local.length, done.place())),
            None => vec![None; local.length as usize],
        };
        put(&mut image, local.offset, brought);
    }
    for range in of_peer(qp, (of.memory, base)) {
        // A malformed request may state any length.
        let end = (range.end as usize).min(image.len());
        if let Some(unknown) = image.get_mut(range.start as usize..end) {
            unknown.fill(None);
        }
    }
    let from = of.offset as usize;
    let expected = image.get(from..).unwrap_or_default();
    let differs = first_difference(expected, &found.bytes);
    asking.must(differs.is_none(), [read.into()], || {
        let at = differs.unwrap_or(0);
        if let Some(words) = original(qp, of, (from, at), (expected, &found.bytes)) {
            return words;
        }
        let wanted: Vec<u8> = expected[at..].iter().take(8).map_while(|byte| *byte).collect();
        let end = (at + wanted.len()).min(found.bytes.len());
        let place = from + at;
        let expected = format!("{wanted:02x?} at byte {place}");
        (
            "memory after the responses".into(),
            expected,
            format!("{:02x?} at byte {place}", &found.bytes[at..end]),
        )
    });
}

/// Returns the index of the first byte that differs from the known byte.
fn first_difference(expected: &[Option<u8>], found: &[u8]) -> Option<usize> {
    /// Most parts are equal. The compiler vectorises the comparison of a whole part.
    const PART: usize = 256;
    let differs = |wanted: &Option<u8>, found: &u8| wanted.is_some() & (wanted.unwrap_or_default() != *found);
    let mut parts = expected.chunks(PART).zip(found.chunks(PART));
    let part = parts.position(|(wanted, found)| {
        let pairs = wanted.iter().zip(found);
        pairs.fold(false, |any, (wanted, found)| any | differs(wanted, found))
    })?;
    let rest = expected.iter().zip(found).skip(part * PART);
    let at = rest.into_iter().position(|(wanted, found)| differs(wanted, found))?;
    Some(part * PART + at)
}

/// Describes a wrong original value of an atomic, if the byte `at` behind `from` belongs to one.
fn original(
    qp: &QpTrace<'_>,
    of: pb::Slice,
    (from, at): (usize, usize),
    (expected, found): (&[Option<u8>], &[u8]),
) -> Option<(String, String, String)> {
    let is_atomic = |of: pb::Operation| matches!(of, pb::Operation::FetchAdd | pb::Operation::CompareSwap);
    let posts = qp.posts.iter().map(|post| &post.posted.post);
    let locals = posts
        .filter(|post| is_atomic(post.operation()))
        .filter_map(|post| post.local);
    let mut begins = locals
        .filter(|local| local.memory == of.memory)
        .map(|local| local.offset as usize);
    let begin = begins.find(|begin| (*begin..begin + 8).contains(&(from + at)))?;
    let into = begin.checked_sub(from)?..begin.checked_sub(from)? + 8;
    let wanted: Option<Vec<u8>> = expected.get(into.clone())?.iter().copied().collect();
    let number = |bytes: &[u8]| {
        Some(format!(
            "{:#018x} at byte {begin}",
            u64::from_le_bytes(bytes.try_into().ok()?)
        ))
    };
    Some((
        "original value in memory".into(),
        number(&wanted?)?,
        number(found.get(into)?)?,
    ))
}

/// Returns the data of the responses to a READ or atomic before its completion. Bytes are `None` if repeated
/// responses differ.
fn brought(qp: &QpTrace<'_>, post: &WorkRequest<'_>, (length, until): (u32, usize)) -> Image {
    let mut image = vec![None; length as usize];
    let of_it = |answer: &&PeerResponse<'_>| answer.offset.is_some_and(|offset| post.has(offset)) && fits(qp, answer);
    for offset in post.first..post.end {
        let mut carried = qp
            .answers
            .iter()
            .filter(of_it)
            .filter(|answer| answer.offset == Some(offset) && answer.place() < until)
            .map(|answer| {
                match Packet::parse(Medium::Ethernet, &answer.frame.bytes)
                    .ok()
                    .and_then(|packet| packet.atomic_ack())
                {
                    Some(atomic) => atomic.original().0.to_le_bytes().to_vec(),
                    None => answer.packet.payload().to_vec(),
                }
            });
        let Some(first) = carried.next() else { continue };
        if carried.all(|other| other == first) {
            put(&mut image, (offset - post.first) * qp.mtu, first.into_iter().map(Some));
        }
    }
    image
}

//! Rule of the MSN, and the derivation of the responder's message count.

use verbatim_wire::NakCode;
use verbatim_wire::packet::{Psn, SyndromeKind};

use super::responder::{Answered, ResponseKind};
use crate::parsed::Part;
use crate::request::Request;
use crate::responses::{Offset, is_up_to};
use crate::rule::{Excuse, Outcome};

/// Returns the epoch of the message count, and the fewest and most messages that the MSN may include; see
/// [`Request::messages`].
fn counted(answered: &Answered<'_>) -> Option<(u32, u32, u32)> {
    let window = answered.window;
    let all = |epoch, at_least: u32| window.messages_of(epoch).map(|all| all.max(at_least));
    let taken = |(at, _)| Some((at, window.get(at))).filter(|(_, request)| request.is_taken);
    if answered.says.is_refusal() {
        let (at, request, is_refused_itself) = match answered.found.and_then(taken) {
            Some((at, request)) => (at, request, true),
            // The request with the PSN of the NAK is missing, so the request before it is the last complete request.
            None => {
                let (at, request) = window.find(answered.parsed.psn.minus(1)).and_then(taken)?;
                (at, request, false)
            }
        };
        // A refused request is not complete.
        let least = request.messages - u32::from(is_refused_itself && request.asks().ends());
        // The MSN may include a READ as soon as the responder accepts the READ. The responder does not accept an
        // invalid READ.
        let code = answered.parsed.syndrome().map(|syndrome| syndrome.kind());
        let is_invalid = is_refused_itself && code == Some(SyndromeKind::Nak(NakCode::INVALID_REQUEST));
        let may_count = request.asks().returns_data() || window.owes_from(at);
        let most = if may_count && !(is_invalid && answered.found.is_some_and(|(_, into)| into == 0)) {
            all(request.epoch, request.messages)?
        } else {
            least
        };
        return Some((request.epoch, least, most));
    }
    let (_, request) = answered.found.and_then(taken)?;
    let messages = request.messages;
    match answered.says {
        // The rule `response-kind` covers a response to another kind of request.
        ResponseKind::Read(_) | ResponseKind::Atomic if !request.asks().returns_data() => None,
        ResponseKind::Ack if window.awaits_responses() => {
            Some((request.epoch, messages, all(request.epoch, messages)?))
        }
        // The ACK of a duplicate also counts the messages completed after the original.
        ResponseKind::Ack => Some((
            request.epoch,
            messages,
            acknowledged(answered, request).unwrap_or(messages),
        )),
        ResponseKind::Read(Part::First) => Some((request.epoch, messages - 1, all(request.epoch, messages)?)),
        ResponseKind::Read(_) | ResponseKind::Atomic => Some((request.epoch, messages, all(request.epoch, messages)?)),
        _ => None,
    }
}

/// Returns the message count of the newest acknowledged request, if that request is newer than `request`.
fn acknowledged(answered: &Answered<'_>, request: &Request) -> Option<u32> {
    let (newest, _) = answered.responses.acknowledged?;
    let (at, _) = Some(newest)
        .filter(|newest| !is_up_to(*newest, answered.parsed.psn))
        .and_then(|newest| answered.window.find(newest))?;
    let newest = answered.window.get(at);
    (newest.is_taken && newest.epoch == request.epoch && newest.messages > request.messages).then_some(newest.messages)
}

/// Returns the offset of the responder's count that this response alone implies.
pub(crate) fn offset(answered: &Answered<'_>) -> Option<Offset> {
    let msn = answered.parsed.aeth()?.msn();
    let (epoch, least, most) = counted(answered)?;
    Some(Offset {
        epoch,
        least: Psn::new(msn).minus(most).0,
        room: most - least,
        number: answered.parsed.number,
        of: most,
        is_sure: false,
        is_exact: most == least,
    })
}

/// Returns the offset that both responses allow; `None` if they contradict each other.
pub(crate) fn both(earlier: &Offset, later: &Offset) -> Option<Offset> {
    let from = Psn(later.least).since(Psn(earlier.least));
    let (least, room) = if from < Psn::COUNT / 2 {
        (later.least, earlier.room.checked_sub(from)?.min(later.room))
    } else {
        (
            earlier.least,
            later.room.checked_sub(Psn::COUNT - from)?.min(earlier.room),
        )
    };
    // A single response proves nothing, because it may answer a request from before the capture. Two responses prove
    // the offset only if the checks' own count differs (`of`) and each response alone gives one exact value.
    // Overlapping intervals could agree by chance.
    let is_sure = earlier.is_sure || earlier.of != later.of && earlier.is_exact && later.is_exact;
    Some(Offset {
        least,
        room,
        is_sure,
        is_exact: earlier.is_exact || later.is_exact,
        ..*later
    })
}

/// Returns whether the smallest offset that the later response allows is the same as the earlier one's, or higher.
fn is_above(earlier: &Offset, later: &Offset) -> bool {
    Psn(later.least).since(Psn(earlier.least)) < Psn::COUNT / 2
}

/// Returns whether the response may count requests after the request that it answers.
fn may_be_ahead(answered: &Answered<'_>) -> bool {
    match answered.says {
        ResponseKind::Read(_) | ResponseKind::Atomic => true,
        ResponseKind::Ack => answered.window.awaits_responses(),
        _ => false,
    }
}

pub(super) fn msn(answered: &Answered<'_>) -> Outcome {
    let (Some(earlier), Some(later)) = (&answered.responses.offset, offset(answered)) else {
        return Outcome::NotAsked;
    };
    let Some((epoch, least, most)) = counted(answered).filter(|(epoch, ..)| *epoch == earlier.epoch) else {
        return Outcome::NotAsked;
    };
    debug_assert_eq!(epoch, later.epoch);
    let before = answered.responses.offset_before.filter(|before| before.epoch == epoch);
    let goes_on = [Some(*earlier), before]
        .into_iter()
        .flatten()
        .any(|known| both(&known, &later).is_some());
    let held = Outcome::must(goes_on, || {
        let first = Psn(earlier.least).plus(least).0;
        let last = Psn(earlier.least).plus(most + earlier.room).0;
        let expected = if first == last {
            format!("MSN {first}")
        } else {
            format!("MSN {first} to {last}")
        };
        (expected, format!("MSN {}", Psn(later.least).plus(most).0))
    });
    // A malformed request may have been altered after it was sent; its original is unknown.
    match answered.responses.odd {
        Some((psn, number)) if is_up_to(psn, answered.parsed.psn) => held.with(number).unless(Excuse::RequestAltered),
        // A repeated response counts all messages since the original, including unseen messages. The MSN may also
        // include a later READ or atomic as soon as the responder accepts that request.
        _ if is_above(earlier, &later) && (answered.window.is_asked_again() || may_be_ahead(answered)) => {
            held.with(earlier.number).unless(Excuse::NewestLost)
        }
        // The responder may have counted the request before the capture began.
        _ if !earlier.is_sure && !is_above(earlier, &later) => held.with(earlier.number).unless(Excuse::CameBefore),
        _ => held.with(earlier.number),
    }
}

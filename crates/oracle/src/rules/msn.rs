//! The MSN: what a responder counts, and what is known of its count.

use verbatim_wire::NakCode;
use verbatim_wire::packet::{Psn, SyndromeKind};

use super::responder::{Answered, ResponseKind};
use crate::parsed::Part;
use crate::request::Request;
use crate::responses::{Offset, is_up_to};
use crate::rule::{Excuse, Outcome};

/// In which count, and the fewest and the most messages of it that the MSN may stand for; see [`Request::messages`].
fn counted(answered: &Answered<'_>) -> Option<(u32, u32, u32)> {
    let window = answered.window;
    let all = |epoch, at_least: u32| window.messages_of(epoch).map(|all| all.max(at_least));
    let taken = |(at, _)| Some((at, window.get(at))).filter(|(_, request)| request.is_taken);
    if answered.says.is_refusal() {
        let (at, request, is_refused_itself) = match answered.found.and_then(taken) {
            Some((at, request)) => (at, request, true),
            // It is missing, so the one before it is the last that is complete.
            None => {
                let (at, request) = window.find(answered.parsed.psn.minus(1)).and_then(taken)?;
                (at, request, false)
            }
        };
        // What is refused is not complete.
        let least = request.messages - u32::from(is_refused_itself && request.asks().ends());
        // A READ may count when it is accepted: what is invalid is not.
        let code = answered.parsed.syndrome().map(|syndrome| syndrome.kind());
        let is_invalid = is_refused_itself && code == Some(SyndromeKind::Nak(NakCode::INVALID_REQUEST));
        let may_count = request.asks().has_response() || window.owes_from(at);
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
        // Of a response to another kind of request its own rule speaks.
        ResponseKind::Read(_) | ResponseKind::Atomic if !request.asks().has_response() => None,
        ResponseKind::Ack if window.awaits_responses() => {
            Some((request.epoch, messages, all(request.epoch, messages)?))
        }
        // That of a duplicate has what was counted since, too.
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

/// The messages that were complete with the newest request that was acknowledged, where that is newer than this one.
fn acknowledged(answered: &Answered<'_>, request: &Request) -> Option<u32> {
    let (newest, _) = answered.responses.acknowledged?;
    let (at, _) = Some(newest)
        .filter(|newest| !is_up_to(*newest, answered.parsed.psn))
        .and_then(|newest| answered.window.find(newest))?;
    let newest = answered.window.get(at);
    (newest.is_taken && newest.epoch == request.epoch && newest.messages > request.messages).then_some(newest.messages)
}

/// What the responder had counted before our own count began, by this response alone.
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

/// What two responses together say of it; `None` when both cannot be.
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
    // Of one that leaves room both agree in any case: it may be older than all that was seen.
    let is_sure = earlier.is_sure || earlier.of != later.of && earlier.is_exact && later.is_exact;
    Some(Offset {
        least,
        room,
        is_sure,
        is_exact: earlier.is_exact || later.is_exact,
        ..*later
    })
}

/// Whether the later one has counted more.
fn is_above(earlier: &Offset, later: &Offset) -> bool {
    Psn(later.least).since(Psn(earlier.least)) < Psn::COUNT / 2
}

/// Whether it may count requests behind the one that it answers.
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
    // Of what a request that breaks rules was when it was sent, its packet says nothing.
    match answered.responses.odd {
        Some((psn, number)) if is_up_to(psn, answered.parsed.psn) => held.with(number).unless(Excuse::RequestAltered),
        // What is answered again is answered with all that was counted since, be it of requests that were not seen; and a READ or
        // atomic behind it may count when it is accepted.
        _ if is_above(earlier, &later) && (answered.window.is_asked_again() || may_be_ahead(answered)) => {
            held.with(earlier.number).unless(Excuse::NewestLost)
        }
        // What came again was counted before all that was seen.
        _ if !earlier.is_sure && !is_above(earlier, &later) => held.with(earlier.number).unless(Excuse::CameBefore),
        _ => held.with(earlier.number),
    }
}

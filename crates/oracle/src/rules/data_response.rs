//! Rules for responses with data, to READs and atomics.

use super::requester::fits;
use super::responder::{Answered, ResponseKind};
use crate::parsed::{Part, RequestKind};
use crate::request::Request;
use crate::rule::{Excuse, Outcome};

pub(super) fn response_kind(answered: &Answered<'_>) -> Outcome {
    let Some((request, into)) = answered.request().filter(|(request, _)| request.is_taken) else {
        return Outcome::NotAsked;
    };
    // The responder answers FLUSH and ATOMIC WRITE like a zero-length READ.
    let is_answered_alike = matches!(request.opcode.0, 0x1C | 0x1D) && answered.parsed.length == 0;
    let is_so = match answered.says {
        ResponseKind::Read(Part::Only) if is_answered_alike => true,
        ResponseKind::Read(_) => request.asks() == RequestKind::Read,
        ResponseKind::Atomic => request.asks() == RequestKind::Atomic,
        _ => return Outcome::NotAsked,
    };
    let held = Outcome::must(is_so, || {
        (format!("a response to {}", request.opcode), answered.parsed.opcode)
    })
    .with(request.number);
    unless_of_another(held, request, into)
}

/// Excuses a response inside a READ of uncertain size: the response may answer a request that the capture lacks.
fn unless_of_another(held: Outcome, request: &Request, into: u32) -> Outcome {
    if into > 0 && request.is_open() {
        held.unless(Excuse::RequestsLost)
    } else {
        held
    }
}

pub(super) fn responses_in_order(answered: &Answered<'_>) -> Outcome {
    let Some(((request, into), (at, _))) = answered.request().zip(answered.found) else {
        return Outcome::NotAsked;
    };
    if let Some(owed) = answered.window.owed_before(at) {
        let owed = answered.window.get(owed);
        return Outcome::must(false, || {
            let expected = format!("response {} to {} PSN {}", owed.next_response, owed.opcode, owed.psn);
            (
                expected,
                format!("{} PSN {}", answered.parsed.opcode, answered.parsed.psn),
            )
        })
        .with(owed.number)
        .unless(Excuse::ResponsesLost);
    }
    match answered.says {
        ResponseKind::Ack if request.is_owed() => Outcome::must(false, || {
            (format!("a response to {}", request.opcode), answered.parsed.opcode)
        })
        .with(request.number)
        .unless(Excuse::ResponsesLost),
        ResponseKind::Read(_) | ResponseKind::Atomic if request.asks().returns_data() => {
            let is_left_out = into > request.response_cursor;
            let excuse = if is_left_out {
                Excuse::ResponsesLost
            } else {
                Excuse::RequestsLost
            };
            Outcome::must(into == request.response_cursor || request.is_asked_from(into), || {
                let expected = format!("response {} to PSN {}", request.response_cursor, request.psn);
                (expected, format!("response {into}"))
            })
            .with(request.number)
            .unless(excuse)
        }
        _ => Outcome::Holds,
    }
}

pub(super) fn read_response_opcode(answered: &Answered<'_>) -> Outcome {
    let (Some((request, into)), ResponseKind::Read(part)) = (answered.request(), answered.says) else {
        return Outcome::NotAsked;
    };
    if request.asks() != RequestKind::Read {
        return Outcome::NotAsked;
    }
    let may_begin = into == 0 || request.is_asked_from(into);
    let may_go_on = into > 0 && into == request.response_cursor;
    let is_last = (request.psns > 0).then(|| into + 1 == request.psns);
    let begins = matches!(part, Part::First | Part::Only);
    let ends = matches!(part, Part::Last | Part::Only);
    // The rule `responses-in-order` covers a response that is out of order.
    if !may_begin && !may_go_on {
        return Outcome::NotAsked;
    }
    let ends_rightly = is_last.is_none_or(|is_last| is_last == ends);
    let begins_rightly = if begins { may_begin } else { may_go_on };
    let held = Outcome::must(begins_rightly && ends_rightly, || {
        let expected = match (may_begin, is_last) {
            (true, Some(true)) => "Only",
            (true, _) => "First",
            (false, Some(true)) => "Last",
            (false, _) => "Middle",
        };
        (format!("RC RDMA READ Response {expected}"), answered.parsed.opcode)
    });
    // If a First or Only comes at the wrong PSN, the capture may lack a retransmission of the READ. If a Middle or Last
    // does, the capture may lack responses.
    let held = match begins {
        true if ends_rightly => held.unless(Excuse::RequestsLost),
        false if ends_rightly && into > 0 => held.unless(Excuse::ResponsesLost),
        // The response may be the last of an earlier READ that the capture lacks.
        false
            if ends_rightly
                && answered
                    .found
                    .is_some_and(|(at, _)| answered.window.before(at).is_none()) =>
        {
            held.unless(Excuse::RequestsLost)
        }
        _ => held,
    };
    // The PSN of the next request contradicts the length of the READ: one of the two requests has a wrong PSN.
    let is_cut = matches!(answered.window.pmtu.psns(request.bytes), Some(psns) if psns != request.psns);
    // The READ's size was derived from the next request, but a request between them may have been lost.
    let is_shorter = request.is_inferred && ends;
    let held = if is_cut || is_shorter {
        held.unless(Excuse::RequestsLost)
    } else {
        held
    };
    held.with(request.number)
}

pub(super) fn read_response_length(answered: &Answered<'_>) -> Outcome {
    let (Some((request, into)), ResponseKind::Read(part)) = (answered.request(), answered.says) else {
        return Outcome::NotAsked;
    };
    if request.asks() != RequestKind::Read {
        return Outcome::NotAsked;
    }
    let (pmtu, length) = (answered.window.pmtu, answered.parsed.length);
    let left = |size: u32| request.bytes.saturating_sub(into.saturating_mul(size));
    let is_so = pmtu.sizes().any(|size| match part {
        Part::First | Part::Middle => length == size && left(size) > size,
        Part::Last | Part::Only => length == left(size) && fits(Part::Only, length, size),
    });
    let held = Outcome::must(is_so, || {
        let expected = match part {
            Part::First | Part::Middle => format!("the path MTU of {pmtu} bytes"),
            _ => pmtu
                .known()
                .map_or("the remaining bytes of the READ".into(), |size| left(size).to_string()),
        };
        (expected, length)
    })
    .with(request.number);
    unless_of_another(held, request, into)
}

pub(super) fn atomic_again(answered: &Answered<'_>) -> Outcome {
    let Some((request, _)) = answered.request() else {
        return Outcome::NotAsked;
    };
    let (Some((first, number)), Some(again)) = (request.original, answered.parsed.packet.atomic_ack()) else {
        return Outcome::NotAsked;
    };
    let again = again.original().0;
    Outcome::must(first == again, || {
        (format!("original {first:#018x}"), format!("{again:#018x}"))
    })
    .with(number)
}

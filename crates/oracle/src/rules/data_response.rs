//! Rules of the responses that carry data: of READs and atomics.

use super::requester::fits;
use super::responder::{Answered, Says};
use crate::heard::{Asks, Part};
use crate::request::Request;
use crate::rule::{Excuse, Held};

pub(super) fn response_kind(answered: &Answered<'_>) -> Held {
    let Some((request, into)) = answered.request().filter(|(request, _)| request.is_taken) else {
        return Held::NotAsked;
    };
    // FLUSH and ATOMIC WRITE are answered as a READ of no bytes would be.
    let is_answered_alike = matches!(request.opcode.0, 0x1C | 0x1D) && answered.heard.length == 0;
    let is_so = match answered.says {
        Says::Read(Part::Only) if is_answered_alike => true,
        Says::Read(_) => request.asks() == Asks::Read,
        Says::Atomic => request.asks() == Asks::Atomic,
        _ => return Held::NotAsked,
    };
    let held = Held::must(is_so, || {
        (format!("a response to {}", request.opcode), answered.heard.opcode)
    })
    .with(request.number);
    unless_of_another(held, request, into)
}

/// What comes behind the first PSN of a READ of which nobody knows how many it takes may be of a request that was not seen.
fn unless_of_another(held: Held, request: &Request, into: u32) -> Held {
    if into > 0 && request.is_open() {
        held.unless(Excuse::RequestsLost)
    } else {
        held
    }
}

pub(super) fn responses_in_order(answered: &Answered<'_>) -> Held {
    let Some(((request, into), (at, _))) = answered.request().zip(answered.found) else {
        return Held::NotAsked;
    };
    if let Some(owed) = answered.window.owed_before(at) {
        let owed = answered.window.get(owed);
        return Held::must(false, || {
            let expected = format!("response {} to {} PSN {}", owed.next_response, owed.opcode, owed.psn);
            (
                expected,
                format!("{} PSN {}", answered.heard.opcode, answered.heard.psn),
            )
        })
        .with(owed.number)
        .unless(Excuse::ResponsesLost);
    }
    match answered.says {
        Says::Ack if request.is_owed() => Held::must(false, || {
            (format!("a response to {}", request.opcode), answered.heard.opcode)
        })
        .with(request.number)
        .unless(Excuse::ResponsesLost),
        Says::Read(_) | Says::Atomic if request.asks().has_response() => {
            let is_left_out = into > request.response_cursor;
            let excuse = if is_left_out {
                Excuse::ResponsesLost
            } else {
                Excuse::RequestsLost
            };
            Held::must(into == request.response_cursor || request.is_asked_from(into), || {
                let expected = format!("response {} to PSN {}", request.response_cursor, request.psn);
                (expected, format!("response {into}"))
            })
            .with(request.number)
            .unless(excuse)
        }
        _ => Held::Holds,
    }
}

pub(super) fn read_response_opcode(answered: &Answered<'_>) -> Held {
    let (Some((request, into)), Says::Read(part)) = (answered.request(), answered.says) else {
        return Held::NotAsked;
    };
    if request.asks() != Asks::Read {
        return Held::NotAsked;
    }
    let may_begin = into == 0 || request.is_asked_from(into);
    let may_go_on = into > 0 && into == request.response_cursor;
    let is_last = (request.psns > 0).then(|| into + 1 == request.psns);
    let begins = matches!(part, Part::First | Part::Only);
    let ends = matches!(part, Part::Last | Part::Only);
    // A response that is out of order for another reason is not judged by its place.
    if !may_begin && !may_go_on {
        return Held::NotAsked;
    }
    let ends_rightly = is_last.is_none_or(|is_last| is_last == ends);
    let begins_rightly = if begins { may_begin } else { may_go_on };
    let held = Held::must(begins_rightly && ends_rightly, || {
        let expected = match (may_begin, is_last) {
            (true, Some(true)) => "Only",
            (true, _) => "First",
            (false, Some(true)) => "Last",
            (false, _) => "Middle",
        };
        (format!("RC RDMA READ Response {expected}"), answered.heard.opcode)
    });
    // The READ may have come again from there, or its responses begun again, with packets that were not seen.
    let held = match begins {
        true if ends_rightly => held.unless(Excuse::RequestsLost),
        false if ends_rightly && into > 0 => held.unless(Excuse::ResponsesLost),
        // It may be the tail of one that was not seen, whose responses are on their way still.
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
    // One that would reach into what follows it was cut short here: either has not the PSN that it was sent with.
    let is_cut = matches!(answered.window.pmtu.psns(request.bytes), Some(psns) if psns != request.psns);
    // What came next may have been more than that: something between them was lost.
    let is_shorter = request.is_inferred && ends;
    let held = if is_cut || is_shorter {
        held.unless(Excuse::RequestsLost)
    } else {
        held
    };
    held.with(request.number)
}

pub(super) fn read_response_length(answered: &Answered<'_>) -> Held {
    let (Some((request, into)), Says::Read(part)) = (answered.request(), answered.says) else {
        return Held::NotAsked;
    };
    if request.asks() != Asks::Read {
        return Held::NotAsked;
    }
    let (pmtu, length) = (answered.window.pmtu, answered.heard.length);
    let left = |size: u32| request.bytes.saturating_sub(into.saturating_mul(size));
    let is_so = pmtu.sizes().any(|size| match part {
        Part::First | Part::Middle => length == size && left(size) > size,
        Part::Last | Part::Only => length == left(size) && fits(Part::Only, length, size),
    });
    let held = Held::must(is_so, || {
        let expected = match part {
            Part::First | Part::Middle => format!("the path MTU of {pmtu} bytes"),
            _ => pmtu
                .known()
                .map_or("what is left".into(), |size| left(size).to_string()),
        };
        (expected, length)
    })
    .with(request.number);
    unless_of_another(held, request, into)
}

pub(super) fn atomic_again(answered: &Answered<'_>) -> Held {
    let Some((request, _)) = answered.request() else {
        return Held::NotAsked;
    };
    let (Some((first, number)), Some(again)) = (request.original, answered.heard.packet.atomic_ack()) else {
        return Held::NotAsked;
    };
    let again = again.original().0;
    Held::must(first == again, || {
        (format!("original {first:#018x}"), format!("{again:#018x}"))
    })
    .with(number)
}

//! Rules for the responder: the responses that it may send next.
//!
//! Source: architecture 9.7.4.1 (duplicates), 9.7.5.1 (acknowledgements), 9.7.5.2 (NAKs), 9.7.7.1 (MSN), 9.9.3; Linux
//! rxe and rdmavt.

use verbatim_wire::NakCode;
use verbatim_wire::packet::{Opcode, SyndromeKind};

use super::{data_response, msn};
use crate::parsed::{Parsed, Part, RequestKind};
use crate::request::{Invalid, Request};
use crate::responses::{Responses, is_up_to};
use crate::rule::{Excuse, Outcome, Rule};
use crate::window::Window;

/// Kind of a response, by opcode and syndrome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseKind {
    /// An ACK: the responder executed all requests up to the PSN.
    Ack,
    /// An RNR NAK: the responder is not ready, for example because a receive is missing.
    Rnr,
    /// A PSN sequence error NAK: the responder expected this PSN and received a later PSN.
    Sequence,
    /// A NAK that ends the connection.
    Fatal,
    Read(Part),
    Atomic,
    /// A response without a defined meaning.
    Nothing,
}

impl ResponseKind {
    pub(crate) fn of(parsed: &Parsed<'_>) -> Self {
        match parsed.opcode {
            Opcode::RC_READ_RESPONSE_FIRST => return Self::Read(Part::First),
            Opcode::RC_READ_RESPONSE_MIDDLE => return Self::Read(Part::Middle),
            Opcode::RC_READ_RESPONSE_LAST => return Self::Read(Part::Last),
            Opcode::RC_READ_RESPONSE_ONLY => return Self::Read(Part::Only),
            Opcode::RC_ATOMIC_ACKNOWLEDGE => return Self::Atomic,
            _ => {}
        }
        match parsed.syndrome().map(|syndrome| syndrome.kind()) {
            Some(SyndromeKind::Ack(_)) => Self::Ack,
            Some(SyndromeKind::RnrNak(_)) => Self::Rnr,
            Some(SyndromeKind::Nak(NakCode::PSN_SEQUENCE_ERROR)) => Self::Sequence,
            Some(SyndromeKind::Nak(NakCode(1..=3))) => Self::Fatal,
            _ => Self::Nothing,
        }
    }

    pub(super) fn is_refusal(self) -> bool {
        matches!(self, Self::Rnr | Self::Sequence | Self::Fatal)
    }
}

/// Facts that a responder rule needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) parsed: &'a Parsed<'a>,
    pub(crate) says: ResponseKind,
    /// Index of the request with the PSN of the response, and the offset of the PSN in it.
    pub(crate) found: Option<(usize, u32)>,
    /// Requests seen so far.
    pub(crate) window: &'a Window,
    /// Responses before this response.
    pub(crate) responses: &'a Responses,
}

impl<'a> Answered<'a> {
    pub(super) fn request(&self) -> Option<(&'a Request, u32)> {
        self.found.map(|(at, into)| (self.window.get(at), into))
    }
}

pub(crate) type ResponderRule = fn(&Answered<'_>) -> Outcome;

pub(crate) static RULES: &[(Rule, ResponderRule)] = &[
    (Rule::AnswersARequest, answers_a_request),
    (Rule::ResponseKind, data_response::response_kind),
    (Rule::ResponsesInOrder, data_response::responses_in_order),
    (Rule::ReadResponseOpcode, data_response::read_response_opcode),
    (Rule::ReadResponseLength, data_response::read_response_length),
    (Rule::AtomicAgain, data_response::atomic_again),
    (Rule::AcknowledgementOrder, acknowledgement_order),
    (Rule::DamagedRequest, damaged_request),
    (Rule::InvalidRequest, invalid_request),
    (Rule::RemoteAccess, remote_access),
    (Rule::NakCode, nak_code),
    (Rule::RefusalReason, |answered| refusal_reason(answered, false)),
    (Rule::AccessReason, |answered| refusal_reason(answered, true)),
    (Rule::Msn, msn::msn),
    (Rule::SequenceNak, sequence_nak),
    (Rule::SequenceNakOnce, sequence_nak_once),
    (Rule::RetryBeforeAck, retry_before_ack),
    (Rule::AfterRefusal, after_refusal),
];

fn answers_a_request(answered: &Answered<'_>) -> Outcome {
    let Some(next) = answered.window.next else {
        return Outcome::NotAsked;
    };
    let psn = answered.parsed.psn;
    // A request with a PSN far ahead also causes a sequence NAK, which carries the expected PSN.
    let is_due = answered.window.stray == Some(psn);
    let is_gap = answered.says == ResponseKind::Sequence && (is_due || !answered.window.is_beyond(psn));
    Outcome::must(answered.found.is_some() || is_gap, || {
        (
            format!("the PSN of a sent request, before {next}"),
            format!("PSN {psn}"),
        )
    })
    // A sequence NAK may name a request that the capture lacks. Any other response with a PSN after all captured
    // requests answers a newer request. A response with a PSN before all captured requests answers an old duplicate.
    .unless(match answered.says {
        ResponseKind::Sequence => Excuse::RequestsLost,
        _ if answered.window.is_beyond(psn) => Excuse::NewestLost,
        _ => Excuse::RequestsLost,
    })
}

fn acknowledgement_order(answered: &Answered<'_>) -> Outcome {
    let Some((newest, number)) = answered.responses.acknowledged else {
        return Outcome::NotAsked;
    };
    let psn = answered.parsed.psn;
    let is_so = match answered.says {
        // While READs or atomics await responses, the responder may repeat ACKs of earlier requests.
        ResponseKind::Ack if answered.window.awaits_responses() => return Outcome::NotAsked,
        ResponseKind::Ack => is_up_to(newest, psn),
        // A READ may fail after some of its responses, and a repeated READ even after all of them.
        ResponseKind::Fatal
            if answered
                .request()
                .is_some_and(|(request, _)| request.asks() == RequestKind::Read) =>
        {
            return Outcome::NotAsked;
        }
        says if says.is_refusal() => !is_up_to(psn, newest),
        _ => return Outcome::NotAsked,
    };
    Outcome::must(is_so, || {
        let expected = if answered.says == ResponseKind::Ack {
            format!("an ACK of PSN {newest} or later")
        } else {
            format!("a NAK of a PSN after {newest}")
        };
        (expected, format!("PSN {psn}"))
    })
    .with(number)
    .unless(Excuse::Reordered)
}

/// Returns the requests that this response is the first to acknowledge; `None` if the response acknowledges
/// nothing.
fn newly_acknowledged<'a>(answered: &Answered<'a>) -> Option<impl Iterator<Item = &'a Request>> {
    let (Some((to, _)), ResponseKind::Ack | ResponseKind::Read(_) | ResponseKind::Atomic) =
        (answered.found, answered.says)
    else {
        return None;
    };
    let newest = answered.responses.acknowledged;
    let from = match newest.map(|(psn, _)| answered.window.find(psn)) {
        Some(Some((at, _))) => at + 1,
        _ => to,
    };
    let window = answered.window;
    Some((from..=to).map(|at| window.get(at)))
}

fn invalid_request(answered: &Answered<'_>) -> Outcome {
    if let (ResponseKind::Fatal, Some((request, 0))) = (answered.says, answered.request()) {
        return request.invalid.map_or(Outcome::NotAsked, |_| Outcome::Holds);
    }
    let must_be_refused = |request: &&Request| !matches!(request.invalid, None | Some(Invalid::Ends));
    let taken = newly_acknowledged(answered).and_then(|mut taken| taken.find(must_be_refused));
    let Some((request, invalid)) = taken.and_then(|request| Some((request, request.invalid?))) else {
        return Outcome::NotAsked;
    };
    let held = Outcome::must(false, || {
        let why = match invalid {
            Invalid::Breaks(rule) => format!("which breaks the rule {rule}"),
            Invalid::Unaligned => format!("whose address {:#x} is not a multiple of 8", request.target.0),
            Invalid::NotAllowed(why) => why.to_string(),
            Invalid::Ends => String::new(),
        };
        (
            format!(
                "NAK {} of {} PSN {}, {why}",
                NakCode::INVALID_REQUEST,
                request.opcode,
                request.psn
            ),
            format!("{} PSN {}", answered.parsed.opcode, answered.parsed.psn),
        )
    })
    .with(request.number);
    match invalid {
        Invalid::Breaks(_) => held.unless(Excuse::RequestAltered),
        Invalid::Unaligned | Invalid::NotAllowed(_) | Invalid::Ends => held,
    }
}

fn remote_access(answered: &Answered<'_>) -> Outcome {
    if let (ResponseKind::Fatal, Some((request, 0))) = (answered.says, answered.request()) {
        return request.denied.map_or(Outcome::NotAsked, |_| Outcome::Holds);
    }
    let taken = newly_acknowledged(answered).and_then(|mut taken| taken.find(|request| request.denied.is_some()));
    let Some((request, why)) = taken.and_then(|request| Some((request, request.denied?))) else {
        return Outcome::NotAsked;
    };
    Outcome::must(false, || {
        let code = NakCode::REMOTE_ACCESS;
        (
            format!("NAK {code} of {} PSN {}, {why}", request.opcode, request.psn),
            format!("{} PSN {}", answered.parsed.opcode, answered.parsed.psn),
        )
    })
    .with(request.number)
}

fn nak_code(answered: &Answered<'_>) -> Outcome {
    let (ResponseKind::Fatal, Some((at, 0))) = (answered.says, answered.found) else {
        return Outcome::NotAsked;
    };
    let request = answered.window.get(at);
    let seen = match answered.parsed.syndrome().map(|syndrome| syndrome.kind()) {
        Some(SyndromeKind::Nak(code)) => code,
        _ => return Outcome::NotAsked,
    };
    let of_message = request.invalid.map(|_| NakCode::INVALID_REQUEST);
    let of_memory = request.denied.map(|_| NakCode::REMOTE_ACCESS);
    // A READ or atomic beyond the responder's limit of outstanding READs and atomics is an invalid request, too.
    let is_one_more = answered.window.may_be_one_more(at);
    let of_resources = is_one_more.then_some(NakCode::INVALID_REQUEST);
    let allowed: Vec<NakCode> = match (of_message, of_memory) {
        (None, None) => return Outcome::NotAsked,
        _ => [of_message, of_memory, of_resources].into_iter().flatten().collect(),
    };
    let held = Outcome::must(allowed.contains(&seen), || {
        let words: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let of = format!("{} PSN {}", request.opcode, request.psn);
        (format!("NAK {} of {of}", words.join(" or ")), format!("NAK {seen}"))
    })
    .with(request.number);
    match request.invalid {
        Some(Invalid::Breaks(_) | Invalid::Ends) => held.unless(Excuse::RequestAltered),
        _ => held,
    }
}

/// Checks that a NAK that ends the connection has a reason. `is_of_access`: checks only remote access errors;
/// otherwise, all other codes.
fn refusal_reason(answered: &Answered<'_>, is_of_access: bool) -> Outcome {
    let (ResponseKind::Fatal, Some((at, 0))) = (answered.says, answered.found) else {
        return Outcome::NotAsked;
    };
    let code = answered.parsed.syndrome().map(|syndrome| syndrome.kind());
    if is_of_access != (code == Some(SyndromeKind::Nak(NakCode::REMOTE_ACCESS))) {
        return Outcome::NotAsked;
    }
    let request = answered.window.get(at);
    let is_of_memory = request.asks().returns_data() || matches!(request.asks(), RequestKind::Write(_));
    // The NAK may concern the receive for immediate data, or the limit of outstanding READs and atomics. That limit
    // is not known exactly.
    let takes_receive = [Opcode::RC_WRITE_ONLY_IMM, Opcode::RC_WRITE_LAST_IMM].contains(&request.opcode);
    let may_be_of_receive = takes_receive && code == Some(SyndromeKind::Nak(NakCode::REMOTE_OPERATIONAL));
    let is_one_more = answered.window.may_be_one_more(at);
    // The access check of the first packet applies to the whole message.
    let Some(message) = answered
        .window
        .message_until(at)
        .filter(|_| is_of_memory && !may_be_of_receive && !is_one_more)
    else {
        return Outcome::NotAsked;
    };
    let is_sound = |of: &Request| !of.is_odd && (of.asks() != RequestKind::Atomic || of.target.0.is_multiple_of(8));
    let has_reason = |of: &Request| !is_sound(of) || of.invalid.is_some() || of.denied.is_some();
    let is_allowed = message.first().is_some_and(|first| first.is_allowed) && message.iter().all(|of| of.is_taken);
    match message.iter().any(|of| has_reason(of)) {
        true => return Outcome::Holds,
        false if !is_allowed => return Outcome::NotAsked,
        false => {}
    }
    Outcome::must(false, || {
        let expected = format!(
            "execution of {} PSN {}, which memory and queue pair allow",
            request.opcode, request.psn
        );
        let code = answered.parsed.syndrome().map(|syndrome| syndrome.to_string());
        (expected, code.unwrap_or_default())
    })
    .with(request.number)
}

fn damaged_request(answered: &Answered<'_>) -> Outcome {
    let Some(mut taken) = newly_acknowledged(answered) else {
        return Outcome::NotAsked;
    };
    let Some(damaged) = taken.find(|request| !request.is_taken) else {
        return Outcome::Holds;
    };
    Outcome::must(false, || {
        let expected = format!(
            "no acknowledgement of PSN {}, whose packet must be discarded",
            damaged.psn
        );
        (expected, format!("a response with PSN {}", answered.parsed.psn))
    })
    .with(damaged.number)
    .unless(Excuse::RequestsLost)
}

fn sequence_nak(answered: &Answered<'_>) -> Outcome {
    let (ResponseKind::Sequence, Some(next)) = (answered.says, answered.window.next) else {
        return Outcome::NotAsked;
    };
    let psn = answered.parsed.psn;
    let is_due = answered.window.stray == Some(psn);
    if is_due && !answered.window.stray_is_answered {
        // The request with this PSN was missing when the request far ahead arrived, and may have arrived since.
        return Outcome::Holds;
    }
    let put_off = answered.responses.rnr.as_ref();
    if let Some(rnr) = put_off.filter(|rnr| rnr.psn == psn && rnr.was_newest && !rnr.is_asked_again) {
        // The request arrived and got an RNR NAK. The responder ignores later requests until that request comes again.
        return Outcome::must(false, || {
            let expected = format!("no response until PSN {psn}, which got an RNR NAK, is sent again");
            (expected, format!("a sequence NAK of PSN {psn}"))
        })
        .with(rnr.number)
        // The capture may lack the newest requests. A conforming requester repeats the refused request first, so the
        // capture then lacks that repetition, too.
        .unless(Excuse::NewestLost);
    }
    if !is_due && answered.window.is_beyond(psn.next()) {
        return Outcome::must(false, || {
            (
                format!("a PSN before the newest PSN, {}", next.minus(1)),
                format!("PSN {psn}"),
            )
        })
        // A request far ahead may have arrived before the request with this PSN, and so have caused the NAK.
        .unless(match answered.window.stray {
            None => Excuse::NewestLost,
            Some(_) => Excuse::RequestsLost,
        });
    }
    // After a gap, the responder drops all later requests. These count as missing until they are sent again.
    let was_dropped = |number: u64| {
        let behind = answered.responses.dropped_behind;
        behind.is_some_and(|(before, nak)| before != psn && is_up_to(before, psn) && number < nak)
    };
    match answered.request() {
        Some((request, _)) if request.is_taken && !was_dropped(request.last) => Outcome::must(false, || {
            ("the PSN of a missing request", format!("PSN {psn}, which was sent"))
        })
        .with(request.number)
        .unless(Excuse::NotArrived),
        _ => Outcome::Holds,
    }
}

fn sequence_nak_once(answered: &Answered<'_>) -> Outcome {
    if answered.says != ResponseKind::Sequence {
        return Outcome::NotAsked;
    }
    let before = answered.responses.sequence.as_ref();
    let Some(before) = before.filter(|before| before.psn == answered.parsed.psn) else {
        return Outcome::Holds;
    };
    Outcome::must(false, || {
        ("one NAK for the gap", format!("another NAK of PSN {}", before.psn))
    })
    .with(before.number)
    .unless(Excuse::Reordered)
}

fn retry_before_ack(answered: &Answered<'_>) -> Outcome {
    let psn = answered.parsed.psn;
    let executed_to = match answered.says {
        ResponseKind::Ack | ResponseKind::Read(_) | ResponseKind::Atomic => psn,
        ResponseKind::Rnr | ResponseKind::Sequence | ResponseKind::Fatal => psn.minus(1),
        ResponseKind::Nothing => return Outcome::NotAsked,
    };
    let refusals = || {
        let both = [&answered.responses.rnr, &answered.responses.sequence];
        let both = both.into_iter().flatten();
        both.filter(|refused| is_up_to(refused.psn, executed_to))
    };
    // If there are an RNR NAK and a sequence NAK, the one whose request was not sent again decides.
    let waits = refusals().find(|refused| !refused.is_asked_again);
    let Some(refused) = waits.or_else(|| refusals().next()) else {
        return Outcome::NotAsked;
    };
    Outcome::must(refused.is_asked_again, || {
        (
            format!("no acknowledgement until PSN {} is sent again", refused.psn),
            format!("{} PSN {}", answered.parsed.opcode, answered.parsed.psn),
        )
    })
    .with(refused.number)
    .unless(Excuse::RequestsLost)
}

fn after_refusal(answered: &Answered<'_>) -> Outcome {
    let Some(fatal) = &answered.responses.fatal else {
        return Outcome::NotAsked;
    };
    let held = Outcome::must(false, || {
        (
            "no response after the NAK that ended the connection",
            format!("{} PSN {}", answered.parsed.opcode, answered.parsed.psn),
        )
    })
    .with(fatal.number);
    // A response to a request that was sent after the NAK cannot have left before the NAK: reordering is no excuse.
    let is_later = answered
        .request()
        .is_some_and(|(request, _)| request.number > fatal.number);
    let is_behind = answered.parsed.psn != fatal.psn && is_up_to(fatal.psn, answered.parsed.psn);
    if is_later && is_behind {
        held
    } else {
        held.unless(Excuse::Reordered)
    }
}

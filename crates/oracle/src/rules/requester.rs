//! Rules for the requester: the requests that it may send next.
//!
//! Source: architecture 9.7.1 (PSNs), 9.7.3 (request generation), 9.7.5.2.8 (RNR), 9.7.7 (retries); Linux rxe and
//! rdmavt.

use verbatim_wire::Value;
use verbatim_wire::packet::SyndromeKind;

use crate::parsed::{Parsed, Part, QUEUED, RequestKind};
use crate::request::Request;
use crate::responses::{Responses, is_up_to};
use crate::rule::{Excuse, Outcome, Rule};
use crate::window::{Place, Source, Window};

/// Facts that a requester rule needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) parsed: &'a Parsed<'a>,
    pub(crate) place: Place,
    /// Requests before this request.
    pub(crate) window: &'a Window,
    /// Responses before this request.
    pub(crate) responses: &'a Responses,
}

impl<'a> Asked<'a> {
    /// Returns the request whose PSN directly precedes the PSN of this request.
    fn before(&self) -> Option<&'a Request> {
        match self.place {
            Place::Next => self.window.newest().filter(|newest| newest.is_taken),
            Place::Again(at, 0) => self.window.taken_before(at),
            _ => None,
        }
    }

    /// Returns an earlier, undamaged transmission of the same request, and the PSN offset of this packet in it.
    fn earlier(&self) -> Option<(&'a Request, u32)> {
        match self.place {
            Place::Again(at, into) => Some((self.window.get(at), into)),
            _ => None,
        }
        .filter(|(request, _)| request.is_taken)
    }
}

pub(crate) type RequesterRule = fn(&Asked<'_>) -> Outcome;

pub(crate) static RULES: &[(Rule, RequesterRule)] = &[
    (Rule::Psn, psn),
    (Rule::GoBack, go_back),
    (Rule::AcknowledgedAgain, acknowledged_again),
    (Rule::SameAgain, same_again),
    (Rule::OpcodeOrder, opcode_order),
    (Rule::PayloadLength, payload_length),
    (Rule::DmaLength, dma_length),
    (Rule::RnrInterval, rnr_interval),
];

/// Rules whose violation makes a request invalid, regardless of the responder's memory and access rights.
pub(crate) const OF_VALID_REQUESTS: [Rule; 3] = [Rule::OpcodeOrder, Rule::PayloadLength, Rule::DmaLength];

/// Returns whether the packet is an atomic whose address is no multiple of 8.
pub(crate) fn is_unaligned(parsed: &Parsed<'_>) -> bool {
    RequestKind::of(parsed.opcode) == RequestKind::Atomic
        && parsed.atomic().is_some_and(|atomic| !atomic.va().0.is_multiple_of(8))
}

fn psn(asked: &Asked<'_>) -> Outcome {
    let expected = asked.window.next.unwrap_or_default();
    let seen = asked.parsed.psn;
    match asked.place {
        Place::Beginning | Place::Again(..) => Outcome::NotAsked,
        Place::Next => Outcome::Holds,
        Place::Ahead(gap) => Outcome::must(false, || {
            (format!("PSN {expected}"), format!("PSN {seen}, {gap} ahead"))
        })
        .unless(Excuse::RequestsLost),
        Place::Hole => Outcome::must(false, || {
            (
                format!("PSN {expected}, or a PSN that was sent before"),
                format!("PSN {seen}, which was skipped"),
            )
        })
        .unless(Excuse::RequestsLost),
        Place::Old | Place::Far => Outcome::must(false, || {
            (format!("PSN {expected}, or one before it"), format!("PSN {seen}"))
        })
        .unless(Excuse::AnotherConnection),
    }
}

fn go_back(asked: &Asked<'_>) -> Outcome {
    let (Some(cursor), Some(next)) = (asked.window.cursor, asked.window.next) else {
        return Outcome::NotAsked;
    };
    let psn = asked.parsed.psn;
    let is_retrying = cursor != next;
    if !is_retrying || !matches!(asked.place, Place::Next | Place::Again(..)) || psn == cursor {
        return Outcome::NotAsked;
    }
    // The retransmission does not continue at `cursor`. A requester may go back to an earlier PSN, or skip forward over
    // acknowledged requests.
    let is_back = is_up_to(psn, cursor);
    let is_acknowledged = asked.responses.has_acknowledged(psn.minus(1));
    Outcome::must(is_back || is_acknowledged, || {
        (format!("PSN {cursor}, or one before it"), format!("PSN {psn}"))
    })
    .unless(Excuse::RequestsLost)
}

fn acknowledged_again(asked: &Asked<'_>) -> Outcome {
    let Some((request, into)) = asked.earlier() else {
        return Outcome::NotAsked;
    };
    // After a NAK, the requester may go back to a PSN before that of the NAK, and so repeat acknowledged requests.
    if asked.responses.sequence.is_some() || asked.responses.rnr.is_some() {
        return Outcome::NotAsked;
    }
    let is_done = match request.asks().returns_data() {
        true => request.psns != 0 && !request.is_owed() && !request.is_given_up,
        false => asked.responses.has_acknowledged(request.psn.plus(into)),
    };
    // A requester that repeats an unanswered READ may also repeat the requests after the READ, even acknowledged ones.
    let comes_with = asked.window.cursor == Some(asked.parsed.psn) && asked.window.next != asked.window.cursor;
    Outcome::must(!is_done || comes_with, || {
        (
            "an unacknowledged request",
            format!("PSN {}, which was acknowledged", asked.parsed.psn),
        )
    })
    .with(asked.responses.acknowledged_by())
    .unless(Excuse::NotArrived)
}

/// Returns whether a retransmission differs from the original, and no lost packet explains the difference.
pub(crate) fn differs(asked: &Asked<'_>) -> bool {
    let excuses = [None, Some(Excuse::MemoryChanged)];
    matches!(same_again(asked), Outcome::Broken(broken) if excuses.contains(&broken.unless))
}

/// Returns whether the requester repeats an acknowledged request without a cause.
pub(crate) fn is_unasked(asked: &Asked<'_>) -> bool {
    matches!(acknowledged_again(asked), Outcome::Broken(_))
}

/// Returns whether the path MTU forbids the packet's payload length.
pub(crate) fn has_no_such_size(asked: &Asked<'_>) -> bool {
    matches!(payload_length(asked), Outcome::Broken(_))
}

fn same_again(asked: &Asked<'_>) -> Outcome {
    let Some((request, into)) = asked.earlier() else {
        return Outcome::NotAsked;
    };
    let parsed = asked.parsed;
    let is_read = request.asks() == RequestKind::Read && parsed.opcode == request.opcode;
    if is_read && into > request.next_response {
        return Outcome::must(false, || {
            let expected = format!(
                "the READ from response {} on, the first missing response",
                request.next_response
            );
            (expected, format!("from response {into} on"))
        })
        .with(request.number)
        .unless(Excuse::ResponsesLost);
    }
    let held = if is_read {
        read_again(asked, request, into)
    } else {
        let (headers, payload) = parsed.digests();
        let is_alike = (parsed.opcode, parsed.length, headers) == (request.opcode, request.bytes, request.digests.0);
        let held = Outcome::must(is_alike && payload == request.digests.1, || {
            let expected = format!("{} of {} bytes, equal to the original", request.opcode, request.bytes);
            (
                expected,
                format!(
                    "{} of {} bytes, different from the original",
                    parsed.opcode, parsed.length
                ),
            )
        });
        // A requester builds a retransmission from the current content of its memory.
        if is_alike {
            held.unless(Excuse::MemoryChanged)
        } else {
            held
        }
    };
    let held = held.with(request.number);
    if into > 0 && request.is_inferred && parsed.opcode != request.opcode {
        held.unless(Excuse::RequestsLost)
    } else {
        held
    }
}

/// Checks a retransmitted READ, which may resume at a later response. Its address must be higher, and its length
/// smaller, by the number of bytes before that response.
fn read_again(asked: &Asked<'_>, request: &Request, into: u32) -> Outcome {
    let Some(reth) = asked.parsed.reth() else {
        return Outcome::NotAsked;
    };
    let (va, r_key) = request.target;
    let (seen_va, seen_length) = (reth.va().0, reth.dma_len());
    let skipped = seen_va.wrapping_sub(va);
    let sizes = asked.window.pmtu;
    let is_further =
        into == 0 && skipped == 0 || sizes.sizes().any(|size| u64::from(into) * u64::from(size) == skipped);
    let ends_alike = skipped.wrapping_add(seen_length.into()) == u64::from(request.bytes);
    Outcome::must(is_further && ends_alike && reth.r_key().0 == r_key, || {
        let expected = format!(
            "the rest of the READ of {} bytes at {va:#x}, from response {into} on, R_Key {r_key:#x}",
            request.bytes
        );
        (
            expected,
            format!("{seen_length} bytes at {seen_va:#x}, R_Key {}", reth.r_key()),
        )
    })
}

fn opcode_order(asked: &Asked<'_>) -> Outcome {
    let (Some(before), true) = (asked.before(), asked.parsed.opcode.is_legal()) else {
        return Outcome::NotAsked;
    };
    let goes_on = |part| matches!(part, Part::Middle | Part::Last);
    let now = RequestKind::of(asked.parsed.opcode);
    let is_so = match before.asks() {
        RequestKind::Send(Part::First | Part::Middle) => matches!(now, RequestKind::Send(part) if goes_on(part)),
        RequestKind::Write(Part::First | Part::Middle) => matches!(now, RequestKind::Write(part) if goes_on(part)),
        _ => !goes_on(now.part()),
    };
    let what = if before.asks().ends() {
        "the first packet of a message"
    } else {
        "a Middle or Last of its message"
    };
    let held = Outcome::must(is_so, || {
        (format!("{what} after {}", before.opcode), asked.parsed.opcode)
    })
    .with(before.number);
    // If `psns` is 0, the preceding request is a READ, and its number of PSNs is unknown. The window assumes that the
    // READ ends directly before this packet. In fact, a lost request may lie in between.
    match before.psns {
        0 => held.unless(Excuse::RequestsLost),
        _ => held,
    }
}

fn payload_length(asked: &Asked<'_>) -> Outcome {
    let (asks, length) = (RequestKind::of(asked.parsed.opcode), asked.parsed.length);
    if asks.returns_data() || asks == RequestKind::Other {
        return Outcome::NotAsked;
    }
    let pmtu = asked.window.pmtu;
    let is_so = pmtu.kept(|size| fits(asks.part(), length, size)).is_some();
    Outcome::must(is_so, || {
        let least = match asks.part() {
            Part::First | Part::Middle => "exactly ",
            Part::Last => "1 to ",
            Part::Only => "at most ",
        };
        let opcode = asked.parsed.opcode;
        (
            format!("{least}{pmtu} bytes of payload (path MTU) in {opcode}"),
            format!("{length} bytes"),
        )
    })
    .with(match asked.window.pmtu_source {
        Source::Packet(number, _) => number,
        Source::Known | Source::Nothing => 0,
    })
}

/// Returns whether a packet at that position in its message may have `length` payload bytes.
pub(crate) fn fits(part: Part, length: u32, pmtu: u32) -> bool {
    match part {
        Part::First | Part::Middle => length == pmtu,
        Part::Last => (1..=pmtu).contains(&length),
        Part::Only => length <= pmtu,
    }
}

fn dma_length(asked: &Asked<'_>) -> Outcome {
    const MOST: u32 = 1 << 31;
    let parsed = asked.parsed;
    let (asks, reth) = (RequestKind::of(parsed.opcode), parsed.reth());
    if let (RequestKind::Read, Some(reth)) = (asks, reth) {
        return Outcome::must(reth.dma_len() <= MOST, || ("DMALen at most 2^31", reth.dma_len()));
    }
    let left = match (asks, reth) {
        (RequestKind::Write(Part::First | Part::Only), Some(reth)) => Some((reth.dma_len(), parsed.number)),
        (RequestKind::Write(Part::Middle | Part::Last), _) => asked
            .before()
            .and_then(|before| before.left.map(|left| (left, before.began))),
        _ => None,
    };
    let Some((left, began)) = left else {
        return Outcome::NotAsked;
    };
    let is_so = match asks.ends() {
        true => parsed.length == left,
        false => parsed.length < left && left <= MOST,
    };
    Outcome::must(is_so, || {
        let more = if asks.ends() { "" } else { "fewer than " };
        (
            format!("a payload of {more}the {left} remaining bytes of DMALen"),
            parsed.length,
        )
    })
    .with(began)
}

/// Returns whether the packet is a First of a WRITE that carries all DMALen bytes. No legal Last can follow, but the
/// responder may accept the First.
pub(crate) fn leaves_nothing(parsed: &Parsed<'_>) -> bool {
    RequestKind::of(parsed.opcode) == RequestKind::Write(Part::First)
        && parsed.reth().is_some_and(|reth| reth.dma_len() == parsed.length)
}

fn rnr_interval(asked: &Asked<'_>) -> Outcome {
    let (Some(rnr), Some(at)) = (&asked.responses.rnr, asked.parsed.at) else {
        return Outcome::NotAsked;
    };
    let (SyndromeKind::RnrNak(timer), Some(since)) = (rnr.syndrome.kind(), rnr.at) else {
        return Outcome::NotAsked;
    };
    if asked.parsed.psn != rnr.psn || !matches!(asked.place, Place::Again(..)) {
        return Outcome::NotAsked;
    }
    let waited = at.since(since);
    // If the requester continues in sequence, the packet may have waited in the port's queue when the NAK came.
    if asked.window.cursor == Some(rnr.psn) && waited < QUEUED {
        return Outcome::NotAsked;
    }
    // The requester may ignore a second RNR NAK that comes during the first interval.
    let is_over = rnr.ends.is_some_and(|ends| at >= ends);
    Outcome::must(waited >= timer.duration() || is_over, || {
        let words = verbatim_record::duration_words;
        (format!("at least {}", words(timer.duration())), words(waited))
    })
    .with(rnr.number)
    .unless(Excuse::NotArrived)
}

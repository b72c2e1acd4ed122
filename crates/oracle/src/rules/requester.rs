//! What binds the requester: which request may come now.
//!
//! Source: architecture 9.7.1 (PSNs), 9.7.3 (request generation), 9.7.5.2.8 (RNR), 9.7.7 (retries); Linux rxe and rdmavt.

use verbatim_wire::Value;
use verbatim_wire::packet::SyndromeKind;

use crate::parsed::{Parsed, Part, QUEUED, RequestKind};
use crate::request::Request;
use crate::responses::{Responses, is_up_to};
use crate::rule::{Excuse, Outcome, Rule};
use crate::window::{Place, Source, Window};

/// What a rule of the requester looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) parsed: &'a Parsed<'a>,
    pub(crate) place: Place,
    /// The requests before this one.
    pub(crate) window: &'a Window,
    /// What the responder has said.
    pub(crate) responses: &'a Responses,
}

impl<'a> Asked<'a> {
    /// The request whose PSN comes right before this one's.
    fn before(&self) -> Option<&'a Request> {
        match self.place {
            Place::Next => self.window.newest().filter(|newest| newest.is_taken),
            Place::Again(at, 0) => self.window.taken_before(at),
            _ => None,
        }
    }

    /// The same request, when it came before, undamaged.
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

/// What breaks one of these is an invalid request, whatever the responder's memory and rights are.
pub(crate) const OF_VALID_REQUESTS: [Rule; 3] = [Rule::OpcodeOrder, Rule::PayloadLength, Rule::DmaLength];

/// Whether it is an atomic whose address is no multiple of 8.
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
            (format!("PSN {expected}"), format!("PSN {seen}, {gap} further"))
        })
        .unless(Excuse::RequestsLost),
        Place::Hole => Outcome::must(false, || {
            (
                format!("PSN {expected}, or one that came before"),
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
    // From what it was sending again the requester has jumped: back, which it may, or over what was acknowledged.
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
    // Told to go back, a requester may go back further than it was told.
    if asked.responses.sequence.is_some() || asked.responses.rnr.is_some() {
        return Outcome::NotAsked;
    }
    let is_done = match request.asks().has_response() {
        true => request.psns != 0 && !request.is_owed() && !request.is_given_up,
        false => asked.responses.has_acknowledged(request.psn.plus(into)),
    };
    // What follows a READ that is still to be answered comes again with it.
    let comes_with = asked.window.cursor == Some(asked.parsed.psn) && asked.window.next != asked.window.cursor;
    Outcome::must(!is_done || comes_with, || {
        (
            "a request that is not acknowledged",
            format!("PSN {}, which is", asked.parsed.psn),
        )
    })
    .with(asked.responses.acknowledged_by())
    .unless(Excuse::NotArrived)
}

/// Whether what comes again is not what came before.
pub(crate) fn differs(asked: &Asked<'_>) -> bool {
    let excuses = [None, Some(Excuse::MemoryChanged)];
    matches!(same_again(asked), Outcome::Broken(broken) if excuses.contains(&broken.unless))
}

/// Whether what comes again was acknowledged, and nothing had it sent again.
pub(crate) fn is_unasked(asked: &Asked<'_>) -> bool {
    matches!(acknowledged_again(asked), Outcome::Broken(_))
}

/// Whether a packet has a size that none of its message has with this path MTU.
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
                "the READ from response {} on, the first that is missing",
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
            let expected = format!("{} of {} bytes as before", request.opcode, request.bytes);
            (
                expected,
                format!("{} of {} bytes that differs", parsed.opcode, parsed.length),
            )
        });
        // A packet that comes again is made anew, of what the memory holds then.
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

/// A READ may come again from a response on: address and length are then further by as much.
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
            "a READ of what is left {into} responses into {} bytes at {va:#x}, R_Key {r_key:#x}",
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
        "the beginning of a message"
    } else {
        "its Middle or Last"
    };
    let held = Outcome::must(is_so, || {
        (format!("after {} {what}", before.opcode), asked.parsed.opcode)
    })
    .with(before.number);
    // Of a READ whose size in PSNs this packet would tell, something between them may be missing.
    match before.psns {
        0 => held.unless(Excuse::RequestsLost),
        _ => held,
    }
}

fn payload_length(asked: &Asked<'_>) -> Outcome {
    let (asks, length) = (RequestKind::of(asked.parsed.opcode), asked.parsed.length);
    if asks.has_response() || asks == RequestKind::Other {
        return Outcome::NotAsked;
    }
    let pmtu = asked.window.pmtu;
    let is_so = pmtu.kept(|size| fits(asks.part(), length, size)).is_some();
    Outcome::must(is_so, || {
        let (least, what) = match asks.part() {
            Part::First | Part::Middle => ("", "the path MTU"),
            Part::Last => ("1 to ", "the path MTU"),
            Part::Only => ("0 to ", "the path MTU"),
        };
        (
            format!("{least}{what} of {pmtu} bytes in {}", asked.parsed.opcode),
            length,
        )
    })
    .with(match asked.window.pmtu_source {
        Source::Packet(number, _) => number,
        Source::Known | Source::Nothing => 0,
    })
}

/// Whether a packet that stands there in its message may have so many bytes.
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
        return Outcome::must(reth.dma_len() <= MOST, || ("at most 2^31", reth.dma_len()));
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
        (format!("{more}the {left} bytes that are left of DMALen"), parsed.length)
    })
    .with(began)
}

/// Whether it is the First of a WRITE whose DMALen is as many bytes as it carries: a Last of no bytes may not follow, but by itself
/// a responder may take it.
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
    // It goes on where it was: the packet may have been in the port's queue when the NAK came.
    if asked.window.cursor == Some(rnr.psn) && waited < QUEUED {
        return Outcome::NotAsked;
    }
    // A second one, while the interval of the first lasts, may be obeyed or not.
    let is_over = rnr.ends.is_some_and(|ends| at >= ends);
    Outcome::must(waited >= timer.duration() || is_over, || {
        let words = verbatim_record::duration_words;
        (format!("at least {}", words(timer.duration())), words(waited))
    })
    .with(rnr.number)
    .unless(Excuse::NotArrived)
}

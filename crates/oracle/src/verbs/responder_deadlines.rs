//! Responses expected from the device. `Responder` follows the state of the device's responder packet by packet,
//! and stores each expected response with its request.
//!
//! Source: architecture 9.7.4.1.1 (duplicates, gaps), 9.7.5.1 (acknowledgements), 9.7.5.2 (NAKs).

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::verbs::Command;
use verbatim_record::{FrameSeen, TRIES, Time};
use verbatim_wire::packet::Psn;

use super::qp_trace::QpTrace;
use crate::parsed::{Parsed, Part, RequestKind};
use crate::rc::HALF;
use crate::rules::responder::ResponseKind;

impl QpTrace<'_> {
    /// Returns how long the tester waits for a response before it repeats the request.
    pub(super) fn waited(&self) -> Duration {
        crate::rc::RESPONSE_WAIT.max(self.answer_time)
    }
}

/// Reason for which a response is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// The request has the expected PSN, or may have it.
    Asked,
    /// The request was executed before.
    Again,
    /// An earlier request is missing.
    Gap,
}

#[derive(Debug)]
pub(super) struct ExpectedResponse<'t> {
    pub(super) why: Why,
    pub(super) parsed: Parsed<'t>,
    /// First and last PSN of the request, counted from the first PSN that the device expects.
    pub(super) psns: (u32, u32),
    /// Transmissions of the request that no response has answered.
    pub(super) tries: Vec<&'t FrameSeen>,
    /// Whether the transmissions are so many that a lost packet does not explain a missing response.
    pub(super) is_proof: bool,
    /// Whether the request was sent only once, and has the expected PSN if no packet was lost.
    pub(super) is_next: bool,
    /// Place of a much later transmission. Responses after this place answer that transmission.
    pub(super) until: usize,
}

impl ExpectedResponse<'_> {
    /// Returns whether a response answers the request, or explains why the request gets no response of its own.
    fn is_met_by(&self, response: &DutResponse) -> bool {
        let (first, last) = self.psns;
        if response.place > self.until || self.tries.first().is_none_or(|first| response.place < first.place) {
            return false;
        }
        match (response.says, RequestKind::of(self.parsed.opcode)) {
            (ResponseKind::Fatal | ResponseKind::Rnr | ResponseKind::Sequence, asks) => {
                // A NAK with a later PSN also acknowledges this request.
                response.offset <= last || self.why == Why::Asked && !asks.returns_data()
            }
            (_, _) if self.why == Why::Gap => false,
            (ResponseKind::Read(_), RequestKind::Read) => response.offset == last,
            (ResponseKind::Atomic, RequestKind::Atomic) => response.offset == first,
            (
                ResponseKind::Ack | ResponseKind::Read(_) | ResponseKind::Atomic,
                RequestKind::Send(_) | RequestKind::Write(_),
            ) => response.offset >= first,
            _ => false,
        }
    }
}

pub(super) struct DutResponse {
    pub(super) says: ResponseKind,
    /// PSN, counted from the first PSN that the device expects.
    pub(super) offset: u32,
    pub(super) place: usize,
    pub(super) at: Time,
}

/// Returns the device's responses, in the order of the record.
pub(super) fn responses(qp: &QpTrace<'_>, first: Psn) -> Vec<DutResponse> {
    let all = qp.responses().map(|(parsed, frame)| DutResponse {
        says: ResponseKind::of(&parsed),
        offset: parsed.psn.since(first),
        place: frame.place,
        at: frame.at.earliest,
    });
    let mut all: Vec<DutResponse> = all.filter(|response| response.offset < HALF).collect();
    all.sort_by_key(|response| response.place);
    all
}

/// Event on the wire.
enum Happens<'r, 't> {
    Sent(u32, Parsed<'t>, &'t FrameSeen),
    Answered(&'r DutResponse),
}

/// State of the responder, as far as the packets show it.
struct Responder<'k, 't> {
    qp: &'k QpTrace<'t>,
    /// PSN that the responder expects; where packets can be lost, a PSN that the responder has certainly reached.
    expects: u32,
    /// PSN that the responder expects if no packet was lost.
    next: u32,
    /// PSN of the last RNR NAK, or of a reported gap. Until that PSN comes, the responder does not respond to later
    /// requests.
    waits_for: Option<u32>,
    /// Place of the last RNR NAK or sequence NAK.
    refused: usize,
    /// Whether a NAK has ended the connection.
    is_over: bool,
    /// First PSNs of READs and atomics.
    with_data: BTreeSet<u32>,
    /// Distinct requests that were sent with each PSN, with their frames.
    sent: BTreeMap<u32, Vec<Sent<'t>>>,
    /// From `expects` up to this PSN, no request is missing.
    whole: u32,
    parsed: Vec<&'k DutResponse>,
    due: Vec<ExpectedResponse<'t>>,
    /// Indices in `due` of the responses that later packets may still provide, by the first PSN of their requests.
    open: BTreeMap<u32, Vec<usize>>,
}

/// Request that was sent, and its transmissions.
struct Sent<'t> {
    parsed: Parsed<'t>,
    frames: Vec<&'t FrameSeen>,
}

impl Sent<'_> {
    fn is_as(&self, parsed: &Parsed<'_>) -> bool {
        let asks = |of: &Parsed<'_>| (of.opcode, of.digests(), of.bth.ack_request());
        asks(&self.parsed) == asks(parsed)
    }
}

impl<'k, 't> Responder<'k, 't> {
    fn new(qp: &'k QpTrace<'t>) -> Self {
        Self {
            qp,
            expects: 0,
            next: 0,
            waits_for: None,
            refused: 0,
            is_over: false,
            with_data: BTreeSet::new(),
            sent: BTreeMap::new(),
            whole: 0,
            parsed: Vec::new(),
            due: Vec::new(),
            open: BTreeMap::new(),
        }
    }

    /// Returns whether the responder must still be able to repeat the READ or atomic with that PSN. The responder
    /// must remember the last READs and atomics, as many as it accepts at a time.
    fn must_keep(&self, offset: u32) -> bool {
        let most = self.qp.dialogue.attributes.max_dest_rd_atomic.unwrap_or(0);
        self.with_data.range(offset..).count() <= most as usize
    }

    /// Returns whether the host deregistered memory, which a repeated READ may need.
    fn has_lost_memory(&self, place: usize) -> bool {
        let mut before = self.qp.memory.iter().filter(|done| done.place < place);
        before.any(|done| matches!(done.command, Command::DeregisterMemory(_)))
    }

    /// Returns the PSN, at most `offset`, that the responder has certainly reached. Where packets can be lost, the
    /// responder has passed each request that was sent three times since the last refusal.
    fn comes_to(&self, offset: u32) -> u32 {
        let mut next = self.expects;
        while next < offset && !self.qp.is_lossless() {
            let Some([only]) = self.sent.get(&next).map(Vec::as_slice) else {
                break;
            };
            let came = only.frames.iter().filter(|frame| frame.place > self.refused).count();
            if came < TRIES as usize {
                break;
            }
            next += self.qp.psns(&only.parsed);
        }
        next
    }

    /// Returns the first PSN before `offset` with which no request was sent.
    fn missing_before(&mut self, offset: u32) -> Option<u32> {
        let mut next = self.expects.max(self.whole);
        let mut missing = None;
        while next < offset {
            let Some(kinds) = self.sent.get(&next) else {
                missing = Some(next);
                break;
            };
            next += kinds.iter().map(|sent| self.qp.psns(&sent.parsed)).max().unwrap_or(1);
        }
        self.whole = next;
        missing
    }

    /// Notes a packet. Returns all frames of the first request with the packet's PSN, and whether no different request
    /// has that PSN.
    fn note(&mut self, offset: u32, parsed: Parsed<'t>, frame: &'t FrameSeen) -> (Vec<&'t FrameSeen>, bool) {
        let kinds = self.sent.entry(offset).or_default();
        match kinds.iter_mut().find(|sent| sent.is_as(&parsed)) {
            Some(sent) => sent.frames.push(frame),
            None => {
                // The request may take more PSNs than an earlier request with this PSN.
                self.whole = self.whole.min(offset);
                kinds.push(Sent {
                    parsed,
                    frames: vec![frame],
                });
            }
        }
        (kinds[0].frames.clone(), kinds.len() == 1)
    }

    fn sent(&mut self, offset: u32, parsed: Parsed<'t>, frame: &'t FrameSeen) {
        let asks = RequestKind::of(parsed.opcode);
        if self.is_over || asks == RequestKind::Other {
            return;
        }
        let is_lossless = self.qp.is_lossless();
        // Requests up to 2^23 PSNs back are duplicates for the responder, even if their PSNs precede the
        // connection's first PSN.
        if offset >= HALF && self.expects + (Psn::COUNT - offset) <= HALF {
            return self.sent_before_all(parsed, frame);
        }
        let why = match offset.cmp(&self.comes_to(offset)) {
            Ordering::Equal => Why::Asked,
            Ordering::Less => Why::Again,
            Ordering::Greater => Why::Gap,
        };
        let is_next = offset == self.next;
        let missing = match is_lossless {
            true => Some(self.expects),
            false => self.missing_before(offset),
        };
        let (frames, is_alone) = self.note(offset, parsed, frame);
        if asks.returns_data() && (why != Why::Gap || !is_lossless) {
            self.with_data.insert(offset);
        }
        let asks_for_it = asks.returns_data() || parsed.bth.ack_request();
        let is_owed = match why {
            Why::Gap => missing.is_some() && self.waits_for.is_none(),
            Why::Asked => asks_for_it && (is_lossless || is_alone),
            // If two different requests have one PSN, it is unknown which request the device executed.
            Why::Again if !is_alone || is_lossless && frames.len() == 1 => false,
            Why::Again if asks == RequestKind::Read => self.must_keep(offset) && !self.has_lost_memory(frame.place),
            Why::Again if asks == RequestKind::Atomic => self.must_keep(offset),
            Why::Again => asks_for_it,
        };
        let end = offset + self.qp.psns(&parsed);
        if self.waits_for == Some(offset) {
            self.waits_for = None;
        }
        match why {
            Why::Asked if is_lossless => self.expects = end,
            Why::Gap if is_owed => self.waits_for = missing,
            Why::Asked | Why::Again | Why::Gap => {}
        }
        if is_next {
            self.next = end;
        }
        if is_lossless {
            self.end_waiting(offset, frame);
        }
        let is_next = is_next && is_alone && frames.len() == 1;
        let tries = if is_lossless { vec![frame] } else { frames };
        if is_owed {
            self.owe((why, is_next), parsed, (offset, end - 1), tries);
        } else if is_next && asks_for_it && !is_lossless {
            self.owe((Why::Asked, is_next), parsed, (offset, end - 1), tries);
        }
    }

    /// Ends the wait for responses to much earlier transmissions of this request: all later responses answer this
    /// frame.
    fn end_waiting(&mut self, offset: u32, frame: &FrameSeen) {
        let longest = self.qp.waited();
        let waited = |sent: &&FrameSeen| frame.at.since(sent.at).0 >= longest;
        let due = &mut self.due;
        self.open.entry(offset).or_default().retain(|index| {
            let has_ended = due[*index].tries.first().is_some_and(waited);
            if has_ended {
                due[*index].until = frame.place;
            }
            !has_ended
        });
    }

    fn owe(&mut self, (why, is_next): (Why, bool), parsed: Parsed<'t>, psns: (u32, u32), tries: Vec<&'t FrameSeen>) {
        let mut due = ExpectedResponse {
            why,
            parsed,
            psns,
            tries,
            is_proof: false,
            is_next,
            until: usize::MAX,
        };
        // A response answers all transmissions before it. Only later transmissions need a new response.
        let first = due.tries.first().map_or(usize::MAX, |first| first.place);
        let since = self.parsed.iter().rev().take_while(|response| response.place >= first);
        if let Some(last) = since.copied().find(|response| due.is_met_by(response)) {
            due.tries.retain(|frame| frame.place > last.place);
        }
        let is_enough = due.tries.len() >= TRIES as usize;
        due.is_proof = self.qp.is_lossless() || why == Why::Gap || is_enough;
        self.open.entry(psns.0).or_default().push(self.due.len());
        self.due.push(due);
    }

    /// Notes a request whose PSN precedes the connection's first PSN. The responder must treat the request as a
    /// duplicate, and acknowledge it if it is a SEND or WRITE.
    fn sent_before_all(&mut self, parsed: Parsed<'t>, frame: &'t FrameSeen) {
        let is_asked = parsed.bth.ack_request() && !RequestKind::of(parsed.opcode).returns_data();
        if self.qp.is_lossless() && is_asked && self.expects > 0 {
            self.owe((Why::Again, false), parsed, (0, 0), vec![frame]);
        }
    }

    fn answered(&mut self, response: &'k DutResponse) {
        self.parsed.push(response);
        let offset = response.offset;
        let is_lossless = self.qp.is_lossless();
        if matches!(response.says, ResponseKind::Rnr | ResponseKind::Sequence) {
            self.refused = response.place;
        }
        match response.says {
            ResponseKind::Fatal => self.is_over = true,
            ResponseKind::Rnr | ResponseKind::Sequence => {
                self.waits_for = Some(offset);
                self.next = offset;
                self.expects = if is_lossless { offset } else { self.expects.max(offset) };
            }
            ResponseKind::Ack | ResponseKind::Atomic | ResponseKind::Read(Part::Last | Part::Only) if !is_lossless => {
                self.expects = self.expects.max(offset + 1);
            }
            _ => {}
        }
    }
}

/// Returns all responses that are expected on a connection.
pub(super) fn dues<'t>(qp: &QpTrace<'t>, responses: &[DutResponse]) -> Vec<ExpectedResponse<'t>> {
    let mut events: Vec<(usize, Happens<'_, 't>)> = Vec::new();
    for (offset, parsed, frame) in qp.asked_anywhere() {
        events.push((frame.place, Happens::Sent(offset, parsed, frame)));
    }
    events.extend(
        responses
            .iter()
            .map(|response| (response.place, Happens::Answered(response))),
    );
    events.sort_by_key(|(place, _)| *place);
    let mut responder = Responder::new(qp);
    for (_, happens) in events {
        match happens {
            Happens::Sent(offset, parsed, frame) => responder.sent(offset, parsed, frame),
            Happens::Answered(response) => responder.answered(response),
        }
    }
    responder.due
}

/// Returns the first response that satisfies the expectation, if any.
pub(super) fn met<'r>(due: &ExpectedResponse<'_>, responses: &'r [DutResponse]) -> Option<&'r DutResponse> {
    let first = due.tries.first().map_or(usize::MAX, |first| first.place);
    let since = responses.partition_point(|response| response.place < first);
    responses[since..].iter().find(|response| due.is_met_by(response))
}

//! What the responder owes, as the wire shows it: its state is followed packet by packet, and each answer that it owes is noted
//! with what may answer it.
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
    /// How long an answer may take before the request is sent again.
    pub(super) fn waited(&self) -> Duration {
        crate::rc::RESPONSE_WAIT.max(self.answer_time)
    }
}

/// Why an answer is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// The request is the next one, or one of those that may be.
    Asked,
    /// It was executed before.
    Again,
    /// One before it is missing.
    Gap,
}

/// An answer that is owed.
#[derive(Debug)]
pub(super) struct Due<'t> {
    pub(super) why: Why,
    pub(super) parsed: Parsed<'t>,
    /// The PSNs that it takes, counted from the first that the device expects.
    pub(super) psns: (u32, u32),
    /// When it was sent, as often as it takes.
    pub(super) tries: Vec<&'t FrameSeen>,
    /// Whether that is often enough, so that silence is no lost packet.
    pub(super) is_proof: bool,
    /// Whether it is the next one if no packet was lost, and was sent once.
    pub(super) is_next: bool,
    /// Where it was sent again after so long that what came then is no answer to these.
    pub(super) until: usize,
}

impl Due<'_> {
    /// Whether a response answers it, or says why it has no answer.
    fn is_met_by(&self, response: &DutResponse) -> bool {
        let (first, last) = self.psns;
        if response.place > self.until || self.tries.first().is_none_or(|first| response.place < first.place) {
            return false;
        }
        match (response.says, RequestKind::of(self.parsed.opcode)) {
            (ResponseKind::Fatal | ResponseKind::Rnr | ResponseKind::Sequence, asks) => {
                // A NAK acknowledges what lies before it, too.
                response.offset <= last || self.why == Why::Asked && !asks.has_response()
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

/// A response of the device.
pub(super) struct DutResponse {
    pub(super) says: ResponseKind,
    /// Its PSN, counted from the first that the device expects.
    pub(super) offset: u32,
    pub(super) place: usize,
    pub(super) at: Time,
}

/// In the order of the record.
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

/// What happens on the wire, in order.
enum Happens<'r, 't> {
    Sent(u32, Parsed<'t>, &'t FrameSeen),
    Answered(&'r DutResponse),
}

/// The responder as the wire shows it.
struct Responder<'k, 't> {
    qp: &'k QpTrace<'t>,
    /// The PSN that it expects; where packets can be lost, one that it has come to for certain.
    expects: u32,
    /// The same if no packet was lost.
    next: u32,
    /// The PSN that it has refused for the time being, or of which it has told that it is missing: it says nothing of what lies
    /// behind.
    waits_for: Option<u32>,
    /// When it was last heard that it has refused something for the time being.
    refused: usize,
    /// It has ended the connection.
    is_over: bool,
    /// The first PSNs of READs and atomics.
    with_data: BTreeSet<u32>,
    /// What was sent with each PSN: every kind of it, with its frames.
    sent: BTreeMap<u32, Vec<Sent<'t>>>,
    /// Up to here nothing is missing, from the PSN that it expects on.
    whole: u32,
    parsed: Vec<&'k DutResponse>,
    due: Vec<Due<'t>>,
    /// Which of these are answered by whatever comes, by their first PSN.
    open: BTreeMap<u32, Vec<usize>>,
}

/// What was sent with a PSN, once or again.
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

    /// Whether a READ or atomic with that PSN must be kept still: as many are as it answers at a time.
    fn must_keep(&self, offset: u32) -> bool {
        let most = self.qp.dialogue.attributes.max_dest_rd_atomic.unwrap_or(0);
        self.with_data.range(offset..).count() <= most as usize
    }

    /// Whether the host took memory away, which a READ that comes again would need.
    fn has_lost_memory(&self, place: usize) -> bool {
        let mut before = self.qp.memory.iter().filter(|done| done.place < place);
        before.any(|done| matches!(done.command, Command::DeregisterMemory(_)))
    }

    /// The PSN that it expects, or has come to by what was sent three times since it refused something: that one, if it may.
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

    /// The first PSN that is missing before that one, as nothing was ever sent with it.
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

    /// Notes a packet: all frames of the first kind that was sent with its PSN, and whether there is no other.
    fn note(&mut self, offset: u32, parsed: Parsed<'t>, frame: &'t FrameSeen) -> (Vec<&'t FrameSeen>, bool) {
        let kinds = self.sent.entry(offset).or_default();
        match kinds.iter_mut().find(|sent| sent.is_as(&parsed)) {
            Some(sent) => sent.frames.push(frame),
            None => {
                // It may take more PSNs than what was sent with this one before.
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
        // What lies up to 2^23 PSNs back was executed, be it before the first that is known.
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
        if asks.has_response() && (why != Why::Gap || !is_lossless) {
            self.with_data.insert(offset);
        }
        let asks_for_it = asks.has_response() || parsed.bth.ack_request();
        let is_owed = match why {
            Why::Gap => missing.is_some() && self.waits_for.is_none(),
            Why::Asked => asks_for_it && (is_lossless || is_alone),
            // Of two kinds it is not known here which was executed.
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

    /// What comes from now on answers this frame, and no longer one that was sent so long before it.
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
        let mut due = Due {
            why,
            parsed,
            psns,
            tries,
            is_proof: false,
            is_next,
            until: usize::MAX,
        };
        // What was answered is asked anew when it comes again.
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

    /// A duplicate of what nobody sent: SEND and WRITE are acknowledged all the same.
    fn sent_before_all(&mut self, parsed: Parsed<'t>, frame: &'t FrameSeen) {
        let is_asked = parsed.bth.ack_request() && !RequestKind::of(parsed.opcode).has_response();
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

/// All answers that are owed on a connection.
pub(super) fn dues<'t>(qp: &QpTrace<'t>, responses: &[DutResponse]) -> Vec<Due<'t>> {
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

/// The response that came of it, if any.
pub(super) fn met<'r>(due: &Due<'_>, responses: &'r [DutResponse]) -> Option<&'r DutResponse> {
    let first = due.tries.first().map_or(usize::MAX, |first| first.place);
    let since = responses.partition_point(|response| response.place < first);
    responses[since..].iter().find(|response| due.is_met_by(response))
}

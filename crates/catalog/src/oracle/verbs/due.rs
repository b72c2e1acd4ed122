//! What the responder owes: an answer to each request that asks for one, to each that comes again, and a NAK for a gap.
//!
//! What answers a request is said generously, since other rules judge what is there: whatever speaks for it, or refuses it or
//! something before it. Where packets can be lost a request is owed an answer when it is known to be in sequence and was sent
//! three times, and the device is heard of later; what is told of once, a gap and a refusal for good, when it is missing on three
//! connections; and a request that was sent once, when it is missing on each of three connections or more that were made for it.
//!
//! Source: architecture 9.7.4.1.1 (duplicates, gaps), 9.7.5.1 (acknowledgements), 9.7.5.2 (NAKs), 9.9.3.1.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, TRIES, Time, Trace, VerbsDone, duration_words};
use verbatim_wire::packet::Psn;

use super::credits::Receives;
use super::owed::after;
use super::talk::{SOON, Talk, talks};
use super::{Asking, VerbsRule};
use crate::oracle::heard::{Asks, Heard, Part};
use crate::oracle::rule::Rule;
use crate::oracle::rules::responder::Says;
use crate::oracle::rules::rule;
use crate::transport::rc::ask::HALF;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (
        rule!(
            "request-answered",
            "9.7.5.1 acknowledgement",
            "A READ, an atomic, and whatever asks for an acknowledgement is answered: by a response, an acknowledgement of it or \
             of what came behind it, or a NAK."
        ),
        request_answered,
    ),
    (
        rule!(
            "rnr-nak-owed",
            "9.7.5.2.8 RNR NAK",
            "What lacks a receive is told so: by an RNR NAK of it, or of something before it."
        ),
        rnr_nak_owed,
    ),
    (
        rule!(
            "answered-at-once",
            "9.7.5.1 acknowledgement",
            "Of the SENDs and WRITEs that ask for an acknowledgement, one at least is answered before it comes again."
        ),
        answered_at_once,
    ),
    (
        rule!(
            "duplicate-answered",
            "9.7.4.1.1 duplicate requests",
            "A request that was executed and comes again is answered again, a READ or atomic while it is one of the last \
             max_dest_rd_atomic of them."
        ),
        duplicate_answered,
    ),
    (
        rule!(
            "gap-answered",
            "9.7.4.1.1 PSN sequence",
            "The first request behind one that is missing gets the sequence NAK of that."
        ),
        gap_answered,
    ),
];

/// How long an answer may take before the request is sent again.
const WAITED: Duration = crate::transport::rc::ask::SOON;

/// Why an answer is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// The request is the next one, or one of those that may be.
    Asked,
    /// It was executed before.
    Again,
    /// One before it is missing.
    Gap,
}

/// An answer that is owed.
#[derive(Debug)]
struct Due<'t> {
    why: Why,
    heard: Heard<'t>,
    /// The PSNs that it takes, counted from the first that the device expects.
    psns: (u32, u32),
    /// When it was sent, as often as it takes.
    tries: Vec<&'t FrameSeen>,
    /// Whether that is often enough, so that silence is no lost packet.
    is_proof: bool,
    /// Whether it is the next one if no packet was lost, and was sent once.
    is_next: bool,
    /// Where it was sent again after so long that what came then is no answer to these.
    until: usize,
}

impl Due<'_> {
    /// Whether a response answers it, or says why it has no answer.
    fn is_met_by(&self, response: &Response) -> bool {
        let (first, last) = self.psns;
        if response.place > self.until || self.tries.first().is_none_or(|first| response.place < first.place) {
            return false;
        }
        match (response.says, Asks::of(self.heard.opcode)) {
            (Says::Fatal | Says::Rnr | Says::Sequence, asks) => {
                // A NAK acknowledges what lies before it, too.
                response.offset <= last || self.why == Why::Asked && !asks.has_response()
            }
            (_, _) if self.why == Why::Gap => false,
            (Says::Read(_), Asks::Read) => response.offset == last,
            (Says::Atomic, Asks::Atomic) => response.offset == first,
            (Says::Ack | Says::Read(_) | Says::Atomic, Asks::Send(_) | Asks::Write(_)) => response.offset >= first,
            _ => false,
        }
    }
}

/// A response of the device.
struct Response {
    says: Says,
    /// Its PSN, counted from the first that the device expects.
    offset: u32,
    place: usize,
    at: Time,
}

fn responses(talk: &Talk<'_>, first: Psn) -> Vec<Response> {
    let all = talk.responses().map(|(heard, frame)| Response {
        says: Says::of(&heard),
        offset: heard.psn.since(first),
        place: frame.place,
        at: frame.at.earliest,
    });
    all.filter(|response| response.offset < HALF).collect()
}

/// What happens on the wire, in order.
enum Happens<'r, 't> {
    Sent(u32, Heard<'t>, &'t FrameSeen),
    Answered(&'r Response),
}

/// The responder as the wire shows it.
struct Responder<'k, 't> {
    talk: &'k Talk<'t>,
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
    heard: Vec<&'k Response>,
    due: Vec<Due<'t>>,
}

/// What was sent with a PSN, once or again.
struct Sent<'t> {
    heard: Heard<'t>,
    frames: Vec<&'t FrameSeen>,
}

impl Sent<'_> {
    fn is_as(&self, heard: &Heard<'_>) -> bool {
        let asks = |of: &Heard<'_>| (of.opcode, of.digests(), of.bth.ack_request());
        asks(&self.heard) == asks(heard)
    }
}

impl<'k, 't> Responder<'k, 't> {
    fn new(talk: &'k Talk<'t>) -> Self {
        Self {
            talk,
            expects: 0,
            next: 0,
            waits_for: None,
            refused: 0,
            is_over: false,
            with_data: BTreeSet::new(),
            sent: BTreeMap::new(),
            heard: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Whether a READ or atomic with that PSN must be kept still: as many are as it answers at a time.
    fn must_keep(&self, offset: u32) -> bool {
        let most = self.talk.dialogue.attributes.max_dest_rd_atomic.unwrap_or(0);
        self.with_data.range(offset..).count() <= most as usize
    }

    /// Whether the host took memory away, which a READ that comes again would need.
    fn has_lost_memory(&self, place: usize) -> bool {
        let mut before = self.talk.memory.iter().filter(|done| done.place < place);
        before.any(|done| matches!(done.command, Command::DeregisterMemory(_)))
    }

    /// The PSN that it expects, or has come to by what was sent three times since it refused something: that one, if it may.
    fn comes_to(&self, offset: u32) -> u32 {
        let mut next = self.expects;
        while next < offset && !self.talk.is_lossless() {
            let Some([only]) = self.sent.get(&next).map(Vec::as_slice) else {
                break;
            };
            let came = only.frames.iter().filter(|frame| frame.place > self.refused).count();
            if came < TRIES as usize {
                break;
            }
            next += self.talk.psns(&only.heard);
        }
        next
    }

    /// The first PSN that is missing before that one, as nothing was ever sent with it.
    fn missing_before(&self, offset: u32) -> Option<u32> {
        let mut next = self.expects;
        while next < offset {
            let Some(kinds) = self.sent.get(&next) else {
                return Some(next);
            };
            next += kinds.iter().map(|sent| self.talk.psns(&sent.heard)).max().unwrap_or(1);
        }
        None
    }

    /// Notes a packet: all frames of the first kind that was sent with its PSN, and whether there is no other.
    fn note(&mut self, offset: u32, heard: Heard<'t>, frame: &'t FrameSeen) -> (Vec<&'t FrameSeen>, bool) {
        let kinds = self.sent.entry(offset).or_default();
        match kinds.iter_mut().find(|sent| sent.is_as(&heard)) {
            Some(sent) => sent.frames.push(frame),
            None => kinds.push(Sent {
                heard,
                frames: vec![frame],
            }),
        }
        (kinds[0].frames.clone(), kinds.len() == 1)
    }

    fn sent(&mut self, offset: u32, heard: Heard<'t>, frame: &'t FrameSeen) {
        let asks = Asks::of(heard.opcode);
        if self.is_over || asks == Asks::Other {
            return;
        }
        let is_lossless = self.talk.is_lossless();
        // What lies up to 2^23 PSNs back was executed, be it before the first that is known.
        if offset >= HALF && self.expects + (Psn::COUNT - offset) <= HALF {
            return self.sent_before_all(heard, frame);
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
        let (frames, is_alone) = self.note(offset, heard, frame);
        if asks.has_response() && (why != Why::Gap || !is_lossless) {
            self.with_data.insert(offset);
        }
        let asks_for_it = asks.has_response() || heard.bth.ack_request();
        let is_owed = match why {
            Why::Gap => missing.is_some() && self.waits_for.is_none(),
            Why::Asked => asks_for_it && (is_lossless || is_alone),
            // Of two kinds it is not known here which was executed.
            Why::Again if !is_alone || is_lossless && frames.len() == 1 => false,
            Why::Again if asks == Asks::Read => self.must_keep(offset) && !self.has_lost_memory(frame.place),
            Why::Again if asks == Asks::Atomic => self.must_keep(offset),
            Why::Again => asks_for_it,
        };
        let end = offset + self.talk.psns(&heard);
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
            self.owe((why, is_next), heard, (offset, end - 1), tries);
        } else if is_next && asks_for_it && !is_lossless {
            self.owe((Why::Asked, is_next), heard, (offset, end - 1), tries);
        }
    }

    /// What comes from now on answers this frame, and no longer one that was sent so long before it.
    fn end_waiting(&mut self, offset: u32, frame: &FrameSeen) {
        let is_it = |due: &&mut Due<'t>| {
            let waited = |sent: &&FrameSeen| frame.at.since(sent.at).0 >= WAITED;
            due.psns.0 == offset && due.until == usize::MAX && due.tries.first().is_some_and(waited)
        };
        self.due
            .iter_mut()
            .filter(is_it)
            .for_each(|due| due.until = frame.place);
    }

    fn owe(&mut self, (why, is_next): (Why, bool), heard: Heard<'t>, psns: (u32, u32), tries: Vec<&'t FrameSeen>) {
        let mut due = Due {
            why,
            heard,
            psns,
            tries,
            is_proof: false,
            is_next,
            until: usize::MAX,
        };
        // What was answered is asked anew when it comes again.
        let answered = self.heard.iter().filter(|response| due.is_met_by(response));
        if let Some(last) = answered.map(|response| response.place).max() {
            due.tries.retain(|frame| frame.place > last);
        }
        let is_enough = due.tries.len() >= TRIES as usize;
        due.is_proof = self.talk.is_lossless() || why == Why::Gap || is_enough;
        self.due.push(due);
    }

    /// A duplicate of what nobody sent: SEND and WRITE are acknowledged all the same.
    fn sent_before_all(&mut self, heard: Heard<'t>, frame: &'t FrameSeen) {
        let is_asked = heard.bth.ack_request() && !Asks::of(heard.opcode).has_response();
        if self.talk.is_lossless() && is_asked && self.expects > 0 {
            self.owe((Why::Again, false), heard, (0, 0), vec![frame]);
        }
    }

    fn answered(&mut self, response: &'k Response) {
        self.heard.push(response);
        let offset = response.offset;
        let is_lossless = self.talk.is_lossless();
        if matches!(response.says, Says::Rnr | Says::Sequence) {
            self.refused = response.place;
        }
        match response.says {
            Says::Fatal => self.is_over = true,
            Says::Rnr | Says::Sequence => {
                self.waits_for = Some(offset);
                self.next = offset;
                self.expects = if is_lossless { offset } else { self.expects.max(offset) };
            }
            Says::Ack | Says::Atomic | Says::Read(Part::Last | Part::Only) if !is_lossless => {
                self.expects = self.expects.max(offset + 1);
            }
            _ => {}
        }
    }
}

/// All answers that are owed on a connection.
fn dues<'t>(talk: &Talk<'t>, responses: &[Response]) -> Vec<Due<'t>> {
    let mut events: Vec<(usize, Happens<'_, 't>)> = Vec::new();
    for (offset, heard, frame) in talk.asked_anywhere() {
        events.push((frame.place, Happens::Sent(offset, heard, frame)));
    }
    events.extend(
        responses
            .iter()
            .map(|response| (response.place, Happens::Answered(response))),
    );
    events.sort_by_key(|(place, _)| *place);
    let mut responder = Responder::new(talk);
    for (_, happens) in events {
        match happens {
            Happens::Sent(offset, heard, frame) => responder.sent(offset, heard, frame),
            Happens::Answered(response) => responder.answered(response),
        }
    }
    responder.due
}

/// The response that came of it, if any.
fn met<'r>(due: &Due<'_>, responses: &'r [Response]) -> Option<&'r Response> {
    responses.iter().find(|response| due.is_met_by(response))
}

/// Whether silence says nothing where packets can be lost: it may have been told of once, a gap, or that the connection ends. It
/// has not ended when the device is heard of later, or its host says so.
fn may_be_told_once(talk: &Talk<'_>, due: &Due<'_>, responses: &[Response]) -> bool {
    let last = due.tries.last().map_or(0, |last| last.place);
    let is_up = |done: &VerbsDone| {
        let is_it = matches!(&done.command, Command::QueryQp(of) if of.qp == talk.dialogue.handle);
        let state = match &done.answer {
            Some((_, _, Reply::Status(status), _)) => Some(status.state()),
            _ => None,
        };
        is_it
            && done.place > last
            && done.place < talk.deaf
            && matches!(state, Some(pb::QpState::Rtr | pb::QpState::Rts))
    };
    let mut later = talk.trace.timeline.commands_between(talk.dialogue.places).iter();
    let mut heard = responses.iter().filter(|response| response.place > last);
    due.why == Why::Gap || !(heard.any(|response| response.says != Says::Fatal) || later.any(is_up))
}

/// Whether answers of that kind are missing on three connections, so that it is no lost packet.
fn is_missing_always(trace: &Trace, like: &Due<'_>) -> bool {
    let is_like = |due: &&Due<'_>| due.is_proof && due.why == like.why && due.heard.opcode == like.heard.opcode;
    let (without, _) = with_and_without(trace, is_like);
    without >= TRIES as usize
}

/// Whether the answer to what was sent once is missing on all connections where the same was sent under that label, three or more:
/// a test that tries again does so until it has come.
fn is_never_answered(trace: &Trace, like: &Due<'_>) -> bool {
    let label = |due: &Due<'_>| due.tries.first().map(|frame| frame.label.clone());
    let of = label(like);
    let is_like = |due: &&Due<'_>| {
        let alike = due.psns == like.psns && due.heard.opcode == like.heard.opcode;
        due.is_next && alike && label(due) == of
    };
    let (without, with) = with_and_without(trace, is_like);
    with == 0 && without >= TRIES as usize
}

/// On how many connections answers that are owed are all missing, and on how many there are some.
fn with_and_without(trace: &Trace, is_like: impl Fn(&&Due<'_>) -> bool) -> (usize, usize) {
    let mut counts = (0, 0);
    for talk in talks(trace) {
        let Some(first) = talk.first() else {
            continue;
        };
        let responses = responses(&talk, first);
        let dues = dues(&talk, &responses);
        let of_kind: Vec<&Due<'_>> = dues.iter().filter(&is_like).collect();
        match of_kind.iter().any(|due| met(due, &responses).is_some()) {
            true => counts.1 += 1,
            false if !of_kind.is_empty() => counts.0 += 1,
            false => {}
        }
    }
    counts
}

/// What is owed for one reason must come.
fn owes<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>, why: Why, is_of_rule: impl Fn(&Due<'t>) -> bool) {
    // A request of its own that failed takes the queue pair to the error state, at a time that nobody knows.
    let (Some(first), None) = (talk.first(), talk.failed()) else {
        return;
    };
    let responses = responses(talk, first);
    for due in dues(talk, &responses)
        .iter()
        .filter(|due| due.why == why && is_of_rule(due))
    {
        let Some(last) = due.tries.last() else { continue };
        // A gap is told of once: where that was lost, what comes much later tells of another one.
        let is_of_it =
            |came: &&Response| why != Why::Gap || talk.is_lossless() || came.at.since(last.at.latest) <= SOON;
        let came = met(due, &responses).filter(is_of_it);
        let is_shown = || {
            let is_heard = || !may_be_told_once(talk, due, &responses) || is_missing_always(talk.trace, due);
            due.is_proof && (talk.is_lossless() || is_heard()) || due.is_next && is_never_answered(talk.trace, due)
        };
        if came.is_none() && !is_shown() {
            continue;
        }
        let (since, came) = (last.at.latest, came.map(|came| came.at));
        let evidence = due.tries.iter().map(|frame| Evidence::from(*frame));
        let within = if talk.is_lossless() { WAITED } else { SOON };
        let owed = talk.owed_before(talk.deaf, (since, within), came);
        asking.owes(owed, true, evidence, || {
            let expected = match why {
                Why::Gap => "a sequence NAK",
                Why::Asked | Why::Again => "an answer",
            };
            let about = due.heard.opcode.to_string();
            let expected = format!("{expected} within {} of PSN {}", duration_words(within), due.heard.psn);
            let seen = if came.is_some() { "one" } else { "none" };
            (about, expected, format!("{seen}{}", after(since, came)))
        });
    }
}

fn request_answered<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let receives = Receives::of(talk);
    owes(talk, asking, Why::Asked, |due| !lacks(&receives, due));
}

/// Whether none was posted for the message of a request when it came last.
fn lacks(receives: &Receives, due: &Due<'_>) -> bool {
    let is_send = matches!(Asks::of(due.heard.opcode), Asks::Send(_));
    let sent = due.tries.last();
    sent.is_some_and(|sent| receives.lack(due.psns, is_send, sent.place))
}

fn rnr_nak_owed<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let receives = Receives::of(talk);
    owes(talk, asking, Why::Asked, |due| lacks(&receives, due));
}

/// A device may be late, and packets may be lost: not all of a test, three or more.
fn answered_at_once<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    let (at_once, late) = first_answers(talk);
    if at_once > 0 {
        return asking.must(true, [], Default::default);
    }
    let is_enough = late.len() >= TRIES as usize;
    if is_enough && talks(talk.trace).iter().all(|talk| first_answers(talk).0 == 0) {
        let evidence = late.iter().map(|frame| Evidence::from(*frame));
        asking.must(false, evidence, || {
            let expected = "one is acknowledged when it comes first".into();
            let seen = format!("{} had to be sent again, and none was", late.len());
            ("SENDs and WRITEs".into(), expected, seen)
        });
    }
}

/// How many SENDs and WRITEs were answered before they came again, and those that were answered later, though they waited.
fn first_answers<'t>(talk: &Talk<'t>) -> (usize, Vec<&'t FrameSeen>) {
    let (Some(first), None) = (talk.first(), talk.failed()) else {
        return (0, Vec::new());
    };
    let responses = responses(talk, first);
    let dues = dues(talk, &responses);
    let is_first = |due: &&Due<'_>| due.why == Why::Asked && due.is_next && !Asks::of(due.heard.opcode).has_response();
    let mut came: BTreeMap<u32, Vec<&FrameSeen>> = BTreeMap::new();
    for (at, _, frame) in talk.asked() {
        came.entry(at).or_default().push(frame);
    }
    let came_again = |due: &Due<'t>| {
        let first = due.tries.first()?;
        let mut again = came.get(&due.psns.0)?.iter().copied();
        again.find(|frame| frame.place > first.place)
    };
    // What lies behind a READ or atomic that is put off is not done, and comes again.
    let is_put_off = |due: &&Due<'t>| {
        let from = due.tries.first().map_or(usize::MAX, |first| first.place);
        let mut put_off = responses.iter().filter(|response| response.says == Says::Rnr);
        put_off.any(|response| response.place > from && response.offset <= due.psns.0)
    };
    let (mut at_once, mut late, mut answered) = (0, Vec::new(), 0);
    for due in dues.iter().filter(is_first).filter(|due| !is_put_off(due)) {
        let again = came_again(due);
        let until = again.map_or(usize::MAX, |again| again.place);
        match (met(due, &responses), again) {
            (Some(came), _) if came.place < until => at_once += 1,
            // Of those that waited together one alone may be to blame: its answer was lost, or it lacked a receive.
            (Some(came), Some(again))
                if again.at.since(due.tries[0].at).0 >= WAITED && due.tries[0].place >= answered =>
            {
                late.push(due.tries[0]);
                answered = came.place;
            }
            _ => {}
        }
    }
    (at_once, late)
}

fn duplicate_answered<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    owes(talk, asking, Why::Again, |_| true);
}

fn gap_answered<'t>(talk: &Talk<'t>, asking: &mut Asking<'_, 't>) {
    owes(talk, asking, Why::Gap, |_| true);
}

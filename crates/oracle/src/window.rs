//! The requests of one direction that are still of interest: those without an answer, and the last ones before.

use std::collections::VecDeque;

use verbatim_wire::packet::{Opcode, Psn};

use super::access::Allows;
use super::parsed::{Parsed, Part, RequestKind};
use super::pmtu::Pmtu;
use super::request::{Invalid, Repeated, Request};

/// Requests that are kept behind the last acknowledged one, for duplicates of them.
const HISTORY: usize = 256;
/// Requests that are kept at most: memory is by connections, not by packets.
const MOST: usize = 8192;
/// Requests that are looked at one after the other, before all are searched.
const NEWEST: usize = 8;
/// PSNs from the oldest request that is kept to the newest: fewer than a quarter of all, so that behind and ahead are told
/// apart.
const SPAN: u32 = 1 << 22;
/// PSNs that may be missing before a packet belongs to another connection.
const FAR: u32 = 1 << 16;
/// Half of all PSNs: what is further ahead is behind.
const HALF: u32 = Psn::COUNT / 2;

/// What the path MTU was learnt from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Source {
    /// It is known, whatever packets say.
    Known,
    /// That packet; and the size that the last one had which contradicts.
    Packet(u64, Option<u32>),
    /// Nothing yet.
    #[default]
    Nothing,
}

/// Where a request's PSN stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Nothing was seen before.
    Beginning,
    /// It follows the last new one.
    Next,
    /// That many PSNs before it were not seen.
    Ahead(u32),
    /// It came before: the request at that index, so many PSNs into it.
    Again(usize, u32),
    /// It was skipped before.
    Hole,
    /// It is older than what is remembered.
    Old,
    /// It is nowhere near: another connection, or nonsense.
    Far,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    requests: VecDeque<Request>,
    /// The PSN of the next new request.
    pub(super) next: Option<Psn>,
    /// The next PSN if the requester goes on where it is, be it new or not.
    pub(super) cursor: Option<Psn>,
    /// The PSN of the first request, where it is known and nothing since was forgotten.
    begun: Option<Psn>,
    /// The PSN that was due when something came that is far ahead of all.
    pub(super) stray: Option<Psn>,
    /// That it was due has been said.
    pub(super) stray_is_answered: bool,
    /// Counts of messages that were begun: their numbers only grow.
    epochs: u32,
    pub(super) pmtu: Pmtu,
    /// What the path MTU was learnt from.
    pub(super) pmtu_source: Source,
    /// READs and atomics that are owed responses, at most: none when 0.
    owed: u32,
    /// READs and atomics that came again and were not answered since.
    asked_again: u32,
    /// READs and atomics that the responder answers at a time; 0: unknown, one at least.
    pub(super) answers: u32,
}

impl Window {
    pub(super) fn get(&self, at: usize) -> &Request {
        &self.requests[at]
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut Request {
        &mut self.requests[at]
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The newest request.
    pub(super) fn newest(&self) -> Option<&Request> {
        self.requests.back()
    }

    /// The request right before the one at that index, if it ends where that one begins.
    pub(super) fn before(&self, at: usize) -> Option<&Request> {
        let before = self.requests.get(at.checked_sub(1)?)?;
        (before.psns != 0 && before.last().next() == self.requests[at].psn).then_some(before)
    }

    /// The packets of a message up to the one at that index, from its First or Only on; none where one of them was not seen, or is
    /// no part of it.
    pub(super) fn message_until(&self, at: usize) -> Option<Vec<&Request>> {
        let mut from = at;
        while let RequestKind::Send(Part::Middle | Part::Last) | RequestKind::Write(Part::Middle | Part::Last) =
            self.requests[from].asks()
        {
            let is_send = matches!(self.requests[from].asks(), RequestKind::Send(_));
            match self.before(from)?.asks() {
                RequestKind::Send(Part::First | Part::Middle) if is_send => {}
                RequestKind::Write(Part::First | Part::Middle) if !is_send => {}
                _ => return None,
            }
            from -= 1;
        }
        Some(self.requests.range(from..=at).collect())
    }

    /// The same, if a port that conforms has taken it: of a damaged one nothing is known but its PSN.
    pub(super) fn taken_before(&self, at: usize) -> Option<&Request> {
        self.before(at).filter(|before| before.is_taken)
    }

    /// The index of the request that takes a PSN, and how far into it that is.
    pub(super) fn find(&self, psn: Psn) -> Option<(usize, u32)> {
        let base = self.requests.front()?.psn;
        let offset = psn.since(base);
        // Most often one of the newest is meant.
        let is_behind = |request: &Request| request.psn.since(base) <= offset;
        let near = self.requests.iter().rev().take(NEWEST).position(is_behind);
        let behind = near.map_or_else(
            || self.requests.partition_point(is_behind),
            |back| self.requests.len() - back,
        );
        let request = self.requests.get(behind.checked_sub(1)?)?;
        let into = psn.since(request.psn);
        let takes = if request.psns == 0 {
            self.room(behind - 1)
        } else {
            request.psns
        };
        (offset < HALF && into < takes).then_some((behind - 1, into))
    }

    /// PSNs that a READ whose size in PSNs is not known takes at most: up to the next request that was seen.
    fn room(&self, at: usize) -> u32 {
        let read = &self.requests[at];
        match self.requests.get(at + 1) {
            Some(next) => next.psn.since(read.psn).max(1),
            None => self.pmtu.most_psns(read.bytes),
        }
    }

    /// The request at that index takes so many PSNs.
    fn resize(&mut self, at: usize, psns: u32) {
        let request = &mut self.requests[at];
        self.owed -= u32::from(request.is_owed());
        request.psns = psns;
        self.owed += u32::from(request.is_owed());
    }

    /// The READ at that index takes so many PSNs, if what told that it takes more was what came next: something between them was
    /// lost, so that nobody knows how many messages lie there.
    fn shrink(&mut self, at: usize, psns: u32) {
        let read = &self.requests[at];
        if !read.is_inferred || psns >= read.psns {
            return;
        }
        let counted = read.epoch;
        self.resize(at, psns);
        self.requests[at].is_inferred = false;
        self.epochs += 1;
        let behind = self.requests.range_mut(at + 1..);
        for request in behind.take_while(|request| request.epoch == counted) {
            request.epoch = self.epochs;
        }
    }

    /// The path MTU is one of these, which may tell how many PSNs READs take.
    pub(super) fn set_pmtu(&mut self, pmtu: Pmtu) {
        if self.pmtu == pmtu {
            return;
        }
        self.pmtu = pmtu;
        for at in 0..self.requests.len() {
            let read = &self.requests[at];
            match (read.psns, pmtu.psns(read.bytes)) {
                (0, Some(psns)) => self.resize(at, psns),
                (_, Some(psns)) => self.shrink(at, psns),
                (_, None) => {}
            }
        }
        let newest = self.newest().filter(|newest| newest.psns > 0);
        if let Some(next) = newest.map(|newest| newest.last().next()) {
            self.cursor = self
                .cursor
                .map(|cursor| if Some(cursor) == self.next { next } else { cursor });
            self.next = Some(next);
        }
    }

    /// The request with that PSN is no part of a message as it should be: of what follows, its lengths say nothing.
    pub(super) fn doubt(&mut self, psn: Psn) {
        if let Some((at, _)) = self.find(psn) {
            self.requests[at].left = None;
            self.requests[at].is_odd = true;
        }
    }

    /// Why no responder may take the request with that PSN.
    pub(super) fn set_invalid(&mut self, psn: Psn, invalid: Option<Invalid>) {
        if let Some((at, 0)) = self.find(psn) {
            self.requests[at].invalid = invalid;
        }
    }

    /// What the responder's memory and queue pair allow of the request that this packet was the first to carry. Behind a gap it may
    /// be no part of what the responder takes.
    pub(super) fn allow(&mut self, psn: Psn, number: u64, allows: Allows) {
        if let Some((at, 0)) = self.find(psn)
            && (at == 0 || self.requests[at - 1].epoch == self.requests[at].epoch)
        {
            let request = &mut self.requests[at];
            if request.number == number && request.is_taken {
                request.denied = request.denied.or(allows.denied);
                request.invalid = request.invalid.or(allows.invalid.map(Invalid::NotAllowed));
                request.is_allowed |= allows.is_allowed;
            }
        }
    }

    /// Where a request's PSN stands.
    pub(super) fn place(&self, psn: Psn) -> Place {
        let Some(next) = self.next else {
            return Place::Beginning;
        };
        let ahead = psn.since(next);
        let is_open = self.newest().is_some_and(|newest| newest.psns == 0);
        if ahead == 0 && !is_open || self.ends_a_read(psn) {
            return Place::Next;
        }
        match self.find(psn) {
            // A READ of not yet known size ends somewhere before it.
            Some((at, into @ 1..)) if self.requests[at].psns == 0 => return Place::Ahead(into),
            Some((at, into)) => return Place::Again(at, into),
            None => {}
        }
        let behind = next.since(psn);
        let oldest = self.oldest().map_or(0, |oldest| next.since(oldest));
        match () {
            () if ahead < FAR => Place::Ahead(ahead),
            () if behind <= oldest => Place::Hole,
            () if behind - oldest < FAR => Place::Old,
            () => Place::Far,
        }
    }

    /// The PSN behind which nothing is remembered.
    fn oldest(&self) -> Option<Psn> {
        self.begun.or_else(|| Some(self.requests.front()?.psn))
    }

    /// Whether that PSN may follow the newest request, a READ of not yet known size.
    fn ends_a_read(&self, psn: Psn) -> bool {
        self.newest().is_some_and(|read| {
            let count = psn.since(read.psn);
            read.psns == 0 && count < HALF && self.pmtu.may_take(read.bytes, count)
        })
    }

    /// Whether a PSN lies near what was sent, so that a response with it may belong here.
    pub(super) fn covers(&self, psn: Psn) -> bool {
        self.find(psn).is_some()
    }

    /// Whether that PSN was not sent yet, as far as was seen.
    pub(super) fn is_beyond(&self, psn: Psn) -> bool {
        self.next.is_some_and(|next| psn.since(next) < HALF) && self.find(psn).is_none()
    }

    /// The first request has this PSN.
    pub(super) fn begin(&mut self, first: Psn) {
        self.next = Some(first);
        self.cursor = self.next;
        self.begun = self.next;
    }

    /// The first request that is seen has this PSN; others may have come before it.
    pub(super) fn expect(&mut self, first: Psn) {
        if self.next.is_none() {
            self.next = Some(first);
            self.cursor = self.next;
        }
    }

    /// A request came that is nowhere near: one that is ahead is out of sequence for the responder.
    pub(super) fn strayed(&mut self, psn: Psn) {
        if self.next.is_some_and(|next| psn.since(next) < HALF) {
            self.stray = self.next;
            self.stray_is_answered = false;
        }
    }

    /// Takes a new request; `gap`: PSNs before it are missing.
    pub(super) fn push(&mut self, parsed: &Parsed<'_>, gap: bool, acknowledged: Option<Psn>) {
        let open_read = self.newest().filter(|read| read.psns == 0 && !gap);
        if let Some(psns) = open_read.map(|read| parsed.psn.since(read.psn)) {
            let at = self.requests.len() - 1;
            self.resize(at, psns);
            self.requests[at].is_inferred = true;
        }
        let before = self.newest().filter(|newest| !gap && newest.is_taken);
        let request = self.counted(self.request(parsed, before), before.map(|before| before.epoch));
        self.next = Some(request.last().next());
        self.owed += u32::from(request.is_owed());
        self.requests.push_back(request);
        self.forget(acknowledged);
    }

    /// The packet with the next PSN came, and was damaged: nothing of it is kept but its PSN, until it comes again.
    pub(super) fn push_damaged(&mut self, parsed: &Parsed<'_>, acknowledged: Option<Psn>) {
        let damaged = Request {
            opcode: Opcode(0x1F),
            digests: (0, 0),
            target: (0, 0),
            bytes: 0,
            psns: 1,
            left: None,
            messages: 0,
            ..self.request(parsed, None)
        };
        let damaged = self.counted(damaged, None);
        self.next = Some(damaged.psn.next());
        self.requests.push_back(damaged);
        self.forget(acknowledged);
    }

    /// Nobody knows how many messages lie before the newest request.
    pub(super) fn count_anew(&mut self) {
        self.epochs += 1;
        let epoch = self.epochs;
        if let Some(newest) = self.requests.back_mut() {
            newest.epoch = epoch;
        }
    }

    /// A request that is counted on from the one before it, or begins a count; that of the first one is 0.
    fn counted(&mut self, request: Request, epoch: Option<u32>) -> Request {
        let epoch = epoch.or_else(|| (self.begun == Some(request.psn)).then_some(0));
        let epoch = epoch.unwrap_or_else(|| {
            self.epochs += 1;
            self.epochs
        });
        Request { epoch, ..request }
    }

    fn request(&self, parsed: &Parsed<'_>, before: Option<&Request>) -> Request {
        let asks = RequestKind::of(parsed.opcode);
        let reth = parsed.reth();
        let of_reth = reth.map(|reth| (reth.va().0, reth.r_key().0));
        let of_atomic = parsed.atomic().map(|atomic| (atomic.va().0, atomic.r_key().0));
        let bytes = match (asks, reth) {
            (RequestKind::Read, Some(reth)) => reth.dma_len(),
            _ => parsed.length,
        };
        let messages = before.map_or(0, |before| before.messages) + u32::from(asks.ends());
        Request {
            psn: parsed.psn,
            psns: if asks == RequestKind::Read {
                self.pmtu.psns(bytes).unwrap_or(0)
            } else {
                1
            },
            opcode: parsed.opcode,
            digests: parsed.digests(),
            target: of_reth.or(of_atomic).unwrap_or_default(),
            bytes,
            left: left(parsed, before),
            began: match before {
                Some(before) if !matches!(asks.part(), Part::First | Part::Only) => before.began,
                _ => parsed.number,
            },
            number: parsed.number,
            last: parsed.number,
            at: parsed.at,
            messages,
            epoch: 0,
            is_taken: parsed.is_taken,
            next_response: 0,
            is_inferred: false,
            behind: self.owed + self.asked_again,
            response_cursor: 0,
            is_given_up: false,
            again: None,
            original: None,
            invalid: None,
            denied: None,
            is_allowed: false,
            is_odd: false,
        }
    }

    /// The request at that index came again, from so many PSNs into it.
    pub(super) fn again(&mut self, at: usize, into: u32, parsed: &Parsed<'_>) {
        if !self.requests[at].is_taken {
            return self.replace(at, parsed);
        }
        if into > 0 || !self.requests[at].is_as(parsed) {
            // What follows it is another message now, or none.
            for request in self.requests.range_mut(at..) {
                (request.invalid, request.denied, request.is_allowed) = (None, None, false);
            }
        }
        // Behind a gap messages were counted anew; when what lay before it comes, they can be counted on.
        let counted = self.taken_before(at).map(|before| (before.epoch, before.messages));
        let behind = self.owed + self.asked_again;
        let request = &mut self.requests[at];
        request.behind = request.behind.max(behind);
        request.at = parsed.at;
        request.last = parsed.number;
        if request.asks().has_response() {
            self.asked_again += u32::from(request.again.is_none());
            request.again = Some(Repeated {
                times: request.again.map_or(0, |again| again.times) + 1,
                least: request.again.map_or(into, |again| again.least.min(into)),
                number: parsed.number,
            });
        }
        if let Some((epoch, messages)) = counted {
            request.epoch = epoch;
            request.messages = messages + u32::from(request.asks().ends());
        }
    }

    /// The request at that index was damaged so far: only now it is known.
    fn replace(&mut self, at: usize, parsed: &Parsed<'_>) {
        let before = self.taken_before(at);
        let epoch = before.map(|before| before.epoch);
        let mut request = self.counted(self.request(parsed, before), epoch);
        // What it takes may not reach into what follows.
        if let Some(next) = self.requests.get(at + 1) {
            request.psns = request.psns.min(next.psn.since(parsed.psn));
        }
        self.owed += u32::from(request.is_owed());
        if at + 1 == self.requests.len() {
            self.next = Some(request.last().next());
        }
        self.requests[at] = request;
    }

    /// A request that was skipped before has come.
    pub(super) fn fill(&mut self, parsed: &Parsed<'_>, acknowledged: Option<Psn>) {
        let Some(base) = self.oldest() else {
            return;
        };
        let offset = parsed.psn.since(base);
        let at = self
            .requests
            .partition_point(|request| request.psn.since(base) <= offset);
        let before = at.checked_sub(1).map(|before| &self.requests[before]);
        let before = before.filter(|before| before.is_taken && before.psns != 0 && before.last().next() == parsed.psn);
        let epoch = before.map(|before| before.epoch);
        let mut request = self.counted(self.request(parsed, before), epoch);
        // What it takes may not reach into what follows.
        let room = self.requests.get(at).map_or(1, |next| next.psn.since(parsed.psn));
        request.psns = request.psns.min(room);
        self.owed += u32::from(request.is_owed());
        self.requests.insert(at, request);
        self.forget(acknowledged);
    }

    /// All messages that were seen since the count began which that request is in; `None` when another has begun since,
    /// and nobody knows how many lie between.
    pub(super) fn messages_of(&self, epoch: u32) -> Option<u32> {
        self.newest()
            .filter(|newest| newest.epoch == epoch)
            .map(|newest| newest.messages)
    }

    /// Whether a READ or atomic after that index, or at it, is owed a response.
    pub(super) fn owes_from(&self, at: usize) -> bool {
        self.owed > 0 && self.requests.iter().skip(at).any(Request::is_owed)
    }

    /// Whether READs or atomics are owed responses, or may be answered again.
    pub(super) fn awaits_responses(&self) -> bool {
        self.owed + self.asked_again > 0
    }

    /// Whether READs or atomics came again and were not answered since.
    pub(super) fn is_asked_again(&self) -> bool {
        self.asked_again > 0
    }

    /// The oldest READ or atomic before that index that is owed a response.
    pub(super) fn owed_before(&self, at: usize) -> Option<usize> {
        if self.owed == 0 {
            return None;
        }
        // From the newest on, of which few are without an answer: the last that is counted is the oldest.
        let later = self.requests.range(at..).filter(|request| request.is_owed()).count();
        let mut left = (self.owed as usize).checked_sub(later).filter(|left| *left > 0)?;
        (0..at).rev().find(|&at| {
            left -= usize::from(self.requests[at].is_owed());
            left == 0
        })
    }

    /// Whether a READ or atomic is one more than the responder may be able to answer at a time.
    pub(super) fn may_be_one_more(&self, at: usize) -> bool {
        let request = &self.requests[at];
        request.asks().has_response() && request.behind >= self.answers.max(1)
    }

    /// A response to the request at that index has come, so many PSNs into it.
    pub(super) fn answered(&mut self, at: usize, into: u32, (begins, is_last): (bool, bool)) {
        let is_newest = at + 1 == self.requests.len();
        if is_last {
            self.shrink(at, into + 1);
        }
        let request = &mut self.requests[at];
        self.owed -= u32::from(request.is_owed());
        if is_last && request.psns == 0 {
            request.psns = into + 1;
            if is_newest {
                self.next = Some(request.last().next());
            }
        }
        request.next_response = request.next_response.max(into + 1);
        request.is_given_up = false;
        let begins_anew = into != request.response_cursor || begins && into > 0;
        if let Some(again) = request.again.filter(|_| begins_anew) {
            let times = again.times - 1;
            request.again = (times > 0).then_some(Repeated { times, ..again });
            self.asked_again -= u32::from(times == 0);
        }
        request.response_cursor = into + 1;
        self.owed += u32::from(request.is_owed());
    }

    /// The request at that index is acknowledged: what came again before it was answered by then, or never will be.
    pub(super) fn acknowledged(&mut self, at: usize) {
        if self.asked_again == 0 {
            return;
        }
        let number = self.requests[at].number;
        for request in &mut self.requests {
            if request.again.take_if(|again| again.number < number).is_some() {
                self.asked_again -= 1;
            }
        }
    }

    /// READs and atomics before that index are not waited for any more.
    pub(super) fn give_up_before(&mut self, at: usize) {
        while let Some(owed) = self.owed_before(at) {
            self.give_up(owed);
        }
    }

    /// The request at that index was not answered, or wrongly: it may come again.
    pub(super) fn give_up(&mut self, at: usize) {
        let request = &mut self.requests[at];
        self.owed -= u32::from(request.is_owed());
        request.is_given_up = true;
    }

    fn forget(&mut self, acknowledged: Option<Psn>) {
        let is_done = |request: &Request| acknowledged.is_some_and(|psn| psn.since(request.last()) < HALF);
        let is_wide = |requests: &VecDeque<Request>| match (requests.front(), requests.back()) {
            (Some(oldest), Some(newest)) => newest.psn.since(oldest.psn) >= SPAN,
            _ => false,
        };
        while self.requests.len() > MOST
            || is_wide(&self.requests)
            || (self.requests.len() > HISTORY && is_done(&self.requests[HISTORY]))
        {
            if let Some(forgotten) = self.requests.pop_front() {
                self.begun = None;
                self.owed -= u32::from(forgotten.is_owed());
                self.asked_again -= u32::from(forgotten.again.is_some());
            }
        }
    }
}

/// Bytes of a WRITE that are still to come after this packet.
fn left(parsed: &Parsed<'_>, before: Option<&Request>) -> Option<u32> {
    match (RequestKind::of(parsed.opcode), parsed.reth()) {
        (RequestKind::Write(Part::First | Part::Only), Some(reth)) => reth.dma_len().checked_sub(parsed.length),
        (RequestKind::Write(_), _) => before?.left?.checked_sub(parsed.length),
        _ => None,
    }
}

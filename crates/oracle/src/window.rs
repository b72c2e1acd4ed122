//! Requests in one direction that the rules still need: the unanswered requests, and the last answered requests
//! before them.

use std::collections::VecDeque;

use verbatim_wire::packet::{Opcode, Psn};

use super::access::Allows;
use super::parsed::{Parsed, Part, RequestKind};
use super::pmtu::Pmtu;
use super::request::{Invalid, Repeated, Request};

/// Number of acknowledged requests that the window keeps to recognize duplicates.
const HISTORY: usize = 256;
/// Maximum number of requests in a window, so that memory grows with connections and not with packets.
const MOST: usize = 8192;
/// Number of newest requests that are compared one by one before the binary search.
const NEWEST: usize = 8;
/// Limit of the PSN distance from the oldest to the newest request of the window: a quarter of all PSNs. With this
/// limit, every PSN is clearly ahead of the window or behind it.
const SPAN: u32 = 1 << 22;
/// A request that skips this many PSNs or more counts as part of another connection.
const FAR: u32 = 1 << 16;
/// Half of all PSNs. A PSN that is this far ahead, or further, counts as behind.
const HALF: u32 = Psn::COUNT / 2;

/// Source of the known path MTU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Source {
    /// The path MTU is given, and packets do not change it.
    Known,
    /// Number of the packet that showed the path MTU, and the size in bytes of a later packet that contradicts it.
    Packet(u64, Option<u32>),
    /// No packet has shown the path MTU yet.
    #[default]
    Nothing,
}

/// Relation of a request's PSN to the earlier requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// First request of the direction.
    Beginning,
    /// The request follows the newest request.
    Next,
    /// This many PSNs before the request were not seen.
    Ahead(u32),
    /// Retransmission. The first field is the index of the request. The second field is the offset in PSNs at which
    /// the retransmission begins, because a READ may be repeated in part.
    Again(usize, u32),
    /// The PSN lies in an earlier gap.
    Hole,
    /// The PSN is older than the window.
    Old,
    /// The PSN is far from all others: another connection, or a meaningless value.
    Far,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    requests: VecDeque<Request>,
    /// PSN of the next new request.
    pub(super) next: Option<Psn>,
    /// PSN after the last request packet. Differs from `next` while the requester retransmits.
    pub(super) cursor: Option<Psn>,
    /// First PSN of the connection, if it is known and the window still has all requests.
    begun: Option<Psn>,
    /// PSN that was expected when a request with a PSN far ahead arrived.
    pub(super) stray: Option<Psn>,
    /// Whether a sequence NAK has named `stray`.
    pub(super) stray_is_answered: bool,
    /// Number of the newest epoch. The messages are counted from 0 again in each epoch; a gap among the requests
    /// starts a new one. See [`Request::epoch`].
    epochs: u32,
    pub(super) pmtu: Pmtu,
    pub(super) pmtu_source: Source,
    /// Number of READs and atomics that may still await responses.
    owed: u32,
    /// Number of READs and atomics with a retransmission that is not answered yet.
    asked_again: u32,
    /// Number of READs and atomics that the responder accepts at a time. 0 means unknown, and counts as one.
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

    pub(super) fn newest(&self) -> Option<&Request> {
        self.requests.back()
    }

    /// Returns the request directly before index `at`, if its last PSN directly precedes the PSN of the request at
    /// `at`.
    pub(super) fn before(&self, at: usize) -> Option<&Request> {
        let before = self.requests.get(at.checked_sub(1)?)?;
        (before.psns != 0 && before.last().next() == self.requests[at].psn).then_some(before)
    }

    /// Returns the packets of a message from its First or Only up to the packet at index `at`. `None` if a packet was
    /// not seen, or belongs to another message.
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

    /// Returns the same request as [`Self::before`]. `None` if its packet is damaged, because only the packet's PSN is
    /// known.
    pub(super) fn taken_before(&self, at: usize) -> Option<&Request> {
        self.before(at).filter(|before| before.is_taken)
    }

    /// Returns the index of the request that takes a PSN, and the offset of the PSN in the request.
    pub(super) fn find(&self, psn: Psn) -> Option<(usize, u32)> {
        let base = self.requests.front()?.psn;
        let offset = psn.since(base);
        // Most PSNs belong to one of the newest requests.
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

    /// Returns the largest number of PSNs that the READ of unknown size at index `at` may take. The next request
    /// seen limits it.
    fn room(&self, at: usize) -> u32 {
        let read = &self.requests[at];
        match self.requests.get(at + 1) {
            Some(next) => next.psn.since(read.psn).max(1),
            None => self.pmtu.most_psns(read.bytes),
        }
    }

    /// Sets the number of PSNs of the request at index `at`.
    fn resize(&mut self, at: usize, psns: u32) {
        let request = &mut self.requests[at];
        self.owed -= u32::from(request.is_owed());
        request.psns = psns;
        self.owed += u32::from(request.is_owed());
    }

    /// Reduces a READ to `psns` PSNs, if its size was only inferred from the next request, and was larger. The READ
    /// was then shorter than inferred, so a packet between the two requests was lost. A new message count therefore
    /// starts after the READ.
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

    /// Sets the possible path MTUs, which may determine the number of PSNs of READs.
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

    /// Marks the request that takes the PSN as malformed. The remaining length of its message is then unknown.
    pub(super) fn doubt(&mut self, psn: Psn) {
        if let Some((at, _)) = self.find(psn) {
            self.requests[at].left = None;
            self.requests[at].is_odd = true;
        }
    }

    /// Sets the reason why the responder must, or may, refuse the request that begins at the PSN.
    pub(super) fn set_invalid(&mut self, psn: Psn, invalid: Option<Invalid>) {
        if let Some((at, 0)) = self.find(psn) {
            self.requests[at].invalid = invalid;
        }
    }

    /// Stores whether the responder's memory and queue pair allow the request that begins at the PSN. Does nothing
    /// if packet `number` is not its first transmission. Also does nothing if the request before it is missing,
    /// because the responder may then have dropped the request.
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

    /// Returns how a request's PSN relates to the requests before it.
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
            // The READ of unknown size may end anywhere before this PSN. The PSN may therefore belong to a new
            // request.
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

    /// Returns the oldest PSN that the window covers.
    fn oldest(&self) -> Option<Psn> {
        self.begun.or_else(|| Some(self.requests.front()?.psn))
    }

    /// Returns whether the newest request is a READ of unknown size that may end directly before the PSN.
    fn ends_a_read(&self, psn: Psn) -> bool {
        self.newest().is_some_and(|read| {
            let count = psn.since(read.psn);
            read.psns == 0 && count < HALF && self.pmtu.may_take(read.bytes, count)
        })
    }

    /// Returns whether a request in the window takes the PSN, so that a response with this PSN may belong to this
    /// direction.
    pub(super) fn covers(&self, psn: Psn) -> bool {
        self.find(psn).is_some()
    }

    /// Returns whether no request seen so far has this PSN or a later PSN.
    pub(super) fn is_beyond(&self, psn: Psn) -> bool {
        self.next.is_some_and(|next| psn.since(next) < HALF) && self.find(psn).is_none()
    }

    /// Sets the PSN of the connection's first request.
    pub(super) fn begin(&mut self, first: Psn) {
        self.next = Some(first);
        self.cursor = self.next;
        self.begun = self.next;
    }

    /// Sets the PSN of the first request seen. The capture may lack earlier requests.
    pub(super) fn expect(&mut self, first: Psn) {
        if self.next.is_none() {
            self.next = Some(first);
            self.cursor = self.next;
        }
    }

    /// Notes a request with a PSN far from all others. If the PSN is far ahead, a sequence NAK with the expected PSN
    /// may follow.
    pub(super) fn strayed(&mut self, psn: Psn) {
        if self.next.is_some_and(|next| psn.since(next) < HALF) {
            self.stray = self.next;
            self.stray_is_answered = false;
        }
    }

    /// Adds a new request. `gap`: whether requests directly before this request are missing.
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

    /// Adds a damaged packet with the expected PSN. Only its PSN is stored until a retransmission arrives.
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

    /// Starts a new message count at the newest request, since an unknown number of messages precedes it.
    pub(super) fn count_anew(&mut self) {
        self.epochs += 1;
        let epoch = self.epochs;
        if let Some(newest) = self.requests.back_mut() {
            newest.epoch = epoch;
        }
    }

    /// Returns the request with its [`Request::epoch`] set to `epoch`. If `epoch` is `None`, the connection's first
    /// request gets 0, and any other request gets a new number.
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

    /// Notes a retransmission of the request at index `at`, from the offset `into` on.
    pub(super) fn again(&mut self, at: usize, into: u32, parsed: &Parsed<'_>) {
        if !self.requests[at].is_taken {
            return self.replace(at, parsed);
        }
        if into > 0 || !self.requests[at].is_as(parsed) {
            // The retransmission starts inside the request, or differs from the original. The validity and access of
            // this request and of all later requests are then unknown.
            for request in self.requests.range_mut(at..) {
                (request.invalid, request.denied, request.is_allowed) = (None, None, false);
            }
        }
        // If the gap before this request has been filled in the meantime, this request continues the message count
        // of its predecessor.
        let counted = self.taken_before(at).map(|before| (before.epoch, before.messages));
        let behind = self.owed + self.asked_again;
        let request = &mut self.requests[at];
        request.behind = request.behind.max(behind);
        request.at = parsed.at;
        request.last = parsed.number;
        if request.asks().returns_data() {
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

    /// Replaces the damaged packet at index `at` by its first undamaged transmission.
    fn replace(&mut self, at: usize, parsed: &Parsed<'_>) {
        let before = self.taken_before(at);
        let epoch = before.map(|before| before.epoch);
        let mut request = self.counted(self.request(parsed, before), epoch);
        // The request must end before the next request.
        if let Some(next) = self.requests.get(at + 1) {
            request.psns = request.psns.min(next.psn.since(parsed.psn));
        }
        self.owed += u32::from(request.is_owed());
        if at + 1 == self.requests.len() {
            self.next = Some(request.last().next());
        }
        self.requests[at] = request;
    }

    /// Inserts a request that lies in an earlier gap.
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
        // The request must end before the next request.
        let room = self.requests.get(at).map_or(1, |next| next.psn.since(parsed.psn));
        request.psns = request.psns.min(room);
        self.owed += u32::from(request.is_owed());
        self.requests.insert(at, request);
        self.forget(acknowledged);
    }

    /// Returns the number of messages seen since the message count `epoch` started; `None` if a newer count has
    /// started.
    pub(super) fn messages_of(&self, epoch: u32) -> Option<u32> {
        self.newest()
            .filter(|newest| newest.epoch == epoch)
            .map(|newest| newest.messages)
    }

    /// Returns whether a READ or atomic at index `at` or later awaits a response.
    pub(super) fn owes_from(&self, at: usize) -> bool {
        self.owed > 0 && self.requests.iter().skip(at).any(Request::is_owed)
    }

    /// Returns whether READs or atomics await responses, or may be answered again.
    pub(super) fn awaits_responses(&self) -> bool {
        self.owed + self.asked_again > 0
    }

    /// Returns whether a READ or atomic was retransmitted and not answered since.
    pub(super) fn is_asked_again(&self) -> bool {
        self.asked_again > 0
    }

    /// Returns the oldest READ or atomic before index `at` that awaits a response.
    pub(super) fn owed_before(&self, at: usize) -> Option<usize> {
        if self.owed == 0 {
            return None;
        }
        // Search backwards, because requests that await a response are among the newest. The last match is the oldest.
        let later = self.requests.range(at..).filter(|request| request.is_owed()).count();
        let mut left = (self.owed as usize).checked_sub(later).filter(|left| *left > 0)?;
        (0..at).rev().find(|&at| {
            left -= usize::from(self.requests[at].is_owed());
            left == 0
        })
    }

    /// Returns whether the request at index `at` is a READ or atomic that may exceed the number that the responder
    /// accepts at a time.
    pub(super) fn may_be_one_more(&self, at: usize) -> bool {
        let request = &self.requests[at];
        request.asks().returns_data() && request.behind >= self.answers.max(1)
    }

    /// Notes a response to the request at index `at`, at the offset `into`. `begins`: the response is a First, an
    /// Only or an atomic response. `is_last`: the response is a Last, an Only or an atomic response.
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

    /// Notes that the request at index `at` was acknowledged. Forgets the retransmissions that were sent before that
    /// request: they have been answered, or will never be answered.
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

    /// Stops expecting responses to READs and atomics before index `at`.
    pub(super) fn give_up_before(&mut self, at: usize) {
        while let Some(owed) = self.owed_before(at) {
            self.give_up(owed);
        }
    }

    /// Stops expecting responses to the request at index `at`, because a response is missing or wrong. The requester
    /// may send the request again.
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

/// Returns the number of bytes of a WRITE message that packets after `parsed` carry. `before`: the packet before it.
fn left(parsed: &Parsed<'_>, before: Option<&Request>) -> Option<u32> {
    match (RequestKind::of(parsed.opcode), parsed.reth()) {
        (RequestKind::Write(Part::First | Part::Only), Some(reth)) => reth.dma_len().checked_sub(parsed.length),
        (RequestKind::Write(_), _) => before?.left?.checked_sub(parsed.length),
        _ => None,
    }
}

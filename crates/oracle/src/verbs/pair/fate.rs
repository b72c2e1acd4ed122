//! The outcome that a request must have, from the attributes, receives and memory of both ends.
//!
//! Source: architecture 9.7.4.1 (PSNs), 9.7.5.1.3 (retry counters), 9.7.5.2.4 (invalid requests), 9.7.5.2.5 (remote
//! access errors), 9.7.5.2.8 (RNR NAKs), 9.7.6.1.3 (the transport timer), 9.9 (errors).

use core::time::Duration;

use verbatim_record::verbs::pb::{self, Operation as O};
use verbatim_record::{WcStatus, duration_words, silence};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use super::ends::{End, Hears, Pair, Receive, Sent, Told};
use super::memory::{Images, Right};
use crate::rc::psns;
use crate::rule::Rule;

/// Value of rnr_retry for no limit.
const ENDLESS: u32 = 7;
/// Number of retries that are not all lost.
const MANY: u32 = 7;
/// Time by which a packet may be late.
const LATE: Duration = Duration::from_secs(2);
/// Time after which a posted request has certainly reached the other end, if both ends are on one link.
const ON_THE_LINK: Duration = Duration::from_millis(5);
/// The same time on a simulated link.
const SIMULATED: Duration = Duration::from_millis(1);

/// The outcome that a request must have.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    /// Rule that demands the outcome.
    pub(super) rule: Rule,
    /// Allowed statuses; empty if the request must not complete.
    pub(super) allowed: Vec<WcStatus>,
    /// Reason of the outcome, in words.
    pub(super) why: String,
    /// Least and most time from the post to the completion, with the rule that demands it.
    pub(super) takes: Option<(Rule, Duration, Option<Duration>)>,
    /// Status of the receive that the request takes, if it takes one and does not succeed.
    pub(super) receive: Option<WcStatus>,
    /// Whether a failed request may have changed the memory of the other end.
    pub(super) may_change: bool,
    /// Whether a successful request is executed. A duplicate is not.
    pub(super) is_executed: bool,
    /// Whether the other end executes no request behind this one, if this one fails.
    pub(super) is_last: bool,
    /// Whether lost or late packets may make the request fail with spent retries instead.
    pub(super) may_be_lost: bool,
}

impl Fate {
    fn new(rule: Rule, allowed: &[WcStatus], why: impl Into<String>) -> Self {
        Self {
            rule,
            allowed: allowed.to_vec(),
            why: why.into(),
            takes: None,
            receive: None,
            may_change: false,
            is_executed: true,
            is_last: !matches!(rule, Rule::PairDone | Rule::PairDuplicate),
            may_be_lost: false,
        }
    }

    pub(super) fn in_words(&self) -> String {
        let words: Vec<String> = self.allowed.iter().map(ToString::to_string).collect();
        match words.is_empty() {
            true => format!("no completion: {}", self.why),
            false => format!("{}: {}", words.join(" or "), self.why),
        }
    }

    /// Returns whether the other end refuses the request.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.rule, Rule::PairInvalid | Rule::PairAccess | Rule::PairOperational)
    }
}

pub(super) fn is_atomic(operation: O) -> bool {
    matches!(operation, O::CompareSwap | O::FetchAdd)
}

/// Returns whether the responses of the operation carry data.
pub(super) fn has_result(operation: O) -> bool {
    operation == O::Read || is_atomic(operation)
}

pub(super) fn takes_receive(operation: O) -> bool {
    matches!(operation, O::Send | O::SendImm | O::WriteImm)
}

/// Returns the right that the operation needs at the other end; `None` for a SEND.
pub(super) fn right(operation: O) -> Option<Right> {
    Some(match operation {
        O::Write | O::WriteImm => |access| access.remote_write,
        O::Read => |access| access.remote_read,
        O::CompareSwap | O::FetchAdd => |access| access.remote_atomic,
        _ => return None,
    })
}

/// State of one direction of a connection before a request.
pub(super) struct Before<'k, 't> {
    pub(super) pair: &'k Pair<'t>,
    /// Index of the requester's end.
    pub(super) asker: usize,
    pub(super) images: &'k Images,
    /// PSNs of the requests before.
    pub(super) psns: u32,
    /// Receives that the requests before took.
    pub(super) received: usize,
    /// Whether all requests before had completed when this one was posted.
    pub(super) is_alone: bool,
}

impl<'t> Before<'_, 't> {
    fn asks(&self) -> &End<'t> {
        &self.pair.ends[self.asker]
    }

    fn answers(&self) -> &End<'t> {
        &self.pair.ends[1 - self.asker]
    }

    fn timeout(&self) -> Option<Duration> {
        let code = self.asks().given.timeout.and_then(|code| u8::try_from(code).ok())?;
        AckTimeout(code).duration()
    }

    /// Returns the outcome that a request must have; `None` if the record does not decide it. `observed` is the
    /// completion that the request had.
    pub(super) fn fate(&self, sent: Sent<'t>, observed: Option<Told<'t>>) -> Option<Fate> {
        let mut fate = self.outcome(sent, observed)?;
        let (done, post) = sent;
        // A host that moves its queue pair to ERR flushes all requests that have not completed.
        if let Some(stop) = self.asks().stopped()
            && stop.place > done.place
            && observed.is_none_or(|told| told.event.place > stop.place)
        {
            fate.allowed.push(WcStatus::WR_FLUSH_ERR);
            fate.may_change = true;
        }
        // A responder may lack a resource for a READ or an atomic for a moment, and send an RNR NAK.
        let is_limited = self.asks().given.rnr_retry != Some(ENDLESS);
        if has_result(post.operation()) && is_limited && fate.allowed.contains(&WcStatus::SUCCESS) {
            fate.allowed.push(WcStatus::RNR_RETRY_EXC_ERR);
        }
        // A responder that refused this request or a later one is silent, so that it never repeats a lost response.
        let is_silent = self
            .answers()
            .queries
            .last()
            .is_some_and(|(_, state)| *state == pb::QpState::Err);
        let is_lossy = !self.pair.trace.begin.simulated;
        let retries = self.asks().given.retry_cnt.unwrap_or_default();
        let is_refused = fate.is_refusal() || is_silent;
        let is_short = self.timeout().is_some_and(|once| once * (retries + 1) <= LATE);
        let is_possible = retries < MANY || is_refused || is_short;
        fate.may_be_lost = is_lossy && is_possible || self.is_slow(retries);
        Some(fate)
    }

    /// Returns whether the other end may respond so late that all retries are spent.
    fn is_slow(&self, retries: u32) -> bool {
        let answers = silence::answer_time(self.answers().ack_delay);
        self.timeout().is_some_and(|once| once * (retries + 1) <= answers)
    }

    fn outcome(&self, sent: Sent<'t>, observed: Option<Told<'t>>) -> Option<Fate> {
        let (done, post) = sent;
        let (operation, local) = (post.operation(), post.local.unwrap_or_default());
        if local.length > 0 {
            let (_, is_writable) = self.images.local(self.asks().side, local)?;
            if has_result(operation) && !is_writable {
                let why = "the device may not write the local memory";
                return Some(Fate::new(Rule::PairLocal, &[WcStatus::LOC_PROT_ERR], why));
            }
        }
        let until = observed.map_or(self.asks().end, |told| told.event.place);
        let back = match self.answers().hears((done.place, until)) {
            Hears::Unknown => return None,
            Hears::No => return Some(self.unheard()),
            Hears::From(time) => Some(time.since(done.asked.earliest)),
            Hears::Yes => None,
        };
        let fate = match self.sequence(post) {
            Some(fate) => fate?,
            None => match self.refused(post)? {
                Some(fate) => fate,
                None => self.received(sent, until),
            },
        };
        Some(match back {
            Some(late) => self.heard_late(late, fate)?,
            None => fate,
        })
    }

    /// Returns the outcome of a request that the other queue pair does not hear.
    fn unheard(&self) -> Fate {
        let retries = self.asks().given.retry_cnt.unwrap_or_default();
        let why = format!("the other queue pair does not hear it, retry_cnt {retries}");
        let Some(once) = self.timeout() else {
            return Fate::new(Rule::PairRetryError, &[], format!("{why}, and the ACK timeout is off"));
        };
        let all = once * (retries + 1);
        Fate {
            takes: Some((Rule::PairTimeout, all, Some(4 * all))),
            ..Fate::new(Rule::PairRetryError, &[WcStatus::RETRY_EXC_ERR], why)
        }
    }

    /// Returns the outcome of a request whose peer hears it again after this time.
    fn heard_late(&self, late: Duration, fate: Fate) -> Option<Fate> {
        let retries = self.asks().given.retry_cnt.unwrap_or_default();
        let before_last = self.timeout()? * retries;
        let is_in_time = match self.pair.trace.begin.simulated {
            true => late + SIMULATED < before_last,
            // A retry may be lost.
            false => 2 * late + ON_THE_LINK < before_last,
        };
        if fate.allowed != [WcStatus::SUCCESS] {
            return None;
        }
        let mut allowed = fate.allowed.clone();
        if !is_in_time {
            allowed.push(WcStatus::RETRY_EXC_ERR);
        }
        let why = format!(
            "the other queue pair hears it after {}, and the last retry comes after {}",
            duration_words(late),
            duration_words(before_last)
        );
        Some(Fate {
            rule: Rule::PairRetryError,
            allowed,
            why,
            may_change: true,
            is_last: false,
            ..fate
        })
    }

    /// Returns the outcome of a request whose PSN is not the expected one. The inner value is `None` if the outcome is
    /// open.
    fn sequence(&self, post: &pb::PostSend) -> Option<Option<Fate>> {
        let gap = self.pair.gap(self.asker);
        let length = post.local.map_or(0, |local| local.length);
        let first = i64::from(self.psns);
        let end = first + i64::from(psns(post.operation(), length, self.asks().mtu()));
        if gap < 0 {
            let why = format!("its PSN is {} beyond the expected one", -gap);
            let fate = Fate::new(Rule::PairSequence, &[WcStatus::RETRY_EXC_ERR], why);
            return Some(self.timeout().map(|_| fate));
        }
        if first >= gap {
            return None;
        }
        if end > gap {
            return Some(None);
        }
        let why = format!("its PSN is {} before the expected one", gap - first);
        let operation = post.operation();
        let allowed: &[WcStatus] = match operation {
            // The responder has no result of this atomic, so that it does not respond.
            _ if is_atomic(operation) => &[WcStatus::RETRY_EXC_ERR],
            _ if operation != O::Read && self.sends_up_to(gap) => &[WcStatus::SUCCESS],
            _ => &[WcStatus::SUCCESS, WcStatus::RETRY_EXC_ERR],
        };
        let mut fate = Fate::new(Rule::PairDuplicate, allowed, why);
        fate.is_executed = false;
        Some(self.timeout().map(|_| fate))
    }

    /// Returns whether the requests reach the PSN before the expected one. The ACK of a duplicate has that PSN, and the
    /// requester ignores an ACK of a PSN that it never sent.
    fn sends_up_to(&self, gap: i64) -> bool {
        let mtu = self.asks().mtu();
        let of = |(_, post): &Sent<'_>| psns(post.operation(), post.local.map_or(0, |local| local.length), mtu);
        let all: u32 = self.asks().sends.iter().map(of).sum();
        i64::from(all) >= gap
    }

    /// Returns the outcome of a request that the other end refuses for its rights, its address or its packets. The
    /// outer value is `None` if the outcome is open.
    fn refused(&self, post: &pb::PostSend) -> Option<Option<Fate>> {
        let operation = post.operation();
        let length = post.local.map_or(0, |local| local.length);
        let invalid = |why: &str| Fate::new(Rule::PairInvalid, &[WcStatus::REM_INV_REQ_ERR], why);
        if operation == O::SendInvalidate || operation == O::Unspecified {
            return None;
        }
        if let Some(right) = right(operation) {
            let region = (post.r_key, post.remote_address, length);
            let denied = match length {
                0 => None,
                _ => self.images.remote(self.answers().side, region, right).err(),
            };
            let given = self.answers().given.access?;
            let is_out = has_result(operation) && self.answers().given.max_dest_rd_atomic == Some(0);
            if length == 0 && !right(&given) {
                return None;
            }
            let why = match () {
                () if is_out => Some("the other queue pair takes no READs and atomics"),
                () if !right(&given) => Some("the other queue pair does not allow it"),
                () if is_atomic(operation) && post.remote_address % 8 != 0 => {
                    Some("the address of an atomic is no multiple of 8")
                }
                () => None,
            };
            match (why, denied) {
                // The responder may find either error first.
                (Some(why), Some(denied)) => {
                    let why = format!("{why}, and {}", denied.in_words());
                    let allowed = [WcStatus::REM_INV_REQ_ERR, WcStatus::REM_ACCESS_ERR];
                    return Some(Some(Fate::new(Rule::PairInvalid, &allowed, why)));
                }
                (Some(why), None) => return Some(Some(invalid(why))),
                (None, Some(denied)) => {
                    let allowed = [WcStatus::REM_ACCESS_ERR];
                    return Some(Some(Fate::new(Rule::PairAccess, &allowed, denied.in_words())));
                }
                (None, None) => {}
            }
        }
        let (own, other) = (self.asks().mtu(), self.answers().mtu());
        if own != other && length > own.min(other) {
            // The responses to a READ differ from those that the requester expects, which has several outcomes.
            let why = format!("its packets have {own} bytes, and the path MTU of the other end is {other}");
            return (operation != O::Read).then(|| Some(invalid(&why)));
        }
        Some(None)
    }

    fn interval(&self) -> Duration {
        let code = self.answers().given.min_rnr_timer.unwrap_or(1);
        RnrTimer(u8::try_from(code).unwrap_or(1)).duration()
    }

    /// Returns the outcome of a request that the other end executes, once it has a receive for it.
    fn received(&self, (done, post): Sent<'t>, until: usize) -> Fate {
        let is_success = [WcStatus::SUCCESS];
        let operation = post.operation();
        if !takes_receive(operation) {
            return Fate::new(Rule::PairDone, &is_success, "both ends allow it");
        }
        let retries = self.asks().given.rnr_retry.unwrap_or_default();
        let interval = self.interval();
        let given = format!("rnr_retry {retries}, interval {}", duration_words(interval));
        let next = self
            .answers()
            .receives
            .get(self.received)
            .filter(|(done, _)| done.place < until);
        let Some((posted, receive)) = next else {
            let why = format!("no receive is posted for it, {given}");
            return match retries {
                ENDLESS => Fate::new(Rule::PairRnrRetry, &[], why),
                _ => Fate {
                    takes: Some((Rule::PairRnrWait, interval * retries, None)),
                    may_change: true,
                    ..Fate::new(Rule::PairRnrError, &[WcStatus::RNR_RETRY_EXC_ERR], why)
                },
            };
        };
        let mut fate = self.into_receive(post, receive);
        if posted.place < done.place {
            return fate;
        }
        let late = posted
            .answer
            .as_ref()
            .map_or(Duration::MAX, |(at, ..)| at.latest.since(done.asked.earliest));
        fate.why = format!("its receive is posted after {}, {given}", duration_words(late));
        let on_the_link = match self.pair.trace.begin.simulated {
            true => SIMULATED,
            false => ON_THE_LINK,
        };
        let has_come = done
            .answer
            .as_ref()
            .is_some_and(|(at, ..)| posted.asked.earliest.since(at.latest) >= on_the_link);
        // The first transmission may be lost. Then the ACK timeout makes the request come again.
        let least = self.timeout().map_or(interval, |once| once.min(interval));
        if has_come && self.is_alone {
            fate.takes = Some((Rule::PairRnrWait, least, None));
        }
        if fate.allowed == is_success {
            fate.rule = Rule::PairRnrRetry;
            if retries != ENDLESS && late >= interval * retries {
                fate.allowed.push(WcStatus::RNR_RETRY_EXC_ERR);
                fate.may_change = true;
            }
        }
        fate
    }

    /// Returns the outcome of a message with this receive.
    fn into_receive(&self, post: &pb::PostSend, receive: &pb::PostReceive) -> Fate {
        let length = post.local.map_or(0, |local| local.length);
        let into = receive.local.unwrap_or_default();
        if post.operation() != O::WriteImm && length > into.length {
            let why = format!("{length} bytes do not fit a receive of {}", into.length);
            return Fate {
                receive: Some(WcStatus::LOC_LEN_ERR),
                ..Fate::new(Rule::PairInvalid, &[WcStatus::REM_INV_REQ_ERR], why)
            };
        }
        let place = self.images.local(self.answers().side, into);
        let is_closed = place.is_some_and(|(_, is_writable)| !is_writable);
        if post.operation() != O::WriteImm && length > 0 && is_closed {
            let why = "the device may not write the receive";
            return Fate {
                receive: Some(WcStatus::LOC_PROT_ERR),
                ..Fate::new(Rule::PairOperational, &[WcStatus::REM_OP_ERR], why)
            };
        }
        Fate::new(
            Rule::PairDone,
            &[WcStatus::SUCCESS],
            "both ends allow it, and a receive is posted",
        )
    }
}

/// Returns the receive that the n-th message takes.
pub(super) fn receive_of<'t>(answers: &End<'t>, n: usize) -> Option<Receive<'t>> {
    answers.receives.get(n).copied()
}

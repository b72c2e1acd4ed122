//! One direction of a connection: the requests of one end, in order, each compared with the outcome that it must have.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, Passed, Side, WcStatus, duration_words, silence};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use super::ends::{End, Pair, Sent, Told, host_time};
use super::fate::{Before, Fate, has_result, is_atomic, receive_of, right, takes_receive};
use super::memory::{Images, Place};
use super::{By, EVENT_WAIT, Report};
use crate::rc::psns;
use crate::rule::Rule;

/// A receive that a message took, with the completion that it must have.
pub(super) struct Taken {
    pub(super) wr_id: u64,
    pub(super) status: WcStatus,
    pub(super) byte_len: u32,
    pub(super) imm: Option<u32>,
    pub(super) is_write: bool,
}

/// Result of a direction.
#[derive(Default)]
pub(super) struct Talk<'t> {
    /// Receives that the messages took, in order.
    pub(super) taken: Vec<Taken>,
    /// The completion of the request that failed, and its outcome.
    pub(super) failed: Option<(Told<'t>, Fate)>,
    /// Whether the outcomes of all requests are right, and their effects are known.
    pub(super) is_known: bool,
    /// Places that atomics changed, or where they stored their results.
    pub(super) of_atomics: Vec<Place>,
    /// Number of READs that succeeded.
    pub(super) of_reads: usize,
}

/// Follows the requests of one end. Applies their effects to the images.
pub(super) fn follow<'t>(pair: &Pair<'t>, asker: usize, images: &mut Images, report: &mut Report<'t>) -> Talk<'t> {
    let mut talk = Talk::default();
    let asks = &pair.ends[asker];
    let (mut count, mut received) = (0, 0);
    for (at, sent) in asks.sends.iter().enumerate() {
        let (done, post) = *sent;
        let mut told = asks.completions_of(false);
        let observed = told.find(|told| told.completion.wr_id == post.wr_id && told.event.place > done.place);
        if let Some((failed, _)) = &talk.failed {
            if !flushed(pair, asks, *sent, (observed, *failed), report) {
                return talk;
            }
            continue;
        }
        let mut earlier = asks.sends[..at].iter();
        let is_over = |(_, before): &Sent<'_>| {
            let mut told = asks.completions_of(false);
            told.any(|told| told.completion.wr_id == before.wr_id && told.event.place < done.place)
        };
        let before = Before {
            pair,
            asker,
            images,
            psns: count,
            received,
            is_alone: earlier.all(is_over),
        };
        let Some(fate) = before.fate(*sent, observed) else {
            return talk;
        };
        let Some(status) = completes(pair, asks, *sent, (observed, &fate), report) else {
            return talk;
        };
        let operation = post.operation();
        if takes_receive(operation) && fate.is_executed && (status == WcStatus::SUCCESS || fate.receive.is_some()) {
            if let Some((_, receive)) = receive_of(&pair.ends[1 - asker], received) {
                talk.taken.push(Taken {
                    wr_id: receive.wr_id,
                    status: fate
                        .receive
                        .filter(|_| status != WcStatus::SUCCESS)
                        .unwrap_or(WcStatus::SUCCESS),
                    byte_len: post.local.map_or(0, |local| local.length),
                    imm: matches!(operation, pb::Operation::SendImm | pb::Operation::WriteImm).then_some(post.imm),
                    is_write: operation == pb::Operation::WriteImm,
                });
            }
            received += 1;
        }
        talk.apply(pair, (asker, at), images, (status, &fate));
        count += psns(operation, post.local.map_or(0, |local| local.length), asks.mtu());
        if let Some(told) = observed.filter(|_| status != WcStatus::SUCCESS) {
            talk.failed = Some((told, fate));
        }
    }
    talk.is_known = talk.failed.as_ref().is_none_or(|(_, fate)| fate.is_last);
    talk
}

/// Returns the time within which a request certainly completes.
fn lasts(pair: &Pair<'_>, asker: &End<'_>) -> Duration {
    let code = |value: Option<u32>| value.and_then(|value| u8::try_from(value).ok()).unwrap_or_default();
    let intervals = pair
        .ends
        .iter()
        .map(|end| RnrTimer(code(end.given.min_rnr_timer)).duration());
    let rnr = intervals.max().unwrap_or_default() * (asker.given.rnr_retry.unwrap_or_default() + 1);
    let timeout = AckTimeout(code(asker.given.timeout));
    silence::rc_lasts(rnr, timeout, code(asker.given.retry_cnt))
}

/// Compares a completion with the outcome. Returns the status, or `None` if it is unknown or wrong.
fn completes<'t>(
    pair: &Pair<'t>,
    asks: &End<'t>,
    (done, post): Sent<'t>,
    (observed, fate): (Option<Told<'t>>, &Fate),
    report: &mut Report<'t>,
) -> Option<WcStatus> {
    let words = || (format!("{} {}", asks.side, request_in_words(post)), fate.in_words());
    let posted = Evidence::from(done);
    let Some(told) = observed else {
        if !post.signaled && fate.allowed.contains(&WcStatus::SUCCESS) {
            return Some(WcStatus::SUCCESS);
        }
        let due = done.answer.as_ref()?.0.latest.after(lasts(pair, asks));
        if !asks.is_alive_after(pair.trace, due) {
            return None;
        }
        if fate.allowed.is_empty() {
            report.held(fate.rule, format!("no completion of {}", words().0), [posted]);
            return None;
        }
        let is_timed = asks.given.timeout.is_some_and(|code| code > 0) && asks.given.rnr_retry != Some(7);
        let by = if is_timed { By::End(asks.side) } else { By::Either };
        let (about, expected) = words();
        report.broken(
            (Rule::PairCompletes, by),
            (about, expected, "no completion".into()),
            [posted],
        );
        return None;
    };
    let evidence = [posted, Evidence::from(told.event)];
    if fate.allowed.contains(&WcStatus::SUCCESS) {
        report.held(Rule::PairCompletes, told.in_words(), evidence);
    }
    if !fate.allowed.contains(&told.status()) {
        let by = match fate.rule {
            _ if fate.may_be_lost && told.status() == WcStatus::RETRY_EXC_ERR => By::Loss,
            Rule::PairLocal => By::End(asks.side),
            _ => By::Either,
        };
        let (about, expected) = words();
        report.broken((fate.rule, by), (about, expected, told.status().to_string()), evidence);
        return None;
    }
    report.held(fate.rule, format!("{}: {}", told.in_words(), fate.why), evidence);
    if !post.signaled && told.status() == WcStatus::SUCCESS {
        let expected = "no completion of a request that is not signaled".into();
        report.broken(
            (Rule::PairOnce, By::End(asks.side)),
            (words().0, expected, told.in_words()),
            evidence,
        );
    }
    takes(pair, asks, (done, told), fate, report);
    Some(told.status())
}

/// Compares the time from the post to the completion with its bounds.
fn takes<'t>(
    pair: &Pair<'t>,
    asks: &End<'t>,
    (done, told): (&'t verbatim_record::VerbsDone, Told<'t>),
    fate: &Fate,
    report: &mut Report<'t>,
) {
    let (Some((rule, low, high)), Some(posted)) = (fate.takes, host_time(done)) else {
        return;
    };
    if told.status() == WcStatus::WR_FLUSH_ERR {
        return;
    }
    let (least, most) = told.event.host_at.since(posted);
    let most = pair.trace.begin.at_most(most);
    let evidence = [Evidence::from(done), Evidence::from(told.event)];
    let is_wrong = most < low || high.is_some_and(|high| least > high);
    if is_wrong {
        // Nothing that a silent peer does changes the time.
        let by = match rule {
            Rule::PairTimeout => By::End(asks.side),
            _ => By::Either,
        };
        let bound = match high {
            Some(high) => format!("{} to {}", duration_words(low), duration_words(high)),
            None => format!("{} or more", duration_words(low)),
        };
        let expected = format!("{bound} from the post to the completion: {}", fate.why);
        let seen = format!("{} to {}", duration_words(least), duration_words(most));
        report.broken((rule, by), (told.in_words(), expected, seen), evidence);
    } else if least >= low && high.is_none_or(|high| most <= high) {
        report.in_time(rule, (least, low), evidence);
    }
}

/// Checks that a request behind a failed one is flushed. Returns whether it is.
fn flushed<'t>(
    pair: &Pair<'t>,
    asks: &End<'t>,
    (done, post): Sent<'t>,
    (observed, failed): (Option<Told<'t>>, Told<'t>),
    report: &mut Report<'t>,
) -> bool {
    let evidence = [Evidence::from(failed.event), Evidence::from(done)].into_iter();
    let evidence = evidence.chain(observed.map(|told| Evidence::from(told.event)));
    let is_flushed = observed.is_some_and(|told| told.status() == WcStatus::WR_FLUSH_ERR);
    if is_flushed {
        report.held(
            Rule::PairFlushed,
            observed.map(|told| told.in_words()).unwrap_or_default(),
            evidence,
        );
        return true;
    }
    let due = failed.event.at.latest.after(EVENT_WAIT);
    if observed.is_some() || asks.is_alive_after(pair.trace, due) {
        let seen = observed.map_or_else(|| "no completion".into(), |told| told.in_words());
        let about = format!("{} {}, behind {}", asks.side, request_in_words(post), failed.in_words());
        let expected = WcStatus::WR_FLUSH_ERR.to_string();
        report.broken(
            (Rule::PairFlushed, By::End(asks.side)),
            (about, expected, seen),
            evidence,
        );
    }
    false
}

pub(super) fn request_in_words(post: &pb::PostSend) -> String {
    let operation = post
        .operation()
        .as_str_name()
        .replace("OPERATION_", "")
        .replace('_', " ");
    let length = post.local.map_or(0, |local| local.length);
    format!("{operation} of {length} bytes (wr_id {})", post.wr_id)
}

impl Talk<'_> {
    /// Returns whether a byte of a slice lies where an atomic changed memory, or stored its result.
    pub(super) fn is_of_atomic(&self, images: &Images, (side, slice): (Side, pb::Slice), at: usize) -> bool {
        let place = images.local(side, slice).map(|(place, _)| place.after(at));
        place.is_some_and(|place| self.of_atomics.iter().any(|atomic| atomic.has(place, 8)))
    }

    /// Applies the effects of a request to the images of both memories.
    fn apply(
        &mut self,
        pair: &Pair<'_>,
        (asker, at): (usize, usize),
        images: &mut Images,
        (status, fate): (WcStatus, &Fate),
    ) {
        let (asks, answers) = (&pair.ends[asker], &pair.ends[1 - asker]);
        let (_, post) = asks.sends[at];
        let local = post.local.unwrap_or_default();
        let own = images.local(asks.side, local).map(|(place, _)| place);
        let region = (post.r_key, post.remote_address, local.length);
        let there = right(post.operation()).and_then(|right| images.remote(answers.side, region, right).ok());
        let into = receive_of(answers, self.taken.len().saturating_sub(1))
            .filter(|_| takes_receive(post.operation()) && fate.is_executed);
        let into = into.and_then(|(_, receive)| images.local(answers.side, receive.local.unwrap_or_default()));
        let into = into
            .map(|(place, _)| place)
            .filter(|_| post.operation() != pb::Operation::WriteImm);
        if status != WcStatus::SUCCESS {
            if has_result(post.operation())
                && let Some(own) = own
            {
                images.forget(own, local.length);
            }
            let changes = there.filter(|_| fate.may_change && post.operation() != pb::Operation::Read);
            if let Some(there) = changes {
                images.forget(there, local.length);
            }
            let receive = receive_of(answers, self.taken.len().saturating_sub(1));
            if let (Some(into), Some((_, receive)), Some(_)) = (into, receive, fate.receive) {
                images.forget(into, receive.local.map_or(0, |local| local.length));
            }
            return;
        }
        if !fate.is_executed {
            if let Some(own) = own.filter(|_| has_result(post.operation())) {
                images.forget(own, local.length);
            }
            return;
        }
        if is_atomic(post.operation()) {
            if let (Some(own), Some(there)) = (own, there) {
                self.of_atomics.extend([own, there]);
                let original = images.number(there);
                let after = original.map(|original| match post.operation() {
                    pb::Operation::FetchAdd => original.wrapping_add(post.swap_add),
                    _ if original == post.compare => post.swap_add,
                    _ => original,
                });
                let bytes = |number: Option<u64>| match number {
                    Some(number) => number.to_le_bytes().map(Some),
                    None => [None; 8],
                };
                images.put(own, &bytes(original));
                images.put(there, &bytes(after));
            }
        } else if post.operation() == pb::Operation::Read {
            if let (Some(own), Some(there)) = (own, there) {
                self.of_reads += 1;
                let bytes = images.get(there, local.length);
                images.put(own, &bytes);
            }
        } else if let (Some(own), Some(to)) = (own, there.or(into)) {
            let bytes = images.get(own, local.length);
            images.put(to, &bytes);
        }
    }
}

/// Notes that the completions of a queue come once each, in the order of the posts.
pub(super) fn once<'t>(end: &End<'t>, report: &mut Report<'t>) {
    for receives in [false, true] {
        let order: Vec<u64> = match receives {
            true => end.receives.iter().map(|(_, receive)| receive.wr_id).collect(),
            false => end.sends.iter().map(|(_, post)| post.wr_id).collect(),
        };
        let mut last: Option<(usize, Told<'t>)> = None;
        for told in end.completions_of(receives) {
            let Some(at) = order.iter().position(|wr_id| *wr_id == told.completion.wr_id) else {
                let seen = told.in_words();
                let expected = "a wr_id that was posted".into();
                let evidence = [Evidence::from(told.event)];
                report.broken(
                    (Rule::PairOnce, By::End(end.side)),
                    (String::new(), expected, seen),
                    evidence,
                );
                return;
            };
            if let Some((before, earlier)) = last.filter(|(before, _)| *before >= at) {
                let about = format!("{} completion behind {}", end.side, earlier.in_words());
                let expected = match before == at {
                    true => "one completion of each request",
                    false => "completions in the order of the posts",
                };
                let evidence = [Evidence::from(earlier.event), Evidence::from(told.event)];
                let words = (about, expected.into(), told.in_words());
                report.broken((Rule::PairOnce, By::End(end.side)), words, evidence);
                return;
            }
            report.held(Rule::PairOnce, told.in_words(), [Evidence::from(told.event)]);
            last = Some((at, told));
        }
    }
}

/// Returns the result of a violation, and words that name its possible causes.
pub(super) fn blame(by: By, control: Option<bool>) -> Option<(Passed, &'static str)> {
    match (by, control) {
        (By::End(Side::Dut), _) => Some((Passed::Fail, "")),
        (By::End(Side::Tester), _) => None,
        (By::Loss, _) => Some((Passed::Inconclusive, "; lost or late packets would explain this")),
        (By::Either, Some(true)) => Some((
            Passed::Fail,
            "; with itself, the tester's adapter shows the expected behaviour",
        )),
        (By::Either, Some(false)) => Some((
            Passed::Inconclusive,
            "; either end may have caused this: with itself, the tester's adapter breaks the same rule",
        )),
        (By::Either, None) => Some((
            Passed::Inconclusive,
            "; either end may have caused this, and no connection of the tester's adapter with itself shows which",
        )),
    }
}

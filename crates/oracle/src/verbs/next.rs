//! Responses that a READ or atomic of the device waits for, and responses that it has received.
//!
//! Source: architecture 9.7.6.1.1 (response data).

use verbatim_record::verbs::pb;
use verbatim_wire::packet::SyndromeKind;

use super::qp_trace::{PeerResponse, QpTrace, WorkRequest};
use crate::parsed::Part;
use crate::rules::responder::ResponseKind;

impl QpTrace<'_> {
    /// Returns the PSN offset after the last request that had completed with success before a place. A response that
    /// arrives later and answers a completed request is stale.
    pub(super) fn done_before(&self, place: usize) -> u32 {
        let done = self
            .completions
            .iter()
            .filter(|completion| completion.is_success() && completion.place() < place);
        done.filter_map(|completion| Some(self.posts[completion.post?].end))
            .max()
            .unwrap_or(0)
    }

    /// Returns whether a response belongs to a request that had already completed. Such a response has no effect.
    pub(super) fn is_stale(&self, answer: &PeerResponse<'_>) -> bool {
        answer.offset.is_some_and(|of| of < self.done_before(answer.place()))
    }

    /// Returns whether `answer` skips no response to a READ or atomic. This is so if the request had received all its
    /// responses with PSNs before `until`, once and in order, when `answer` was sent. On a link that may lose
    /// responses, only a completion of the request proves this.
    pub(super) fn has_had(&self, post: &WorkRequest<'_>, until: u32, answer: &PeerResponse<'_>) -> bool {
        if post.end <= self.done_before(answer.place()) || until <= post.first {
            return true;
        }
        let requests = self
            .requests
            .iter()
            .filter(|sent| sent.seen.place < answer.place() && sent.offset.is_some_and(|offset| post.has(offset)));
        let before = self.answers.iter().filter(|other| {
            let is_of_it = other.offset.is_some_and(|offset| post.has(offset));
            is_of_it
                && other.place() < answer.place()
                && matches!(other.says, ResponseKind::Read(_) | ResponseKind::Atomic)
        });
        let had: Vec<u32> = before
            .filter(|other| fits(self, other))
            .filter_map(|other| other.offset)
            .collect();
        self.is_lossless() && requests.count() == 1 && had.into_iter().eq(post.first..until.min(post.end))
    }

    /// Returns whether a response to a READ or atomic is the next expected response, and correct.
    pub(super) fn is_next_response(&self, answer: &PeerResponse<'_>) -> bool {
        let post = answer
            .offset
            .and_then(|offset| Some((offset, &self.posts[self.post_of(offset)?])));
        let is_ack = answer
            .syndrome
            .is_none_or(|syndrome| matches!(syndrome.kind(), SyndromeKind::Ack(_)));
        post.is_some_and(|(offset, post)| {
            let is_part = matches!(answer.says, ResponseKind::Atomic)
                || answer.says == ResponseKind::Read(expected(post, offset));
            is_ack && is_part && fits(self, answer) && self.has_had(post, offset, answer)
        })
    }
}

pub(super) fn is_read(post: &WorkRequest<'_>) -> bool {
    post.posted.post.operation() == pb::Operation::Read
}

/// Returns the position (First, Middle, Last or Only) of the response with this PSN, for a READ that was sent once.
pub(super) fn expected(post: &WorkRequest<'_>, offset: u32) -> Part {
    match (offset == post.first, offset + 1 == post.end) {
        (true, true) => Part::Only,
        (true, false) => Part::First,
        (false, false) => Part::Middle,
        (false, true) => Part::Last,
    }
}

/// Returns whether a response has the length that its READ expects at that PSN, or answers an atomic.
pub(super) fn fits(qp: &QpTrace<'_>, answer: &PeerResponse<'_>) -> bool {
    let Some((offset, post)) = answer
        .offset
        .and_then(|offset| Some((offset, &qp.posts[qp.post_of(offset)?])))
    else {
        return false;
    };
    match answer.says {
        ResponseKind::Atomic => post.posted.post.operation() != pb::Operation::Read && post.posted.has_response_data(),
        ResponseKind::Read(_) if post.posted.post.operation() == pb::Operation::Read => {
            let had = (offset - post.first) * qp.mtu;
            let length = post.posted.post.local.map_or(0, |local| local.length);
            answer.packet.payload().len() == length.saturating_sub(had).min(qp.mtu) as usize
        }
        _ => false,
    }
}

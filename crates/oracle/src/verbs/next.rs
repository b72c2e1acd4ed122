//! Which responses a READ or atomic of the device waits for, and which it has had.
//!
//! Source: architecture 9.7.6.1.1 (response data).

use verbatim_record::verbs::pb;
use verbatim_wire::packet::SyndromeKind;

use super::talk::{Answer, Post, Talk};
use crate::heard::Part;
use crate::rules::responder::Says;

impl Talk<'_> {
    /// The end of the requests that were told done before a place: what an answer that left after it says of them is old.
    pub(super) fn done_before(&self, place: usize) -> u32 {
        let done = self
            .told
            .iter()
            .filter(|told| told.is_success() && told.place() < place);
        done.filter_map(|told| Some(self.posts[told.post?].end))
            .max()
            .unwrap_or(0)
    }

    /// Whether an answer is of a request that its host was told done before: it says nothing any more.
    pub(super) fn is_stale(&self, answer: &Answer<'_>) -> bool {
        answer.offset.is_some_and(|of| of < self.done_before(answer.place()))
    }

    /// Whether a READ or atomic had each of its responses before a PSN, once and in order, when an answer was sent, so that the
    /// answer skips none. Where they may have been lost only what was told tells.
    pub(super) fn has_had(&self, post: &Post<'_>, until: u32, answer: &Answer<'_>) -> bool {
        if post.end <= self.done_before(answer.place()) || until <= post.first {
            return true;
        }
        let requests = self
            .requests
            .iter()
            .filter(|sent| sent.seen.place < answer.place() && sent.offset.is_some_and(|offset| post.has(offset)));
        let before = self.answers.iter().filter(|other| {
            let is_of_it = other.offset.is_some_and(|offset| post.has(offset));
            is_of_it && other.place() < answer.place() && matches!(other.says, Says::Read(_) | Says::Atomic)
        });
        let had: Vec<u32> = before
            .filter(|other| fits(self, other))
            .filter_map(|other| other.offset)
            .collect();
        self.is_lossless() && requests.count() == 1 && had.into_iter().eq(post.first..until.min(post.end))
    }

    /// Whether a response to a READ or atomic is the next one that it waits for, sound in itself.
    pub(super) fn is_next_response(&self, answer: &Answer<'_>) -> bool {
        let post = answer
            .offset
            .and_then(|offset| Some((offset, &self.posts[self.post_of(offset)?])));
        let is_ack = answer
            .syndrome
            .is_none_or(|syndrome| matches!(syndrome.kind(), SyndromeKind::Ack(_)));
        post.is_some_and(|(offset, post)| {
            let is_part = matches!(answer.says, Says::Atomic) || answer.says == Says::Read(expected(post, offset));
            is_ack && is_part && fits(self, answer) && self.has_had(post, offset, answer)
        })
    }
}

/// Whether a request is a READ.
pub(super) fn is_read(post: &Post<'_>) -> bool {
    post.posted.post.operation() == pb::Operation::Read
}

/// Which response to a READ that was sent once has that PSN.
pub(super) fn expected(post: &Post<'_>, offset: u32) -> Part {
    match (offset == post.first, offset + 1 == post.end) {
        (true, true) => Part::Only,
        (true, false) => Part::First,
        (false, false) => Part::Middle,
        (false, true) => Part::Last,
    }
}

/// Whether a response is the one that a READ expects with that PSN, or an atomic.
pub(super) fn fits(talk: &Talk<'_>, answer: &Answer<'_>) -> bool {
    let Some((offset, post)) = answer
        .offset
        .and_then(|offset| Some((offset, &talk.posts[talk.post_of(offset)?])))
    else {
        return false;
    };
    match answer.says {
        Says::Atomic => post.posted.post.operation() != pb::Operation::Read && post.posted.has_response_data(),
        Says::Read(_) if post.posted.post.operation() == pb::Operation::Read => {
            let had = (offset - post.first) * talk.mtu;
            let length = post.posted.post.local.map_or(0, |local| local.length);
            answer.packet.payload().len() == length.saturating_sub(had).min(talk.mtu) as usize
        }
        _ => false,
    }
}

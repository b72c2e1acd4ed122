//! Counts of packets by verdict.

use core::fmt;
use std::collections::BTreeMap;

use verbatim_capture::read::Unread;
use verbatim_oracle::packet_check::{Action, Check, Checks};

use super::Judged;

/// The reason why a packet was not judged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NotJudged {
    Because(&'static str),
    Unread(Unread),
}

impl fmt::Display for NotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Because(why) => f.write_str(why),
            Self::Unread(what) => write!(f, "{what}, which is not read"),
        }
    }
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) packets: u64,
    pub(super) accepted: u64,
    /// Discarded, or forwarded as bad.
    pub(super) discarded: u64,
    /// Number of packets by the check that failed first.
    by_check: [u64; Check::ALL.len()],
    pub(super) not_judged: BTreeMap<NotJudged, u64>,
    /// Checks that could not be applied to at least one packet, because the capture lacks a part.
    pub(super) absent: Checks,
    /// Checks that could not be applied to at least one packet, because the operator gave no value.
    pub(super) untold: Checks,
}

impl Tally {
    pub(super) fn count(&mut self, judged: &Judged<'_>) {
        self.packets += 1;
        let judgement = match &judged.verdict {
            Ok(judgement) => judgement,
            Err(what) => return self.count_not_judged(NotJudged::Unread(*what)),
        };
        match judgement.action {
            Action::Accept => self.accepted += 1,
            Action::Discard | Action::DiscardOrForward => self.discarded += 1,
            Action::NotJudged(why) => return self.count_not_judged(NotJudged::Because(why)),
        }
        if let Some((first, _)) = judgement.first {
            self.by_check[first as usize] += 1;
        }
        self.absent = self.absent.and(judgement.absent);
        self.untold = self.untold.and(judgement.untold);
    }

    fn count_not_judged(&mut self, why: NotJudged) {
        *self.not_judged.entry(why).or_default() += 1;
    }

    /// Returns each check that was the first to fail for some packets, with the number of these packets.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (Check, u64)> {
        Check::ALL
            .into_iter()
            .map(|check| (check, self.by_check[check as usize]))
            .filter(|(_, count)| *count > 0)
    }

    pub(super) fn exit_code(&self) -> u8 {
        match (self.discarded, self.accepted) {
            (1.., _) => 1,
            (0, 1..) => 0,
            (0, 0) => 4,
        }
    }
}

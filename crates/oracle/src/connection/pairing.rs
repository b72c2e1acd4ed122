//! State of a connection while it is unclear which packets belong to it. Later packets decide.

use verbatim_wire::packet::Psn;

use super::{Connection, Doubt, Flow, KEPT, Loss};
use crate::parsed::{Event, Parsed};
use crate::pmtu::Pmtu;
use crate::responses::Responses;
use crate::rule::{Excuse, Finding, Rule};
use crate::rules::requester::{self, Asked};
use crate::window::Place;

/// If an end sent at least this many packets, and all of them have a wrong ICRC, the end is blamed, not the path.
const ALL_DAMAGED: u64 = 3;

impl Connection {
    /// Returns why a request may begin another connection; `None` if the request continues this connection.
    pub(crate) fn doubts(&self, by: usize, event: &Event<'_>) -> Option<Doubt> {
        let flow = &self.flows[by];
        let place = flow.window.place(event.packet.bth().psn());
        if matches!(place, Place::Next | Place::Hole) {
            return None;
        }
        let parsed = Parsed::of(event);
        if !parsed.is_taken || self.is_stranger(by, &parsed) {
            return None;
        }
        let asked = Asked {
            parsed: &parsed,
            place,
            window: &flow.window,
            responses: &flow.responses,
        };
        let (at, into) = match place {
            Place::Again(at, into) => (at, into),
            // A first request, or a request after a gap, continues the connection, unless its payload length fits none
            // of the possible path MTUs.
            Place::Beginning | Place::Ahead(_) if !requester::has_no_such_size(&asked) => return None,
            _ => {
                return Some(Doubt {
                    differs: true,
                    was_acknowledged: true,
                });
            }
        };
        let psn = flow.window.get(at).psn.plus(into);
        let doubt = Doubt {
            differs: requester::differs(&asked),
            was_acknowledged: flow.responses.has_acknowledged(psn),
        };
        (doubt.differs || doubt.was_acknowledged && requester::is_unasked(&asked)).then_some(doubt)
    }

    /// Returns a connection without packets and with the same [`Loss`].
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.loss)
    }

    /// Returns whether the responder's message count is known for the request of end `of` with this PSN.
    pub(crate) fn knows_count(&self, of: usize, psn: Psn) -> bool {
        let flow = &self.flows[of];
        let found = flow.window.find(psn).map(|(at, _)| flow.window.get(at).epoch);
        flow.responses.offset.is_some_and(|offset| found == Some(offset.epoch))
    }

    /// Returns how often an MSN was wrong.
    pub(crate) fn wrong_msns(&self) -> u64 {
        let mut counts = self.counts().filter(|(rule, _)| *rule == Rule::Msn);
        counts.next().map_or(0, |(_, count)| count.broken + count.excused)
    }

    /// Returns whether a request of end `by` with that PSN would be a new request, perhaps after a gap.
    pub(crate) fn goes_on(&self, by: usize, psn: Psn) -> bool {
        matches!(self.flows[by].window.place(psn), Place::Next | Place::Ahead(_))
    }

    /// Returns whether a request with that PSN would directly follow the newest request of end `by`.
    pub(crate) fn is_next(&self, by: usize, psn: Psn) -> bool {
        self.flows[by].window.place(psn) == Place::Next
    }

    /// Takes a packet that may belong to another connection. `excuse` excuses its violations.
    pub(crate) fn take_as(&mut self, excuse: Excuse, by: usize, event: &Event<'_>) {
        self.excuse = Some(excuse);
        self.take(by, event);
        self.excuse = None;
    }

    /// Sets whether only a few responses so far suggest that the two directions are one connection.
    pub(crate) fn set_provisional(&mut self, is_provisional: bool) {
        self.is_provisional = is_provisional && self.loss == Loss::Possible;
        self.needed_excuse = false;
        self.pmtu_before = self.flows[0].window.pmtu;
    }

    /// Returns whether a response contradicted the provisional pairing of the two directions.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.needed_excuse
    }

    pub(crate) fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    /// Removes the packets of end 1, which belong to another connection.
    pub(crate) fn unpair(&mut self) {
        self.flows[0].responses = Responses::default();
        self.flows[1] = Flow::default();
        self.flows[0].window.pmtu = self.pmtu_before;
        self.partition.unpair();
        self.set_provisional(false);
    }

    /// Returns whether a response with this PSN may answer a request of end `of`.
    pub(crate) fn covers(&self, of: usize, psn: Psn) -> bool {
        self.flows[of].window.covers(psn)
    }

    /// Returns whether the capture shows a request of end `of` with this PSN and no acknowledgement of it.
    pub(crate) fn awaits(&self, of: usize, psn: Psn) -> bool {
        self.covers(of, psn) && !self.flows[of].responses.has_acknowledged(psn)
    }

    /// Returns whether the next PSN of end `of` is at most `most` PSNs from `psn`, in either direction.
    pub(crate) fn is_near(&self, of: usize, psn: Psn, most: u32) -> bool {
        let next = self.flows[of].window.next;
        next.is_some_and(|next| next.since(psn) <= most || psn.since(next) <= most)
    }

    /// Sets the PSN of the damaged first request of end `by`.
    pub(crate) fn expect(&mut self, by: usize, psn: Psn) {
        self.flows[by].window.expect(psn);
    }

    /// Called when the connection is over. If an end sent at least [`ALL_DAMAGED`] packets, all with a wrong ICRC, the
    /// end itself is at fault. Its ICRC findings then lose the excuse of damage. Does nothing if loss is excluded.
    pub(crate) fn blame_damaged(&mut self) {
        let is_icrc = |rule: Rule| rule == Rule::Icrc;
        for by in 0..2 {
            let damaged = self.damaged[by];
            if self.loss == Loss::Excluded || damaged < ALL_DAMAGED || damaged < self.packets[by] {
                continue;
            }
            let at = self.counts().position(|(rule, _)| is_icrc(rule));
            if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
                let blamed = damaged.min(count.excused);
                (count.broken, count.excused) = (count.broken + blamed, count.excused - blamed);
                self.totals = (self.totals.0 + blamed, self.totals.1.saturating_sub(blamed));
            }
            for finding in &mut self.findings {
                if finding.by == by && is_icrc(finding.rule) {
                    finding.unless = None;
                }
            }
            let order = |finding: &Finding| (finding.unless.is_some(), finding.packets.last().copied());
            self.findings.sort_by_key(order);
        }
    }

    /// Merges `other`, the other half of this connection. The packets of its end 0 become packets of end 1.
    pub(crate) fn join(&mut self, other: Self) {
        let [flow, _] = other.flows;
        self.flows[1] = flow;
        let known: Pmtu = self.flows[0].window.pmtu;
        let of_both = known.both(self.flows[1].window.pmtu);
        for flow in &mut self.flows {
            flow.window.set_pmtu(of_both);
        }
        self.partition.join(&other.partition);
        self.packets[1] += other.packets[0];
        self.damaged[1] += other.damaged[0];
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            count.asked += other.asked;
            count.broken += other.broken;
            count.excused += other.excused;
        }
        self.totals.0 += other.totals.0;
        self.totals.1 += other.totals.1;
        let theirs = other.findings.into_iter().map(|finding| Finding { by: 1, ..finding });
        self.findings.extend(theirs);
        self.findings.sort_by_key(|finding| finding.unless.is_some());
        self.findings.truncate(KEPT);
    }
}

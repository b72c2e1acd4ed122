//! A port, which turns each received packet into an outcome and counts errors.

use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH};
use verbatim_wire::{Lnh, PortState};

use super::arrival::{Arrival, Outcome, handed_up};
use super::checks::{Check, Checks};
use super::counters::Counters;
use super::defect::{LinkDefect, LinkFaults};
use super::profile::LinkProfile;

/// The link layer of a port.
#[derive(Clone, Debug)]
pub struct LinkPort {
    profile: LinkProfile,
    faults: LinkFaults,
    counters: Counters,
}

impl LinkPort {
    /// Creates a port with all counters at 0. Without defects the port conforms.
    #[must_use]
    pub fn new(profile: LinkProfile, defects: &[LinkDefect]) -> Self {
        Self {
            profile,
            faults: LinkFaults::new(defects),
            counters: Counters::default(),
        }
    }

    /// Returns the profile of the port.
    #[must_use]
    pub fn profile(&self) -> &LinkProfile {
        &self.profile
    }

    /// Returns the counters of the port.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sets the counters, as a manager does.
    pub fn set_counters(&mut self, counters: Counters) {
        self.counters = counters;
    }

    /// Receives a packet. Accepts any bytes and discards packets that it cannot parse.
    pub fn receive(&mut self, arrival: &Arrival<'_>) -> Outcome {
        if self.is_down() {
            return Outcome::Discarded;
        }
        let checks = Checks::new(&self.profile, &self.faults, arrival);
        let failed = checks.failed();
        let Some(first) = failed.first(&self.faults) else {
            if self.faults.has(LinkDefect::SoundPacketCounted) {
                self.counters.count(Check::Vcrc, &self.profile, &self.faults);
            }
            return self.passed(arrival, checks.lnh());
        };
        if self.faults.has(LinkDefect::EveryFailedCheckCounted) {
            for check in failed.iter() {
                self.counters.count(check, &self.profile, &self.faults);
            }
        } else if first != Check::PKey || checks.grh.is_none() || !self.faults.has(LinkDefect::PKeyOfGlobalNotCounted) {
            self.counters.count(first, &self.profile, &self.faults);
        }
        let choices = self.profile.choices;
        let may_forward = failed.iter().all(|check| check.lets_forward(choices)) && checks.has_lrh()
            || self.faults.has(LinkDefect::DiscardOnlyForwarded) && choices.corrupts_and_forwards;
        let in_transit = !self.profile.is_final() || self.faults.has(LinkDefect::DestinationForwards);
        if !(may_forward && in_transit) {
            Outcome::Discarded
        } else if self.faults.has(LinkDefect::ForwardedUnmarked) {
            Outcome::Forwarded
        } else {
            Outcome::ForwardedCorrupt
        }
    }

    fn is_down(&self) -> bool {
        let is_up = matches!(
            self.profile.state,
            PortState::INITIALIZE | PortState::ARMED | PortState::ACTIVE
        );
        !is_up && !self.faults.has(LinkDefect::TakenWhileDown)
    }

    fn passed(&self, arrival: &Arrival<'_>, lnh: Lnh) -> Outcome {
        if !self.profile.is_final() {
            return Outcome::Forwarded;
        }
        let icrc = match lnh {
            Lnh::IBA_LOCAL | Lnh::IBA_GLOBAL => ICRC_LENGTH,
            _ => 0,
        };
        Outcome::Accepted(handed_up(arrival.bytes, icrc + VCRC_LENGTH))
    }
}

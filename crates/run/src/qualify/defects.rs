//! Defects of all models, and which tests are there for them.

use verbatim_device::Defect;
use verbatim_device::link::LinkDefect;
use verbatim_device::rc::RcDefect;
use verbatim_rig::VirtualConfig;
use verbatim_tester::{Need, Test};

/// A defect of any part of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyDefect {
    /// Of the management agents.
    Agent(Defect),
    /// Of the adapter.
    Adapter(RcDefect),
    /// Of the link layer.
    Link(LinkDefect),
}

/// A part of the device: a test works with one, a defect is in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Agents,
    Link,
    Adapter,
}

impl Part {
    /// The part that a test works with.
    pub(super) fn of(test: &Test) -> Self {
        let needs = |any: [Need; 2]| any.iter().any(|need| test.needs.contains(need));
        if needs([Need::Packets, Need::Verbs]) {
            Self::Adapter
        } else if needs([Need::Link, Need::AnyLid]) {
            Self::Link
        } else {
            Self::Agents
        }
    }
}

impl AnyDefect {
    /// All that something outside the virtual rig's device can see.
    pub fn all() -> impl Iterator<Item = Self> {
        let agents = Defect::ALL.iter().map(|defect| Self::Agent(*defect));
        let adapters = RcDefect::ALL.iter().map(|defect| Self::Adapter(*defect));
        let links = LinkDefect::ALL.iter().filter(|defect| unseen(**defect).is_none());
        agents.chain(adapters).chain(links.map(|defect| Self::Link(*defect)))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agent(defect) => defect.name(),
            Self::Adapter(defect) => defect.name(),
            Self::Link(defect) => defect.name(),
        }
    }

    pub(super) fn statement(self) -> &'static str {
        match self {
            Self::Agent(defect) => defect.statement(),
            Self::Adapter(defect) => defect.statement(),
            Self::Link(defect) => defect.statement(),
        }
    }

    /// Whether a test is there for it: of its statement, and working with the part of the device that has it. Tests of the
    /// link may ask the agents too.
    pub(super) fn concerns(self, test: &Test) -> bool {
        let part = Part::of(test);
        let asks = part == Part::Link && test.needs.contains(&Need::Mad);
        test.statements.contains(&self.statement()) && (part == self.part() || asks && self.part() == Part::Agents)
    }

    fn part(self) -> Part {
        match self {
            Self::Agent(_) => Part::Agents,
            Self::Adapter(_) => Part::Adapter,
            Self::Link(_) => Part::Link,
        }
    }

    /// Whether a device of this kind can have it.
    pub(super) fn shows_on(self, model: &VirtualConfig) -> bool {
        match self {
            Self::Agent(defect) => defect.shows_on(&model.profile()),
            Self::Adapter(_) | Self::Link(_) => true,
        }
    }

    /// The device with this defect.
    pub(super) fn put_into(self, mut model: VirtualConfig) -> VirtualConfig {
        match self {
            Self::Agent(defect) => model.defects.push(defect),
            Self::Adapter(defect) => model.adapter_defects.push(defect),
            Self::Link(defect) => model.link_defects.push(defect),
        }
        model
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Agent(defect) => defect.about(),
            Self::Adapter(defect) => defect.about(),
            Self::Link(defect) => defect.about(),
        }
    }
}

/// Why nothing outside the virtual rig's device can see a defect of its link layer; `None` for all others.
#[must_use]
pub fn unseen(defect: LinkDefect) -> Option<&'static str> {
    Some(match defect {
        LinkDefect::TakenWhileDown => {
            "a link that is down carries nothing, and a port that is disabled cannot be brought back"
        }
        LinkDefect::DiscardOnlyForwarded
        | LinkDefect::ForwardedUnmarked
        | LinkDefect::RelayErrorNotCounted
        | LinkDefect::PartitionEnforcementIgnored
        | LinkDefect::ConstraintNotCounted
        | LinkDefect::RawFilterIgnored => "the device is a channel adapter: nothing passes through it",
        LinkDefect::AdapterFiltersRaw => "a channel adapter does not keep FilterRawInbound, so that it cannot be set",
        LinkDefect::Vl15RawAccepted | LinkDefect::RawMulticastRefused => {
            "nothing answers a raw packet, and what counts it is not laid down"
        }
        LinkDefect::MulticastRefused => {
            "no queue pair of the device is in a multicast group: what is taken is dropped there"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_catalog::TESTS;

    #[test]
    fn every_defect_has_a_test_that_is_there_for_it() {
        for defect in AnyDefect::all() {
            assert!(
                TESTS.iter().any(|test| defect.concerns(test)),
                "nothing looks for {}",
                defect.name()
            );
        }
    }

    #[test]
    fn names_are_unique_over_all_models() {
        let mut names: Vec<_> = AnyDefect::all().map(AnyDefect::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

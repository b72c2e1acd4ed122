//! The defects of all parts of the device model, and the tests for them.

use verbatim_device::Defect;
use verbatim_device::link::LinkDefect;
use verbatim_device::rc::RcDefect;
use verbatim_rig::VirtualConfig;
use verbatim_tester::{Need, Test};

/// A defect of any part of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyDefect {
    /// A defect of the management agents.
    Agent(Defect),
    /// A defect of the adapter.
    Adapter(RcDefect),
    /// A defect of the link layer.
    Link(LinkDefect),
}

/// A part of the device. A test uses one part, and a defect is in one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Agents,
    Link,
    Adapter,
}

impl Part {
    /// Returns the part that a test uses.
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
    /// Returns all defects that an observer outside the virtual rig's device can see.
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

    /// Returns whether a test is for this defect: it checks the defect's statement and uses the part with the defect.
    /// Tests of the link or the adapter that send MADs also count for defects of the agents.
    pub(super) fn concerns(self, test: &Test) -> bool {
        let part = Part::of(test);
        let asks = part != Part::Agents && test.needs.contains(&Need::Mad);
        test.statements.contains(&self.statement()) && (part == self.part() || asks && self.part() == Part::Agents)
    }

    fn part(self) -> Part {
        match self {
            Self::Agent(_) => Part::Agents,
            Self::Adapter(_) => Part::Adapter,
            Self::Link(_) => Part::Link,
        }
    }

    /// Returns whether the defect can show on this model.
    pub(super) fn shows_on(self, model: &VirtualConfig) -> bool {
        match self {
            Self::Agent(defect) => defect.shows_on(&model.profile()),
            Self::Adapter(_) | Self::Link(_) => true,
        }
    }

    /// Adds the defect to a model.
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

/// Returns why no observer outside the virtual rig's device can see this defect of its link layer; None if some
/// observer can.
#[must_use]
pub fn unseen(defect: LinkDefect) -> Option<&'static str> {
    Some(match defect {
        LinkDefect::TakenWhileDown => {
            "a link that is down carries no packets, and the tester cannot enable a disabled port again"
        }
        LinkDefect::DiscardOnlyForwarded
        | LinkDefect::ForwardedUnmarked
        | LinkDefect::RelayErrorNotCounted
        | LinkDefect::PartitionEnforcementIgnored
        | LinkDefect::ConstraintNotCounted
        | LinkDefect::RawFilterIgnored => "the device is a channel adapter: it forwards no packets",
        LinkDefect::AdapterFiltersRaw => "a channel adapter does not store FilterRawInbound, so a test cannot set it",
        LinkDefect::Vl15RawAccepted | LinkDefect::RawMulticastRefused => {
            "a raw packet has no response, and the specification does not say which counter counts it"
        }
        LinkDefect::MulticastRefused => {
            "no queue pair of the device is in a multicast group: the device drops every multicast packet"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_catalog::TESTS;

    #[test]
    fn every_defect_has_a_test() {
        for defect in AnyDefect::all() {
            assert!(
                TESTS.iter().any(|test| defect.concerns(test)),
                "nothing looks for {}",
                defect.name()
            );
        }
    }

    #[test]
    fn defect_names_are_unique() {
        let mut names: Vec<_> = AnyDefect::all().map(AnyDefect::name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

//! Defects of all models, and which tests are there for them.

use verbatim_device::Defect;
use verbatim_device::link::LinkDefect;
use verbatim_device::rc::RcDefect;
use verbatim_tester::{Need, Test};

/// A defect of any model.
#[derive(Clone, Copy)]
pub(super) enum AnyDefect {
    /// Of the management agents.
    Agent(Defect),
    /// Of the adapter.
    Adapter(RcDefect),
    /// Of the link layer.
    Link(LinkDefect),
}

impl AnyDefect {
    pub(super) fn all() -> impl Iterator<Item = Self> {
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

    /// Whether a test works with the model that has the defect.
    pub(super) fn concerns(self, test: &Test) -> bool {
        match self {
            Self::Agent(_) => !is_of_adapter(test) && !is_of_link(test),
            Self::Adapter(_) => is_of_adapter(test),
            Self::Link(_) => is_of_link(test),
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Agent(defect) => defect.about(),
            Self::Adapter(defect) => defect.about(),
            Self::Link(defect) => defect.about(),
        }
    }
}

/// Whether a test works with the adapter, by packets or by verbs.
pub(super) fn is_of_adapter(test: &Test) -> bool {
    test.needs.contains(&Need::Packets) || test.needs.contains(&Need::Verbs)
}

/// Whether a test makes packets of its own on a native link.
pub(super) fn is_of_link(test: &Test) -> bool {
    test.needs.contains(&Need::Link) || test.needs.contains(&Need::AnyLid)
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
            let is_for = |test: &&&Test| defect.concerns(test) && test.statements.contains(&defect.statement());
            assert!(
                TESTS.iter().any(|test| is_for(&test)),
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

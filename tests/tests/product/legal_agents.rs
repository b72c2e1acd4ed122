//! Legal behaviour of a management agent, its host and its link. No test may fail the device for this behaviour. Most
//! tests also check that a similar fault fails.

use core::time::Duration;

use verbatim_catalog::TESTS;
use verbatim_device::{Choices, Profile};
use verbatim_record::{Outcome, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Need, RigInfo, Test};
use verbatim_tests::judged::{judged, test};
use verbatim_wire::values::{CapabilityMask, LinkWidths};
use verbatim_wire::{
    Attribute, AttributeId, Layout, Lid, MKey, Mad, Method, MgmtClass, NodeDescription, PortCounters, PortInfo,
    PortState, Status,
};

/// Both values of `simulated`: the rules of simulation, and the rules of hardware.
const BOTH: [bool; 2] = [true, false];

fn verdict(
    test: &Test,
    profile: Profile,
    simulated: bool,
    tamper: impl FnMut(&Mad) -> Option<Mad> + Send + 'static,
) -> Verdict {
    let mut tamper = tamper;
    let info = RigInfo {
        simulated,
        ..VirtualRig::info(MKey(0))
    };
    let parameters = [
        ("illegal_parts", 40),
        ("violations", 20),
        ("wait_s", 30),
        ("traps_come_here", 1),
    ];
    let shown = move |mad: &Mad| tamper(mad).map(|mad| (Duration::ZERO, mad)).into_iter().collect();
    let mut rig = VirtualRig::new(profile, &[]).with_tamper(Box::new(shown));
    let known = test.parameters.iter().map(|parameter| parameter.name);
    let known: Vec<&str> = known.collect();
    let parameters: Vec<(&str, u64)> = parameters
        .into_iter()
        .filter(|(name, _)| known.contains(name))
        .collect();
    judged(&mut rig, &info, test, 1, &parameters).verdict
}

/// Returns the management tests that need MADs only.
fn mad_tests() -> impl Iterator<Item = &'static Test> {
    let offered = [Need::Mad, Need::OwnSubnet, Need::SecondPort, Need::Counters];
    let only_mads = move |test: &&Test| test.needs.iter().all(|need| offered.contains(need));
    TESTS.iter().copied().filter(only_mads)
}

/// Returns a device whose port a subnet manager has brought to Active. Such a port can send traps.
fn active() -> Profile {
    let mut profile = Profile::full();
    (profile.lid, profile.sm_lid, profile.port_state) = (Lid(5), Lid(1), PortState::ACTIVE);
    profile
}

/// Returns the response with a changed attribute, if the response carries that attribute.
fn with<A: Attribute>(mad: &Mad, change: impl FnOnce(A) -> A) -> Mad {
    if mad.attribute_id() == A::ID && mad.method() == Method::GET_RESP {
        mad.with_data(change(mad.attribute()).bytes())
    } else {
        *mad
    }
}

#[test]
fn no_agent_choice_fails_a_test() {
    let choices = [
        (
            "refuses_unknown_first",
            Choices {
                refuses_unknown_first: true,
                ..Choices::default()
            },
        ),
        (
            "queues_traps",
            Choices {
                queues_traps: true,
                ..Choices::default()
            },
        ),
        (
            "knows_no_repress",
            Choices {
                knows_no_repress: true,
                ..Choices::default()
            },
        ),
    ];
    for (name, choices) in choices {
        for (simulated, traps) in BOTH.into_iter().flat_map(|rules| [(rules, true), (rules, false)]) {
            let mut profile = active();
            profile.choices = choices;
            if !traps {
                profile.capability_mask.0 &= !CapabilityMask::TRAP;
            }
            for test in mad_tests() {
                let verdict = verdict(test, profile.clone(), simulated, |mad| Some(*mad));
                let outcome = verdict.outcome();
                assert!(
                    [Outcome::Pass, Outcome::NotApplicable].contains(&outcome),
                    "{name}, {}, traps {traps}, simulated {simulated}: {outcome} {}",
                    test.id,
                    verdict.reason
                );
            }
        }
    }
}

#[test]
fn host_may_answer_for_sm_info() {
    for level in [
        "c14-016-attributes-protect-2",
        "c14-016-attributes-protect-3",
        "c14-walk",
    ] {
        let mut profile = active();
        profile.choices.sm_info_by_host = true;
        let seen = verdict(test(level), profile, false, |mad| Some(*mad));
        assert_eq!(seen.outcome(), Outcome::Pass, "{level}: {}", seen.reason);
    }
}

#[test]
fn constraint_counters_may_stay_0() {
    for (field, is_legal) in [
        ("PortXmitConstraintErrors", true),
        ("PortRcvConstraintErrors", true),
        ("PortXmitDiscards", false),
    ] {
        let zero = move |mad: &Mad| {
            Some(with::<PortCounters>(mad, |counters| {
                PortCounters::default().with_fields_of(&counters, &others_than(field))
            }))
        };
        let seen = verdict(test("c16-port-counters"), active(), false, zero);
        let expected = if is_legal { Outcome::Pass } else { Outcome::Fail };
        assert_eq!(seen.outcome(), expected, "{field}: {}", seen.reason);
    }
}

fn others_than(name: &str) -> Vec<&'static str> {
    let fields = PortCounters::FIELDS.iter().map(|field| field.name);
    fields.filter(|other| *other != name).collect()
}

#[test]
fn performance_agent_answers_in_active() {
    for (state, expected) in [
        (PortState::INITIALIZE, Outcome::NotApplicable),
        (PortState::ACTIVE, Outcome::Fail),
    ] {
        let mut profile = active();
        profile.port_state = state;
        let silent = |mad: &Mad| (mad.class() != MgmtClass::PERF).then_some(*mad);
        let seen = verdict(test("c16-port-counters"), profile, false, silent);
        assert_eq!(seen.outcome(), expected, "{state}: {}", seen.reason);
    }
}

#[test]
fn link_may_train_only_briefly() {
    // The sixth response with PortInfo shows a link in training: this response alone, or all later responses too.
    for (last, expected) in [(6, Outcome::Pass), (usize::MAX, Outcome::Fail)] {
        let mut shown = 0;
        let trains = move |mad: &Mad| {
            Some(with::<PortInfo>(mad, |port| {
                shown += 1;
                let is_down = (6..=last).contains(&shown);
                if is_down {
                    port.with_link_width_active(LinkWidths(0))
                } else {
                    port
                }
            }))
        };
        let seen = verdict(test("c14-024-port-info-rw"), active(), false, trains);
        assert_eq!(seen.outcome(), expected, "{last}: {}", seen.reason);
    }
}

#[test]
fn host_may_rename_node() {
    let mut asked = 0;
    let renames = move |mad: &Mad| {
        Some(with::<NodeDescription>(mad, |name| {
            asked += 1;
            if (4..=5).contains(&asked) {
                name.with_octet(1, b'#')
            } else {
                name
            }
        }))
    };
    let seen = verdict(test("c14-016-attributes-protect-2"), active(), false, renames);
    assert_eq!(seen.outcome(), Outcome::Inconclusive, "{}", seen.reason);

    for (simulated, expected) in [(false, Outcome::Pass), (true, Outcome::Fail)] {
        let refuses = |mad: &Mad| {
            let is_other = mad.attribute_id() == AttributeId::PORT_INFO && mad.modifier() & 0xFF == 2;
            Some(if is_other {
                mad.with_status(Status::INVALID_FIELD)
            } else {
                *mad
            })
        };
        let seen = verdict(test("c14-024-port-info-modifier"), active(), simulated, refuses);
        assert_eq!(seen.outcome(), expected, "{}", seen.reason);
    }
}

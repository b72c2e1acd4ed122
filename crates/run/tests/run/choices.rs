//! Verdicts of the management tests on unusual sound devices, and on devices that give one unusual response.

use verbatim_catalog::{TESTS, VERSION, judge_trace};
use verbatim_device::{Choices, Defect, Profile, Unassigned};
use verbatim_record::{Cause, Outcome, Tracing, Verdict};
use verbatim_record_proto::v1::RunSpec;
use verbatim_rig::{DeviceSeed, RigConfig, VirtualConfig};
use verbatim_run::{Request, RunId, execute};
use verbatim_sim::VirtualRig;
use verbatim_tester::{ANOTHER_KEY, Case, MemoryJournal, RigInfo, Test, run};
use verbatim_wire::values::ProtectBits;
use verbatim_wire::{Lid, MKey, PortState, VlCap};

fn of_management() -> impl Iterator<Item = &'static Test> {
    TESTS.iter().copied().filter(|test| test.is_of_management())
}

fn named(id: &str) -> &'static Test {
    TESTS.iter().find(|test| test.id == id).unwrap()
}

fn by_rules_of(hardware: bool) -> RigInfo {
    RigInfo {
        simulated: !hardware,
        ..VirtualRig::info(MKey(0))
    }
}

fn verdict(test: &'static Test, mut rig: VirtualRig, info: &RigInfo, set: &[(&str, u64)]) -> Verdict {
    let few = [("illegal_parts", 50), ("violations", 40)];
    let case = Case {
        test,
        seed: 1,
        parameters: few
            .iter()
            .chain(set)
            .map(|(name, value)| (name.to_string(), *value))
            .collect(),
        catalogue: VERSION.into(),
    };
    let mut tracing = Tracing::default();
    run(&mut rig, info, &mut tracing, &mut MemoryJournal::default(), &case);
    judge_trace(tracing.trace().unwrap()).unwrap()
}

fn of(profile: &Profile) -> VirtualRig {
    VirtualRig::new(profile.clone(), &[])
}

fn with(choices: Choices) -> Profile {
    Profile {
        choices,
        ..Profile::full()
    }
}

#[test]
fn unset_lid_may_read_as_0_or_permissive() {
    for (unassigned, sm_lid, hardware) in [
        (Unassigned::Obeyed, Lid(0), false),
        (Unassigned::RefusedInPart, Lid(1), true),
        (Unassigned::Refused, Lid(1), false),
    ] {
        for assign_lid in [None, Some(Lid(5))] {
            let info = RigInfo {
                assign_lid,
                ..by_rules_of(hardware)
            };
            for test in of_management() {
                let outcome = |shows_permissive_lid| {
                    let profile = Profile {
                        lid: Lid(0),
                        sm_lid,
                        port_state: PortState::INITIALIZE,
                        ..with(Choices {
                            unassigned,
                            shows_permissive_lid,
                            ..Choices::default()
                        })
                    };
                    let verdict = verdict(test, of(&profile), &info, &[]);
                    let bad = matches!(verdict.outcome(), Outcome::Fail | Outcome::Error);
                    assert!(!bad, "{unassigned:?} {assign_lid:?} {}: {}", test.id, verdict.reason);
                    verdict.outcome()
                };
                assert_eq!(
                    outcome(true),
                    outcome(false),
                    "{unassigned:?} {assign_lid:?} {}",
                    test.id
                );
            }
        }
    }
}

#[test]
fn wrong_m_key_is_a_rig_error_on_every_model() {
    for profile in [Profile::full(), Profile::minimal(), Profile::one_data_vl()] {
        for level in 0..4 {
            for test in of_management() {
                let profile = Profile {
                    m_key: MKey(0x1234_5678),
                    protect_bits: ProtectBits(level),
                    ..profile.clone()
                };
                let info = VirtualRig::info(MKey(0x8765_4321));
                let verdict = verdict(test, of(&profile), &info, &[]);
                let came = (verdict.outcome(), verdict.cause());
                assert_eq!(
                    came,
                    (Outcome::Error, Cause::Rig),
                    "{level} {}: {}",
                    test.id,
                    verdict.reason
                );
                assert!(
                    verdict.reason.contains(ANOTHER_KEY),
                    "{level} {}: {}",
                    test.id,
                    verdict.reason
                );
            }
        }
    }
}

#[test]
fn table_that_cannot_be_restored_is_left_alone() {
    for (foreign_vls_refused, corrects_foreign_vls) in [(true, false), (false, true)] {
        for hardware in [false, true] {
            let profile = Profile {
                foreign_vls: true,
                operational_vls: VlCap::VL0_1,
                ..with(Choices {
                    foreign_vls_refused,
                    corrects_foreign_vls,
                    ..Choices::default()
                })
            };
            for (id, expected) in [
                ("c14-024-sl-to-vl", Outcome::NotApplicable),
                ("c14-024-vl-arbitration-ca", Outcome::NotApplicable),
                ("c14-024-side-effects", Outcome::Pass),
                ("c14-walk", Outcome::Pass),
            ] {
                let verdict = verdict(named(id), of(&profile), &by_rules_of(hardware), &[]);
                assert_eq!(verdict.outcome(), expected, "{id}: {}", verdict.reason);
                assert_eq!(verdict.restored, [], "{id}");
                let says = verdict.reason.contains("leaves it unchanged") && verdict.cause() == Cause::Dut;
                assert_eq!(says, expected == Outcome::NotApplicable, "{id}: {}", verdict.reason);
            }
        }
    }
}

#[test]
fn port_with_room_for_two_smps_passes() {
    let profile = with(Choices {
        vl15_room: 2,
        ..Choices::default()
    });
    for hardware in [false, true] {
        for id in [
            "c14-029-counter",
            "c14-016-key-bits",
            "c14-016-attributes-protect-2",
            "c14-024-vl-arbitration-ca",
        ] {
            let verdict = verdict(named(id), of(&profile), &by_rules_of(hardware), &[("violations", 300)]);
            assert_eq!(verdict.outcome(), Outcome::Pass, "{id}: {}", verdict.reason);
        }
    }
}

#[test]
fn fields_applied_at_link_down_need_link_down() {
    let profile = with(Choices {
        link_fields_wait: true,
        ..Choices::default()
    });
    let of_link = |link_down| {
        let set = [("link_down", link_down)];
        verdict(named("c14-024-port-info-link"), of(&profile), &by_rules_of(true), &set)
    };
    assert_eq!(of_link(1).outcome(), Outcome::Pass, "{}", of_link(1).reason);
    let open = of_link(0);
    assert_eq!(open.outcome(), Outcome::NotApplicable, "{}", open.reason);
    assert!(open.reason.contains("link_down=1"), "{}", open.reason);
    let values = verdict(named("c14-024-port-info-values"), of(&profile), &by_rules_of(true), &[]);
    assert_eq!(values.outcome(), Outcome::Pass, "{}", values.reason);
}

#[test]
fn no_extended_speed_may_read_back_as_0() {
    let profile = with(Choices {
        no_ext_speeds_as_0: true,
        ..Choices::default()
    });
    for hardware in [false, true] {
        let id = "c14-024-port-info-ext-speeds";
        let verdict = verdict(named(id), of(&profile), &by_rules_of(hardware), &[]);
        assert_eq!(verdict.outcome(), Outcome::Pass, "{}", verdict.reason);
        assert!(
            verdict
                .observations
                .iter()
                .any(|of| of.text.contains("reads back as 0"))
        );
    }
}

#[test]
fn wrong_header_field_is_not_silence() {
    let test = named("c14-024-guid-info");
    let rig = VirtualRig::new(Profile::full(), &[Defect::ResponseModifierOfGuidInfoLost]);
    let of_modifier = verdict(test, rig, &by_rules_of(false), &[]);
    told(&of_modifier, "an answer but for its AttributeModifier");
    let rig = of(&Profile::full()).with_tamper(Box::new(|mad| {
        let is_it = mad.attribute_id() == verbatim_wire::AttributeId::GUID_INFO;
        let id = mad.transaction_id() ^ (u64::from(is_it) << 31);
        vec![(core::time::Duration::ZERO, mad.with_transaction_id(id))]
    }));
    let of_id = verdict(test, rig, &by_rules_of(false), &[]);
    told(&of_id, "an answer but for its TransactionID");
}

fn told(of: &Verdict, words: &str) {
    assert_eq!((of.outcome(), of.cause()), (Outcome::Fail, Cause::Dut), "{}", of.reason);
    let seen: Vec<_> = of.findings.iter().map(|check| &check.seen).collect();
    assert!(seen.iter().any(|seen| seen.contains(words)), "{seen:?}");
}

#[test]
fn run_continues_after_one_wrong_response() {
    for (defect, field) in [
        (Defect::LmcNotKept, "LMC"),
        (Defect::LidNotKept, "LID"),
        (Defect::LmcLow2Bits, "LMC"),
    ] {
        let rig = RigConfig::built_in(VirtualConfig {
            defects: vec![defect],
            seed: DeviceSeed::None,
            ..VirtualConfig::default()
        });
        let patterns = vec!["c07-link-dlid".into(), "c14-024-node-info".into()];
        let request = Request {
            id: RunId::of_now(),
            spec: RunSpec {
                rig: rig.name.clone(),
                patterns,
                ..RunSpec::default()
            },
            rig,
            record: None,
            cancel: Default::default(),
            shrinks: false,
            rig_options: String::new(),
            lease: Default::default(),
        };
        let verdicts = execute(&request, &mut |_| {}).unwrap().verdicts;
        let came = (verdicts[0].outcome(), verdicts[0].cause());
        assert_eq!(came, (Outcome::Fail, Cause::Dut), "{field}: {}", verdicts[0].reason);
        let says = |check: &verbatim_record::Check| check.about.contains(&format!("{field} as set"));
        let said = verdicts[0].findings.iter().find(|check| says(check)).unwrap();
        assert!(said.seen.contains("does not show it"), "{said}");
        assert_eq!(verdicts[1].outcome(), Outcome::Pass, "{}", verdicts[1].reason);
    }
}

#[test]
fn redirected_performance_agent_is_not_judged() {
    let test = named("c16-port-counters");
    for hardware in [false, true] {
        let profile = with(Choices {
            performance_elsewhere: true,
            ..Choices::default()
        });
        let verdict = verdict(test, of(&profile), &by_rules_of(hardware), &[]);
        assert_eq!(verdict.outcome(), Outcome::NotApplicable, "{}", verdict.reason);
    }
}

//! Models of adapters on the market. For each deviation one test fails, and names the adapter's setting.

use verbatim_catalog::TESTS;
use verbatim_device::rc::AdapterChoices;
use verbatim_device::{Defect, Profile};
use verbatim_record::verbs::Command;
use verbatim_record::{Entry, Outcome, Side, Verdict};
use verbatim_rig::{ProfileName, VirtualConfig};
use verbatim_sim::VirtualRig;
use verbatim_tester::{ACK_TIMEOUT_LEAST, OUT_OF_ORDER, RigInfo, Test};
use verbatim_tests::judged::{Judged, judged};
use verbatim_wire::MKey;

fn of_connections() -> impl Iterator<Item = &'static Test> {
    TESTS.iter().copied().filter(|test| test.id.starts_with("c09-"))
}

/// Runs each connection test on a profile, with the parameter `dut_ack_timeout_least` set to `least`.
fn runs(profile: ProfileName, least: u64) -> Vec<Judged> {
    let config = VirtualConfig {
        profile,
        ..VirtualConfig::default()
    };
    let info = VirtualRig::info(MKey(0));
    // Few rows need not show the habits of a retry timer.
    let all_rows = ("rows", 0);
    let given = |test: &Test| {
        let has_rows = test.parameters.iter().any(|parameter| parameter.name == all_rows.0);
        let all_rows = has_rows.then_some(all_rows);
        all_rows
            .into_iter()
            .chain([(ACK_TIMEOUT_LEAST, least)])
            .collect::<Vec<_>>()
    };
    of_connections()
        .map(|test| judged(&mut config.rig(), &info, test, 0, &given(test)))
        .collect()
}

fn of_outcome(all: &[Judged], outcome: Outcome) -> Vec<&Verdict> {
    let all = all.iter().map(|judged| &judged.verdict);
    all.filter(|verdict| verdict.outcome() == outcome).collect()
}

/// Returns the FAIL verdicts, and asserts that all other verdicts are PASS or NOT_APPLICABLE.
fn fails(all: &[Judged]) -> Vec<&Verdict> {
    for outcome in [Outcome::Inconclusive, Outcome::Error, Outcome::Skipped] {
        let open = of_outcome(all, outcome);
        let words: Vec<_> = open
            .iter()
            .map(|of| format!("{} {}: {}", of.outcome(), of.test, of.reason))
            .collect();
        assert!(open.is_empty(), "{words:#?}");
    }
    of_outcome(all, Outcome::Fail)
}

fn says(verdict: &Verdict, words: &str) -> bool {
    verdict.findings.iter().any(|check| check.seen.contains(words))
}

#[test]
fn connectx_6_fails_one_test() {
    let all = runs(ProfileName::ConnectX6, 0);
    let failed = fails(&all);
    let ids: Vec<&str> = failed.iter().map(|verdict| verdict.test.as_str()).collect();
    assert_eq!(ids, ["c09-142-ack-timeout"]);
    for words in [
        "roce_adp_retrans_en",
        "min_ack_timeout_limit_disabled",
        "dut_ack_timeout_least = 16",
    ] {
        assert!(says(failed[0], words), "{words}: {:#?}", failed[0].findings);
    }
}

#[test]
fn connectx_6_fails_one_test_at_its_floor() {
    let all = runs(ProfileName::ConnectX6, 16);
    let ids: Vec<&str> = fails(&all).iter().map(|verdict| verdict.test.as_str()).collect();
    assert_eq!(ids, ["c09-142-ack-timeout"]);
}

#[test]
fn connectx_6_without_floor_fails_nothing() {
    let all = runs(ProfileName::ConnectX6Conforming, 0);
    assert!(fails(&all).is_empty(), "{:#?}", fails(&all));
}

/// Tests of queue pair attributes. In these tests no request waits for the ACK timer.
const OF_ATTRIBUTES: [&str; 2] = ["c09-modify-attributes", "c09-modify-steps"];

#[test]
fn no_test_sets_timeout_below_the_least() {
    for ran in runs(ProfileName::Full, 18) {
        let id = ran.verdict.test.as_str();
        if OF_ATTRIBUTES.contains(&id) {
            continue;
        }
        for entry in &ran.entries {
            if let Entry::VerbsAsked(asked) = entry
                && let (Side::Dut, Command::ModifyQp(modify)) = (asked.side, &asked.command)
            {
                let code = modify.attributes.as_ref().and_then(|given| given.timeout).unwrap_or(0);
                assert!(code == 0 || code >= 18, "{id}: timeout {code}");
            }
        }
        assert!(
            matches!(ran.verdict.outcome(), Outcome::Pass | Outcome::NotApplicable),
            "{id}: {} {}",
            ran.verdict.outcome(),
            ran.verdict.reason
        );
    }
}

#[test]
fn rig_may_permit_out_of_order_data() {
    let mut adapter = VirtualRig::adapter_profile(Side::Dut);
    adapter.choices = AdapterChoices {
        places_ahead: true,
        ..AdapterChoices::default()
    };
    let info = VirtualRig::info(MKey(0));
    let failed = |permitted: u64| -> Vec<String> {
        let run = |test| {
            let mut rig = VirtualRig::new(Profile::full(), &[]).with_adapter(adapter.clone(), &[]);
            judged(&mut rig, &info, test, 0, &[(OUT_OF_ORDER, permitted)]).verdict
        };
        let all = of_connections().map(run);
        let failed = all.filter(|verdict| verdict.outcome() == Outcome::Fail);
        failed
            .map(|verdict| format!("{}: {}", verdict.test, verdict.reason))
            .collect()
    };
    let news = failed(0);
    assert!(news.iter().any(|of| of.starts_with("c09-psn-sequence: ")), "{news:?}");
    assert_eq!(failed(1), [""; 0]);
}

#[test]
fn illegal_field_fails_one_test() {
    let info: RigInfo = VirtualRig::info(MKey(0));
    for (defect, home) in [
        (Defect::PhysicalStateStale, "c14-024-port-info-legal"),
        (Defect::LinkWidthActiveNotSupported, "c14-024-port-info-legal"),
        (Defect::LinkWidthActiveAllSupported, "c14-024-port-info-legal"),
    ] {
        let of_management = TESTS.iter().copied().filter(|test| test.is_of_management());
        let failed = of_management.filter_map(|test| {
            let verdict = judged(&mut VirtualRig::new(Profile::full(), &[defect]), &info, test, 0, &[]).verdict;
            let told = verdict.observations.iter().any(|of| of.text.contains(home));
            assert!(
                verdict.outcome() != Outcome::Fail || told || test.id == home,
                "{}: {}",
                test.id,
                verdict.reason
            );
            (verdict.outcome() == Outcome::Fail).then_some(verdict.test)
        });
        assert_eq!(failed.collect::<Vec<_>>(), [home], "{}", defect.name());
    }
}

use std::collections::BTreeSet;

use verbatim_record::{Check, Restored};

use super::*;
use crate::{TESTS, statement};

const RXE: &str =
    r#"{"device":{"vendor_id":"0xffffff","host":"vm Linux 6.1.0-43-amd64 x86_64, verbatim-agent 0.1.0"}}"#;
/// 2026-11-24.
const NOW: u64 = 1_795_487_734_000_000_000;

fn check(result: Passed, about: &str) -> Check {
    Check {
        statement: "C9-60".into(),
        result: result.into(),
        about: about.into(),
        ..Check::default()
    }
}

fn ghost(outcome: Outcome, findings: Vec<Check>) -> Verdict {
    Verdict {
        test: "c09-060-ghost-ack".into(),
        outcome: outcome.into(),
        findings,
        ..Verdict::default()
    }
}

fn expected() -> Check {
    check(Passed::Fail, "completed-by: wr_id 17, SEND of 64 bytes")
}

#[test]
fn every_entry_names_tests_statements_versions_and_a_day_and_no_two_have_one_name() {
    let mut ids = BTreeSet::new();
    for it in deviations() {
        assert!(ids.insert(&it.id), "{}", it.id);
        assert!(statement(&it.statement).is_some(), "{}: {}", it.id, it.statement);
        // Not that the test is about that statement: what a rule finds, it finds in any test.
        for test in &it.tests {
            assert!(TESTS.iter().any(|known| glob(test, known.id)), "{}: {test}", it.id);
        }
        for bound in [&it.from, &it.before].into_iter().flatten() {
            assert!(device::version(bound).is_some(), "{}: {bound}", it.id);
        }
        let day = it.expires.as_bytes();
        assert!(
            day.len() == 10 && day[4] == b'-' && day[7] == b'-',
            "{}: {}",
            it.id,
            it.expires
        );
        assert_eq!(
            it.findings.is_empty(),
            it.endangers.is_some(),
            "{}: findings or a danger",
            it.id
        );
        assert!(
            !it.tests.is_empty() && !it.source.is_empty() && it.reason.ends_with('.'),
            "{}",
            it.id
        );
        assert!(
            it.findings.iter().all(|about| numbers_as_n(about) == *about),
            "{}",
            it.id
        );
    }
}

#[test]
fn an_expected_fail_is_known_and_stays_a_fail() {
    let verdicts = [ghost(Outcome::Fail, vec![expected(), expected()])];
    let known = known(RXE, NOW, &verdicts);
    assert_eq!(known.len(), 1);
    assert_eq!((known[0].showed, known[0].findings), (Showed::Seen, 2));
    assert!(known[0].explains_all);
    assert_eq!(verdicts[0].outcome(), Outcome::Fail);
}

#[test]
fn another_finding_beside_it_leaves_the_test_unexplained() {
    for other in [
        check(Passed::Fail, "completed-by: wr_id 17, READ of 64 bytes"),
        Check {
            statement: "C9-61".into(),
            ..expected()
        },
    ] {
        let known = known(RXE, NOW, &[ghost(Outcome::Fail, vec![expected(), other])]);
        assert_eq!((known[0].showed, known[0].findings), (Showed::Seen, 1));
        assert!(!known[0].explains_all);
    }
    let mut left = ghost(Outcome::Fail, vec![expected()]);
    left.restored = vec![Restored {
        failure: "no answer".into(),
        ..Restored::default()
    }];
    assert!(!known(RXE, NOW, &[left])[0].explains_all, "the device was not restored");
    let open = check(Passed::Inconclusive, &expected().about);
    assert_eq!(known(RXE, NOW, &[ghost(Outcome::Inconclusive, vec![open])]), []);
}

#[test]
fn a_pass_that_was_not_expected_is_said_and_what_was_not_judged_is_not() {
    let passed = known(RXE, NOW, &[ghost(Outcome::Pass, vec![])]);
    assert_eq!(passed[0].showed, Showed::NotSeen);
    assert!(passed[0].words().contains("passed, though"), "{}", passed[0].words());
    for outcome in [
        Outcome::Skipped,
        Outcome::NotApplicable,
        Outcome::Inconclusive,
        Outcome::Error,
    ] {
        assert_eq!(known(RXE, NOW, &[ghost(outcome, vec![])]), [], "{outcome}");
    }
}

#[test]
fn what_shows_sometimes_is_known_in_any_test_of_its_pattern_and_a_pass_tells_nothing_of_it() {
    let early = Check {
        statement: "C9-142".into(),
        ..check(Passed::Fail, "unasked-retry: wr_id 1, SEND of 64 bytes, sent again")
    };
    let of = |test: &str, outcome, findings| Verdict {
        test: test.into(),
        ..ghost(outcome, findings)
    };
    let ids = |verdict: Verdict| -> Vec<(String, usize, bool)> {
        let known = known(RXE, NOW, &[verdict]).into_iter();
        known.map(|it| (it.id, it.findings, it.explains_all)).collect()
    };
    let anywhere = || vec![("rxe-timer-in-ticks-anywhere".to_owned(), 1, true)];
    assert_eq!(ids(of("c09-psn-wrap", Outcome::Fail, vec![early.clone()])), anywhere());
    assert_eq!(ids(of("c09-psn-wrap", Outcome::Pass, vec![])), []);
    assert_eq!(ids(of("c14-walk", Outcome::Fail, vec![early.clone()])), []);
    // Where another entry has the same finding, it is that one's alone.
    let certain = vec![("rxe-timer-in-ticks".to_owned(), 1, true)];
    assert_eq!(ids(of("c09-142-ack-timeout", Outcome::Fail, vec![early])), certain);
}

#[test]
fn an_entry_that_has_expired_explains_nothing_and_says_so() {
    // Its day, and the day after: 2027-12-31 and 2028-01-01.
    const DAY: u64 = 86_400_000_000_000;
    let last = 21_183 * DAY;
    assert_eq!(
        (date(last), date(last + DAY)),
        ("2027-12-31".into(), "2028-01-01".into())
    );
    let verdicts = [ghost(Outcome::Fail, vec![expected()])];
    assert_eq!(known(RXE, last + DAY - 1, &verdicts)[0].showed, Showed::Seen);
    let after = known(RXE, last + DAY, &verdicts);
    assert_eq!((after[0].showed, after[0].explains_all), (Showed::Expired, false));
}

#[test]
fn nothing_is_expected_of_other_devices_and_of_versions_that_nobody_looked_at() {
    let verdicts = [ghost(Outcome::Fail, vec![expected()]), ghost(Outcome::Pass, vec![])];
    for (vendor_id, host) in [
        ("0x0002c9", "vm Linux 6.1.0-43-amd64 x86_64"),
        ("0x000000", "vm Linux 6.1.0-43-amd64 x86_64"),
        ("0xffffff", "vm Linux 6.2.0 x86_64"),
        ("0xffffff", "vm Linux 5.10.0 x86_64"),
        ("0xffffff", "a host that tells nothing"),
    ] {
        let fingerprint = format!(r#"{{"device":{{"vendor_id":"{vendor_id}","host":"{host}"}}}}"#);
        assert_eq!(known(&fingerprint, NOW, &verdicts), [], "{fingerprint}");
    }
    assert_eq!(known(r#"{"kind":"virtual","defects":[]}"#, NOW, &verdicts), []);
}

#[test]
fn a_host_is_spared_what_takes_it_down_also_where_its_version_is_not_known() {
    let endangers = |test, vendor_id, host| endangering(test, &Device::of_host(vendor_id, host)).is_some();
    for test in ["c09-nak-reserved-opcode", "c09-q-key", "c09-modify-steps"] {
        for vendor_id in [0xFF_FFFF, 0] {
            assert!(endangers(test, vendor_id, "vm Linux 6.1.0-43-amd64 x86_64"));
            assert!(endangers(test, vendor_id, ""));
        }
        // An agent of its own for a core says no VendorID; that of Linux's agent may be rxe's first.
        let of_python = "Linux 6.1.0-43-amd64, agent of verbatim_client for Python";
        assert!(!endangers(test, 0, of_python) && endangers(test, 0xFF_FFFF, of_python));
        assert!(endangers(
            test,
            0,
            "vm Linux 6.1.0-43-amd64 x86_64, verbatim-agent 0.1.0"
        ));
        assert!(!endangers(test, 0x02_C903, "vm Linux 6.1.0-43-amd64 x86_64"));
        assert!(!endangers(test, 0xFF_FFFF, "vm Linux 4.7.0 x86_64"), "that had no rxe");
    }
    assert!(!endangers("c09-psn-sequence", 0xFF_FFFF, ""));
}

#[test]
fn reserved_bits_that_a_qib_echoes_are_known_of_it_and_of_nobody_else() {
    let about = "header of the response to NodeInfo with reserved bits set";
    let echoed = Check {
        statement: "13.4.2 MAD header".into(),
        ..check(Passed::Fail, about)
    };
    let verdicts = [Verdict {
        test: "c13-response-header".into(),
        outcome: Outcome::Fail.into(),
        findings: vec![echoed],
        ..Verdict::default()
    }];
    let of = |vendor| format!(r#"{{"tester":{{}},"device":{{"node_info":{{"VendorID":"{vendor}"}}}}}}"#);
    let told = known(&of("0x001175"), NOW, &verdicts);
    assert!(told.len() == 1 && told[0].explains_all, "{told:?}");
    assert_eq!(known(&of("0x0002c9"), NOW, &verdicts), []);
}

/// What the lab's table has of rxe, and what is known of it, are one list: a FAIL that is new in one is missing in the other.
#[test]
fn what_is_known_of_rxe_is_what_the_lab_has_seen() {
    let lab: toml::Table = include_str!("../../../../tests/data/rxe-outcomes.toml")
        .parse()
        .unwrap();
    let words = |group: &toml::Value, key: &str| -> Vec<String> {
        let values = group.get(key).map_or(&[][..], |values| values.as_array().unwrap());
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let mut seen = BTreeSet::new();
    let groups = lab["group"].as_array().unwrap().iter();
    let fails = groups.filter(|group| group["outcome"].as_str() == Some("FAIL"));
    for group in fails.chain(lab["sometimes"].as_array().unwrap()) {
        for test in words(group, "tests") {
            seen.extend(
                words(group, "findings")
                    .into_iter()
                    .map(|finding| (test.clone(), finding)),
            );
        }
    }
    let of_rxe = deviations().iter().filter(|it| it.family == "Linux rxe");
    let known: BTreeSet<(String, String)> = of_rxe
        .flat_map(|it| {
            let pairs = it
                .tests
                .iter()
                .flat_map(|test| it.findings.iter().map(move |about| (test, about)));
            pairs.map(|(test, about)| (test.clone(), format!("{} {about}", it.statement)))
        })
        .collect();
    assert_eq!(known, seen);
}

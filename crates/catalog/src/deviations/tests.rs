use std::collections::BTreeSet;

use verbatim_record::{Check, Restored};

use super::*;
use crate::register::{Register, names};

const RXE: &str =
    r#"{"device":{"vendor_id":"0xffffff","host":"vm Linux 6.1.0-43-amd64 x86_64, verbatim-agent 0.1.0"}}"#;
/// 2026-11-24, in nanoseconds since 1970.
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
fn built_in_files_parse_and_ids_are_unique() {
    let mut ids = BTreeSet::new();
    for (name, text) in FILES {
        // Parse each file like a user's file. A user's file must not have `endangers`, so rename the key to `findings`.
        let text = text.replace("endangers = ", "findings = [\"N\"] #");
        file::parse(&text, Path::new(name), Some(&names())).unwrap();
    }
    for it in deviations() {
        assert!(ids.insert(&it.id), "{}", it.id);
        assert!(
            !it.family.vendor_ids.is_empty() && it.reason.ends_with('.'),
            "{}",
            it.id
        );
    }
}

#[test]
fn known_fail_stays_a_fail() {
    let verdicts = [ghost(Outcome::Fail, vec![expected(), expected()])];
    let known = Register::default().known(RXE, NOW, &verdicts);
    assert_eq!(known.len(), 1);
    assert_eq!((known[0].showed, known[0].findings), (Showed::Seen, 2));
    assert!(known[0].explains_all);
    assert_eq!(verdicts[0].outcome(), Outcome::Fail);
}

#[test]
fn unknown_finding_is_not_explained() {
    for other in [
        check(Passed::Fail, "completed-by: wr_id 17, READ of 64 bytes"),
        Check {
            statement: "C9-61".into(),
            ..expected()
        },
    ] {
        let known = Register::default().known(RXE, NOW, &[ghost(Outcome::Fail, vec![expected(), other])]);
        assert_eq!((known[0].showed, known[0].findings), (Showed::Seen, 1));
        assert!(!known[0].explains_all);
    }
    let mut left = ghost(Outcome::Fail, vec![expected()]);
    left.restored = vec![Restored {
        failure: "no answer".into(),
        ..Restored::default()
    }];
    assert!(
        !Register::default().known(RXE, NOW, &[left])[0].explains_all,
        "the device was not restored"
    );
    let open = check(Passed::Inconclusive, &expected().about);
    assert_eq!(
        Register::default().known(RXE, NOW, &[ghost(Outcome::Inconclusive, vec![open])]),
        []
    );
}

#[test]
fn unexpected_pass_is_reported() {
    let passed = Register::default().known(RXE, NOW, &[ghost(Outcome::Pass, vec![])]);
    assert_eq!(passed[0].showed, Showed::NotSeen);
    assert!(passed[0].words().contains("passed, though"), "{}", passed[0].words());
    for outcome in [
        Outcome::Skipped,
        Outcome::NotApplicable,
        Outcome::Inconclusive,
        Outcome::Error,
    ] {
        assert_eq!(
            Register::default().known(RXE, NOW, &[ghost(outcome, vec![])]),
            [],
            "{outcome}"
        );
    }
}

#[test]
fn sporadic_deviation_applies_to_all_its_tests() {
    let early = Check {
        statement: "C9-142".into(),
        expected: "2 transmissions at most in 128.00 ms: 0 RNR NAKs, 0 other reasons, ACK timeout 67.11 ms".into(),
        seen: "3: SEND Only".into(),
        ..check(Passed::Fail, "unasked-retry: wr_id 1, SEND of 64 bytes, sent again")
    };
    let of = |test: &str, outcome, findings| Verdict {
        test: test.into(),
        ..ghost(outcome, findings)
    };
    let ids = |verdict: Verdict| -> Vec<(String, usize, bool)> {
        let known = Register::default().known(RXE, NOW, &[verdict]).into_iter();
        known.map(|it| (it.id, it.findings, it.explains_all)).collect()
    };
    let anywhere = || vec![("rxe-timer-in-ticks-anywhere".to_owned(), 1, true)];
    assert_eq!(ids(of("c09-psn-wrap", Outcome::Fail, vec![early.clone()])), anywhere());
    assert_eq!(ids(of("c09-psn-wrap", Outcome::Pass, vec![])), []);
    assert_eq!(ids(of("c14-walk", Outcome::Fail, vec![early.clone()])), []);
    // An entry that is not sporadic takes precedence on the same finding.
    let certain = vec![("rxe-timer-in-ticks".to_owned(), 1, true)];
    assert_eq!(ids(of("c09-142-ack-timeout", Outcome::Fail, vec![early])), certain);
}

#[test]
fn expired_entry_explains_nothing() {
    // 2027-12-31, the last valid day, and 2028-01-01.
    const DAY: u64 = 86_400_000_000_000;
    let last = 21_183 * DAY;
    assert_eq!(
        (date(last), date(last + DAY)),
        ("2027-12-31".into(), "2028-01-01".into())
    );
    let verdicts = [ghost(Outcome::Fail, vec![expected()])];
    assert_eq!(
        Register::default().known(RXE, last + DAY - 1, &verdicts)[0].showed,
        Showed::Seen
    );
    let after = Register::default().known(RXE, last + DAY, &verdicts);
    assert_eq!((after[0].showed, after[0].explains_all), (Showed::Expired, false));
}

#[test]
fn other_devices_and_versions_have_no_deviation() {
    let verdicts = [ghost(Outcome::Fail, vec![expected()]), ghost(Outcome::Pass, vec![])];
    for (vendor_id, host) in [
        ("0x0002c9", "vm Linux 6.1.0-43-amd64 x86_64"),
        ("0x000000", "vm Linux 6.1.0-43-amd64 x86_64"),
        ("0xffffff", "vm Linux 6.2.0 x86_64"),
        ("0xffffff", "vm Linux 5.10.0 x86_64"),
        ("0xffffff", "a host that tells nothing"),
    ] {
        let fingerprint = format!(r#"{{"device":{{"vendor_id":"{vendor_id}","host":"{host}"}}}}"#);
        assert_eq!(
            Register::default().known(&fingerprint, NOW, &verdicts),
            [],
            "{fingerprint}"
        );
    }
    assert_eq!(
        Register::default().known(r#"{"kind":"virtual","defects":[]}"#, NOW, &verdicts),
        []
    );
}

#[test]
fn unknown_version_counts_as_dangerous() {
    let endangers = |test, vendor_id, host| endangering(test, &Device::of_host(vendor_id, host)).is_some();
    for test in ["c09-nak-reserved-opcode", "c09-q-key", "c09-modify-steps"] {
        for vendor_id in [0xFF_FFFF, 0] {
            assert!(endangers(test, vendor_id, "vm Linux 6.1.0-43-amd64 x86_64"));
            assert!(endangers(test, vendor_id, ""));
        }
        // The Python agent reports no VendorID for a user's device. If a Linux agent reports no VendorID, the device
        // may be rxe.
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
fn echoed_reserved_bits_are_known_of_qib_only() {
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
    let known = |vendor, device| {
        let node = format!(r#"{{"VendorID":"{vendor}","DeviceID":"{device}"}}"#);
        let fingerprint = format!(r#"{{"tester":{{}},"device":{{"node_info":{node}}}}}"#);
        Register::default().known(&fingerprint, NOW, &verdicts)
    };
    let told = known("0x001175", "0x7322");
    assert!(told.len() == 1 && told[0].explains_all, "{told:?}");
    assert_eq!(
        known("0x001175", "0x24f0"),
        [],
        "hfi1 of Omni-Path is no InfiniBand device"
    );
    assert_eq!(known("0x0002c9", "0x7322"), []);
}

#[test]
fn early_rxe_timer_is_known_within_bounds() {
    let retry = |seen: &str| Check {
        statement: "C9-142".into(),
        expected: "67.11 ms..268.44 ms after the transmission before".into(),
        seen: seen.into(),
        ..check(Passed::Fail, "ack-timeout: wr_id 1, SEND of 64 bytes: retry")
    };
    let is_known = |seen| {
        let verdict = Verdict {
            test: "c09-142-ack-timeout".into(),
            ..ghost(Outcome::Fail, vec![retry("63.90 ms..64.01 ms"), retry(seen)])
        };
        Register::default().known(RXE, NOW, &[verdict])[0].explains_all
    };
    assert!(is_known("60.02 ms..60.90 ms"));
    assert!(!is_known("16.51 ms..16.78 ms"), "four times too fast");
    assert!(!is_known("early"), "what cannot be read");
}

#[test]
fn only_fixed_kernels_run_dangerous_tests() {
    let host = |debian: &str| format!("vm Linux 6.1.0-48-amd64 x86_64 (#1 SMP Debian {debian}), verbatim-agent 0.1.0");
    let spared = |test, debian: &str| endangering(test, &Device::of_host(0xFF_FFFF, &host(debian))).is_some();
    for (test, last, first) in [
        ("c09-nak-reserved-opcode", "6.1.172-1", "6.1.176-1"),
        ("c09-nak-reserved-opcode", "6.12.86-1", "6.12.88-1"),
        ("c09-q-key", "6.1.172-1", "6.1.176-1"),
        ("c09-q-key", "6.12.85-1", "6.12.86-1"),
        ("c09-modify-steps", "6.1.190-1", "6.1.192-1"),
        ("c09-modify-steps", "6.12.107-1", "6.12.111-1~deb12u1"),
    ] {
        assert!(spared(test, last) && !spared(test, first), "{test} {last} {first}");
        assert!(!spared(test, "6.1.192-2") && !spared(test, "6.12.117-1"), "{test}");
        assert!(spared(test, "6.6.200-1"), "of another branch nothing is known");
    }
}

/// Parses a user's file and returns the register with its entries.
fn added(text: &str) -> Result<Register, DeviationsError> {
    let added = file::parse(text, Path::new("my.toml"), Some(&names()))?;
    Ok(Register { added: Arc::new(added) })
}

const MINE: &str = r#"
family = "our core"
versions_of = "firmware"

[[deviation]]
id = "ours"
statement = "C9-60"
tests = ["c09-060-*"]
findings = ["completed-by: wr_id N, * of N bytes"]
before = "2.1"
reason = "It is so."
source = "our lab"
expires = "2027-12-31"
"#;

#[test]
fn family_without_vendor_matches_by_version() {
    let register = added(MINE).unwrap();
    let known = |fingerprint: &str, outcome, findings| -> Vec<(String, bool)> {
        let known = register.known(fingerprint, NOW, &[ghost(outcome, findings)]);
        known.into_iter().map(|it| (it.id, it.explains_all)).collect()
    };
    let old = r#"{"device":{"vendor_id":"0x0002c9","firmware":"2.0.17"}}"#;
    assert_eq!(known(old, Outcome::Fail, vec![expected()]), [("ours".into(), true)]);
    let mended = r#"{"device":{"vendor_id":"0x0002c9","firmware":"2.1.0"}}"#;
    assert_eq!(known(mended, Outcome::Fail, vec![expected()]), []);
    assert_eq!(known(r#"{"kind":"virtual"}"#, Outcome::Fail, vec![expected()]), []);
    let of_any = added(&MINE.replace("before = \"2.1\"", "")).unwrap();
    let known = of_any.known(r#"{"kind":"virtual"}"#, NOW, &[ghost(Outcome::Fail, vec![expected()])]);
    assert_eq!((known[0].device.as_str(), known[0].explains_all), ("our core", true));
}

#[test]
fn inconclusive_needs_checks_and_end_explained() {
    let register = added(&MINE.replace("before = \"2.1\"", "outcome = \"INCONCLUSIVE\"")).unwrap();
    let is_known = |reason: &str, findings| {
        let verdict = Verdict {
            reason: reason.into(),
            ..ghost(Outcome::Inconclusive, findings)
        };
        register
            .known("", NOW, &[verdict])
            .first()
            .is_some_and(|known| known.explains_all)
    };
    let open = check(Passed::Inconclusive, &expected().about);
    assert!(is_known(&open.to_string(), vec![open.clone()]));
    assert!(
        !is_known("the host refused it", vec![open]),
        "what ended it is not explained"
    );
    assert!(is_known("completed-by: wr_id 1, SEND of 9 bytes", vec![]));
    let fails = ghost(Outcome::Fail, vec![expected()]);
    assert_eq!(register.known("", NOW, &[fails]), [], "a FAIL is another thing");
}

#[test]
fn missing_sqd_is_known_by_refusal_text() {
    let known = |vendor: &str, reason: &str| {
        let verdict = Verdict {
            test: "c09-send-queue-drain".into(),
            reason: reason.into(),
            ..ghost(Outcome::NotApplicable, vec![])
        };
        let fingerprint = format!(r#"{{"device":{{"vendor_id":"{vendor}","driver":"irdma"}}}}"#);
        let known = Register::default().known(&fingerprint, NOW, &[verdict]);
        known.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    let refused = "the host of the DUT's device refused to modify QP 7 to SQD: Operation not supported";
    assert_eq!(known("0x008086", refused), ["irdma-no-sqd"]);
    assert_eq!(known("0x0002c9", refused), [""; 0]);
    assert_eq!(known("0x008086", "the device has no atomics"), [""; 0]);
}

#[test]
fn invalid_file_error_names_the_line() {
    for (from, to, line, words) in [
        ("C9-60", "C9-600", 7, "no statement is called"),
        ("c09-060-*", "c09-60-gost-ack", 8, "no test is called"),
        ("wr_id N", "wr_id 7", 9, "write N for each"),
        ("\"2.1\"", "\"new\"", 10, "is not a version"),
        ("2027-12-31", "2027-13-31", 13, "is not a date"),
        ("source", "souce", 12, "did you mean \"source\""),
        ("reason", "within = { early_ms = -1 }\nreason", 11, "has no bounds"),
        ("reason", "within = { early = 1 }\nreason", 11, "unknown key"),
        ("reason", "endangers = \"it\"\nreason", 11, "built-in families"),
        ("family = \"our core\"", "family = 7", 2, "expected a string"),
        ("findings", "#", 5, "needs \"findings\""),
    ] {
        let error = added(&MINE.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("my.toml:{line}: ")) && error.contains(words),
            "{to}: {error}"
        );
    }
    let twice = format!("{MINE}{}", &MINE[MINE.find("[[").unwrap()..]);
    assert!(added(&twice).unwrap_err().to_string().contains("rename one of them"));
    let absent = Register::default().with(&["/nowhere/my.toml".into()]).unwrap_err();
    assert!(absent.to_string().contains("cannot be read"), "{absent}");
}

/// The lab's table of rxe outcomes and the built-in deviations of rxe must list the same findings. A new FAIL in the
/// table needs a new entry.
#[test]
fn rxe_deviations_match_lab_table() {
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
    let of_rxe = deviations().iter().filter(|it| it.family.name == "Linux rxe");
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

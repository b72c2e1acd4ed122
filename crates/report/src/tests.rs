//! Reads the rendered forms back with independent parsers.

use std::collections::BTreeMap;

use proptest::prelude::*;
use verbatim_catalog::Register;
use verbatim_record::{Begin, Cause, Entry, Frame, Outcome, Role, Span, StopReason, Stopped, Time, Verdict};
use verbatim_record_proto::v1::{Check, CheckResult, Observation, RunInfo};

use crate::ladder::Shown;
use crate::{
    Commands, Detail, Digest, Reported, Selected, explain, explain_verdict, html, junit, ktap, list, markdown, tap,
};

fn verdict(test: &str, outcome: Outcome, reason: &str) -> Verdict {
    Verdict {
        test: test.into(),
        outcome: outcome.into(),
        cause: Cause::Dut.into(),
        reason: reason.into(),
        statements: vec!["C14-16".into()],
        ..Verdict::default()
    }
}

fn finding(result: CheckResult, seen: &str) -> Check {
    Check {
        statement: "C14-16".into(),
        result: result.into(),
        about: "M_Key".into(),
        expected: "no answer".into(),
        seen: seen.into(),
        evidence: vec![format!("#3 {seen}")],
        exchanges: vec![3],
        ..Check::default()
    }
}

/// Makes a run with every outcome. `text` fills each free-text field.
fn all(text: &str) -> (RunInfo, Vec<Verdict>) {
    let run = RunInfo {
        id: "01a2".into(),
        rig: text.into(),
        host: text.into(),
        fingerprint: text.into(),
        outcome: Outcome::Error.into(),
        ..RunInfo::default()
    };
    let outcomes = [
        Outcome::Pass,
        Outcome::Fail,
        Outcome::Inconclusive,
        Outcome::Error,
        Outcome::NotApplicable,
        Outcome::Skipped,
    ];
    let mut verdicts: Vec<_> = (0..)
        .zip(outcomes)
        .map(|(number, of)| verdict(&format!("c14-{number}"), of, text))
        .collect();
    verdicts[1].findings = vec![
        finding(CheckResult::Inconclusive, text),
        finding(CheckResult::Fail, text),
        finding(CheckResult::Fail, text),
    ];
    (run, verdicts)
}

fn with<T>(text: &str, form: impl FnOnce(&Reported<'_>) -> T) -> T {
    let (run, verdicts) = all(text);
    of_verdicts(&run, &verdicts, form)
}

fn of_verdicts<T>(run: &RunInfo, verdicts: &[Verdict], form: impl FnOnce(&Reported<'_>) -> T) -> T {
    form(&Reported {
        run,
        verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &[],
        tolerates_known: false,
        seal: "",
    })
}

#[test]
fn junit_maps_inconclusive_to_error() {
    let xml = with("a reason", junit);
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (6, 1, 2), "{xml}");
    let suite = &report.test_suites[0];
    assert_eq!(
        suite
            .test_cases
            .iter()
            .filter(|case| matches!(case.status, quick_junit::TestCaseStatus::Skipped { .. }))
            .count(),
        2,
        "{xml}"
    );
    assert!(xml.contains("type=\"INCONCLUSIVE\""), "{xml}");
}

#[test]
fn junit_without_a_judged_test_has_an_error() {
    let (run, mut verdicts) = all("a reason");
    verdicts.retain(|verdict| matches!(verdict.outcome(), Outcome::NotApplicable | Outcome::Skipped));
    for (count, verdicts) in [(0, &[][..]), (verdicts.len(), &verdicts[..])] {
        let xml = of_verdicts(&run, verdicts, junit);
        let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
        assert_eq!((report.tests, report.errors), (count + 1, 1), "{xml}");
    }
}

#[test]
fn junit_has_host_start_and_times() {
    let (run, verdicts) = of_rxe();
    let run = RunInfo {
        host: "lab-7".into(),
        ..run
    };
    let mut record = Digest::of(&of_a_command(None), &verdicts[0]);
    record.took = Some(core::time::Duration::from_millis(1500));
    record.begin = Some(Begin {
        test: verdicts[0].test.clone(),
        ..Begin::default()
    });
    let xml = junit(&Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[record],
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &[],
        tolerates_known: false,
        seal: "",
    });
    for words in [
        "hostname=\"lab-7\"",
        "timestamp=\"2026-11-24T02:35:34.000+00:00\"",
        "<testsuite name=\"rxe\"",
    ] {
        assert!(xml.contains(words), "{words}: {xml}");
    }
    assert_eq!(xml.matches("time=\"1.500\"").count(), 2, "{xml}");
}

#[test]
fn explained_finding_has_at_most_40_lines() {
    let mut verdict = verdict("c09-1", Outcome::Fail, "it");
    let frame = |number: u32| {
        Entry::Frame(Frame {
            number,
            label: 0,
            port: 0,
            received: number.is_multiple_of(2),
            at: Span::exactly(Time(0)),
            bytes: vec![0; 64].into(),
            delimiter: None,
        })
    };
    let record: Vec<Entry> = (1..=90).map(frame).collect();
    verdict.findings = vec![
        Check {
            exchanges: vec![],
            frames: (1..=90).collect(),
            given: vec!["a premise".into(); 30],
            evidence: vec!["a completion".into(); 30],
            ..finding(CheckResult::Fail, "it")
        },
        Check {
            follows_from: Some(0),
            ..finding(CheckResult::Fail, "other")
        },
    ];
    let mut digest = Digest::of(&record, &verdict);
    digest.begin = Some(Begin {
        test: "c09-1".into(),
        ..Begin::default()
    });
    let (run, records, verdicts) = (RunInfo::default(), [digest], [verdict]);
    let reported = Reported {
        run: &run,
        verdicts: &verdicts,
        records: &records,
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &[],
        tolerates_known: false,
        seal: "",
    };
    let first = Selected {
        number: Some(1),
        ..Selected::default()
    };
    let commands = Commands {
        explain: "verbatim explain r",
        export: "verbatim export r",
    };
    let text = explain(&reported, first, Detail::default(), commands);
    assert!(text.lines().count() <= 40, "{text}");
    for words in [
        "  premise:  a premise",
        "  stimulus: ",
        "  answer:   ",
        "84 more packets",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let whole = Detail {
        fields: false,
        bytes: true,
    };
    assert_eq!(
        explain(&reported, first, whole, commands)
            .matches("    0030  00")
            .count(),
        90
    );
    let lines = list(&reported, Selected::default());
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.ends_with(" (follows from #1)\n"), "{lines}");
}

#[test]
fn tap_marks_only_passes_and_skips_ok() {
    let text = with("a reason", tap);
    let points: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("ok") || line.starts_with("not ok"))
        .collect();
    assert_eq!(points.len(), 6, "{text}");
    assert!(text.contains("\n1..6\n"), "{text}");
    for (number, point) in points.iter().enumerate() {
        let is_ok = matches!(number, 0 | 4 | 5);
        assert_eq!(point.starts_with("ok"), is_ok, "{point}");
        assert_eq!(point.contains("# SKIP"), number >= 4, "{point}");
    }
}

#[test]
fn ktap_has_its_plan_first_and_one_result_per_test() {
    let text = with("a #reason", ktap);
    assert!(text.starts_with("KTAP version 1\n1..6\n"), "{text}");
    let results: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("ok ") || line.starts_with("not ok "))
        .collect();
    assert_eq!(results.len(), 6, "{text}");
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.starts_with("ok"), matches!(number, 0 | 4 | 5), "{result}");
        assert_eq!(result.contains("# SKIP"), number >= 4, "{result}");
    }
    let others = text.lines().skip(2).filter(|line| !results.contains(line));
    assert!(others.into_iter().all(|line| line.starts_with("# ")), "{text}");
}

#[test]
fn equal_findings_are_grouped_failed_first() {
    let text = with("an answer", markdown);
    assert_eq!(text.matches("M_Key (2 times)").count(), 1, "{text}");
    let (failed, open) = (text.find("(2 times)").unwrap(), text.rfind("M_Key\n").unwrap());
    assert!(failed < open, "{text}");
}

#[test]
fn single_error_is_singular() {
    for form in [html, markdown] {
        let text = with("a reason", form);
        assert!(text.contains("1 error") && !text.contains("1 errors"), "{text}");
    }
}

#[test]
fn page_has_no_scripts_or_links() {
    let page = with("a reason", html);
    for word in ["<script", "http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(word), "{word} in the page");
    }
    assert!(page.contains("id=\"c14-1\" open"), "a FAIL is open when the page is");
}

#[test]
fn verdicts_not_judged_anew_are_marked() {
    let (run, verdicts) = all("a reason");
    let of = Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &BTreeMap::from([(verdicts[0].test.clone(), "of revision 2".into())]),
        known: &[],
        tolerates_known: false,
        seal: "",
    };
    for (form, words) in [
        (html as fn(&Reported<'_>) -> String, "not judged anew: of revision 2"),
        (junit, "not judged anew: of revision 2"),
        (tap, "\n# not judged anew: of revision 2\n"),
        (markdown, ": of revision 2\n"),
    ] {
        let text = form(&of);
        assert_eq!(text.matches(words).count(), 1, "{text}");
    }
    assert!(markdown(&of).contains("; 1 as recorded, not judged anew."));
}

proptest! {
    #[test]
    fn device_text_is_never_markup(text in ".{0,40}") {
        let text = format!("{text}</details><script>x</script>]]>`|#");
        let page = with(&text, html);
        prop_assert!(!page.contains("<script"), "{page}");
        let xml = with(&text, junit);
        prop_assert!(quick_junit::Report::deserialize_from_str(&xml).is_ok(), "{xml}");
        let points = with(&text, tap).lines().filter(|line| line.starts_with("ok ") || line.starts_with("not ok ")).count();
        prop_assert_eq!(points, 6);
        let rows = with(&text, markdown).lines().filter(|line| line.starts_with("| `c14-")).count();
        prop_assert_eq!(rows, 6);
    }
}

#[test]
fn fingerprint_is_formatted_or_kept() {
    let page = |text| with(text, crate::html);
    let told = page(r#"{"kind":"virtual","defects":["a","b"],"seed":3,"more":[]}"#);
    assert!(told.contains("defects a b, kind virtual, no more, seed 3"), "{told}");
    assert!(page("as it was").contains("as it was"));
}

#[test]
fn equal_passed_checks_are_grouped() {
    let (run, mut verdicts) = all("a reason");
    let check = Check {
        about: "PSN".into(),
        ..finding(CheckResult::Pass, "it")
    };
    verdicts[0].passed = vec![check; 1000];
    let page = html(&Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &[],
        tolerates_known: false,
        seal: "manifest SHA-256 12ab",
    });
    assert!(
        page.contains("1000 checks passed") && page.contains(" (1000 times)"),
        "{page}"
    );
    assert_eq!(page.matches("PSN").count(), 1, "{page}");
    assert!(page.contains("manifest SHA-256 12ab"), "the page names its evidence");
}

proptest! {
    /// Each rung of a long record is shown or counted, and the evidence of a finding is shown.
    #[test]
    fn long_ladder_shows_evidence(length in 1_usize..2000, at in 0_usize..2000) {
        let at = at % length;
        let frame = |number: usize| Entry::Frame(Frame {
            number: u32::try_from(number).unwrap(),
            label: 0,
            port: 0,
            received: true,
            at: Span::exactly(Time(0)),
            bytes: vec![0; 4].into(),
            delimiter: None,
        });
        let record: Vec<Entry> = (1..=length).map(frame).collect();
        let mut verdict = verdict("c09-1", Outcome::Fail, "it");
        verdict.findings = vec![Check {
            exchanges: vec![],
            frames: vec![u32::try_from(at + 1).unwrap()],
            ..finding(CheckResult::Fail, "it")
        }];
        let digest = Digest::of(&record, &verdict);
        let count = |shown: &Shown| match shown {
            Shown::Rung(_) => 1,
            Shown::LeftOut(count) => *count,
        };
        prop_assert_eq!(digest.ladder.iter().map(count).sum::<usize>(), length);
        prop_assert!(digest.ladder.len() <= 125);
        let evidence: Vec<&str> = digest
            .ladder
            .iter()
            .filter_map(|shown| match shown {
                Shown::Rung(rung) if rung.is_evidence => Some(rung.what.as_str()),
                _ => None,
            })
            .collect();
        prop_assert_eq!(evidence.len(), 1);
        let named = format!("frame {}:", at + 1);
        prop_assert!(evidence[0].starts_with(&named), "{:?}", evidence);
    }
}

/// Makes a record of one sent frame, with the reason of an early end if there is one.
fn of_a_command(stopped: Option<&str>) -> Vec<Entry> {
    let label = Entry::Label {
        number: 1,
        name: "post the SEND".into(),
        role: Role::Test,
    };
    let frame = Entry::Frame(Frame {
        number: 1,
        label: 1,
        port: 0,
        received: false,
        at: Span::exactly(Time(0)),
        bytes: vec![0; 4].into(),
        delimiter: None,
    });
    let stopped = stopped.map(|text| {
        Entry::Stopped(Stopped {
            reason: StopReason::NotOffered,
            text: text.into(),
        })
    });
    [label, frame].into_iter().chain(stopped).collect()
}

/// Text that forges a line, a row or markup in a report, or that has commands for a terminal or a shell.
const HOSTILE: &str = "x\n| `forged` | PASS | | |\nok 99 - forged\npublic name: forged\n<script>id</script>`'\"; \
    $(id) #\u{1b}[2K\u{9b}2K\u{202e}\r| ``` |\nsigned   by key 00, as demanded";

#[test]
fn words_of_a_bundle_forge_nothing_in_any_form() {
    let (mut run, mut verdicts) = all(HOSTILE);
    run.id = HOSTILE.into();
    run.catalogue = HOSTILE.into();
    run.rig_options = format!("--rig-file a; {HOSTILE}");
    for verdict in &mut verdicts {
        verdict.test = HOSTILE.into();
        verdict.aliases = vec![HOSTILE.into()];
        verdict.statements = vec![HOSTILE.into()];
        verdict.observations = vec![Observation {
            text: HOSTILE.into(),
            ..Observation::default()
        }];
    }
    let not_judged_anew = BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
    let of = Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &not_judged_anew,
        known: &[],
        tolerates_known: false,
        seal: HOSTILE,
    };
    let (markdown, html, tap, xml) = (markdown(&of), html(&of), tap(&of), junit(&of));
    let commands = Commands {
        explain: "verbatim explain r",
        export: "verbatim export r",
    };
    let explained = explain(&of, Selected::default(), Detail::default(), commands).to_string();
    for form in [&markdown, &html, &tap, &xml, &explained] {
        assert!(!form.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']), "{form:?}");
    }
    // In HTML, the ends of lines have no meaning.
    for form in [&markdown, &tap, &xml, &explained] {
        assert!(!form.lines().any(|line| line.starts_with("signed")), "{form}");
    }
    assert!(!html.contains("<script") && !xml.contains("<script"), "{html}{xml}");
    let row = |line: &&str| line.starts_with('|');
    assert_eq!(markdown.lines().filter(row).count(), 2 + verdicts.len(), "{markdown}");
    // Markup of the bundle occurs only within code.
    let literal = markdown.replace("\\<script", "");
    let in_code = |line: &&str| line.contains("<script") && !line.contains('`');
    assert_eq!(literal.lines().filter(in_code).count(), 0, "{markdown}");
    assert!(!tap.lines().any(|line| line.starts_with("ok 99")), "{tap}");
    assert!(
        !xml.lines().any(|line| line.starts_with("public name: forged")),
        "{xml}"
    );
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    assert_eq!(report.tests, verdicts.len());
}

#[test]
fn stored_options_cannot_add_a_command_or_an_option() {
    let of = |rig: &str, options: &str, test: &str| {
        let run = RunInfo {
            id: "01a2".into(),
            rig: rig.into(),
            rig_options: options.into(),
            ..RunInfo::default()
        };
        crate::again(&run, true, Some(rig), test, &["a=1".into()])
    };
    let whole = "verbatim run --rig-file '/a b' --rig mine c14-1 --seed 0 --set a=1";
    assert_eq!(of("mine", "--rig-file '/a b'", "c14-1"), whole);
    assert_eq!(
        of("m; id", "", "$(id)"),
        "verbatim run --rig 'm; id' '$(id)' --seed 0 --set a=1"
    );
    for (rig, options, test) in [
        ("mine", "; id", "c14-1"),
        ("mine", "--record /etc/x", "c14-1"),
        ("mine", "--rig-file 'a", "c14-1"),
        ("--server=x", "", "c14-1"),
        ("mine", "", "--server=https://x"),
    ] {
        assert!(
            of(rig, options, test).starts_with("no command"),
            "{rig} {options} {test}"
        );
    }
}

#[test]
fn command_of_a_record_has_only_harmless_options() {
    let of = |options: &str| {
        let run = RunInfo {
            id: "01a2".into(),
            rig: "mine".into(),
            rig_options: options.into(),
            ..RunInfo::default()
        };
        crate::again(&run, false, Some("mine"), "c14-1", &["a=1".into()])
    };
    let rest = "--rig mine c14-1 --seed 0 --set a=1";
    assert_eq!(of(""), format!("verbatim run {rest}"));
    for harmless in [
        "--server none",
        r#"--rig-key 'defects=["m-key-not-kept", "bad-vcrc-accepted"]'"#,
        "--rig-key seed=7 --rig-key 'profile=\"any\"' --rig-key ipv6=true",
    ] {
        assert_eq!(of(harmless), format!("verbatim run {harmless} {rest}"));
    }
    for dangerous in [
        "--server https://x",
        "--rig-file /tmp/x.toml",
        "--deviations /tmp/x.toml",
        r#"--rig-key 'reset=["sh", "-c", "id"]'"#,
        r#"--rig-key 'console=["sh"]'"#,
        r#"--rig-key 'env={LD_PRELOAD="/tmp/x"}'"#,
        r#"--rig-key 'agent="x:1"'"#,
        r#"--rig-key 'socket="/tmp/x"'"#,
        "--rig-key 'seed=1\nreset=[\"id\"]'",
        "--umad mlx5_0:1",
        "--packets eth0",
        "--agent x:1",
        "--ip 192.0.2.1",
        "--route 0,1",
        "--lid 7",
    ] {
        let option = dangerous.split(' ').next().unwrap();
        let expected = format!("verbatim run {rest} # add your own {option}: not taken from the record");
        assert_eq!(of(dangerous), expected, "{dangerous}");
    }
    assert!(of("--made-up x").starts_with("no command"));
}

#[test]
fn verdict_without_findings_is_explained() {
    let (why, verdicts) = (
        "the DUT's device x has no READ",
        [
            verdict("c09-1", Outcome::NotApplicable, "the DUT's device x has no READ"),
            verdict("c09-2", Outcome::Error, "the rig is gone"),
        ],
    );
    let mut begun = Digest::of(&of_a_command(Some(why)), &verdicts[0]);
    begun.begin = Some(Begin {
        test: "c09-1".into(),
        ..Begin::default()
    });
    let run = RunInfo {
        id: "01a2".into(),
        rig: "mine".into(),
        rig_options: "--rig-file '/tmp/my rigs.toml'".into(),
        ..RunInfo::default()
    };
    let (records, not_judged_anew) = ([begun], BTreeMap::new());
    let reported = Reported {
        run: &run,
        verdicts: &verdicts,
        records: &records,
        before: &[],
        not_judged_anew: &not_judged_anew,
        known: &[],
        tolerates_known: false,
        seal: "",
    };
    assert_eq!(
        &*explain_verdict(&reported, "c09-1").unwrap(),
        "NOT_APPLICABLE c09-1, cause DUT\n  reason:   the DUT's device x has no READ\n  reached:  it ended after 1 packet, \
         the last for \"post the SEND\": the DUT's device x has no READ\n  again: verbatim run --rig mine c09-1 \
         --seed 0 # add your own --rig-file: not taken from the record\n"
    );
    let lost = explain_verdict(&reported, "c09-2").unwrap();
    assert!(
        lost.contains("ERROR c09-2") && lost.contains("reached:  nothing"),
        "{lost}"
    );
    assert_eq!(explain_verdict(&reported, "c09-3"), None);
}

/// Makes a run with a known FAIL, and a passed test whose known deviation was not seen.
fn of_rxe() -> (RunInfo, Vec<Verdict>) {
    let run = RunInfo {
        rig: "rxe".into(),
        fingerprint: r#"{"device":{"vendor_id":"0xffffff","host":"vm Linux 6.1.0-43-amd64 x86_64"}}"#.into(),
        started_ns: 1_795_487_734_000_000_000,
        outcome: Outcome::Fail.into(),
        ..RunInfo::default()
    };
    let ghost = Check {
        statement: "C9-60".into(),
        about: "completed-by: wr_id 3, SEND of 64 bytes".into(),
        ..finding(CheckResult::Fail, "success")
    };
    let mut known = verdict("c09-060-ghost-ack", Outcome::Fail, "a reason");
    known.findings = vec![ghost];
    (run, vec![known, verdict("c09-duplicates", Outcome::Pass, "")])
}

#[test]
fn known_fail_is_named_in_every_form() {
    let (run, verdicts) = of_rxe();
    let known = Register::default().known(&run.fingerprint, run.started_ns, &verdicts);
    let of = Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &known,
        tolerates_known: false,
        seal: "",
    };
    let xml = junit(&of);
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (2, 1, 0), "{xml}");
    let text = tap(&of);
    assert!(text.contains("not ok 1 - c09-060-ghost-ack\n"), "{text}");
    assert!(!text.to_uppercase().contains("TODO"), "{text}");
    let tolerant = Reported {
        tolerates_known: true,
        ..of
    };
    let report = quick_junit::Report::deserialize_from_str(&junit(&tolerant)).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (2, 0, 0));
    assert!(junit(&tolerant).contains("type=\"KNOWN\""));
    assert!(tap(&tolerant).contains("not ok 1 - c09-060-ghost-ack # TODO known"));
    for form in [xml, text, markdown(&of), html(&of)] {
        assert!(form.contains("rxe-ghost-ack"), "{form}");
        assert!(
            form.contains("rxe-read-again-in-part"),
            "what was not seen is said: {form}"
        );
    }
}

#[test]
fn nested_fingerprint_is_formatted() {
    let (mut run, verdicts) = of_rxe();
    run.fingerprint =
        r#"{"tester":{"kernel":null,"gids":[{"index":0,"gid":"fe80::1"}]},"device":{"name":"rxe0","lid":7}}"#.into();
    let page = html(&Reported {
        run: &run,
        verdicts: &verdicts,
        records: &[],
        before: &[],
        not_judged_anew: &BTreeMap::new(),
        known: &[],
        tolerates_known: false,
        seal: "",
    });
    let words = "device (lid 7, name rxe0), tester (gids (gid fe80::1, index 0))";
    assert!(page.contains(words), "{page}");
}

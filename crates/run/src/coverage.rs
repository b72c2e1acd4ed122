//! What the catalogue covers: of each statement its rules and tests, how often they were exercised on sound models, and on
//! which kinds of rig they can be.

mod noticed;

use std::collections::BTreeMap;

use serde::Serialize;
use verbatim_catalog::{TESTS, VERSION, statements};
use verbatim_oracle::{asked, rules};
use verbatim_record::Bundle;
use verbatim_record_proto::v1::Verdict;
use verbatim_tester::{KINDS, Test};

use crate::error::RunError;
use crate::execute::execute;
use crate::qualify::{AnyDefect, Extent, Rules, sound_models};

pub use noticed::Noticed;

/// States of each sound model in which tests are run for it.
const SEEDS: u64 = 8;

/// Rules that no test of a sound device can exercise, each with the reason.
const NOT_IN_A_TEST: &[(&str, &str)] = &[
    ("vcrc", "only captures of native links have a VCRC"),
    ("after-refusal", "it speaks only of what a device sends that breaks it"),
];

/// A record cannot tell what it speaks of from what was lost.
const IN_CONVERSATIONS: &str = "in a record a lost packet excuses it; conversations break it (oracle/tests/rules.rs)";
/// Rules that no defect of the device model breaks, each with what shows that they can fail.
const UNBROKEN: &[(&str, &str)] = &[
    ("vcrc", "only captures of native links have a VCRC"),
    (
        "reserved",
        "c09-reserved-bits alone judges them, with checks of its own",
    ),
    ("udp-length", "altered captures break it (oracle/tests/altered.rs)"),
    ("opcode", "altered captures break it (oracle/tests/altered.rs)"),
    ("psn", IN_CONVERSATIONS),
    ("go-back", IN_CONVERSATIONS),
    ("acknowledged-again", IN_CONVERSATIONS),
    ("retry-before-ack", IN_CONVERSATIONS),
    (
        "answered-at-once",
        "it speaks where packets can be lost: by the rules of hardware defects break it",
    ),
    (
        "format",
        "a mutant breaks it: rc/transmit.rs Qp::data_packet: ends_with_imm -> !(ends_with_imm)",
    ),
    (
        "credits-there",
        "a mutant breaks it: rc/rdma.rs Qp::execute_write: without return Err(Refused::NotReady);",
    ),
    (
        "nak-resends-all",
        "a mutant breaks it: rc/transmit.rs Qp::send_next: self.send.limited || self.send.slow -> self.send.limited && self.send.slow",
    ),
    (
        "responses-odd",
        "a mutant breaks it: rc/response.rs Qp::handle_read_response: start < at -> start <= at",
    ),
    ("work-refused", "mutants of rc/qp.rs Qp::check_send break it"),
    (
        "datagram-completes",
        "a mutant breaks it: rc/datagram.rs Qp::send_datagram: at once return false",
    ),
];

/// What the catalogue covers.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    /// Version of the catalogue.
    pub catalogue: String,
    /// Of each statement of the registry.
    pub statements: Vec<Covered>,
}

/// What covers a statement.
#[derive(Clone, Debug, Serialize)]
pub struct Covered {
    /// Its id.
    pub statement: String,
    /// A few words.
    pub title: String,
    /// The oracle's rules that are part of it.
    pub rules: Vec<Exercised>,
    /// The tests that name it.
    pub tests: Vec<Exercised>,
    /// The kinds of rig on which one of the tests can be run.
    pub rigs: Vec<&'static str>,
    /// Why no adapter of a host can be used for it, where that is so.
    pub not_from_a_host: Option<String>,
}

/// A rule or a test, and how often it looked at something.
#[derive(Clone, Debug, Serialize)]
pub struct Exercised {
    /// The rule's name or the test's id.
    pub name: String,
    /// How often the rule was asked, how many checks of the statement the test made.
    pub times: u64,
    /// Why a rule is exercised by no test, where that must be so.
    pub reason: Option<&'static str>,
    /// In how many cases of defects a rule failed; none of a test.
    pub noticed: Option<Noticed>,
    /// Why no defect breaks a rule, where that must be so.
    pub unbroken: Option<&'static str>,
}

impl Coverage {
    /// Rules that no test exercises, and those that one does against a reason that is given.
    pub fn idle_rules(&self) -> impl Iterator<Item = &str> {
        let rules = self.statements.iter().flat_map(|covered| &covered.rules);
        rules
            .filter(|rule| (rule.times == 0) == rule.reason.is_none())
            .map(|rule| rule.name.as_str())
    }

    /// Rules that no defect breaks, so that nobody would notice if they went, and those that one does against a reason that is given.
    pub fn unnoticed_rules(&self) -> impl Iterator<Item = &str> {
        let rules = self.statements.iter().flat_map(|covered| &covered.rules);
        rules
            .filter(|rule| rule.noticed.is_none_or(|noticed| noticed.failed == 0) == rule.unbroken.is_none())
            .map(|rule| rule.name.as_str())
    }

    /// Statements that no test checks.
    pub fn idle_statements(&self) -> impl Iterator<Item = &str> {
        let is_idle = |covered: &&Covered| covered.tests.iter().all(|test| test.times == 0);
        self.statements
            .iter()
            .filter(is_idle)
            .map(|covered| covered.statement.as_str())
    }
}

/// Called with what is run ("tests", "defects"), how many of them are done, and of how many.
pub type Told<'a> = &'a (dyn Fn(&'static str, usize, usize) + Sync);

/// Runs every test on sound models, and every defect against the tests of its statement, and counts.
///
/// # Errors
/// When records cannot be written to, or read from, a temporary directory.
pub fn coverage(told: Told<'_>) -> Result<Coverage, RunError> {
    let extent = Extent {
        rules: Rules::Simulated,
        seeds: SEEDS,
        sweep: 4,
        threads: 1,
        tests: TESTS.to_vec(),
        models: sound_models().into_iter().filter(|model| !model.is_drawn()).collect(),
        defects: Vec::new(),
        every: false,
    };
    let mut checks: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut times: BTreeMap<&'static str, u64> = BTreeMap::new();
    let cases = extent.models.iter().flat_map(|model| {
        let tests = extent.tests.iter().filter(|test| model.is_for(test));
        tests.map(move |test| (model, test))
    });
    let all = cases.clone().count();
    for (done, (model, test)) in cases.enumerate() {
        told("tests", done, all);
        for seed in 1..=SEEDS {
            let mut request = extent.case(model, test, seed);
            let directory = tempfile::tempdir().map_err(|source| RunError::Bundle(io(source)))?;
            let record = directory.path().join("record");
            request.record = Some(record.clone());
            let report = execute(&request, &mut |_| {})?;
            for verdict in &report.verdicts {
                count(verdict, &mut checks);
            }
            for entries in Bundle::open(&record)?.records()? {
                for (rule, more) in asked(entries).unwrap_or_default() {
                    *times.entry(rule).or_default() += more;
                }
            }
        }
    }
    let hunted = Extent {
        sweep: 512,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        // The rules are of connections: the agents have nothing to do with them.
        defects: AnyDefect::all()
            .filter(|defect| !matches!(defect, AnyDefect::Agent(_)))
            .collect(),
        ..extent
    };
    let noticed = noticed::noticed(&hunted, told);
    let reason =
        |all: &[(&str, &'static str)], of: &str| all.iter().find(|(name, _)| *name == of).map(|(_, reason)| *reason);
    let of = |id: &str| {
        let rules = rules().filter(|rule| rule.statement() == id).map(|rule| Exercised {
            name: rule.name().into(),
            times: times.get(rule.name()).copied().unwrap_or(0),
            reason: reason(NOT_IN_A_TEST, rule.name()),
            noticed: Some(noticed.get(rule.name()).copied().unwrap_or_default()),
            unbroken: reason(UNBROKEN, rule.name()),
        });
        let tests = TESTS
            .iter()
            .filter(|test| test.statements.contains(&id))
            .map(|test| Exercised {
                name: test.id.into(),
                reason: None,
                noticed: None,
                unbroken: None,
                times: checks.get(&(test.id.into(), id.into())).copied().unwrap_or(0),
            });
        (rules.collect(), tests.collect())
    };
    let statements = statements().iter().map(|statement| {
        let (rules, tests) = of(&statement.id);
        let named: Vec<&Test> = TESTS
            .iter()
            .copied()
            .filter(|test| test.statements.contains(&&*statement.id))
            .collect();
        let (rigs, not_from_a_host) = places(&named);
        Covered {
            statement: statement.id.clone(),
            title: statement.title.clone(),
            rules,
            tests,
            rigs,
            not_from_a_host,
        }
    });
    Ok(Coverage {
        catalogue: VERSION.into(),
        statements: statements.collect(),
    })
}

fn io(source: std::io::Error) -> verbatim_record::BundleError {
    verbatim_record::BundleError::Io {
        path: std::env::temp_dir(),
        source,
    }
}

fn count(verdict: &Verdict, checks: &mut BTreeMap<(String, String), u64>) {
    for check in &verdict.passed {
        *checks
            .entry((verdict.test.clone(), check.statement.clone()))
            .or_default() += 1;
    }
}

/// The kinds of rig on which one of these tests can be run, and why none of them is a host's adapter.
fn places(tests: &[&Test]) -> (Vec<&'static str>, Option<String>) {
    let can = |test: &Test, kind: &str| test.needs.iter().all(|need| need.kinds().contains(&kind));
    let kinds = KINDS
        .into_iter()
        .filter(|kind| tests.iter().any(|test| can(test, kind)));
    let kinds: Vec<&str> = kinds.collect();
    let of_host = ["umad", "packet", "verbs"];
    if kinds.iter().any(|kind| of_host.contains(kind)) {
        return (kinds, None);
    }
    let missing = tests.iter().flat_map(|test| test.needs);
    let mut missing: Vec<&str> = missing
        .filter(|need| !need.kinds().iter().any(|kind| of_host.contains(kind)))
        .map(|need| need.about())
        .collect();
    missing.sort_unstable();
    missing.dedup();
    let why = match missing[..] {
        [] => "no test is there for it".to_owned(),
        _ => format!("it needs {}", missing.join(", ")),
    };
    (kinds, Some(why))
}

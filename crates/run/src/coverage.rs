//! Coverage of the catalogue: the rules and tests of each statement, their use by sound models, and the kinds of rig
//! that can run them.

mod noticed;

use std::collections::BTreeMap;

use serde::Serialize;
use verbatim_catalog::{TESTS, VERSION, statements};
use verbatim_oracle::{applications, rules};
use verbatim_record::Bundle;
use verbatim_record_proto::v1::Verdict;
use verbatim_tester::{KINDS, Test};

use crate::error::RunError;
use crate::execute::execute;
use crate::qualify::{AnyDefect, Extent, Rules, sound_models};

pub use noticed::Noticed;

/// Number of seeds for each sound model.
const SEEDS: u64 = 8;

/// Rules that no test of a sound device can exercise, each with the reason.
const NOT_IN_A_TEST: &[(&str, &str)] = &[
    ("vcrc", "only captures of native links have a VCRC"),
    ("after-refusal", "only a device that breaks it exercises it"),
];

/// A reason in [`UNBROKEN`]: in a record, the oracle excuses every violation of the rule by a possible loss of a
/// packet.
const IN_CONVERSATIONS: &str = "in a record a lost packet excuses a violation; conversations break it \
                                (oracle/tests/rules.rs)";
/// Rules that no defect of the device model breaks. Each has the reason, or the evidence that something else
/// breaks it.
const UNBROKEN: &[(&str, &str)] = &[
    ("vcrc", "only captures of native links have a VCRC"),
    ("reserved", "only c09-reserved-bits judges them, with its own checks"),
    ("udp-length", "altered captures break it (oracle/tests/altered.rs)"),
    ("opcode", "altered captures break it (oracle/tests/altered.rs)"),
    ("psn", IN_CONVERSATIONS),
    ("go-back", IN_CONVERSATIONS),
    ("acknowledged-again", IN_CONVERSATIONS),
    ("retry-before-ack", IN_CONVERSATIONS),
    (
        "answered-at-once",
        "it applies only where packets can be lost: defects break it under the rules of hardware",
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
        "responses-odd",
        "a mutant breaks it: rc/response.rs Qp::handle_read_response: start < at -> start <= at",
    ),
    (
        "pair-duplicate",
        "defects of duplicates need a repeated packet, which verbs cannot send",
    ),
    ("pair-local", "no defect of the model changes a local error"),
    ("work-refused", "mutants of rc/qp.rs Qp::check_send break it"),
    (
        "datagram-completes",
        "a mutant breaks it: rc/datagram.rs Qp::send_datagram: at once return false",
    ),
];

/// Coverage of the catalogue.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    /// Version of the catalogue.
    pub catalogue: String,
    /// Coverage of each statement of the registry.
    pub statements: Vec<Covered>,
    /// The tests with rows of covering arrays, and the pairs of conditions that occur in the rows.
    pub rows: Vec<Rows>,
}

/// A test with rows.
#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    /// Id of the test.
    pub test: &'static str,
    /// Number of rows of a run.
    pub rows: usize,
    /// Number of pairs of conditions that occur in a row: all feasible pairs.
    pub pairs: usize,
    /// The pairs that no row can have.
    pub infeasible: Vec<Infeasible>,
}

/// A pair of conditions that no row can have.
#[derive(Clone, Debug, Serialize)]
pub struct Infeasible {
    /// The pair in words.
    pub pair: String,
    /// The reason.
    pub reason: String,
}

fn rows() -> Vec<Rows> {
    let all = verbatim_catalog::rows().into_iter().map(|of| Rows {
        test: of.test,
        rows: of.rows,
        pairs: of.pairs,
        infeasible: of
            .infeasible
            .into_iter()
            .map(|(pair, reason)| Infeasible { pair, reason })
            .collect(),
    });
    all.collect()
}

/// Coverage of one statement.
#[derive(Clone, Debug, Serialize)]
pub struct Covered {
    /// Id of the statement.
    pub statement: String,
    /// Title of the statement.
    pub title: String,
    /// The oracle's rules that belong to the statement.
    pub rules: Vec<Exercised>,
    /// The tests that list the statement.
    pub tests: Vec<Exercised>,
    /// The kinds of rig that can run one of the tests.
    pub rigs: Vec<&'static str>,
    /// The reason why no adapter of a host can run a test of the statement, if none can.
    pub not_from_a_host: Option<String>,
}

/// A rule or a test, with counts.
#[derive(Clone, Debug, Serialize)]
pub struct Exercised {
    /// The rule's name or the test's id.
    pub name: String,
    /// Number of evaluations of the rule, or of the test's checks of the statement.
    pub times: u64,
    /// The reason why no test can exercise the rule.
    pub reason: Option<&'static str>,
    /// Numbers of failed runs with defects in which the rule failed; None for a test.
    pub noticed: Option<Noticed>,
    /// The reason why no defect breaks the rule.
    pub unbroken: Option<&'static str>,
}

impl Coverage {
    /// Returns the rules for which `NOT_IN_A_TEST` is wrong. These are rules that no test exercises and that are
    /// not in the list, and rules in the list that a test exercises.
    pub fn idle_rules(&self) -> impl Iterator<Item = &str> {
        let rules = self.statements.iter().flat_map(|covered| &covered.rules);
        rules
            .filter(|rule| (rule.times == 0) == rule.reason.is_none())
            .map(|rule| rule.name.as_str())
    }

    /// Returns the rules for which `UNBROKEN` is wrong. These are rules that no defect breaks and that are not in
    /// the list, and rules in the list that a defect breaks. If a rule that no defect breaks were lost, no test
    /// would notice.
    pub fn unnoticed_rules(&self) -> impl Iterator<Item = &str> {
        let rules = self.statements.iter().flat_map(|covered| &covered.rules);
        rules
            .filter(|rule| rule.noticed.is_none_or(|noticed| noticed.failed == 0) == rule.unbroken.is_none())
            .map(|rule| rule.name.as_str())
    }

    /// Returns the statements that no test checks.
    pub fn idle_statements(&self) -> impl Iterator<Item = &str> {
        // Any test checks this statement, but only on a rig with the console of a real kernel.
        let is_of_kernels = |covered: &Covered| covered.statement == "9.6 sound kernel";
        let is_idle =
            move |covered: &&Covered| covered.tests.iter().all(|test| test.times == 0) && !is_of_kernels(covered);
        self.statements
            .iter()
            .filter(is_idle)
            .map(|covered| covered.statement.as_str())
    }
}

/// Progress callback: the phase ("tests" or "defects"), the number of finished cases, and the number of all cases.
pub type Told<'a> = &'a (dyn Fn(&'static str, usize, usize) + Sync);

/// Runs every test on sound models, and every defect against the tests of its statement, and counts evaluations and
/// failures.
///
/// # Errors
/// When records cannot be written to a temporary directory, or cannot be read back.
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
                for (rule, more) in applications(entries).unwrap_or_default() {
                    *times.entry(rule).or_default() += more;
                }
            }
        }
    }
    let hunted = Extent {
        sweep: 512,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        // The rules counted here are those of connections. No defect of the management agents breaks them.
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
        rows: rows(),
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

/// Returns the kinds of rig that can run one of these tests. If no adapter of a host can run one, also returns the
/// reason.
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
        [] => "no test covers it".to_owned(),
        _ => format!("it needs {}", missing.join(", ")),
    };
    (kinds, Some(why))
}

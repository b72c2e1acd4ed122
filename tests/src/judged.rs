//! Runs one conformance test on a rig that the caller makes, such as a rig that loses frames. A rig file cannot
//! describe these rigs.

use verbatim_catalog::{TESTS, VERSION, judge};
use verbatim_record::{Entry, Verdict};
use verbatim_tester::{Case, Journal, MemoryJournal, Ran, Rig, RigInfo, Test, run};

/// The result of a test.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// The end of the procedure, and the results of the restore.
    pub ran: Ran,
    /// The record.
    pub entries: Vec<Entry>,
}

/// Returns the test with this id.
///
/// # Panics
/// When the catalogue has no such test.
#[must_use]
pub fn test(id: &str) -> &'static Test {
    let found = TESTS.iter().copied().find(|test| test.id == id);
    found.unwrap_or_else(|| panic!("no test is called {id}"))
}

/// Runs a test with these parameters and judges it.
///
/// # Panics
/// When the record cannot be judged.
pub fn judged(rig: &mut dyn Rig, info: &RigInfo, test: &Test, seed: u64, parameters: &[(&str, u64)]) -> Judged {
    judged_with(&mut MemoryJournal::default(), rig, info, test, seed, parameters)
}

/// Number of rows of a covering array, if the parameters do not set `rows`.
const FEW_ROWS: u64 = 6;

/// Same as [`judged`], with the restore journal `journal`.
///
/// # Panics
/// When the record cannot be judged.
pub fn judged_with(
    journal: &mut dyn Journal,
    rig: &mut dyn Rig,
    info: &RigInfo,
    test: &Test,
    seed: u64,
    parameters: &[(&str, u64)],
) -> Judged {
    // Running all rows of a covering array would take a second.
    let few_rows = [("rows", FEW_ROWS)];
    let is_given = parameters.iter().any(|(name, _)| *name == "rows");
    let few_rows = few_rows.iter().filter(|_| !is_given);
    let case = Case {
        test,
        seed,
        parameters: parameters
            .iter()
            .chain(few_rows)
            .map(|(name, value)| (name.to_string(), *value))
            .collect(),
        catalogue: VERSION.into(),
    };
    let mut entries = Vec::new();
    let ran = run(rig, info, &mut entries, journal, &case);
    let verdict = judge(entries.clone()).expect("a record of ours");
    Judged { verdict, ran, entries }
}

//! One test on a rig that a test made by itself: one that loses frames, say, which no rig file can say.

use verbatim_catalog::{TESTS, VERSION, judge};
use verbatim_record::{Entry, Verdict};
use verbatim_tester::{Case, Journal, MemoryJournal, Ran, Rig, RigInfo, Test, run};

/// What a test came to.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// What became of the device.
    pub ran: Ran,
    /// The record.
    pub entries: Vec<Entry>,
}

/// The test with this id.
///
/// # Panics
/// When the catalogue has none.
#[must_use]
pub fn test(id: &str) -> &'static Test {
    let found = TESTS.iter().copied().find(|test| test.id == id);
    found.unwrap_or_else(|| panic!("no test is called {id}"))
}

/// Runs a test with these parameters and judges it.
///
/// # Panics
/// When its record cannot be judged.
pub fn judged(rig: &mut dyn Rig, info: &RigInfo, test: &Test, seed: u64, parameters: &[(&str, u64)]) -> Judged {
    judged_with(&mut MemoryJournal::default(), rig, info, test, seed, parameters)
}

/// As [`judged`], with that restore journal.
///
/// # Panics
/// As [`judged`].
pub fn judged_with(
    journal: &mut dyn Journal,
    rig: &mut dyn Rig,
    info: &RigInfo,
    test: &Test,
    seed: u64,
    parameters: &[(&str, u64)],
) -> Judged {
    let case = Case {
        test,
        seed,
        parameters: parameters
            .iter()
            .map(|(name, value)| (name.to_string(), *value))
            .collect(),
        catalogue: VERSION.into(),
    };
    let mut entries = Vec::new();
    let ran = run(rig, info, &mut entries, journal, &case);
    let verdict = judge(entries.clone()).expect("a record of ours");
    Judged { verdict, ran, entries }
}

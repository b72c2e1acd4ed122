//! The tests are tested: every test against sound models, which must not fail, and every defect of the
//! device model against the tests of its statement, one of which must fail for it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use verbatim_catalog::{TESTS, VERSION, judge};
use verbatim_device::{Defect, Profile};
use verbatim_record::{Outcome, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Case, MemoryJournal, Test, run};

/// How far a qualification goes.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Seeds from 0 on, for each sound model.
    pub seeds: u64,
    /// Illegal values that a sweep tries; the legal ones are always tried.
    pub sweep: u64,
    /// Threads.
    pub threads: usize,
    /// These tests. Defects count as survivors only when they are all of the catalogue.
    pub tests: Vec<&'static Test>,
}

/// States of a model in which a defect is looked for.
const DEFECT_SEEDS: u64 = 6;

/// What a qualification came to.
#[derive(Clone, Debug, Serialize)]
pub struct Qualification {
    /// Version of the catalogue.
    pub catalogue: String,
    /// Every test, with the defects that it catches.
    pub tests: Vec<QualifiedTest>,
    /// Every defect, with the tests of its statement that catch it.
    pub defects: Vec<QualifiedDefect>,
    /// Defects that no test of their statement catches.
    pub survived: Vec<String>,
    /// Sound models that a test did not pass.
    pub false_alarms: Vec<FalseAlarm>,
    /// Runs of one test on one model.
    pub cases: usize,
}

/// A test and the defects that it catches.
#[derive(Clone, Debug, Serialize)]
pub struct QualifiedTest {
    /// The test's id.
    pub id: String,
    /// Runs on sound models that it passed.
    pub passed: usize,
    /// Runs on sound models to which it does not apply.
    pub not_applicable: usize,
    /// Defects of its statements that it catches.
    pub catches: Vec<String>,
}

/// A defect and the tests that catch it.
#[derive(Clone, Debug, Serialize)]
pub struct QualifiedDefect {
    /// The defect's name.
    pub name: String,
    /// The statement that it breaks.
    pub statement: String,
    /// What it does.
    pub about: String,
    /// The model on which it was caught, or tried last.
    pub model: String,
    /// Tests of its statement that fail for it.
    pub killed_by: Vec<String>,
}

/// A sound model that a test did not pass.
#[derive(Clone, Debug, Serialize)]
pub struct FalseAlarm {
    /// The test.
    pub test: String,
    /// The model.
    pub model: String,
    /// The seed.
    pub seed: u64,
    /// What it came to.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
}

/// The sound models.
fn models() -> [(&'static str, Profile); 3] {
    [
        ("full", Profile::full()),
        ("minimal", Profile::minimal()),
        ("one-data-vl", Profile::one_data_vl()),
    ]
}

/// Runs and judges one test on one model, in simulated time.
#[must_use]
pub fn verdict_on(test: &'static Test, profile: Profile, defects: &[Defect], seed: u64, sweep: u64) -> Verdict {
    let key = profile.m_key;
    let mut rig = VirtualRig::new(profile, defects);
    // Beyond the range of the counter only where a defect is to be found: it takes a tenth of a second.
    let violations = if defects.is_empty() { 300 } else { 65_540 };
    let parameters = vec![
        ("illegal_parts".to_string(), sweep),
        ("violations".to_string(), violations),
    ];
    let case = Case {
        test,
        seed,
        parameters,
        catalogue: VERSION.into(),
    };
    let mut entries = Vec::new();
    run(
        &mut rig,
        &VirtualRig::info(key),
        &mut entries,
        &mut MemoryJournal::default(),
        &case,
    );
    judge(entries).expect("a record that was just made can be judged")
}

enum Job {
    Sound(usize, u64),
    Defect(Defect),
}

enum Result {
    Sound(&'static str, u64, Vec<Verdict>),
    Defect(QualifiedDefect, usize),
}

/// Qualifies the catalogue. `progress` is told how many of how many jobs are done.
pub fn qualify(extent: &Extent, progress: &(dyn Fn(usize, usize) + Sync)) -> Qualification {
    let jobs: Vec<Job> = (0..models().len())
        .flat_map(|model| (0..extent.seeds).map(move |seed| Job::Sound(model, seed)))
        .chain(
            Defect::ALL
                .iter()
                .filter(|defect| concerns(extent, **defect))
                .map(|defect| Job::Defect(*defect)),
        )
        .collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..extent.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(place) else { break };
                    let result = perform(job, extent);
                    results
                        .lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .push((place, result));
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    summary(
        extent,
        results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()),
    )
}

fn tests(extent: &Extent) -> impl Iterator<Item = &'static Test> + '_ {
    TESTS
        .iter()
        .copied()
        .filter(|test| extent.tests.is_empty() || extent.tests.iter().any(|wanted| wanted.id == test.id))
}

fn concerns(extent: &Extent, defect: Defect) -> bool {
    extent.tests.is_empty()
        || extent
            .tests
            .iter()
            .any(|test| test.statements.contains(&defect.statement()))
}

fn perform(job: &Job, extent: &Extent) -> Result {
    match job {
        Job::Sound(model, seed) => {
            let (name, profile) = &models()[*model];
            let profile = profile.clone().vary(*seed);
            let verdicts = tests(extent)
                .map(|test| verdict_on(test, profile.clone(), &[], *seed, extent.sweep))
                .collect();
            Result::Sound(name, *seed, verdicts)
        }
        Job::Defect(defect) => {
            let statement = defect.statement();
            let mut cases = 0;
            let mut came = QualifiedDefect {
                name: defect.name().into(),
                statement: statement.into(),
                about: defect.about().into(),
                model: String::new(),
                killed_by: Vec::new(),
            };
            for (name, profile) in models() {
                if !defect.shows_on(&profile) || !came.killed_by.is_empty() {
                    continue;
                }
                came.model = name.into();
                // Some defects show only in some states of the device: a port with one operational VL, say.
                for seed in 1..=DEFECT_SEEDS {
                    for test in tests(extent).filter(|test| test.statements.contains(&statement)) {
                        cases += 1;
                        if verdict_on(test, profile.clone().vary(seed), &[*defect], seed, extent.sweep).fails(statement)
                        {
                            came.killed_by.push(test.id.into());
                        }
                    }
                    if !came.killed_by.is_empty() {
                        break;
                    }
                }
            }
            Result::Defect(came, cases)
        }
    }
}

fn summary(extent: &Extent, mut results: Vec<(usize, Result)>) -> Qualification {
    results.sort_by_key(|(place, _)| *place);
    let mut qualification = Qualification {
        catalogue: VERSION.into(),
        tests: tests(extent)
            .map(|test| QualifiedTest {
                id: test.id.into(),
                passed: 0,
                not_applicable: 0,
                catches: Vec::new(),
            })
            .collect(),
        defects: Vec::new(),
        survived: Vec::new(),
        false_alarms: Vec::new(),
        cases: 0,
    };
    for (_, result) in results {
        match result {
            Result::Sound(model, seed, verdicts) => {
                for verdict in verdicts {
                    qualification.cases += 1;
                    let Some(test) = qualification.tests.iter_mut().find(|test| test.id == verdict.test) else {
                        continue;
                    };
                    match verdict.outcome {
                        Outcome::Pass => test.passed += 1,
                        Outcome::NotApplicable => test.not_applicable += 1,
                        outcome => qualification.false_alarms.push(FalseAlarm {
                            test: verdict.test,
                            model: model.into(),
                            seed,
                            outcome,
                            reason: verdict.reason,
                        }),
                    }
                }
            }
            Result::Defect(defect, cases) => {
                qualification.cases += cases;
                for id in &defect.killed_by {
                    if let Some(test) = qualification.tests.iter_mut().find(|test| test.id == *id) {
                        test.catches.push(defect.name.clone());
                    }
                }
                // A few chosen tests need not catch what others are there for.
                if defect.killed_by.is_empty() && extent.tests.len() == TESTS.len() {
                    qualification.survived.push(defect.name.clone());
                }
                qualification.defects.push(defect);
            }
        }
    }
    qualification
        .defects
        .sort_by(|a, b| (&a.statement, &a.name).cmp(&(&b.statement, &b.name)));
    qualification.survived.sort();
    for test in &mut qualification.tests {
        test.catches.sort();
    }
    qualification
        .false_alarms
        .sort_by(|a, b| (&a.test, &a.model, a.seed).cmp(&(&b.test, &b.model, b.seed)));
    qualification
}

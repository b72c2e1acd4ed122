//! The tests are tested: every test against sound models, which must not fail, and every defect of the
//! device model against the tests of its statement, one of which must fail for it.

mod defects;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use verbatim_catalog::{TESTS, VERSION, judge};
use verbatim_device::link::{LinkChoices, LinkDefect};
use verbatim_device::rc::RcDefect;
use verbatim_device::{Defect, Profile};
use verbatim_record::{Outcome, Side, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Case, MemoryJournal, RigInfo, Test, run};
use verbatim_wire::MKey;

pub use defects::unseen;
use defects::{AnyDefect, is_of_adapter, is_of_link};

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

/// The sound adapter, in reports.
const ADAPTER: &str = "adapter";

/// Runs and judges one test on one model of the management agents, in simulated time.
#[must_use]
pub fn verdict_on(test: &'static Test, profile: Profile, defects: &[Defect], seed: u64, sweep: u64) -> Verdict {
    let key = profile.m_key;
    let rig = VirtualRig::new(profile, defects);
    verdict(test, rig, &VirtualRig::info(key), seed, (sweep, defects.is_empty()))
}

/// Runs and judges one test of the link layer on one model, in simulated time: odd seeds make the other choices where the
/// architecture leaves one.
#[must_use]
pub fn verdict_on_link(test: &'static Test, profile: Profile, defects: &[LinkDefect], seed: u64) -> Verdict {
    let key = profile.m_key;
    let other = seed % 2 == 1;
    let choices = LinkChoices {
        corrupts_and_forwards: other,
        checks_icrc_in_transit: other,
        forwards_short_packets: other,
        takes_grh_on_vl15: other,
    };
    let rig = VirtualRig::new(profile, &[])
        .with_link_defects(defects)
        .with_link_choices(choices);
    verdict(test, rig, &VirtualRig::info(key), seed, (0, defects.is_empty()))
}

/// Runs and judges one test on one model of an adapter, in simulated time: seed 0 is the adapter as it is, others make
/// other choices where the architecture leaves one; odd seeds run over IPv6.
#[must_use]
pub fn verdict_on_adapter(test: &'static Test, defects: &[RcDefect], seed: u64) -> Verdict {
    let adapter = VirtualRig::adapter_profile(Side::Dut);
    let adapter = if seed == 0 { adapter } else { adapter.vary(seed) };
    let rig = VirtualRig::new(Profile::full(), &[]).with_adapter(adapter, defects);
    let info = if seed.is_multiple_of(2) {
        VirtualRig::info(MKey(0))
    } else {
        VirtualRig::info_over_ipv6(MKey(0))
    };
    verdict(test, rig, &info, seed, (0, defects.is_empty()))
}

fn verdict(
    test: &'static Test,
    mut rig: VirtualRig,
    info: &RigInfo,
    seed: u64,
    (sweep, sound): (u64, bool),
) -> Verdict {
    // Beyond the range of the counter only where a defect is to be found: it takes a tenth of a second.
    let violations = if sound { 300 } else { 65_540 };
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
    run(&mut rig, info, &mut entries, &mut MemoryJournal::default(), &case);
    judge(entries).expect("a record that was just made can be judged")
}

enum Job {
    Sound(usize, u64),
    SoundAdapter(u64),
    Defect(AnyDefect),
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
            (0..extent.seeds)
                .filter(|_| tests(extent).any(is_of_adapter))
                .map(Job::SoundAdapter),
        )
        .chain(
            AnyDefect::all()
                .filter(|defect| concerns(extent, *defect))
                .map(Job::Defect),
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

fn concerns(extent: &Extent, defect: AnyDefect) -> bool {
    extent.tests.is_empty()
        || extent
            .tests
            .iter()
            .any(|test| test.statements.contains(&defect.statement()) && defect.concerns(test))
}

fn perform(job: &Job, extent: &Extent) -> Result {
    match job {
        Job::Sound(model, seed) => {
            let (name, profile) = &models()[*model];
            let profile = profile.clone().vary(*seed);
            let verdicts = tests(extent)
                .filter(|test| !is_of_adapter(test))
                .map(|test| match is_of_link(test) {
                    true => verdict_on_link(test, profile.clone(), &[], *seed),
                    false => verdict_on(test, profile.clone(), &[], *seed, extent.sweep),
                })
                .collect();
            Result::Sound(name, *seed, verdicts)
        }
        Job::SoundAdapter(seed) => {
            let verdicts = tests(extent)
                .filter(|test| is_of_adapter(test))
                .map(|test| verdict_on_adapter(test, &[], *seed))
                .collect();
            Result::Sound(ADAPTER, *seed, verdicts)
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
            // Some defects show only in some states of the device: a port with one operational VL, say.
            let mut hunt = |model: &str, verdict: &dyn Fn(&'static Test, u64) -> Verdict| {
                came.model = model.into();
                for seed in 1..=DEFECT_SEEDS {
                    let of_statement = tests(extent).filter(|test| test.statements.contains(&statement));
                    for test in of_statement.filter(|test| defect.concerns(test)) {
                        cases += 1;
                        if verdict(test, seed).fails(statement) {
                            came.killed_by.push(test.id.into());
                        }
                    }
                    if !came.killed_by.is_empty() {
                        return true;
                    }
                }
                false
            };
            match defect {
                AnyDefect::Adapter(defect) => {
                    hunt(ADAPTER, &|test, seed| verdict_on_adapter(test, &[*defect], seed));
                }
                AnyDefect::Link(defect) => {
                    for (name, profile) in models() {
                        let on = |test, seed| verdict_on_link(test, profile.clone().vary(seed), &[*defect], seed);
                        if hunt(name, &on) {
                            break;
                        }
                    }
                }
                AnyDefect::Agent(defect) => {
                    let shows = models().into_iter().filter(|(_, profile)| defect.shows_on(profile));
                    for (name, profile) in shows {
                        let on =
                            |test, seed| verdict_on(test, profile.clone().vary(seed), &[*defect], seed, extent.sweep);
                        if hunt(name, &on) {
                            break;
                        }
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

//! Qualification checks the tests themselves. Every test runs on sound models, which have no defects, and must not
//! fail. Every defect of the device model runs against the tests of its statement, and one of these tests must fail.
//!
//! There are two sets of rules. With the rules of simulated time no packet is lost. With the rules of hardware any
//! packet may be lost. Sound models then have links that lose, swap and delay packets, and parameters have their usual
//! values for hardware.
//!
//! Each case is a run on a rig of kind `virtual`, which `verbatim run` can repeat: [`command()`] returns the command
//! line.

mod defects;
mod exceptions;
mod models;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use verbatim_catalog::{TESTS, VERSION};
use verbatim_oracle::measured;
use verbatim_record_proto::v1::{Outcome, RunSpec, Verdict};
use verbatim_rig::{RigConfig, RigKind, VirtualConfig};
use verbatim_tester::Test;

use crate::command::command;
use crate::execute::{Request, execute};
use crate::id::RunId;

pub use defects::{AnyDefect, unseen};
pub use exceptions::{EXCEPTIONS, Exception};
pub use models::{Model, sound_models};

/// The rules by which a record is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rules {
    /// No packet is lost, and times are exact.
    Simulated,
    /// Packets may be lost, late or out of order.
    Hardware,
}

impl Rules {
    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Hardware => "hardware",
        }
    }
}

/// The extent of a qualification.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The rules.
    pub rules: Rules,
    /// Number of seeds for each sound model; they start at 0.
    pub seeds: u64,
    /// Number of illegal values in a sweep. Legal values are always tried.
    pub sweep: u64,
    /// Number of threads.
    pub threads: usize,
    /// The tests to qualify. Survivors are listed only if these are all tests of the catalogue.
    pub tests: Vec<&'static Test>,
    /// The sound models. A test that fails on one is a false alarm.
    pub models: Vec<Model>,
    /// The defects to run. A defect runs only if at least one of the tests is for it.
    pub defects: Vec<AnyDefect>,
    /// Whether all tests for a defect run with the defect. If not, the tests run until one catches the defect.
    pub every: bool,
}

/// Number of seeds of a model for each defect.
const DEFECT_SEEDS: u64 = 6;
/// Number of rows of a covering array in one run.
const ROWS: u64 = 10;
/// Number of violations that a test of error counters provokes on a sound model.
const VIOLATIONS: u64 = 300;
/// The number on a model with a defect. It exceeds the range of the counters, and takes a tenth of a second.
const VIOLATIONS_BEYOND_THE_COUNTER: u64 = 65_540;

/// The result of a qualification.
#[derive(Clone, Debug, Serialize)]
pub struct Qualification {
    /// The rules.
    pub rules: Rules,
    /// Version of the catalogue.
    pub catalogue: String,
    /// Whether all tests for a defect ran with the defect. If not, `catches` and `killed_by` contain only the
    /// first test that caught the defect.
    pub every: bool,
    /// The result of every test, with the defects that it catches.
    pub tests: Vec<QualifiedTest>,
    /// The result of every defect, with the tests of its statement that catch it.
    pub defects: Vec<QualifiedDefect>,
    /// Defects that no test of their statement catches.
    pub survived: Vec<String>,
    /// Defects that appear on hardware only with a parameter other than the usual one.
    pub excepted: Vec<Excepted>,
    /// Exceptions that are not needed: the defect is caught with the usual parameters.
    pub stale: Vec<String>,
    /// Sound models on which a test did not pass.
    pub false_alarms: Vec<FalseAlarm>,
    /// Total number of runs, each of one test on one model.
    pub cases: usize,
    /// Largest number of alternatives that the transport oracle tracked at once, over all runs.
    pub largest_state_set: usize,
}

impl Qualification {
    /// Returns whether every defect was caught or excepted, no exception is stale, and there was no false alarm.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.survived.is_empty() && self.stale.is_empty() && self.false_alarms.is_empty()
    }
}

/// A defect that appears on hardware only with a parameter other than the usual one.
#[derive(Clone, Debug, Serialize)]
pub struct Excepted {
    /// The defect's name.
    pub defect: String,
    /// The reason why the usual parameters do not show the defect.
    pub reason: String,
    /// The parameter that shows the defect, in the form of `--set`.
    pub set: String,
}

/// The result of a test, with the defects that it catches.
#[derive(Clone, Debug, Serialize)]
pub struct QualifiedTest {
    /// The test's id.
    pub id: String,
    /// Number of runs on sound models that passed.
    pub passed: usize,
    /// Number of runs on sound models to which the test does not apply.
    pub not_applicable: usize,
    /// Number of undecided runs on sound models behind a link that loses, swaps or delays packets.
    pub inconclusive: usize,
    /// Names of the defects that the test catches, among those of its statements.
    pub catches: Vec<String>,
}

/// The result of a defect, with the tests that catch it.
#[derive(Clone, Debug, Serialize)]
pub struct QualifiedDefect {
    /// The defect's name.
    pub name: String,
    /// The statement that the defect breaks.
    pub statement: String,
    /// Description of the defect.
    pub about: String,
    /// Name of the model on which a test caught the defect, or of the last model tried.
    pub model: String,
    /// Ids of the tests that fail with the defect, among those of its statement.
    pub killed_by: Vec<String>,
    /// The parameter that shows the defect on hardware, if the usual parameters do not.
    pub set: Option<String>,
    /// The command that repeats the failing tests, or else the last tries.
    pub repeat: String,
}

/// A run on a sound model that did not pass.
#[derive(Clone, Debug, Serialize)]
pub struct FalseAlarm {
    /// Id of the test.
    pub test: String,
    /// Name of the model.
    pub model: String,
    /// The seed.
    pub seed: u64,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Reason of the verdict.
    pub reason: String,
    /// The command that repeats the run.
    pub repeat: String,
}

impl Extent {
    /// Returns the run of a test on a sound model with a seed.
    #[must_use]
    pub fn case(&self, model: &Model, test: &'static Test, seed: u64) -> Request {
        let mut config = model.for_test(test, seed);
        if self.rules == Rules::Hardware {
            config.disturbance = models::disturbance(seed);
        }
        self.request(&[test], config, seed, &[("violations", VIOLATIONS)])
    }

    /// Returns the runs of all tests for a sound model with a seed, without a disturbed link. With seed 1 of the first
    /// model, key violations exceed the counter's range, as in the runs with a defect.
    #[must_use]
    pub fn undisturbed(&self, model: &Model, seed: u64) -> Vec<Request> {
        let is_first = seed == 1 && self.models.first().is_some_and(|first| first.name == model.name);
        let violations = if is_first {
            VIOLATIONS_BEYOND_THE_COUNTER
        } else {
            VIOLATIONS
        };
        let parameters = [("violations", violations)];
        let tests = self.tests.iter().filter(|test| model.is_for(test));
        let runs = tests.map(|test| self.request(&[test], model.for_test(test, seed), seed, &parameters));
        runs.collect()
    }

    /// Returns the verdicts of all tests for a defect, once per model and seed with which the defect may show.
    pub(crate) fn verdicts_of(&self, defect: AnyDefect) -> impl Iterator<Item = Vec<Verdict>> + '_ {
        let (tests, states) = places(self, defect);
        let parameters = [("violations", VIOLATIONS_BEYOND_THE_COUNTER)];
        states.into_iter().map(move |(model, seed)| {
            let of = |test: &'static Test| {
                let device = defect.put_into(model.for_test(test, seed));
                verdict(&self.request(&[test], device, seed, &parameters))
            };
            tests.iter().copied().map(of).collect()
        })
    }

    /// Returns a run of tests on a rig with a seed, as `verbatim run` would run them. Sweeps and covering arrays
    /// are shorter than usual. `simulated` are further parameters, which apply only with the rules of simulated
    /// time. With the rules of hardware, these have their usual values.
    fn request(
        &self,
        tests: &[&'static Test],
        mut model: VirtualConfig,
        seed: u64,
        simulated: &[(&str, u64)],
    ) -> Request {
        model.rules_of_hardware = self.rules == Rules::Hardware;
        let extent = [("illegal_parts", self.sweep), ("rows", ROWS)];
        let parameters = match self.rules {
            Rules::Simulated => [&extent, simulated].concat(),
            Rules::Hardware => extent.to_vec(),
        };
        self.request_with(tests, model, seed, &parameters)
    }

    /// Returns a run with these parameters, as far as one of the tests declares them.
    fn request_with(
        &self,
        tests: &[&'static Test],
        model: VirtualConfig,
        seed: u64,
        parameters: &[(&str, u64)],
    ) -> Request {
        let declared = |name: &str| tests.iter().flat_map(|test| test.parameters).find(|of| of.name == name);
        let parameters = parameters.iter().filter_map(|(name, value)| {
            let (least, most) = declared(name)?.range;
            Some((name.to_string(), *value.clamp(&least, &most)))
        });
        let rig = if model.infiniband {
            RigConfig::pair_of(model)
        } else {
            RigConfig::built_in(model)
        };
        Request {
            id: RunId::new(0, 0),
            spec: RunSpec {
                rig: rig.name.clone(),
                patterns: tests.iter().map(|test| test.id.into()).collect(),
                parameters: parameters.collect(),
                seed,
                exit_first: false,
            },
            rig,
            record: None,
            cancel: Arc::default(),
            shrinks: false,
            rig_options: String::new(),
            lease: Arc::default(),
        }
    }
}

/// Returns the verdict of a run with one test.
fn verdict(request: &Request) -> Verdict {
    let report = execute(request, &mut |_| {});
    let mut report = report.expect("a run on a device model that keeps no record");
    report.verdicts.remove(0)
}

enum Job<'a> {
    Sound(&'a Model, u64),
    Defect(AnyDefect),
}

enum Result {
    /// The verdict of each case, with the false alarm if there is one.
    Sound(Vec<(Verdict, Option<FalseAlarm>)>),
    Defect(QualifiedDefect, usize),
}

/// Qualifies the catalogue. Calls `progress` with the number of finished jobs and of all jobs.
pub fn qualify(extent: &Extent, progress: &(dyn Fn(usize, usize) + Sync)) -> Qualification {
    let concerns = |defect: &AnyDefect| extent.tests.iter().any(|test| defect.concerns(test));
    let sound = extent
        .models
        .iter()
        .flat_map(|model| (0..extent.seeds).map(move |seed| Job::Sound(model, seed)));
    let defects = extent.defects.iter().copied().filter(concerns).map(Job::Defect);
    let jobs: Vec<_> = sound.chain(defects).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let largest = AtomicUsize::new(1);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..extent.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(place) else { break };
                    let (result, held) = measured(|| match job {
                        Job::Sound(model, seed) => Result::Sound(on_sound(extent, model, *seed)),
                        Job::Defect(defect) => hunt(extent, *defect),
                    });
                    largest.fetch_max(held, Ordering::Relaxed);
                    results
                        .lock()
                        .unwrap_or_else(|poisoned| poisoned.into_inner())
                        .push((place, result));
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
                }
            });
        }
    });
    Qualification {
        largest_state_set: largest.into_inner(),
        ..summary(
            extent,
            results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }
}

fn on_sound(extent: &Extent, model: &Model, seed: u64) -> Vec<(Verdict, Option<FalseAlarm>)> {
    let tests = extent.tests.iter().filter(|test| model.is_for(test));
    let judged = tests.map(|test| {
        let request = extent.case(model, test, seed);
        let verdict = verdict(&request);
        let is_alarm = match verdict.outcome() {
            Outcome::Pass | Outcome::NotApplicable => false,
            // The verdict may have needed a packet that was lost or late.
            Outcome::Inconclusive => !request.rig.is_disturbed(),
            _ => true,
        };
        let alarm = is_alarm.then(|| FalseAlarm {
            test: verdict.test.clone(),
            model: model.name.into(),
            seed,
            outcome: verdict.outcome(),
            reason: verdict.reason.clone(),
            repeat: command(&request),
        });
        (verdict, alarm)
    });
    judged.collect()
}

/// Returns the tests for a defect, the most specific tests first, and the models and seeds with which the defect
/// may show.
fn places(extent: &Extent, defect: AnyDefect) -> (Vec<&'static Test>, Vec<(&Model, u64)>) {
    let concerned = extent.tests.iter().copied().filter(|test| defect.concerns(test));
    let mut tests: Vec<_> = concerned.collect();
    let is_for = |test: &&'static Test| {
        let place = test.statements.iter().position(|of| *of == defect.statement());
        (place, test.statements.len())
    };
    tests.sort_by_key(is_for);
    let shows = |model: &&Model| {
        !model.is_drawn() && tests.iter().any(|test| model.is_for(test)) && defect.shows_on(&model.config)
    };
    let of = |model| (1..=DEFECT_SEEDS).map(move |seed| (model, seed));
    let states = extent.models.iter().filter(shows).flat_map(of).collect();
    (tests, states)
}

/// Runs the tests for a defect on each model in turn. Some defects show only in certain states of the device, for
/// example with one operational VL.
fn hunt(extent: &Extent, defect: AnyDefect) -> Result {
    let statement = defect.statement();
    let (tests, states) = places(extent, defect);
    let mut cases = 0;
    let mut came = QualifiedDefect {
        name: defect.name().into(),
        statement: statement.into(),
        about: defect.about().into(),
        model: String::new(),
        killed_by: Vec::new(),
        set: None,
        repeat: String::new(),
    };
    let exception = match extent.rules {
        Rules::Hardware => EXCEPTIONS.iter().find(|exception| exception.defect == defect.name()),
        Rules::Simulated => None,
    };
    for exception in [None, exception].into_iter().take(1 + usize::from(exception.is_some())) {
        for (model, seed) in &states {
            let request = |tests: &[&'static Test]| {
                let device = defect.put_into(model.for_test(tests[0], *seed));
                let usual = extent.request(tests, device, *seed, &[("violations", VIOLATIONS_BEYOND_THE_COUNTER)]);
                let Some((RigKind::Virtual(device), exception)) = Some(usual.rig.kind.clone()).zip(exception) else {
                    return usual;
                };
                extent.request_with(tests, device, *seed, &[exception.set])
            };
            let mut killers: Vec<&'static Test> = Vec::new();
            for test in &tests {
                cases += 1;
                if verdict(&request(&[*test])).fails(statement) {
                    killers.push(test);
                    if !extent.every {
                        break;
                    }
                }
            }
            came.model = model.name.into();
            came.set = exception.map(Exception::set);
            came.repeat = command(&request(if killers.is_empty() { &tests } else { &killers }));
            if !killers.is_empty() {
                came.killed_by = killers.iter().map(|test| test.id.into()).collect();
                return Result::Defect(came, cases);
            }
        }
    }
    Result::Defect(came, cases)
}

fn summary(extent: &Extent, mut results: Vec<(usize, Result)>) -> Qualification {
    results.sort_by_key(|(place, _)| *place);
    let mut qualification = Qualification {
        rules: extent.rules,
        catalogue: VERSION.into(),
        every: extent.every,
        tests: extent
            .tests
            .iter()
            .map(|test| QualifiedTest {
                id: test.id.into(),
                passed: 0,
                not_applicable: 0,
                inconclusive: 0,
                catches: Vec::new(),
            })
            .collect(),
        defects: Vec::new(),
        survived: Vec::new(),
        excepted: Vec::new(),
        stale: Vec::new(),
        false_alarms: Vec::new(),
        cases: 0,
        largest_state_set: 1,
    };
    for (_, result) in results {
        match result {
            Result::Sound(judged) => {
                for (verdict, alarm) in judged {
                    qualification.cases += 1;
                    let test = qualification.tests.iter_mut().find(|test| test.id == verdict.test);
                    match (verdict.outcome(), test) {
                        (Outcome::Pass, Some(test)) => test.passed += 1,
                        (Outcome::NotApplicable, Some(test)) => test.not_applicable += 1,
                        (Outcome::Inconclusive, Some(test)) if alarm.is_none() => test.inconclusive += 1,
                        _ => qualification.false_alarms.extend(alarm),
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
                let exception = EXCEPTIONS.iter().find(|exception| exception.defect == defect.name);
                let exception = exception.filter(|_| extent.rules == Rules::Hardware && !defect.killed_by.is_empty());
                match (exception, &defect.set) {
                    (Some(exception), Some(set)) => qualification.excepted.push(Excepted {
                        defect: defect.name.clone(),
                        reason: exception.reason.into(),
                        set: set.clone(),
                    }),
                    (Some(_), None) => qualification.stale.push(defect.name.clone()),
                    _ => {}
                }
                // If only some tests were selected, a defect that they do not catch has not survived.
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
    qualification.excepted.sort_by(|a, b| a.defect.cmp(&b.defect));
    for test in &mut qualification.tests {
        test.catches.sort();
    }
    qualification
        .false_alarms
        .sort_by(|a, b| (&a.test, &a.model, a.seed).cmp(&(&b.test, &b.model, b.seed)));
    qualification
}

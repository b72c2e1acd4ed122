//! The tests are tested: every test on sound models, which must not fail, and every defect of the device model against the
//! tests of its statement, one of which must fail for it.
//!
//! By two sets of rules: of simulated time, where nothing is lost, and of hardware, where anything may be. By the second,
//! sound models stand behind links that lose, swap and delay, and parameters are those that are usual on hardware.
//!
//! Each case is a run on a rig of kind `virtual`, so that `verbatim run` can repeat it: [`command()`] says how.

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

/// What a record is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rules {
    /// Nothing is lost, and time is exact.
    Simulated,
    /// Anything may be lost, late or out of order.
    Hardware,
}

impl Rules {
    /// As people type it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Hardware => "hardware",
        }
    }
}

/// How far a qualification goes.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The rules.
    pub rules: Rules,
    /// Seeds from 0 on, for each sound model.
    pub seeds: u64,
    /// Illegal values that a sweep tries; the legal ones are always tried.
    pub sweep: u64,
    /// Threads.
    pub threads: usize,
    /// These tests. Defects count as survivors only when they are all of the catalogue.
    pub tests: Vec<&'static Test>,
    /// These models, none of which a test may fail.
    pub models: Vec<Model>,
    /// These defects, those of them that one of the tests is there for.
    pub defects: Vec<AnyDefect>,
    /// Every test that is there for a defect is tried with it, to tell all that catch it; else they are tried until one does.
    pub every: bool,
}

/// States of a model in which a defect is looked for.
const DEFECT_SEEDS: u64 = 6;
/// Violations of a key on a sound model.
const VIOLATIONS: u64 = 300;
/// The same where a defect is to be found: beyond the range of the counter, which takes a tenth of a second.
const VIOLATIONS_BEYOND_THE_COUNTER: u64 = 65_540;

/// What a qualification came to.
#[derive(Clone, Debug, Serialize)]
pub struct Qualification {
    /// The rules.
    pub rules: Rules,
    /// Version of the catalogue.
    pub catalogue: String,
    /// Whether every test that is there for a defect was tried with it; else `catches` and `killed_by` name the first that caught
    /// it.
    pub every: bool,
    /// Every test, with the defects that it catches.
    pub tests: Vec<QualifiedTest>,
    /// Every defect, with the tests of its statement that catch it.
    pub defects: Vec<QualifiedDefect>,
    /// Defects that no test of their statement catches.
    pub survived: Vec<String>,
    /// Defects that show on hardware only with other parameters than the usual ones.
    pub excepted: Vec<Excepted>,
    /// Exceptions that are none: the defect is caught with the usual parameters.
    pub stale: Vec<String>,
    /// Sound models that a test did not pass.
    pub false_alarms: Vec<FalseAlarm>,
    /// Runs of one test on one model.
    pub cases: usize,
    /// The most alternatives that the transport oracle has held at once in one of all these runs.
    pub largest_state_set: usize,
}

impl Qualification {
    /// Whether every defect was caught, or with reason is not, and no sound model was failed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.survived.is_empty() && self.stale.is_empty() && self.false_alarms.is_empty()
    }
}

/// A defect that shows on hardware only with other parameters than the usual ones.
#[derive(Clone, Debug, Serialize)]
pub struct Excepted {
    /// The defect's name.
    pub defect: String,
    /// Why the usual parameters do not show it.
    pub reason: String,
    /// What shows it, as `--set` takes it.
    pub set: String,
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
    /// Runs on sound models behind a link that loses, swaps or delays, which could not be decided.
    pub inconclusive: usize,
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
    /// The parameters that it takes to catch it, where those that are usual on hardware do not.
    pub set: Option<String>,
    /// The command that shows it again: the tests that fail for it, or all that were tried last.
    pub repeat: String,
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
    /// The command that repeats it.
    pub repeat: String,
}

impl Extent {
    /// The run of a test on a sound model in the state of a seed.
    #[must_use]
    pub fn case(&self, model: &Model, test: &'static Test, seed: u64) -> Request {
        let mut config = model.for_test(test, seed);
        if self.rules == Rules::Hardware {
            config.disturbance = models::disturbance(seed);
        }
        self.request(&[test], config, seed, &[("violations", VIOLATIONS)])
    }

    /// The runs of all tests that are for a sound model, in the state of a seed, where nothing is lost on the way. In the first
    /// state of the first model counters are driven beyond their ranges, as where a defect is looked for.
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

    /// Of one state after the other in which a defect may show, the verdicts of all tests that are there for it.
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

    /// Tests on a rig in a state, as `verbatim run` would run them. By the rules of hardware parameters are as usual there, but
    /// for the length of a sweep: what is left out of it comes last.
    fn request(
        &self,
        tests: &[&'static Test],
        mut model: VirtualConfig,
        seed: u64,
        simulated: &[(&str, u64)],
    ) -> Request {
        model.rules_of_hardware = self.rules == Rules::Hardware;
        let sweep = [("illegal_parts", self.sweep)];
        let parameters = match self.rules {
            Rules::Simulated => [&sweep, simulated].concat(),
            Rules::Hardware => sweep.to_vec(),
        };
        self.request_with(tests, model, seed, &parameters)
    }

    /// The same with these parameters, as far as a test has them.
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
        let rig = RigConfig::built_in(model);
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

/// The verdict of a run of one test.
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
    /// Of each case its verdict, and the alarm if it is one.
    Sound(Vec<(Verdict, Option<FalseAlarm>)>),
    Defect(QualifiedDefect, usize),
}

/// Qualifies the catalogue. `progress` is told how many of how many jobs are done.
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
            // What was lost or late may have been what would have decided it.
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

/// The tests that are there for a defect, first those that are there for little else, and the states of models in which it may
/// show.
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

/// Looks for a defect on one model after the other. Some show only in some states of the device: a port with one
/// operational VL, say.
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
    qualification.excepted.sort_by(|a, b| a.defect.cmp(&b.defect));
    for test in &mut qualification.tests {
        test.catches.sort();
    }
    qualification
        .false_alarms
        .sort_by(|a, b| (&a.test, &a.model, a.seed).cmp(&(&b.test, &b.model, b.seed)));
    qualification
}
